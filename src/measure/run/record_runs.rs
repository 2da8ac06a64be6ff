//! How measured lines get into the recording of the node.

use serde_json::Value;

use crate::measure::plan::results::Results;
use crate::measure::plan::run::{NAME, Plan};
use crate::source::Question;
use crate::source::recording::Recording;
use crate::source::wire::{Header, Line};

/// Puts a plan and the lines of its runs in the place where the recording says that nothing was
/// measured, and ends the recording.
pub(super) fn record_runs(
    recording: &mut Recording,
    (benchmark, question): (&str, Question),
    plan: Value,
    lines: Vec<Line>,
) {
    recording.replace(benchmark, question, plan);
    for line in lines {
        recording.add(line);
    }
    recording.end();
}

/// What the lines of the runs of a plan of collectives say.
pub(super) fn read_runs(plan: &Plan, lines: Vec<Line>) -> Option<Results> {
    let mut recording = Recording::new(Header::default());
    let question = (NAME, Plan::question());
    record_runs(&mut recording, question, plan.to_value(), lines);
    Results::read(&recording.of(NAME)).ok()
}
