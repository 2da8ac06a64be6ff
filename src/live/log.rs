//! Log files: read to their ends in bounded memory, and what is left of them as a recording.
//!
//! A file may be compressed by gzip or zstd, or written in UTF-16 (by PowerShell's `>`), which its first bytes say. Nothing is read of a machine.

mod directory;
mod input;
mod utf16;

use crate::live::clock;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(super) use self::directory::{DEPTH_BOUND, FoundFiles, is_text};
use self::input::Input;
pub(super) use self::utf16::Utf16;
use super::files::open_input;
use super::packed::unpacked;
use crate::left_out::{self, LeftOut};
use crate::nccl_log::{Digest, Limits, Reader};
use crate::source::recording::{Recording, ZSTD_MAGIC};
use crate::source::wire::{self, Header, Line};
use crate::source::{Errno, Question, Refusal, Reply};
use crate::terminal;
use crate::trace;

/// The name for standard input.
pub const STANDARD_INPUT: &str = "-";

/// Bytes that tell whether a file is a dump of a rank.
const TRACE_HEAD: u64 = 4096;
/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// Reads log files, in this order, until the deadline; `-` is standard input, and of a directory all in it and below it that can be one.
///
/// `ask` names the questions: which files there are, and what is left of one. What a file takes from the limits the next ones do not have.
///
/// # Errors
///
/// A file that is named and cannot be opened, or a directory that cannot be listed, with its path. A file of a directory that cannot be opened is recorded
/// as that, and one that breaks off (a cut archive, a failing disk) is read as far as it goes.
pub fn record(
    paths: &[PathBuf],
    probe: &str,
    files: Question,
    file: impl Fn(&str) -> Question,
    deadline: Option<Instant>,
) -> Result<Recording, (PathBuf, io::Error)> {
    let started_ns = clock::boottime_ns();
    let mut recording = Recording::new(Header {
        version: wire::VERSION.into(),
        utc: clock::utc_now(),
        boottime_ns: started_ns,
        doctor: env!("CARGO_PKG_VERSION").into(),
        log: true,
        ..Header::default()
    });
    let mut all = Vec::new();
    let mut apart = FoundFiles::default();
    for path in paths {
        match FoundFiles::below(path)? {
            Some(found) => {
                all.extend(found.logs.into_iter().map(|path| (path, false)));
                apart.no_text.extend(found.no_text);
                apart.recordings.extend(found.recordings);
                apart.too_deep += found.too_deep;
            }
            None => all.push((path.clone(), true)),
        }
    }
    let name = |path: &PathBuf| terminal::path(path);
    let names: Vec<String> = all.iter().map(|(path, _)| name(path)).collect();
    let no_text: Vec<String> = apart.no_text.iter().map(name).collect();
    let recordings: Vec<String> = apart.recordings.iter().map(name).collect();
    let at = || clock::boottime_ns().saturating_sub(started_ns) / 1000;
    let mut left_out = Vec::new();
    let too_deep = LeftOut::counted(apart.too_deep, "directory", DEPTH_BOUND);
    left_out::add(&mut left_out, too_deep);
    let said = serde_json::json!({
        "files": names,
        "no_text": no_text,
        "recordings": recordings,
        "left_out": left_out,
    });
    recording.add(Line::of(probe, files, &said, at()));
    let mut limits = Limits::default();
    for ((path, is_named), name) in all.iter().zip(&names) {
        let digest = match read(path, limits, deadline) {
            Ok(digest) => digest,
            Err(error) if *is_named => return Err((path.clone(), error)),
            Err(error) => {
                recording.add(Line::Reply {
                    probe: probe.into(),
                    question: file(name),
                    repeat: 0,
                    reply: Reply {
                        at: at(),
                        said: Err(Refusal::Errno(Errno::from(&error))),
                    },
                });
                continue;
            }
        };
        let taken: usize = digest.kept.iter().map(|kept| kept.text.len()).sum();
        // The last of a thousand files is heard too.
        limits.lines = limits.lines.saturating_sub(digest.kept.len()).max(512);
        limits.bytes = limits.bytes.saturating_sub(taken).max(64 << 10);
        recording.add(Line::of(probe, file(name), &digest, at()));
    }
    recording.end();
    Ok(recording)
}

/// The digest of a file, read until the deadline.
///
/// # Errors
///
/// The file cannot be opened, or not a byte of it be read.
pub fn read(path: &Path, limits: Limits, deadline: Option<Instant>) -> io::Result<Digest> {
    let mut input = match path.as_os_str() == STANDARD_INPUT {
        true => Input::standard(deadline)?,
        false => Input::open(path, deadline)?,
    };
    let mut first = [0; 4];
    let mut length = 0;
    while length < first.len() {
        match input.read(&mut first[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // It says so again if the rest is read.
            Err(_) if input.is_late() => break,
            Err(e) => return Err(e),
        }
    }
    let head = first.get(..length).unwrap_or(&[]).to_vec();
    let whole = io::Cursor::new(head.clone()).chain(input);
    let mut whole = unpacked(&head, whole)?;
    let mut first = Vec::new();
    let outcome = whole.by_ref().take(TRACE_HEAD).read_to_end(&mut first);
    if trace::may_be_trace(&first) {
        return Ok(read_trace(first, whole, limits));
    }
    let broken_off = BrokenOff(outcome.err());
    Ok(feed(
        io::Cursor::new(first).chain(broken_off).chain(whole),
        limits,
    ))
}

/// The digest of what was read elsewhere.
pub fn digest(bytes: Vec<u8>) -> Digest {
    read_trace(bytes, io::empty(), Limits::default())
}

/// The error with which a stream broke off, if it did, once more for who reads on.
struct BrokenOff(Option<io::Error>);

impl Read for BrokenOff {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// What ranks recorded of their collectives; where it cannot be read, that it was not.
fn read_trace(mut bytes: Vec<u8>, rest: impl Read, limits: Limits) -> Digest {
    let outcome = rest.take(trace::LARGEST).read_to_end(&mut bytes);
    let mut digest = Digest::default();
    if trace::is_text_of_log(&bytes) {
        // Somebody may have written NCCL's lines to the same file.
        let read = feed(bytes.as_slice(), limits);
        if !read.processes.is_empty() {
            digest = read;
        }
    }
    digest.bytes = bytes.len() as u64;
    match trace::read(&bytes) {
        Ok(found) => digest.trace = found.map(Box::new),
        Err(why) => digest
            .not_read
            .push(LeftOut::counted(1, "dump", why.to_string())),
    }
    digest.broken_off = outcome.err().map(|error| error.to_string());
    digest
}

fn feed(mut input: impl Read, limits: Limits) -> Digest {
    let mut reader = Reader::new(limits);
    let mut chunk = vec![0; CHUNK];
    let mut first = true;
    let mut wide: Option<Utf16> = None;
    let broken_off = loop {
        match input.read(&mut chunk) {
            Ok(0) => break None,
            Ok(length) => {
                let bytes = chunk.get(..length).unwrap_or(&[]);
                if std::mem::take(&mut first) {
                    wide = Utf16::detect(bytes);
                }
                match &mut wide {
                    None => reader.feed(bytes),
                    Some(wide) => reader.feed(wide.next_utf8(bytes)),
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => break Some(e.to_string()),
        }
    };
    reader.finish(broken_off)
}

/// Whether a file, or one of a directory, begins like what ranks recorded of their collectives.
#[expect(clippy::disallowed_methods, reason = "an input named by the user")]
pub fn holds_trace(path: &Path) -> bool {
    if !path.is_file() {
        let below = FoundFiles::below(path).ok().flatten();
        let files = below.map(|found| found.logs).unwrap_or_default();
        return files.iter().any(|file| file.is_file() && holds_trace(file));
    }
    let head = || -> io::Result<Vec<u8>> {
        let mut file = open_input(path)?;
        let mut magic = Vec::new();
        file.by_ref().take(6).read_to_end(&mut magic)?;
        let mut head = Vec::new();
        let whole = io::Cursor::new(magic.clone()).chain(file);
        unpacked(&magic, whole)?
            .take(TRACE_HEAD)
            .read_to_end(&mut head)?;
        Ok(head)
    };
    head().is_ok_and(|head| trace::may_be_trace(&head))
}

/// Whether a file begins like a recording of this program. What is read from a stream to see it would be lost.
#[expect(clippy::disallowed_methods, reason = "an input named by the user")]
pub fn is_recording(path: &Path) -> bool {
    /// The longest header that is looked for.
    const HEADER: u64 = 64 << 10;
    const KEY: &[u8] = b"\"rdma-doctor-recording\"";
    if !path.is_file() {
        return false;
    }
    let first_line = open_input(path).and_then(|mut file| {
        let mut magic = Vec::new();
        file.by_ref().take(4).read_to_end(&mut magic)?;
        let is_zstd = magic.starts_with(&ZSTD_MAGIC);
        let file = io::Cursor::new(magic).chain(file);
        let input: Box<dyn Read> = match is_zstd {
            true => Box::new(zstd::stream::read::Decoder::new(file)?),
            false => Box::new(file),
        };
        let mut line = Vec::new();
        io::BufReader::new(input)
            .take(HEADER)
            .read_until(b'\n', &mut line)?;
        Ok(line)
    });
    // The keys of an object have no order.
    first_line
        .is_ok_and(|line| line.starts_with(b"{") && line.windows(KEY.len()).any(|part| part == KEY))
}
