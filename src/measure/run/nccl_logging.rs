//! A run whose log is read: what NCCL is to write of itself and how much of it is kept.

use crate::live::clock;
use crate::nccl_log::Limits;
use crate::source::Micros;

/// What is kept of a run's log.
pub(super) const LOG_LIMITS: Limits = Limits {
    lines: 8 << 10,
    bytes: 1 << 20,
    events: 100,
    processes: 4096,
};

/// What NCCL is to write of itself, unless the arm, or in a job of the user's the user, says otherwise.
pub(super) const NCCL_LOG_VARIABLES: [(&str, &str); 2] = [
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH,TUNING"),
];

/// The time since a recording began (in nanoseconds of `CLOCK_BOOTTIME`).
pub(super) fn micros_since(started_ns: u64) -> Micros {
    clock::boottime_ns().saturating_sub(started_ns) / 1000
}
