//! The names that nft and iptables have for numbers.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::fact::ruleset::PacketField;

/// The words of a field, each with its number: a key of `packet_words.toml`.
type Words = &'static [(&'static str, u128)];

macro_rules! words {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/packet_words.", $name, ".rs"))
    };
}

/// Modules of iptables that let pass as many packets as a rate, a number or chance allows.
pub(super) const RATES: &[&str] = words!("rate_modules");

/// Modules of which it is not known what they match.
pub(super) const OPAQUE: &[&str] = words!("opaque_modules");

/// Targets that change nothing of what becomes of a packet.
pub(super) const SILENT_TARGETS: &[&str] = words!("silent_targets");

/// The words that stand for a number as a value of this field.
fn words_of(field: &PacketField) -> Words {
    match field {
        PacketField::Protocol => words!("protocol"),
        PacketField::Version => words!("version"),
        PacketField::State => words!("state"),
        PacketField::Direction => words!("direction"),
        PacketField::Status => words!("status"),
        PacketField::TcpFlags => words!("tcp_flags"),
        PacketField::IcmpType => words!("icmp"),
        PacketField::IcmpCode => words!("icmp_code"),
        PacketField::Icmp6Type => words!("icmp6"),
        PacketField::PacketType => words!("packet_type"),
        PacketField::SourceKind | PacketField::DestinationKind => words!("address_kind"),
        _ => &[],
    }
}

/// The number that a word stands for as a value of this field.
pub(super) fn number(field: &PacketField, word: &str) -> Option<u128> {
    match field {
        PacketField::Source4 | PacketField::Destination4 => {
            word.parse::<Ipv4Addr>().ok().map(|a| u32::from(a).into())
        }
        PacketField::Source6 | PacketField::Destination6 => {
            word.parse::<Ipv6Addr>().ok().map(u128::from)
        }
        _ => {
            let mut words = words_of(field).iter();
            let named = words.find(|(name, _)| word.eq_ignore_ascii_case(name));
            named.map(|(_, number)| *number).or_else(|| plain(word))
        }
    }
}

/// A number in decimal or, after `0x`, in hexadecimal.
pub(super) fn plain(word: &str) -> Option<u128> {
    match word.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// The addresses of a subnet, from, to.
pub(super) fn subnet(field: &PacketField, address: &str, length: u32) -> Option<(u128, u128)> {
    let bits = match field {
        PacketField::Source4 | PacketField::Destination4 => 32u32,
        PacketField::Source6 | PacketField::Destination6 => 128,
        _ => return None,
    };
    let first = number(field, address)?;
    let free = bits.checked_sub(length)?;
    let host = match free {
        128 => u128::MAX,
        free => (1u128 << free) - 1,
    };
    Some((first & !host, first | host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::ruleset::{address_kind, state};

    #[test]
    fn the_words_have_the_numbers_of_the_facts() {
        for (word, expected) in [
            ("INVALID", state::INVALID),
            ("established", state::ESTABLISHED),
            ("RELATED", state::RELATED),
            ("new", state::NEW),
            ("untracked", state::UNTRACKED),
        ] {
            assert_eq!(number(&PacketField::State, word), Some(expected), "{word}");
        }
        for (word, expected) in [
            ("unicast", address_kind::UNICAST),
            ("LOCAL", address_kind::LOCAL),
            ("broadcast", address_kind::BROADCAST),
            ("anycast", address_kind::ANYCAST),
            ("multicast", address_kind::MULTICAST),
        ] {
            let found = number(&PacketField::SourceKind, word);
            assert_eq!(found, Some(expected), "{word}");
        }
        assert_eq!(number(&PacketField::Mark, "tcp"), None);
        assert_eq!(number(&PacketField::Mark, "0x10"), Some(16));
    }
}
