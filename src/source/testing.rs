//! Replies over netlink, built for tests: the kernel's, in little-endian.

pub(crate) use super::netlink::attribute;

/// A message of this type.
pub(crate) fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut out = ((body.len() + 16) as u32).to_le_bytes().to_vec();
    out.extend(kind.to_le_bytes());
    out.resize(16, 0);
    out.extend(body);
    out
}

/// Whether these bytes stand somewhere in a reply.
pub(crate) fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|w| w == part)
}
