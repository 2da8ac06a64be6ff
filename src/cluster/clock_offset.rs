//! The offset between the clocks of two nodes, measured by exchanged timestamps.

use serde::{Deserialize, Serialize};

/// The other node's timestamps of one exchange, in nanoseconds since 1970 by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReply {
    /// When it received the question.
    #[serde(rename = "heard")]
    pub received: i64,
    /// When it sent the answer.
    #[serde(rename = "said")]
    pub sent: i64,
}

/// How far the other clock is ahead of this one, with its error bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Nanoseconds; negative if it is behind.
    pub ns: i64,
    /// The error bound in nanoseconds: half of the round trip.
    pub within_ns: u64,
}

impl ClockOffset {
    /// The offset by one exchange that this clock saw begin and end at these times, after NTP (RFC
    /// 5905, section 8): exact if both directions take the same time, and never wrong by more than
    /// half of the round trip.
    pub fn from_exchange(asked: i64, answer: ClockReply, answered: i64) -> Self {
        let there = answer.received.saturating_sub(asked);
        let back = answer.sent.saturating_sub(answered);
        let ns = i64::midpoint(there, back);
        let under_way = there.saturating_sub(back);
        // A negative round trip means that a clock was set meanwhile.
        let within_ns = u64::try_from(under_way).map_or(u64::MAX, |ns| ns.div_ceil(2));
        ClockOffset { ns, within_ns }
    }

    /// The offset by one timestamp of the other clock, taken between two of this one.
    pub fn from_timestamp(from: i64, stamped: i64, to: i64) -> Self {
        let answer = ClockReply {
            received: stamped,
            sent: stamped,
        };
        ClockOffset::from_exchange(from, answer, to)
    }

    /// The offset with the smaller error bound.
    pub fn better_of(self, other: Option<ClockOffset>) -> Self {
        other.map_or(self, |other| {
            if other.within_ns < self.within_ns {
                other
            } else {
                self
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_exact_for_equal_directions() {
        let ahead = |by: i64, there: i64, back: i64| {
            let heard = 1000 + there + by;
            let answer = ClockReply {
                received: heard,
                sent: heard + 50,
            };
            ClockOffset::from_exchange(1000, answer, 1000 + there + 50 + back)
        };
        assert_eq!(
            ahead(700, 20, 20),
            ClockOffset {
                ns: 700,
                within_ns: 20
            }
        );
        for (by, there, back) in [(-5_000_000_000, 10, 90), (0, 400, 2), (3, 0, 7)] {
            let offset = ahead(by, there, back);
            assert!(offset.ns.abs_diff(by) <= offset.within_ns, "{offset:?}");
            assert_eq!(offset.within_ns, (there + back).unsigned_abs().div_ceil(2));
        }
    }

    #[test]
    fn a_stamp_lies_between_two_moments() {
        let offset = ClockOffset::from_timestamp(1000, 9000, 2000);
        assert_eq!(
            offset,
            ClockOffset {
                ns: 7500,
                within_ns: 500
            }
        );
        assert_eq!(
            offset
                .better_of(Some(ClockOffset {
                    ns: 1,
                    within_ns: 2
                }))
                .ns,
            1
        );
        assert_eq!(offset.better_of(None), offset);
    }

    #[test]
    fn a_clock_set_meanwhile_gives_no_bound() {
        assert_eq!(
            ClockOffset::from_exchange(
                10,
                ClockReply {
                    received: 10,
                    sent: 90
                },
                20
            )
            .within_ns,
            u64::MAX
        );
    }
}
