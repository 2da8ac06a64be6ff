//! Reading logs of large jobs, of very many ranks and of very many warnings, on one core.
//!
//! `BENCH_LOG_MB=1000` is how large the log of a training is; without it, 1000.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::run::Run;
use super::tree::Tree;
use super::{Figure, PROGRAM, logs, run};

/// Bytes of the log for each second that reading it may take.
const TARGET: u64 = 400_000_000;
/// How many times longer than grep with five patterns.
const OF_GREP: f64 = 4.0;
const TIMES: usize = 3;
/// The size of a large cluster, and how long reading of it may take.
const MANY_RANKS: (u64, Duration) = (32_000, Duration::from_secs(2));
/// Warnings none of which is like another, and how long reading them may take.
const WARNINGS: (u64, Duration) = (500_000, Duration::from_secs(5));

/// Runs a program on one core, in the locale in which grep is fastest.
fn alone(program: &str, arguments: &[&str]) -> std::io::Result<Run> {
    let before = ["LC_ALL=C", "taskset", "-c", "0", program];
    run::median(TIMES, "env", &[&before[..], arguments].concat())
}

/// The figures.
pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let megabytes: u64 = match std::env::var("BENCH_LOG_MB") {
        Ok(text) => text.parse().context("BENCH_LOG_MB is not a number")?,
        Err(_) => 1000,
    };
    let store = Tree::empty("log")?;
    let file = |name: &str| store.path().join(name);
    let path = file("job.log");
    let size = logs::training(&path, megabytes * 1_000_000)?;
    let name = format!("log of {} ranks, {} MB", logs::RANKS, size / 1_000_000);
    let mut figures = training(&path, name, size)?;
    std::fs::remove_file(&path)?;

    let (count, allowed) = MANY_RANKS;
    let path = file("ranks.log");
    logs::ranks(&path, count)?;
    let name = format!("log of {count} ranks, {} lines each", logs::LINES);
    figures.extend(bounded(&path, name, allowed)?);

    let (count, allowed) = WARNINGS;
    let path = file("warnings.log");
    logs::warnings(&path, count)?;
    let name = format!("log of {count} warnings");
    figures.extend(bounded(&path, name, allowed)?);
    Ok(figures)
}

/// A log that has a bound of its own.
fn bounded(path: &Path, name: String, allowed: Duration) -> anyhow::Result<Vec<Figure>> {
    let path = path.to_str().context("a path in UTF-8")?;
    let read = alone(PROGRAM, &["log", "--quiet", path])?;
    let grep = alone("grep", &["-c", "NCCL", path])?.wall;
    let time = Figure::time(name, read.wall, allowed);
    Ok(vec![
        time.beside("grep -c NCCL", read.wall, grep),
        Figure::bytes("its memory", read.peak_bytes, 300_000_000),
    ])
}

fn training(path: &Path, name: String, size: u64) -> anyhow::Result<Vec<Figure>> {
    let path = path.to_str().context("a path in UTF-8")?;
    let read = alone(PROGRAM, &["log", "--quiet", path])?;
    let one = alone("grep", &["-c", "NCCL", path])?.wall;
    let five = "WARN|Using network|via NET|Init COMPLETE|set by environment";
    let grep = alone("grep", &["-cE", five, path])?.wall;
    // Not on every machine.
    let ripgrep = run::once("rg", &["--version"]).and_then(|_| alone("rg", &["-c", five, path]));
    let rate = size as f64 / read.wall.as_secs_f64();
    let allowed = Duration::from_secs_f64(size as f64 / TARGET as f64);
    let speed = Figure {
        measured: format!("{:.0} MB/s", rate / 1e6),
        target: format!("> {} MB/s", TARGET / 1_000_000),
        ..Figure::time(name, read.wall, allowed)
    };
    let of_grep = Figure {
        target: format!("< {OF_GREP} x grep"),
        ..Figure::time("the same", read.wall, grep.mul_f64(OF_GREP))
    };
    let mut figures = vec![
        speed.beside("grep -c NCCL", read.wall, one),
        of_grep.beside("grep -cE of five patterns", read.wall, grep),
    ];
    if let Ok(ripgrep) = ripgrep {
        let figure = Figure::time("the same", read.wall, allowed);
        figures.push(figure.beside("rg -c of five patterns", read.wall, ripgrep.wall));
    }
    figures.push(Figure::bytes("its memory", read.peak_bytes, 64_000_000));
    Ok(figures)
}
