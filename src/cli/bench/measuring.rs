//! What all measurements of collectives share: who takes part, the runs, and what becomes of the recording.

use crate::live::clock;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::memory::{self, Memory};
use super::p2p::chosen;
use crate::check::{Severity, judge};
use crate::cli::input::{self, BadUsage};
use crate::cli::{AskArgs, Format, output, record, seconds};
use crate::exit::Exit;
use crate::fact::{Bytes, Fact, Facts, Id, Subject, gpu, limit};
use crate::live;
use crate::live::worker::Progress;
use crate::measure::plan::nccl_library;
use crate::measure::plan::results::Results;
use crate::measure::plan::run::{Arm, Backend, NAME, Plan, Point, RankPlace, Run};
use crate::measure::plan::scope::Scopes;
use crate::measure::run::ranks::{self, RankProcess};
use crate::report::collective::Collectives;
use crate::report::{self, Policy, Report};
use crate::source::recording::Recording;

/// Who takes part in a measurement, and for how long.
#[derive(Clone, Debug, Args)]
pub struct MeasureArgs {
    /// Who moves the data; NCCL where there are GPUs and the library, else sockets
    #[arg(long, value_name = "nccl|verbs|tcp", value_parser = backend)]
    pub backend: Option<Backend>,
    /// The NCCL library that is measured, where several are installed or none is found
    #[arg(long, value_name = "PATH")]
    pub nccl: Option<String>,
    /// Ranks on this node; with NCCL there is one for each GPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub ranks: Option<u64>,
    /// Measure on these GPUs only: numbers as CUDA counts, or PCI addresses, separated by commas
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    pub gpus: Vec<String>,
    /// What the ranks use in turn: RDMA devices and ports as mlx5_0/1 (verbs), addresses of interfaces (tcp), separated by commas
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub device: Vec<String>,
    /// The row of the port's GID table (verbs) [default: the one that NCCL would choose]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=255))]
    pub gid_index: Option<u64>,
    /// Connections to each other rank, which RDMA writes use in turn (verbs) [default: NCCL_IB_QPS_PER_CONNECTION, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=128))]
    pub qps: Option<u64>,
    /// Bytes of an RDMA write at most (verbs) [default: 512K]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub message: Option<u64>,
    /// Where the data of RDMA writes is; commands that have the choice set it.
    #[arg(skip)]
    pub memory: Memory,
    /// Measure also where another process uses a GPU
    #[arg(long)]
    pub force: bool,
    /// Write a recording of the node and of what was measured, for rdma-doctor check
    #[arg(short = 'o', long = "record", value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Leave names, addresses and serial numbers in the recording as they are
    #[arg(long, requires = "record")]
    pub no_redact: bool,
}

/// The options that only a measurement answers to: beside a recording they would be without effect.
pub const NOT_OF_A_RECORDING: [&str; 10] = [
    "backend",
    "nccl",
    "ranks",
    "gpus",
    "device",
    "gid_index",
    "qps",
    "message",
    "force",
    "record",
];

/// Who takes part.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Who moves the data.
    pub backend: Backend,
    /// NCCL's file.
    pub library: Option<String>,
    /// The ranks.
    pub ranks: Vec<RankPlace>,
}

impl Chosen {
    /// The plan by which they measure these operations in so many runs, with nothing taken away.
    pub fn plan(self, points: Vec<Point>, rounds: u64) -> Plan {
        Plan {
            backend: self.backend,
            library: self.library,
            ranks: self.ranks,
            points,
            baseline_points: Vec::new(),
            arms: vec![Arm::baseline()],
            runs: (0..rounds).map(|round| Run { arm: 0, round }).collect(),
            // What the buffers hold differs from one measurement to the next: what an earlier one left is wrong.
            seed: clock::boottime_ns(),
        }
    }
}

fn backend(name: &str) -> Result<Backend, String> {
    Backend::from_name(name).ok_or_else(|| "one of nccl, verbs, tcp".into())
}

/// The size of an operation: the smallest has one element.
pub fn bytes(text: &str) -> Result<u64, String> {
    bytes_within(text, 4..=128 << 30)
}

/// A number of bytes within bounds.
pub(super) fn bytes_within(text: &str, bounds: RangeInclusive<u64>) -> Result<u64, String> {
    let Bytes(size) = Bytes::parse(text)?;
    match bounds.contains(&size) {
        true => Ok(size),
        false => Err(format!(
            "between {} and {}",
            Bytes(*bounds.start()),
            Bytes(*bounds.end())
        )),
    }
}

/// A time to live of a run.
pub fn deadline(text: &str) -> Result<Duration, String> {
    seconds(text)
}

/// Records this node, before anything is measured.
///
/// # Errors
///
/// The recording cannot be made.
pub fn node_recording(args: &MeasureArgs) -> anyhow::Result<Recording> {
    input::record(&AskArgs {
        root: None,
        sample: None,
        nccl: args.nccl.clone(),
        job: None,
        deadline: Duration::from_secs(20),
    })
}

/// Says to a person who looks what is not in the report.
pub fn say(what: &str) {
    // Who does not take the line misses nothing of the report.
    let _ = writeln!(std::io::stderr(), "rdma-doctor: {what}");
}

/// Records the node, chooses who takes part, and measures with them; or says why nothing was measured.
///
/// # Errors
///
/// The node cannot be recorded, or wishes do not go together.
pub fn measured(
    args: &MeasureArgs,
    measure: impl FnOnce(&mut Recording, Chosen) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<(Recording, Option<String>)> {
    let mut recording = node_recording(args)?;
    let (facts, nodes) = input::facts(std::slice::from_ref(&recording));
    let Some(node) = nodes.first().map(|node| node.id) else {
        return Ok((recording, Some("the node says nothing of itself".into())));
    };
    let chosen = match choose(&facts, node, args)? {
        Ok(chosen) => chosen,
        Err(why) => return Ok((recording, Some(why))),
    };
    drop(facts);
    let why = measure(&mut recording, chosen)?;
    Ok((recording, why))
}

/// What a recording holds of collectives, as a report and as it was read; `why` says why nothing was measured.
pub fn collectives(
    facts: &Facts,
    node: Id,
    recording: &Recording,
    why: Option<String>,
) -> (Collectives, Option<Results>) {
    match (why, Results::read(&recording.of(NAME))) {
        (Some(why), _) => (Collectives::nothing(facts, node, why), None),
        (None, Ok(results)) => {
            let mut collectives = Collectives::of(facts, node, &results);
            collectives.scopes = Scopes::read(&recording.of(NAME));
            let scopes = collectives.scopes.as_ref();
            collectives.against_one_node = scopes.and_then(Scopes::sentence);
            let bisection = scopes.and_then(|scopes| scopes.bisection.as_ref());
            collectives.what_is_slow =
                bisection.map(|bisection| bisection.sentence(facts.limit(limit::SLOW_BESIDE_PART)));
            (collectives, Some(results))
        }
        (None, Err(refusal)) => {
            let why = refusal.to_string();
            (Collectives::nothing(facts, node, why), None)
        }
    }
}

/// Who takes part, by the node's facts and a person's wishes; `Err` in the inner result says why nothing can be measured.
///
/// # Errors
///
/// Wishes that do not go together, or name what is not there.
pub fn choose(
    facts: &Facts,
    node: Id,
    args: &MeasureArgs,
) -> anyhow::Result<Result<Chosen, String>> {
    let gpus = chosen(facts, node, &args.gpus)?;
    let library = nccl_library::choose(facts, node);
    let backend = match args.backend {
        Some(backend) => backend,
        None => {
            let why = match (gpus.is_empty(), &library) {
                (false, Ok(_)) => None,
                (true, _) => Some("CUDA shows no GPU"),
                (false, Err(why)) => Some(why.as_str()),
            };
            match why {
                None => Backend::Nccl,
                Some(why) if args.nccl.is_some() || !args.gpus.is_empty() => {
                    return Ok(Err(why.into()));
                }
                Some(why) => {
                    say(&format!(
                        "measuring over sockets, in the host's memory: {why}"
                    ));
                    Backend::Tcp
                }
            }
        }
    };
    for (name, given) in [
        ("--gid-index", args.gid_index),
        ("--qps", args.qps),
        ("--message", args.message),
    ] {
        if given.is_some() && backend != Backend::Verbs {
            return Err(BadUsage(format!("{name}: only verbs has it")).into());
        }
    }
    if backend == Backend::Verbs && args.memory.on_gpus() {
        return Ok(on_gpus(facts, node, args, &gpus));
    }
    if backend != Backend::Nccl {
        if !args.gpus.is_empty() {
            return Err(BadUsage(format!("--gpus: {} uses none", backend.name())).into());
        }
        let count = args.ranks.unwrap_or(2);
        let first = match backend {
            Backend::Verbs => memory::first_port(facts, node),
            _ => None,
        };
        let place = |rank: u64| RankPlace {
            device: args
                .device
                .get(rank as usize % args.device.len().max(1))
                .cloned()
                .or_else(|| first.clone()),
            gid_index: args.gid_index,
            queue_pairs: args.qps,
            message: args.message,
            ..RankPlace::default()
        };
        return Ok(Ok(Chosen {
            backend,
            library: None,
            ranks: (0..count).map(place).collect(),
        }));
    }
    if !args.device.is_empty() {
        return Err(BadUsage("--device: NCCL chooses its own (NCCL_IB_HCA)".into()).into());
    }
    if gpus.is_empty() {
        return Ok(Err("CUDA shows no GPU".into()));
    }
    let library = match library {
        Ok(library) => library,
        Err(why) => return Ok(Err(why)),
    };
    say(&format!("NCCL {}, {}", library.path, library.why));
    if let Some(why) = taken(facts, node, args, &gpus) {
        return Ok(Err(why));
    }
    let mut gpus = gpus;
    if let Some(ranks) = args.ranks {
        if ranks as usize > gpus.len() {
            let there = gpus.len();
            return Err(BadUsage(format!("--ranks {ranks}: CUDA shows {there} GPUs")).into());
        }
        gpus.truncate(ranks as usize);
    }
    let place = |gpu: &Arc<str>| RankPlace {
        gpu: Some(gpu.to_string()),
        ..RankPlace::default()
    };
    Ok(Ok(Chosen {
        backend,
        library: Some(library.path.to_string()),
        ranks: gpus.iter().map(place).collect(),
    }))
}

/// Ranks whose RDMA writes go from GPU to GPU: one for each GPU, but two at least, which share one then. `Err` says why nothing can be measured.
fn on_gpus(
    facts: &Facts,
    node: Id,
    args: &MeasureArgs,
    gpus: &[Arc<str>],
) -> Result<Chosen, String> {
    if gpus.is_empty() {
        return Err("CUDA shows no GPU".into());
    }
    if let Some(why) = taken(facts, node, args, gpus) {
        return Err(why);
    }
    let count = args.ranks.unwrap_or(gpus.len().max(2) as u64);
    let in_turn = |of: &[String], rank: usize| of.get(rank % of.len().max(1)).cloned();
    let ranks = (0..count as usize).zip(gpus.iter().cycle());
    let ranks = ranks.map(|(rank, gpu)| RankPlace {
        gpu: Some(gpu.to_string()),
        device: in_turn(&args.device, rank).or_else(|| memory::nearest_port(facts, node, gpu)),
        gid_index: args.gid_index,
        queue_pairs: args.qps,
        message: args.message,
        ..RankPlace::default()
    });
    Ok(Chosen {
        backend: Backend::Verbs,
        library: None,
        ranks: ranks.collect(),
    })
}

/// Why one of these GPUs is not to be measured on.
fn taken(facts: &Facts, node: Id, args: &MeasureArgs, gpus: &[Arc<str>]) -> Option<String> {
    if args.force {
        return None;
    }
    let why = gpus.iter().find_map(|gpu| in_use(facts, node, gpu))?;
    Some(format!("{why} (--force measures beside it)"))
}

/// Why a GPU is not free, or not known to be.
pub(super) fn in_use(facts: &Facts, node: Id, pci: &str) -> Option<String> {
    let id = facts.find(Subject::Gpu, node, pci)?;
    match facts.get(id, gpu::FOREIGN_PROCESSES) {
        Fact::Known(0, _) => None,
        Fact::Known(_, _) => {
            let list = facts.known(id, gpu::FOREIGN_PROCESS_LIST);
            let list = list.map_or_else(String::new, |list| format!(": {}", list.join(", ")));
            Some(format!("GPU {pci} is used by other processes{list}"))
        }
        Fact::Unknown(gap) => Some(format!(
            "whether other processes use GPU {pci} is unknown: {gap}"
        )),
    }
}

/// Whether the ranks' buffers fit in the host's memory, where they are there; else why not.
///
/// # Errors
///
/// How much is needed, and how much there is.
pub fn hold(chosen: &Chosen, points: &[Point]) -> Result<(), String> {
    if chosen.backend == Backend::Nccl {
        return Ok(());
    }
    let in_host = points.iter().filter(|point| !point.gpu_memory);
    let largest = in_host.map(|point| point.bytes).max().unwrap_or(0);
    // What is sent, what is received, and what is passed on.
    let ranks = chosen.ranks.len() as u64;
    fits(largest.saturating_mul(3).saturating_mul(ranks))
}

/// Whether buffers of so many bytes in all fit in the host's memory; else why not.
///
/// # Errors
///
/// How much is needed, and how much there is.
pub fn fits(needed: u64) -> Result<(), String> {
    match live::memory::available() {
        Some(available) if available < needed => Err(format!(
            "{} of memory are needed, {} are free",
            Bytes(needed),
            Bytes(available)
        )),
        _ => Ok(()),
    }
}

/// Makes the plan's runs, and puts them into the recording.
pub fn make(recording: &mut Recording, plan: &Plan, deadline: Duration) {
    let how = RankProcess {
        started_ns: recording.header.boottime_ns,
        deadline,
        base: &[],
        program: None,
    };
    // The recording said that nothing was measured.
    recording.replace(NAME, Plan::question(), plan.to_value());
    let several = plan.runs.len() > 1;
    for (number, run) in plan.runs.iter().enumerate() {
        let arm = plan.arms.get(run.arm).map_or("", |arm| &arm.name);
        let lines = ranks::run(&how, plan, *run, |rank, step| {
            // One rank speaks for all.
            if rank == 0 {
                let what = match several {
                    true => format!("{arm}, run {} of {}: {step}", number + 1, plan.runs.len()),
                    false => step.to_owned(),
                };
                output::progress(Progress::Waiting(&[&what]));
            }
        });
        for line in lines {
            recording.add(line);
        }
    }
    output::progress(Progress::Done);
    recording.end();
}

/// Writes the recording where one was asked for.
///
/// # Errors
///
/// It cannot be written.
pub fn keep(recording: &Recording, args: &MeasureArgs) -> anyhow::Result<()> {
    record::keep(recording, args.record.as_deref(), args.no_redact)
}

/// What checks of these ids say of the node; `None` where there are no such checks.
///
/// # Errors
///
/// A built-in check is invalid.
pub fn judged(
    facts: &Facts,
    recording: &Recording,
    node: Id,
    ids: &str,
) -> anyhow::Result<Option<Report>> {
    let mut catalogue = input::site_catalogue()?;
    if catalogue.select(&[ids.to_owned()], &[]).is_err() {
        return Ok(None);
    }
    let verdicts = judge(&catalogue, facts);
    let pairs = [input::recorded(recording, node)];
    let policy = Policy::default();
    Ok(Some(report::report(
        &catalogue, facts, &verdicts, &pairs, &policy, false,
    )))
}

/// Shows what was measured, with what checks found of it.
///
/// # Errors
///
/// The output's.
pub fn show(
    format: Format,
    measured: &impl serde::Serialize,
    report: Option<&Report>,
    text: impl Fn(&mut dyn Write) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    output::print(|out| match format {
        Format::Json => {
            let mut value = serde_json::to_value(measured)?;
            value["findings"] = match report {
                Some(report) => serde_json::to_value(&report.causes)?,
                None => serde_json::Value::Array(Vec::new()),
            };
            serde_json::to_writer_pretty(&mut *out, &value)?;
            writeln!(out)
        }
        Format::Text => {
            text(out)?;
            if let Some(report) = report.filter(|report| !report.causes.is_empty()) {
                writeln!(out)?;
                let (detail, width) = (report::text::Detail::Normal, output::width());
                report::text::write(out, report, detail, width)?;
            }
            Ok(())
        }
    })
}

/// The exit status of a measurement: what was found decides.
pub fn exit(measured: bool, badly: bool, report: Option<&Report>) -> Exit {
    let is = |severity: Severity| {
        let mut causes = report.into_iter().flat_map(|report| &report.causes);
        causes.any(|cause| cause.severity == severity.word())
    };
    if !measured {
        Exit::Undecided
    } else if badly || is(Severity::Error) {
        Exit::Errors
    } else if is(Severity::Warning) {
        Exit::Warnings
    } else {
        Exit::Healthy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_lies_within_its_bounds() {
        assert_eq!(bytes("4"), Ok(4));
        assert_eq!(bytes("128G"), Ok(128 << 30));
        for text in ["3", "129G"] {
            assert_eq!(bytes(text), Err("between 4 B and 128 GiB".into()), "{text}");
        }
    }
}
