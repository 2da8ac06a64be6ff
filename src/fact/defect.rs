//! The facts of a known defect of a library that a run hits.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// What a defect makes of a run.
    pub enum Symptom {
        /// Ranks wait for each other without end.
        Hang = "hang",
        /// A process crashes.
        Crash = "crash",
        /// Results are wrong.
        WrongData = "wrong-data",
        /// The initialisation fails.
        InitFails = "init-fails",
        /// The run is slower than it could be.
        Slow = "slow",
    }
}

words! {
    /// Whether a run shows what a defect makes of it.
    pub enum DefectSeen {
        /// A line shows it.
        Shown = "shown",
        /// It may be: the log ends while ranks initialise.
        Suspected = "suspected",
        /// No line shows it.
        No = "no",
    }
}

subject! {
    /// A known defect of NCCL that a run hits by its version, its settings and its shape.
    Defect = "defect" from "derive log";

    /// The version of the library.
    VERSION: Arc<str> = "version" from "derive log";
    /// What it makes of a run.
    SYMPTOM: Symptom = "symptom" from "derive log";
    /// Whether the run shows that.
    SEEN: DefectSeen = "seen" from "derive log";
    /// Whether the conditions that the log shows are all that it takes.
    PROVEN: bool = "proven" from "derive log";
    /// What goes wrong: `on ARM CPUs a rank can lose all slots of its proxy …`. Source: `source`.
    WHAT: Arc<str> = "what" from "derive log";
    /// Which version fixes it, or the last in which it was seen: `fixed in 2.29.3`.
    FIXED: Arc<str> = "fixed" from "derive log";
    /// What a user does to avoid it.
    REMEDY: Arc<str> = "remedy" from "derive log";
    /// The thread, release note or release that tells of it.
    SOURCE: Arc<str> = "source" from "derive log";
    /// The line that shows it: `job-1.log:17`; unknown where none does.
    PLACE: Arc<str> = "place" from "derive log";
}
