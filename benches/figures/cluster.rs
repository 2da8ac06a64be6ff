//! Many nodes judged as one cluster: synthesised from a fixture, three of them odd.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rdma_doctor::examine::recording_text;
use rdma_doctor::source::recording::Recording;

use super::tree::Tree;
use super::{Figure, PROGRAM, milliseconds, run};

/// The healthy node that all are made of.
const FIXTURE: &str = "modelled-gpu-host.jsonl";
/// The smaller cluster, with which the cost of each node is compared.
const FEW: usize = 100;
/// What 10,000 nodes may take, on two processors.
const NODES: usize = 10_000;
const TIME: Duration = Duration::from_secs(10);
const MEMORY: u64 = 600_000_000;

/// A cluster of few nodes, and one of many: `BENCH_NODES`, else 1000.
pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let many = std::env::var("BENCH_NODES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1000)
        .max(FEW);
    let node = Node::new()?;
    let (few, _) = node.cluster(FEW)?;
    let (all, bytes) = node.cluster(many)?;
    let each = |run: run::Run, count: usize| run.wall / u32::try_from(count).unwrap_or(1);
    let growth = each(all, many).as_secs_f64() / each(few, FEW).as_secs_f64();
    // The target is one of 10,000 nodes; fewer have their share of it.
    let share = TIME.mul_f64(many as f64 / NODES as f64);
    Ok(vec![
        Figure {
            name: format!("{many} nodes as one cluster, 3 odd ones named"),
            measured: format!("{:.1} s", all.wall.as_secs_f64()),
            target: format!("< {:.1} s", share.as_secs_f64()),
            met: Some(all.wall < share),
            beside: format!(
                "{:.2} ms each with its reading ({:.0} kB); {growth:.2} x that of {FEW} nodes",
                milliseconds(each(all, many)),
                bytes as f64 / many as f64 / 1e3,
            ),
        },
        Figure::bytes("its memory", all.peak_bytes, MEMORY),
    ])
}

/// A node's recording, to be varied.
struct Node {
    text: String,
    store: Tree,
}

impl Node {
    fn new() -> anyhow::Result<Self> {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let recording = Recording::open(&fixtures.join(FIXTURE))?;
        Ok(Node {
            text: recording_text::to_text(&recording, None),
            store: Tree::empty("cluster")?,
        })
    }

    /// Another machine: its own name, boot id, GUIDs, LIDs and times. Three have something else than all others.
    fn variant(&self, number: usize, count: usize) -> String {
        let mut text = String::with_capacity(self.text.len() + 256);
        let name = name(number);
        for (at, line) in self.text.lines().enumerate() {
            let line = line.replace("b83f:d203:00c0:", &format!("b83f:d203:{number:04x}:"));
            let line = later(&line, number as u64);
            match at {
                0 => {
                    let was = line.find("\"node\":\"").map(|at| at + 8);
                    let end = was.and_then(|was| Some(was + line[was..].find('"')?));
                    match was.zip(end) {
                        Some((was, end)) => {
                            text.push_str(&line[..was]);
                            text.push_str(&name);
                            text.push_str(&line[end..]);
                        }
                        None => text.push_str(&line),
                    }
                    text.push_str("\n{\"probe\":\"host\",\"q\":{\"read\":\"/proc/sys/kernel/random/boot_id\"},\"n\":0,\"t\":1,\"text\":\"");
                    text.push_str(&format!("{number:08x}-6b1d-4c3e-9a52-1f0e5d7c8b90\\n\"}}"));
                }
                _ if line.contains("/ports/1/lid\"") => {
                    let port = line.find("mlx5_").map_or("0", |at| &line[at + 5..at + 6]);
                    let lid = number * 4 + port.parse::<usize>().unwrap_or(0) + 1;
                    let value = line.find("\"text\":\"").unwrap_or(line.len());
                    text.push_str(&line[..value]);
                    text.push_str(&format!("\"text\":\"{lid:#x}\\n\"}}"));
                }
                _ if line.starts_with("{\"complete\"") => {
                    // One line more than the fixture has.
                    let lines = self.text.lines().count() - 1;
                    text.push_str(&format!("{{\"complete\":true,\"lines\":{lines}}}"));
                }
                _ => text.push_str(&line),
            }
            text.push('\n');
        }
        let odd = odd(count);
        match odd.iter().position(|at| *at == number) {
            Some(0) => text.replace("\"active_mtu\":5", "\"active_mtu\":4"),
            Some(1) => text.replace("\"version\":\"2.27.5\"", "\"version\":\"2.18.5\""),
            Some(_) => text.replace("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)"),
            None => text,
        }
    }

    /// Judges a cluster of so many nodes: what it took, and the bytes that were read.
    fn cluster(&self, count: usize) -> anyhow::Result<(run::Run, u64)> {
        let directory = self.store.path().join(format!("nodes-{count}"));
        fs::create_dir_all(&directory)?;
        let (mut paths, mut bytes) = (Vec::with_capacity(count), 0);
        for number in 0..count {
            let path = directory.join(format!("{}.jsonl", name(number)));
            let text = self.variant(number, count);
            bytes += text.len() as u64;
            fs::write(&path, text)?;
            paths.push(path);
        }
        // What was written is on the disk before anything is timed.
        run::once("sync", &[])?;
        let report = directory.join("report.json");
        let run = judge(&report, &paths)?;
        let named = fs::read_to_string(&report)?;
        fs::remove_dir_all(&directory)?;
        let named: serde_json::Value = serde_json::from_str(&named)?;
        let wanted: Vec<String> = odd(count).map(name).into();
        let mut found: Vec<String> = Vec::new();
        for cause in named["causes"].as_array().into_iter().flatten() {
            for node in cause["nodes"].as_array().into_iter().flatten() {
                found.extend(node.as_str().map(str::to_owned));
            }
        }
        found.sort_unstable();
        found.dedup();
        let mut sorted = wanted.clone();
        sorted.sort_unstable();
        if found != sorted {
            bail!(
                "{} nodes are named in place of {wanted:?}: {:?}",
                found.len(),
                found.get(..8.min(found.len()))
            );
        }
        Ok((run, bytes))
    }
}

/// The line with a reply that came so many microseconds later.
fn later(line: &str, micros: u64) -> String {
    let Some((before, rest)) = line.split_once(",\"t\":") else {
        return line.to_owned();
    };
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (time, after) = rest.split_at(end.unwrap_or(rest.len()));
    let time: u64 = time.parse().unwrap_or(0);
    format!("{before},\"t\":{}{after}", time + micros)
}

fn judge(report: &Path, paths: &[PathBuf]) -> anyhow::Result<run::Run> {
    let script = format!(
        "exec \"$0\" check --format json \"$@\" > {}",
        report.display()
    );
    let mut arguments = vec!["-c", script.as_str(), PROGRAM];
    for path in paths {
        arguments.push(path.to_str().context("a path in UTF-8")?);
    }
    Ok(run::once("sh", &arguments)?)
}

fn name(number: usize) -> String {
    format!("n{number:05}")
}

/// The nodes that are odd: one near the beginning, one in the middle, the last one.
fn odd(count: usize) -> [usize; 3] {
    [count / 7, count / 2, count - 1]
}
