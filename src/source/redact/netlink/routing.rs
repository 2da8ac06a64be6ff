//! Netlink messages of the routing family: data centre bridging, routes, rules and neighbours, with the names and addresses in them replaced.
//!
//! As with RDMA netlink, what this program does not know is cleared, and a message of another kind gives `None`.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{HEADER, NLA_TYPE_MASK, aligned, name, u16_at, u32_at};
use crate::source::redact::Names;
use crate::source::redact::key::Key;

const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEIGH: u16 = 28;
const RTM_NEWRULE: u16 = 32;
const RTM_GETDCB: u16 = 78;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// How an attribute is redacted.
enum RouteAttribute {
    /// Numbers that name nothing.
    Plain,
    /// An interface's name.
    Name,
    /// An address, of a network with this prefix length.
    Address(u8),
    /// A MAC address.
    Mac,
    /// `struct rtnexthop` and its attributes, one after another.
    NextHops,
    NotKnown,
}

/// Rewrites the messages of a reply.
pub(super) fn messages(key: &Key, names: &Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at + HEADER <= out.len() {
        let length = u32_at(&out, at)? as usize;
        let kind = u16_at(&out, at + 4)?;
        let body = out.get_mut(at + HEADER..at + length)?;
        let fixed = match kind {
            RTM_NEWROUTE | RTM_NEWRULE | RTM_NEWNEIGH => 12,
            RTM_GETDCB => 4,
            _ => return None,
        };
        let (head, attributes) = body.split_at_mut_checked(fixed)?;
        let holds = |attribute: u16| match kind {
            RTM_GETDCB => bridging(attribute),
            _ if !matches!(head.first(), Some(&(AF_INET | AF_INET6))) => RouteAttribute::NotKnown,
            RTM_NEWROUTE => route(attribute, head.get(1).copied().unwrap_or(0)),
            RTM_NEWNEIGH => neighbour(attribute),
            _ => rule(attribute, head),
        };
        each(key, names, attributes, &holds)?;
        at += aligned(length);
    }
    // Trailing bytes are no message.
    (at >= out.len()).then_some(out)
}

/// `enum dcbnl_attrs`: what is inside DCB_ATTR_IEEE is numbers, the switch's too.
fn bridging(attribute: u16) -> RouteAttribute {
    match attribute {
        // IFNAME
        1 => RouteAttribute::Name,
        // IEEE, DCBX
        13 | 14 => RouteAttribute::Plain,
        _ => RouteAttribute::NotKnown,
    }
}

/// `enum rtattr_type_t`
fn route(attribute: u16, length: u8) -> RouteAttribute {
    match attribute {
        // DST
        1 => RouteAttribute::Address(length),
        // GATEWAY, PREFSRC
        5 | 7 => RouteAttribute::Address(u8::MAX),
        // MULTIPATH
        9 => RouteAttribute::NextHops,
        // IIF, OIF, PRIORITY, METRICS, CACHEINFO, TABLE, MARK, PREF, NH_ID
        3 | 4 | 6 | 8 | 12 | 15 | 16 | 20 | 30 => RouteAttribute::Plain,
        _ => RouteAttribute::NotKnown,
    }
}

/// `NDA_*`
fn neighbour(attribute: u16) -> RouteAttribute {
    match attribute {
        // DST, LLADDR
        1 => RouteAttribute::Address(u8::MAX),
        2 => RouteAttribute::Mac,
        // CACHEINFO, PROBES
        3 | 4 => RouteAttribute::Plain,
        _ => RouteAttribute::NotKnown,
    }
}

/// `FRA_*`
fn rule(attribute: u16, head: &[u8]) -> RouteAttribute {
    match attribute {
        // DST, SRC: their lengths are in the header.
        1 => RouteAttribute::Address(head.get(1).copied().unwrap_or(0)),
        2 => RouteAttribute::Address(head.get(2).copied().unwrap_or(0)),
        // IIFNAME, OIFNAME
        3 | 17 => RouteAttribute::Name,
        // GOTO, PRIORITY, FWMARK, FLOW, TUN_ID, the SUPPRESS_*, TABLE, FWMASK, L3MDEV, UID_RANGE, PROTOCOL, IP_PROTO, ports
        4 | 6 | 10..=16 | 19..=24 => RouteAttribute::Plain,
        _ => RouteAttribute::NotKnown,
    }
}

fn each(
    key: &Key,
    names: &Names,
    bytes: &mut [u8],
    holds: &impl Fn(u16) -> RouteAttribute,
) -> Option<()> {
    let mut at = 0;
    while at + 4 <= bytes.len() {
        let length = usize::from(u16_at(bytes, at)?);
        let attribute = u16_at(bytes, at + 2)? & NLA_TYPE_MASK;
        let value = bytes.get_mut(at + 4..at + length)?;
        match holds(attribute) {
            RouteAttribute::Plain => {}
            RouteAttribute::Address(length) => address(key, value, length),
            RouteAttribute::Name => name(key, names, value)?,
            RouteAttribute::Mac => match <[u8; 6]>::try_from(&*value) {
                Ok(mac) => value.copy_from_slice(&key.mac(mac)),
                Err(_) => value.fill(0),
            },
            RouteAttribute::NextHops => next_hops(key, names, value)?,
            RouteAttribute::NotKnown => value.fill(0),
        }
        at += aligned(length);
    }
    (at >= bytes.len()).then_some(())
}

fn next_hops(key: &Key, names: &Names, bytes: &mut [u8]) -> Option<()> {
    /// `struct rtnexthop`: length, flags, hops, interface.
    const HOP: usize = 8;
    let mut at = 0;
    while at + HOP <= bytes.len() {
        let length = usize::from(u16_at(bytes, at)?);
        let attributes = bytes.get_mut(at + HOP..at + length)?;
        each(key, names, attributes, &|attribute| match attribute {
            // GATEWAY
            5 => RouteAttribute::Address(u8::MAX),
            _ => RouteAttribute::NotKnown,
        })?;
        at += aligned(length);
    }
    (at >= bytes.len()).then_some(())
}

pub(super) fn address(key: &Key, value: &mut [u8], length: u8) {
    let length = u32::from(length);
    if let Ok(octets) = <[u8; 4]>::try_from(&*value) {
        let mapped = key.ipv4_net(Ipv4Addr::from(octets), length);
        value.copy_from_slice(&mapped.octets());
    } else if let Ok(octets) = <[u8; 16]>::try_from(&*value) {
        let mapped = key.ipv6_net(Ipv6Addr::from(octets), length);
        value.copy_from_slice(&mapped.octets());
    } else {
        value.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testing::{attribute, has, message};
    use proptest::prelude::*;

    fn map(bytes: &[u8]) -> Option<Vec<u8>> {
        messages(&Key::from_text("k"), &Names::default(), bytes)
    }

    #[test]
    fn a_route_keeps_its_form_and_loses_its_addresses() {
        let hop = [
            &[16, 0, 0, 0, 4, 0, 0, 0][..],
            &attribute(5, &[10, 1, 2, 3]),
        ]
        .concat();
        let body = [
            &[AF_INET, 24, 0, 0, 254, 2, 253, 1, 0, 0, 0, 0][..],
            &attribute(1, &[10, 1, 2, 0]),
            &attribute(7, &[10, 1, 2, 5]),
            &attribute(4, &7u32.to_le_bytes()),
            &attribute(9, &hop),
            &attribute(18, &[2, 0, 10, 1, 2, 9]),
        ]
        .concat();
        let raw = message(RTM_NEWROUTE, &body);
        let mapped = map(&raw).unwrap();
        let key = Key::from_text("k");
        let net = key.ipv4_net([10, 1, 2, 0].into(), 24).octets();
        assert!(net[3] == 0 && has(&mapped, &attribute(1, &net)));
        let own = key.ipv4([10, 1, 2, 5].into()).octets();
        assert!(has(&mapped, &attribute(7, &own)) && own[..3] == net[..3]);
        assert!(has(&mapped, &attribute(4, &7u32.to_le_bytes())));
        assert!(has(
            &mapped,
            &attribute(5, &key.ipv4([10, 1, 2, 3].into()).octets())
        ));
        assert!(has(&mapped, &attribute(18, &[0; 6])));
        assert!(has(&raw, &[10, 1, 2]) && !has(&mapped, &[10, 1, 2]));
    }

    #[test]
    fn a_rule_and_a_bridge_lose_names_made_of_mac_addresses() {
        let name = b"enxb83fd2c0ffee\0";
        let rule = [
            &[AF_INET, 0, 32, 0, 101, 0, 0, 1, 0, 0, 0, 0][..],
            &attribute(2, &[10, 1, 2, 5]),
            &attribute(3, name),
            &attribute(15, &101u32.to_le_bytes()),
        ]
        .concat();
        let mapped = map(&message(RTM_NEWRULE, &rule)).unwrap();
        let own = Key::from_text("k").ipv4([10, 1, 2, 5].into()).octets();
        assert!(has(&mapped, &attribute(2, &own)) && has(&mapped, &101u32.to_le_bytes()));
        assert!(!has(&mapped, b"c0ffee"));
        let dcb = [
            &[0, 21, 0, 0][..],
            &attribute(1, name),
            &attribute(13 | 0x8000, &attribute(2, &[8; 136])),
            &attribute(14, &[9]),
            &attribute(7, &[1; 6]),
        ]
        .concat();
        let mapped = map(&message(RTM_GETDCB, &dcb)).unwrap();
        assert!(!has(&mapped, b"c0ffee") && has(&mapped, &[8; 136]));
        assert!(has(&mapped, &attribute(14, &[9])) && has(&mapped, &attribute(7, &[0; 6])));
    }

    #[test]
    fn a_neighbour_loses_its_addresses() {
        let body = [
            &[AF_INET, 0, 0, 0, 2, 0, 0, 0, 0x80, 0, 0, 1][..],
            &attribute(1, &[10, 1, 2, 3]),
            &attribute(2, &[2, 4, 6, 8, 10, 12]),
        ];
        let mapped = map(&message(RTM_NEWNEIGH, &body.concat())).unwrap();
        let key = Key::from_text("k");
        let own = key.ipv4([10, 1, 2, 3].into()).octets();
        assert!(has(&mapped, &attribute(1, &own)) && has(&mapped, &[0x80, 0, 0, 1]));
        assert!(has(&mapped, &attribute(2, &key.mac([2, 4, 6, 8, 10, 12]))));
    }

    #[test]
    fn other_messages_and_broken_ones_are_left_out() {
        assert_eq!(map(&message(16, &[0; 16])), None);
        assert_eq!(map(&message(RTM_NEWROUTE, &[0; 11])), None);
        assert_eq!(map(&message(RTM_NEWROUTE, &[0; 14])), None);
        assert_eq!(map(b""), Some(vec![]));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, number: u16) {
            let _ = map(&bytes);
            let mut body = vec![AF_INET; 12];
            body.extend(attribute(number % 32, &bytes));
            let _ = map(&message(RTM_NEWROUTE, &body));
            let _ = map(&message(RTM_NEWRULE, &body));
            let _ = map(&message(RTM_GETDCB, &body));
        }
    }
}
