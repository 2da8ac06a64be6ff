//! The messages of RDMA netlink: headers and attributes.
//!
//! Numbers are in the byte order of the machine that answered. Recordings come from little-endian machines: all that run
//! RDMA at the time of writing.

use std::sync::Arc;

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// The flag bits above an attribute's number (include/uapi/linux/netlink.h, `NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;

/// The attributes that are read: numbers of `enum rdma_nldev_attr` (include/uapi/rdma/rdma_netlink.h, which is ABI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    /// `RDMA_NLDEV_ATTR_DEV_INDEX`, 32 bits.
    DevIndex = 1,
    /// `RDMA_NLDEV_ATTR_DEV_NAME`, a text that ends with NUL.
    DevName = 2,
    /// `RDMA_NLDEV_ATTR_PORT_INDEX`, 32 bits.
    PortIndex = 3,
    /// `RDMA_NLDEV_ATTR_PORT_STATE`, 8 bits.
    PortState = 12,
    /// `RDMA_NLDEV_SYS_ATTR_NETNS_MODE`, 8 bits.
    SysNetnsMode = 66,
}

/// A message: its attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'b>(&'b [u8]);

/// The messages, one after another; what is no message is an error, and the last.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = Result<Message<'_>, String>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = match rest.first_chunk::<4>() {
            Some(length) => u32::from_le_bytes(*length) as usize,
            None => 0,
        };
        let Some(attributes) = rest.get(HEADER..length) else {
            rest = &[];
            return Some(Err("a netlink message is cut short".to_owned()));
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(Message(attributes)))
    })
}

impl<'b> Message<'b> {
    /// The payload of the first attribute of this number.
    fn find(self, attribute: Attribute) -> Result<Option<&'b [u8]>, String> {
        let mut rest = self.0;
        while let Some(header) = rest.first_chunk::<4>() {
            let length = usize::from(u16::from_le_bytes([header[0], header[1]]));
            let kind = u16::from_le_bytes([header[2], header[3]]) & TYPE_MASK;
            let Some(payload) = rest.get(4..length) else {
                return Err("a netlink attribute is cut short".to_owned());
            };
            if kind == attribute as u16 {
                return Ok(Some(payload));
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(None)
    }

    /// An attribute of 8 or 32 bits.
    pub(super) fn number(self, attribute: Attribute) -> Result<Option<u32>, String> {
        match self.find(attribute)? {
            None => Ok(None),
            Some([byte]) => Ok(Some(u32::from(*byte))),
            Some(payload) => match payload.try_into() {
                Ok(bytes) => Ok(Some(u32::from_le_bytes(bytes))),
                Err(_) => Err(format!("{attribute:?} has {} bytes", payload.len())),
            },
        }
    }

    /// An attribute that is a text.
    pub(super) fn text(self, attribute: Attribute) -> Result<Option<Arc<str>>, String> {
        let Some(payload) = self.find(attribute)? else {
            return Ok(None);
        };
        let text = payload.strip_suffix(&[0]).unwrap_or(payload);
        match std::str::from_utf8(text) {
            Ok(text) => Ok(Some(text.into())),
            Err(_) => Err(format!("{attribute:?} is not text")),
        }
    }
}
