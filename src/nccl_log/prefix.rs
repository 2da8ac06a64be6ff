//! What stands before a message: `[time] host:pid:tid [device] file.cc:123 (function) NCCL WARN `, and before that whatever
//! mpirun, srun, torchrun, ray or kubectl put there.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::text::{number, run};

/// Made once: a line is searched twice for it, and making it takes longer than a search.
static ANCHOR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"CCL "));

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A version line, which has no level.
    Version,
    /// `NCCL INFO`.
    Info,
    /// `NCCL WARN`.
    Warn,
    /// `NCCL TRACE`, `NCCL CALL`, `NCCL ABORT`.
    Other,
}

/// The process that wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer<'l> {
    /// The host's name, as NCCL cut it (up to the first dot).
    pub host: &'l [u8],
    /// The process.
    pub pid: u64,
    /// The CUDA device of the thread that wrote; `None` where it had none.
    pub device: Option<u64>,
}

/// A message in a line.
#[derive(Clone, Copy, Debug)]
pub struct Found<'l> {
    /// Its level.
    pub level: Level,
    /// Who wrote it; `None` where the line is torn before it.
    pub writer: Option<Writer<'l>>,
    /// What stands before the writer.
    pub before: &'l [u8],
    /// The source file that the line names, as in `file.cc:123`.
    pub source: Option<&'l [u8]>,
    /// Where in the line the message's own prefix begins.
    pub begin: usize,
    /// The message.
    pub message: &'l [u8],
}

/// The messages of a line: two where the output of two processes runs into one line.
pub fn messages(line: &[u8]) -> impl Iterator<Item = Found<'_>> {
    let mut from = 0;
    let mut next = anchor(line, 0);
    std::iter::from_fn(move || {
        let (at, level, body) = next.take()?;
        let head = line.get(from..at)?;
        let (writer, source, begin) = writer(head);
        // A version is the message itself where it follows a level.
        next = anchor(line, body.max(at + 1)).filter(|(other, ..)| *other > body);
        let end = match next {
            Some((other, ..)) => {
                let (_, _, begin) = self::writer(line.get(body..other)?);
                body + begin
            }
            None => line.len(),
        };
        let found = Found {
            level,
            writer,
            before: head.get(..begin)?,
            source,
            begin: from + begin,
            message: line.get(body..end)?.trim_ascii_end(),
        };
        from = end;
        Some(found)
    })
}

/// The next `NCCL INFO ` or its like: where it begins, its level, and where the message begins.
fn anchor(line: &[u8], from: usize) -> Option<(usize, Level, usize)> {
    let mut at = from;
    loop {
        let rest = line.get(at..)?;
        at += ANCHOR.find(rest)?;
        let rest = line.get(at + 4..)?;
        let begin = at.checked_sub(1)?;
        let letter = *line.get(begin)?;
        let level = if rest.starts_with(b"INFO ") {
            Some((Level::Info, 9))
        } else if rest.starts_with(b"WARN ") {
            Some((Level::Warn, 9))
        } else if rest.starts_with(b"version ") && is_version(rest.get(8..)?) {
            // The message is the whole.
            Some((Level::Version, 0))
        } else if rest.starts_with(b"TRACE ") {
            Some((Level::Other, 10))
        } else if rest.starts_with(b"CALL ") || rest.starts_with(b"ABORT ") {
            Some((Level::Other, 9))
        } else {
            None
        };
        match level {
            Some((Level::Version, _)) if matches!(letter, b'N' | b'R') => {
                return Some((begin, Level::Version, begin));
            }
            Some((level, length)) if letter == b'N' || letter == b'R' => {
                return Some((begin, level, at + length));
            }
            _ => at += 4,
        }
    }
}

/// `2.18.1+cuda12.1`, `: 2.21.5+hip6.2`, `2.18.3-HEAD`: a banner, and not PyTorch's `NCCL version 2.18.1` in an error.
fn is_version(rest: &[u8]) -> bool {
    let rest = rest.strip_prefix(b": ").unwrap_or(rest);
    let (digits, rest) = run(rest, |b| b.is_ascii_digit() || b == b'.');
    digits.len() >= 3 && matches!(rest.first(), Some(b'+' | b'-' | b'r'))
}

/// Reads backwards from the end of `head`: who wrote, the source file, and where that begins.
fn writer(head: &[u8]) -> (Option<Writer<'_>>, Option<&[u8]>, usize) {
    if let Some((writer, begin)) = plain_writer(head) {
        return (Some(writer), None, begin);
    }
    let mut end = head.len();
    let (mut device, mut source) = (None, None);
    let mut bracket = false;
    for _ in 0..4 {
        let trimmed = head.get(..end).unwrap_or(&[]).trim_ascii_end();
        let begin = memchr::memrchr2(b' ', b'\t', trimmed).map_or(0, |at| at + 1);
        let token = trimmed.get(begin..).unwrap_or(&[]);
        match token {
            [b'(', .., b')'] => {}
            [b'[', inner @ .., b']'] if !bracket && is_device(inner) => {
                device = number(inner).map(|(device, _)| device);
                bracket = true;
            }
            token if source.is_none() && is_source(token) => source = Some(token),
            token => {
                if let Some((host, pid, length)) = process(token) {
                    let writer = Writer { host, pid, device };
                    let begin = begin + token.len() - length;
                    // The time of a WARN line stands in brackets before the host.
                    return (Some(writer), source, begin);
                }
                break;
            }
        }
        end = begin;
    }
    (None, source, end.min(head.len()))
}

/// `host:pid:tid [device] `, as nearly all lines have it, in one pass from its end.
fn plain_writer(head: &[u8]) -> Option<(Writer<'_>, usize)> {
    let digits = |head: &mut &[u8]| -> Option<u64> {
        let (mut value, mut unit, mut length) = (0, 1, 0);
        while let [rest @ .., digit @ b'0'..=b'9'] = *head {
            value += u64::from(digit - b'0') * unit;
            unit *= 10;
            length += 1;
            if length > 10 {
                return None;
            }
            *head = rest;
        }
        (length > 0).then_some(value)
    };
    let mut rest = head.strip_suffix(b"] ")?;
    let device = digits(&mut rest).filter(|device| *device < 1000)?;
    rest = rest.strip_suffix(b" [")?;
    digits(&mut rest)?;
    rest = rest.strip_suffix(b":")?;
    let pid = digits(&mut rest)?;
    rest = rest.strip_suffix(b":")?;
    let length = rest.iter().rev().take_while(|b| is_host(b)).count();
    let begin = rest.len() - length;
    let host = rest.get(begin..).filter(|host| !host.is_empty())?;
    let device = Some(device);
    Some((Writer { host, pid, device }, begin))
}

fn is_host(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

fn is_device(inner: &[u8]) -> bool {
    let digits = inner.strip_prefix(b"-").unwrap_or(inner);
    (1..=3).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// `transport/net_ib.cc:1234`
fn is_source(token: &[u8]) -> bool {
    let Some(colon) = memchr::memrchr(b':', token) else {
        return false;
    };
    let (file, line) = token.split_at(colon);
    let extension = memchr::memrchr(b'.', file).and_then(|dot| file.get(dot + 1..));
    matches!(
        extension,
        Some(b"cc" | b"c" | b"cu" | b"h" | b"cpp" | b"hpp")
    ) && line.len() > 1
        && line
            .get(1..)
            .is_some_and(|l| l.iter().all(u8::is_ascii_digit))
}

/// `host:pid:tid`, perhaps with a tag in front that ends in `:`, `>` or `]`: the host, the process, and the length of both.
fn process(token: &[u8]) -> Option<(&[u8], u64, usize)> {
    let tid = memchr::memrchr(b':', token)?;
    let head = token.get(..tid)?;
    let pid = memchr::memrchr(b':', head)?;
    let digits =
        |bytes: &[u8]| (1..=10).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_digit);
    if !digits(token.get(tid + 1..)?) || !digits(head.get(pid + 1..)?) {
        return None;
    }
    let (process, _) = number(head.get(pid + 1..)?)?;
    let head = head.get(..pid)?;
    let begin = head
        .iter()
        .rposition(|b| !is_host(b))
        .map_or(0, |at| at + 1);
    let host = head.get(begin..).filter(|host| !host.is_empty())?;
    Some((host, process, token.len() - begin))
}

/// The rank in `[rank3]:`, `[1,3]<stdout>:`, `[default3]:` or `3: ` before a line.
pub fn tagged_rank(before: &str) -> Option<u64> {
    let before = before.trim_start();
    let bracket = before
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    if let Some((inner, _)) = bracket {
        let digits = inner
            .strip_prefix("rank")
            .or_else(|| inner.split_once(',').map(|(_, rank)| rank));
        if let Some(digits) = digits {
            return digits.parse().ok();
        }
    }
    let (rank, rest) = number(before.as_bytes())?;
    rest.starts_with(b": ").then_some(rank)
}
