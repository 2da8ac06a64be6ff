//! What all measurements of collectives share: their options, the choice of ranks, and how the result is shown.

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::slice;

use clap::Args;

use crate::check::{Check, Outcome, Severity, judge};
use crate::cli::input::{self, bad_usage};
use crate::cli::output::{self, StandardError};
use crate::cli::{MeasurementFormat, record};
use crate::examine::given::{self, MachineRequest};
use crate::examine::one::{self, own_facts, recorded};
use crate::exit::Exit;
use crate::fact::limit;
use crate::fact::{Bytes, Facts, Id};
use crate::measure::plan::memory_request::MemoryRequest;
use crate::measure::plan::rank_choice::{ChosenRanks, RankChoiceError, RankRequest, choose_ranks};
use crate::measure::plan::results::Results;
use crate::measure::plan::run::{Backend, NAME};
use crate::measure::plan::scope::Scopes;
use crate::report::collective::Collectives;
use crate::report::html::{self, Markup};
use crate::report::{self, Policy, Report};
use crate::source::recording::Recording;
use crate::terminal;

/// The nodes that take part in a measurement, and for how long.
#[derive(Clone, Debug, Args)]
pub struct MeasureArgs {
    /// Transport that moves the data; by default NCCL if there are GPUs and the library, else sockets
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
    pub memory: MemoryRequest,
    /// Measure also where another process uses a GPU
    #[arg(long)]
    pub force: bool,
    /// Write a recording of the node and of what was measured, for rdma-doctor check
    #[arg(long, value_name = "FILE", value_parser = crate::cli::output_file())]
    pub record: Option<PathBuf>,
    /// Leave names, addresses and serial numbers in the recording as they are
    #[arg(long, requires = "record")]
    pub no_redact: bool,
}

impl MeasureArgs {
    fn request(&self) -> RankRequest {
        RankRequest {
            backend: self.backend,
            is_nccl_named: self.nccl.is_some(),
            ranks: self.ranks,
            gpus: self.gpus.clone(),
            device: self.device.clone(),
            gid_index: self.gid_index,
            qps: self.qps,
            message: self.message,
            on_gpus: self.memory.on_gpus(),
            force: self.force,
        }
    }
}

/// The options that only a measurement answers to: with a recording they have no effect.
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

fn backend(name: &str) -> Result<Backend, String> {
    Backend::from_word(name).ok_or_else(|| "one of nccl, verbs, tcp".into())
}

/// The size of an operation: the smallest has one element.
pub fn bytes(text: &str) -> Result<u64, String> {
    bytes_within(text, 4..=128 << 30)
}

/// A number of bytes within bounds.
pub(crate) fn bytes_within(text: &str, bounds: RangeInclusive<u64>) -> Result<u64, String> {
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

/// Records this node, before anything is measured.
///
/// # Errors
///
/// The recording cannot be made.
pub fn node_recording(args: &MeasureArgs) -> anyhow::Result<Recording> {
    let request = MachineRequest {
        nccl: args.nccl.clone(),
        ..MachineRequest::default()
    };
    given::record(&request, None, &StandardError)
}

/// Records the node, chooses who takes part, and measures with them; or says why nothing was measured.
///
/// # Errors
///
/// The node cannot be recorded, or options contradict each other.
pub fn measured(
    args: &MeasureArgs,
    choose: impl FnOnce(&Facts, Id) -> anyhow::Result<Result<ChosenRanks, String>>,
    measure: impl FnOnce(&mut Recording, ChosenRanks) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<(Recording, Option<String>)> {
    let mut recording = node_recording(args)?;
    let (facts, node) = own_facts(&recording);
    let chosen = match choose(&facts, node)? {
        Ok(chosen) => chosen,
        Err(why) => return Ok((recording, Some(why))),
    };
    drop(facts);
    let why = measure(&mut recording, chosen)?;
    Ok((recording, why))
}

/// The ranks of this node; the inner error says why nothing can be measured.
///
/// # Errors
///
/// The options contradict each other, or name what the node does not have.
pub fn choose(
    facts: &Facts,
    node: Id,
    args: &MeasureArgs,
) -> anyhow::Result<Result<ChosenRanks, String>> {
    let mut notes = Vec::new();
    let chosen = choose_ranks(facts, node, &args.request(), &mut notes);
    notes.iter().for_each(|note| output::say(note));
    match chosen {
        Ok(ranks) => Ok(Ok(ranks)),
        Err(RankChoiceError::Node(why)) => Ok(Err(why)),
        Err(RankChoiceError::Request(what)) => Err(bad_usage(what)),
    }
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

/// Writes the recording where one was asked for.
///
/// # Errors
///
/// It cannot be written.
pub fn keep(recording: &Recording, args: &MeasureArgs) -> anyhow::Result<()> {
    record::keep(recording, args.record.as_deref(), args.no_redact)
}

/// What checks of these ids say of the node, with the site's waivers; `None` where there are no such checks.
///
/// # Errors
///
/// A built-in check is invalid.
pub fn judged(
    facts: &mut Facts,
    recording: &Recording,
    node: Id,
    ids: &str,
) -> anyhow::Result<Option<Report>> {
    let mut catalogue = input::site_catalogue()?;
    let mut of_measurement = input::site_catalogue()?;
    if of_measurement.select(&[ids.to_owned()], &[]).is_err() {
        return Ok(None);
    }
    // What the node itself explains of a failure leads.
    let verdicts = judge(&of_measurement, facts);
    let failing = verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fails);
    let failing: Vec<_> = failing
        .map(|verdict| &of_measurement.checks[verdict.check])
        .collect();
    let explains = |check: &&Check| failing.iter().any(|failed| check.explains(failed));
    let causes = catalogue.checks.iter().filter(explains);
    let wanted: Vec<String> = causes
        .map(|check| check.id.to_string())
        .chain([ids.to_owned()])
        .collect();
    catalogue.select(&wanted, &[])?;
    let pairs = [recorded(recording, node)];
    let verdicts = one::verdicts(&catalogue, facts, &pairs, slice::from_ref(recording));
    let policy = Policy::default();
    Ok(Some(report::report(
        &catalogue, facts, &verdicts, &pairs, &policy,
    )))
}

/// Shows what was measured, with what checks found of it.
///
/// # Errors
///
/// The output's.
pub fn show(
    format: MeasurementFormat,
    measured: &impl serde::Serialize,
    report: Option<&Report>,
    text: impl Fn(&mut dyn Write) -> std::io::Result<()>,
    draw: impl Fn(&mut Markup),
) -> anyhow::Result<()> {
    match format {
        MeasurementFormat::Html => show_page(report, text, draw),
        MeasurementFormat::Json => {
            let mut value = serde_json::to_value(measured)?;
            value["findings"] = match report {
                Some(report) => serde_json::to_value(&report.causes)?,
                None => serde_json::Value::Array(Vec::new()),
            };
            if let Some(report) = report.filter(|report| !report.waived.is_empty()) {
                value["waived"] = serde_json::to_value(&report.waived)?;
            }
            output::print_json(&value)
        }
        MeasurementFormat::Text => output::print(|out| {
            text(out)?;
            let speaks = |report: &&Report| !report.causes.is_empty() || !report.waived.is_empty();
            let Some(report) = report.filter(speaks) else {
                return Ok(());
            };
            writeln!(out)?;
            let (detail, width) = (report::text::Detail::default(), output::width());
            report::text::write(out, report, detail, width)
        }),
    }
}

/// Shows a measurement as a page: its drawing, and the text as it is.
///
/// # Errors
///
/// The output's.
pub fn show_page(
    report: Option<&Report>,
    text: impl Fn(&mut dyn Write) -> std::io::Result<()>,
    draw: impl Fn(&mut Markup),
) -> anyhow::Result<()> {
    terminal::set_color(false);
    let (mut words, mut drawing, mut page) = (Vec::new(), Markup::default(), Vec::new());
    text(&mut words)?;
    draw(&mut drawing);
    html::measurement(
        &mut page,
        &String::from_utf8_lossy(&words),
        &drawing,
        report,
    )?;
    output::print_raw(&page)
}

/// The exit status of a measurement: what was found decides.
pub fn exit(measured: bool, badly: bool, report: Option<&Report>) -> Exit {
    let is = |severity: Severity| {
        let mut causes = report.into_iter().flat_map(|report| &report.causes);
        causes.any(|cause| {
            let mut below = cause.consequences.iter().map(|one| one.severity);
            cause.severity == severity.word() || below.any(|word| word == severity.word())
        })
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
