//! The facts of one change between two arms, all else held.

use std::sync::Arc;

use super::arm::Outcome;
use super::schema::subject;
use super::{Percent, Seconds};

subject! {
    /// What one change does between two arms that differ by it alone.
    Effect = "effect" from "collective";

    /// The arm without the change.
    REFERENCE: Arc<str> = "reference" from "derive";
    /// The arm with it.
    ARM: Arc<str> = "arm" from "derive";
    /// What both have set besides; "nothing" if that is none.
    HELD: Arc<str> = "held" from "derive";
    /// The bandwidth of the reference.
    BEFORE: Arc<str> = "before" from "derive";
    /// The bandwidth of the arm.
    AFTER: Arc<str> = "after" from "derive";
    /// By how much the throughput differs: below zero is slower.
    EFFECT: Percent = "effect" from "derive";
    /// The least of the interval in which that lies.
    LOWER: Percent = "lower" from "derive";
    /// The most of the interval in which that lies.
    UPPER: Percent = "upper" from "derive";
    /// The effect of the change on the throughput.
    OUTCOME: Outcome = "outcome" from "derive";
    /// How many rounds both arms have.
    ROUNDS: u64 = "rounds" from "derive";
    /// By how much time and throughput contradict each other: slower by one, faster by the other. 0 % where they agree.
    CONTRADICTION: Percent = "contradiction" from "derive";
    /// How long the reference took, where somebody wrote it down.
    TIME_BEFORE: Seconds = "time_before" from "derive";
    /// How long the arm took.
    TIME_AFTER: Seconds = "time_after" from "derive";
    /// Both times and figures, as they were written: `1:44:18 at 1.075 and 1:50:12 at 1.087`.
    FIGURES: Arc<str> = "figures" from "derive";
}
