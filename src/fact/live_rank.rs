//! The facts of a rank's process of a running job.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{Bytes, Percent};

words! {
    /// What is wrong with a rank, or different from the others.
    pub enum RankFault {
        /// Nothing.
        None = "none",
        /// A signal stopped it.
        Stopped = "stopped",
        /// A debugger or tracer stopped it.
        Traced = "traced",
        /// Its control group is frozen.
        Frozen = "frozen",
        /// It ended, and its parent has not asked for its status.
        Zombie = "zombie",
        /// It ended between the two looks.
        Ended = "ended",
        /// It waited in the kernel for a file system, and did not run between the two looks.
        Blocked = "blocked",
        /// The same while it writes what it has written before to the disk.
        Flushes = "flushes",
        /// It waits for something else than the others.
        Differs = "differs",
        /// It uses CPU time while all others wait.
        BusyAlone = "busy-alone",
        /// It waits for something of its own in both looks, and goes on between them, as the others do.
        Late = "late",
        /// Its GPU or its process works while the kernels on the GPUs of all others wait.
        ComputesAlone = "computes-alone",
    }
}

subject! {
    /// A rank's process of a running job, looked at twice.
    LiveRank = "live_rank" from "ranks";

    /// The id of its process.
    PID: u64 = "pid" from "ranks";
    /// What is wrong with it, or different from the others.
    FAULT: RankFault = "fault" from "ranks";
    /// The share of a CPU that it and the processes below it used between the two looks.
    CPU: Percent = "cpu" from "ranks";
    /// What it waits for: `sleeps (nanosleep)`, `waits in recv`. Source: /proc/PID/task/TID/syscall,
    /// wchan, stack, /proc/PID/fd.
    WAITS: Arc<str> = "waits" from "ranks";
    /// What it did in the first look: `runs`, `waits in recv`. Source: as before.
    FIRST: Arc<str> = "first" from "ranks";
    /// The same in the second look.
    SECOND: Arc<str> = "second" from "ranks";
    /// What the others do: `the other 3 wait in recv`.
    OTHERS: Arc<str> = "others" from "ranks";
    /// What else is known: a process below it that is stopped or waits for a file.
    DETAIL: Arc<str> = "detail" from "ranks";
    /// Where its Python program stands: `all_reduce, called by step (train.py:88)`. Source: py-spy dump.
    STACK: Arc<str> = "stack" from "ranks";
    /// How the server stands of the mount that it waits for: `the server 10.0.0.9:2049 does not acknowledge 312 B, sent again 6
    /// times`. Source: /proc/PID/net/tcp.
    SERVER: Arc<str> = "server" from "ranks";
    /// How many pages of the memory of it and the processes below it had to be read from the disk in a second between the two looks. Source: `majflt` of
    /// /proc/PID/stat.
    FAULTS: u64 = "faults" from "ranks";
    /// What of its memory is swapped out. Source: `VmSwap` of /proc/PID/status.
    SWAPPED: Bytes = "swapped" from "ranks";
    /// For how much of the time between the two looks it waited for the disk; 0 where the kernel does not count it. Source:
    /// `delayacct_blkio_ticks` of /proc/PID/stat.
    DISK: Percent = "disk" from "ranks";
    /// How many queue pairs it has. Source: RDMA netlink, RDMA_NLDEV_CMD_RES_QP_GET.
    QUEUE_PAIRS: u64 = "queue_pairs" from "ranks";
    /// How many of them are in error.
    FAILED_QUEUE_PAIRS: u64 = "failed_queue_pairs" from "ranks";
    /// The first of these: `mlx5_0 QP 18 (peer's 1018)`.
    FAILED_QUEUE_PAIR: Arc<str> = "failed_queue_pair" from "ranks";
    /// How many of its connections with other ranks by RDMA carried nothing between the two looks: `its 4 RDMA connections carry
    /// nothing`. Source: the packet numbers of the same.
    STILL: Arc<str> = "still" from "ranks";
    /// The peer that has acknowledged nothing, of its connection with most retransmissions:
    /// `10.0.0.2:29500 (rank 1)`. Source: /proc/PID/net/tcp.
    PEER: Arc<str> = "peer" from "ranks";
    /// What that peer has not acknowledged in both looks.
    UNACKNOWLEDGED: Bytes = "unacknowledged" from "ranks";
    /// How often in a row it was sent again without an acknowledgement; 0 where each peer
    /// acknowledges.
    RETRANSMITS: u64 = "retransmits" from "ranks";
}
