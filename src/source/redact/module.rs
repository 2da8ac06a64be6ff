//! Memory of cables and transceivers: serial number and date of manufacture become pseudonyms, what the vendor or the
//! owner wrote for themselves is cleared, and the checksum stays right if it was right.

use std::ops::Range;

use super::key::Key;

/// Where a module of one kind keeps its identity.
struct Layout {
    serial: Range<usize>,
    date: Range<usize>,
    /// Bytes that the vendor or the owner may use as they like.
    private: &'static [(usize, usize)],
    /// The bytes that are summed, and where their sum stands.
    sum: (Range<usize>, usize),
}

/// SFP: SFF-8472, table 4-1; A2h follows at 256 if it was read, with its area for the user at 120.
const SFP: Layout = Layout {
    serial: 68..84,
    date: 84..92,
    private: &[(96, 256), (376, 512)],
    sum: (64..95, 95),
};
/// QSFP, QSFP+, QSFP28: SFF-8636, table 6-14 (page 00h, upper half).
const QSFP: Layout = Layout {
    serial: 196..212,
    date: 212..220,
    private: &[(224, usize::MAX)],
    sum: (192..223, 223),
};
/// QSFP-DD, OSFP, QSFP112: CMIS 5.2, table 8-28 (page 00h); the date is followed by the CLEI code.
const CMIS: Layout = Layout {
    serial: 166..182,
    date: 182..200,
    private: &[(223, usize::MAX)],
    sum: (128..222, 222),
};

/// Rewrites a module's memory, read from its beginning.
pub(super) fn memory(key: &Key, bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    // SFF-8024, table 4-1.
    let layout = match bytes.first() {
        Some(0x03) => SFP,
        Some(0x0c | 0x0d | 0x11) => QSFP,
        Some(0x18 | 0x19 | 0x1b | 0x1e | 0x1f) => CMIS,
        // A kind whose layout is not known here: what it is stays, and nothing else.
        _ => {
            out.iter_mut().skip(1).for_each(|byte| *byte = 0);
            return out;
        }
    };
    let (summed, sum) = layout.sum;
    let was_right = checksum(bytes, &summed).is_some_and(|s| bytes.get(sum) == Some(&s));
    for place in [layout.serial, layout.date] {
        if let Some(text) = out.get_mut(place) {
            // ASCII, padded with spaces: each character becomes one character.
            let latin: String = text.iter().map(|byte| char::from(*byte)).collect();
            for (byte, c) in text.iter_mut().zip(key.serial(&latin).chars()) {
                *byte = u8::try_from(c).unwrap_or(b'?');
            }
        }
    }
    for (start, end) in layout.private {
        let end = (*end).min(out.len());
        if let Some(bytes) = out.get_mut(*start..end) {
            bytes.fill(0);
        }
    }
    if was_right
        && let Some(right) = checksum(&out, &summed)
        && let Some(byte) = out.get_mut(sum)
    {
        *byte = right;
    }
    out
}

fn checksum(bytes: &[u8], summed: &Range<usize>) -> Option<u8> {
    let bytes = bytes.get(summed.clone())?;
    Some(bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_serial_number_is_replaced_and_the_checksum_stays_right() {
        for (identifier, serial, sum) in [(0x03, 68, 95), (0x11, 196, 223), (0x18, 166, 222)] {
            let mut raw = vec![0x20; 512];
            raw[0] = identifier;
            raw[serial..serial + 16].copy_from_slice(b"MT2042FT01234   ");
            raw[250] = 0x77;
            let summed = match identifier {
                0x03 => 64..95,
                0x11 => 192..223,
                _ => 128..222,
            };
            raw[sum] = checksum(&raw, &summed).unwrap();
            let mapped = memory(&Key::from_text("k"), &raw);
            assert_eq!(mapped.len(), raw.len());
            assert!(!mapped.windows(13).any(|w| w == b"MT2042FT01234"));
            assert_eq!(&mapped[serial + 13..serial + 16], b"   ");
            assert_eq!(mapped[sum], checksum(&mapped, &summed).unwrap());
            assert_eq!((mapped[0], mapped[250]), (identifier, 0));
            // What tells the rate: compliance codes and applications.
            let codes: &[usize] = match identifier {
                0x03 => &[36],
                0x11 => &[113, 131, 192],
                _ => &[86, 100, 117],
            };
            assert!(codes.iter().all(|at| mapped[*at] == raw[*at]));
        }
    }

    proptest! {
        #[test]
        fn no_memory_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), first: u8) {
            let _ = memory(&Key::from_text("k"), &bytes);
            let known = [&[[3, 0x11, 0x18][usize::from(first % 3)]], &bytes[..]].concat();
            prop_assert_eq!(memory(&Key::from_text("k"), &known).len(), known.len());
        }
    }
}
