//! Kept lines of a log, read.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::fact::Origin;
use crate::nccl_log::clock::{self, Time};
use crate::nccl_log::digest::KeptLine;
use crate::nccl_log::prefix::{self, LogLevel};

/// [`prefix::LAST_ERROR`], and the message in the same line.
pub(super) const LAST_ERROR: &str = "Last error: ";

/// A line that a run is put together from.
pub(super) struct Line<'d> {
    pub(super) file: usize,
    pub(super) kept: &'d KeptLine,
    name: Arc<str>,
    /// Made when a fact needs it: most lines are no evidence.
    origin: OnceCell<Origin>,
    /// The level; `None` for a line that is not NCCL's.
    pub(super) level: Option<LogLevel>,
    /// Host, process and device, as far as the line names them.
    pub(super) writer: Option<Writer<'d>>,
    pub(super) time: Option<Time>,
    /// The time as it is there.
    pub(super) clock: Option<&'d str>,
    /// The rank that PyTorch or a launcher puts before the line.
    pub(super) tagged_rank: Option<u64>,
    /// The host that a program other than NCCL names.
    pub(super) host_of_program: Option<&'d str>,
    pub(super) source: Option<&'d str>,
    pub(super) message: &'d str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Writer<'d> {
    pub(super) host: &'d str,
    pub(super) pid: u64,
    pub(super) device: Option<u64>,
}

impl<'d> Line<'d> {
    pub(super) fn read(file: usize, name: &Arc<str>, kept: &'d KeptLine) -> Self {
        let text = kept.text.as_str();
        let bytes = text.as_bytes();
        let part = |part: &[u8]| {
            let begin = (part.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
            text.get(begin..begin + part.len()).unwrap_or("")
        };
        let found = prefix::messages(bytes).next();
        let found = found.or_else(|| prefix::without_name(bytes));
        let before = found.as_ref().map_or(bytes, |found| found.before);
        let clock = clock::last(before);
        let tagged_rank = prefix::tagged_rank(part(before));
        let (level, writer, source, message) = match found {
            Some(found) => (
                Some(found.level),
                found.writer.map(|writer| Writer {
                    host: part(writer.host),
                    pid: writer.pid,
                    device: writer.device,
                }),
                found.source.map(part),
                part(found.message),
            ),
            None => match text.split_once(LAST_ERROR) {
                Some((_, message)) => (Some(LogLevel::Warn), None, None, message.trim()),
                None => match prefix::bare(bytes) {
                    Some((level, message)) => (Some(level), None, None, part(message)),
                    None => (None, None, None, text.trim()),
                },
            },
        };
        Line {
            file,
            kept,
            name: Arc::clone(name),
            origin: OnceCell::new(),
            level,
            writer,
            time: clock.map(|(time, ..)| time),
            clock: clock.map(|(_, begin, end)| part(before.get(begin..end).unwrap_or(&[]))),
            tagged_rank,
            host_of_program: match level {
                None => prefix::host_of_program(text),
                Some(_) => None,
            },
            source,
            message,
        }
    }

    /// Names the host of a line that has none; the process is the device's number.
    pub(super) fn written_on(&mut self, host: &'d str) {
        let text = self.kept.text.as_str();
        let device = text.find("] NCCL ").and_then(|end| {
            let (_, digits) = text.get(..end)?.rsplit_once('[')?;
            digits.parse().ok()
        });
        if self.writer.is_none() && matches!(self.level, Some(LogLevel::Info | LogLevel::Warn)) {
            self.writer = Some(Writer {
                host,
                pid: device.unwrap_or(0),
                device,
            });
        }
    }

    /// The line as the origin of a fact.
    pub(super) fn origin(&self) -> &Origin {
        self.origin
            .get_or_init(|| Origin::logged(&self.name, self.kept.line, self.kept.text.trim()))
    }
}
