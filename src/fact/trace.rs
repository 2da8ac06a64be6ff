//! The facts of what the ranks of a job recorded of their collectives.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// What the ranks of a job recorded of their collectives: dumps of PyTorch's flight recorder, the status of NCCL's RAS.
    Trace = "trace" from "nccl_log";

    /// How many ranks the job has, by its largest group.
    RANKS: u64 = "ranks" from "nccl_log";
    /// How many ranks have a dump of the flight recorder here.
    DUMPS: u64 = "dumps" from "nccl_log";
    /// The ranks without a dump, where others have one: `5, 8-11`.
    WITHOUT: Arc<str> = "without" from "nccl_log";
    /// Whether each rank of the job is told of.
    COMPLETE: bool = "complete" from "nccl_log";
    /// Whether ranks went on between two dumps, or two statuses.
    MOVES: bool = "moves" from "nccl_log";
    /// What is there, in a sentence.
    SUMMARY: Arc<str> = "summary" from "nccl_log";
}
