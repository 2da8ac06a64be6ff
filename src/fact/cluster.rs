//! The cluster's facts.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// All nodes that are judged together.
    Cluster = "cluster" from "recording";
    /// How many nodes are judged together.
    NODES: u64 = "nodes" from "derive tally";
    /// Whether the nodes tried to reach each other.
    TRIED: bool = "tried" from "derive reach";
    /// Of ways between nodes that were tried: what of them was not, and why; empty if all were.
    UNTRIED: Arc<str> = "untried" from "derive reach";
    /// The files of the log, as they were named.
    LOGS: Arc<[Arc<str>]> = "logs" from "nccl_log";
    /// Files of the directories of logs that are no text and were not read: core dumps, programs, checkpoints.
    LOGS_NO_TEXT: Arc<[Arc<str>]> = "logs_no_text" from "nccl_log";
    /// Recordings of this program in the directories of logs, which were not read as logs.
    LOGS_RECORDINGS: Arc<[Arc<str>]> = "logs_recordings" from "nccl_log";
    /// Tools of which output is in the logs, and judged.
    LOGS_OUTPUTS: Arc<[Arc<str>]> = "logs_outputs" from "nccl_log";
    /// Tools of which output is in the logs that nothing reads.
    LOGS_UNREAD: Arc<[Arc<str>]> = "logs_unread" from "nccl_log";
    /// What was not read of the logs, because a reader is bounded or they are cut: a sentence each.
    LEFT_OUT: Arc<[Arc<str>]> = "left_out" from "nccl_log";
}
