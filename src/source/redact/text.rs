//! Finds addresses and GUIDs in text. Strict at both ends of a token: a rate, a version, a PCI address, a counter or a
//! time of day is left alone.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::addresses::holds_mac;
use super::key::{Domain, Key};
use super::tally::Replaced;
use crate::source::wire::to_hex;

/// What a text may hold, which its question decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Four numbers with dots are an address, not a version.
    pub(super) dotted: bool,
    /// Sixteen bare hexadecimal digits may be a GUID, twelve a MAC address; not so in /proc/PID/status.
    pub(super) bare: bool,
    /// The text speaks of people and places: users, home directories, URLs, `password=…`.
    pub(super) free: bool,
    /// Of names and words only what is listed (`kept.toml`) is kept.
    pub(super) listed: bool,
    /// And the words of messages (`kept.toml`, and those by which lines of logs are recognised).
    pub(super) messages: bool,
}

impl Kind {
    /// A file of the kernel's.
    pub(super) const KERNEL: Kind = Kind {
        dotted: true,
        bare: true,
        free: false,
        listed: false,
        messages: false,
    };
    /// A name in a directory: the same whether it is in a path, a listing or a link.
    pub(super) const NAME: Kind = Kind {
        dotted: false,
        bare: true,
        free: false,
        listed: false,
        messages: false,
    };
    /// A name in a directory that is not the kernel's, and a control group's.
    pub(super) const PLACE: Kind = Kind {
        free: true,
        listed: true,
        ..Kind::NAME
    };
    /// Anything that people or programs wrote.
    pub(super) const FREE: Kind = Kind {
        dotted: true,
        bare: true,
        free: true,
        listed: false,
        messages: false,
    };
    /// What a site has filled.
    pub(super) const LISTED: Kind = Kind {
        listed: true,
        ..Kind::FREE
    };
    /// A line of a log that says what went wrong.
    pub(super) const MESSAGE: Kind = Kind {
        messages: true,
        ..Kind::LISTED
    };
}

/// A token that was found: how many bytes of the input it takes, and what is in its place.
pub(super) type Found = (usize, String);

/// Whether the byte continues a word.
pub(super) fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The address or GUID that begins at `at`, which is the beginning of a word or of a `::`.
pub(super) fn address_at(key: &Key, text: &str, at: usize, kind: Kind) -> Option<Found> {
    let rest = text.get(at..)?;
    colons(key, rest)
        .or_else(|| octets(key, rest, '-'))
        .or_else(|| uuid(key, rest))
        .or_else(|| hex_word(key, rest, kind))
        .or_else(|| kind.dotted.then(|| dotted(key, text, at)).flatten())
}

/// The bytes from the start that satisfy the predicate.
pub(super) fn run(text: &str, ok: impl Fn(u8) -> bool) -> &str {
    let end = text.bytes().position(|b| !ok(b)).unwrap_or(text.len());
    text.get(..end).unwrap_or("")
}

/// Whether a token of this length ends where no word goes on.
fn ends(text: &str, length: usize) -> bool {
    !text.as_bytes().get(length).copied().is_some_and(in_word)
}

/// MAC, GUID, GID, IPv6 address, IPoIB address: whatever is written with colons.
fn colons(key: &Key, rest: &str) -> Option<Found> {
    let whole = run(rest, |b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
    let mut token = whole.trim_end_matches('.');
    if token.ends_with(':') && !token.ends_with("::") {
        token = token.get(..token.len() - 1)?;
    }
    if !ends(rest, token.len()) {
        return None;
    }
    let colons = token.bytes().filter(|b| *b == b':').count();
    if colons < 2 {
        return None;
    }
    let groups_of = |length| {
        token
            .split(':')
            .all(|g| g.len() == length && !g.contains('.'))
    };
    if colons == 3 && groups_of(4) {
        let guid = u64::from_str_radix(&token.replace(':', ""), 16).ok()?;
        let hex = format!("{:016x}", key.guid(guid));
        let groups = [
            hex.get(..4)?,
            hex.get(4..8)?,
            hex.get(8..12)?,
            hex.get(12..)?,
        ];
        return Some((token.len(), like(token, groups.join(":"))));
    }
    if let Some(found) = octets(key, rest, ':') {
        return Some(found);
    }
    let address: Ipv6Addr = token.parse().ok()?;
    let (mapped, taken) = match mask_length(rest.get(token.len()..)?) {
        Some((length, taken)) => (key.ipv6_net(address, length), taken),
        None => (key.ipv6(address), 0),
    };
    // What stays the same address keeps its spelling: `0::/system.slice` of a cgroup's path reads like one.
    let written = if mapped == address {
        token.to_owned()
    } else if token.len() == 39 {
        let groups: Vec<String> = mapped
            .segments()
            .iter()
            .map(|s| format!("{s:04x}"))
            .collect();
        groups.join(":")
    } else {
        mapped.to_string()
    };
    let mask = rest.get(token.len()..token.len() + taken)?;
    Some((token.len() + taken, like(token, written) + mask))
}

/// `/24` after an address: the length, and how many bytes it takes.
fn mask_length(rest: &str) -> Option<(u32, usize)> {
    let digits = run(rest.strip_prefix('/')?, |b| b.is_ascii_digit());
    let length = digits.parse().ok().filter(|l| *l <= 128)?;
    ends(rest, 1 + digits.len()).then_some((length, 1 + digits.len()))
}

/// Pairs of digits with a separator: 6 are a MAC address, 8 a GUID, 20 an IPoIB address.
fn octets(key: &Key, rest: &str, separator: char) -> Option<Found> {
    let token = run(rest, |b| b.is_ascii_hexdigit() || b == separator as u8);
    let token = token.trim_end_matches(separator);
    let bytes: Vec<u8> = token
        .split(separator)
        .map(|pair| match pair.len() {
            2 => u8::from_str_radix(pair, 16).ok(),
            _ => None,
        })
        .collect::<Option<_>>()?;
    if !ends(rest, token.len()) || bytes.len() == 16 {
        return None;
    }
    let mapped: Vec<String> = key
        .hardware(&bytes)?
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    Some((
        token.len(),
        like(token, mapped.join(&separator.to_string())),
    ))
}

/// Hexadecimal digits in one piece: GUID (16), GID (32), MAC address (12).
fn hex_word(key: &Key, rest: &str, kind: Kind) -> Option<Found> {
    let digits = rest.strip_prefix("0x").unwrap_or(rest);
    let prefix = rest.len() - digits.len();
    let token = run(digits, |b| b.is_ascii_hexdigit());
    if !ends(digits, token.len()) || (prefix == 0 && !kind.bare) {
        return None;
    }
    let letters = token.bytes().any(|b| b.is_ascii_alphabetic());
    let mapped = match token.len() {
        16 => {
            let guid = u64::from_str_radix(token, 16).ok()?;
            // Masks, sizes and physical addresses begin with zeros, kernel addresses with ones; GUIDs with a vendor.
            let vendor = !matches!(guid >> 48, 0 | 0xffff);
            if !vendor || (prefix == 0 && !holds_mac(guid)) {
                return None;
            }
            // A subnet prefix, as in PortInfo's GidPrefix, is mapped as that of a GID is.
            let mapped = match guid >> 54 {
                0x3fa => key.subnet_prefix(guid),
                _ => key.guid(guid),
            };
            format!("{mapped:016x}")
        }
        32 => {
            let value = u128::from_str_radix(token, 16)
                .ok()
                .filter(|v| *v != u128::MAX)?;
            format!("{:032x}", u128::from(key.ipv6(value.into())))
        }
        12 if prefix == 0 && letters => hex_mac(key, token)?,
        _ => return None,
    };
    let token = rest.get(..prefix + token.len())?;
    Some((
        token.len(),
        like(token, rest.get(..prefix)?.to_owned() + &mapped),
    ))
}

fn hex_mac(key: &Key, digits: &str) -> Option<String> {
    let value = u64::from_str_radix(digits, 16).ok()?;
    let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
    Some(to_hex(&key.mac([a, b, c, d, e, f])))
}

/// Names that systemd and rdma-core make of an address: `enx` and 12 digits, `rocex` and 16.
pub(super) fn name_with_mac(key: &Key, rest: &str) -> Option<Found> {
    let word = run(rest, |b| b.is_ascii_alphanumeric());
    let letters = run(word, |b| b.is_ascii_lowercase());
    // The digits may begin with letters, but an x is no digit.
    let prefix = letters.rfind('x')? + 1;
    let digits = word.get(prefix..)?;
    if !(2..=8).contains(&prefix) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mapped = match digits.len() {
        12 => hex_mac(key, digits)?,
        16 => format!("{:016x}", key.guid(u64::from_str_radix(digits, 16).ok()?)),
        _ => return None,
    };
    Some((
        word.len(),
        format!("{}{}", word.get(..prefix)?, like(digits, mapped)),
    ))
}

/// A UUID, whole or its beginning after `GPU-` or `MIG-`: a beginning stays the beginning of the same whole.
fn uuid(key: &Key, rest: &str) -> Option<Found> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let (prefix, short) = match rest.get(..4) {
        Some("GPU-" | "MIG-") => (4, true),
        _ => (0, false),
    };
    let token = run(rest.get(prefix..)?, |b| b.is_ascii_hexdigit() || b == b'-');
    let groups: Vec<&str> = token.split('-').collect();
    let fits = |exact: bool| {
        let last = groups.len() - 1;
        groups
            .iter()
            .zip(GROUPS)
            .enumerate()
            .all(|(i, (group, length))| {
                group.len() == length || (!exact && i == last && group.len() < length)
            })
    };
    let whole = groups.len() == 5 && fits(true);
    if !ends(rest, prefix + token.len()) || !(whole || short && groups.len() <= 5 && fits(false)) {
        return None;
    }
    key.count(Replaced::Uuid, token.as_bytes());
    let mut above = Vec::with_capacity(36);
    let mapped: String = token
        .chars()
        .map(|c| match c.to_digit(16) {
            None => c,
            Some(digit) => {
                let flip = key.number(Domain::Uuid, 0, &above) as u32 & 15;
                above.push(digit as u8);
                char::from_digit(digit ^ flip, 16).unwrap_or(c)
            }
        })
        .collect();
    let taken = prefix + token.len();
    Some((taken, rest.get(..prefix)?.to_owned() + &like(token, mapped)))
}

/// An IPv4 address, perhaps with the length of its subnet's mask.
fn dotted(key: &Key, text: &str, at: usize) -> Option<Found> {
    let rest = text.get(at..)?;
    // `v1-10.0.0.1` is a version, `10.0.0.1-10.0.0.9` a range.
    let before = text.get(..at)?;
    let part_of_more = match before.bytes().last() {
        Some(b'.') => true,
        Some(b'-') => {
            let start =
                before.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
            let first = before.get(start.len()..before.len() - 1)?;
            first.parse::<Ipv4Addr>().is_err() || start.bytes().last().is_some_and(in_word)
        }
        _ => false,
    };
    let token = run(rest, |b| b.is_ascii_digit() || b == b'.').trim_end_matches('.');
    let address: Ipv4Addr = token.parse().ok()?;
    let next = rest.get(token.len()..)?;
    let goes_on = match next.bytes().next() {
        Some(b'-') => !next
            .get(1..)?
            .starts_with(|c: char| c.is_ascii_digit() && next.contains('.')),
        Some(b'.') => next.as_bytes().get(1).copied().is_some_and(in_word),
        Some(byte) => in_word(byte),
        None => false,
    };
    if part_of_more || goes_on || speaks_of_versions(before) {
        return None;
    }
    Some(match mask_length(next) {
        Some((length, taken)) => {
            let mapped = key.ipv4_net(address, length);
            (
                token.len() + taken,
                format!("{mapped}{}", next.get(..taken)?),
            )
        }
        None => (token.len(), key.ipv4(address).to_string()),
    })
}

/// Whether the words before, on the same line, announce a version.
fn speaks_of_versions(before: &str) -> bool {
    let line = before.rsplit(['\n', ',', ';']).next().unwrap_or("");
    let mut words = line.split_whitespace().rev().take(2);
    words.any(is_version_word)
}

/// Whether a word, a key or the name of a file announces a version.
pub(super) fn is_version_word(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["version", "firmware", "fw", "release", "revision", "driver"]
        .iter()
        .any(|v| word.contains(v))
        || word
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|part| matches!(part, "ver" | "rev"))
}

/// Writes hexadecimal digits in capitals if the original has them.
fn like(original: &str, mapped: String) -> String {
    let digits = original.strip_prefix("0x").unwrap_or(original);
    if digits.bytes().any(|b| b.is_ascii_uppercase()) {
        match mapped.strip_prefix("0x") {
            Some(digits) => format!("0x{}", digits.to_ascii_uppercase()),
            None => mapped.to_ascii_uppercase(),
        }
    } else {
        mapped
    }
}
