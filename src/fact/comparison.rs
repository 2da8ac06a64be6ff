//! The facts of what several nodes are compared by.

use std::sync::Arc;

use super::schema::subject;
use super::unit::Seconds;
use super::value::words;
use crate::sentence::Sentence;
use crate::sentence::shell::Command;

words! {
    /// The properties by which nodes are compared. The first ones must be equal, the next ones must differ, the last ones concern the recordings.
    #[derive(PartialOrd, Ord)]
    pub enum ComparedProperty {
        /// The kernel's release.
        Kernel = "kernel",
        /// The distribution.
        Os = "os",
        /// The vendor of the kernel modules that drive the RDMA devices.
        RdmaStack = "rdma-stack",
        /// The installed release of NVIDIA's RDMA stack.
        Ofed = "ofed",
        /// The driver of an RDMA device, with the version of its module.
        RdmaDriver = "rdma-driver",
        /// The firmware of adapters of one board.
        Firmware = "firmware",
        /// How many adapters there are for a job.
        HcaCount = "hca-count",
        /// Their names.
        HcaNames = "hca-names",
        /// How many ports are active for a job.
        ActivePorts = "active-ports",
        /// InfiniBand or Ethernet.
        LinkLayer = "link-layer",
        /// The rate of ports.
        Rate = "rate",
        /// The active RDMA MTU of ports.
        RdmaMtu = "rdma-mtu",
        /// The MTU of the network devices of RoCE ports.
        NetdevMtu = "netdev-mtu",
        /// The kind of RoCE that ports have an address for.
        RoceVersion = "roce-version",
        /// The index of the first routable RoCE v2 GID.
        GidIndex = "gid-index",
        /// The P_Keys of InfiniBand ports.
        Pkeys = "pkeys",
        /// The InfiniBand subnets.
        SubnetPrefix = "subnet-prefix",
        /// The IPv4 networks of RoCE rails that no router connects.
        Network = "network",
        /// What decides over the priority of RoCE packets.
        Trust = "trust",
        /// The traffic class of NCCL's packets.
        TrafficClass = "traffic-class",
        /// The priority of NCCL's packets.
        Priority = "priority",
        /// The priorities with PFC.
        Pfc = "pfc",
        /// Congestion control by ECN.
        Ecn = "ecn",
        /// How many GPUs there are.
        GpuCount = "gpu-count",
        /// Which GPUs.
        GpuModel = "gpu-model",
        /// The version of NVIDIA's driver.
        GpuDriver = "gpu-driver",
        /// How adapters reach GPU memory.
        Gpudirect = "gpudirect",
        /// How far GPUs are from their adapters.
        GpuNicDistance = "gpu-nic-distance",
        /// The version of NCCL.
        NcclVersion = "nccl-version",
        /// A variable of NCCL.
        NcclVariable = "nccl-variable",
        /// How many ports NCCL will use.
        NcclPorts = "nccl-ports",
        /// The interface of NCCL's bootstrap.
        NcclInterface = "nccl-interface",
        /// The governors of the CPUs' frequency.
        Governor = "governor",
        /// How long waking from the deepest idle state takes.
        IdleLatency = "idle-latency",
        /// Automatic NUMA balancing.
        NumaBalancing = "numa-balancing",
        /// The IOMMU's mode.
        Iommu = "iommu",
        /// The limit of locked memory.
        Memlock = "memlock",
        /// GUIDs of InfiniBand ports.
        Guid = "guid",
        /// IPv4 addresses of rails.
        Address = "address",
        /// LIDs of InfiniBand ports.
        Lid = "lid",
        /// Host names.
        HostName = "host-name",
        /// NCCL's identity of the host, NCCL_HOSTID.
        HostId = "host-id",
        /// The numbers of the processes, or nodes, of one job.
        Rank = "rank",
        /// Machines, each recorded once.
        Machine = "machine",
        /// The time of day, of nodes that one run gathered.
        Clock = "clock",
        /// Hardware addresses of peers that somebody wrote down.
        Neighbour = "neighbour",
        /// How busy the CPUs are.
        Load = "load",
        /// How much memory is free.
        Memory = "memory",
        /// What one command printed on several hosts of a text.
        ShownOutput = "shown-output",
        /// The state of a port, by its name, in outputs of several hosts.
        ListedPort = "listed-port",
        /// Whether all expected nodes are present.
        Presence = "presence",
        /// Whether what nodes gave could be judged.
        Judged = "judged",
        /// Whether recordings are whole.
        Wholeness = "wholeness",
        /// Which kinds of nodes there are.
        Kinds = "kinds",
    }
}

impl ComparedProperty {
    /// The properties that must be equal on nodes of one kind.
    pub const ALIKE: &[ComparedProperty] = Self::ALL.split_at(37).0;
}

subject! {
    /// What several nodes are compared by: one for each property and group of nodes that are alike. One node alone has none.
    Comparison = "comparison" from "derive comparison";

    /// The compared property.
    OF: ComparedProperty = "of" from "derive comparison";
    /// The variable of NCCL, if they are compared by one.
    VARIABLE: Arc<str> = "variable" from "derive comparison";
    /// Which nodes, or ports, are compared: those of one role and kind of hardware.
    GROUP: Arc<str> = "group" from "derive comparison";
    /// How many nodes are compared, including those without a value.
    NODES: u64 = "nodes" from "derive comparison";
    /// Of how many of them the property is unknown.
    SILENT: u64 = "silent" from "derive comparison";
    /// Whether all have one value. Two different values are enough for no; yes needs the value of every node.
    AGREE: bool = "agree" from "derive comparison";
    /// Whether more than half of all nodes, including those without a value, have one value. A missing value can prevent a majority, but never change
    /// it.
    MAJORITY: bool = "majority" from "derive comparison";
    /// The majority's value; "none" if there is no majority.
    VALUE: Arc<str> = "value" from "derive comparison";
    /// The nodes that have something else than the majority; without a majority all of which something is known.
    ODD: Arc<str> = "odd" from "derive comparison";
    /// The commands that fix it on those nodes, for wrong neighbours and the MTU of network devices; those that show which machine answers, for addresses.
    COMMANDS: Arc<[Command]> = "commands" from "derive comparison";
    /// The network devices of RoCE ports on those nodes; `NETDEV` if none is known.
    NETDEVS: Arc<[Arc<str>]> = "netdevs" from "derive comparison";
    /// The RDMA devices of active ports on those nodes; not known where none is.
    DEVICES: Arc<[Arc<str>]> = "devices" from "derive comparison";
    /// The values and their nodes, in one sentence: outliers first, if there is a majority.
    SUMMARY: Sentence = "summary" from "derive comparison";
    /// Whether no two machines share an identity that must be unique.
    DISTINCT: bool = "distinct" from "derive comparison";
    /// Whether all expected nodes responded, and no recording is truncated.
    COMPLETE: bool = "complete" from "derive comparison";
    /// The least possible difference of the two clocks that differ most.
    APART_LEAST: Seconds = "apart_least" from "derive comparison";
    /// Their greatest possible difference; unknown if not all were compared in one run.
    APART_MOST: Seconds = "apart_most" from "derive comparison";
    /// Their difference, if known to a hundredth of a second.
    APART: Seconds = "apart" from "derive comparison";
}
