//! The facts of what ranks of a job wait for.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// Why a collective does not end.
    pub enum StallKind {
        /// Ranks did not launch it, and wait for nothing themselves: the host's side.
        NotJoined = "not-joined",
        /// Ranks launched it and did not complete it, while others did: the device's side.
        NotCompleted = "not-completed",
        /// All ranks launched it, and none completed it.
        Together = "together",
        /// Ranks called different operations, sizes or types in one place.
        CallsDiffer = "calls-differ",
        /// Ranks wait for each other in different groups.
        OrderDiffers = "order-differs",
        /// Ranks that others wait for have no dump.
        NoDump = "no-dump",
        /// RAS does not reach ranks, and still tries.
        Unresponsive = "unresponsive",
        /// RAS gave ranks up.
        Dead = "dead",
        /// Ranks launched fewer operations than the others, by RAS.
        Behind = "behind",
    }
}

words! {
    /// What proves that it stands still.
    pub enum StallProof {
        /// Nothing: one moment was recorded.
        None = "none",
        /// A call is older than its timeout, or a watchdog's line says that one timed out.
        Timeout = "timeout",
        /// Two dumps or statuses of different times are the same.
        Twice = "twice",
    }
}

subject! {
    /// What ranks of a job wait for: one cause.
    Stall = "stall" from "nccl_log";

    /// Why it does not end.
    KIND: StallKind = "kind" from "nccl_log";
    /// What proves that it stands still.
    PROOF: StallProof = "proof" from "nccl_log";
    /// The ranks at fault: `rank 5 (n2)`, `ranks 10 and 15`.
    WHO: Arc<str> = "who" from "nccl_log";
    /// The collective: `all-reduce #1023 of default_pg`.
    COLLECTIVE: Arc<str> = "collective" from "nccl_log";
    /// Who waits in it: `7 ranks`.
    WAITERS: Arc<str> = "waiters" from "nccl_log";
    /// How many ranks wait for it in the end, where some of them wait in other collectives.
    HELD: u64 = "held" from "nccl_log";
    /// The program's line that called the collective.
    CALLER: Arc<str> = "caller" from "nccl_log";
    /// What else is known: what the ranks did last, what each called.
    DETAIL: Arc<str> = "detail" from "nccl_log";
}
