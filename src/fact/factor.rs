//! The facts of one change over all pairs of arms that differ by it alone.

use std::sync::Arc;

use super::Percent;
use super::arm::{ArmApplied, Outcome};
use super::schema::subject;
use super::value::words;
use crate::sentence::shell::Command;

words! {
    /// What a change disables or alters.
    pub enum FactorChange {
        /// `NCCL_IB_DISABLE=1`, or another variable that does the same.
        IbOff = "ib-off",
        /// `NCCL_SHM_DISABLE=1`.
        ShmOff = "shm-off",
        /// `NCCL_P2P_DISABLE=1`.
        P2pOff = "p2p-off",
        /// `NCCL_NET_GDR_LEVEL=LOC`.
        GdrOff = "gdr-off",
        /// `NCCL_NET_GDR_LEVEL=SYS`.
        GdrAnywhere = "gdr-anywhere",
        /// `NCCL_NVLS_ENABLE=0`.
        NvlsOff = "nvls-off",
        /// `NCCL_PXN_DISABLE=1`.
        PxnOff = "pxn-off",
        /// `NCCL_CROSS_NIC=…`.
        CrossNic = "cross-nic",
        /// `NCCL_IB_QPS_PER_CONNECTION=…`.
        QueuePairs = "queue-pairs",
        /// `NCCL_ALGO=…`.
        Algorithm = "algorithm",
        /// `NCCL_IB_PCI_RELAXED_ORDERING=…`.
        RelaxedOrdering = "relaxed-ordering",
        /// `NCCL_IB_AR_THRESHOLD=…`.
        AdaptiveRouting = "adaptive-routing",
        /// Sockets and their threads: `NCCL_SOCKET_NTHREADS=…`, `NCCL_NSOCKS_PERTHREAD=…`; without NCCL connections between two ranks.
        SocketThreads = "socket-threads",
        /// Which rail all ranks use.
        Rail = "rail",
        /// Bytes of a packet at most.
        PacketSize = "packet-size",
        /// Any other.
        Other = "other",
    }
}

subject! {
    /// A change of the environment, over all pairs of arms that differ by it alone.
    Factor = "factor" from "collective";

    /// The variable with its value: `NCCL_IB_DISABLE=1`; several if none was measured alone.
    CHANGE: Command = "change" from "derive arms";
    /// What it disables or alters.
    KIND: FactorChange = "kind" from "derive arms";
    /// How many pairs of arms differ by it alone, and have figures.
    PAIRS: u64 = "pairs" from "derive arms";
    /// In how many of them the throughput is the same within a few percent.
    UNCHANGED: u64 = "unchanged" from "derive arms";
    /// In how many it makes the throughput lower, beyond doubt.
    SLOWER: u64 = "slower" from "derive arms";
    /// In how many it makes the throughput higher, beyond doubt.
    FASTER: u64 = "faster" from "derive arms";
    /// In how many the effect is unknown.
    UNDECIDED: u64 = "undecided" from "derive arms";
    /// The effect against the baseline alone: below zero is slower.
    EFFECT: Percent = "effect" from "derive arms";
    /// Its effect compared to the baseline alone.
    OUTCOME: Outcome = "outcome" from "derive arms";
    /// That effect in words, without its sign: `28 %`.
    COST: Arc<str> = "cost" from "derive arms";
    /// The effect of the pair that it slows most: below zero is slower.
    LEAST: Percent = "least" from "derive arms";
    /// The effect of the pair that it slows least, or speeds most.
    MOST: Percent = "most" from "derive arms";
    /// Both in words: `27–36 %`.
    RANGE: Arc<str> = "range" from "derive arms";
    /// Whether the effect certainly differs if another change is in force too.
    INTERACTS: bool = "interacts" from "derive arms";
    /// That other change: the variable with its value.
    INTERACTS_WITH: Arc<str> = "interacts_with" from "derive arms";
    /// Its cost with that other change: `11–12 %`.
    COST_WITH: Arc<str> = "cost_with" from "derive arms";
    /// Its cost without that other change.
    COST_WITHOUT: Arc<str> = "cost_without" from "derive arms";
    /// Whether it certainly costs something only with that other change.
    ONLY_WITH: bool = "only_with" from "derive arms";
    /// If it changes nothing even with P2P and shared memory off, so that all traffic takes the network, the words for that; else empty.
    EVEN: Arc<str> = "even" from "derive arms";
    /// Whether the arms' variables took effect, all pairs together: one that did not counts.
    HONOURED: ArmApplied = "honoured" from "derive arms";
    /// Whether an arm with it ended well where its reference hung, failed or had wrong results.
    CURES: bool = "cures" from "derive arms";
    /// The failures that it cured: `hung`, `failed`, `wrong results`; "none" if it cured nothing.
    CURED: Arc<str> = "cured" from "derive arms";
    /// Whether an arm with it hung or failed where its reference ended well.
    BREAKS: bool = "breaks" from "derive arms";
}
