//! The messages of rtnetlink about interfaces and their addresses (linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h).
//!
//! Numbers are little-endian, as on all machines that run RDMA at the time of writing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const HEADER: usize = 16;
/// The flag bits above an attribute's number.
const TYPE_MASK: u16 = 0x3fff;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
const IFF_RUNNING: u32 = 0x40;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: Arc<str>,
    flags: u32,
    pub(super) mtu: Option<u32>,
    /// `IFLA_MASTER`: the index of a bond or bridge.
    pub(super) master: Option<u32>,
    /// `IFLA_INFO_KIND`.
    pub(super) kind: Option<Arc<str>>,
}

impl Link {
    pub(super) fn up(&self) -> bool {
        self.flags & IFF_UP != 0
    }
    pub(super) fn running(&self) -> bool {
        self.flags & IFF_RUNNING != 0
    }
    pub(super) fn loopback(&self) -> bool {
        self.flags & IFF_LOOPBACK != 0
    }
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) index: u32,
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
    /// `IFA_LABEL`: the name that getifaddrs(3) gives, `eth0:1` for an alias.
    pub(super) label: Option<Arc<str>>,
}

/// The interfaces, in the kernel's order.
pub(super) fn links(bytes: &[u8]) -> Result<Arc<[Link]>, String> {
    let mut links = Vec::new();
    for message in messages(bytes) {
        let (kind, body) = message?;
        if kind != RTM_NEWLINK {
            return Err(format!("message {kind} among interfaces"));
        }
        let [_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] = *body else {
            return Err("a message about an interface is cut short".to_owned());
        };
        let mut link = Link {
            index: u32::from_le_bytes([i0, i1, i2, i3]),
            name: "".into(),
            flags: u32::from_le_bytes([f0, f1, f2, f3]),
            mtu: None,
            master: None,
            kind: None,
        };
        for attribute in attributes(body.get(16..)) {
            match attribute? {
                (3, value) => link.name = text(value)?,
                (4, value) => link.mtu = Some(number(value)?),
                (10, value) => link.master = Some(number(value)?),
                (18, value) => {
                    for inner in attributes(Some(value)) {
                        if let (1, value) = inner? {
                            link.kind = Some(text(value)?);
                        }
                    }
                }
                _ => {}
            }
        }
        if link.name.is_empty() {
            return Err(format!("interface {} has no name", link.index));
        }
        links.push(link);
    }
    Ok(links.into())
}

/// The addresses of version 4 and 6, in the kernel's order.
pub(super) fn addresses(bytes: &[u8]) -> Result<Arc<[Address]>, String> {
    let mut found = Vec::new();
    for message in messages(bytes) {
        let (kind, body) = message?;
        if kind != RTM_NEWADDR {
            return Err(format!("message {kind} among addresses"));
        }
        let [family, prefix, _, _, i0, i1, i2, i3, ..] = *body else {
            return Err("a message about an address is cut short".to_owned());
        };
        let (mut local, mut peer, mut label) = (None, None, None);
        for attribute in attributes(body.get(8..)) {
            match attribute? {
                (1, value) => peer = Some(value),
                (2, value) => local = Some(value),
                (3, value) => label = Some(text(value)?),
                _ => {}
            }
        }
        // On a point-to-point link IFA_ADDRESS is the other end.
        let Some(value) = local.or(peer) else {
            continue;
        };
        let address = match (family, value.len()) {
            (AF_INET, 4) => value
                .first_chunk()
                .map(|b: &[u8; 4]| Ipv4Addr::from(*b).into()),
            (AF_INET6, 16) => value
                .first_chunk()
                .map(|b: &[u8; 16]| Ipv6Addr::from(*b).into()),
            (AF_INET | AF_INET6, _) => return Err(format!("an address of {} bytes", value.len())),
            _ => None,
        };
        if let Some(address) = address {
            found.push(Address {
                index: u32::from_le_bytes([i0, i1, i2, i3]),
                address,
                prefix,
                label,
            });
        }
    }
    Ok(found.into())
}

/// The messages: kind and body.
fn messages(bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), String>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = match rest.first_chunk::<4>() {
            Some(length) => u32::from_le_bytes(*length) as usize,
            None => 0,
        };
        let (Some(body), Some(kind)) = (rest.get(HEADER..length), rest.get(4..6)) else {
            rest = &[];
            return Some(Err("a netlink message is cut short".to_owned()));
        };
        let kind = kind.iter().rev().fold(0, |n, b| n << 8 | u16::from(*b));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok((kind, body)))
    })
}

/// The attributes: number and payload.
fn attributes(bytes: Option<&[u8]>) -> impl Iterator<Item = Result<(u16, &[u8]), String>> {
    let mut rest = bytes.unwrap_or_default();
    std::iter::from_fn(move || {
        let header = rest.first_chunk::<4>()?;
        let length = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let kind = u16::from_le_bytes([header[2], header[3]]) & TYPE_MASK;
        let Some(payload) = rest.get(4..length) else {
            rest = &[];
            return Some(Err("a netlink attribute is cut short".to_owned()));
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok((kind, payload)))
    })
}

fn text(value: &[u8]) -> Result<Arc<str>, String> {
    let text = value.split(|b| *b == 0).next().unwrap_or_default();
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err("a name is no text".to_owned()),
    }
}

fn number(value: &[u8]) -> Result<u32, String> {
    match value.try_into() {
        Ok(bytes) => Ok(u32::from_le_bytes(bytes)),
        Err(_) => Err(format!("a number of {} bytes", value.len())),
    }
}
