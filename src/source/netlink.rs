//! Messages and attributes of netlink, by number.
//!
//! Numbers are in the byte order of the machine that answered: little-endian on all that run RDMA at the time of writing.

use std::sync::Arc;

/// `struct nlmsghdr`: length, type, flags, sequence number, port.
pub(crate) const HEADER: usize = 16;
/// `struct tcmsg` of traffic control: family, interface, handle, parent, info.
pub(crate) const TCMSG: usize = 20;
/// The flag bits above an attribute's number (include/uapi/linux/netlink.h, `NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;

/// A message: its type and flags, its fixed part, its attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'b, const FIXED: usize> {
    /// All of it, without padding.
    pub(crate) bytes: &'b [u8],
    /// `nlmsg_type`.
    pub(crate) kind: u16,
    /// `nlmsg_flags`.
    pub(crate) flags: u16,
    /// The family's own header.
    pub(crate) fixed: &'b [u8; FIXED],
    /// The attributes.
    pub(crate) attributes: Attributes<'b>,
}

/// The messages, each with a header of `FIXED` bytes of its family; what is no message is an error, and the last.
pub(crate) fn messages<const FIXED: usize>(
    bytes: &[u8],
) -> impl Iterator<Item = Result<Message<'_, FIXED>, String>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = u32_at(rest, 0).unwrap_or(0) as usize;
        let bytes = rest.get(..length).unwrap_or_default();
        let body = bytes.get(HEADER..);
        let split = body.and_then(|body| body.split_first_chunk::<FIXED>());
        let Some((fixed, attributes)) = split else {
            rest = &[];
            return Some(Err("a netlink message is cut short".to_owned()));
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(Message {
            bytes,
            kind: u16_at(bytes, 4).unwrap_or(0),
            flags: u16_at(bytes, 6).unwrap_or(0),
            fixed,
            attributes: Attributes(attributes),
        }))
    })
}

/// Attributes one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'b>(pub(crate) &'b [u8]);

impl<'b> Attributes<'b> {
    /// Each attribute's number and payload; what is none is an error, and the last.
    pub(crate) fn each(self) -> impl Iterator<Item = Result<(u16, &'b [u8]), String>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let length = usize::from(u16_at(rest, 0).unwrap_or(0));
            let kind = u16_at(rest, 2).unwrap_or(0) & TYPE_MASK;
            let Some(payload) = rest.get(4..length) else {
                rest = &[];
                return Some(Err("a netlink attribute is cut short".to_owned()));
            };
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            Some(Ok((kind, payload)))
        })
    }

    /// The payload of the first attribute of this number.
    pub(crate) fn find(self, number: u16) -> Result<Option<&'b [u8]>, String> {
        for attribute in self.each() {
            let (kind, payload) = attribute?;
            if kind == number {
                return Ok(Some(payload));
            }
        }
        Ok(None)
    }

    /// The attributes inside the first attribute of this number.
    pub(crate) fn nested(self, number: u16) -> Result<Option<Attributes<'b>>, String> {
        Ok(self.find(number)?.map(Attributes))
    }

    /// The first attribute of this number, of 8 or 32 bits.
    pub(crate) fn number(self, number: u16) -> Result<Option<u32>, String> {
        match self.find(number)? {
            None => Ok(None),
            Some([byte]) => Ok(Some(u32::from(*byte))),
            Some(payload) => match payload.try_into() {
                Ok(bytes) => Ok(Some(u32::from_le_bytes(bytes))),
                Err(_) => Err(format!("attribute {number} has {} bytes", payload.len())),
            },
        }
    }
}

/// An attribute (`struct nlattr`: length, type, payload), padded to four bytes.
pub(crate) fn attribute(number: u16, payload: &[u8]) -> Vec<u8> {
    // Payloads are numbers and names.
    let length = (4 + payload.len()) as u16;
    let mut bytes = [length.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A text without the NUL that ends it.
pub(crate) fn text(payload: &[u8]) -> Result<Arc<str>, String> {
    let text = payload.split(|byte| *byte == 0).next();
    match std::str::from_utf8(text.unwrap_or_default()) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err("a name is not text".to_owned()),
    }
}

/// Sixteen bits at this place.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Thirty-two bits at this place.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testing::message;

    #[test]
    fn attributes_are_found_at_any_depth_and_cut_ones_are_errors() {
        let inner = [attribute(1, &[7, 7]), attribute(2, &5u32.to_le_bytes())].concat();
        let bytes = message(
            78,
            &[&[0, 21, 0, 0][..], &attribute(13 | 0x8000, &inner)].concat(),
        );
        let message = messages::<4>(&bytes).next().unwrap().unwrap();
        assert_eq!((message.kind, message.fixed[1]), (78, 21));
        let nested = message.attributes.nested(13).unwrap().unwrap();
        assert_eq!(nested.find(1), Ok(Some(&[7, 7][..])));
        assert_eq!(nested.number(2), Ok(Some(5)));
        assert!(nested.number(1).is_err());
        assert_eq!(nested.find(3), Ok(None));
        for cut in 1..bytes.len() {
            let broken = messages::<4>(&bytes[..cut]).any(|m| m.is_err());
            assert!(broken, "{cut}");
        }
        assert!(Attributes(&[3, 0, 1, 0]).find(1).is_err());
        assert_eq!(Attributes(&attribute(1, &[7])).number(1), Ok(Some(7)));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            for message in messages::<4>(&bytes).flatten() {
                let _ = message.attributes.each().count();
            }
            let _ = Attributes(&bytes).each().count();
        }
    }
}
