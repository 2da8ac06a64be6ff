//! How measured lines get into the recording of the node.

use serde_json::Value;

use crate::measure::plan::run::{NAME, Plan};
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// Puts a plan of collectives and the lines of its runs in the place where the recording says that nothing was measured.
pub(super) fn record_runs(recording: &mut Recording, plan: Value, lines: Vec<Line>) {
    recording.replace(NAME, Plan::question(), plan);
    for line in lines {
        recording.add(line);
    }
}
