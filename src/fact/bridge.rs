//! The facts of a PCIe bridge on the path of a GPU or of an RDMA function.

use std::sync::Arc;

use super::pcie::link_subject;
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

link_subject! {
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
    /// The GPU or adapter that stands below it in the output, if it is a port of a switch that
    /// redirects; "none" if not. Only of what tools printed.
    REDIRECTS_ABOVE: Arc<str> = "redirects_above" from "outputs";
    /// Whose traffic with each other turns round in the switch of this port, and passes this port.
    BETWEEN: BypassedPeers = "between" from "derive pcie_peers";
    /// Two of those whose traffic with each other passes it, as "0000:19:00.0 and 0000:18:00.0".
    PEERS: Arc<str> = "peers" from "derive pcie_peers";
}
