//! The facts of a network device.

use std::sync::Arc;

use super::port::OperState;
use super::schema::subject;
use super::{BitRate, Bytes};

subject! {
    /// A network device that belongs to an RDMA device, or that carries a default route.
    Netdev = "netdev" from "netdev";

    /// Whether it is administratively up. Source: sysfs flags, IFF_UP.
    UP: bool = "up" from "netdev";
    /// Operational state. Source: sysfs operstate.
    OPERSTATE: OperState = "operstate" from "netdev";
    /// Whether it has carrier. Source: sysfs carrier; not established while it is administratively down.
    CARRIER: bool = "carrier" from "netdev";
    /// MTU. Source: sysfs mtu.
    MTU: Bytes = "mtu" from "netdev";
    /// Speed. Source: sysfs speed, which the driver may not know.
    SPEED: BitRate = "speed" from "netdev";
    /// How often the carrier came or went since the device was made. Source: sysfs carrier_changes.
    CARRIER_CHANGES: u64 = "carrier_changes" from "netdev";
    /// Its RDMA ports, by name.
    PORTS: Arc<[Arc<str>]> = "ports" from "netdev";
    /// Whether it carries a default route. Source: /proc/net/route.
    DEFAULT_ROUTE: bool = "default_route" from "netdev";
    /// The highest speed that it supports. Source: ETHTOOL_GLINKSETTINGS, supported link modes.
    MAX_SPEED: BitRate = "max_speed" from "ethtool";
    /// Whether a port that runs on it is intended for use.
    INTENDED: bool = "intended" from "derive";
}
