//! What the attributes of netlink messages hold: RDMA (`linux/rdma/rdma_netlink.h`), interfaces, addresses, routes, neighbours and rules
//! (`linux/rtnetlink.h`), bridging (`linux/dcbnl.h`), traffic control (`linux/pkt_sched.h`, `linux/pkt_cls.h`).

use super::Level::{self, *};
use crate::source::netlink::{Attributes, text};

/// How an attribute is redacted.
pub(super) enum Attribute {
    /// Numbers and words that name nothing.
    Plain,
    /// The name of a device.
    Name,
    /// An address, of a network with this prefix length.
    Address(u8),
    Mac,
    Guid,
    /// The upper half of a GID.
    Prefix,
    SocketAddress,
    /// `struct rtnexthop` and its attributes, one after another.
    NextHops,
    /// `struct tc_u32_sel` and its keys.
    Keys,
    /// It holds others.
    Nested(Level),
    NotKnown,
}

/// Of a single address.
const WHOLE: u8 = u8::MAX;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

impl Attribute {
    /// What an attribute of this level holds, by its number, the header of its message, and the attributes beside it.
    pub(super) fn of(level: Level, number: u16, head: &[u8], beside: Attributes<'_>) -> Self {
        let byte = |at: usize| head.get(at).copied().unwrap_or(0);
        let is_ip = matches!(byte(0), AF_INET | AF_INET6);
        let kind = || {
            beside
                .find(1)
                .ok()
                .flatten()
                .and_then(|kind| text(kind).ok())
        };
        // The mask of an address.
        let length = |number: u16| {
            let mask = beside.find(number).ok().flatten();
            let mask = mask.and_then(|mask| <[u8; 4]>::try_from(mask).ok());
            mask.map_or(32, |mask| u32::from_be_bytes(mask).leading_ones() as u8)
        };
        match (level, number) {
            // NODE_GUID, SYS_IMAGE_GUID
            (Rdma, 6 | 7) => Attribute::Guid,
            // SUBNET_PREFIX
            (Rdma, 8) => Attribute::Prefix,
            // RES_SUMMARY, _QP, _CM_ID, _CQ, _MR, _PD and their entries
            (Rdma, 15 | 16 | 19 | 20 | 30 | 31 | 35 | 36 | 40 | 41 | 46 | 47) => {
                Attribute::Nested(Rdma)
            }
            // DRIVER, STAT_COUNTER, STAT_HWCOUNTERS, RES_CTX, RES_SRQ and their entries
            (Rdma, 52 | 53 | 77 | 78 | 80 | 81 | 86..=89) => Attribute::Nested(Rdma),
            // RES_SRC_ADDR, RES_DST_ADDR
            (Rdma, 33 | 34) => Attribute::SocketAddress,
            // DEV_NAME, NDEV_NAME, CHARDEV_NAME
            (Rdma, 2 | 51 | 70) => Attribute::Name,
            // RES_RKEY, RES_LKEY, RES_IOVA, LOCAL_DMA_LKEY, UNSAFE_GLOBAL_RKEY open memory; DRIVER_STRING and RES_RAW are the driver's.
            (Rdma, 42..=44 | 48 | 49 | 54 | 85) => Attribute::NotKnown,
            (Rdma, 0..=96) => Attribute::Plain,
            // IFLA_IFNAME
            (Link, 3) => Attribute::Name,
            // IFLA_MTU, IFLA_LINK, IFLA_MASTER, IFLA_OPERSTATE
            (Link, 4 | 5 | 10 | 16) => Attribute::Plain,
            // IFLA_LINKINFO with IFLA_INFO_KIND
            (Link, 18) => Attribute::Nested(LinkInfo),
            (LinkInfo, 1) => Attribute::Plain,
            // IFLA_XDP with IFLA_XDP_ATTACHED and IFLA_XDP_PROG_ID
            (Link, 43) => Attribute::Nested(Xdp),
            (Xdp, 2 | 4) => Attribute::Plain,
            // IFA_ADDRESS, IFA_LOCAL, IFA_LABEL, IFA_FLAGS
            // Whether it is the first or the last of its network is judged.
            (Address, 1 | 2) if byte(0) == AF_INET && byte(1) <= 30 => Attribute::Address(byte(1)),
            (Address, 1 | 2) => Attribute::Address(WHOLE),
            (Address, 3) => Attribute::Name,
            (Address, 6 | 8) => Attribute::Plain,
            // `enum dcbnl_attrs`: IFNAME; what is inside IEEE is numbers, the switch's too, and so is DCBX.
            (Bridging, 1) => Attribute::Name,
            (Bridging, 13 | 14) => Attribute::Plain,
            (Route | Neighbour | Rule, _) if !is_ip => Attribute::NotKnown,
            // `enum rtattr_type_t`: DST, GATEWAY, PREFSRC, MULTIPATH
            (Route, 1) => Attribute::Address(byte(1)),
            (Route, 5 | 7) | (NextHop, 5) => Attribute::Address(WHOLE),
            (Route, 9) => Attribute::NextHops,
            // IIF, OIF, PRIORITY, METRICS, CACHEINFO, TABLE, MARK, PREF, NH_ID
            (Route, 3 | 4 | 6 | 8 | 12 | 15 | 16 | 20 | 30) => Attribute::Plain,
            // `NDA_*`: DST, LLADDR, CACHEINFO, PROBES
            (Neighbour, 1) => Attribute::Address(WHOLE),
            (Neighbour, 2) => Attribute::Mac,
            (Neighbour, 3 | 4) => Attribute::Plain,
            // `FRA_*`: DST, SRC with their lengths in the header; IIFNAME, OIFNAME
            (Rule, 1 | 2) => Attribute::Address(byte(number.into())),
            (Rule, 3 | 17) => Attribute::Name,
            // GOTO, PRIORITY, FWMARK, FLOW, TUN_ID, the SUPPRESS_*, TABLE, FWMASK, L3MDEV, UID_RANGE, PROTOCOL, IP_PROTO, ports
            (Rule, 4 | 6 | 10..=16 | 19..=24) => Attribute::Plain,
            // KIND, OPTIONS, STATS, XSTATS, RATE, STATS2
            (Discipline, 1..=5 | 7) => Attribute::Plain,
            (Filter | Action, 1) => Attribute::Plain,
            (Filter, 2) => match kind().as_deref() {
                Some("flower") => Attribute::Nested(Flower),
                Some("matchall") => Attribute::Nested(Matchall),
                Some("u32") => Attribute::Nested(U32),
                Some("bpf") => Attribute::Nested(Bpf),
                _ => Attribute::NotKnown,
            },
            (Flower, 3) | (Matchall, 2) | (U32, 7) | (Bpf, 1) => Attribute::Nested(Actions),
            // Ethernet type, protocol, ports, flags, and their masks.
            (Flower, 8 | 9 | 11 | 13 | 18..=22 | 35..=38 | 71 | 72) => Attribute::Plain,
            (Flower, 10 | 12) => Attribute::Address(length(number + 1)),
            (U32, 5) => Attribute::Keys,
            (Matchall, 3) | (Bpf, 8) => Attribute::Plain,
            (Actions, _) => Attribute::Nested(Action),
            (Action, 2) => match kind().as_deref() {
                Some("gact" | "mirred" | "police") => Attribute::Plain,
                _ => Attribute::NotKnown,
            },
            _ => Attribute::NotKnown,
        }
    }
}
