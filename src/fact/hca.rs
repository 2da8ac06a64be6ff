//! The facts of a port of an RDMA device, as NCCL's log lists it.

use std::sync::Arc;

use super::BitRate;
use super::schema::subject;

subject! {
    /// A port of an RDMA device that NCCL lists as usable on a host (`NET/IB : Using`).
    Hca = "hca" from "nccl_log";

    /// The RDMA device that has the port.
    DEVICE: Arc<str> = "device" from "nccl_log";
    /// The number of the port on its device.
    PORT: u64 = "port" from "nccl_log";
    /// The number under which channels name it.
    INDEX: u64 = "index" from "nccl_log";
    /// The link layer: `IB` or `RoCE`.
    LINK_LAYER: Arc<str> = "link_layer" from "nccl_log";
    /// The port's speed as NCCL reads it (subsystem NET, from 2.26).
    SPEED: BitRate = "speed" from "nccl_log";
    /// The provider of libibverbs behind it (subsystem NET, from 2.26).
    PROVIDER: Arc<str> = "provider" from "nccl_log";
    /// Whether NCCL uses adaptive routing on it (subsystem NET, from 2.26).
    ADAPTIVE_ROUTING: bool = "adaptive_routing" from "nccl_log";
    /// Whether GPUDirect RDMA is available for it (subsystem NET).
    GDR: bool = "gdr" from "nccl_log";
    /// Whether it is several ports made one (NIC fusion), or a bond.
    MERGED: bool = "merged" from "nccl_log";
    /// How many lines of channels name it.
    CHANNELS: u64 = "channels" from "nccl_log";
}
