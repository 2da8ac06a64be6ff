//! The facts of a port.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{BitRate, Bytes, PerSecond, Percent, Seconds};

words! {
    /// Logical state of a port (InfiniBand Architecture Specification, PortInfo.PortState).
    pub enum PortState {
        /// No change of state.
        NoChange = "no-change",
        /// No traffic.
        Down = "down",
        /// Trained, not configured by a subnet manager.
        Init = "init",
        /// Configured, not yet active.
        Armed = "armed",
        /// Carries traffic.
        Active = "active",
        /// Active, the link below it gone for a moment.
        ActiveDefer = "active-defer",
    }
}

impl PortState {
    /// Whether it carries traffic.
    pub fn is_active(self) -> bool {
        matches!(self, PortState::Active | PortState::ActiveDefer)
    }
}

words! {
    /// Physical state of a port (InfiniBand Architecture Specification, PortInfo.PortPhysicalState).
    pub enum PhysState {
        /// No change of state.
        NoChange = "no-change",
        /// Powered down by its own choice.
        Sleep = "sleep",
        /// Looking for a signal.
        Polling = "polling",
        /// Switched off.
        Disabled = "disabled",
        /// Training.
        Training = "training",
        /// Trained.
        LinkUp = "link-up",
        /// Recovering from errors.
        Recovery = "link-error-recovery",
        /// Being tested.
        PhyTest = "phy-test",
    }
}

words! {
    /// What carries the traffic.
    pub enum LinkLayer {
        /// InfiniBand.
        InfiniBand = "infiniband",
        /// RoCE or iWARP.
        Ethernet = "ethernet",
        /// Neither, as the driver reports.
        Unspecified = "unspecified",
    }
}

words! {
    /// Operational state of a network device (RFC 2863).
    pub enum OperState {
        /// Not reported by the driver.
        Unknown = "unknown",
        /// Something needed is missing.
        NotPresent = "notpresent",
        /// No carrier, or administratively down.
        Down = "down",
        /// A device below it is down.
        LowerLayerDown = "lowerlayerdown",
        /// Being tested.
        Testing = "testing",
        /// Waits for an event, as 802.1X.
        Dormant = "dormant",
        /// Carries traffic.
        Up = "up",
    }
}

words! {
    /// The kind of RoCE that rdma_cm begins with.
    pub enum CmaMode {
        /// Not configured: the kernel chooses RoCE v2 if the port supports it.
        Default = "default",
        /// RoCE v1, which no router passes.
        V1 = "v1",
        /// RoCE v2.
        V2 = "v2",
    }
}

words! {
    /// The kind of GID at the index that NCCL uses on a RoCE port.
    pub enum NcclGid {
        /// A RoCE v2 GID of an address that can be routed.
        Routable = "routable-v2",
        /// A RoCE v2 GID of a link-local address.
        LinkLocal = "link-local-v2",
        /// A RoCE v1 GID.
        V1 = "v1",
        /// Nothing.
        Empty = "empty",
    }
}

subject! {
    /// A port of an RDMA device, named device/number.
    Port = "port" from "device";

    /// Logical state. Source: sysfs ports/N/state (ABI: stable/sysfs-class-infiniband).
    STATE: PortState = "state" from "device";
    /// Physical state. Source: sysfs ports/N/phys_state.
    PHYS_STATE: PhysState = "phys_state" from "device";
    /// What carries the traffic. Source: sysfs ports/N/link_layer.
    LINK_LAYER: LinkLayer = "link_layer" from "device";
    /// Signalling rate as the kernel computes it from width and speed. Source: sysfs ports/N/rate. A port that is down keeps its last.
    RATE: BitRate = "rate" from "device";
    /// Lanes in use. Source: sysfs ports/N/rate, "4X".
    WIDTH: u64 = "width" from "device";
    /// The highest rate that the port supports. Source: ethtool link modes (Ethernet), PortInfo (InfiniBand).
    MAX_RATE: BitRate = "max_rate" from "ethtool";
    /// The most lanes that the port supports. Source: PortInfo.LinkWidthSupported.
    MAX_WIDTH: u64 = "max_width" from "portinfo";
    /// The highest rate that the cable or transceiver supports. Source: its EEPROM (SFF-8636, CMIS).
    CABLE_RATE: BitRate = "cable_rate" from "ethtool";
    /// Local identifier; 0 if none was assigned. Source: sysfs ports/N/lid.
    LID: u64 = "lid" from "device";
    /// The subnet manager's local identifier; 0 if there is none. Source: sysfs ports/N/sm_lid.
    SM_LID: u64 = "sm_lid" from "device";
    /// Active RDMA MTU. Source: ibv_query_port(3), active_mtu.
    MTU: Bytes = "mtu" from "verbs";
    /// Largest RDMA MTU that the port supports. Source: ibv_query_port(3), max_mtu.
    MAX_MTU: Bytes = "max_mtu" from "verbs";
    /// Logical state as libibverbs reports it. Source: ibv_query_port(3).
    VERBS_STATE: PortState = "verbs_state" from "verbs";
    /// Logical state as netlink reports it. Source: RDMA_NLDEV_CMD_PORT_GET.
    NETLINK_STATE: PortState = "netlink_state" from "nldev";
    /// Whether sysfs, libibverbs and netlink agree on the logical state.
    SOURCES_AGREE: bool = "sources_agree" from "derive port_state";
    /// The logical state by source, if they differ.
    STATE_BY_SOURCE: Arc<str> = "state_by_source" from "derive port_state";
    /// Whether the port has a network device. Source: sysfs gid_attrs/ndevs, parent, device/net.
    HAS_NETDEV: bool = "has_netdev" from "netdev";
    /// The port's network device. Source: as has_netdev.
    NETDEV: Arc<str> = "netdev" from "netdev";
    /// Whether the port's network device is administratively up. Source: sysfs flags, IFF_UP.
    NETDEV_UP: bool = "netdev_up" from "derive netdev_of_port";
    /// Whether most equal ports (same board, same link layer) that have a network device, this one counted, have it administratively up.
    EQUALS_NETDEV_UP: bool = "equals_netdev_up" from "derive netdev_of_port";
    /// Operational state of the port's network device.
    NETDEV_OPERSTATE: OperState = "netdev_operstate" from "derive netdev_of_port";
    /// MTU of the port's network device.
    NETDEV_MTU: Bytes = "netdev_mtu" from "derive netdev_of_port";
    /// Whether its network device leads to no other machine: loopback, a bridge without an adapter.
    NETDEV_LOCAL: bool = "netdev_local" from "derive netdev_of_port";
    /// The largest RDMA MTU that fits the network device's MTU with RoCE v2's headers, and that the port supports.
    FITTING_MTU: Bytes = "fitting_mtu" from "derive mtu";
    /// Number of P_Keys in the table that are not zero. Source: sysfs ports/N/pkeys.
    PKEYS: u64 = "pkeys" from "device";
    /// The P_Keys at the front of the table, up to eight empty entries in a row, in rising order. Source: sysfs ports/N/pkeys.
    PKEYS_IN_FRONT: Arc<[Arc<str>]> = "pkeys_in_front" from "device";
    /// Whether one P_Key gives full membership (bit 15). Source: sysfs ports/N/pkeys.
    FULL_PKEY: bool = "full_pkey" from "device";
    /// The default P_Key's partition, 0x7fff, is in the table. Source: sysfs ports/N/pkeys.
    DEFAULT_PKEY: bool = "default_pkey" from "device";
    /// Whether a RoCE v2 GID exists, of whatever address.
    GID_V2: bool = "gid_v2" from "derive gid_choice";
    /// Whether a RoCE v2 GID of an address that can be routed exists: IPv4, or an IPv6 address that is not link-local.
    GID_ROUTABLE_V2: bool = "gid_routable_v2" from "derive gid_choice";
    /// Whether a RoCE v1 GID of an address that can be routed exists.
    GID_ROUTABLE_V1: bool = "gid_routable_v1" from "derive gid_choice";
    /// The lowest index of a routable RoCE v2 GID, IPv4 before IPv6.
    GID_INDEX: u64 = "gid_index" from "derive gid_choice";
    /// Subnet prefix of the port, from its GID 0 (InfiniBand).
    SUBNET_PREFIX: Arc<str> = "subnet_prefix" from "derive gid_choice";
    /// Whether the port is intended for use. Rule: manual page rdma-doctor-check(5), INTENDED.
    INTENDED: bool = "intended" from "derive intended";
    /// Whether most of the equal ports (same board, same link layer), this one counted, are active.
    EQUALS_ACTIVE: bool = "equals_active" from "derive intended";
    /// What it sends during a sample: packets of soft-RoCE, else units of four octets. Source: counters sent_pkts, port_xmit_data.
    SENT_RATE: PerSecond = "sent_rate" from "derive counter_rate";
    /// What it receives during a sample, in the same unit. Source: counters rcvd_pkts, port_rcv_data.
    RECEIVED_RATE: PerSecond = "received_rate" from "derive counter_rate";
    /// Requests that it sends again because no answer came in time, during a sample. Source: local_ack_timeout_err, completer_retry_err,
    /// to_retransmits, retrans_timeout_events.
    RETRIED_RATE: PerSecond = "retried_rate" from "derive counter_rate";
    /// Sequence errors among the packets of a sample, on soft-RoCE: one that sends again because an answer was late brings some out of order though none
    /// is lost. All of another adapter's mean loss. Source: out_of_seq_request, rcvd_seq_err, sent_pkts, rcvd_pkts.
    LOSS_OF_PACKETS: Percent = "loss_of_packets" from "derive counter_rate";
    /// The same since boot.
    LOSS_OF_PACKETS_EVER: Percent = "loss_of_packets_ever" from "derive counter_rate";
    /// Whether the port once had link since the driver was loaded: link_downed or carrier_changes say so, or it has link now.
    HAD_LINK: bool = "had_link" from "derive intended";
    /// The rate at which a strict majority of the equal ports runs (same driver,
    /// model, board and link layer, intended and active); the port's own if no rate has a majority.
    SIBLINGS_RATE: BitRate = "siblings_rate" from "derive agreement";
    /// Whether the driver forces a traffic class on all connections. Source: sysfs tc/N/traffic_class, which the vendor's mlx5 has.
    CLASS_FORCED: bool = "class_forced" from "qos";
    /// The traffic class that the driver forces. Source: sysfs tc/N/traffic_class, "Global tclass=106".
    FORCED_CLASS: u64 = "forced_class" from "qos";
    /// The kind of RoCE that rdma_cm begins with. Source: configfs rdma_cm/DEVICE/ports/N/default_roce_mode.
    CMA_MODE: CmaMode = "cma_mode" from "qos";
    /// Whether rdma_cm has a default traffic class. Source: configfs rdma_cm/DEVICE/ports/N/default_roce_tos.
    CMA_TOS_SET: bool = "cma_tos_set" from "qos";
    /// The default traffic class of rdma_cm. Source: configfs rdma_cm/DEVICE/ports/N/default_roce_tos.
    CMA_TOS: u64 = "cma_tos" from "qos";
    /// Whether NCCL, as it is set up on this node, uses the port.
    NCCL_SELECTED: bool = "nccl_selected" from "derive nccl";
    /// The NCCL whose choice of a GID this is: "NCCL 2.27.5"; "NCCL 2.21 and later" if no library is found and all of these choose the same.
    NCCL_GID_BY: Arc<str> = "nccl_gid_by" from "derive nccl";
    /// What became of a queue pair that was connected with itself and wrote to itself: "works", else the step that failed and the error.
    REHEARSAL: Arc<str> = "rehearsal" from "rehearsal";
    /// The GID index that NCCL uses on the RoCE port. Rule: NCCL's transport/net_ib, ncclIbGetGidIndex.
    NCCL_GID_INDEX: u64 = "nccl_gid_index" from "derive nccl";
    /// Whether NCCL_IB_GID_INDEX sets it; NCCL does not check the value.
    NCCL_GID_FORCED: bool = "nccl_gid_forced" from "derive nccl";
    /// The kind of GID at that index.
    NCCL_GID: NcclGid = "nccl_gid" from "derive nccl";
    /// Whether the port is down while more than half of the ports of the same type and link layer that `ibstat` printed are active; false where
    /// its board is known too, since that decides. Only of what tools printed.
    ODD_IN_PASTE: bool = "odd_in_paste" from "outputs";
    /// The rate of most active ports of its type in the same output; its own where no rate is the most frequent. Only of what tools printed.
    EQUALS_RATE: BitRate = "equals_rate" from "outputs";
    /// The rate of most active ports in the same output, where it shows neither type nor link layer. Only of what tools printed.
    LISTED_RATE: BitRate = "listed_rate" from "outputs";
    /// What the output says of a port that is not active: "down (polling)"; "none" if it is active.
    /// Only of what tools printed.
    LISTED_AS: Arc<str> = "listed_as" from "outputs";
    /// What mlxlink recommends; "none" if it observed no issue. Only of what tools printed, as all that mlxlink says.
    ADVICE: Arc<str> = "advice" from "outputs";
    /// Part number and serial number of its cable or transceiver. Source: mlxlink -m.
    CABLE: Arc<str> = "cable" from "outputs";
    /// The temperature of its module, in degrees Celsius. Source: mlxlink -m.
    MODULE_TEMPERATURE: u64 = "module_temperature" from "outputs";
    /// The highest temperature that the module's maker allows. Source: mlxlink -m.
    MODULE_MAX_TEMPERATURE: u64 = "module_max_temperature" from "outputs";
    /// Ratio of wrong bits behind the error correction, as mlxlink -c writes it: "4E-10".
    EFFECTIVE_BER: Arc<str> = "effective_ber" from "outputs";
    /// The same as the largest N for which it is 1E-N at most.
    EFFECTIVE_BER_EXPONENT: u64 = "effective_ber_exponent" from "outputs";
    /// Ratio of symbols that the error correction lost, as mlxlink -c writes it.
    SYMBOL_BER: Arc<str> = "symbol_ber" from "outputs";
    /// The same as the largest N for which it is 1E-N at most.
    SYMBOL_BER_EXPONENT: u64 = "symbol_ber_exponent" from "outputs";
    /// How long these were counted. Source: mlxlink -c, "Time Since Last Clear".
    BER_WINDOW: Seconds = "ber_window" from "outputs";
    /// The state of the firmware's own watch over them. Source: mlxlink --show_ber_monitor.
    BER_MONITOR: Arc<str> = "ber_monitor" from "outputs";
}
