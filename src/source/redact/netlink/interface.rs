//! Messages of rtnetlink (`linux/rtnetlink.h`) about interfaces and addresses: names and addresses are replaced, numbers kept.
//!
//! The messages are written again, with the attributes that are known here and no others.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{HEADER, NLA_TYPE_MASK, aligned, u16_at, u32_at};
use crate::source::redact::key::Key;
use crate::source::redact::{Names, scan, text::Kind};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// How an attribute is redacted.
enum LinkAttribute {
    Name,
    Address,
    /// It holds others.
    Holds(fn(u16) -> LinkAttribute),
    Plain,
    NotKnown,
}

fn of_link(attribute: u16) -> LinkAttribute {
    match attribute {
        // IFLA_IFNAME
        3 => LinkAttribute::Name,
        // IFLA_MTU, IFLA_LINK, IFLA_MASTER, IFLA_OPERSTATE
        4 | 5 | 10 | 16 => LinkAttribute::Plain,
        // IFLA_LINKINFO
        18 => LinkAttribute::Holds(of_link_info),
        // IFLA_XDP
        43 => LinkAttribute::Holds(of_xdp),
        _ => LinkAttribute::NotKnown,
    }
}

fn of_link_info(attribute: u16) -> LinkAttribute {
    match attribute {
        // IFLA_INFO_KIND
        1 => LinkAttribute::Plain,
        _ => LinkAttribute::NotKnown,
    }
}

fn of_xdp(attribute: u16) -> LinkAttribute {
    match attribute {
        // IFLA_XDP_ATTACHED, IFLA_XDP_PROG_ID
        2 | 4 => LinkAttribute::Plain,
        _ => LinkAttribute::NotKnown,
    }
}

fn of_address(attribute: u16) -> LinkAttribute {
    match attribute {
        // IFA_ADDRESS, IFA_LOCAL
        1 | 2 => LinkAttribute::Address,
        // IFA_LABEL
        3 => LinkAttribute::Name,
        // IFA_FLAGS
        8 => LinkAttribute::Plain,
        _ => LinkAttribute::NotKnown,
    }
}

/// Rewrites the messages of a reply; `None` if one of them is of another kind.
pub(super) fn messages(key: &Key, names: &Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = u32_at(rest, 0)? as usize;
        let message = rest.get(..length)?;
        let (fixed, holds): (usize, fn(u16) -> LinkAttribute) = match u16_at(message, 4)? {
            RTM_NEWLINK => (16, of_link),
            RTM_NEWADDR => (8, of_address),
            _ => return None,
        };
        let family = *message.get(HEADER)?;
        let start = out.len();
        out.extend_from_slice(message.get(..HEADER + fixed)?);
        let of = AttributeRedactor { key, names, family };
        of.attributes(message.get(HEADER + fixed..)?, holds, &mut out)?;
        let now = u32::try_from(out.len() - start).ok()?;
        out.get_mut(start..start + 4)?
            .copy_from_slice(&now.to_le_bytes());
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Some(out)
}

struct AttributeRedactor<'a> {
    key: &'a Key,
    names: &'a Names,
    family: u8,
}

impl AttributeRedactor<'_> {
    fn attributes(
        &self,
        bytes: &[u8],
        holds: fn(u16) -> LinkAttribute,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let mut rest = bytes;
        while rest.len() >= 4 {
            let length = usize::from(u16_at(rest, 0)?);
            let kind = u16_at(rest, 2)? & NLA_TYPE_MASK;
            let value = rest.get(4..length)?;
            let value = match holds(kind) {
                LinkAttribute::Plain => Some(value.to_vec()),
                LinkAttribute::NotKnown => None,
                LinkAttribute::Name => {
                    let text = std::str::from_utf8(value).ok()?;
                    Some(scan(self.key, self.names, text, Kind::NAME).into_bytes())
                }
                LinkAttribute::Address => Some(self.address(value)?),
                LinkAttribute::Holds(holds) => {
                    let mut inner = Vec::new();
                    self.attributes(value, holds, &mut inner)?;
                    Some(inner)
                }
            };
            if let Some(value) = value {
                let length = u16::try_from(value.len() + 4).ok()?;
                out.extend(length.to_le_bytes());
                out.extend(kind.to_le_bytes());
                out.extend(value);
                out.resize(aligned(out.len()), 0);
            }
            rest = rest.get(aligned(length)..).unwrap_or_default();
        }
        Some(())
    }

    fn address(&self, value: &[u8]) -> Option<Vec<u8>> {
        Some(match self.family {
            AF_INET => {
                let address = Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?);
                self.key.ipv4(address).octets().to_vec()
            }
            AF_INET6 => {
                let address = Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?);
                self.key.ipv6(address).octets().to_vec()
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testing::{attribute, has, message};

    fn map(bytes: &[u8]) -> Option<Vec<u8>> {
        messages(&Key::from_text("k"), &Names::default(), bytes)
    }

    #[test]
    fn names_with_a_mac_address_and_addresses_are_replaced_and_subnets_stay() {
        let link = [
            &[0; 16][..],
            &attribute(3, b"enxb83fd2c0ffee\0"),
            &attribute(1, &[0xb8, 0x3f, 0xd2, 0xc0, 0xff, 0xee]),
            &attribute(4, &1500u32.to_le_bytes()),
            &attribute(18, &[attribute(1, b"veth\0"), attribute(2, b"x")].concat()),
        ]
        .concat();
        let mapped = map(&message(16, &link)).unwrap();
        assert!(!has(&mapped, b"b83fd2c0ffee") && !has(&mapped, &[0xb8, 0x3f, 0xd2]));
        assert!(has(&mapped, b"veth\0") && has(&mapped, &1500u32.to_le_bytes()));
        assert!(has(&mapped, b"enx"));

        let address = |last: u8| {
            let body = [
                &[2, 24, 0, 0, 1, 0, 0, 0][..],
                &attribute(2, &[10, 1, 2, last]),
            ];
            message(20, &body.concat())
        };
        let mapped = map(&[address(3), address(4)].concat()).unwrap();
        let key = Key::from_text("k");
        for last in [3, 4] {
            assert!(!has(&mapped, &[10, 1, 2, last]));
            let new = key.ipv4([10, 1, 2, last].into()).octets();
            assert!(has(&mapped, &attribute(2, &new)));
        }
    }

    #[test]
    fn other_messages_are_left_out() {
        assert_eq!(map(&message(24, &[0; 16])), None);
        assert_eq!(map(&message(16, &[0; 8])), None);
        assert_eq!(
            map(&message(
                20,
                &[2, 24, 0, 0, 1, 0, 0, 0, 6, 0, 2, 0, 1, 2, 0, 0]
            )),
            None
        );
        assert_eq!(map(b""), Some(vec![]));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, kind in 15u16..21) {
            let _ = map(&bytes);
            let _ = map(&message(kind, &bytes));
        }
    }
}
