//! The facts of a PCIe bridge on the path of a GPU or of an RDMA function.

use std::sync::Arc;

use super::Bytes;
use super::schema::subject;
use super::value::words;

words! {
    /// The devices whose mutual traffic passes a bridge without going up to the root complex.
    pub enum BypassedPeers {
        /// A GPU and an RDMA function.
        GpuNic = "gpu-nic",
        /// Two GPUs.
        GpuGpu = "gpu-gpu",
        /// None.
        None = "none",
    }
}

words! {
    /// What kind of port a bridge is (PCI Express Capabilities, Device/Port Type).
    pub enum PortType {
        /// A root port.
        Root = "root-port",
        /// The port of a switch towards the root.
        Upstream = "upstream-port",
        /// A port of a switch away from the root.
        Downstream = "downstream-port",
        /// A bridge to or from conventional PCI, or of another kind.
        Other = "other",
    }
}

subject! {
    /// A PCIe bridge on the path of a GPU or of an RDMA function.
    Bridge = "bridge" from "pcie";

    /// Vendor and device id, as "1000:c030". Source: configuration space.
    ID: Arc<str> = "id" from "pcie";
    /// What kind of port it is. Source: configuration space, PCI Express Capabilities.
    KIND: PortType = "kind" from "pcie";
    /// Whether Access Control Services send what one device writes to its neighbour up to the root complex instead: one of P2P Request
    /// Redirect, P2P Completion Redirect, Upstream Forwarding is on. Source: configuration space, capability 0x000d.
    ACS_REDIRECT: bool = "acs_redirect" from "pcie";
    /// What Access Control Services have on, in the words of lspci(8); "none" if nothing is, or where the bridge has none.
    ACS: Arc<str> = "acs" from "pcie";
    /// Whose traffic with each other turns round in the switch of this port, and passes this port.
    BETWEEN: BypassedPeers = "between" from "derive pcie_peers";
    /// Two of those whose traffic with each other passes it, as "0000:19:00.0 and 0000:18:00.0".
    PEERS: Arc<str> = "peers" from "derive pcie_peers";
    /// The generation of its link now: 1 for 2.5 GT/s, 2 for 5, 3 for 8, 4 for 16, 5 for 32, 6 for 64. Source: sysfs current_link_speed.
    LINK_GENERATION: u64 = "link_generation" from "pcie";
    /// The lanes of its link now. Source: sysfs current_link_width.
    LINK_WIDTH: u64 = "link_width" from "pcie";
    /// The highest generation that it can. Source: sysfs max_link_speed.
    MAX_LINK_GENERATION: u64 = "max_link_generation" from "pcie";
    /// The most lanes that it can. Source: sysfs max_link_width.
    MAX_LINK_WIDTH: u64 = "max_link_width" from "pcie";
    /// The largest payload of a packet that it sends or takes. Source: configuration space, Device Control, Max_Payload_Size.
    MAX_PAYLOAD: Bytes = "max_payload" from "pcie";
    /// The largest payload that it can. Source: configuration space, Device Capabilities, Max_Payload_Size Supported.
    MAX_PAYLOAD_SUPPORTED: Bytes = "max_payload_supported" from "pcie";
    /// Whether it counts errors (Advanced Error Reporting). Source: sysfs, whether aer_dev_correctable is there.
    COUNTS_ERRORS: bool = "counts_errors" from "pcie";
    /// Errors of its link since boot that a repetition mended: receiver errors, bad packets, replays. Source: sysfs aer_dev_correctable.
    LINK_ERRORS: u64 = "link_errors" from "pcie";
    /// Non-fatal errors since boot, unsupported requests left out: looking for devices makes those. Source: sysfs aer_dev_nonfatal.
    NONFATAL_ERRORS: u64 = "nonfatal_errors" from "pcie";
    /// Fatal errors since boot. Source: sysfs aer_dev_fatal, TOTAL_ERR_FATAL.
    FATAL_ERRORS: u64 = "fatal_errors" from "pcie";
}

/// The facts of the function's PCIe link.
pub const LINK: super::pcie::LinkKeys = super::pcie::LinkKeys {
    generation: LINK_GENERATION,
    width: LINK_WIDTH,
    max_generation: MAX_LINK_GENERATION,
    max_width: MAX_LINK_WIDTH,
    max_payload: MAX_PAYLOAD,
    max_payload_supported: MAX_PAYLOAD_SUPPORTED,
    counts_errors: COUNTS_ERRORS,
    link_errors: LINK_ERRORS,
    nonfatal_errors: NONFATAL_ERRORS,
    fatal_errors: FATAL_ERRORS,
};
