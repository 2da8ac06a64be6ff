//! The log of a run of NCCL: how it is read, and what of it is judged.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::given::open_recording;
use super::one::Judged;
use super::unusable::{BadInput, bad_usage};
use crate::check::{Catalogue, Check, Missing, Outcome, Verdict};
use crate::fact::{Facts, Subject, node};
use crate::live;
use crate::probe::nccl_log;
use crate::report::Policy;
use crate::report::log::LogReport;
use crate::source::recording::Recording;

/// Judges logs, and nodes beside them.
pub fn judged(catalogue: &Catalogue, recordings: &[Recording], policy: &Policy) -> LogReport {
    let mut judged = Judged::new(catalogue, recordings);
    let facts = &judged.facts;
    (judged.verdicts).retain(|verdict| answers(catalogue, facts, verdict));
    LogReport::new(catalogue, facts, judged.report(policy))
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
pub fn read(files: &[PathBuf], deadline: Option<Duration>) -> anyhow::Result<Recording> {
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
    let recording = open_recording(path)?;
    if !recording.header.log {
        let why = "a recording of a node, and of no log: give it to --with";
        return Err(BadInput::of(path, why).into());
    }
    Ok(recording)
}
