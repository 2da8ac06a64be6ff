//! The facts of a GID.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;

words! {
    /// The type of a GID.
    pub enum GidType {
        /// InfiniBand, RoCE v1, or iWARP: the kernel writes one text for them.
        V1 = "ib-or-roce-v1",
        /// RoCE v2: UDP port 4791, can be routed.
        V2 = "roce-v2",
    }
}

words! {
    /// The kind of address that a GID holds.
    pub enum GidKind {
        /// fe80::/10.
        LinkLocal = "link-local",
        /// An IPv4 address, ::ffff:0:0/96.
        Ipv4 = "ipv4",
        /// Any other.
        Ipv6 = "ipv6",
    }
}

subject! {
    /// A GID that is in use: not all zeros.
    Gid = "gid" from "gid";

    /// Its index in the port's table.
    INDEX: u64 = "index" from "gid";
    /// Its type. Source: sysfs gid_attrs/types/N.
    TYPE: GidType = "type" from "gid";
    /// The kind of address that it holds. Source: sysfs gids/N.
    KIND: GidKind = "kind" from "gid";
    /// The GID itself, as an IPv6 address is written. Source: sysfs gids/N.
    ADDRESS: Arc<str> = "address" from "gid";
    /// Its network device; "none" if it has none. Source: sysfs gid_attrs/ndevs/N.
    NETDEV: Arc<str> = "netdev" from "gid";
    /// Whether its address is on an interface of this network namespace; of IPv4 only.
    ADDRESS_HERE: bool = "address_here" from "derive gid_choice";
}
