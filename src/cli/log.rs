//! `rdma-doctor log`: from the log of a run of NCCL to what it proves.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::budget::{Foreign, REPORTING};
use super::input::{self, BadInput, bad_usage};
use super::judging::JudgeArgs;
use super::{SelectArgs, many, output, record};
use crate::check::{Catalogue, Check, Missing, Outcome, Verdict};
use crate::exit::Exit;
use crate::fact::{Facts, Subject, node};
use crate::live::{self, judging_child};
use crate::probe::nccl_log;
use crate::report::html::Markup;
use crate::report::log::{self as answer, LogReport};
use crate::report::{self, Policy, text::Detail};
use crate::source::recording::Recording;

/// Read the log of a run of NCCL: was RDMA used, and what went wrong.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// Log files of one run, or of several: plain, .gz or .zst; a directory for all that is text in it and below it; - or nothing for standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A recording of a node that took part, judged together with the log (repeatable)
    #[arg(long, value_name = "RECORDING")]
    pub with: Vec<PathBuf>,
    /// Write what was kept of the log as a recording; a name that ends in .zst is compressed, - is standard output
    #[arg(long, value_name = "FILE", value_parser = super::output_file())]
    pub record: Option<PathBuf>,
    /// In that recording, leave host names, addresses and GIDs as they are
    #[arg(long, requires = "record", conflicts_with = "redact_key")]
    pub no_redact: bool,
    /// In that recording, make pseudonyms from this file's content
    #[arg(long, value_name = "FILE", requires = "record")]
    pub redact_key: Option<PathBuf>,
    /// Stop reading after this many seconds; what is still unread then is unknown
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    pub deadline: Option<Duration>,
    /// Which checks are judged.
    #[command(flatten)]
    pub select: SelectArgs,
    /// How the verdict is shown, and its exit status.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

impl LogArgs {
    /// What it judges that others wrote.
    pub(super) fn foreign(&self) -> Foreign {
        Foreign {
            together: None,
            deadline: self.deadline.map(|reading| reading + REPORTING),
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &LogArgs) -> anyhow::Result<Exit> {
    let mut catalogue = input::catalogue(&args.select)?;
    let over = |why: String| BadInput(format!("the log: {why}"));
    let read = || log(&args.files, args.deadline);
    let mut recordings =
        vec![judging_child::endless_input("reading the log", read).map_err(over)??];
    if let Some(path) = &args.record {
        let key = record::key(args.no_redact, args.redact_key.as_deref())?;
        let text = record::to_text(&recordings[0], key);
        record::write_out(path, &text, args.no_redact)?;
        if path.as_os_str() == live::log::STANDARD_INPUT {
            return Ok(Exit::Healthy);
        }
    }
    recordings.extend(input::open(&args.with)?);
    if args.with.is_empty() {
        // Of a machine nothing is asked.
        catalogue.checks.retain(is_of_log);
    }
    let policy = &args.judge.policy()?;
    let judge = || judged(&catalogue, &recordings, policy);
    let mut log = judging_child::input("judging the log", judge).map_err(over)?;
    if args.judge.draws() {
        let mut page = Markup::default();
        page.text(|out| answer::write(out, &log, Detail::default(), 100))?;
        log.report.drawn = page;
    }
    let text = |out: &mut dyn Write| answer::write(out, &log, args.judge.detail(), output::width());
    let json = |out: &mut dyn Write| output::write_json(out, &log);
    args.judge.write(&log.report, text, json)?;
    Ok(args.judge.exit(&log.report))
}

/// Judges logs, and nodes beside them.
pub fn judged(catalogue: &Catalogue, recordings: &[Recording], policy: &Policy) -> LogReport {
    let (mut facts, nodes) = input::facts_within(catalogue.limits.clone(), recordings);
    let mut verdicts = many::verdicts(catalogue, &mut facts, &nodes, recordings);
    verdicts.retain(|verdict| answers(catalogue, &facts, verdict));
    let report = report::report(catalogue, &facts, &verdicts, &nodes, policy);
    LogReport::new(catalogue, &facts, report)
}

/// Whether a log can answer the check: by its runs and results, or by what tools printed of nodes.
pub fn is_of_log(check: &Check) -> bool {
    let of_log = |s| matches!(s, Subject::Run | Subject::Benchmark | Subject::Node);
    check.id.starts_with("log/") || check.subject.scope().any(of_log)
}

/// Whether a verdict is one: what tools did not print of a node is no question, since nobody asked the node.
fn answers(catalogue: &Catalogue, facts: &Facts, verdict: &Verdict) -> bool {
    if verdict.outcome == Outcome::Unknown(Missing::Members(Subject::Node)) {
        // The log breaks off: whether tools' output stood further on nobody asks.
        return false;
    }
    let node = facts.ancestor(verdict.subject, Subject::Node);
    if node.and_then(|node| facts.known(node, node::PASTED)) != Some(true) {
        return true;
    }
    match verdict.outcome {
        Outcome::Unknown(Missing::Members(_)) => false,
        Outcome::Unknown(Missing::Facts) => {
            let check = &catalogue.checks[verdict.check];
            check.is_told(facts, verdict.subject)
        }
        _ => true,
    }
}

/// What is kept of these log files, of which none is read after the deadline; of one that is a recording of a log already, what that holds.
///
/// # Errors
///
/// [`BadInput`] for a file that cannot be read, [`bad_usage`] where there is none and standard input is a terminal.
#[expect(clippy::disallowed_methods, reason = "the deadline of reading")]
pub fn log(files: &[PathBuf], deadline: Option<Duration>) -> anyhow::Result<Recording> {
    let deadline = deadline.map(|after| Instant::now() + after);
    let standard = [PathBuf::from(live::log::STANDARD_INPUT)];
    let files = match files {
        [] if std::io::stdin().is_terminal() => {
            return Err(bad_usage("name a log file, or give one on standard input"));
        }
        [] => &standard,
        [one] if live::log::is_recording(one) => return recorded(one),
        files => files,
    };
    let (all, one) = (nccl_log::files(), nccl_log::file);
    live::log::record(files, nccl_log::NAME, all, one, deadline)
        .map_err(|(path, error)| BadInput::of(&path, error).into())
}

fn recorded(path: &Path) -> anyhow::Result<Recording> {
    let recording = input::open_recording(path)?;
    if !recording.header.log {
        let why = "a recording of a node, and of no log: give it to --with";
        return Err(BadInput::of(path, why).into());
    }
    Ok(recording)
}
