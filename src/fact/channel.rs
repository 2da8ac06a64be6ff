//! The facts of what connects two ranks, as NCCL's log tells them.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// What carries a channel.
    pub enum Transport {
        /// From GPU to GPU.
        P2p = "p2p",
        /// The host's shared memory.
        Shm = "shm",
        /// A network.
        Net = "net",
        /// A network that computes: SHARP.
        CollNet = "collnet",
    }
}

words! {
    /// Which of both ranks wrote the line.
    pub enum Direction {
        /// The sender.
        Send = "send",
        /// The receiver.
        Receive = "receive",
    }
}

subject! {
    /// The channels from one rank to another with one transport, one adapter and one direction: one instance for each such group in the log.
    Channel = "channel" from "nccl_log";

    /// The sending rank, in its communicator.
    FROM: u64 = "from" from "nccl_log";
    /// The receiving rank, in its communicator.
    TO: u64 = "to" from "nccl_log";
    /// Which of both wrote the lines; lines of GPU to GPU and shared memory are the sender's.
    DIRECTION: Direction = "direction" from "nccl_log";
    /// What carries them.
    TRANSPORT: Transport = "transport" from "nccl_log";
    /// The transport's own words: `IPC`, `CUMEM`, `direct`; of a network its name.
    KIND: Arc<str> = "kind" from "nccl_log";
    /// Whether the network is RDMA; unknown for a plugin that the doctor does not know.
    RDMA: bool = "rdma" from "nccl_log";
    /// Whether GPUDirect RDMA is used.
    GDR: bool = "gdr" from "nccl_log";
    /// Whether both ranks are on one node; unknown if the other rank wrote nothing, except that shared memory and GPU to GPU are of one node.
    INSIDE_NODE: bool = "inside_node" from "nccl_log";
    /// How many lines there are of it.
    COUNT: u64 = "count" from "nccl_log";
}
