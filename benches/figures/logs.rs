//! Logs that are the same in each run: of a large job that trains, of very many ranks, of warnings none of which is like another.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Ranks of the job that trains.
pub(crate) const RANKS: u64 = 512;
/// Lines of each rank in the log of very many.
pub(crate) const LINES: usize = 20;
const GPUS: u64 = 8;
const CHANNELS: u64 = 16;

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

/// A file that counts its bytes.
struct Log {
    out: BufWriter<File>,
    written: u64,
}

impl Log {
    fn new(path: &Path) -> io::Result<Self> {
        let out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        Ok(Log { out, written: 0 })
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")?;
        self.written += line.len() as u64 + 1;
        Ok(())
    }

    /// The lines of ranks, interleaved.
    fn interleave(
        &mut self,
        drawn: &mut Drawn,
        ranks: u64,
        lines: impl Fn(u64) -> Vec<String>,
    ) -> io::Result<()> {
        let mut ranks: Vec<(u64, std::vec::IntoIter<String>)> = (0..ranks)
            .map(|rank| (rank, lines(rank).into_iter()))
            .collect();
        while !ranks.is_empty() {
            let at = drawn.below(ranks.len() as u64) as usize;
            let (rank, lines) = &mut ranks[at];
            match lines.next() {
                Some(line) => self.say(&(prefix(*rank, "INFO") + &line))?,
                None => {
                    ranks.swap_remove(at);
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.written)
    }
}

/// All ranks initialise, then train, with a line of NCCL for each collective that one logs. Gives the bytes.
pub(crate) fn training(path: &Path, size: u64) -> io::Result<u64> {
    let mut log = Log::new(path)?;
    let mut drawn = Drawn(7);
    log.interleave(&mut drawn, RANKS, |rank| {
        initialisation(rank, RANKS, CHANNELS)
    })?;
    let mut step = 0u64;
    while log.written < size {
        step += 1;
        let rank = drawn.below(RANKS);
        let loss = drawn.below(10_000);
        log.say(&format!(
            "{rank}: [2025-03-04 05:06:{:02}] iteration {step:8}/ 500000 | consumed samples: {:12} | elapsed time per iteration (ms): \
             5432.1 | learning rate: 1.0E-04 | global batch size: 512 | lm loss: 2.{loss:04}E+00 | grad norm: 0.{loss:04} |",
            step % 60,
            step * 512
        ))?;
        let rank = drawn.below(RANKS);
        log.say(&(prefix(rank, "INFO")
            + &format!(
                "AllReduce: opCount {step:x} sendbuff 0x7f{step:010x} recvbuff 0x7f{step:010x} count 1048576 datatype 9 op 0 root 0 \
                 comm 0x55d300000000 [nranks={RANKS}] stream 0x55d3"
            )))?;
    }
    log.finish()
}

/// So many ranks initialise, each with [`LINES`] lines. Gives the bytes.
pub(crate) fn ranks(path: &Path, ranks: u64) -> io::Result<u64> {
    let mut log = Log::new(path)?;
    let lines = |rank| {
        let mut lines = initialisation(rank, ranks, 5);
        lines.resize(LINES, format!("Trees [0] -1/-1/-1->{rank}->0"));
        lines
    };
    log.interleave(&mut Drawn(7), ranks, lines)?;
    log.finish()
}

/// So many warnings, each with words of its own: every fourth is a failed request, the others are in no table. Gives the bytes.
pub(crate) fn warnings(path: &Path, count: u64) -> io::Result<u64> {
    let mut log = Log::new(path)?;
    for number in 0..count {
        let word: String = number
            .to_string()
            .bytes()
            .map(|digit| char::from(digit + 49))
            .collect();
        let [a, b, c] = [number / 62_500 % 250, number / 250 % 250, number % 250];
        let message = match number % 4 {
            0 => format!(
                "NET/IB: Got completion from peer 10.{a}.{b}.{c}<45678> with status=12 opcode=0 len=0 vendor err 129 (Recv)"
            ),
            _ => format!("The queue {word} of the plugin has an entry that nobody takes"),
        };
        log.say(&(prefix(number % (8 * RANKS), "WARN") + &message))?;
    }
    log.finish()
}

fn prefix(rank: u64, level: &str) -> String {
    let (host, local) = (rank / GPUS, rank % GPUS);
    format!(
        "node{host:03}:{}:{} [{local}] NCCL {level} ",
        4000 + local,
        5000 + local
    )
}

fn initialisation(rank: u64, ranks: u64, channels: u64) -> Vec<String> {
    let (host, local) = (rank / GPUS, rank % GPUS);
    let comm = format!(
        "ncclCommInitRank comm 0x{:x} rank {rank} nranks {ranks} cudaDev {local} nvmlDev {local} busId {local}b000 commId 0x1f2e3d4c5b6a",
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
            "comm 0x55 rank {rank} nRanks {ranks} nNodes {} localRanks {GPUS} localRank {local} MNNVL 0",
            ranks / GPUS
        ),
    ];
    let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let local_of = |rank: u64| rank % GPUS;
    for channel in 0..channels {
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
