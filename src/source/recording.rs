//! A recording: a machine's replies, answering the same questions again, anywhere.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use serde_json::Value;

use super::wire::{self, Header, Line, ProbeEnd};
use super::{Answer, OUTPUTS, Question, Refusal, Reply, Source};
use crate::terminal;

/// Bytes that one line may have. The longest honest line holds a firewall's ruleset.
const LINE_LIMIT: usize = 16 << 20;
/// Bytes that a recording may have when unpacked, with those over which it lies.
const TEXT_LIMIT: u64 = 256 << 20;
/// Lines that it may have. A large node has some ten thousand.
const LINES_LIMIT: u64 = 2_000_000;
/// Replies that one question may have: each is compared with those before it. A probe asks few questions more than twice.
const REPEATS_LIMIT: usize = 256;
/// Memory that its parsed form may take, unless the reader has less for it.
const PARSED_LIMIT: u64 = 640 << 20;
/// Bytes that an object of JSON takes, about, however short its text is: the first node of its tree.
const OBJECT: u64 = 640;
/// Bytes that any other element takes, about.
const ELEMENT: u64 = 64;
/// Bytes that a reply takes besides its text: question, entry, and their places in tables that grow.
const REPLY: u64 = 256;
/// Probes that may be waiting at once; there are fewer.
const PENDING_LIMIT: usize = 256;
/// Questions for which there is room from the start where the file's size does not tell: of a machine without adapters there are about so many.
const EXPECTED: usize = 800;
/// The same at most, whatever the file's size.
const EXPECTED_AT_MOST: usize = 20_000;
/// Bytes that a line has, about.
const LINE: u64 = 150;
/// How many times smaller zstd makes a recording, about.
const PACKED: u64 = 10;
/// Overlays that may lie over each other.
const DEPTH_LIMIT: u8 = 8;
/// The first bytes of a zstd frame (RFC 8878, section 3.1.1).
pub const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Why a file is no readable recording. All of them end in exit status 65.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file could not be opened or read.
    #[error("{}: {error}", terminal::path(.path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The first line is not that of a recording of this format.
    #[error("{}: {why}", terminal::path(.path))]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A line that is neither valid nor the truncated last one.
    #[error("{}: line {line}: {why}", terminal::path(.path))]
    BadLine {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// How much of a reader's memory a recording may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingBudget {
    /// Bytes of the parsed form.
    parsed: u64,
}

impl Default for RecordingBudget {
    fn default() -> Self {
        RecordingBudget {
            parsed: PARSED_LIMIT,
        }
    }
}

impl RecordingBudget {
    /// This many bytes of memory, and no more than a recording may take anyway.
    pub fn of(bytes: u64) -> Self {
        RecordingBudget {
            parsed: bytes.min(PARSED_LIMIT),
        }
    }
}

/// What the lines of a recording and of those below it have taken so far.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    text: u64,
    lines: u64,
    parsed: u64,
}

impl Taken {
    /// Counts a line before it is parsed: the text tells how many elements there are at most, besides those that every line has.
    fn add(&mut self, line: &[u8], budget: RecordingBudget) -> Result<(), String> {
        let (objects, elements) = nested(line);
        let length = line.len() as u64;
        self.text += length;
        self.lines += 1;
        self.parsed += REPLY
            + length
            + OBJECT * objects.saturating_sub(2)
            + ELEMENT * elements.saturating_sub(4);
        if self.text > TEXT_LIMIT {
            Err(format!(
                "the recording is larger than {} MiB",
                TEXT_LIMIT >> 20
            ))
        } else if self.lines > LINES_LIMIT {
            Err(format!("the recording has more than {LINES_LIMIT} lines"))
        } else if self.parsed > budget.parsed {
            let most = budget.parsed >> 20;
            Err(format!(
                "the recording would take more than {most} MiB of memory"
            ))
        } else {
            Ok(())
        }
    }
}

/// How many objects a line opens, and how many elements follow another or begin a list, at most; of a line without a list and with no more objects than
/// every line has, none: its texts are all that it holds.
fn nested(line: &[u8]) -> (u64, u64) {
    let mut opening = memchr::memchr2_iter(b'[', b'{', line);
    let has_list = opening.by_ref().take(2).any(|at| line[at] == b'[');
    if !has_list && opening.next().is_none() {
        return (0, 0);
    }
    let (mut objects, mut elements) = (0u64, 0u64);
    // So many that a byte holds their count: one instruction counts many of them.
    for bytes in line.chunks(usize::from(u8::MAX)) {
        let (mut opened, mut separated) = (0u8, 0u8);
        for byte in bytes {
            opened += u8::from(*byte == b'{');
            separated += u8::from(matches!(byte, b',' | b'['));
        }
        objects += u64::from(opened);
        elements += u64::from(separated);
    }
    (objects, elements)
}

#[derive(Clone, Debug)]
struct Entry {
    probe: Arc<str>,
    repeat: u32,
    reply: Reply,
}

/// The replies to one question. Few questions are asked more than once.
#[derive(Clone, Debug, Default)]
struct Entries {
    first: Option<Entry>,
    more: Vec<Entry>,
}

impl Entries {
    fn push(&mut self, entry: Entry) {
        match self.first {
            None => self.first = Some(entry),
            Some(_) => self.more.push(entry),
        }
    }

    fn into_iter(self) -> impl Iterator<Item = Entry> {
        self.first.into_iter().chain(self.more)
    }

    fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.first.iter().chain(&self.more)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.first.iter_mut().chain(&mut self.more)
    }
}

/// The replies of one machine.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The first line.
    pub header: Header,
    /// The file that it was read from; empty if it was made in memory.
    pub path: PathBuf,
    questions: IndexMap<Question, Entries, RandomState>,
    ended: Vec<ProbeEnd>,
    pending: Vec<(Arc<str>, Question)>,
    complete: bool,
    lines: u64,
    last: u64,
    taken: Taken,
}

/// Opens a file by its path; its size in bytes, or zero if unknown.
pub type OpenFile<'f, R> = dyn Fn(&Path) -> std::io::Result<(R, u64)> + 'f;

/// The recording over which an overlay lies, by its path; `None` if no more may lie below.
type OpenBase<'b> = dyn Fn(&Path) -> Option<Result<Recording, RecordingError>> + 'b;

/// Whether a text of a measurement has a line break, with which it could imitate a line of a report: reports print these texts as they are.
fn has_line_breaks(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\n'),
        Value::Array(items) => items.iter().any(has_line_breaks),
        Value::Object(members) => {
            let breaks =
                |(name, value): (&String, &Value)| name.contains('\n') || has_line_breaks(value);
            members.iter().any(breaks)
        }
        _ => false,
    }
}

fn join_lines(value: &mut Value) {
    match value {
        Value::String(text) => *text = terminal::one_line(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(join_lines),
        Value::Object(members) => {
            for (name, mut value) in std::mem::take(members) {
                join_lines(&mut value);
                members.insert(terminal::one_line(&name).into_owned(), value);
            }
        }
        _ => {}
    }
}

/// For how many questions a file of this many bytes gets room.
fn expected(bytes: u64) -> usize {
    let lines = usize::try_from(bytes / LINE).unwrap_or(EXPECTED_AT_MOST);
    lines.clamp(EXPECTED, EXPECTED_AT_MOST)
}

impl Recording {
    /// An empty recording, to be filled with [`Recording::add`].
    pub fn new(header: Header) -> Self {
        Recording {
            header,
            ..Recording::default()
        }
    }

    /// Reads a file, `.zst` or plain, and the base over which it lies if it is an overlay.
    ///
    /// # Errors
    ///
    /// The file or a base of it cannot be opened or read, or is not a recording.
    pub fn open_with<R: Read>(
        path: &Path,
        files: &OpenFile<'_, R>,
        budget: RecordingBudget,
    ) -> Result<Self, RecordingError> {
        Self::open_below(path, DEPTH_LIMIT, files, budget)
    }

    /// Reads a file that may lie over this many others.
    fn open_below<R: Read>(
        path: &Path,
        overlays: u8,
        files: &OpenFile<'_, R>,
        budget: RecordingBudget,
    ) -> Result<Self, RecordingError> {
        let (file, size) = files(path).map_err(|error| RecordingError::Unreadable {
            path: path.to_owned(),
            error,
        })?;
        let base = |base: &Path| match overlays {
            0 => None,
            _ => Some(Self::open_below(base, overlays - 1, files, budget)),
        };
        Self::read_sized(file, path, &base, size, budget)
    }

    /// Reads what a file at this path would hold: a base over which it lies is looked for there.
    ///
    /// # Errors
    ///
    /// It or a base of it cannot be read, or is not a recording.
    pub fn read_beside<R: Read>(
        input: impl Read,
        path: &Path,
        files: &OpenFile<'_, R>,
    ) -> Result<Self, RecordingError> {
        let budget = RecordingBudget::default();
        let base = |base: &Path| Some(Self::open_below(base, DEPTH_LIMIT - 1, files, budget));
        Self::read_sized(input, path, &base, 0, budget)
    }

    /// Reads a recording that is not an overlay from any reader; `path` names it in errors.
    ///
    /// # Errors
    ///
    /// It cannot be read, is not a recording, or is an overlay.
    pub fn read(input: impl Read, path: &Path) -> Result<Self, RecordingError> {
        Self::read_within(input, path, RecordingBudget::default())
    }

    /// The same with this much memory.
    ///
    /// # Errors
    ///
    /// Those of [`Recording::read`]; it would take more.
    pub fn read_within(
        input: impl Read,
        path: &Path,
        budget: RecordingBudget,
    ) -> Result<Self, RecordingError> {
        Self::read_sized(input, path, &|_| None, 0, budget)
    }

    /// The same, if the file has this many bytes, or zero if unknown.
    fn read_sized(
        input: impl Read,
        path: &Path,
        base: &OpenBase<'_>,
        size: u64,
        budget: RecordingBudget,
    ) -> Result<Self, RecordingError> {
        let unreadable = |error| RecordingError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let mut input = BufReader::with_capacity(1 << 16, input);
        if input
            .fill_buf()
            .map_err(unreadable)?
            .starts_with(&ZSTD_MAGIC)
        {
            let mut decoder =
                zstd::stream::read::Decoder::with_buffer(input).map_err(unreadable)?;
            // 128 MiB is zstd's own default bound on a frame's window: a frame that asks for more is refused.
            decoder.window_log_max(27).map_err(unreadable)?;
            let unpacked = BufReader::with_capacity(1 << 16, decoder);
            let expected = expected(size.saturating_mul(PACKED));
            Self::read_lines(unpacked, path, base, expected, budget)
        } else {
            Self::read_lines(input, path, base, expected(size), budget)
        }
    }

    fn read_lines(
        mut input: impl BufRead,
        path: &Path,
        base: &OpenBase<'_>,
        expected: usize,
        budget: RecordingBudget,
    ) -> Result<Self, RecordingError> {
        let mut buffer = Vec::with_capacity(4096);
        let mut recording: Option<Recording> = None;
        for number in 1u64.. {
            buffer.clear();
            let bad = |why: String| match number {
                1 => RecordingError::NotARecording {
                    path: path.to_owned(),
                    why,
                },
                _ => RecordingError::BadLine {
                    path: path.to_owned(),
                    line: number,
                    why,
                },
            };
            let read = (&mut input)
                .take(LINE_LIMIT as u64 + 1)
                .read_until(b'\n', &mut buffer);
            let read = match (read, &recording) {
                (Ok(read), _) => read,
                // A compressed recording that was cut short is valid up to its last whole line, like a plain one.
                (Err(e), Some(_)) if e.kind() == std::io::ErrorKind::UnexpectedEof => 0,
                (Err(error), _) => {
                    return Err(RecordingError::Unreadable {
                        path: path.to_owned(),
                        error,
                    });
                }
            };
            if buffer.len() > LINE_LIMIT {
                return Err(bad(format!("longer than {} MiB", LINE_LIMIT >> 20)));
            }
            if let Some(recording) = &mut recording {
                recording.taken.add(&buffer, budget).map_err(bad)?;
            }
            if read == 0 {
                return match recording {
                    Some(recording) => Ok(recording),
                    None => Err(bad("not a recording: it is empty".into())),
                };
            }
            let whole = buffer.last() == Some(&b'\n');
            let text = std::str::from_utf8(&buffer).map(str::trim_end);
            match &mut recording {
                None => {
                    let text = text
                        .map_err(|_| bad("not a recording: its first line is not UTF-8".into()))?;
                    let header = wire::parse_header(text).map_err(bad)?;
                    recording = Some(Self::begin(header, path, base, expected)?);
                }
                // The last line of a truncated recording is truncated anywhere, inside a character too.
                Some(recording) if !whole => {
                    if let Some(Line::Complete { lines }) =
                        text.ok().and_then(|t| wire::parse_line(t).ok())
                    {
                        recording.add(Line::Complete { lines });
                    }
                }
                Some(_) if text == Ok("") => {}
                Some(recording) => {
                    let text = text.map_err(|e| bad(format!("not UTF-8 ({e})")))?;
                    // An overlay's base has ended before the first line of the overlay.
                    let ended = recording.complete && recording.header.base.is_none();
                    if recording.insert(wire::parse_line(text).map_err(bad)?) > REPEATS_LIMIT {
                        return Err(bad(format!(
                            "more than {REPEATS_LIMIT} replies to one question"
                        )));
                    }
                    recording.complete &= !ended;
                }
            }
        }
        unreachable!("the loop ends at the end of the input")
    }

    fn begin(
        header: Header,
        path: &Path,
        base: &OpenBase<'_>,
        expected: usize,
    ) -> Result<Self, RecordingError> {
        let Some(name) = header.base.clone() else {
            return Ok(Recording {
                header,
                path: path.to_owned(),
                questions: IndexMap::with_capacity_and_hasher(expected, Default::default()),
                ..Recording::default()
            });
        };
        let wrong = |why: String| RecordingError::NotARecording {
            path: path.to_owned(),
            why,
        };
        if name.contains('/') || name.starts_with('.') {
            return Err(wrong(format!(
                "the base {name:?} is not a file in the overlay's directory"
            )));
        }
        let Some(recording) = base(&path.with_file_name(name)) else {
            return Err(wrong(
                "its base is nested too deeply or has no directory to look in".into(),
            ));
        };
        let mut recording = recording?;
        recording.path = path.to_owned();
        recording.header = Header {
            node: if header.node.is_empty() {
                recording.header.node
            } else {
                header.node.clone()
            },
            utc: recording.header.utc,
            boottime_ns: recording.header.boottime_ns,
            redacted: recording.header.redacted,
            pseudonyms: recording.header.pseudonyms,
            tree: recording.header.tree,
            log: recording.header.log,
            altered: Some(match (recording.header.altered, header.altered.clone()) {
                (Some(below), Some(here)) => format!("{below}; {here}"),
                (below, here) => below
                    .or(here)
                    .unwrap_or_else(|| "the alteration is not described".into()),
            }),
            ..header
        };
        Ok(recording)
    }

    /// Adds one line. In an overlay, a reply takes the place of the base's.
    pub fn add(&mut self, line: Line) {
        self.insert(line);
    }

    /// Adds one line, and says how many replies its question has.
    fn insert(&mut self, line: Line) -> usize {
        self.lines += 1;
        match line {
            Line::Reply {
                probe,
                question,
                repeat,
                mut reply,
            } => {
                if let (Question::Bench(_), Ok(Answer::Value(value))) = (&question, &mut reply.said)
                    && has_line_breaks(value)
                {
                    join_lines(Arc::make_mut(value));
                }
                self.last = self.last.max(reply.at);
                let entries = self.questions.entry(question).or_default();
                let overlay = self.header.base.is_some();
                let mut replaced = false;
                if overlay {
                    for entry in entries
                        .iter_mut()
                        .filter(|e| (&*probe == "*" || e.probe == probe) && e.repeat == repeat)
                    {
                        entry.reply = reply.clone();
                        replaced = true;
                    }
                }
                if !replaced {
                    entries.push(Entry {
                        probe,
                        repeat,
                        reply,
                    });
                }
                return 1 + entries.more.len();
            }
            Line::Pending { probe, question } => {
                self.lines -= 1;
                self.pending.retain(|(p, _)| *p != probe);
                if self.pending.len() < PENDING_LIMIT {
                    self.pending.push((probe, question));
                }
            }
            Line::Ended(ended) => self.ended.push(ended),
            Line::Drop(question) => {
                if let Some(entries) = self.questions.get_mut(&question) {
                    *entries = Entries::default();
                }
            }
            Line::Complete { lines } => {
                self.lines -= 1;
                self.complete = lines == self.lines;
            }
        }
        0
    }

    /// Removes a probe's replies: it restarts.
    pub fn forget(&mut self, probe: &str) {
        for entries in self.questions.values_mut() {
            let mut kept: Vec<Entry> = std::mem::take(entries).into_iter().collect();
            let before = kept.len();
            kept.retain(|entry| &*entry.probe != probe);
            self.lines -= (before - kept.len()) as u64;
            for entry in kept {
                entries.push(entry);
            }
        }
        self.pending.retain(|(p, _)| &**p != probe);
    }

    /// The question at which a probe was last seen waiting.
    pub fn pending(&self, probe: &str) -> Option<&Question> {
        let (_, question) = self.pending.iter().rev().find(|(p, _)| &**p == probe)?;
        Some(question)
    }

    /// How often a probe asked a question and got a reply.
    pub fn times_asked(&self, probe: &str, question: &Question) -> u32 {
        let entries = self.questions.get(question).into_iter();
        let entries = entries.flat_map(Entries::iter);
        entries.filter(|e| &*e.probe == probe).count() as u32
    }

    /// The first reply that a probe got to a question.
    pub fn first_reply(&self, probe: &str, question: &Question) -> Option<&Reply> {
        let entries = self.questions.get(question)?;
        let first = entries.iter().find(|e| &*e.probe == probe);
        first.map(|entry| &entry.reply)
    }

    /// All replies, each with its question, in the order in which the questions were first asked.
    pub fn replies(&self) -> impl Iterator<Item = (&Question, &Reply)> {
        let each = self.questions.iter();
        each.flat_map(|(question, entries)| {
            entries.iter().map(move |entry| (question, &entry.reply))
        })
    }

    /// How a probe ended, if it did not end well.
    pub fn ended(&self, probe: &str) -> Option<&ProbeEnd> {
        self.ended.iter().find(|e| &*e.probe == probe)
    }

    /// Whether the last line says that nothing is missing. False if the recording was cut short.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Replaces an answer.
    pub fn replace(&mut self, probe: &str, question: Question, value: serde_json::Value) {
        self.add(Line::Drop(question.clone()));
        let at = self.duration();
        self.add(Line::of(probe, question, &value, at));
    }

    /// Marks the recording as complete.
    pub fn end(&mut self) {
        let lines = self.lines;
        self.add(Line::Complete { lines });
    }

    /// The number of lines after the first.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// When the last reply arrived.
    pub fn duration(&self) -> u64 {
        self.last
    }

    /// All lines in a stable order: by probe, then by time, then by question.
    pub fn to_lines(&self) -> Vec<Line> {
        let all = self.questions.iter().flat_map(|(question, entries)| {
            let entries = entries.iter();
            entries.map(move |e| ((&e.probe, e.reply.at, question, e.repeat), &e.reply))
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(key, _)| *key);
        let replies = all
            .into_iter()
            .map(|((probe, _, question, repeat), reply)| {
                let (probe, question, reply) = (Arc::clone(probe), question.clone(), reply.clone());
                Line::Reply {
                    probe,
                    question,
                    repeat,
                    reply,
                }
            });
        replies
            .chain(self.ended.iter().cloned().map(Line::Ended))
            .collect()
    }

    /// This recording as one probe sees it.
    pub fn of<'r>(&'r self, probe: &'r str) -> Replay<'r> {
        Replay {
            recording: self,
            probe,
            asked: RefCell::new(vec![0; self.questions.len()]),
        }
    }
}

/// A recording that answers one probe's questions, repeats in their order.
///
/// If the probe did not ask a question that another probe asked, the other's reply serves: a question that moves
/// from one probe to another keeps old recordings readable.
pub struct Replay<'r> {
    recording: &'r Recording,
    probe: &'r str,
    /// How often each question was asked.
    asked: RefCell<Vec<u32>>,
}

impl Source for Replay<'_> {
    fn ask(&self, question: &Question) -> Reply {
        let missing = || Reply {
            at: self.recording.last,
            said: Err(Refusal::NotRecorded),
        };
        let Some((at, _, entries)) = self.recording.questions.get_full(question) else {
            return missing();
        };
        let Some(first) = &entries.first else {
            return missing();
        };
        let repeat = {
            let asked = &mut self.asked.borrow_mut()[at];
            *asked += 1;
            *asked - 1
        };
        let whose = if entries.iter().any(|e| &*e.probe == self.probe) {
            self.probe
        } else {
            &first.probe
        };
        match entries
            .iter()
            .find(|e| &*e.probe == whose && e.repeat == repeat)
        {
            Some(entry) => entry.reply.clone(),
            None => missing(),
        }
    }

    fn shown_below(&self, directory: &str) -> Vec<Arc<str>> {
        // Whoever records a machine lists what is there.
        if !self
            .recording
            .questions
            .contains_key(&Question::call(OUTPUTS, []))
        {
            return Vec::new();
        }
        let mut names: Vec<Arc<str>> = Vec::new();
        for (question, entries) in &self.recording.questions {
            let Question::Read(path) = question else {
                continue;
            };
            let below = path
                .strip_prefix(directory)
                .and_then(|rest| rest.strip_prefix('/'));
            let name = below.and_then(|below| below.split('/').next());
            let is_there = entries.iter().any(|entry| entry.reply.said.is_ok());
            if let Some(name) = name.filter(|_| is_there)
                && !names.iter().any(|known| **known == *name)
            {
                names.push(name.into());
            }
        }
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Recording, RecordingError> {
        Recording::read(text.as_bytes(), Path::new("x.jsonl"))
    }

    fn text(reply: Reply) -> String {
        match reply.said {
            Ok(Answer::Text(t)) => t.to_string(),
            other => format!("{other:?}"),
        }
    }

    const HEAD: &str = "{\"rdma-doctor-recording\":\"1.0\",\"node\":\"n1\"}\n";

    #[test]
    fn repeats_keep_their_order_and_end() {
        let r = read(&format!(
            "{HEAD}{}\n{}\n{}\n",
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"text":"5"}"#,
            r#"{"probe":"a","q":{"read":"/c"},"n":1,"t":2,"text":"9"}"#,
            r#"{"complete":true,"lines":2}"#
        ))
        .unwrap();
        assert!(r.is_complete());
        let source = r.of("a");
        let q = Question::read("/c");
        assert_eq!(text(source.ask(&q)), "5");
        assert_eq!(text(source.ask(&q)), "9");
        assert_eq!(source.ask(&q).said, Err(Refusal::NotRecorded));
        assert_eq!(
            text(r.of("other").ask(&q)),
            "5",
            "another probe's reply serves"
        );
        assert_eq!(
            r.of("a").ask(&Question::read("/d")).said,
            Err(Refusal::NotRecorded)
        );
    }

    #[test]
    fn a_truncated_recording_is_valid_up_to_its_last_whole_line() {
        let full = format!(
            "{HEAD}{}\n",
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"text":"5ä"}"#
        );
        for cut in HEAD.len()..full.len() {
            let r = Recording::read(&full.as_bytes()[..cut], Path::new("x")).unwrap();
            assert!(!r.is_complete());
            assert_eq!(r.lines(), 0, "cut at {cut}");
        }
        assert_eq!(read(&full).unwrap().lines(), 1);
    }

    #[test]
    fn hostile_input_is_refused_in_words() {
        for (bad, why) in [
            (String::new(), "empty"),
            ("\u{7f}ELF\n".into(), "not a recording"),
            ("{\"rdma-doctor-recording\":\"9.0\"}\n".into(), "9.0"),
            (format!("{HEAD}garbage\n"), "line 2"),
            (format!("{HEAD}\n\n{{\"probe\":\"p\"}}\n"), "line 4"),
        ] {
            let error = read(&bad).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let not_utf8 = [HEAD.as_bytes(), b"\xff\xfe\n"].concat();
        assert!(
            Recording::read(&not_utf8[..], Path::new("x"))
                .unwrap_err()
                .to_string()
                .contains("UTF-8")
        );
        let endless = std::io::repeat(b'x');
        assert!(
            Recording::read(endless, Path::new("x"))
                .unwrap_err()
                .to_string()
                .contains("longer than")
        );
    }

    #[test]
    fn one_question_has_a_bounded_number_of_replies() {
        let of = |count: usize| {
            let mut text = HEAD.as_bytes().to_vec();
            for repeat in 0..count {
                let reply = format!(
                    "{{\"probe\":\"a\",\"q\":{{\"read\":\"/c\"}},\"n\":{repeat},\"t\":1,\"text\":\"\"}}\n"
                );
                text.extend(reply.as_bytes());
            }
            Recording::read(&text[..], Path::new("x"))
        };
        assert!(of(REPEATS_LIMIT).is_ok());
        let refused = of(REPEATS_LIMIT + 1).unwrap_err().to_string();
        assert!(refused.contains("replies to one question"), "{refused}");
    }

    #[test]
    fn an_overlay_replaces_adds_and_drops() {
        let mut r = Recording::new(Header {
            base: Some("b".into()),
            ..Header::default()
        });
        let line = |json: &str| wire::parse_line(json).unwrap();
        r.add(line(
            r#"{"probe":"a","q":{"read":"/c"},"n":0,"t":1,"text":"5"}"#,
        ));
        r.add(line(
            r#"{"probe":"b","q":{"read":"/c"},"n":0,"t":1,"text":"5"}"#,
        ));
        r.add(line(
            r#"{"probe":"a","q":{"read":"/d"},"n":0,"t":1,"text":"5"}"#,
        ));
        r.add(line(r#"{"probe":"*","q":{"read":"/c"},"text":"6"}"#));
        r.add(line(r#"{"drop":{"read":"/d"}}"#));
        assert_eq!(text(r.of("a").ask(&Question::read("/c"))), "6");
        assert_eq!(text(r.of("b").ask(&Question::read("/c"))), "6");
        assert_eq!(
            r.of("a").ask(&Question::read("/d")).said,
            Err(Refusal::NotRecorded)
        );
    }
}
