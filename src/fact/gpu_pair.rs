//! The facts of two GPUs of a node.

use std::sync::Arc;

use super::gpu_nic::Distance;
use super::schema::subject;

subject! {
    /// Two GPUs of a node.
    GpuPair = "gpu_pair" from "derive";

    /// The PCI address of the first GPU.
    FIRST: Arc<str> = "first" from "derive";
    /// The PCI address of the second GPU.
    SECOND: Arc<str> = "second" from "derive";
    /// How far the two are from each other over PCIe, NVLink left aside: PIX, PXB, PHB, NODE or SYS.
    DISTANCE: Distance = "distance" from "derive";
}
