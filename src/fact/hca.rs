//! The facts of a port of an RDMA device, as NCCL's log lists it.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A port of an RDMA device that NCCL lists as usable on a host (`NET/IB : Using`).
    Hca = "hca" from "nccl_log";

    /// The RDMA device that has the port.
    DEVICE: Arc<str> = "device" from "nccl_log";
    /// How many lines of channels name it.
    CHANNELS: u64 = "channels" from "nccl_log";
}
