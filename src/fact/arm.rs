//! The facts of an arm of a measurement: what was taken away, what is left, and what was really used.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{BitRate, Percent};

words! {
    /// The effect of a change on the throughput.
    pub enum Outcome {
        /// It is lower, beyond doubt.
        Slower = "slower",
        /// It is higher, beyond doubt.
        Faster = "faster",
        /// It is the same within a few percent.
        Unchanged = "unchanged",
        /// The measurements scatter too much.
        Undecided = "undecided",
    }
}

words! {
    /// The transport of the traffic between nodes.
    pub enum InterNodeTransport {
        /// RDMA, and nothing else.
        Rdma = "rdma",
        /// TCP sockets, and nothing else.
        Socket = "socket",
        /// Several, or a plugin that the doctor does not know.
        Other = "other",
        /// There was none: all ranks are on one node.
        None = "none",
        /// The log does not show it.
        NotLogged = "not-logged",
    }
}

words! {
    /// Whether data went between GPUs and adapters without a copy in the host's memory.
    pub enum GpuDirectUse {
        /// All channels of the network did.
        All = "all",
        /// Some did.
        Some = "some",
        /// None did.
        None = "none",
        /// No channel used the network.
        NoNetwork = "no-network",
        /// The log does not show it.
        NotLogged = "not-logged",
    }
}

words! {
    /// Whether the arm's variables took effect.
    pub enum ArmApplied {
        /// NCCL read the variables, and the disabled feature was used before and is not used now.
        Honoured = "honoured",
        /// The disabled feature is still used.
        Ignored = "ignored",
        /// NCCL does not log that it read a variable, although it logs others.
        NotRead = "not-read",
        /// The disabled feature was not used before either: there was nothing to disable.
        Nothing = "nothing-to-take-away",
        /// The log does not show it.
        NotLogged = "not-logged",
        /// The variables disable nothing that the log would show.
        NotSeen = "not-seen",
    }
}

subject! {
    /// An arm of a measurement: the same with some variables set; the baseline sets none.
    Arm = "arm" from "collective";

    /// Its name: `baseline`, `ib-off+shm-off`.
    NAME: Arc<str> = "name" from "derive arms";
    /// The variables that it sets, with their values; "none" for the baseline.
    VARIABLES: Arc<str> = "variables" from "derive arms";
    /// Whether it is the baseline.
    IS_BASELINE: bool = "is_baseline" from "derive arms";
    /// Its bandwidth: the median of its rounds.
    FIGURE: Arc<str> = "figure" from "derive arms";
    /// Its bus bandwidth: the median of its rounds.
    BUSBW: BitRate = "busbw" from "derive arms";
    /// The least of the interval in which the bus bandwidth lies.
    LOWER: BitRate = "lower" from "derive arms";
    /// The most of the interval in which the bus bandwidth lies.
    UPPER: BitRate = "upper" from "derive arms";
    /// How many runs ended well and count.
    RUNS: u64 = "runs" from "derive arms";
    /// How many runs there were.
    STARTED: u64 = "started" from "derive arms";
    /// The spread of its rounds, as a share of their median; of one round its trials.
    SPREAD: Percent = "spread" from "derive arms";
    /// By how much its throughput differs from the baseline's: below zero is slower.
    EFFECT: Percent = "effect" from "derive arms";
    /// The least of the interval in which the effect lies.
    EFFECT_LOWER: Percent = "effect_lower" from "derive arms";
    /// The most of the interval in which the effect lies.
    EFFECT_UPPER: Percent = "effect_upper" from "derive arms";
    /// Its effect on the throughput, compared to the baseline.
    OUTCOME: Outcome = "outcome" from "derive arms";
    /// The effect's size in words, without its sign: `28 %`.
    CHANGE: Arc<str> = "change" from "derive arms";
    /// The transport of the traffic between nodes.
    BETWEEN: InterNodeTransport = "between" from "derive arms";
    /// Pairs of ranks on one node with channels through the host's shared memory.
    PAIRS_SHM: u64 = "pairs_shm" from "derive arms";
    /// Pairs of ranks on one node with channels over the network.
    PAIRS_NET: u64 = "pairs_net" from "derive arms";
    /// What each pair of ranks used, in short: `14 pairs P2P/CUMEM, 2 pairs NET/IB/GDRDMA`.
    PATHS: Arc<str> = "paths" from "derive arms";
    /// Whether GPUDirect RDMA was used.
    DIRECT: GpuDirectUse = "direct" from "derive arms";
    /// Whether channels over NVLink SHARP were set up.
    NVLS: bool = "nvls" from "derive arms";
    /// Whether the arm's variables took effect.
    HONOURED: ArmApplied = "honoured" from "derive arms";
    /// What that rests on: which variable NCCL read, which path is there or gone.
    HONOURED_WHY: Arc<str> = "honoured_why" from "derive arms";
    /// Whether its figure counts: a run ended well with right results.
    VALID: bool = "valid" from "derive arms";
    /// Why it does not; "none" if it does.
    INVALID_WHY: Arc<str> = "invalid_why" from "derive arms";
    /// Whether a run did not end by its deadline.
    HUNG: bool = "hung" from "derive arms";
    /// The last step that each of them reached.
    LAST_STEP: Arc<str> = "last_step" from "derive arms";
    /// How far a run came that went on until its deadline; "none" if each one ended, failed or hung.
    UNFINISHED: Arc<str> = "unfinished" from "derive arms";
    /// Whether a function failed in a run, or a process died.
    FAILED: bool = "failed" from "derive arms";
    /// The rank, the function and its error; "none" if none failed.
    FAILURE: Arc<str> = "failure" from "derive arms";
    /// How many elements had a wrong value.
    WRONG: u64 = "wrong" from "derive arms";
    /// Which rank had the first wrong one, and where.
    WRONG_WHERE: Arc<str> = "wrong_where" from "derive arms";
    /// The rank that took longest.
    SLOWEST_RANK: Arc<str> = "slowest_rank" from "derive arms";
    /// How much longer it took than the median of the ranks.
    SLOWEST_EXCESS: Percent = "slowest_excess" from "derive arms";
}
