//! `rdma-doctor log`: from the log of a run of NCCL to what it proves.

mod assert;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use self::assert::Claim;
use super::input::{self, BadInput};
use super::judging::JudgeArgs;
use super::output::StandardError;
use super::{SelectArgs, output, record};
use crate::examine::budget::{Foreign, REPORTING};
use crate::examine::recording_text::to_text;
use crate::examine::{log, many, one};
use crate::exit::Exit;
use crate::live::{self, judging_child};
use crate::report::html::{Markup, rank_strip, timeline};
use crate::report::text::Detail;
use crate::report::{json, text};
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
    /// In place of the report, say whether the log proves these claims about the traffic between nodes: exit status 0 if it proves all, 1 if it disproves one, 3 if it cannot be told
    #[arg(long = "assert", value_name = "CLAIMS", value_enum, value_delimiter = ',', conflicts_with_all = ["format", "output", "record"])]
    pub claims: Vec<Claim>,
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
    run_over(args, || {
        log::read_any(&args.files, args.deadline, &StandardError)
    })
}

/// Judges what is read in place of the log files.
pub(super) fn run_over(
    args: &LogArgs,
    read: impl FnOnce() -> anyhow::Result<Vec<Recording>>,
) -> anyhow::Result<Exit> {
    let mut catalogue = input::catalogue(&args.select)?;
    let over = |why: String| BadInput(format!("the log: {why}"));
    let mut recordings = judging_child::endless_input("reading the log", read).map_err(over)??;
    if let Some(path) = &args.record {
        let key = record::key(args.no_redact, args.redact_key.as_deref())?;
        let text = to_text(&recordings[0], key);
        record::write_out(path, &text, args.no_redact)?;
        if path.as_os_str() == live::log::STANDARD_INPUT {
            return Ok(Exit::Healthy);
        }
    }
    recordings.extend(input::open(&args.with)?);
    log::keep_checks_of_logs(&mut catalogue, &recordings);
    let policy = &args.judge.policy()?;
    let judge = || match args.with.as_slice() {
        [] => many::judged(&catalogue, &recordings, policy),
        _ => log::judged(&catalogue, &recordings, policy),
    };
    let mut report = judging_child::input("judging the log", judge).map_err(over)?;
    if !args.claims.is_empty() {
        let mut exit = Exit::Undecided;
        output::print(|out| {
            if let Some(log) = &report.log {
                exit = assert::write(out, log, &args.claims)?;
            }
            Ok(())
        })?;
        return Ok(exit);
    }
    if args.judge.draws() {
        let mut page = Markup::default();
        page.text(|out| text::write(out, &report, Detail::default(), 100))?;
        let facts = one::facts(&recordings).0;
        rank_strip::rank_strip(&mut report.drawn.above, &facts);
        timeline::timeline(&mut report.drawn.above, &facts);
        report.drawn.below = page;
    }
    let text =
        |out: &mut dyn Write| text::write(out, &report, args.judge.detail(), output::width());
    args.judge
        .write(&report, text, |out| json::write(out, &report))?;
    Ok(args.judge.exit(&report))
}
