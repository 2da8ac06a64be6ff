//! The facts of a rank of a run of NCCL, as its log tells them.

use super::schema::subject;

subject! {
    /// A rank of the largest communicator of a run, or, if no line says which rank it is, a process.
    Rank = "rank" from "nccl_log";

    /// The rank's number in the largest communicator that it belongs to.
    NUMBER: u64 = "number" from "nccl_log";
    /// The CUDA device that the rank uses.
    GPU: u64 = "gpu" from "nccl_log";
    /// Whether the rank ended its initialisation; unknown if no INFO line of the rank is in the log.
    INITIALISED: bool = "initialised" from "nccl_log";
}
