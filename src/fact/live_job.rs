//! The facts of a running job on a node.

use std::sync::Arc;

use super::Seconds;
use super::schema::subject;

subject! {
    /// A running job, as its ranks' processes on one node or several show it, looked at twice.
    LiveJob = "live_job" from "ranks";

    /// For how long it was looked at.
    LOOKED: Seconds = "looked" from "ranks";
    /// Whether all ranks stood still between the two looks, and none differs from the others or is at
    /// fault.
    STANDS_STILL: bool = "stands_still" from "ranks";
    /// In what the ranks wait: `4 ranks wait in recv`.
    WAITS: Arc<str> = "waits" from "ranks";
    /// Where the Python programs of its ranks stand: `3 in all_reduce, called by step (train.py:88), 1 in load (data.py:7)`.
    STACKS: Arc<str> = "stacks" from "ranks";
    /// The ranks that the launcher started on a node that was looked at and that have no process in
    /// either look: `rank 2`.
    MISSING: Arc<str> = "missing" from "ranks";
    /// Whether a rank is missing.
    HAS_MISSING: bool = "has_missing" from "ranks";
    /// The ranks that have a process: `ranks 0, 1 and 3 have one`.
    PRESENT: Arc<str> = "present" from "ranks";
    /// The version of the NCCL library that its first rank has mapped; "none" if it has mapped none.
    /// Source: /proc/PID/maps, the file's name or its package.
    NCCL_VERSION: Arc<str> = "nccl_version" from "ranks";
    /// Whether the CPUs are of ARM's architecture. Source: /sys/devices/system/cpu/modalias.
    ARM: bool = "arm" from "ranks";
    /// The known defect of that version that makes ranks wait without end, and which version fixes it;
    /// "none" if none is known that this machine meets.
    KNOWN_DEFECT: Arc<str> = "known_defect" from "derive known_defects";
    /// Whether a node that was asked gave no look at its ranks.
    HAS_SILENT: bool = "has_silent" from "ranks";
    /// The first of these, and why: `n3: ssh: Connection timed out`.
    SILENT: Arc<str> = "silent" from "ranks";
    /// Whether what each of its processes does could be looked at.
    COMPLETE: bool = "complete" from "ranks";
    /// What could not be looked at, and why.
    WITHHELD: Arc<str> = "withheld" from "ranks";
    /// What was seen, in a sentence.
    SUMMARY: Arc<str> = "summary" from "ranks";
}
