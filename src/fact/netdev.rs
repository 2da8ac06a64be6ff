//! The facts of a network device.

use std::sync::Arc;

use super::port::OperState;
use super::schema::subject;
use super::value::words;
use super::{BitRate, Bytes, PerSecond};

words! {
    /// What decides over the priority of a packet.
    pub enum Trust {
        /// The DSCP in its IP header.
        Dscp = "dscp",
        /// The priority in its VLAN tag; a packet without a tag has the port's default.
        Pcp = "pcp",
    }
}

words! {
    /// Forward error correction of a link (IEEE 802.3).
    pub enum Fec {
        /// None.
        Off = "off",
        /// Reed-Solomon: clauses 91, 108, 119 and 134.
        Rs = "rs",
        /// Fire code: clause 74.
        BaseR = "baser",
        /// Reed-Solomon with short frames, for less delay.
        LowLatency = "llrs",
    }
}

subject! {
    /// A network device that belongs to an RDMA device, or that carries a default route.
    Netdev = "netdev" from "netdev";

    /// Whether it is administratively up. Source: sysfs flags, IFF_UP.
    UP: bool = "up" from "netdev";
    /// Operational state. Source: sysfs operstate.
    OPERSTATE: OperState = "operstate" from "netdev";
    /// MTU. Source: sysfs mtu.
    MTU: Bytes = "mtu" from "netdev";
    /// Speed. Source: sysfs speed, which the driver may not know.
    SPEED: BitRate = "speed" from "netdev";
    /// The fastest of the link modes that it supports, where no RDMA port is known to run on it. Source: `ethtool`.
    MAX_SPEED: BitRate = "max_speed" from "outputs";
    /// How often the carrier came or went since the device was made. Source: sysfs carrier_changes.
    CARRIER_CHANGES: u64 = "carrier_changes" from "netdev";
    /// The name of the switch at the other end of its cable, else its MAC address. Source: LLDP, as lldpctl(8) and networkctl(1) print it.
    SWITCH: Arc<str> = "switch" from "outputs";
    /// The switch's name for that port. Source: LLDP.
    SWITCH_PORT: Arc<str> = "switch_port" from "outputs";
    /// The largest frame that the switch's port takes. Source: LLDP, IEEE 802.3 Maximum Frame Size.
    SWITCH_MTU: Bytes = "switch_mtu" from "outputs";
    /// The first alarm that its module raises; "none" if it raises none. Source: its EEPROM (SFF-8636, CMIS), as `ethtool -m` prints it.
    MODULE_ALARM: Arc<str> = "module_alarm" from "outputs";
    /// The lanes of its module at which light is measured.
    LANES: u64 = "lanes" from "outputs";
    /// Those of them that receive none.
    DARK_LANES: u64 = "dark_lanes" from "outputs";
    /// Its RDMA ports, by name.
    PORTS: Arc<[Arc<str>]> = "ports" from "netdev";
    /// Whether it carries a default route. Source: /proc/net/route.
    DEFAULT_ROUTE: bool = "default_route" from "netdev";
    /// Whether a port that runs on it is intended for use.
    INTENDED: bool = "intended" from "derive intended";
    /// Whether its driver has data centre bridging. Source: netlink DCB_CMD_IEEE_GET, of the members if it is a bond.
    DCB: bool = "dcb" from "qos";
    /// The priorities with PFC. Source: DCB_ATTR_IEEE_PFC.
    PFC: Arc<[Arc<str>]> = "pfc" from "qos";
    /// Whether the switch announces by DCBX which priorities have PFC. Source: DCB_ATTR_IEEE_PEER_PFC.
    SWITCH_ANNOUNCES: bool = "switch_announces" from "qos";
    /// The priorities with PFC that the switch announces.
    SWITCH_PFC: Arc<[Arc<str>]> = "switch_pfc" from "qos";
    /// The same as dcb-pfc(8) writes it: "all:off 3:on".
    SWITCH_PRIO_PFC: Arc<str> = "switch_prio_pfc" from "qos";
    /// What decides over the priority of a packet. Source: DCB_ATTR_DCB_APP_TRUST_TABLE, else the DSCP entries of the application table.
    TRUST: Trust = "trust" from "qos";
    /// The priority of each DSCP from 0 to 63, "-" where the application table has no entry. Source: DCB_ATTR_IEEE_APP_TABLE.
    DSCP_PRIORITIES: Arc<[Arc<str>]> = "dscp_priorities" from "qos";
    /// How the traffic class of each priority is scheduled: "strict", "shaper", "vendor", or the percentage that ETS gives it. Source: DCB_ATTR_IEEE_ETS.
    SCHEDULING: Arc<[Arc<str>]> = "scheduling" from "qos";
    /// The receive buffer of each priority. Source: DCB_ATTR_DCB_BUFFER.
    BUFFERS: Arc<[Arc<str>]> = "buffers" from "qos";
    /// The bytes of each receive buffer. Source: DCB_ATTR_DCB_BUFFER.
    BUFFER_SIZES: Arc<[Arc<str>]> = "buffer_sizes" from "qos";
    /// Whether the host negotiates DCBX; else the adapter's firmware does. Source: DCB_ATTR_DCBX.
    DCBX_HOST: bool = "dcbx_host" from "qos";
    /// Whether the driver lets ECN be switched by priority: vendor drivers do, the kernel's mlx5 does not. Source: sysfs ecn/.
    ECN_SWITCHED: bool = "ecn_switched" from "qos";
    /// The priorities on which it answers congestion marks with notifications. Source: sysfs ecn/roce_np/enable.
    ECN_NOTIFIES: Arc<[Arc<str>]> = "ecn_notifies" from "qos";
    /// The priorities on which it slows down when it gets notifications. Source: sysfs ecn/roce_rp/enable.
    ECN_REACTS: Arc<[Arc<str>]> = "ecn_reacts" from "qos";
    /// The DSCP of the notifications that it answers congestion marks with. Source: sysfs ecn/roce_np/cnp_dscp.
    CNP_DSCP: u64 = "cnp_dscp" from "qos";
    /// Whether it obeys pause frames of the whole link. Source: ETHTOOL_GPAUSEPARAM.
    PAUSE_RX: bool = "pause_rx" from "qos";
    /// Whether it sends pause frames of the whole link. Source: ETHTOOL_GPAUSEPARAM.
    PAUSE_TX: bool = "pause_tx" from "qos";
    /// The forward error correction in force, of the members if it is a bond. Source: ETHTOOL_GFECPARAM.
    FEC: Fec = "fec" from "qos";
    /// Whether it cuts TCP's data into segments (TSO). Source: ETHTOOL_GTSO.
    TSO: bool = "tso" from "ethtool";
    /// Whether it joins the segments that it receives (GRO). Source: ETHTOOL_GGRO.
    GRO: bool = "gro" from "ethtool";
    /// Whether the driver counts pauses and drops at the port. Source: ETHTOOL_GSTATS.
    COUNTS_DROPS: bool = "counts_drops" from "qos";
    /// Packets that the port dropped for want of room in its buffer, since the driver was loaded. Source: ETHTOOL_GSTATS, rx_discards_phy, or the sum of what is printed of rx_prioN_discards.
    DISCARDS: u64 = "discards" from "qos";
    /// Packets that it received damaged or could not take, since an unknown time. Only of what ethtool and ip printed.
    RECEIVED_BADLY: u64 = "received_badly" from "outputs";
    /// The statistic that counts these: the one that has counted most.
    RECEIVED_BADLY_AS: Arc<str> = "received_badly_as" from "outputs";
    /// By how much these rose between two looks whose times are not known. Only of what ethtool printed.
    DISCARDS_ROSE: u64 = "discards_rose" from "outputs";
    /// Pause frames sent since the driver was loaded, of the link and of all priorities. Only of what ethtool printed.
    PAUSES_SENT: u64 = "pauses_sent" from "outputs";
    /// The statistics that were counted for it, by name.
    PAUSE_COUNTERS: Arc<str> = "pause_counters" from "outputs";
    /// By how much these rose between two looks whose times are not known.
    PAUSES_SENT_ROSE: u64 = "pauses_sent_rose" from "outputs";
    /// How often the adapter sent pauses for so long that it gave up and dropped packets. Source: ETHTOOL_GSTATS, tx_pause_storm_error_events.
    PAUSE_STORMS: u64 = "pause_storms" from "qos";
    /// Whether the statistics were read twice.
    SAMPLED: bool = "sampled" from "qos";
    /// Packets dropped for want of room, between two readings.
    DISCARD_RATE: PerSecond = "discard_rate" from "qos";
    /// Pause frames sent, of the link and of all priorities, between two readings. Source: tx_pause_ctrl_phy, else tx_prioN_pause.
    PAUSE_SENT_RATE: PerSecond = "pause_sent_rate" from "qos";
    /// Whether the switch announces the same priorities with PFC as it has.
    PFC_AS_SWITCH: bool = "pfc_as_switch" from "derive traffic";
    /// Reverse path filter in force: 0 none, 1 strict, 2 loose. Source: /proc/sys/net/ipv4/conf, the larger of all's and its own.
    RP_FILTER: u64 = "rp_filter" from "rail";
    /// For which addresses ARP requests are answered: 0 for any of the machine, 1 for its own only. Source: /proc/sys/net/ipv4/conf, the larger of all's and its own.
    ARP_IGNORE: u64 = "arp_ignore" from "rail";
    /// Which source address ARP requests have: 0 any, 2 its own best. Source: /proc/sys/net/ipv4/conf, the larger of all's and its own.
    ARP_ANNOUNCE: u64 = "arp_announce" from "rail";
    /// Whether ARP requests are answered only if the answer would leave by it. Source: /proc/sys/net/ipv4/conf, all's or its own.
    ARP_FILTER: bool = "arp_filter" from "rail";
    /// The IPv4 networks that it is connected to, as "10.0.0.0/24". Source: netlink RTM_GETROUTE, routes without a gateway.
    NETWORKS: Arc<[Arc<str>]> = "networks" from "rail";
    /// Its IPv4 addresses in these networks. Source: netlink RTM_GETROUTE, RTA_PREFSRC.
    ADDRESSES: Arc<[Arc<str>]> = "addresses" from "rail";
    /// The other intended netdevs of RoCE ports whose networks overlap with its own.
    SHARES_NETWORK_WITH: Arc<[Arc<str>]> = "shares_network_with" from "derive rail";
    /// Whether another intended netdev of a RoCE port has an overlapping network.
    SHARES_NETWORK: bool = "shares_network" from "derive rail";
    /// The intended netdevs of RoCE ports that have one of its addresses too; without itself.
    SAME_ADDRESS: Arc<[Arc<str>]> = "same_address" from "derive rail";
    /// Whether another intended netdev of a RoCE port has one of its addresses.
    ADDRESS_SHARED: bool = "address_shared" from "derive rail";
    /// The netdev by which the kernel answers peers of its own network; "none" if there is no route. Rules and tables are followed.
    ANSWERS_BY: Arc<str> = "answers_by" from "rail";
    /// Whether the kernel answers peers of its own network by it, and not by another netdev.
    ANSWERS_ITSELF: bool = "answers_itself" from "rail";
    /// Whether an Ethernet port that is intended for use runs on it.
    ROCE: bool = "roce" from "derive rail";
}
