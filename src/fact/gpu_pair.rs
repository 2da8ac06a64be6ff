//! The facts of two GPUs of a node.

use std::sync::Arc;

use super::gpu_nic::Distance;
use super::schema::subject;
use super::value::words;

words! {
    /// Whether two GPUs can do a thing with each other, in NVML's terms. Source: nvmlDeviceGetP2PStatus.
    pub enum P2p {
        /// They can.
        Ok = "ok",
        /// The chipset between them cannot.
        ChipsetNotSupported = "chipset-not-supported",
        /// One of them cannot.
        GpuNotSupported = "gpu-not-supported",
        /// The way between them does not carry it.
        TopologyNotSupported = "topology-not-supported",
        /// A parameter of the driver forbids it.
        DisabledByRegkey = "disabled-by-regkey",
        /// The driver cannot.
        NotSupported = "not-supported",
        /// The driver does not know.
        Unknown = "unknown",
    }
}

words! {
    /// What two GPUs have in common, in NVML's terms, nearest first. Source: nvmlDeviceGetTopologyCommonAncestor.
    pub enum Level {
        /// A board.
        Internal = "internal",
        /// One PCIe switch.
        Single = "PIX",
        /// Several PCIe switches, and no host bridge.
        Multiple = "PXB",
        /// A host bridge.
        HostBridge = "PHB",
        /// A NUMA node.
        Node = "NODE",
        /// The system.
        System = "SYS",
    }
}

subject! {
    /// Two GPUs of a node.
    GpuPair = "gpu_pair" from "derive";

    /// The PCI address of the first GPU.
    FIRST: Arc<str> = "first" from "derive";
    /// The PCI address of the second GPU.
    SECOND: Arc<str> = "second" from "derive";
    /// How far the two are from each other over PCIe, NVLink left aside: PIX, PXB, PHB, NODE or SYS.
    DISTANCE: Distance = "distance" from "derive";
    /// Whether the first can read the second's memory. Source: nvmlDeviceGetP2PStatus, read.
    P2P_READ: P2p = "p2p_read" from "nvml";
    /// Whether the second can read the first's memory. Source: nvmlDeviceGetP2PStatus, read.
    P2P_READ_BACK: P2p = "p2p_read_back" from "nvml";
    /// Whether the first can write the second's memory. Source: nvmlDeviceGetP2PStatus, write.
    P2P_WRITE: P2p = "p2p_write" from "nvml";
    /// Whether the second can write the first's memory. Source: nvmlDeviceGetP2PStatus, write.
    P2P_WRITE_BACK: P2p = "p2p_write_back" from "nvml";
    /// Whether the first can do atomic operations on the second's memory. Source: nvmlDeviceGetP2PStatus, atomics.
    P2P_ATOMICS: P2p = "p2p_atomics" from "nvml";
    /// Whether NVLink connects them, directly or by switches: what `nvidia-smi topo -p2p n` shows. Source: nvmlDeviceGetP2PStatus, NVLink.
    P2P_NVLINK: P2p = "p2p_nvlink" from "nvml";
    /// Whether they can use each other's memory over PCIe: what `nvidia-smi topo -p2p p` shows. Source: nvmlDeviceGetP2PStatus, PCI.
    P2P_PCIE: P2p = "p2p_pcie" from "nvml";
    /// What they have in common. Source: nvmlDeviceGetTopologyCommonAncestor.
    LEVEL: Level = "level" from "nvml";
    /// How many active NVLinks lead from the first straight to the second; 0 where only switches connect them. Source:
    /// nvmlDeviceGetNvLinkRemotePciInfo of each link.
    NVLINKS: u64 = "nvlinks" from "nvml";
}
