//! What happens to a log on its way: other programs write into it, and lines are torn, coloured and stamped.

use super::rng::Rng;

/// Lines that programs write beside NCCL's, and that look like trouble or like its own lines.
const NOISE: [&str; 16] = [
    "step 120/5000 | loss 2.3101 | error 0.0021 | lr 1e-4 | tokens/s 41233",
    "/usr/lib/python3/site-packages/torch/utils/checkpoint.py:460: UserWarning: torch.utils.checkpoint: please pass in use_reentrant=True or use_reentrant=False explicitly.",
    "W1121 10:40:01.123000 140123 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
    "Epoch 3:  41%|████      | 512/1250 [05:12<07:30,  1.64it/s, loss=2.31]\rEpoch 3:  41%|████      | 513/1250 [05:13<07:29,  1.64it/s, loss=2.30]",
    "INFO:root:using NCCL backend for collectives, world size from the environment",
    "tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
    "validation error rate 0.0312 (best 0.0299)",
    "[2026-11-21 10:40:07,101] [INFO] [logging.py:96:log_dist] [Rank 0] step=120, skipped=0, lr=[0.0001], mom=[(0.9, 0.95)]",
    "{\"level\": \"info\", \"msg\": \"retrying upload to object store\", \"attempt\": 2, \"error\": \"timeout\"}",
    "wandb: Network error (ReadTimeout), entering retry loop.",
    "srun: Job step created",
    "warning: unused variable 'ranks' [-Wunused-variable]",
    "DataLoader worker (pid 4711) started",
    "Fetching 12 files: 100%|██████████| 12/12 [00:00<00:00, 81.92it/s]",
    "NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=eth0 torchrun --nnodes 2 train.py",
    "W20261121 10:40:07 utils.cpp:13] an unrelated warning of a library",
];

/// The log as it arrives. Half of all logs have torn lines, a third has a time before each line; some have colours, and ends of lines
/// as Windows writes them.
pub(crate) fn weathered(text: &str, seed: u64) -> String {
    let mut rng = Rng::new(seed ^ 0x57ea_7e43);
    let torn = rng.below(2) == 0;
    let stamped = rng.below(3) == 0;
    let coloured = rng.below(5) == 0;
    let end = if rng.below(5) == 0 { "\r\n" } else { "\n" };
    let mut out = String::with_capacity(text.len() * 2);
    let mut lines = text.lines().enumerate().peekable();
    let stamp = |at: usize| match stamped {
        true => format!(
            "2026-11-21T10:{:02}:{:02}.{:06}Z ",
            at / 6000 % 60,
            at / 100 % 60,
            at % 100 * 7
        ),
        false => String::new(),
    };
    while let Some((at, line)) = lines.next() {
        if rng.below(5) == 0 {
            let noise = *rng.pick(&NOISE);
            out.push_str(&format!("{}{noise}{end}", stamp(at)));
        }
        let line = match coloured && line.contains("NCCL WARN") {
            true => line.replace("NCCL WARN", "\u{1b}[33mNCCL WARN\u{1b}[0m"),
            false => line.to_owned(),
        };
        let line = format!("{}{line}", stamp(at));
        // Every two-hundredth line is torn, unless it is one that a single process writes once: then nobody could know.
        let tear = torn && rng.below(200) == 0 && line.contains("NCCL INFO");
        let cut = line.floor_char_boundary(rng.below(line.len().max(1)));
        if !tear {
            out.push_str(&line);
        } else {
            match rng.below(3) {
                // A pipe ends in the middle.
                0 => out.push_str(&format!("{}{end}{}", &line[..cut], &line[cut..])),
                // Another process writes in between.
                1 => match lines.next() {
                    Some((_, other)) => {
                        out.push_str(&format!("{}{other}{end}{}", &line[..cut], &line[cut..]));
                    }
                    None => out.push_str(&line),
                },
                // The end of the line is lost.
                _ => match lines.next() {
                    Some((_, other)) => out.push_str(&format!("{line}{other}")),
                    None => out.push_str(&line),
                },
            }
        }
        out.push_str(end);
    }
    out
}
