//! The facts of two GPUs of a node.

use std::sync::Arc;

use super::gpu_nic::Distance;
use super::schema::subject;
use super::value::words;
use super::{BitRate, Percent, Seconds};

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
    /// The best path by which two GPUs access each other's memory.
    pub enum P2pPath {
        /// NVLinks from the one to the other.
        Nvlink = "nvlink",
        /// NVLinks to switches.
        Nvswitch = "nvswitch",
        /// PCIe switches, at most (PIX, PXB).
        PcieSwitch = "pcie-switch",
        /// The CPU.
        Host = "host",
    }
}

words! {
    /// Why two GPUs do not access each other's memory: by design, or by configuration.
    pub enum P2pExclusion {
        /// Nothing prevents it.
        Not = "not",
        /// One of them is partitioned (MIG).
        Mig = "mig",
        /// The GPUs' memory is closed (confidential computing).
        Confidential = "confidential",
        /// One of them is a consumer GPU, whose driver does not support it.
        Consumer = "consumer",
        /// One of them is a virtual function (vGPU).
        VirtualFunction = "virtual-function",
        /// One of them, or its driver, does not support it on this path, as NVML reports.
        Unsupported = "unsupported",
        /// They are of different models.
        Unlike = "unlike",
    }
}

words! {
    /// In how many directions the driver lets the GPUs access each other's memory.
    pub enum P2pAccess {
        /// In both.
        Both = "both",
        /// In one only.
        OneWay = "one-way",
        /// In none.
        None = "none",
    }
}

subject! {
    /// Two GPUs of a node.
    GpuPair = "gpu_pair" from "derive topology";

    /// The PCI address of the first GPU.
    FIRST: Arc<str> = "first" from "derive topology";
    /// The PCI address of the second GPU.
    SECOND: Arc<str> = "second" from "derive topology";
    /// How far the two are from each other over PCIe, NVLink left aside: PIX, PXB, PHB, NODE or SYS.
    DISTANCE: Distance = "distance" from "derive topology";
    /// Whether NVML lists both.
    IN_NVML: bool = "in_nvml" from "derive gpu_peer";
    /// Whether CUDA shows both to this process.
    IN_CUDA: bool = "in_cuda" from "derive gpu_peer";
    /// On which way they reach each other's memory, the best that is there: nvlink, nvswitch, pcie-switch or host.
    WAY: P2pPath = "way" from "derive gpu_peer";
    /// Why they are not to reach each other's memory; "not" where nothing speaks against it.
    BARRED: P2pExclusion = "barred" from "derive gpu_peer";
    /// What may keep them from reaching each other's memory: what NVML says, and what of the machine is known to do so.
    OBSTACLE: Arc<str> = "obstacle" from "derive gpu_peer";
    /// Whether the first can read the second's memory. Source: nvmlDeviceGetP2PStatus, read.
    P2P_READ: P2p = "p2p_read" from "nvml";
    /// Whether the second can read the first's memory. Source: nvmlDeviceGetP2PStatus, read.
    P2P_READ_BACK: P2p = "p2p_read_back" from "nvml";
    /// Whether the first can write the second's memory. Source: nvmlDeviceGetP2PStatus, write.
    P2P_WRITE: P2p = "p2p_write" from "nvml";
    /// Whether the second can write the first's memory. Source: nvmlDeviceGetP2PStatus, write.
    P2P_WRITE_BACK: P2p = "p2p_write_back" from "nvml";
    /// Whether NVLink connects them, directly or by switches: what `nvidia-smi topo -p2p n` shows. Source: nvmlDeviceGetP2PStatus, NVLink.
    P2P_NVLINK: P2p = "p2p_nvlink" from "nvml";
    /// How many active NVLinks lead from the first straight to the second; 0 if only switches connect them. Source:
    /// nvmlDeviceGetNvLinkRemotePciInfo of each link.
    NVLINKS: u64 = "nvlinks" from "nvml";

    /// Whether the first can reach the second's memory, by the driver's word. Source: cuDeviceCanAccessPeer.
    CUDA_ACCESS: bool = "cuda_access" from "cuda";
    /// Whether the second can reach the first's memory, by the driver's word. Source: cuDeviceCanAccessPeer.
    CUDA_ACCESS_BACK: bool = "cuda_access_back" from "cuda";
    /// In how many directions the driver lets one reach the other's memory: both, one-way, none.
    ACCESS: P2pAccess = "access" from "derive p2p";
    /// Whether most pairs of the node that are equal (the same models at the same distance, NVLink or not), this one counted, have access in
    /// both directions.
    PEERS_ACCESS: bool = "peers_access" from "derive p2p";
    /// Whether NVLink connects the two, directly or through switches; false if NVML reports no NVLink.
    NVLINK: bool = "nvlink" from "derive p2p";
    /// Whether copies between the two were measured. Source: `rdma-doctor bench p2p`.
    COPY_MEASURED: bool = "copy_measured" from "p2p";
    /// Whether every copy between the two, in either direction and in both at once, came with all its bytes right.
    COPY_VERIFIED: bool = "copy_verified" from "p2p";
    /// Whether a copy between the two came with wrong bytes, each byte compared.
    COPY_CORRUPT: bool = "copy_corrupt" from "p2p";
    /// Whether a copy between the two was refused, or ended with an error or a crash.
    COPY_FAILED: bool = "copy_failed" from "p2p";
    /// Whether a copy between the two did not end by its deadline.
    COPY_HUNG: bool = "copy_hung" from "p2p";
    /// Which copies failed, hung or were corrupt, and how; "none" if all are right.
    COPY_PROBLEM: Arc<str> = "copy_problem" from "p2p";
    /// Whether copies in both directions go from GPU to GPU, and not through memory of the host.
    COPY_DIRECT: bool = "copy_direct" from "p2p";
    /// What copies carry in the slower direction, the median of the trials.
    COPY_BANDWIDTH: BitRate = "copy_bandwidth" from "p2p";
    /// How long a small copy takes in the slower direction, of many in a row.
    COPY_LATENCY: Seconds = "copy_latency" from "p2p";
    /// The interquartile range of the trials, as a share of the median: the worst direction.
    COPY_SPREAD: Percent = "copy_spread" from "p2p";
    /// What copies carry in the slower direction, of the faster one.
    COPY_BALANCE: Percent = "copy_balance" from "p2p";
    /// What copies carry in the slower direction, of the median of the node's equal pairs.
    COPY_OF_PEERS: Percent = "copy_of_peers" from "derive p2p";
    /// How long a small copy takes, of the median of the node's equal pairs.
    LATENCY_OF_PEERS: Percent = "latency_of_peers" from "derive p2p";
    /// What PCIe could carry between the two at best: the smaller of their slots' bandwidths.
    SLOT_BANDWIDTH: BitRate = "slot_bandwidth" from "derive p2p";
}
