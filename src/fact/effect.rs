//! The facts of one change between two arms, all else held.

use std::sync::Arc;

use super::Percent;
use super::arm::Outcome;
use super::schema::subject;

subject! {
    /// What one change does between two arms that differ by it alone.
    Effect = "effect" from "collective";

    /// The arm without the change.
    REFERENCE: Arc<str> = "reference" from "derive arms";
    /// The arm with it.
    ARM: Arc<str> = "arm" from "derive arms";
    /// By how much the throughput differs: below zero is slower.
    EFFECT: Percent = "effect" from "derive arms";
    /// The least of the interval in which that lies.
    LOWER: Percent = "lower" from "derive arms";
    /// The most of the interval in which that lies.
    UPPER: Percent = "upper" from "derive arms";
    /// The effect of the change on the throughput.
    OUTCOME: Outcome = "outcome" from "derive arms";
    /// By how much time and throughput contradict each other: slower by one, faster by the other. 0 % where they agree.
    CONTRADICTION: Percent = "contradiction" from "derive arms";
    /// Both times and figures, as they were written: `1:44:18 at 1.075 and 1:50:12 at 1.087`.
    FIGURES: Arc<str> = "figures" from "derive arms";
}
