//! The facts of what NCCL will choose on this node, by its own rules.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// The use of an interface between nodes.
    pub enum InterfaceReach {
        /// It is a network's.
        Network = "network",
        /// It is made for containers, virtual machines or tunnels of this node.
        Virtual = "virtual",
        /// It has addresses that are valid on its own link only.
        LinkLocal = "link-local",
        /// It is the loopback interface.
        Loopback = "loopback",
        /// No interface fits.
        None = "none",
    }
}

subject! {
    /// What NCCL will choose on this node, by its own rules.
    Selection = "selection" from "derive nccl";

    /// The RDMA ports that NCCL will use, as mlx5_0:1, in its order.
    HCAS: Arc<[Arc<str>]> = "hcas" from "derive nccl";
    /// How many those are.
    HCA_COUNT: u64 = "hca_count" from "derive nccl";
    /// Whether NCCL looks for RDMA ports at all: not with NCCL_IB_DISABLE, nor with NCCL_NET=Socket.
    WANTS_HCAS: bool = "wants_hcas" from "derive nccl";
    /// Why the ports are these: the rule in words.
    HCAS_WHY: Arc<str> = "hcas_why" from "derive nccl";
    /// Whether NCCL_IB_HCA names the ports.
    HCAS_FORCED: bool = "hcas_forced" from "derive nccl";
    /// Whether InfiniBand and Ethernet ports are among them.
    LAYERS_MIXED: bool = "layers_mixed" from "derive nccl";
    /// Whether ports that carry the machine's own traffic are among them, beside others.
    USES_MANAGEMENT: bool = "uses_management" from "derive nccl";
    /// The ports among them that carry the machine's own traffic.
    MANAGEMENT: Arc<[Arc<str>]> = "management" from "derive nccl";
    /// The interface of the bootstrap, and without NCCL_COMM_ID of the exchange before RDMA connections: the first that fits.
    INTERFACE: Arc<str> = "interface" from "derive nccl";
    /// Why it is this one: the rule in words.
    INTERFACE_WHY: Arc<str> = "interface_why" from "derive nccl";
    /// Whether NCCL_SOCKET_IFNAME or NCCL_COMM_ID names the interface.
    INTERFACE_FORCED: bool = "interface_forced" from "derive nccl";
    /// What that interface is good for between nodes.
    INTERFACE_REACH: InterfaceReach = "interface_reach" from "derive nccl";
    /// Why no interface fits, if none does: the interfaces that there are.
    INTERFACE_CHOICE: Arc<[Arc<str>]> = "interface_choice" from "derive nccl";
    /// All interfaces over which the Socket transport sends data.
    INTERFACES: Arc<[Arc<str>]> = "interfaces" from "derive nccl";
    /// The GID index that NCCL uses on each of the RoCE ports, with the reason.
    GID_INDEXES: Arc<[Arc<str>]> = "gid_indexes" from "derive nccl";
}
