//! The facts of a path of data in a node, or out of it: what it can carry, and what binds it.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{BitRate, Percent};

words! {
    /// The kind of a path.
    pub enum PathKind {
        /// A ring over the NVLinks of all GPUs.
        Nvlink = "nvlink",
        /// A ring over PCIe from GPU to GPU.
        PcieP2p = "pcie-p2p",
        /// A ring through the host's memory.
        Shm = "shm",
        /// One RDMA port that NCCL uses.
        Rail = "rail",
        /// All RDMA ports that NCCL uses, together.
        Network = "network",
        /// The interfaces over which NCCL's sockets send.
        Sockets = "sockets",
        /// An all-reduce over all GPUs of the node.
        AllReduceIntra = "all-reduce-intra",
        /// An all-reduce with one other node.
        AllReduceInter2 = "all-reduce-inter-2",
        /// An all-reduce with many other nodes: three or more, and two over a ring.
        AllReduceInterMany = "all-reduce-inter-many",
    }
}

words! {
    /// What binds a path.
    pub enum BoundBy {
        /// The NVLinks of the GPU that has least.
        Nvlink = "nvlink",
        /// NVLinks whose switches add (NVLink SHARP).
        Nvls = "nvls",
        /// A PCIe link.
        PcieHop = "pcie-hop",
        /// A PCIe link that several adapters, or several GPUs, share.
        SharedHop = "shared-hop",
        /// The rate of ports, less the headers of their packets.
        Nic = "nic",
        /// A PCIe link that carries the data twice, since GPUDirect RDMA is not used and the data stops in the host's memory.
        GdrOff = "gdr-off",
        /// A PCIe link that carries the data twice, since Access Control Services send it up to the root complex.
        Acs = "acs",
        /// The rate of the interfaces of TCP sockets, less headers.
        Socket = "socket",
    }
}

subject! {
    /// A path of data in a node, or out of it.
    Path = "path" from "derive ceiling";

    /// What kind of path it is.
    KIND: PathKind = "kind" from "derive ceiling";
    /// The highest bandwidth of data in one direction; of an all-reduce its busbw. Rule: manual page rdma-doctor-advise(1), CEILINGS.
    BANDWIDTH: BitRate = "bandwidth" from "derive ceiling";
    /// What binds it: the term that is least.
    BOUND_BY: BoundBy = "bound_by" from "derive ceiling";
    /// Where that is: a link, a port, a GPU.
    BOUND_WHERE: Arc<str> = "bound_where" from "derive ceiling";
    /// All terms of which it is the least, each with its value and its place.
    TERMS: Arc<[Arc<str>]> = "terms" from "derive ceiling";
    /// The ports' bandwidth by this path, as a share of that by their rates: less than 100 % if PCIe, or a stop in the host's memory, is the
    /// bottleneck.
    OF_RATES: Percent = "of_rates" from "derive ceiling";
}
