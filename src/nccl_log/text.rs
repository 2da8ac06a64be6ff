//! Small readers over bytes: each takes what it reads off the front.

/// The bytes from the start that satisfy the predicate, and the rest.
pub fn run(bytes: &[u8], ok: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|b| !ok(*b)).unwrap_or(bytes.len());
    bytes.split_at(end)
}

/// A decimal number at the start, and the rest.
pub fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value: u64 = 0;
    let mut length = 0;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        length += 1;
    }
    match length {
        0 => None,
        length => Some((value, bytes.get(length..)?)),
    }
}

/// A number in hexadecimal at the start, after `0x` or without, and the rest.
pub fn hexadecimal(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let bytes = bytes.strip_prefix(b"0x").unwrap_or(bytes);
    let (digits, rest) = run(bytes, |b| b.is_ascii_hexdigit());
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    Some((u64::from_str_radix(digits, 16).ok()?, rest))
}

/// The text behind the first occurrence of a needle.
pub fn after<'b>(bytes: &'b [u8], needle: &str) -> Option<&'b [u8]> {
    let at = memchr::memmem::find(bytes, needle.as_bytes())?;
    bytes.get(at + needle.len()..)
}

/// Whether the needle occurs.
pub fn contains(bytes: &[u8], needle: &str) -> bool {
    memchr::memmem::find(bytes, needle.as_bytes()).is_some()
}

/// The text behind the needle, up to the next of these bytes or the end.
pub fn word_after<'b>(bytes: &'b [u8], needle: &str, ends: &[u8]) -> Option<&'b [u8]> {
    let rest = after(bytes, needle)?;
    let (word, _) = run(rest, |b| !ends.contains(&b));
    (!word.is_empty()).then_some(word)
}

/// The number behind the needle.
pub fn number_after(bytes: &[u8], needle: &str) -> Option<u64> {
    number(after(bytes, needle)?).map(|(value, _)| value)
}

/// A number with a fraction behind the needle.
pub fn decimal_after(bytes: &[u8], needle: &str) -> Option<f64> {
    let (digits, _) = run(after(bytes, needle)?, |b| b.is_ascii_digit() || b == b'.');
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Copies a line without the sequences by which terminals set colours (ECMA-48, `ESC [ … letter`).
pub fn without_colours(line: &[u8], into: &mut Vec<u8>) {
    into.clear();
    let mut rest = line;
    while let Some(at) = memchr::memchr(0x1b, rest) {
        let (before, sequence) = rest.split_at(at);
        into.extend_from_slice(before);
        rest = match sequence.get(1) {
            Some(b'[') => {
                let body = sequence.get(2..).unwrap_or(&[]);
                let (_, end) = run(body, |b| (0x20..0x40).contains(&b));
                end.get(1..).unwrap_or(&[])
            }
            Some(_) | None => sequence.get(1..).unwrap_or(&[]),
        };
    }
    into.extend_from_slice(rest);
}

/// The text of a line that a container's runtime or a collector of logs wrote as a JSON object, with its time before it; `None` where
/// it is no such line.
pub fn from_json(line: &[u8], into: &mut Vec<u8>) -> bool {
    const TEXTS: [&[u8]; 6] = [
        b"log",
        b"message",
        b"msg",
        b"textPayload",
        b"line",
        b"MESSAGE",
    ];
    const TIMES: [&[u8]; 4] = [b"time", b"timestamp", b"@timestamp", b"ts"];
    if !line.starts_with(b"{\"") {
        return false;
    }
    into.clear();
    let (mut text, mut time) = (None, None);
    let mut rest = line;
    while let Some(at) = memchr::memchr(b'"', rest) {
        let Some((name, after)) = json_string(rest.get(at..).unwrap_or(&[])) else {
            break;
        };
        rest = after;
        let Some(value) = after.trim_ascii_start().strip_prefix(b":") else {
            continue;
        };
        if let Some((value, after)) = json_string(value.trim_ascii_start()) {
            if TEXTS.contains(&name) {
                text = text.or(Some(value));
            } else if TIMES.contains(&name) {
                time = time.or(Some(value));
            }
            rest = after;
        }
    }
    let Some(text) = text else {
        return false;
    };
    if let Some(time) = time {
        into.extend_from_slice(time);
        into.push(b' ');
    }
    unescaped(text, into);
    while into.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
        into.pop();
    }
    true
}

/// A string in quotation marks at the start, as it is there, and the rest. Of one that is cut off, what is there.
fn json_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = bytes.strip_prefix(b"\"")?;
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', inner.get(at..)?) {
        at += found;
        match inner.get(at) {
            Some(b'"') => return Some((inner.get(..at)?, inner.get(at + 1..)?)),
            _ => at += 2,
        }
    }
    Some((inner, &[]))
}

fn unescaped(text: &[u8], into: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        into.extend_from_slice(before);
        let mut length = 2;
        match escape.get(1) {
            Some(b'n') => into.push(b'\n'),
            Some(b't') => into.push(b'\t'),
            Some(b'r') => into.push(b'\r'),
            Some(b'u') => {
                let code = escape.get(2..6).and_then(hexadecimal);
                let letter = code.and_then(|(code, _)| char::from_u32(u32::try_from(code).ok()?));
                let letter = letter.unwrap_or(char::REPLACEMENT_CHARACTER);
                into.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                length = 6;
            }
            Some(other) => into.push(*other),
            None => {}
        }
        rest = escape.get(length..).unwrap_or(&[]);
    }
    into.extend_from_slice(rest);
}
