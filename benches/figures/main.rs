//! The project's figures: what `cargo bench` measures, against its targets, and against something that runs beside it on the
//! same machine at the same time, so that a slow or busy machine shows.
//!
//! `BENCH_LOG_MB=100` reads a log of a tenth of the size.
//! `BENCH_NODES=10000` judges as many nodes as one cluster; without it, 1000.
//! `BENCH_RECORDINGS=10000` judges as many recordings in the longest of the three series; without it, 1000.
//! `BENCH_GPUS=26` gives the synthesised machine as many GPUs (52 at most); without it, 8.
//! `BENCH_JOINING=5000` has as many nodes give their recordings to rank 0, as a star and through a tree; without it, 500.
//! `BENCH_ONLY=NAME` measures one thing alone: start, check, loading, cluster, log, collective, ablation, gather,
//! job, many.

#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark takes the time, and makes and reads its own files"
)]
#![expect(clippy::print_stdout, reason = "the table is what it is for")]

mod ablation;
mod cluster;
mod collective;
mod gather;
mod job;
mod log;
mod logs;
#[path = "../../tests/standin/machine.rs"]
mod machine;
mod many;
#[path = "../../tests/suite/place.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "written for tests")]
mod place;
mod run;
#[path = "../../tests/suite/stage.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "written for tests"
)]
mod stage;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rdma_doctor::check::Catalogue;
use rdma_doctor::source::Question;
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::Line;

use self::tree::Tree;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rdma-doctor");
/// Runs of a program, and repeats of a function; the median counts.
const TIMES: usize = 25;
/// Checks by which recordings are judged where a rate of them is asked for.
const CHECKS: usize = 200;

/// A row of the table.
struct Figure {
    name: String,
    measured: String,
    target: String,
    met: Option<bool>,
    beside: String,
}

impl Figure {
    fn time(name: impl Into<String>, measured: Duration, target: Duration) -> Self {
        Figure {
            name: name.into(),
            measured: format!("{:.2} ms", milliseconds(measured)),
            target: format!("< {} ms", target.as_millis()),
            met: Some(measured < target),
            beside: String::new(),
        }
    }

    fn bytes(name: impl Into<String>, measured: u64, target: u64) -> Self {
        Figure {
            name: name.into(),
            measured: format!("{:.1} MB", measured as f64 / 1e6),
            target: format!("< {} MB", target / 1_000_000),
            met: Some(measured < target),
            beside: String::new(),
        }
    }

    /// Without a target: nobody asked for one.
    fn untargeted(mut self) -> Self {
        self.target = String::new();
        self.met = None;
        self
    }

    /// What ran beside it, and how many times longer the measured one took.
    fn beside(mut self, what: &str, measured: Duration, other: Duration) -> Self {
        let ratio = measured.as_secs_f64() / other.as_secs_f64().max(1e-9);
        self.beside = format!("{ratio:.1} x {what} ({:.2} ms)", milliseconds(other));
        self
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn main() -> anyhow::Result<()> {
    if gather::was_guests()? {
        return Ok(());
    }
    // `cargo test --all-targets` starts benchmarks too, to see that they build.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let only = std::env::var("BENCH_ONLY").ok();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut figures = Vec::new();
    if wanted("start") {
        figures.extend(start()?);
    }
    if wanted("check") {
        let machine = Tree::machine("machine", tree::eight()).context("the tree")?;
        figures.extend(check(&machine)?);
    }
    if wanted("loading") {
        figures.push(loading()?);
    }
    if wanted("cluster") {
        figures.extend(cluster::figures().context("the cluster")?);
    }
    if wanted("log") {
        figures.extend(log::figures()?);
    }
    if wanted("collective") {
        figures.extend(collective::figures().context("collectives")?);
    }
    if wanted("ablation") {
        figures.extend(ablation::figures().context("the ablation")?);
    }
    if wanted("gather") {
        figures.extend(gather::figures().context("gathering")?);
    }
    if wanted("job") {
        figures.extend(job::figures().context("a running job")?);
    }
    // Last: it keeps this process to one processor.
    if wanted("many") {
        figures.extend(many::figures()?);
    }
    if figures.is_empty() {
        bail!("BENCH_ONLY names nothing that is measured");
    }
    print(&figures);
    Ok(())
}

/// Starting the program, and its size.
fn start() -> anyhow::Result<Vec<Figure>> {
    let version = run::median(2 * TIMES, PROGRAM, &["--version"])?.wall;
    let nothing = run::median(2 * TIMES, "/bin/true", &[])?.wall;
    let size = fs::metadata(PROGRAM)?.len();
    Ok(vec![
        Figure::time("--version", version, Duration::from_millis(2)).beside(
            "/bin/true",
            version,
            nothing,
        ),
        // 5 MB was meant for the examination alone. Measuring, NCCL's log, meetings and four times the checks are in the same program, and no
        // single thing of it is large: what is held to is that it grows no more.
        Figure::bytes("size of the binary", size, 11_000_000),
    ])
}

/// Judging a machine of eight NICs: its files, and its recording.
fn check(machine: &Tree) -> anyhow::Result<Vec<Figure>> {
    let root = machine.path().to_str().context("a path in UTF-8")?;
    let store = Tree::empty("recording")?;
    let recording = recording_of(root, store.path())?;
    let lines = Recording::open(&recording)?.lines();
    let recording = recording.to_str().context("a path in UTF-8")?;

    let read = files_read(Path::new(recording), machine.path())?;
    let read: Vec<&str> = read.iter().map(String::as_str).collect();
    let live = run::median(TIMES, PROGRAM, &["check", "--root", root])?;
    let cat_tree = run::median(TIMES, "cat", &read)?.wall;
    let replay = run::median(TIMES, PROGRAM, &["check", recording])?;
    let cat_recording = run::median(TIMES, "cat", &[recording])?.wall;
    Ok(vec![
        Figure::time(
            format!("check --root, 8 NICs, {lines} replies"),
            live.wall,
            Duration::from_millis(60),
        )
        .beside(
            &format!("cat of the {} files read", read.len()),
            live.wall,
            cat_tree,
        ),
        Figure::bytes("its largest process", live.peak_bytes, 30_000_000),
        Figure::time(
            "check of its recording",
            replay.wall,
            Duration::from_millis(15),
        )
        .beside("cat of the file", replay.wall, cat_recording),
        Figure::bytes("its memory", replay.peak_bytes, 30_000_000),
    ])
}

/// Records a tree into a file of this directory.
fn recording_of(root: &str, into: &Path) -> anyhow::Result<PathBuf> {
    let path = into.join("recording");
    let output = path.to_str().context("a path in UTF-8")?;
    run::once(
        PROGRAM,
        &["record", "--no-redact", "--root", root, "-o", output],
    )?;
    if !path.is_file() {
        bail!("`record` wrote nothing");
    }
    Ok(path)
}

/// The files of the tree whose content the recording holds.
fn files_read(recording: &Path, root: &Path) -> anyhow::Result<Vec<String>> {
    let recording = Recording::open(recording)?;
    let paths = recording
        .to_lines()
        .into_iter()
        .filter_map(|line| match line {
            Line::Reply {
                question: Question::Read(path),
                reply,
                ..
            } if reply.said.is_ok() => Some(format!("{}{path}", root.display())),
            _ => None,
        });
    let mut paths: Vec<String> = paths.collect();
    paths.sort_unstable();
    paths.dedup();
    Ok(paths)
}

/// Loading all built-in checks and type-checking what they are judged by: each may take as long as each of 200 in 5 ms.
fn loading() -> anyhow::Result<Figure> {
    let count = Catalogue::embedded()?.checks.len();
    if count == 0 {
        bail!("no built-in checks");
    }
    let loading = run::median_of(TIMES, || {
        std::hint::black_box(Catalogue::embedded().is_ok());
    });
    let target = Duration::from_millis(5).mul_f64(count as f64 / CHECKS as f64);
    Ok(Figure::time(
        format!("loading {count} checks"),
        loading,
        target,
    ))
}

fn print(figures: &[Figure]) {
    let width = |of: fn(&Figure) -> &str| {
        figures
            .iter()
            .map(|f| of(f).chars().count())
            .max()
            .unwrap_or(0)
    };
    let (name, measured, target) = (
        width(|f| &f.name),
        width(|f| &f.measured),
        width(|f| &f.target),
    );
    println!(
        "{:name$} | {:>measured$} | {:>target$} |        | beside it",
        "figure", "measured", "target"
    );
    for figure in figures {
        let met = match figure.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        println!(
            "{:name$} | {:>measured$} | {:>target$} | {met:6} | {}",
            figure.name, figure.measured, figure.target, figure.beside
        );
    }
}
