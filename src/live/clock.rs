//! Clocks of this machine.

#![expect(
    clippy::disallowed_methods,
    reason = "the one clock of deadlines and of recordings"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    rfc3339(SystemTime::now())
}

/// A clock that is set before 1970 or after 9999 shows the first or the last time that is written so.
fn rfc3339(time: SystemTime) -> String {
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(time.clamp(UNIX_EPOCH, last)).to_string()
}

/// The time so long ago, to the minute: `14:02 UTC`, with the day where that was another one.
pub fn utc_before(ago: Duration) -> String {
    let now = SystemTime::now();
    let (now, then) = (rfc3339(now), rfc3339(now.checked_sub(ago).unwrap_or(now)));
    match now.get(..10) == then.get(..10) {
        true => format!("{} UTC", then.get(11..16).unwrap_or("")),
        false => format!("{} UTC", then.get(..16).unwrap_or("").replace('T', " ")),
    }
}

/// The time now, in nanoseconds since 1970; 0 if the clock is before that.
pub fn wall_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_shows_a_time() {
        for (time, text) in [
            (
                UNIX_EPOCH - Duration::from_secs(1),
                "1970-01-01T00:00:00.000Z",
            ),
            (
                UNIX_EPOCH + Duration::from_secs(60),
                "1970-01-01T00:01:00.000Z",
            ),
            (
                UNIX_EPOCH + Duration::from_secs(1 << 40),
                "9999-12-31T23:59:59.000Z",
            ),
        ] {
            assert_eq!(rfc3339(time), text);
        }
    }
}
