//! The messages of rtnetlink about interfaces and their addresses (linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h).

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::probe::routing;
use crate::source::netlink::{Attributes, messages, text, u32_at};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
pub(super) const IFF_UP: u32 = 0x1;
pub(super) const IFF_LOOPBACK: u32 = 0x8;
pub(super) const IFF_RUNNING: u32 = 0x40;
pub(super) const IFF_NOARP: u32 = 0x80;
/// `IFA_F_DADFAILED`
const DUPLICATE: u8 = 0x08;
/// The lifetime of an address that is for ever (`INFINITY_LIFE_TIME`).
pub(in crate::probe) const FOR_EVER: u32 = u32::MAX;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: Arc<str>,
    flags: u32,
    pub(super) mtu: Option<u32>,
    /// `IFLA_LINK`: the index of the interface below, or of a veth's other end.
    pub(super) lower: Option<u32>,
    /// `IFLA_MASTER`: the index of a bond or bridge.
    pub(super) master: Option<u32>,
    /// `IFLA_INFO_KIND`.
    pub(super) kind: Option<Arc<str>>,
    /// `IFLA_XDP`: how a program is attached (`XDP_ATTACHED_*`), and its number.
    pub(super) xdp: Option<(u8, Option<u32>)>,
}

impl Link {
    /// Whether one of its flags (`IFF_*`) is set.
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
    /// The XDP program in words; `Err` if it is not said.
    pub(super) fn xdp(&self) -> Result<String, String> {
        let (attached, program) = self.xdp.ok_or("IFLA_XDP is not in it")?;
        let program = program.map_or("a program".to_owned(), |id| format!("program {id}"));
        Ok(match attached {
            0 => "none".to_owned(),
            1 => format!("{program} in the driver"),
            2 => format!("{program} in the kernel's generic hook"),
            3 => format!("{program} in the adapter"),
            _ => "several programs".to_owned(),
        })
    }
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probe) struct Address {
    pub(in crate::probe) index: u32,
    pub(in crate::probe) address: IpAddr,
    pub(in crate::probe) prefix: u8,
    /// `IFA_LABEL`: the name that getifaddrs(3) gives, `eth0:1` for an alias.
    pub(in crate::probe) label: Option<Arc<str>>,
    /// `IFA_F_DADFAILED`: another machine has it, and so it is not used.
    pub(in crate::probe) is_duplicate: bool,
    /// `IFA_CACHEINFO`: the seconds until it is removed, or [`FOR_EVER`]; none in older recordings.
    pub(in crate::probe) valid_s: Option<u32>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// The interfaces, in the kernel's order.
pub(super) fn links(bytes: &[u8]) -> Result<Arc<[Link]>, String> {
    let mut links = Vec::new();
    for message in messages(bytes) {
        let message = message?;
        if message.kind != RTM_NEWLINK {
            return Err(format!("message {} among interfaces", message.kind));
        }
        // struct ifinfomsg
        let [_, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, _, _, _, _]: [u8; 16] = *message.fixed;
        let mut link = Link {
            index: u32::from_le_bytes([i0, i1, i2, i3]),
            name: "".into(),
            flags: u32::from_le_bytes([f0, f1, f2, f3]),
            mtu: None,
            lower: None,
            master: None,
            kind: None,
            xdp: None,
        };
        for attribute in message.attributes.each() {
            match attribute? {
                (3, value) => link.name = text(value)?,
                (4, value) => link.mtu = Some(number(value)?),
                (5, value) => link.lower = Some(number(value)?),
                (10, value) => link.master = Some(number(value)?),
                (18, value) => {
                    for inner in Attributes(value).each() {
                        if let (1, value) = inner? {
                            link.kind = Some(text(value)?);
                        }
                    }
                }
                (43, value) => {
                    let inner = Attributes(value);
                    let attached = inner.find(2)?.and_then(|value| value.first().copied());
                    link.xdp = match attached {
                        Some(attached) => Some((attached, inner.number(4)?)),
                        None => None,
                    };
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
pub(in crate::probe) fn addresses(bytes: &[u8]) -> Result<Arc<[Address]>, String> {
    let mut found = Vec::new();
    for message in messages(bytes) {
        let message = message?;
        if message.kind != RTM_NEWADDR {
            return Err(format!("message {} among addresses", message.kind));
        }
        // struct ifaddrmsg
        let [family, prefix, flags, _, i0, i1, i2, i3]: [u8; 8] = *message.fixed;
        let (mut local, mut peer, mut label, mut valid_s) = (None, None, None, None);
        for attribute in message.attributes.each() {
            match attribute? {
                (1, value) => peer = Some(value),
                (2, value) => local = Some(value),
                (3, value) => label = Some(text(value)?),
                // struct ifa_cacheinfo: preferred, valid, created, updated.
                (6, value) => valid_s = u32_at(value, 4),
                _ => {}
            }
        }
        // On a point-to-point link IFA_ADDRESS is the other end.
        let Some(value) = local.or(peer) else {
            continue;
        };
        let address = match (family, value.len()) {
            (AF_INET, 4) | (AF_INET6, 16) => routing::ip(value),
            (AF_INET | AF_INET6, _) => return Err(format!("an address of {} bytes", value.len())),
            _ => None,
        };
        if let Some(address) = address {
            found.push(Address {
                index: u32::from_le_bytes([i0, i1, i2, i3]),
                address,
                prefix,
                label,
                is_duplicate: flags & DUPLICATE != 0,
                valid_s,
            });
        }
    }
    Ok(found.into())
}

fn number(value: &[u8]) -> Result<u32, String> {
    match value.try_into() {
        Ok(bytes) => Ok(u32::from_le_bytes(bytes)),
        Err(_) => Err(format!("a number of {} bytes", value.len())),
    }
}
