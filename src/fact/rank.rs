//! The facts of a rank of a run of NCCL, as its log tells them.

use std::sync::Arc;

use super::Seconds;
use super::schema::subject;

subject! {
    /// A rank of the largest communicator of a run, or, if no line says which rank it is, a process.
    Rank = "rank" from "nccl_log";

    /// The rank's number in the largest communicator that it belongs to.
    NUMBER: u64 = "number" from "nccl_log";
    /// How many ranks this communicator has.
    RANKS: u64 = "ranks" from "nccl_log";
    /// The CUDA device that the rank uses.
    GPU: u64 = "gpu" from "nccl_log";
    /// The GPU's PCI address as NCCL writes it, in hexadecimal.
    BUS_ID: Arc<str> = "bus_id" from "nccl_log";
    /// Whether the rank began to initialise the communicator (logged from 2.16).
    STARTED: bool = "started" from "nccl_log";
    /// Whether the rank ended its initialisation; unknown if no INFO line of the rank is in the log.
    INITIALISED: bool = "initialised" from "nccl_log";
    /// How long the initialisation took.
    INIT_TIME: Seconds = "init_time" from "nccl_log";
    /// How long the bootstrap over TCP took.
    BOOTSTRAP_TIME: Seconds = "bootstrap_time" from "nccl_log";
    /// The network that the rank chose.
    NETWORK: Arc<str> = "network" from "nccl_log";
    /// Whether all hops of the rank's rings have GPUDirect RDMA (`use ring PXN … GDR …`, from 2.24).
    RING_GDR: bool = "ring_gdr" from "nccl_log";
    /// How many CPUs the rank was bound to.
    AFFINITY_CPUS: u64 = "affinity_cpus" from "nccl_log";
    /// How many WARN lines the rank wrote.
    WARNINGS: u64 = "warnings" from "nccl_log";
    /// Whether the rank aborted a communicator.
    ABORTED: bool = "aborted" from "nccl_log";
}
