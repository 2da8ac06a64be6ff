//! The facts of a network interface, as getifaddrs(3) lists them: NCCL, MPI and Gloo choose among these.

use std::sync::Arc;

use super::schema::subject;
use super::{Bytes, Seconds};

subject! {
    /// A network interface, as getifaddrs(3) lists them: NCCL, MPI and Gloo choose among these.
    Interface = "interface" from "interface";

    /// Whether it is administratively up. Source: IFF_UP, netlink RTM_GETLINK.
    UP: bool = "up" from "interface";
    /// Whether it can pass packets. Source: IFF_RUNNING, netlink RTM_GETLINK.
    RUNNING: bool = "running" from "interface";
    /// Whether it is a loopback interface. Source: IFF_LOOPBACK, netlink RTM_GETLINK.
    LOOPBACK: bool = "loopback" from "interface";
    /// The MTU. Source: IFLA_MTU, netlink RTM_GETLINK.
    MTU: Bytes = "mtu" from "interface";
    /// What became of a TCP connection to its first address, made on this node: "works", else the step that failed and the error.
    REHEARSAL: Arc<str> = "rehearsal" from "rehearsal";
    /// Its number. Source: netlink RTM_GETLINK.
    INDEX: u64 = "index" from "interface";
    /// Whether it asks for the hardware addresses of its peers. Source: IFF_NOARP, netlink RTM_GETLINK.
    ARP: bool = "arp" from "interface";
    /// The XDP program that sees its packets before the kernel does, as "program 12 in the driver"; "none" if there is none. Source: IFLA_XDP,
    /// netlink RTM_GETLINK.
    XDP: Arc<str> = "xdp" from "interface";
    /// The interface that it sends through: of a VLAN, a macvlan; "none" if it is no such one. Source: IFLA_LINK.
    LOWER: Arc<str> = "lower" from "interface";
    /// The IPv4 networks of its addresses, those of IPv6 if it has no other, link-local ones left out, as "10.0.0.0/24".
    NETWORKS: Arc<[Arc<str>]> = "networks" from "obstacle";
    /// The neighbours whose hardware addresses somebody wrote down, as "10.0.0.2 02:04:06:08:0a:0c". Source: netlink RTM_GETNEIGH, NUD_PERMANENT.
    PERMANENT_NEIGHBOURS: Arc<[Arc<str>]> = "permanent_neighbours" from "obstacle";
    /// Whether a route over a gateway leads out of it. Source: netlink RTM_GETROUTE.
    ROUTED: bool = "routed" from "obstacle";
    /// The kind of a software interface (bridge, bond, vlan, veth, tun, vxlan), "none" for hardware and loopback. Source: IFLA_INFO_KIND.
    KIND: Arc<str> = "kind" from "interface";
    /// Whether it belongs to a device: /sys/class/net/NAME/device is there.
    PHYSICAL: bool = "physical" from "interface";
    /// The bond or bridge that it is a member of; "none" if it is of none. Source: IFLA_MASTER.
    MASTER: Arc<str> = "master" from "interface";
    /// Its addresses with their prefix lengths, as "10.0.0.1/24", in the kernel's order: IPv4, then IPv6. Source: netlink RTM_GETADDR.
    ADDRESSES: Arc<[Arc<str>]> = "addresses" from "interface";
    /// Those of its addresses that the kernel does not use, since another machine answered for
    /// them. Source: IFA_F_DADFAILED, netlink RTM_GETADDR.
    REFUSED_ADDRESSES: Arc<[Arc<str>]> = "refused_addresses" from "interface";
    /// The first of its IPv4 addresses that the kernel removes by itself, as "10.0.0.1/24"; "none"
    /// if all are for ever. Source: IFA_CACHEINFO.
    LEASED_ADDRESS: Arc<str> = "leased_address" from "interface";
    /// When the kernel removes that address. Source: IFA_CACHEINFO, ifa_valid.
    LEASE_ENDS: Seconds = "lease_ends" from "interface";
    /// The MTU that most of the interfaces have that are up and named alike: "ens1np0" and "ens2np0".
    ALIKE_MTU: Bytes = "alike_mtu" from "derive mtu";
    /// How many of them have it.
    ALIKE: u64 = "alike" from "derive mtu";
}
