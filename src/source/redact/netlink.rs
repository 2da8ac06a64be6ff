//! Messages of netlink with the names, GUIDs and addresses in them replaced.
//!
//! The messages are written again. Only what is known to hold no identity passes unchanged; of an attribute that this program does not know its
//! number stays, and a message of another kind gives `None`: the reply is left out.

mod attributes;

use std::net::{Ipv4Addr, Ipv6Addr};

use self::attributes::Attribute;
use super::Names;
use super::key::Key;
use crate::source::netlink::{self, Attributes, HEADER, TCMSG, attribute, u16_at, u32_at};

const RDMA_NL_NLDEV: u16 = 5;
/// `struct rtnexthop`: length, flags, hops, interface.
const HOP: usize = 8;
/// Attributes inside each other, beyond which nothing is kept.
const DEPTH: u8 = 8;

/// What attributes belong to: a kind of message, or an attribute that holds them.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    /// NOOP, DONE, ERROR: the error's number and the request's header, no attributes.
    Control,
    Rdma,
    Link,
    LinkInfo,
    Xdp,
    Address,
    Bridging,
    Route,
    NextHop,
    Neighbour,
    Rule,
    Discipline,
    Filter,
    Flower,
    Matchall,
    U32,
    Bpf,
    Actions,
    Action,
}

impl Level {
    /// The level of a message of this type, and the bytes of its family's header.
    fn of_message(kind: u16) -> Option<(Self, usize)> {
        Some(match kind {
            // NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE
            1 | 3 => (Level::Control, 4),
            2 => (Level::Control, 4 + HEADER),
            // RTM_NEWLINK, _NEWADDR, _NEWROUTE, _NEWNEIGH, _NEWRULE, _NEWQDISC, _NEWTCLASS, _NEWTFILTER, _GETDCB
            16 => (Level::Link, 16),
            20 => (Level::Address, 8),
            24 => (Level::Route, 12),
            28 => (Level::Neighbour, 12),
            32 => (Level::Rule, 12),
            36 | 40 => (Level::Discipline, TCMSG),
            44 => (Level::Filter, TCMSG),
            78 => (Level::Bridging, 4),
            kind if kind >> 10 == RDMA_NL_NLDEV => (Level::Rdma, 0),
            _ => return None,
        })
    }
}

/// Rewrites the messages of a reply; `None` if one of them is not known here.
pub(super) fn reply(names: &Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    for message in netlink::messages::<0>(bytes) {
        let message = message.ok()?;
        let (level, fixed) = Level::of_message(message.kind)?;
        let body = message.attributes.0;
        let (head, rest) = match level {
            Level::Control => (body.get(..fixed).unwrap_or(body), &[][..]),
            _ => body.split_at_checked(fixed)?,
        };
        let of = AttributeRedactor { names, head };
        let attributes = of.attributes(level, Attributes(rest), 0)?;
        let length = u32::try_from(HEADER + head.len() + attributes.len()).ok()?;
        out.extend(length.to_le_bytes());
        out.extend(message.bytes.get(4..HEADER)?);
        out.extend(head);
        out.extend(attributes);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    Some(out)
}

struct AttributeRedactor<'a> {
    names: &'a Names,
    /// The header of the message's family.
    head: &'a [u8],
}

impl AttributeRedactor<'_> {
    fn attributes(&self, level: Level, all: Attributes<'_>, depth: u8) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for each in all.each() {
            let (number, value) = each.ok()?;
            let mapped = match Attribute::of(level, number, self.head, all) {
                Attribute::Plain => value.to_vec(),
                Attribute::Name => {
                    let text = std::str::from_utf8(value).ok()?;
                    self.names.name(text).into_bytes()
                }
                Attribute::Address(length) => address(&self.names.key, value, length),
                Attribute::Mac if value.len() == 6 => self.names.key.hardware(value)?,
                Attribute::Guid => number_as(value, |guid| self.names.key.guid(guid)),
                Attribute::Prefix => {
                    number_as(value, |prefix| self.names.key.subnet_prefix(prefix))
                }
                Attribute::SocketAddress => socket_address(&self.names.key, value),
                Attribute::NextHops => self.next_hops(value)?,
                Attribute::Keys => keys(&self.names.key, value),
                Attribute::Nested(level) if depth < DEPTH => {
                    self.attributes(level, Attributes(value), depth + 1)?
                }
                Attribute::Mac | Attribute::Nested(_) | Attribute::NotKnown => Vec::new(),
            };
            u16::try_from(mapped.len() + 4).ok()?;
            out.extend(attribute(number, &mapped));
        }
        Some(out)
    }

    fn next_hops(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut out, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let length = usize::from(u16_at(rest, 0)?);
            let attributes = Attributes(rest.get(HOP..length)?);
            let attributes = self.attributes(Level::NextHop, attributes, 0)?;
            out.extend(u16::try_from(HOP + attributes.len()).ok()?.to_le_bytes());
            out.extend(rest.get(2..HOP)?);
            out.extend(attributes);
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Some(out)
    }
}

/// The kernel writes numbers in the machine's order, which is little-endian wherever RDMA runs today.
fn number_as(value: &[u8], map: impl Fn(u64) -> u64) -> Vec<u8> {
    let number = <[u8; 8]>::try_from(value).map(u64::from_le_bytes);
    number.map_or(Vec::new(), |number| map(number).to_le_bytes().to_vec())
}

/// An address of a network with this prefix length; nothing of what is no address.
fn address(key: &Key, value: &[u8], length: u8) -> Vec<u8> {
    let length = u32::from(length);
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        key.ipv4_net(Ipv4Addr::from(octets), length).octets().into()
    } else if let Ok(octets) = <[u8; 16]>::try_from(value) {
        key.ipv6_net(Ipv6Addr::from(octets), length).octets().into()
    } else {
        Vec::new()
    }
}

/// `struct sockaddr_storage`: family and port stay, IPv4 and IPv6 addresses are mapped, others cleared.
fn socket_address(key: &Key, value: &[u8]) -> Vec<u8> {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    let range = match u16_at(value, 0) {
        Some(AF_INET) => 4..8,
        Some(AF_INET6) => 8..24,
        _ => 2..2,
    };
    let mut out = vec![0; value.len()];
    let mapped = address(key, value.get(range.clone()).unwrap_or_default(), u8::MAX);
    for (place, bytes) in [
        (0..4, value.get(..4).unwrap_or_default()),
        (range, &*mapped),
    ] {
        if let Some(place) = out
            .get_mut(place)
            .filter(|place| place.len() == bytes.len())
        {
            place.copy_from_slice(bytes);
        }
    }
    out
}

/// `struct tc_u32_sel` and its keys: mask, value, offset. Addresses of IPv4 stand at 12 and 16.
fn keys(key: &Key, selector: &[u8]) -> Vec<u8> {
    let mut out = selector.to_vec();
    let Some((head, keys)) = out.split_at_mut_checked(16) else {
        return Vec::new();
    };
    // What hashes and moves is not read.
    head[12..].fill(0);
    for one in keys.chunks_mut(16) {
        let mask = one.first_chunk().map(|mask| u32::from_be_bytes(*mask));
        let at = u32_at(one, 8);
        match (mask, at, one.get_mut(4..8)) {
            (Some(mask), Some(12 | 16), Some(value)) => {
                let length = mask.leading_ones();
                match u32::MAX.checked_shl(32 - length).unwrap_or(0) == mask {
                    true => value.copy_from_slice(&address(key, value, length as u8)),
                    false => value.fill(0),
                }
            }
            (_, Some(8 | 20), _) => {}
            (_, _, Some(value)) => value.fill(0),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests;
