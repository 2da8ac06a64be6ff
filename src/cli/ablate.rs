//! `rdma-doctor ablate`: what each path is worth, by taking one away after the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;

use super::input::{self, BadInput, BadUsage};
use super::{Format, output, record};
use crate::bench::table::{self, Table};
use crate::check::{Catalogue, judge};
use crate::exit::Exit;
use crate::probe::collective;
use crate::report::ablation::{self as answer, Ablation};
use crate::report::{self, Policy, Report};
use crate::source::recording::Recording;
use crate::source::wire::{self, Header, Line};
use crate::source::{Answer, Question, Reply, live};

/// Take one path after the other away, and say from the figures which one the job waits for.
///
/// An arm is a run with some of NCCL's variables set; the baseline sets none. Arms are measured in rounds that alternate, each run in fresh
/// processes. A table of what somebody measured already is judged the same way, by its figures alone.
#[derive(Debug, Args)]
pub struct AblateArgs {
    /// Show what this recording has, in place of measuring; with --table, judge the table together with it
    #[arg(value_name = "RECORDING")]
    pub recording: Option<PathBuf>,
    /// Judge a table of arms that somebody measured: Markdown, CSV or TSV, with a column for each variable and one for time or throughput
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// How many nodes took part in the runs of the table
    #[arg(long, value_name = "N", requires = "table", value_parser = clap::value_parser!(u64).range(1..))]
    pub nodes: Option<u64>,
    /// Write a recording of the node and of what was measured, for rdma-doctor check
    #[arg(short = 'o', long = "record", value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Leave names, addresses and serial numbers in the recording as they are
    #[arg(long, requires = "record")]
    pub no_redact: bool,
    /// The output's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &AblateArgs) -> anyhow::Result<Exit> {
    let recording = match (&args.recording, &args.table) {
        (recording, Some(file)) => {
            let recording = match recording {
                Some(path) => input::open(&[path])?.remove(0),
                None => nothing_but(),
            };
            with_table(recording, file, args.nodes)?
        }
        (Some(path), None) => input::open(&[path])?.remove(0),
        (None, None) => {
            return Err(BadUsage("name a recording, or --table FILE".into()).into());
        }
    };
    if let Some(path) = &args.record {
        let key = record::key(args.no_redact, None)?;
        record::write_out(path, &record::to_text(&recording, key))?;
    }
    show(&recording, args)
}

/// A recording of no machine.
fn nothing_but() -> Recording {
    Recording::new(Header {
        version: wire::VERSION.into(),
        utc: live::utc_now(),
        boottime_ns: live::boottime_ns(),
        doctor: env!("CARGO_PKG_VERSION").into(),
        ..Header::default()
    })
}

/// The recording with the table in the place where it says that nothing was measured.
fn with_table(
    mut recording: Recording,
    file: &Path,
    nodes: Option<u64>,
) -> anyhow::Result<Recording> {
    let bad = |what: String| BadInput(format!("{}: {what}", file.display()));
    let text = live::files::read_input(file).map_err(|e| bad(e.to_string()))?;
    let name = file
        .file_name()
        .map_or_else(|| "table".into(), |name| name.to_string_lossy());
    let mut table = Table::read(&name, &text).map_err(bad)?;
    table.nodes = nodes;
    let alone = recording.lines() == 0;
    if alone {
        // No machine was asked, and nothing else was measured: both are known.
        let question = crate::bench::plan::Plan::question();
        let said = crate::source::Refusal::NotAsked("a table was read".into());
        recording.add(line(question, Err(said)));
    }
    put(&mut recording, table::question(), table.to_value());
    Ok(recording)
}

/// Puts an answer where the recording says that nothing was measured.
pub(super) fn put(recording: &mut Recording, question: Question, value: serde_json::Value) {
    recording.add(Line::Drop(question.clone()));
    let mut line = line(question, Ok(Answer::Value(Arc::new(value))));
    if let Line::Reply { reply, .. } = &mut line {
        reply.at = recording.duration();
    }
    recording.add(line);
    let lines = recording.lines();
    recording.add(Line::Complete { lines });
}

fn line(question: Question, said: Result<Answer, crate::source::Refusal>) -> Line {
    Line::Reply {
        probe: collective::PROBE.name.into(),
        question,
        repeat: 0,
        reply: Reply { at: 0, said },
    }
}

/// Judges what a recording holds of measurements, and shows it.
pub(super) fn show(recording: &Recording, args: &AblateArgs) -> anyhow::Result<Exit> {
    let mut catalogue = Catalogue::embedded().context("a built-in check is invalid")?;
    // Of a machine that was not recorded nothing is asked.
    let machine = !recording.header.node.is_empty();
    if !machine {
        catalogue.checks.retain(answer::is_of_measurements);
    }
    let (facts, nodes) = input::facts(std::slice::from_ref(recording));
    let Some(&(_, node)) = nodes.first() else {
        return Ok(Exit::Undecided);
    };
    let ablation = Ablation::of(&facts, node);
    let verdicts = answer::relevant(&catalogue, &facts, judge(&catalogue, &facts));
    let pairs = [(recording, node)];
    let mut report = report::report(
        &catalogue,
        &facts,
        &verdicts,
        &pairs,
        Policy::default(),
        false,
    );
    headline(&mut report, &ablation);
    if !machine {
        report.nodes.clear();
    }
    output::print(|out| match args.format {
        Format::Json => {
            let mut value = serde_json::to_value(&ablation)?;
            value["report"] = serde_json::to_value(&report)?;
            serde_json::to_writer_pretty(&mut *out, &value)?;
            writeln!(out)
        }
        Format::Text => {
            let width = output::width();
            report::text::headline(out, &report)?;
            answer::text::write(out, &ablation, width)?;
            let detail = report::text::Detail::Normal;
            report::text::body(out, &report, detail, width, true)
        }
    })?;
    Ok(match ablation.is_measured() {
        true => report.exit(),
        false => Exit::Undecided,
    })
}

/// Where no check speaks, the figures do.
fn headline(report: &mut Report, ablation: &Ablation) {
    if !report.causes.is_empty() {
        return;
    }
    if !ablation.is_measured() {
        report.headline = "undecided: nothing was measured in this recording".into();
    } else if let Some(note) = report
        .notes
        .iter()
        .find(|n| n.check.starts_with("ablation/"))
    {
        report.headline.clone_from(&note.sentence);
    } else if let Some(sentence) = ablation.sentence() {
        report.headline = sentence;
    }
}
