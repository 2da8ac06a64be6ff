//! The key that authenticates the nodes of a run, and what is trusted without one.

use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Bytes of a message's authentication code.
pub const TAG_BYTES: usize = 32;

/// A secret that all nodes of a run share. Never printed.
#[derive(Clone)]
pub struct Key([u8; 32]);

/// Why a text cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Short keys can be guessed.
    #[error("a key must have at least {} characters", Key::MIN_CHARACTERS)]
    Short,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// The fewest characters of a key: 16 of an alphabet of 64 are 96 bits.
    pub const MIN_CHARACTERS: usize = 16;

    /// Hashes the text to a key; surrounding white space, such as the end of a file's line, does
    /// not count.
    ///
    /// # Errors
    ///
    /// The text is too short.
    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if text.chars().count() < Self::MIN_CHARACTERS {
            return Err(KeyError::Short);
        }
        Ok(Key(Sha256::digest(text).into()))
    }

    /// The key of one connection, derived from the shared key and both nonces.
    pub fn derive_session(&self, first: &[u8], second: &[u8]) -> Self {
        Key(self.tag(&[b"session", first, second]))
    }

    /// The code of a message that consists of these parts, in this order.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether this is the code of the message, compared in constant time.
    pub fn verifies(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.mac(parts).verify_slice(tag).is_ok()
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&block(self.0));
        for part in parts {
            // Length-prefixed, so that no two lists of parts give the same input.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

/// HMAC's key fills a block of the hash; a shorter one is followed by zeros (RFC 2104).
fn block(key: [u8; 32]) -> hmac::digest::Key<Hmac<Sha256>> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block[..32].copy_from_slice(&key);
    block
}

/// Which nodes a run trusts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Nodes that have the key.
    Key(Key),
    /// Nodes with one of these addresses, those of the job's allocation. The job's id is public and
    /// no key: such an exchange is *unauthenticated*, and restricted to recordings.
    Allocation(Vec<IpAddr>),
    /// Processes of this machine.
    Loopback,
}

impl Trust {
    /// Whether a connection from this address is accepted at all.
    pub fn admits(&self, from: IpAddr) -> bool {
        let from = from.to_canonical();
        match self {
            Trust::Key(_) => true,
            Trust::Allocation(addresses) => {
                from.is_loopback() || addresses.iter().any(|known| known.to_canonical() == from)
            }
            Trust::Loopback => from.is_loopback(),
        }
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Trust::Key(key) => Some(key),
            Trust::Allocation(_) | Trust::Loopback => None,
        }
    }

    /// Whether nodes prove their identity.
    pub fn is_authenticated(&self) -> bool {
        self.key().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_code_is_hmac_sha256() {
        // RFC 4231, test case 1, without the lengths that parts have here.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let mut mac = Hmac::<Sha256>::new(&block(key));
        mac.update(b"Hi There");
        assert_eq!(
            hex(&mac.finalize().into_bytes()),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
    }

    #[test]
    fn a_code_belongs_to_its_key_and_its_parts() {
        let key = Key::from_text("correct horse battery staple\n").unwrap();
        let same = Key::from_text("correct horse battery staple").unwrap();
        let tag = key.tag(&[b"ab", b"c"]);
        assert!(same.verifies(&[b"ab", b"c"], &tag));
        assert!(!same.verifies(&[b"a", b"bc"], &tag));
        assert!(!same.verifies(&[b"ab", b"c"], &tag[..31]));
        let other = Key::from_text("correct horse battery stapler").unwrap();
        assert!(!other.verifies(&[b"ab", b"c"], &tag));
        assert_ne!(
            key.derive_session(b"1", b"2").tag(&[]),
            key.derive_session(b"2", b"1").tag(&[])
        );
        assert_eq!(Key::from_text("  short  ").unwrap_err(), KeyError::Short);
        assert_eq!(format!("{key:?}"), "Key(…)");
    }

    #[test]
    fn without_a_key_the_address_decides() {
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let allocation = Trust::Allocation(vec![at("10.0.0.1")]);
        assert!(allocation.admits(at("10.0.0.1")) && allocation.admits(at("::ffff:10.0.0.1")));
        assert!(!allocation.admits(at("10.0.0.2")));
        assert!(Trust::Loopback.admits(at("127.0.0.1")) && Trust::Loopback.admits(at("::1")));
        assert!(!Trust::Loopback.admits(at("10.0.0.1")));
        assert!(!Trust::Loopback.is_authenticated());
    }
}
