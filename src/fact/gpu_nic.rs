//! The facts of a GPU and an RDMA-capable PCI function of the same node.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// How far two PCI functions are from each other, in the words of `nvidia-smi topo -m` and of NCCL, nearest first.
    ///
    /// NCCL knows no NODE: it takes all of a NUMA node for one CPU, and calls what passes it PHB (src/graph/paths.cc).
    pub enum Distance {
        /// At most one PCIe switch.
        Pix = "PIX",
        /// Several PCIe switches, and no host bridge.
        Pxb = "PXB",
        /// Through a host bridge: the CPU.
        Phb = "PHB",
        /// Between host bridges of one NUMA node.
        Node = "NODE",
        /// Between NUMA nodes, over the link of the sockets.
        Sys = "SYS",
    }
}

impl Distance {
    /// Whether the way stays on PCIe switches: as far as NCCL uses GPUDirect RDMA by itself.
    pub fn is_near(self) -> bool {
        matches!(self, Distance::Pix | Distance::Pxb)
    }
}

subject! {
    /// A GPU and an RDMA-capable PCI function of the same node.
    GpuNic = "gpu_nic" from "derive topology";

    /// The RDMA device of the function, else its PCI address.
    NIC: Arc<str> = "nic" from "derive topology";
    /// How far the two are from each other: PIX, PXB, PHB, NODE or SYS. Rule: manual page rdma-doctor-topo(1), DISTANCE.
    DISTANCE: Distance = "distance" from "derive topology";
}
