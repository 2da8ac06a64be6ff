//! NCCL's logging in a measured run: what it writes, and how much of it is kept.

use crate::live::clock;
use crate::nccl_log::Limits;
use crate::source::Micros;

/// How much of a run's log is kept.
pub(super) const LOG_LIMITS: Limits = Limits {
    lines: 8 << 10,
    bytes: 1 << 20,
    events: 100,
    processes: 4096,
    text: 0,
};

/// NCCL's log variables, unless the arm or the user's environment sets them.
pub(super) const NCCL_LOG_VARIABLES: [(&str, &str); 2] = [
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH,TUNING"),
];

/// Microseconds since the recording began (in nanoseconds of `CLOCK_BOOTTIME`).
pub(super) fn micros_since(started_ns: u64) -> Micros {
    clock::boottime_ns().saturating_sub(started_ns) / 1000
}
