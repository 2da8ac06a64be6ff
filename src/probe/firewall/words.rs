//! The names that nft and iptables have for numbers.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::fact::ruleset::{PacketField, address_kind, state};

/// The number that a word stands for as a value of this field.
pub(super) fn number(field: &PacketField, word: &str) -> Option<u128> {
    let named = match field {
        PacketField::Protocol => protocol(word).map(u128::from),
        PacketField::Version => match word {
            "ipv4" | "ip" => Some(4),
            "ipv6" | "ip6" => Some(6),
            // Frames that carry no IP.
            "arp" => Some(0x806),
            "vlan" | "8021q" => Some(0x8100),
            _ => None,
        },
        PacketField::State => Some(match word {
            "invalid" | "INVALID" => state::INVALID,
            "established" | "ESTABLISHED" => state::ESTABLISHED,
            "related" | "RELATED" => state::RELATED,
            "new" | "NEW" => state::NEW,
            "untracked" | "UNTRACKED" => state::UNTRACKED,
            _ => return None,
        }),
        PacketField::Direction => match word {
            "original" | "ORIGINAL" => Some(0),
            "reply" | "REPLY" => Some(1),
            _ => None,
        },
        // IPS_* of nf_conntrack_common.h.
        PacketField::Status => Some(match word {
            "expected" | "EXPECTED" => 1,
            "seen-reply" | "SEEN_REPLY" => 2,
            "assured" | "ASSURED" => 4,
            "confirmed" | "CONFIRMED" => 8,
            "snat" | "SNAT" => 16,
            "dnat" | "DNAT" => 32,
            "dying" => 512,
            _ => return None,
        }),
        PacketField::TcpFlags => Some(match &*word.to_ascii_lowercase() {
            "fin" => 1,
            "syn" => 2,
            "rst" => 4,
            "psh" => 8,
            "ack" => 16,
            "urg" => 32,
            "ecn" => 64,
            "cwr" => 128,
            "all" => 63,
            "none" => 0,
            _ => return None,
        }),
        PacketField::IcmpType => position(ICMP, word),
        PacketField::Icmp6Type => position(ICMP6, word),
        PacketField::IcmpCode => position(UNREACHABLE, word),
        PacketField::PacketType => match word {
            "host" | "unicast" => Some(0),
            "broadcast" => Some(1),
            "multicast" => Some(2),
            "other" | "otherhost" => Some(3),
            _ => None,
        },
        PacketField::SourceKind | PacketField::DestinationKind => {
            Some(match &*word.to_ascii_lowercase() {
                "unicast" => address_kind::UNICAST,
                "local" => address_kind::LOCAL,
                "broadcast" => address_kind::BROADCAST,
                "anycast" => address_kind::ANYCAST,
                "multicast" => address_kind::MULTICAST,
                "blackhole" => 6,
                "unreachable" => 7,
                "prohibit" => 8,
                _ => return None,
            })
        }
        PacketField::Source4 | PacketField::Destination4 => {
            return word.parse::<Ipv4Addr>().ok().map(|a| u32::from(a).into());
        }
        PacketField::Source6 | PacketField::Destination6 => {
            return word.parse::<Ipv6Addr>().ok().map(u128::from);
        }
        _ => None,
    };
    named.or_else(|| plain(word))
}

/// A number in decimal or, after `0x`, in hexadecimal.
pub(super) fn plain(word: &str) -> Option<u128> {
    match word.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Protocols by name (/etc/protocols, as far as rules name them).
pub(super) fn protocol(word: &str) -> Option<u8> {
    Some(match word {
        "icmp" => 1,
        "igmp" => 2,
        "ipencap" | "ipip" => 4,
        "tcp" => 6,
        "udp" => 17,
        "dccp" => 33,
        "ipv6" => 41,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        "ipv6-icmp" | "icmpv6" => 58,
        "ospf" => 89,
        "pim" => 103,
        "comp" | "ipcomp" => 108,
        "vrrp" => 112,
        "sctp" => 132,
        "mobility-header" | "ipv6-mh" => 135,
        "udplite" => 136,
        _ => return None,
    })
}

fn position(names: &[(&str, u8)], word: &str) -> Option<u128> {
    names
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, n)| u128::from(*n))
}

const ICMP: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];
const UNREACHABLE: &[(&str, u8)] = &[
    ("net-unreachable", 0),
    ("host-unreachable", 1),
    ("prot-unreachable", 2),
    ("port-unreachable", 3),
    ("frag-needed", 4),
    ("net-prohibited", 9),
    ("host-prohibited", 10),
    ("admin-prohibited", 13),
];
const ICMP6: &[(&str, u8)] = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("mld-listener-reduction", 132),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
];

/// The addresses of a subnet, from, to.
pub(super) fn subnet(field: &PacketField, address: &str, length: u32) -> Option<(u128, u128)> {
    let bits = match field {
        PacketField::Source4 | PacketField::Destination4 => 32u32,
        PacketField::Source6 | PacketField::Destination6 => 128,
        _ => return None,
    };
    let first = number(field, address)?;
    let free = bits.checked_sub(length)?;
    let host = match free {
        128 => u128::MAX,
        free => (1u128 << free) - 1,
    };
    Some((first & !host, first | host))
}
