//! The log of a run of NCCL: how it is read, and what of it is judged.

use std::path::PathBuf;
use std::time::Duration;

use super::given::{Given, read_outputs, read_outputs_beside};
use super::one::Judged;
use super::recorded_input::{open_recording, read_logs};
use super::sink::Sink;
use crate::check::{Catalogue, Check, Missing, Outcome, Verdict};
use crate::fact::{Facts, Subject, node};
use crate::live::{self, files};
use crate::probe::nccl_log;
use crate::report::{Policy, Report};
use crate::source::recording::Recording;

/// Leaves the checks that logs can answer, where nothing but logs is judged: of a machine nothing
/// is asked.
pub fn keep_checks_of_logs<'r>(
    catalogue: &mut Catalogue,
    recordings: impl IntoIterator<Item = &'r Recording>,
) {
    if recordings.into_iter().all(|one| one.header.log) {
        catalogue.checks.retain(is_of_log);
    }
}

/// Judges logs, and nodes beside them.
pub fn judged(catalogue: &Catalogue, recordings: &[Recording], policy: &Policy) -> Report {
    let mut judged = Judged::new(catalogue, recordings);
    let facts = &judged.facts;
    (judged.verdicts).retain(|verdict| answers(catalogue, facts, verdict));
    judged.report(policy)
}

/// Whether a log can answer the check: by its runs and results, or by what tools printed of nodes.
pub fn is_of_log(check: &Check) -> bool {
    let of_log = |s| {
        matches!(
            s,
            Subject::Run | Subject::Trace | Subject::LiveJob | Subject::Benchmark | Subject::Node
        )
    };
    check.id.starts_with("log/") || check.subject.scope().any(of_log)
}

/// Whether a verdict is one: what tools did not print of a node is no question, since nobody asked
/// the node.
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

/// What these files hold, as `check` reads it too: a log with all that stands in it; of what tells
/// of no run of NCCL the machines: a recording, an archive, or what tools printed.
///
/// # Errors
///
/// As [`read_logs`].
pub fn read_any(
    files: &[PathBuf],
    deadline: Option<Duration>,
    sink: &dyn Sink,
) -> anyhow::Result<Vec<Recording>> {
    if let [one] = files
        && let given = Given::of_path(one)
        && matches!(given, Given::Recording(_) | Given::Archive(_))
        && files::is_file_or_directory(one)
    {
        return given.recordings(sink);
    }
    if files.len() > 1 && files.iter().all(|path| live::log::is_recording(path)) {
        let each = files.iter().map(|path| open_recording(path));
        return Ok(each.collect::<Result<_, _>>()?);
    }
    let log = read_logs(files, deadline)?;
    if nccl_log::tells_of_run(&log) {
        return Ok(vec![log]);
    }
    let machines = match files {
        // What comes out of a pipe can be read once.
        [one] if files::is_file_or_directory(one) => read_outputs(one, sink).recordings(one).ok(),
        [] | [_] => nccl_log::machines(&log),
        several => read_outputs_beside(several, sink),
    };
    Ok(machines.unwrap_or_else(|| vec![log]))
}
