//! The facts of a setting beside NCCL's that decides where traffic goes: of Gloo, UCX, Open MPI, libfabric, the launcher.

use std::sync::Arc;

use super::Seconds;
use super::schema::subject;
use super::value::words;

words! {
    /// The role of a setting.
    pub enum SettingRole {
        /// It names the network interfaces that may be used.
        Interfaces = "interfaces",
        /// It names the RDMA devices that may be used.
        Devices = "devices",
        /// It names what may not be used.
        Exclusion = "exclusion",
        /// It names the host at which the processes of a job meet.
        RendezvousAddress = "rendezvous-address",
        /// It is the TCP port at which the processes of a job meet.
        RendezvousPort = "rendezvous-port",
        /// It is the number of a process, or of a node, in a job.
        Rank = "rank",
        /// It chooses among transports, protocols or libraries.
        Transports = "transports",
        /// It is the traffic class of RDMA packets.
        TrafficClass = "traffic-class",
        /// It is the index of the GID that RDMA packets are sent from.
        GidIndex = "gid-index",
        /// It is a list of hosts with their slots.
        Hostfile = "hostfile",
        /// It decides something else.
        Other = "other",
    }
}

words! {
    /// The suitability of a port number.
    pub enum PortFitness {
        /// A process can listen on it.
        Fit = "fit",
        /// No TCP port has this number.
        NoPort = "no-port",
        /// Only a privileged process may listen on it.
        Privileged = "privileged",
    }
}

words! {
    /// Where the address leads at which the processes of a job meet.
    pub enum MeetingPlace {
        /// To another machine.
        Elsewhere = "elsewhere",
        /// To this node.
        Here = "here",
        /// To a bridge or tunnel of this node's, which others have too.
        VirtualHere = "virtual-here",
        /// To an address that is valid on one link only.
        LinkLocal = "link-local",
    }
}

words! {
    /// Who listens at a port.
    pub enum PortHolder {
        /// Nobody.
        Nobody = "nobody",
        /// The job itself.
        Job = "job",
        /// A process that is not of the job.
        Stranger = "stranger",
    }
}

subject! {
    /// A setting besides NCCL's that decides where traffic goes: of Gloo, UCX, Open MPI, libfabric, the launcher.
    Setting = "setting" from "setting";

    /// The variable or parameter, as GLOO_SOCKET_IFNAME or btl_tcp_if_include (without OMPI_MCA_).
    VARIABLE: Arc<str> = "variable" from "setting";
    /// The value that is in effect.
    VALUE: Arc<str> = "value" from "setting";
    /// Where it is set: "environment", or a file.
    SOURCE: Arc<str> = "source" from "setting";
    /// The role of the setting.
    ROLE: SettingRole = "role" from "setting";
    /// Whether the value switches something on: 1, y, yes, t, true, on.
    ON: bool = "on" from "setting";
    /// How many nodes the job has that the setting is for; 0 if nothing describes a job. Source: as
    /// node.job_nodes; Accelerate's num_machines.
    JOB_NODES: u64 = "job_nodes" from "setting";
    /// Whether the address is one of this host alone: 127.0.0.0/8, ::1, localhost.
    LOOPBACK: bool = "loopback" from "setting";
    /// Whether the host that it names has an address, as the C library resolves it. Asked in a job of several nodes only. Source: getaddrinfo(3).
    RESOLVES: bool = "resolves" from "name";
    /// The addresses to which the C library resolves the host that it names. Source: getaddrinfo(3).
    ADDRESSES: Arc<[Arc<str>]> = "addresses" from "name";
    /// How long the C library took to resolve it. Source: getaddrinfo(3).
    LOOKUP_TIME: Seconds = "lookup_time" from "name";
    /// Where the address leads that the job is to meet at.
    MEETING_PLACE: MeetingPlace = "meeting_place" from "derive setting";
    /// The interface that has this address; "none" if it is not this node's.
    MEETING_INTERFACE: Arc<str> = "meeting_interface" from "derive setting";
    /// Whether the process with number 0 is on this node, as RANK, NODE_RANK and their like say;
    /// for a port also whether the address beside it is this
    /// node's.
    RANK_ZERO_HERE: bool = "rank_zero_here" from "derive setting";
    /// The variable that says how many processes, or nodes, there are.
    COUNT_VARIABLE: Arc<str> = "count_variable" from "setting";
    /// How many there are, by that variable; of an elastic job at most.
    COUNT: u64 = "count" from "setting";
    /// Whether the number is one of those that are counted from 0.
    IS_COUNTED: bool = "is_counted" from "setting";
    /// Whether it is 0.
    IS_FIRST: bool = "is_first" from "setting";
    /// Who listens at the port. Source: /proc/net/tcp, /proc/PID/fd.
    PORT_HOLDER: PortHolder = "port_holder" from "setting";
    /// The process that listens at the port, as "python3 (pid 4711)", or its user; "none" if nobody does.
    PORT_HOLDER_NAME: Arc<str> = "port_holder_name" from "setting";
    /// Why this node sends nothing to the host that it names: "none" if the kernel has a way to one of its addresses. Asked in a job of several nodes
    /// only. Source: netlink RTM_GETROUTE for the address.
    ROUTE_REFUSED: Arc<str> = "route_refused" from "name";
    /// The address of that host to which the processes connect.
    PEER: Arc<str> = "peer" from "name";
    /// The interface by which the kernel sends to it. Source: netlink RTM_GETROUTE for the address.
    PEER_INTERFACE: Arc<str> = "peer_interface" from "name";
    /// Whether /etc/hosts gives the name an address of this host alone, as Debian does with 127.0.1.1.
    NAME_LOOPBACK: bool = "name_loopback" from "setting";
    /// What the port number is good for. Source: the value, /proc/sys/net/ipv4/ip_local_port_range,
    /// ip_local_reserved_ports,
    /// ip_unprivileged_port_start, CAP_NET_BIND_SERVICE.
    PORT: PortFitness = "port" from "setting";
    /// What a variable that DeepSpeed passes on to every rank takes away: "InfiniBand", "GPUDirect RDMA"; "none" if it takes nothing.
    DISABLES: Arc<str> = "disables" from "setting";
    /// How many hosts the hostfile names more than once.
    DUPLICATES: u64 = "duplicates" from "setting";
    /// The hosts that the hostfile names more than once.
    DUPLICATE_HOSTS: Arc<str> = "duplicate_hosts" from "setting";
    /// Whether all hosts of the hostfile have as many slots.
    SLOTS_AGREE: bool = "slots_agree" from "setting";
    /// The slots of the hosts, if they differ: how many hosts have how many.
    SLOTS: Arc<str> = "slots" from "setting";
    /// How many lines of the hostfile DeepSpeed does not read.
    BAD_LINES: u64 = "bad_lines" from "setting";
    /// The number of the first line of the hostfile that DeepSpeed does not read; 0 if it reads all.
    BAD_LINE: u64 = "bad_line" from "setting";
    /// How many of the interfaces or devices that it names are there.
    MATCHING: u64 = "matching" from "derive setting";
    /// How many of the interfaces or devices that it names are not there.
    MISSING: u64 = "missing" from "derive setting";
    /// The interfaces or devices that it names and that are not there.
    MISSING_ENTRIES: Arc<str> = "missing_entries" from "derive setting";
    /// The existing name that is most similar to the missing one; "none" if there is none.
    NEAREST: Arc<str> = "nearest" from "derive setting";
    /// How many of the interfaces or devices that it names are there and cannot be used: down, without address, port not active.
    UNUSABLE: u64 = "unusable" from "derive setting";
    /// The interfaces or devices that it names, that are there and cannot be used, with the reason.
    UNUSABLE_ENTRIES: Arc<str> = "unusable_entries" from "derive setting";
    /// Whether all interfaces that it names lead to this host alone: loopback, or a bridge without a physical member.
    LOCAL_ONLY: bool = "local_only" from "derive setting";
    /// Whether it names an RDMA device without its port, where UCX up to 1.20 wants mlx5_0:1.
    WITHOUT_PORT: bool = "without_port" from "derive setting";
    /// Whether it leaves out every transport that RDMA devices have.
    WITHOUT_RDMA: bool = "without_rdma" from "derive setting";
    /// How many intended, active Ethernet ports have no GID at the index.
    EMPTY_GIDS: u64 = "empty_gids" from "derive setting";
    /// The intended, active Ethernet ports that have no GID at the index.
    EMPTY_GID_PORTS: Arc<str> = "empty_gid_ports" from "derive setting";
    /// Whether Open MPI's counterpart (if_exclude for if_include) is set too, of which only one may be.
    WITH_COUNTERPART: bool = "with_counterpart" from "derive setting";
    /// Whether a list of what may not be used has the loopback interface.
    EXCLUDES_LOOPBACK: bool = "excludes_loopback" from "derive setting";
}
