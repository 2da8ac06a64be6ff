"""One rank of a job: a ring over TCP on the loopback interface, in which each step a number goes round.

Arguments: a folder that the ranks share, what this rank does (see DEEDS), and after how many steps it does it. Ranks write `at.RANK`
into the folder when they begin that, and `step.RANK` for each step.
"""
import ctypes, os, select, socket, sys, threading, time

folder, deed, after = sys.argv[1], sys.argv[2], int(sys.argv[3])
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
libc = ctypes.CDLL(None, use_errno=True)


def write(name, text=""):
    with open(os.path.join(folder, name + ".part"), "w") as file:
        file.write(text)
    os.rename(os.path.join(folder, name + ".part"), os.path.join(folder, name))


def wait_for(name):
    path = os.path.join(folder, name)
    while not os.path.exists(path):
        time.sleep(0.01)
    return open(path).read()


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def heart():
    while True:
        time.sleep(0.1)


def stalled_mount():
    """A FUSE mount whose server answers nothing, in a mount namespace of this process's own."""
    point = os.path.join(folder, "data")
    os.makedirs(point)
    if libc.unshare(0x00020000) or libc.mount(b"none", b"/", None, 0x44000, None):
        raise OSError(ctypes.get_errno(), "unshare")
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"storage:/data", point.encode(), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    # The kernel waits for the answer to its first message only before the first request.
    return point


def loader():
    """A process below this one reads a FIFO that nobody writes, and this one waits for it."""
    path = os.path.join(folder, "batches")
    os.mkfifo(path)
    ours, theirs = os.pipe()
    if os.fork() == 0:
        batch = os.open(path, os.O_RDWR)
        os.write(theirs, os.read(batch, 1))
        os._exit(0)
    os.read(ours, 1)


def fifo():
    path = os.path.join(folder, "fifo")
    os.mkfifo(path)
    os.read(os.open(path, os.O_RDWR), 1)


def spin():
    while True:
        pass


def sleep():
    while True:
        time.sleep(1000)


def doze():
    while True:
        time.sleep(0.2)


def poll():
    """Looks again and again whether something came, as a loader's main process does."""
    while True:
        select.select([], [], [], 0.2)


def file():
    os.stat(os.path.join(stalled_mount(), "shard-0"))


def checkpoint():
    with open(os.path.join(folder, "checkpoint"), "wb") as out:
        while True:
            out.seek(0)
            out.write(os.urandom(1 << 20))
            os.fsync(out.fileno())


def skip():
    """Leaves out a message: all wait for each other."""
    return


def elsewhere():
    """Waits for a message of nobody in the same call of the kernel as the others."""
    ours, theirs = socket.socketpair()
    while True:
        ours.recv(1)


def recorder():
    """A stand-in of PyTorch's flight recorder: for each message in its pipe it writes a dump that lies ready, in two parts."""
    prefix = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"]
    os.mkfifo(f"{prefix}{rank}.pipe")
    pipe = os.open(f"{prefix}{rank}.pipe", os.O_RDWR)
    while True:
        os.read(pipe, 128)
        ready = open(os.path.join(os.environ["DUMPS"], f"nccl_trace_rank_{rank}"), "rb").read()
        with open(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{rank}", "wb") as dump:
            dump.write(ready[: len(ready) // 2])
            dump.flush()
            time.sleep(0.3)
            dump.write(ready[len(ready) // 2 :])


def mapped():
    """Reads a file that it has mapped again and again, and lets the kernel forget it in between."""
    import mmap
    path = os.path.join(folder, "shard")
    with open(path, "wb") as out:
        out.write(os.urandom(8 << 20))
        os.fsync(out.fileno())
    while True:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as pages:
            pages.madvise(mmap.MADV_RANDOM)
            sum(pages[at] for at in range(0, len(pages), 4096))
        os.close(file)


def nothing():
    ours, theirs = socket.socketpair()
    ours.recv(1)


def proxy():
    """A thread that moves a rank's data, as NCCL has one: it spins in all ranks but one, where it waits for a pipe."""
    libc.prctl(15, b"proxy", 0, 0, 0)
    if rank == 2:
        os.read(os.pipe()[0], 1)
    spin()


def progress():
    threading.Thread(target=proxy, daemon=True).start()
    nothing()


DEEDS = {
    "fifo": fifo, "loader": loader, "spin": spin, "sleep": sleep, "doze": doze, "poll": poll, "file": file,
    "checkpoint": checkpoint, "evaluate": spin, "skip": skip, "progress": progress,
    "elsewhere": elsewhere, "mapped": mapped,
}

if "MAPS" in os.environ:
    # As a library that the rank uses is.
    import mmap
    mapped = mmap.mmap(os.open(os.environ["MAPS"], os.O_RDONLY), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)

threading.Thread(target=heart, daemon=True).start()
if "DUMPS" in os.environ:
    threading.Thread(target=recorder, daemon=True).start()
listener = socket.create_server(("127.0.0.1", 0))
write(f"port.{rank}", str(listener.getsockname()[1]))
right = socket.create_connection(("127.0.0.1", int(wait_for(f"port.{(rank + 1) % ranks}"))))
left, _ = listener.accept()
if "SPINS" in os.environ:
    left.setblocking(False)


def receive():
    while True:
        try:
            got = left.recv(64)
        except BlockingIOError:
            continue
        except ConnectionError:
            got = b""
        if not got:
            # The neighbour is gone, and this one waits on, as ranks of NCCL do.
            nothing()
        return got


def send():
    try:
        right.sendall(b"x")
    except ConnectionError:
        nothing()


step = 0
while True:
    if deed in DEEDS and step == after:
        write(f"at.{rank}")
        DEEDS[deed]()
    if deed == "skip" and step == after:
        receive()
    if deed == "slow":
        time.sleep(0.3)
    compute(float(os.environ.get("STEP", "0.002")))
    # All ranks meet in each step: a token goes round twice.
    for _ in range(2):
        if rank == 0:
            send()
            receive()
        else:
            receive()
            send()
    step += 1
    if step % 5 == 0 or step < 5:
        write(f"step.{rank}", str(step))
