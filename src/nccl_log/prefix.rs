//! What is before a message: `[time] host:pid:tid [device] file.cc:123 (function) NCCL WARN `, and before that whatever
//! mpirun, srun, torchrun, ray or kubectl put there.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::anchor::AnchorPosition;
use super::needles::Needles;
use super::row_table::{Row, fits};
use super::text::{number, run};

/// Made once: a line is searched twice for it, and making it takes longer than a search.
static ANCHOR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"CCL "));

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
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
pub struct LogWriter<'l> {
    /// The host's name, as NCCL cut it (up to the first dot).
    pub host: &'l [u8],
    /// The process.
    pub pid: u64,
    /// The CUDA device of the thread that wrote; `None` if it had none.
    pub device: Option<u64>,
}

/// A message in a line.
#[derive(Clone, Copy, Debug)]
pub struct PrefixedMessage<'l> {
    /// Its level.
    pub level: LogLevel,
    /// The process that wrote it; `None` if the line is truncated before it.
    pub writer: Option<LogWriter<'l>>,
    /// The text before the writer.
    pub before: &'l [u8],
    /// The source file that the line names, as in `file.cc:123`.
    pub source: Option<&'l [u8]>,
    /// Where in the line the message's own prefix begins.
    pub begin: usize,
    /// The message.
    pub message: &'l [u8],
}

/// The messages of a line: two where the output of two processes runs into one line.
pub fn messages(line: &[u8]) -> impl Iterator<Item = PrefixedMessage<'_>> {
    messages_at(line, AnchorPosition::Unknown)
}

/// The message of a line in which `CCL` is at `at` and nowhere else.
pub(super) fn only_message(line: &[u8], at: usize) -> Option<PrefixedMessage<'_>> {
    let (at, level, body) = level(line, at)?;
    let head = line.get(..at)?;
    let (writer, source, begin) = writer(head);
    Some(PrefixedMessage {
        level,
        writer,
        before: head.get(..begin)?,
        source,
        begin,
        message: said_once(line.get(body..)?.trim_ascii_end()),
    })
}

/// What PyTorch writes before the message that NCCL's last warning had.
pub const LAST_ERROR: &[u8] = b"Last error:";

/// How messages begin that only NCCL writes, with their level, and what else each holds: somebody copied them without what is before them.
const BARE: &[Row] = include!(concat!(env!("OUT_DIR"), "/messages.bare.rs"));

/// Of [`BARE`], how a message can begin; variables of NCCL are among them.
static BEGINNINGS: LazyLock<Needles> = LazyLock::new(|| Needles::for_messages(beginnings()));

/// How messages can begin that only NCCL writes.
pub(super) fn beginnings() -> impl Iterator<Item = &'static str> {
    BARE.iter().filter_map(|(_, parts)| parts.first().copied())
}

/// Whether the line holds the beginning of a message of NCCL, or a variable of NCCL: one look decides whether others are needed.
pub(super) fn has_beginning(line: &[u8]) -> bool {
    BEGINNINGS.are_in(line)
}

/// A message that somebody copied without what NCCL writes before it: its level, and the message.
pub fn bare(line: &[u8]) -> Option<(LogLevel, &[u8])> {
    has_beginning(line).then_some(())?;
    BARE.iter().find_map(|(level, parts)| {
        let (begin, more) = parts.split_first()?;
        let at = memchr::memmem::find(line, begin.as_bytes())?;
        let message = match begin.starts_with(']') {
            true => from_ranks(line, at).unwrap_or(line),
            false => line.get(at..)?,
        };
        let level = match *level {
            "warn" => LogLevel::Warn,
            _ => LogLevel::Info,
        };
        fits(more, message).then_some((level, message.trim_ascii()))
    })
}

/// What stands from a channel's ranks on, the second of which ends at `at`: `0[0] -> 8[0`.
fn from_ranks(line: &[u8], at: usize) -> Option<&[u8]> {
    let arrow = memchr::memmem::rfind(line.get(..at)?, b" -> ")?;
    let before = line.get(..arrow)?;
    let sender = memchr::memrchr2(b' ', b'\t', before).map_or(0, |space| space + 1);
    let message = line.get(sender..)?;
    message.first()?.is_ascii_digit().then_some(message)
}

/// The message of a line of NCCL before 2.3, which puts no name before the level: `host:pid:tid [device] INFO …`.
pub fn without_name(line: &[u8]) -> Option<PrefixedMessage<'_>> {
    let levels = [
        (&b" INFO "[..], LogLevel::Info),
        (b" WARN ", LogLevel::Warn),
    ];
    levels.into_iter().find_map(|(word, level)| {
        let at = memchr::memmem::find(line, word)?;
        let head = line.get(..=at)?;
        let (writer, source, begin) = writer(head);
        let writer = writer.filter(|writer| writer.device.is_some())?;
        Some(PrefixedMessage {
            level,
            writer: Some(writer),
            before: head.get(..begin)?,
            source,
            begin,
            message: line.get(at + word.len()..)?.trim_ascii_end(),
        })
    })
}

/// The messages of a line with a known position of `CCL`.
pub(super) fn messages_at(
    line: &[u8],
    mark: AnchorPosition,
) -> impl Iterator<Item = PrefixedMessage<'_>> {
    let mut from = 0;
    let mut next = match mark {
        AnchorPosition::Once(at) | AnchorPosition::First(at) => {
            level(line, at).or_else(|| anchor(line, at))
        }
        AnchorPosition::None(_) => None,
        AnchorPosition::Unknown => anchor(line, 0),
    };
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
        let found = PrefixedMessage {
            level,
            writer,
            before: head.get(..begin)?,
            source,
            begin: from + begin,
            message: said_once(line.get(body..end)?.trim_ascii_end()),
        };
        from = end;
        Some(found)
    })
}

/// The message without what Ray puts behind one that several workers wrote: ` [repeated 7x across cluster]`.
fn said_once(message: &[u8]) -> &[u8] {
    if !matches!(message.last(), Some(b']' | b')')) {
        return message;
    }
    match memchr::memmem::rfind(message, b" [repeated ") {
        Some(at) if at > 0 => message.get(..at).unwrap_or(message),
        _ => message,
    }
}

/// The next `NCCL INFO ` or its like: if it begins, its level, and where the message begins.
fn anchor(line: &[u8], from: usize) -> Option<(usize, LogLevel, usize)> {
    let mut at = from;
    loop {
        at += ANCHOR.find(line.get(at..)?)?;
        if let Some(found) = level(line, at) {
            return Some(found);
        }
        at += 4;
    }
}

/// What [`anchor`] gives where `CCL` is at `at`.
fn level(line: &[u8], at: usize) -> Option<(usize, LogLevel, usize)> {
    let begin = at.checked_sub(1)?;
    // A guide quotes messages.
    if begin.checked_sub(1).and_then(|at| line.get(at)) == Some(&b'`') {
        return None;
    }
    let rest = match line.get(begin..)? {
        [b'N' | b'R', b'C', b'C', b'L', b' ', rest @ ..] => rest,
        _ => return None,
    };
    if rest.starts_with(b"INFO ") {
        Some((begin, LogLevel::Info, at + 9))
    } else if rest.starts_with(b"WARN ") {
        Some((begin, LogLevel::Warn, at + 9))
    } else if rest.starts_with(b"version ") && is_version(rest.get(8..)?) {
        // The message is the whole.
        Some((begin, LogLevel::Version, begin))
    } else if rest.starts_with(b"TRACE ") {
        Some((begin, LogLevel::Other, at + 10))
    } else if rest.starts_with(b"CALL ") || rest.starts_with(b"ABORT ") {
        Some((begin, LogLevel::Other, at + 9))
    } else {
        None
    }
}

/// `2.18.1+cuda12.1`, `: 2.21.5+hip6.2`, `2.18.3-HEAD`: a banner, and not PyTorch's `NCCL version 2.18.1` in an error.
fn is_version(rest: &[u8]) -> bool {
    let rest = rest.strip_prefix(b": ").unwrap_or(rest);
    let (digits, rest) = run(rest, |b| b.is_ascii_digit() || b == b'.');
    // MSCCL's is `2.12.12.MSCCL.0.7.3+cuda11.7`.
    digits.len() >= 3
        && (matches!(rest.first(), Some(b'+' | b'-' | b'r')) || rest.starts_with(b"MSCCL"))
}

/// Reads backwards from the end of `head`: the writer, the source file, and where that begins.
fn writer(head: &[u8]) -> (Option<LogWriter<'_>>, Option<&[u8]>, usize) {
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
                    let writer = LogWriter { host, pid, device };
                    let begin = begin + token.len() - length;
                    // The time of a WARN line is in brackets before the host.
                    return (Some(writer), source, begin);
                }
                break;
            }
        }
        end = begin;
    }
    if let Some((writer, begin)) = writer_further_left(head) {
        return (Some(writer), source, begin);
    }
    (None, source, end.min(head.len()))
}

/// The writer if a plugin names its function in words of its own: `host:pid:tid [0] int create(void*, int):320 NCCL WARN `.
fn writer_further_left(head: &[u8]) -> Option<(LogWriter<'_>, usize)> {
    let mut end = head.len();
    for _ in 0..8 {
        end = memchr::memrchr(b']', head.get(..end)?)?;
        if let Some(found) = head.get(..end + 2).and_then(plain_writer) {
            return Some(found);
        }
    }
    None
}

/// `host:pid:tid [device] `, as nearly all lines have it, in one pass from its end.
fn plain_writer(head: &[u8]) -> Option<(LogWriter<'_>, usize)> {
    let (device, rest) = last_number(head.strip_suffix(b"] ")?)?;
    let (_, rest) = last_number(rest.strip_suffix(b" [")?)?;
    let (pid, rest) = last_number(rest.strip_suffix(b":")?)?;
    let rest = rest.strip_suffix(b":")?;
    let begin = rest
        .iter()
        .rposition(|b| !is_host(b))
        .map_or(0, |at| at + 1);
    let begin = past_time(rest, begin);
    let host = rest.get(begin..).filter(|host| !host.is_empty())?;
    (device < 1000).then_some((
        LogWriter {
            host,
            pid,
            device: Some(device),
        },
        begin,
    ))
}

/// The number at the end, of at most ten digits, and the text before it.
fn last_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut unit) = (0u64, 1u64);
    let mut rest = text;
    while let [before @ .., digit] = rest {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_add(unit.wrapping_mul(u64::from(digit)));
        unit = unit.wrapping_mul(10);
        rest = before;
    }
    let length = text.len() - rest.len();
    (1..=10).contains(&length).then_some((value, rest))
}

/// Where the host begins if a time is glued to its front, as consoles of clouds export it: `2025-05-16T16:39:51.208-07:00n1`,
/// `2025-05-16T16:39:51.208Zn1`.
fn past_time(text: &[u8], begin: usize) -> usize {
    let digits = |from: Option<usize>, count: usize| {
        let found = from.and_then(|from| text.get(from..from + count));
        found.is_some_and(|found| found.iter().all(u8::is_ascii_digit))
    };
    if begin.checked_sub(1).and_then(|at| text.get(at)) != Some(&b':')
        || !digits(begin.checked_sub(3), 2)
        || !digits(Some(begin), 2)
    {
        return begin;
    }
    match begin.checked_sub(4).and_then(|at| text.get(at)) {
        // The minutes of the time zone.
        Some(b'+' | b'-') => begin + 2,
        // The seconds.
        Some(b':') => {
            let rest = text.get(begin..).unwrap_or(&[]);
            let (seconds, after) = run(rest, |b| b.is_ascii_digit() || b == b'.');
            match after.first() {
                Some(b'Z') => begin + seconds.len() + 1,
                _ => begin,
            }
        }
        _ => begin,
    }
}

fn is_host(byte: &u8) -> bool {
    HOST.get(usize::from(*byte)) == Some(&true)
}

/// Which bytes a host's name has.
static HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        // People redact names as `<host>` or `node-***`.
        table[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'-' | b'_' | b'<' | b'>' | b'*' | b'$' | b'#');
        byte += 1;
    }
    table
};

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
    let begin = past_time(head, begin);
    let host = head.get(begin..).filter(|host| !host.is_empty())?;
    Some((host, process, token.len() - begin))
}

/// The host that another program names before its line: `[time] [host:pid:tid]` (UCX), `[host:pid]` (Open MPI), `[host:mpi_rank_3]` (MVAPICH),
/// `mlx5: host: got completion` (libmlx5). Open MPI's sentences name it below them.
pub fn host_of_program(line: &str) -> Option<&str> {
    let bracketed = || {
        line.match_indices('[').take(4).find_map(|(at, _)| {
            // Inside a sentence it is a peer's address.
            let before = line.get(..at)?.trim_end();
            if !before.is_empty() && !before.ends_with([']', ':', '>', '|']) {
                return None;
            }
            let (inner, _) = line.get(at + 1..)?.split_once(']')?;
            let (host, rest) = inner.split_once(':')?;
            let pid = rest.strip_prefix("mpi_rank_").unwrap_or(rest);
            // `[engine.py:458]` is a place in a source file, and `[mlx5_0:1]` a port.
            let is_host = host.starts_with(|c: char| c.is_ascii_alphabetic())
                && host.bytes().all(|b| is_host(&b))
                && !SOURCES.iter().any(|source| host.ends_with(source));
            let is_pid = (pid.len() > 1 || pid.len() < rest.len())
                && pid
                    .bytes()
                    .all(|b| b.is_ascii_digit() || matches!(b, b':' | b' '));
            (is_host && is_pid).then_some(host)
        })
    };
    let below = || line.split_once("Local host: ")?.1.split(' ').next();
    let dumped = || {
        let (before, _) = line.split_once(": got completion with error")?;
        before.rsplit(' ').next()
    };
    below().or_else(dumped).or_else(bracketed)
}

/// How files of source code end.
const SOURCES: [&str; 9] = [
    ".py", ".cc", ".c", ".cu", ".h", ".cpp", ".hpp", ".rs", ".go",
];

/// The rank in `[1,3]<stdout>:`, `[default3]:` or `3: ` before a line, or in `[rank3]:` anywhere in it.
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
    if let Some((rank, rest)) = number(before.as_bytes())
        && rest.starts_with(b": ")
    {
        return Some(rank);
    }
    // What a container's runtime writes stands before PyTorch's mark.
    let (digits, _) = before.split_once("[rank")?.1.split_once("]:")?;
    digits.parse().ok()
}
