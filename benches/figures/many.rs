//! Many recordings, one after the other on one core: reading, facts, verdicts, report.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use rdma_doctor::check::{Catalogue, judge};
use rdma_doctor::examine::many::judged;
use rdma_doctor::examine::one;
use rdma_doctor::report::{Policy, report};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::tree::{self, Shape, Tree};
use super::{CHECKS, Figure, milliseconds, recording_of, run};

/// Lines of each recording.
const LINES: u64 = 2000;
/// Recordings a second.
const TARGET: f64 = 200.0;
/// Nodes that are judged together.
const CLUSTERS: [u32; 2] = [10, 100];

/// The rate for series of several lengths against 200 checks, against all of them, and for nodes judged as one cluster.
pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let mut one = CpuSet::new();
    one.set(0);
    // Where the system forbids it, the work is on one thread all the same.
    let _ = sched_setaffinity(None, &one);

    let all = Catalogue::embedded()?;
    let mut some = Catalogue::embedded()?;
    let step = some.checks.len().div_ceil(CHECKS).max(1);
    let mut number = 0;
    some.checks.retain(|_| {
        number += 1;
        number % step == 0
    });
    let node = Node::new()?;
    let longest = std::env::var("BENCH_RECORDINGS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1000);
    let mut counts = vec![100, 1000, longest];
    counts.retain(|count| *count <= longest);
    counts.dedup();
    let mut figures = Vec::new();
    let mut first = None;
    for count in counts {
        let series = node.series(&some, count)?;
        let first = *first.get_or_insert(series.each);
        figures.push(series.figure(count, node.lines, some.checks.len(), first));
    }
    let series = node.series(&all, CLUSTERS[1])?;
    let figure = series.figure(CLUSTERS[1], node.lines, all.checks.len(), series.each);
    figures.push(figure.untargeted());
    let mut first = None;
    for count in CLUSTERS {
        let each = node.cluster(&all, count)?;
        let first = *first.get_or_insert(each);
        figures.push(cluster_figure(count, each, first).untargeted());
    }
    Ok(figures)
}

/// The recording of a node, to be varied.
struct Node {
    text: String,
    lines: u64,
    store: Tree,
}

/// What the parts of the work took.
#[derive(Default)]
struct Parts {
    reading: Duration,
    facts: Duration,
    judging: Duration,
    report: Duration,
}

/// What a series took, for each recording.
struct Series {
    each: Duration,
    processor: Duration,
    parts: Parts,
    json: Duration,
}

impl Series {
    fn figure(&self, count: u32, lines: u64, checks: usize, first: Duration) -> Figure {
        let rate = 1.0 / self.each.as_secs_f64();
        let growth = self.each.as_secs_f64() / first.as_secs_f64();
        Figure {
            name: format!("{count} recordings of {lines} lines, {checks} checks"),
            measured: format!("{rate:.0} /s"),
            target: format!("> {TARGET:.0} /s"),
            met: Some(rate > TARGET),
            beside: format!(
                "{:.1} x its JSON alone ({:.2} ms); {:.2} ms each, {:.2} ms of a processor: reading {:.2}, facts {:.2}, judging {:.2}, report {:.2}; {growth:.2} x the first series",
                self.each.as_secs_f64() / self.json.as_secs_f64(),
                milliseconds(self.json),
                milliseconds(self.each),
                milliseconds(self.processor),
                milliseconds(self.parts.reading),
                milliseconds(self.parts.facts),
                milliseconds(self.parts.judging),
                milliseconds(self.parts.report),
            ),
        }
    }
}

impl Node {
    /// Eight devices, with as many GIDs as make the wanted number of lines.
    fn new() -> anyhow::Result<Self> {
        let store = Tree::empty("many")?;
        let eight = tree::eight();
        let lines_with = |gids| -> anyhow::Result<(String, u64)> {
            let tree = Tree::machine("node", Shape { gids, ..eight })?;
            let root = tree.path().to_str().context("a path in UTF-8")?;
            let path = recording_of(root, store.path())?;
            Ok((fs::read_to_string(&path)?, Recording::open(&path)?.lines()))
        };
        let (_, with_eight) = lines_with(8)?;
        let more = LINES.saturating_sub(with_eight) / u64::from(eight.devices);
        let (text, lines) = lines_with(8 + u32::try_from(more)?)?;
        Ok(Node { text, lines, store })
    }

    /// Another node: another name, other GUIDs, and on each tenth a port that trained low.
    fn variant(&self, number: u32) -> anyhow::Result<String> {
        let (header, lines) = self.text.split_once('\n').context("a header")?;
        let header = wire::Header {
            node: format!("synthesised-{number}"),
            ..wire::parse_header(header).map_err(anyhow::Error::msg)?
        };
        let guids = lines.replace(
            "b83f:d203:00c0:",
            &format!("b83f:d203:{:04x}:", number & 0xffff),
        );
        let lines = match number % 10 {
            0 => guids.replacen("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)", 1),
            _ => guids,
        };
        Ok(wire::write_header(&header) + "\n" + &lines)
    }

    fn write(&self, number: u32, path: &Path) -> anyhow::Result<String> {
        let text = self.variant(number)?;
        fs::write(path, &text)?;
        Ok(text)
    }

    /// Judges variants one after the other. Making them and writing them does not count, reading them does.
    fn series(&self, catalogue: &Catalogue, count: u32) -> anyhow::Result<Series> {
        let path = self.store.path().join("variant");
        let mut sum = Parts::default();
        let (mut whole, mut processor, mut json) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for number in 0..count {
            let text = self.write(number, &path)?;
            let before = run::processor_time();
            let begun = Instant::now();
            let recordings = [Recording::open(&path)?];
            let read = Instant::now();
            // What `check` does, in its parts.
            let (facts, nodes) = one::facts(&recordings);
            let established = Instant::now();
            let verdicts = judge(catalogue, &facts);
            let decided = Instant::now();
            let report = report(catalogue, &facts, &verdicts, &nodes, &Policy::default());
            std::hint::black_box(report.exit());
            sum.report += decided.elapsed();
            drop(report);
            drop((verdicts, nodes, facts));
            drop(recordings);
            whole += begun.elapsed();
            processor += run::processor_time().saturating_sub(before);
            sum.reading += read - begun;
            sum.facts += established - read;
            sum.judging += decided - established;
            if number % 10 == 0 {
                json += run::time(|| {
                    for line in text.lines() {
                        std::hint::black_box(
                            serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok(),
                        );
                    }
                });
            }
        }
        let parts = Parts {
            reading: sum.reading / count,
            facts: sum.facts / count,
            judging: sum.judging / count,
            report: sum.report / count,
        };
        Ok(Series {
            each: whole / count,
            processor: processor / count,
            parts,
            json: json / count.div_ceil(10),
        })
    }

    /// Judges nodes as one cluster: the processor's time for each.
    fn cluster(&self, catalogue: &Catalogue, count: u32) -> anyhow::Result<Duration> {
        let mut paths = Vec::new();
        for number in 0..count {
            let path = self.store.path().join(format!("node-{number}"));
            self.write(number, &path)?;
            paths.push(path);
        }
        let before = run::processor_time();
        let recordings = paths.iter().map(|path| Recording::open(path));
        let recordings = recordings.collect::<Result<Vec<_>, _>>()?;
        let report = judged(catalogue, &recordings, &Policy::default());
        std::hint::black_box(report.exit());
        Ok((run::processor_time().saturating_sub(before)) / count)
    }
}

fn cluster_figure(count: u32, each: Duration, first: Duration) -> Figure {
    let rate = 1.0 / each.as_secs_f64();
    let growth = each.as_secs_f64() / first.as_secs_f64();
    Figure {
        name: format!("{count} of them as one cluster"),
        measured: format!("{rate:.0} /s"),
        target: format!("> {TARGET:.0} /s"),
        met: Some(rate > TARGET),
        beside: format!(
            "{:.2} ms of a processor each; {growth:.2} x the first series",
            milliseconds(each)
        ),
    }
}
