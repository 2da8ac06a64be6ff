//! Netlink messages of the RDMA subsystem (`linux/rdma/rdma_netlink.h`), with the GUIDs and addresses in them replaced.
//!
//! Only what is known to hold no identity passes unchanged. Anything that this program does not know is cleared, and a
//! message of another family gives `None`: the reply is left out.

mod interface;
mod routing;
mod traffic_control;

use super::key::Key;
use super::{Names, scan, text::Kind};

const HEADER: usize = 16;
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RDMA_NL_NLDEV: u16 = 5;
const NLA_TYPE_MASK: u16 = 0x3fff;

/// How an attribute is redacted, by the number that follows `RDMA_NLDEV_ATTR_`.
enum NldevAttribute {
    Guid,
    Prefix,
    Nested,
    SocketAddress,
    Text,
    Plain,
    NotKnown,
}

fn holds(attribute: u16) -> NldevAttribute {
    match attribute {
        // NODE_GUID, SYS_IMAGE_GUID
        6 | 7 => NldevAttribute::Guid,
        // SUBNET_PREFIX
        8 => NldevAttribute::Prefix,
        // RES_SUMMARY, _QP, _CM_ID, _CQ, _MR, _PD, DRIVER, STAT_COUNTER, STAT_HWCOUNTERS, RES_CTX, RES_SRQ and their entries
        15
        | 16
        | 19
        | 20
        | 30
        | 31
        | 35
        | 36
        | 40
        | 41
        | 46
        | 47
        | 52
        | 53
        | 77
        | 78
        | 80
        | 81
        | 86..=89 => NldevAttribute::Nested,
        // RES_SRC_ADDR, RES_DST_ADDR
        33 | 34 => NldevAttribute::SocketAddress,
        // DEV_NAME, NDEV_NAME, CHARDEV_NAME
        2 | 51 | 70 => NldevAttribute::Text,
        // RES_RKEY, RES_LKEY, RES_IOVA, LOCAL_DMA_LKEY, UNSAFE_GLOBAL_RKEY open memory; DRIVER_STRING and RES_RAW are the driver's.
        42..=44 | 48 | 49 | 54 | 85 => NldevAttribute::NotKnown,
        0..=96 => NldevAttribute::Plain,
        _ => NldevAttribute::NotKnown,
    }
}

/// Rewrites the reply to a netlink question, `family/command`; `None` if the family is not known here.
pub(super) fn reply(question: &str, key: &Key, names: &Names, bytes: &[u8]) -> Option<Vec<u8>> {
    match question {
        "route/getlink" | "route/getaddr" => interface::messages(key, names, bytes),
        "route/getdcb"
        | "route/getroute"
        | "route/getroute-exceptions"
        | "route/getrule"
        | "route/getneigh" => routing::messages(key, names, bytes),
        "route/getqdisc" | "route/gettclass" | "route/gettfilter" => {
            traffic_control::messages(key, bytes)
        }
        _ if question.starts_with("rdma/") => messages(key, names, bytes),
        _ => None,
    }
}

/// Rewrites the messages of a reply.
fn messages(key: &Key, names: &Names, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at + HEADER <= out.len() {
        let length = u32_at(&out, at)? as usize;
        let kind = u16_at(&out, at + 4)?;
        if length < HEADER || at + length > out.len() {
            return None;
        }
        let body = out.get_mut(at + HEADER..at + length)?;
        match kind {
            NLMSG_NOOP | NLMSG_DONE => {}
            // The error's number, then the request's header.
            NLMSG_ERROR => body.iter_mut().skip(4 + HEADER).for_each(|b| *b = 0),
            kind if kind >> 10 == RDMA_NL_NLDEV => attributes(key, names, body, 0)?,
            _ => return None,
        }
        at += aligned(length);
    }
    // Trailing bytes are no message.
    (at >= out.len()).then_some(out)
}

fn attributes(key: &Key, names: &Names, bytes: &mut [u8], depth: u8) -> Option<()> {
    let mut at = 0;
    while at + 4 <= bytes.len() {
        let length = usize::from(u16_at(bytes, at)?);
        let attribute = u16_at(bytes, at + 2)? & NLA_TYPE_MASK;
        if length < 4 {
            return None;
        }
        let value = bytes.get_mut(at + 4..at + length)?;
        match holds(attribute) {
            NldevAttribute::Plain => {}
            NldevAttribute::Guid => number(value, |guid| key.guid(guid)),
            NldevAttribute::Prefix => number(value, |prefix| key.subnet_prefix(prefix)),
            NldevAttribute::Nested if depth < 8 => attributes(key, names, value, depth + 1)?,
            NldevAttribute::SocketAddress => socket_address(key, value),
            NldevAttribute::Text => name(key, names, value)?,
            NldevAttribute::Nested | NldevAttribute::NotKnown => value.fill(0),
        }
        at += aligned(length);
    }
    (at >= bytes.len()).then_some(())
}

/// A name in place, if its pseudonym is as long.
fn name(key: &Key, names: &Names, value: &mut [u8]) -> Option<()> {
    let mapped = scan(key, names, std::str::from_utf8(value).ok()?, Kind::NAME);
    (mapped.len() == value.len()).then(|| value.copy_from_slice(mapped.as_bytes()))
}

/// The kernel writes numbers in the machine's order, which is little-endian wherever RDMA runs today.
fn number(value: &mut [u8], map: impl Fn(u64) -> u64) {
    match <[u8; 8]>::try_from(&*value) {
        Ok(bytes) => value.copy_from_slice(&map(u64::from_le_bytes(bytes)).to_le_bytes()),
        Err(_) => value.fill(0),
    }
}

/// `struct sockaddr_storage`: family and port stay, IPv4 and IPv6 addresses are mapped, others cleared.
fn socket_address(key: &Key, value: &mut [u8]) {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    let range = match u16_at(value, 0) {
        Some(AF_INET) => 4..8,
        Some(AF_INET6) => 8..24,
        _ => 2..2,
    };
    let kept = value.get(..4).map(<[u8]>::to_vec);
    let mapped = value
        .get(range.clone())
        .and_then(|bytes| match bytes.len() {
            4 => <[u8; 4]>::try_from(bytes)
                .ok()
                .map(|b| key.ipv4(b.into()).octets().to_vec()),
            16 => key.hardware(bytes),
            _ => None,
        });
    value.fill(0);
    for (place, bytes) in [(0..4, kept), (range, mapped)] {
        if let (Some(bytes), Some(place)) = (bytes, value.get_mut(place)) {
            place.copy_from_slice(&bytes);
        }
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
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
    fn guids_are_replaced_at_any_depth_and_the_rest_stays() {
        let guid = 0xb83f_d203_00c0_ffeeu64;
        let body = [
            attribute(2, b"mlx5_0\0"),
            attribute(6, &guid.to_le_bytes()),
            attribute(
                19 | 0x8000,
                &attribute(20, &attribute(7, &guid.to_le_bytes())),
            ),
            attribute(8, &(0xfe80u64 << 48).to_le_bytes()),
            attribute(9, &0x3a4u32.to_le_bytes()),
            attribute(
                33,
                &[&[2, 0, 0x12, 0xb7, 10, 1, 2, 3][..], &[0; 120]].concat(),
            ),
            attribute(300, &guid.to_le_bytes()),
        ]
        .concat();
        let raw = [message(5 << 10 | 1, &body), message(NLMSG_DONE, &[0; 4])].concat();
        let mapped = map(&raw).unwrap();
        assert_eq!(mapped.len(), raw.len());
        let new = Key::from_text("k").guid(guid);
        assert!(has(&raw, &guid.to_le_bytes()) && !has(&mapped, &guid.to_le_bytes()));
        assert!(has(&mapped, &attribute(6, &new.to_le_bytes())));
        assert!(has(&mapped, &attribute(7, &new.to_le_bytes())));
        assert!(has(&mapped, &attribute(300, &[0; 8])));
        assert!(has(&mapped, b"mlx5_0\0") && has(&mapped, &0x3a4u32.to_le_bytes()));
        assert!(has(&mapped, &(0xfe80u64 << 48).to_le_bytes()));
        assert!(!has(&mapped, &[10, 1, 2, 3]));
        assert!(has(&mapped, &[2, 0, 0x12, 0xb7, 10]));
    }

    #[test]
    fn other_families_and_broken_messages_are_left_out() {
        assert_eq!(map(&message(16, &[1, 2, 3, 4])), None);
        assert_eq!(map(&message(5 << 10 | 1, &[3, 0, 0, 0])), None);
        assert_eq!(map(&message(5 << 10 | 1, &[0; 4])[..18]), None);
        assert_eq!(map(b""), Some(vec![]));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, number: u16) {
            let _ = map(&bytes);
            let _ = map(&message(5 << 10 | 1, &bytes));
            let _ = map(&message(5 << 10 | 1, &attribute(number % 100, &bytes)));
        }
    }
}
