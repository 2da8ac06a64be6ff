//! The facts of what tools say of what they tried or tested themselves.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{Bytes, Percent};

words! {
    /// What a tool says of its own test.
    pub enum ToolResultKind {
        /// It is right.
        Right = "right",
        /// A diagnosis of GPUs failed.
        DiagnosisFailed = "diagnosis-failed",
        /// A diagnosis of GPUs warns.
        DiagnosisWarned = "diagnosis-warned",
        /// A unit of systemd failed.
        UnitFailed = "unit-failed",
        /// A scheduler keeps jobs away from nodes.
        NodeKeptOut = "node-kept-out",
        /// A port has only link-local GIDs of RoCE v2, where others have an address.
        GidsLinkLocal = "gids-link-local",
        /// Functions redirect, in lines that do not name them.
        Redirects = "redirects",
        /// A daemon of a domain of NVLink over nodes is not ready.
        ImexNotReady = "imex-not-ready",
        /// Two such daemons are ready and do not reach each other.
        ImexApart = "imex-apart",
        /// A scheduler warns of an event.
        EventWarned = "event-warned",
        /// A node gives none of a resource that it lists.
        NoneAllocatable = "none-allocatable",
        /// The way to an address passes the network of another interface, in which it is.
        RouteBesideNetwork = "route-beside-network",
        /// Packets are larger than the interface sends.
        TooLargeForInterface = "too-large-for-interface",
        /// Packets are larger than a hop of the way takes.
        TooLargeForHop = "too-large-for-hop",
        /// Nobody has a way to the address, or a hardware address for it.
        Unreachable = "unreachable",
        /// Some or all echo requests were not answered.
        Lost = "lost",
        /// What a benchmark of copies reached with one GPU.
        Bandwidth = "bandwidth",
        /// The firmware of an adapter has RoCE switched off.
        RoceSwitchedOff = "roce-switched-off",
        /// rdma_cm takes RoCE v1 by default.
        RdmaCmUsesV1 = "rdma-cm-uses-v1",
        /// Neighbours gave no hardware address.
        NeighboursUnanswered = "neighbours-unanswered",
        /// An interface is up and has no carrier.
        NoLink = "no-link",
        /// No pair of GPUs may access the other's memory.
        PeersRefused = "peers-refused",
        /// A file limits the memory that logins may lock.
        MemlockLimited = "memlock-limited",
        /// Some servers of a file system are reached over TCP, others over RDMA.
        ServersOverTcp = "servers-over-tcp",
        /// A library lists no transport of RDMA.
        NoRdmaTransport = "no-rdma-transport",
        /// A PCIe link runs below its speed, in a line that does not name its function.
        SpeedLowered = "speed-lowered",
        /// A setting names no interface of the host.
        NoSuchInterface = "no-such-interface",
        /// A setting names an index that the table of GIDs does not have.
        NoSuchGid = "no-such-gid",
        /// An adapter does not look at the class that a setting marks.
        ClassNotTrusted = "class-not-trusted",
        /// A driver that works lists no GPU.
        NoGpusFound = "no-gpus-found",
        /// A tool lists no RDMA device.
        NoDevicesFound = "no-devices-found",
        /// An interface of an adapter is switched off.
        SwitchedOff = "switched-off",
        /// A pod does not come up.
        PodFails = "pod-fails",
        /// A port does not have the link that it could.
        PortBelow = "port-below",
        /// An interface has PFC on no priority.
        NoPfc = "no-pfc",
        /// A shell may run on few of the machine's CPUs.
        BoundToFew = "bound-to-few",
        /// CPUs are under a governor that raises their frequency late, or never.
        GovernorLow = "governor-low",
        /// ECN is off for a priority of an interface.
        EcnOff = "ecn-off",
        /// A name of a host is an address of the loopback.
        NameOnLoopback = "name-on-loopback",
        /// Processes of a control group were killed for want of memory.
        KilledForMemory = "killed-for-memory",
        /// A queue of an interface dropped packets.
        QueueDropped = "queue-dropped",
        /// A subnet manager lost nodes.
        NodesLost = "nodes-lost",
        /// A subnet manager lost nodes, and found them again.
        NodesReturned = "nodes-returned",
        /// The other end of a port does not answer the subnet manager.
        PortsSilent = "ports-silent",
        /// Two nodes of a fabric have one GUID.
        GuidTwice = "guid-twice",
        /// The last sweep of a subnet manager ended with errors.
        SweepFailed = "sweep-failed",
        /// A check of the fabric found errors.
        FabricFails = "fabric-fails",
        /// A check of the fabric warns.
        FabricWarns = "fabric-warns",
        /// A setting takes some of the active ports, and not these.
        PortsLeftOut = "ports-left-out",
        /// Two interfaces are in one network, and packets to one of them may be dropped.
        OneNetwork = "one-network",
        /// Memory counted errors that were not corrected.
        MemoryUncorrected = "memory-uncorrected",
        /// A connection of TCP sends much of its data again.
        SentAgain = "sent-again",
        /// More threads want a CPU than there are.
        Overloaded = "overloaded",
        /// A list does not have what it was asked for.
        NotListed = "not-listed",
        /// One of several rows that are alike says something else.
        OddRow = "odd-row",
        /// An interface uses few of its queues.
        FewQueues = "few-queues",
        /// The kernel was booted with an IOMMU that translates what devices address.
        IommuTranslates = "iommu-translates",
        /// A port sent nothing between two looks.
        NothingSent = "nothing-sent",
        /// Large packets are lost, small ones arrive.
        LargeLost = "large-lost",
        /// A counter of what went wrong is not zero.
        CountsTrouble = "counts-trouble",
        /// A tool could not do what it was asked for, in words that no reader knows.
        Complained = "complained",
    }
}

subject! {
    /// What a tool says of something that it tried or tested, in an output that somebody gave.
    ToolResult = "tool_result" from "outputs";

    /// What it says of its own test.
    KIND: ToolResultKind = "kind" from "outputs";
    /// Of what it says so: an address, a test, a unit.
    ABOUT: Arc<str> = "about" from "outputs";
    /// The tool's own words.
    WORDS: Arc<str> = "words" from "outputs";
    /// What the process that failed said itself. Source: the lines of the journal below `systemctl status`.
    REASON: Arc<str> = "reason" from "outputs";
    /// The size of packets with their IP header. Source: ping(8), `8972(9000) bytes of data`.
    SIZE: Bytes = "size" from "outputs";
    /// The largest size that gets through, as the interface or a hop says it.
    MTU: Bytes = "mtu" from "outputs";
    /// How many echo requests were not answered.
    LOST: Percent = "lost" from "outputs";
    /// What was reached, as a share of what is usual in the same table. Source: nvbandwidth.
    OF_OTHERS: Percent = "of_others" from "outputs";
    /// How many were sent.
    SENT: u64 = "sent" from "outputs";
}
