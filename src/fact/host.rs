//! The facts of a host of a run of NCCL, as its log tells them.

use std::sync::Arc;

use super::run::Carrier;
use super::schema::subject;
use super::value::words;
use super::{BitRate, Percent};

/// The name of a host whose lines do not tell it.
pub const UNNAMED: &str = "the host of this log";

words! {
    /// Where two things stand to each other, in NCCL's terms; the nearest first.
    pub enum PathType {
        /// The same.
        Loc = "LOC",
        /// NVLink.
        Nvl = "NVL",
        /// NVLink through another GPU.
        Nvb = "NVB",
        /// The coherent link from CPU to GPU.
        C2c = "C2C",
        /// One PCIe bridge.
        Pix = "PIX",
        /// Several PCIe bridges.
        Pxb = "PXB",
        /// The coherent link, then PCIe.
        P2c = "P2C",
        /// Through another GPU that is nearer to the adapter.
        Pxn = "PXN",
        /// A CPU's host bridge.
        Phb = "PHB",
        /// From CPU to CPU.
        Sys = "SYS",
        /// Another node.
        Net = "NET",
        /// Not connected.
        Dis = "DIS",
    }
}

words! {
    /// The kind of interface over which a host announces itself to others.
    pub enum BootstrapKind {
        /// One that other hosts can reach, as far as its name and address tell.
        Usual = "usual",
        /// The loopback.
        Loopback = "loopback",
        /// A bridge or another end of a network inside the host.
        Virtual = "virtual",
        /// The private network of docker, seen from inside a container.
        Container = "container",
        /// An address that is valid on one link only.
        LinkLocal = "link-local",
    }
}

subject! {
    /// A host of a run: the machine as the log names it. If the lines name none, the file stands for it.
    Host = "host" from "nccl_log";

    /// How many ranks of the run wrote lines on this host.
    RANKS: u64 = "ranks" from "nccl_log";
    /// How many processes wrote lines on this host.
    PROCESSES: u64 = "processes" from "nccl_log";
    /// Version of the library here.
    VERSION: Arc<str> = "version" from "nccl_log";
    /// Version of the CUDA driver's interface: 12040 is 12.4.
    DRIVER: u64 = "driver" from "nccl_log";
    /// Whether the library was built for a newer major release of CUDA than the driver here has.
    CUDA_TOO_OLD: bool = "cuda_too_old" from "derive cuda_release";
    /// The network that NCCL chose, in its name: `IB`, `Socket`, `IBext_v8`, `AWS Libfabric`. `Using network` says it; in a log that has
    /// no such line at all (before 2.6, or an excerpt), what was found leaves one.
    NETWORK: Arc<str> = "network" from "nccl_log";
    /// All networks that ranks of this host chose: more than one is a fault.
    NETWORKS: Arc<[Arc<str>]> = "networks" from "nccl_log";
    /// What kind of network the chosen one is.
    CARRIER: Carrier = "carrier" from "nccl_log";
    /// Files of plugins that were looked for and not found.
    PLUGINS_MISSING: Arc<[Arc<str>]> = "plugins_missing" from "nccl_log";
    /// The provider of libfabric that the OFI plugin selected: `efa` is RDMA, `tcp` is not.
    OFI_PROVIDER: Arc<str> = "ofi_provider" from "nccl_log";
    /// How many ports of RDMA devices NCCL can use here: the entries of `NET/IB : Using`. The line alone, without entries, is none.
    IB_PORTS: u64 = "ib_ports" from "nccl_log";
    /// How many of them carry channels to other nodes.
    IB_PORTS_CARRYING: u64 = "ib_ports_carrying" from "derive log";
    /// How many ranks of this host send over the network to other nodes.
    SENDERS: u64 = "senders" from "derive log";
    /// The devices of these ports.
    HCAS: Arc<[Arc<str>]> = "hcas" from "nccl_log";
    /// The link layers of these ports: `IB`, `RoCE`.
    LINK_LAYERS: Arc<[Arc<str>]> = "link_layers" from "nccl_log";
    /// The interface of the bootstrap.
    BOOTSTRAP_INTERFACE: Arc<str> = "bootstrap_interface" from "nccl_log";
    /// The address of the bootstrap.
    BOOTSTRAP_ADDRESS: Arc<str> = "bootstrap_address" from "nccl_log";
    /// The interfaces that the socket transport would use, or uses.
    SOCKET_INTERFACES: Arc<[Arc<str>]> = "socket_interfaces" from "nccl_log";
    /// Those of them that are bridges or ends of a network inside the host, if there are others too.
    SOCKETS_INSIDE_NAMES: Arc<[Arc<str>]> = "sockets_inside_names" from "derive log";
    /// How many these are.
    SOCKETS_INSIDE: u64 = "sockets_inside" from "derive log";
    /// Lines of connected channels to and from other nodes that this host's ranks wrote.
    INTER: u64 = "inter" from "nccl_log";
    /// Those over RDMA.
    INTER_RDMA: u64 = "inter_rdma" from "nccl_log";
    /// Those over TCP sockets.
    INTER_SOCKET: u64 = "inter_socket" from "nccl_log";
    /// Channels from other nodes.
    RECEIVES: u64 = "receives" from "nccl_log";
    /// Of the channels to other nodes, those with GPUDirect RDMA.
    GDR_SEND: Percent = "gdr_send" from "nccl_log";
    /// Of the channels from other nodes, those with GPUDirect RDMA.
    GDR_RECEIVE: Percent = "gdr_receive" from "nccl_log";
    /// Lines of connected channels between two ranks of this host.
    INTRA: u64 = "intra" from "nccl_log";
    /// Those from GPU to GPU.
    INTRA_P2P: u64 = "intra_p2p" from "nccl_log";
    /// Those through shared memory.
    INTRA_SHM: u64 = "intra_shm" from "nccl_log";
    /// Those over the network.
    INTRA_NET: u64 = "intra_net" from "nccl_log";
    /// How many GPUs' adapters are said to have GPUDirect RDMA (`GPU Direct RDMA Enabled for HCA`): logged by the subsystem NET only.
    GDR_HCAS: u64 = "gdr_hcas" from "nccl_log";
    /// The least MTU of the RDMA connections that this host made, in bytes of payload of a packet: logged by the subsystem NET only.
    QUEUE_MTU: u64 = "queue_mtu" from "nccl_log";
    /// The index of the GID from which this host's RoCE connections are made, if all are made from one.
    QUEUE_GID_INDEX: u64 = "queue_gid_index" from "nccl_log";
    /// Whether RoCE connections of this host are made from a link-local GID.
    QUEUE_LINK_LOCAL: bool = "queue_link_local" from "nccl_log";
    /// The farthest path from a GPU to its adapter in the graph of rings: PHB and SYS lead through the CPU.
    GRAPH_PATH_INTER: PathType = "graph_path_inter" from "nccl_log";
    /// The slowest PCIe link of NCCL's picture of the node, per direction.
    PCI_LOWEST: BitRate = "pci_lowest" from "nccl_log";
    /// The fewest CPUs to which a rank of this host was bound (`Setting affinity for GPU`).
    AFFINITY_CPUS: u64 = "affinity_cpus" from "nccl_log";
    /// Files of the PCI topology that NCCL could not read.
    TOPOLOGY_UNREAD: u64 = "topology_unread" from "nccl_log";
    /// The kind of interface and address of the bootstrap.
    BOOTSTRAP_KIND: BootstrapKind = "bootstrap_kind" from "derive log";
}
