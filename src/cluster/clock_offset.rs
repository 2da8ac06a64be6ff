//! How far two clocks are apart, from questions and answers between them.

use serde::{Deserialize, Serialize};

/// What the other side says of one question: when it heard it and when it answered, in nanoseconds since 1970 by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// When the question came.
    pub heard: i64,
    /// When the answer went.
    pub said: i64,
}

/// How far the other clock is ahead of this one, and how well that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// Nanoseconds; negative where it is behind.
    pub ns: i64,
    /// By how many nanoseconds that may be wrong: half of what question and answer were under way.
    pub within_ns: u64,
}

impl Offset {
    /// The offset of one question, asked and answered at these times of this clock, as NTP has it (RFC 5905, section 8): right where both ways take the
    /// same time, and never wrong by more than half of both.
    pub fn of(asked: i64, answer: Answer, answered: i64) -> Self {
        let there = answer.heard.saturating_sub(asked);
        let back = answer.said.saturating_sub(answered);
        let ns = i64::midpoint(there, back);
        let under_way = there.saturating_sub(back);
        // A clock that was set between the two is no clock.
        let within_ns = u64::try_from(under_way).map_or(u64::MAX, |ns| ns.div_ceil(2));
        Offset { ns, within_ns }
    }

    /// The offset of a moment that the other clock stamped, between two of this clock.
    pub fn between(from: i64, stamped: i64, to: i64) -> Self {
        let answer = Answer {
            heard: stamped,
            said: stamped,
        };
        Offset::of(from, answer, to)
    }

    /// The better known one of two.
    pub fn or(self, other: Option<Offset>) -> Self {
        other.map_or(self, |other| match other.within_ns < self.within_ns {
            true => other,
            false => self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_what_is_left_of_both_ways() {
        let ahead = |by: i64, there: i64, back: i64| {
            let heard = 1000 + there + by;
            let answer = Answer {
                heard,
                said: heard + 50,
            };
            Offset::of(1000, answer, 1000 + there + 50 + back)
        };
        assert_eq!(
            ahead(700, 20, 20),
            Offset {
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
        let offset = Offset::between(1000, 9000, 2000);
        assert_eq!(
            offset,
            Offset {
                ns: 7500,
                within_ns: 500
            }
        );
        assert_eq!(
            offset
                .or(Some(Offset {
                    ns: 1,
                    within_ns: 2
                }))
                .ns,
            1
        );
        assert_eq!(offset.or(None), offset);
    }

    #[test]
    fn a_clock_that_was_set_meanwhile_says_nothing() {
        assert_eq!(
            Offset::of(
                10,
                Answer {
                    heard: 10,
                    said: 90
                },
                20
            )
            .within_ns,
            u64::MAX
        );
    }
}
