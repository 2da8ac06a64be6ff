//! The facts of what is accused by pairs of nodes.

use std::sync::Arc;

use super::Percent;
use super::schema::subject;
use super::value::words;
use crate::sentence::Sentence;
use crate::sentence::shell::Command;

words! {
    /// The problem of the suspect.
    pub enum SuspectProblem {
        /// The node did not connect, or was lost.
        Silent = "silent",
        /// No connection to it opens, or nothing passes over one.
        Unreachable = "unreachable",
        /// Packets of the interface's own MTU do not get through.
        PacketShort = "packet-short",
        /// RDMA writes do not arrive, or are refused.
        RdmaFails = "rdma-fails",
        /// Data has to be retransmitted.
        Loss = "loss",
        /// It carries much less than its equals.
        Slow = "slow",
        /// All pairs between two parts of the nodes carry much less than those within the parts.
        CutSlow = "cut-slow",
        /// A network that the nodes have and do not use carries much more than the one in use.
        FasterNetwork = "faster-network",
        /// A round trip takes much longer than its equals'.
        Late = "late",
        /// Its adapters should reach its GPUs' memory by all that the node reports, but cannot, or move data wrongly.
        GpuFails = "gpu-fails",
        /// Its adapters have the memory of no GPU.
        GpuNone = "gpu-none",
        /// From GPU to GPU it carries much less than in the host's memory.
        GpuSlow = "gpu-slow",
        /// Adapters of different rails do not reach each other, and each rail works.
        RailsApart = "rails-apart",
    }
}

subject! {
    /// What pairs of nodes accuse: the fewest nodes, adapters, rails or pairs that explain all that `rdma-doctor bench pairs` found bad.
    Suspect = "suspect" from "pairs";

    /// The problem of the suspect.
    PROBLEM: SuspectProblem = "problem" from "pairs";
    /// The suspect: a node, its adapter as `n2/eth1`, a rail, or two ends.
    NAME: Arc<str> = "name" from "pairs";
    /// The observation, in a sentence that names the observers.
    WHAT: Sentence = "what" from "pairs";
    /// Of packets that are too large: the commands that set the receiver's MTU where its own is too small, else those that show the hop that takes less.
    MTU_COMMANDS: Arc<[Command]> = "mtu_commands" from "pairs";
    /// Of a faster network: the commands that have NCCL and Gloo use it.
    USE_COMMANDS: Arc<[Command]> = "use_commands" from "pairs";
    /// Of a loss: the share of data that was retransmitted.
    LOSS: Percent = "loss" from "pairs";
    /// Of a loss: whether what loses carries much less than its equals.
    SLOWED: bool = "slowed" from "pairs";
    /// The interfaces and RDMA ports of the node that recorded it, over which it was seen; none if only other nodes saw it.
    OWN: Arc<[Arc<str>]> = "own" from "pairs";
}
