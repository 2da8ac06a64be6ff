//! Clocks of this machine.

#![expect(
    clippy::disallowed_methods,
    reason = "the one clock of deadlines and of recordings"
)]

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Reads `CLOCK_BOOTTIME`, in nanoseconds: it counts suspended time, as uptime does.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The time now, by which deadlines are kept and measurements are timed. What is judged takes its time from the recording.
pub fn now() -> Instant {
    Instant::now()
}

/// The time now, RFC 3339 in UTC, for a recording's header.
pub fn utc_now() -> String {
    humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string()
}

/// The time now, in nanoseconds since 1970; 0 if the clock is before that.
pub fn wall_clock() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}
