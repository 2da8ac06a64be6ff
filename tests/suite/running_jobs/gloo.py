"""One rank of a job of PyTorch over gloo, which adds a tensor over all ranks in each step.

Arguments: a folder that the ranks share, what this rank does, and after how many steps it does it. Ranks write `at.RANK` into the folder when they
begin that, and `step.RANK` for each step.
"""
import os, signal, sys, time
import torch, torch.distributed as dist

folder, deed, after = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def write(name, text=""):
    with open(os.path.join(folder, name + ".part"), "w") as file:
        file.write(text)
    os.rename(os.path.join(folder, name + ".part"), os.path.join(folder, name))


class Batches(torch.utils.data.Dataset):
    """A data set of which one item never comes."""

    def __len__(self):
        return 64

    def __getitem__(self, at):
        if deed == "loader" and at >= after:
            write(f"at.{rank}")
            os.mkfifo(os.path.join(folder, "batch"))
            open(os.path.join(folder, "batch")).read()
        return torch.ones(8)


def reduce(size):
    dist.all_reduce(torch.ones(size))


def train():
    batches = iter(torch.utils.data.DataLoader(Batches(), num_workers=1)) if deed == "loader" else None
    step = 0
    while True:
        if batches:
            next(batches)
        if step == after and deed not in ("", "loader", "slow"):
            write(f"at.{rank}")
        if deed == "stop" and step == after:
            os.kill(os.getpid(), signal.SIGSTOP)
        if deed == "sleep" and step == after:
            time.sleep(10000)
        if deed == "slow":
            time.sleep(0.3)
        if deed == "other" and step == after:
            dist.barrier()
        if deed == "checkpoint" and step >= after:
            torch.save(torch.ones(1 << 18), os.path.join(folder, "checkpoint"))
        end = time.monotonic() + float(os.environ.get("STEP", "0.01"))
        while time.monotonic() < end:
            torch.ones(64, 64) @ torch.ones(64, 64)
        reduce(2000 if deed == "size" and step == after else 1000)
        step += 1
        write(f"step.{rank}", str(step))


torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
train()
