//! Reading the log of a large job: its own generator, and the figures.
//!
//! `BENCH_LOG_MB=1000` is how large the log is; without it, 1000.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::tree::Tree;
use super::{Figure, PROGRAM, run};

const RANKS: u64 = 512;
const GPUS: u64 = 8;
const CHANNELS: u64 = 16;
/// Bytes of the log for each second that reading it may take.
const TARGET: u64 = 400_000_000;
const TIMES: usize = 3;

/// The figures.
pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let megabytes: u64 = match std::env::var("BENCH_LOG_MB") {
        Ok(text) => text.parse().context("BENCH_LOG_MB is no number")?,
        Err(_) => 1000,
    };
    let store = Tree::empty("log")?;
    let path = store.path().join("job.log");
    let size = write(&path, megabytes * 1_000_000)?;
    let path = path.to_str().context("a path in UTF-8")?;
    let read = run::median(TIMES, PROGRAM, &["log", "--quiet", path])?;
    let one = run::median(TIMES, "grep", &["-c", "NCCL", path])?.wall;
    let five = "WARN|Using network|via NET|Init COMPLETE|set by environment";
    let grep = run::median(TIMES, "grep", &["-cE", five, path])?.wall;
    // Not on every machine.
    let ripgrep = run::median(TIMES, "rg", &["-c", five, path]).ok();
    let rate = size as f64 / read.wall.as_secs_f64();
    let allowed = Duration::from_secs_f64(size as f64 / TARGET as f64);
    let name = format!("log of {RANKS} ranks, {} MB", size / 1_000_000);
    let speed = Figure {
        measured: format!("{:.0} MB/s", rate / 1e6),
        target: format!("> {} MB/s", TARGET / 1_000_000),
        ..Figure::time(name, read.wall, allowed)
    };
    let mut figures = vec![
        speed.beside("grep -c NCCL", read.wall, one),
        Figure::time("the same", read.wall, allowed).beside(
            "grep -cE of five patterns",
            read.wall,
            grep,
        ),
    ];
    if let Some(ripgrep) = ripgrep {
        let figure = Figure::time("the same", read.wall, allowed);
        figures.push(figure.beside("rg -c of five patterns", read.wall, ripgrep.wall));
    }
    figures.push(Figure::bytes("its memory", read.peak_bytes, 64_000_000));
    Ok(figures)
}

/// Numbers that look drawn and are the same in each run.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Writes a log: all ranks initialise, their lines interleaved, then train, with a line of NCCL for each collective that one logs.
fn write(path: &Path, size: u64) -> anyhow::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut drawn = Drawn(7);
    let mut ranks: Vec<(u64, std::vec::IntoIter<String>)> = (0..RANKS)
        .map(|rank| (rank, initialisation(rank).into_iter()))
        .collect();
    let mut written = 0;
    let say = |out: &mut BufWriter<File>, line: String| -> std::io::Result<u64> {
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")?;
        Ok(line.len() as u64 + 1)
    };
    while !ranks.is_empty() {
        let at = drawn.below(ranks.len() as u64) as usize;
        let (rank, lines) = &mut ranks[at];
        match lines.next() {
            Some(line) => written += say(&mut out, prefix(*rank) + &line)?,
            None => {
                ranks.swap_remove(at);
            }
        }
    }
    let mut step = 0u64;
    while written < size {
        step += 1;
        let rank = drawn.below(RANKS);
        let loss = drawn.below(10_000);
        written += say(
            &mut out,
            format!(
                "{rank}: [2025-03-04 05:06:{:02}] iteration {step:8}/ 500000 | consumed samples: {:12} | elapsed time per iteration (ms): \
                 5432.1 | learning rate: 1.0E-04 | global batch size: 512 | lm loss: 2.{loss:04}E+00 | grad norm: 0.{loss:04} |",
                step % 60,
                step * 512
            ),
        )?;
        let rank = drawn.below(RANKS);
        written += say(
            &mut out,
            prefix(rank)
                + &format!(
                    "AllReduce: opCount {step:x} sendbuff 0x7f{step:010x} recvbuff 0x7f{step:010x} count 1048576 datatype 9 op 0 root 0 \
                     comm 0x55d300000000 [nranks={RANKS}] stream 0x55d3"
                ),
        )?;
    }
    out.flush()?;
    Ok(written)
}

fn prefix(rank: u64) -> String {
    let (host, local) = (rank / GPUS, rank % GPUS);
    format!(
        "node{host:03}:{}:{} [{local}] NCCL INFO ",
        4000 + local,
        5000 + local
    )
}

fn initialisation(rank: u64) -> Vec<String> {
    let (host, local) = (rank / GPUS, rank % GPUS);
    let comm = format!(
        "ncclCommInitRank comm 0x{:x} rank {rank} nranks {RANKS} cudaDev {local} nvmlDev {local} busId {local}b000 commId 0x1f2e3d4c5b6a",
        0x55d3_0000_0000_u64 + rank * 4096
    );
    let ports: String = (0..GPUS)
        .map(|port| format!(" [{port}]mlx5_{port}:1/IB"))
        .collect();
    let mut lines = vec![
        format!(
            "Bootstrap: Using eth0:10.0.{}.{}<0>",
            host / 200,
            host % 200
        ),
        "cudaDriverVersion 12080".to_owned(),
        "NCCL_IB_HCA set to mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7".to_owned(),
        format!(
            "NET/IB : Using{ports} [RO]; OOB eth0:10.0.{}.{}<0>",
            host / 200,
            host % 200
        ),
        "Using network IB".to_owned(),
        format!("{comm} - Init START"),
        format!(
            "comm 0x55 rank {rank} nRanks {RANKS} nNodes {} localRanks {GPUS} localRank {local} MNNVL 0",
            RANKS / GPUS
        ),
    ];
    let (next, last) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
    let local_of = |rank: u64| rank % GPUS;
    for channel in 0..CHANNELS {
        let adapter = channel % GPUS;
        lines.push(match next / GPUS == host {
            true => format!("Channel {channel:02}/0 : {rank}[{local}] -> {next}[{}] via P2P/CUMEM/read", local_of(next)),
            false => format!("Channel {channel:02}/0 : {rank}[{local}] -> {next}[{}] [send] via NET/IB/{adapter}/GDRDMA", local_of(next)),
        });
        if last / GPUS != host {
            lines.push(format!("Channel {channel:02}/0 : {last}[{}] -> {rank}[{local}] [receive] via NET/IB/{adapter}/GDRDMA", local_of(last)));
        }
    }
    lines.push("Connected all rings, use ring PXN 0 GDR 1".to_owned());
    lines.push(
        "16 coll channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer".to_owned(),
    );
    lines.push(format!("{comm} - Init COMPLETE"));
    lines
}
