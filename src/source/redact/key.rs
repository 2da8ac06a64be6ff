//! The key of one redaction, and the keyed functions from which all pseudonyms are made.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use super::tally::{Replaced, Tally};

/// What a keyed function is for: the same bits give unrelated pseudonyms in two domains.
#[derive(Clone, Copy, Debug)]
pub(super) enum Domain {
    /// IPv4 addresses.
    V4 = 1,
    /// The upper half of IPv6 addresses: subnet prefixes.
    Prefix,
    /// MAC addresses.
    Mac,
    /// GUIDs that hold no MAC address, and interface identifiers.
    Guid,
    /// UUIDs.
    Uuid,
    /// Host names.
    Host,
    /// DNS domains.
    Dns,
    /// Users.
    User,
    /// Words, directories and files that are on no list of what is kept.
    Other,
    /// Serial numbers.
    Serial,
    /// What tells one key from another.
    Mark,
}

/// The key of one redaction. Two recordings under one key have the same pseudonym for the same thing.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; 16],
    /// Whether several recordings are meant to have it.
    shared: bool,
    /// What was replaced under it.
    tally: Tally,
}

impl fmt::Debug for Key {
    /// Says nothing: whoever has the key can try names until a pseudonym fits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// A key of these bytes, which the caller took from the system's random numbers.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Key {
            bytes,
            shared: false,
            tally: Tally::default(),
        }
    }

    /// The key that a key file's content stands for. White space around it does not count.
    pub fn from_text(text: &str) -> Self {
        // Both halves hash the whole text; short texts give short-lived secrets, whatever the hash.
        let half = |which: u64| {
            let mut hasher = SipHasher24::new_with_keys(0x7264_6d61_2d64_6f63, which);
            hasher.write(text.trim().as_bytes());
            hasher.finish()
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&half(1).to_le_bytes());
        bytes[8..].copy_from_slice(&half(2).to_le_bytes());
        Key {
            bytes,
            shared: true,
            tally: Tally::default(),
        }
    }

    /// Identifies the shared key of a recording, without revealing anything of it.
    pub fn mark(&self) -> Option<String> {
        let number = || self.number(Domain::Mark, 0, b"rdma-doctor");
        self.shared.then(|| format!("{:016x}", number()))
    }

    /// How many things of each kind were replaced under the key so far.
    pub(super) fn replaced(&self) -> std::collections::BTreeMap<String, u64> {
        self.tally.counts()
    }

    /// Counts a thing that is replaced.
    pub(super) fn count(&self, kind: Replaced, thing: &[u8]) {
        self.tally.add(kind, self.number(Domain::Mark, 1, thing));
    }

    /// A keyed number for these bytes.
    pub(super) fn number(&self, domain: Domain, tweak: u8, bytes: &[u8]) -> u64 {
        let (mut low, mut high) = ([0; 8], [0; 8]);
        low.copy_from_slice(&self.bytes[..8]);
        high.copy_from_slice(&self.bytes[8..]);
        let mut hasher =
            SipHasher24::new_with_keys(u64::from_le_bytes(low), u64::from_le_bytes(high));
        hasher.write_u8(domain as u8);
        hasher.write_u8(tweak);
        hasher.write(bytes);
        hasher.finish()
    }

    /// A keyed permutation of the numbers of `bits` bits (even, at most 64): a Feistel network, so no two meet.
    pub(super) fn permute(&self, domain: Domain, bits: u32, value: u64) -> u64 {
        let half = bits / 2;
        let mask = (1u64 << half) - 1;
        let (mut left, mut right) = (value >> half & mask, value & mask);
        for round in 0..8 {
            let mixed = self.number(domain, round, &right.to_le_bytes()) & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << half | right
    }

    /// Maps the first `bits` bits of a left-aligned number so that numbers which share n leading bits share n afterwards
    /// (Crypto-PAn's construction), and so that whatever is inside one of `classes` stays inside, and else outside. Only what is inside a frozen
    /// class stays as it is: the last of the bits flips under each key.
    pub(super) fn prefix_preserving(
        &self,
        domain: Domain,
        bits: u32,
        value: u64,
        classes: &[Class],
    ) -> u64 {
        let mut mapped = value;
        for at in 0..bits {
            let above = prefix(value, at);
            // A bit that decides whether the number is inside a class stays, and so do all bits inside a frozen one.
            let stays = classes.iter().any(|class| {
                if class.length > at {
                    prefix(class.value, at) == above
                } else {
                    class.frozen && prefix(value, class.length) == class.value
                }
            });
            if !stays {
                let keyed = self.number(domain, at as u8, &above.to_le_bytes()) & 1;
                let flip = if at + 1 == bits { 1 } else { keyed };
                mapped ^= flip << (63 - at);
            }
        }
        mapped
    }
}

fn prefix(value: u64, length: u32) -> u64 {
    match length {
        0 => 0,
        length => value & (u64::MAX << (64 - length.min(64))),
    }
}

/// Numbers that begin with the same bits and belong together: a range of addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    value: u64,
    length: u32,
    frozen: bool,
}

impl Class {
    /// A range whose members are mapped among themselves.
    pub(super) const fn mapped(value: u64, length: u32) -> Self {
        Class {
            value,
            length,
            frozen: false,
        }
    }

    /// A range whose members stay what they are.
    pub(super) const fn frozen(value: u64, length: u32) -> Self {
        Class {
            value,
            length,
            frozen: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_permutation_has_no_collisions(a: u64, b: u64, bits in 1u32..=32) {
            let key = Key::from_text("k");
            let bits = bits * 2;
            let mask = u64::MAX >> (64 - bits);
            let (a, b) = (a & mask, b & mask);
            let (x, y) = (key.permute(Domain::Mac, bits, a), key.permute(Domain::Mac, bits, b));
            prop_assert!(x <= mask && y <= mask);
            prop_assert_eq!(a == b, x == y);
        }
    }

    #[test]
    fn a_key_file_decides_and_its_white_space_does_not() {
        let number = |text| Key::from_text(text).number(Domain::Host, 0, b"x");
        assert_eq!(number("secret\n"), number("secret"));
        assert_ne!(number("secret"), number("secreT"));
        assert_eq!(format!("{:?}", Key::from_text("secret")), "Key(…)");
    }
}
