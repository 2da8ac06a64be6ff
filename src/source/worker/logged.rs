//! A run whose log is read: what NCCL is to write of itself, how much of it is kept, and how what came of it is put into the recording.

use std::sync::Arc;

use crate::nccl_log::Limits;
use crate::source::wire::Line;
use crate::source::{Answer, Micros, Question, Reply, live};

/// What is kept of a run's log.
pub(super) const LIMITS: Limits = Limits {
    lines: 8 << 10,
    bytes: 1 << 20,
    events: 100,
    processes: 4096,
};

/// What NCCL is to write of itself, unless the arm, or in a job of the user's the user, says otherwise.
pub(super) const LOGGING: [(&str, &str); 2] = [
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH,TUNING"),
];

/// The time since a recording began (in nanoseconds of `CLOCK_BOOTTIME`).
pub(super) fn since(started_ns: u64) -> Micros {
    live::boottime_ns().saturating_sub(started_ns) / 1000
}

/// A reply of the run's as a line of the recording.
pub(super) fn line(
    probe: &str,
    question: Question,
    value: &impl serde::Serialize,
    at: Micros,
) -> Line {
    // Names and numbers only: there is nothing that JSON cannot hold.
    let value = serde_json::to_value(value).unwrap_or_default();
    Line::Reply {
        probe: probe.into(),
        question,
        repeat: 0,
        reply: Reply {
            at,
            said: Ok(Answer::Value(Arc::new(value))),
        },
    }
}
