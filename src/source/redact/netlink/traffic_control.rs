//! Messages of traffic control: queueing disciplines and classes hold numbers only, filters hold addresses too.
//!
//! What this program does not read is cleared.

use super::routing::address;
use super::{HEADER, NLA_TYPE_MASK, aligned, u16_at, u32_at};
use crate::source::redact::key::Key;

/// `RTM_NEWQDISC`, `RTM_NEWTCLASS`
const NUMBERS: [u16; 2] = [36, 40];
const RTM_NEWTFILTER: u16 = 44;
/// `struct tcmsg`
const FIXED: usize = 20;
/// `TCA_KIND` and `TCA_OPTIONS`, of an action too.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;

/// Rewrites the messages of a reply.
pub(super) fn messages(key: &Key, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at + HEADER <= out.len() {
        let length = u32_at(&out, at)? as usize;
        let kind = u16_at(&out, at + 4)?;
        let body = out.get_mut(at + HEADER + FIXED..at + length)?;
        match kind {
            // KIND, OPTIONS, STATS, XSTATS, RATE, STATS2
            _ if NUMBERS.contains(&kind) => each(body, &mut |number, value| {
                if !matches!(number, 1..=5 | 7) {
                    value.fill(0);
                }
                Some(())
            })?,
            RTM_NEWTFILTER => filter(key, body)?,
            _ => return None,
        }
        at += aligned(length);
    }
    // Trailing bytes are no message.
    (at >= out.len()).then_some(out)
}

fn each(bytes: &mut [u8], map: &mut impl FnMut(u16, &mut [u8]) -> Option<()>) -> Option<()> {
    let mut at = 0;
    while at + 4 <= bytes.len() {
        let length = usize::from(u16_at(bytes, at)?);
        let number = u16_at(bytes, at + 2)? & NLA_TYPE_MASK;
        map(number, bytes.get_mut(at + 4..at + length)?)?;
        at += aligned(length);
    }
    (at >= bytes.len()).then_some(())
}

/// The kind, which stands before the options.
fn named(bytes: &mut [u8], options: &mut impl FnMut(&[u8], &mut [u8]) -> Option<()>) -> Option<()> {
    let mut kind = Vec::new();
    each(bytes, &mut |number, value| {
        match number {
            KIND => kind = value.split(|byte| *byte == 0).next()?.to_vec(),
            OPTIONS => options(&kind, value)?,
            _ => value.fill(0),
        }
        Some(())
    })
}

fn filter(key: &Key, bytes: &mut [u8]) -> Option<()> {
    named(bytes, &mut |kind, options| {
        let mut masks = [32; 2];
        if kind == b"flower" {
            // The masks stand behind their addresses.
            each(options, &mut |number, value| {
                if let (11 | 13, Ok(mask)) = (number, <[u8; 4]>::try_from(&*value)) {
                    masks[usize::from(number == 13)] = u32::from_be_bytes(mask).leading_ones();
                }
                Some(())
            })?;
        }
        each(options, &mut |number, value| {
            match (kind, number) {
                // The actions.
                (b"flower", 3) | (b"matchall", 2) | (b"u32", 7) | (b"bpf", 1) => {
                    return each(value, &mut |_, action| actions(action));
                }
                // Ethernet type, protocol, ports, flags, and their masks.
                (b"flower", 8 | 9 | 11 | 13 | 18..=22 | 35..=38 | 71 | 72) => {}
                (b"flower", 10) => address(key, value, masks[0].try_into().ok()?),
                (b"flower", 12) => address(key, value, masks[1].try_into().ok()?),
                (b"u32", 5) => keys(key, value),
                (b"bpf", 8) | (b"matchall", 3) => {}
                _ => value.fill(0),
            }
            Some(())
        })
    })
}

fn actions(action: &mut [u8]) -> Option<()> {
    named(action, &mut |kind, options| {
        if !matches!(kind, b"gact" | b"mirred" | b"police") {
            options.fill(0);
        }
        Some(())
    })
}

/// `struct tc_u32_sel` and its keys: mask, value, offset. Addresses of IPv4 stand at 12 and 16.
fn keys(key: &Key, selector: &mut [u8]) {
    let (head, keys) = match selector.split_at_mut_checked(16) {
        Some(split) => split,
        None => return,
    };
    // What hashes and moves is not read.
    if let Some(rest) = head.get_mut(12..) {
        rest.fill(0);
    }
    for one in keys.chunks_mut(16) {
        let mask = one.first_chunk().map(|mask| u32::from_be_bytes(*mask));
        let at = u32_at(one, 8);
        match (mask, at, one.get_mut(4..8)) {
            (Some(mask), Some(12 | 16), Some(value)) => {
                let length = mask.leading_ones();
                match u32::MAX.checked_shl(32 - length).unwrap_or(0) == mask {
                    true => address(key, value, u8::try_from(length).unwrap_or(32)),
                    false => value.fill(0),
                }
            }
            (_, Some(8 | 20), _) => {}
            (_, _, Some(value)) => value.fill(0),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::netlink::attribute;
    use crate::source::testing::{has, message};
    use proptest::prelude::*;

    fn map(kind: u16, attributes: &[Vec<u8>]) -> Option<Vec<u8>> {
        let body = [vec![0; FIXED], attributes.concat()].concat();
        messages(&Key::from_text("k"), &message(kind, &body))
    }

    #[test]
    fn filters_lose_addresses_and_keep_what_they_do() {
        let key = Key::from_text("k");
        let drop = [
            attribute(1, b"gact\0"),
            attribute(2, &attribute(2, &[2; 20])),
        ]
        .concat();
        let edit = [
            attribute(1, b"pedit\0"),
            attribute(2, &attribute(2, &[10, 1, 2, 3])),
        ]
        .concat();
        let actions = [attribute(1, &drop), attribute(2, &edit)].concat();
        let flower = [
            attribute(4, &[2, 4, 6, 8, 10, 12]),
            attribute(9, &[17]),
            attribute(12, &[10, 1, 2, 0]),
            attribute(13, &[255, 255, 255, 0]),
            attribute(3, &actions),
        ];
        let mapped = map(
            44,
            &[attribute(1, b"flower\0"), attribute(2, &flower.concat())],
        )
        .unwrap();
        let net = key.ipv4_net([10, 1, 2, 0].into(), 24).octets();
        assert!(has(&mapped, &attribute(12, &net)) && has(&mapped, &[2; 20]));
        assert!(has(&mapped, &attribute(9, &[17])) && has(&mapped, &attribute(4, &[0; 6])));
        assert!(!has(&mapped, &[10, 1, 2]));

        let one = |mask: [u8; 4], value: [u8; 4], at: u8| {
            [&mask[..], &value, &[at, 0, 0, 0, 0, 0, 0, 0]].concat()
        };
        let selector = [
            vec![1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            one([255; 4], [10, 1, 2, 3], 16),
            one([0, 0, 255, 255], [0, 0, 18, 183], 20),
        ];
        let u32 = attribute(5, &selector.concat());
        let mapped = map(44, &[attribute(1, b"u32\0"), attribute(2, &u32)]).unwrap();
        assert!(has(&mapped, &key.ipv4([10, 1, 2, 3].into()).octets()) && has(&mapped, &[18, 183]));
    }

    #[test]
    fn disciplines_stay_and_other_messages_are_left_out() {
        let netem = [
            attribute(1, b"netem\0"),
            attribute(2, &[7; 24]),
            attribute(9, &[1; 4]),
        ];
        let mapped = map(36, &netem).unwrap();
        assert!(has(&mapped, &[7; 24]) && !has(&mapped, &[1; 4]));
        assert_eq!(map(16, &netem), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, number in 0u16..16) {
            let _ = map(44, std::slice::from_ref(&bytes));
            for kind in [&b"flower\0"[..], b"u32\0", b"matchall\0", b"bpf\0"] {
                let _ = map(44, &[attribute(1, kind), attribute(2, &attribute(number, &bytes))]);
            }
        }
    }
}
