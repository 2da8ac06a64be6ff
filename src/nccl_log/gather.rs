//! From the lines of a log to its digest: each line goes to the reader that knows it, and what matters of it is kept or counted.

mod channel_counts;
mod class_counts;
mod kept_lines;
mod unlisted_failures;
mod writers;

pub use self::kept_lines::{Limits, TOLD_APART};

use self::channel_counts::{ChannelCounts, RecentChannel};
use self::class_counts::ClassCounts;
use self::kept_lines::{ExtraRoom, KeptLines, hash};
use self::unlisted_failures::UnlistedFailures;
use self::writers::Writers;
use super::anchor::{ANCHORS, AnchorPosition, ScannedPart};
use super::channel;
use super::digest::Digest;
use super::event::{self, ClassCache, MessageClass, MessageKind};
use super::event_table;
use super::excerpt::Excerpt;
use super::failure_words;
use super::launch::Launches;
use super::line_template::LineTemplates;
use super::message::{self, DedupScope, MessageAction, MessageGroup};
use super::pasted_text;
use super::prefix::{self, LogLevel, LogWriter};
use super::setting;
use super::several_lines;
use super::shape_table;
use super::sign::Signs;
use super::text::{from_json, without_colours};
use super::window::{Lines, Window};
use crate::left_out::{self, LeftOut};

/// Bytes of a line that are kept.
const TEXT: usize = 1400;
/// Of a longer line, bytes in front of the message that are kept: a time and a launcher's tag.
const IN_FRONT: usize = 160;

const UNHEARD: &str = "a log of more lines than are kept";

/// Reads a log in pieces, and leaves its digest.
pub struct Reader {
    window: Window,
    gather: Gather,
    /// What was read so far, as long as it can be a paste.
    perhaps_pasted: Option<Vec<u8>>,
}

impl Default for Reader {
    fn default() -> Self {
        Reader::new(Limits::default())
    }
}

impl Reader {
    /// A reader whose digest stays within these limits.
    pub fn new(limits: Limits) -> Self {
        Reader {
            window: Window::default(),
            gather: Gather {
                events: limits.events,
                excerpt: Excerpt::within(limits.text),
                writers: Writers::within(limits.processes),
                kept: KeptLines::within(limits),
                ..Gather::default()
            },
            perhaps_pasted: Some(Vec::new()),
        }
    }

    /// Reads the next piece; pieces may be cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.gather.bytes += bytes.len() as u64;
        let Some(mut held) = self.perhaps_pasted.take() else {
            return self.window.feed(bytes, &mut self.gather);
        };
        if held.len() + bytes.len() > pasted_text::LONGEST {
            self.window.feed(&held, &mut self.gather);
            return self.window.feed(bytes, &mut self.gather);
        }
        held.extend_from_slice(bytes);
        self.perhaps_pasted = Some(held);
    }

    /// The digest of all that was read. `broken_off` is why reading stopped early.
    pub fn finish(mut self, broken_off: Option<String>) -> Digest {
        if let Some(held) = self.perhaps_pasted.take() {
            let restored = pasted_text::restored(&held);
            self.window.feed(&restored, &mut self.gather);
        }
        self.window.finish(&mut self.gather);
        self.gather.digest(broken_off)
    }
}

/// What a line says, and who wrote it.
#[derive(Clone, Copy)]
struct LogMessage<'l> {
    /// The line's number.
    number: u64,
    writer: Option<LogWriter<'l>>,
    process: Option<u32>,
    message: &'l [u8],
    /// The part of the line that is kept.
    text: &'l [u8],
}

impl<'l> LogMessage<'l> {
    /// Of a line that names no process, and is its own message.
    fn by_nobody(number: u64, line: &'l [u8]) -> Self {
        LogMessage {
            number,
            writer: None,
            process: None,
            message: line,
            text: clipped(line),
        }
    }

    fn host(&self) -> &'l [u8] {
        self.writer.map_or(&[], |writer| writer.host)
    }
}

#[derive(Default)]
struct Gather {
    /// Events kept of one class.
    events: usize,
    excerpt: Excerpt,
    signs: Signs,
    launches: Launches,
    classes: ClassCache,
    bytes: u64,
    /// Lines that were passed.
    lines: u64,
    kept: KeptLines,
    writers: Writers,
    of_class: ClassCounts,
    channels: ChannelCounts,
    unlisted: UnlistedFailures,
    sorts: [u64; MessageGroup::ALL.len()],
    left_out: [u64; MessageGroup::ALL.len()],
    /// Lines that had no place, of processes of which not even a few are kept.
    unheard: u64,
    stripped: Vec<u8>,
    unwrapped: Vec<u8>,
    /// A line that ends in `Last error:`: the next one is what NCCL said last.
    announced: Vec<u8>,
    /// The number of the line that such a one announced.
    repeated: u64,
    templates: LineTemplates,
}

impl Lines for Gather {
    fn whole(&mut self, lines: &[u8]) {
        let before = self.lines;
        let plain = memchr::memchr2(0x1b, b'\r', lines).is_none();
        let mut templates = std::mem::take(&mut self.templates);
        let number = ANCHORS.lines(lines, &mut templates, |number, part| {
            let number = before + number + 1;
            if !self.announced.is_empty() {
                let next = match part {
                    ScannedPart::Between(from, to, _) => {
                        let rest = lines.get(from..to).unwrap_or(&[]);
                        rest.split(|b| *b == b'\n').next().unwrap_or(&[])
                    }
                    ScannedPart::Line(line, _) => line,
                };
                self.last_error(number, next);
            }
            match part {
                // Nearly all lines of a log of NCCL are not looked at for other tools.
                ScannedPart::Between(from, to, other) => {
                    let between = lines.get(..to).unwrap_or(lines);
                    self.excerpt.lines(between, from, to, number, other);
                    if self.excerpt.keeps_all() {
                        self.between(between, from, number);
                    }
                }
                ScannedPart::Line(_, AnchorPosition::None(found))
                    if found.only_signs()
                        && self.announced.is_empty()
                        && self.excerpt.is_idle()
                        && self.signs.one_more(number, found.signs()) => {}
                ScannedPart::Line(line, mark) if !several_lines::goes_on(line) => {
                    self.excerpt.marked(line, mark, number);
                    match plain {
                        true => self.part(number, line, mark),
                        false => self.line(number, line, mark),
                    }
                }
                ScannedPart::Line(line, _) => {
                    let end = offset(lines, line) + line.len();
                    let behind = lines.get(end..).unwrap_or(&[]);
                    if let Some(joined) = several_lines::joined(line, behind) {
                        self.line(number, &joined, AnchorPosition::Unknown);
                    }
                }
            }
        });
        self.templates = templates;
        self.lines = before + number;
    }

    fn piece(&mut self, piece: &[u8], ends: bool) {
        self.excerpt.piece(piece, self.lines + 1, ends);
        if ANCHORS.any(piece) {
            self.line(self.lines + 1, piece, AnchorPosition::Unknown);
        }
        self.lines += u64::from(ends);
    }
}

impl Gather {
    /// A line, or a piece of one. Progress bars write a carriage return and go on: what follows one is a line of its own.
    fn line(&mut self, number: u64, line: &[u8], mark: AnchorPosition) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if memchr::memchr2(0x1b, b'\r', line).is_none() {
            return self.part(number, line, mark);
        }
        for part in line.split(|b| *b == b'\r') {
            if memchr::memchr(0x1b, part).is_some() {
                let mut stripped = std::mem::take(&mut self.stripped);
                without_colours(part, &mut stripped);
                self.part(number, &stripped, AnchorPosition::Unknown);
                self.stripped = stripped;
            } else {
                self.part(number, part, AnchorPosition::Unknown);
            }
        }
    }

    /// The lines from `from` on, of which the first has this number and none has a needle: some may say that something failed.
    fn between(&mut self, lines: &[u8], mut from: usize, mut number: u64) {
        while let Some(hit) = failure_words::next(lines, from) {
            let passed = lines.get(from..hit).unwrap_or(&[]);
            number += memchr::memchr_iter(b'\n', passed).count() as u64;
            let begin = memchr::memrchr(b'\n', passed).map_or(from, |at| from + at + 1);
            let rest = lines.get(begin..).unwrap_or(&[]);
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or(&[]);
            self.line(number, line, AnchorPosition::NOWHERE);
            from = begin + length + 1;
            number += 1;
        }
    }

    fn part(&mut self, number: u64, line: &[u8], mark: AnchorPosition) {
        if line.first() == Some(&b'{') {
            let mut inner = std::mem::take(&mut self.unwrapped);
            let json = from_json(line, &mut inner);
            for line in inner.split(|b| *b == b'\n').filter(|_| json) {
                // An escape sequence of a terminal may have come to light.
                let mut stripped = std::mem::take(&mut self.stripped);
                without_colours(line, &mut stripped);
                self.plain(number, &stripped, AnchorPosition::Unknown);
                self.stripped = stripped;
            }
            self.unwrapped = inner;
            if json {
                return;
            }
        }
        self.plain(number, line, mark);
    }

    fn plain(&mut self, number: u64, line: &[u8], mark: AnchorPosition) {
        if let AnchorPosition::Once(at) = mark
            && let Some(found) = prefix::only_message(line, at)
        {
            let end = offset(line, found.message) + found.message.len();
            let text = window_of(line, 0, found.begin, end);
            self.message(number, found.level, found.writer, found.message, text);
            return;
        }
        let mut any = false;
        let mut from = 0;
        for found in prefix::messages_at(line, mark) {
            // The kept part of a line with two messages ends where the next one begins.
            let begin = if any { found.begin } else { from };
            any = true;
            let end = offset(line, found.message) + found.message.len();
            let text = window_of(line, begin, found.begin, end);
            from = end;
            self.message(number, found.level, found.writer, found.message, text);
        }
        if !any && let Some(found) = prefix::without_name(line) {
            let text = window_of(line, 0, found.begin, line.len());
            return self.message(number, found.level, found.writer, found.message, text);
        }
        // If it is known which needles are there, nothing is looked for that needs another.
        let has = |needle: &str| match mark {
            AnchorPosition::None(found) => found.has(needle),
            _ => true,
        };
        if !any && has("rror") && line.trim_ascii_end().ends_with(prefix::LAST_ERROR) {
            self.announced = clipped(line).trim_ascii_end().to_vec();
            return;
        }
        // What PyTorch repeats was kept with its announcement; between whole lines of NCCL a part of one is truncated.
        let others = match mark {
            AnchorPosition::None(found) => found.others(),
            _ => true,
        };
        let seldom = !any && others && prefix::has_beginning(line);
        if seldom
            && self.repeated != number
            && let Some((level, message)) = prefix::bare(line)
            && (level == LogLevel::Warn || self.writers.is_empty())
        {
            self.message(number, level, None, message, clipped(line));
            return;
        }
        let found = match mark {
            AnchorPosition::None(found) => Some(found.signs()),
            _ => None,
        };
        // A sign may name what went wrong, too: the signal by which a process ended.
        if !any && self.signs.line(number, line, found) && shape_table::position(line).is_none() {
            return;
        }
        // A launcher's command line gives the number of nodes, and may set variables.
        let launched = !any && self.launches.line(number, line);
        let said = LogMessage::by_nobody(number, line);
        let class = match any || launched {
            true => MessageClass::Nothing,
            false => self.classes.classify(MessageKind::Framework, line),
        };
        match class {
            MessageClass::Event(row) => self.event(event_table::class(usize::from(row)), said),
            _ if seldom && setting::sets(line) => {
                self.keep(MessageGroup::Other, DedupScope::Host, said.text, said);
            }
            MessageClass::Unlisted => self.perhaps_failure(said),
            _ => {}
        }
    }

    fn perhaps_failure(&mut self, said: LogMessage<'_>) {
        self.signs.cut();
        let LogMessage { number, text, .. } = said;
        self.unlisted
            .add(number, event::identity(said.message), text);
    }

    /// PyTorch writes `Last error:`, and on the next line what NCCL said last at level WARN: the two become one.
    fn last_error(&mut self, number: u64, next: &[u8]) {
        let mut line = std::mem::take(&mut self.announced);
        self.repeated = number;
        let before = line.len().saturating_sub(prefix::LAST_ERROR.len());
        // A logger puts the same before both, or the words stand at the end of a sentence.
        let same = line.get(..before).unwrap_or(&[]);
        let message = next.strip_prefix(same).unwrap_or(next).trim_ascii();
        // Where nothing was said the next line is anything: only what is known for certain counts.
        let class = match self.classes.classify(MessageKind::Warning, message) {
            MessageClass::Event(row) => event_table::class(usize::from(row)),
            _ => "other-warning",
        };
        let vague = [
            "internal",
            "unrecognised",
            "feature-fallback",
            "usage",
            "other-warning",
        ];
        if vague.contains(&class) || prefix::messages(message).next().is_some() {
            // The sentence that ends so may tell what failed.
            if let MessageClass::Event(row) = self.classes.classify(MessageKind::Framework, &line) {
                let said = LogMessage::by_nobody(number.saturating_sub(1), &line);
                self.event(event_table::class(usize::from(row)), said);
            }
            return;
        }
        let message = message.get(..message.len().min(TEXT)).unwrap_or(message);
        line.push(b' ');
        line.extend_from_slice(message);
        let said = LogMessage {
            message,
            text: &line,
            ..LogMessage::by_nobody(number, &line)
        };
        self.event(class, said);
    }

    fn message(
        &mut self,
        number: u64,
        level: LogLevel,
        writer: Option<LogWriter<'_>>,
        message: &[u8],
        text: &[u8],
    ) {
        let process = writer.and_then(|writer| {
            let (process, is_new) = self.writers.count(number, level, writer)?;
            if is_new {
                self.signs.begin();
            }
            Some(process)
        });
        let said = LogMessage {
            number,
            writer,
            process,
            message,
            text,
        };
        match level {
            LogLevel::Other => self.count(MessageGroup::Trace),
            LogLevel::Version => self.keep(MessageGroup::Init, DedupScope::Host, message, said),
            LogLevel::Warn => self.perhaps_event(MessageKind::Warning, said),
            LogLevel::Info => match message::action_for_info(message) {
                MessageAction::Count(sort) => self.count(sort),
                MessageAction::Keep(sort, of, same) => self.keep(sort, of, same, said),
                MessageAction::Channel => self.perhaps_channel(said),
                MessageAction::Unlisted => self.perhaps_event(MessageKind::Info, said),
            },
        }
    }

    fn perhaps_event(&mut self, kind: MessageKind, said: LogMessage<'_>) {
        match self.classes.classify(kind, said.message) {
            MessageClass::Event(row) => self.event(event_table::class(usize::from(row)), said),
            MessageClass::Unwinding => self.event("unwinding", said),
            MessageClass::Unlisted => {
                self.count(MessageGroup::Unlisted);
                self.perhaps_failure(said);
            }
            MessageClass::Known(sort) => self.count(sort),
            MessageClass::Nothing => self.count(MessageGroup::Unlisted),
        }
    }

    fn count(&mut self, sort: MessageGroup) {
        self.sorts[sort as usize] += 1;
    }

    /// Keeps a line of this sort, of which those that say `same` are the same.
    fn keep(&mut self, sort: MessageGroup, of: DedupScope, same: &[u8], said: LogMessage<'_>) {
        self.count(sort);
        let identity = match of {
            DedupScope::Host => hash(&(sort as u8, said.host(), same)),
            DedupScope::Process => hash(&(sort as u8, said.host(), said.process, same)),
        };
        let LogMessage {
            number,
            process,
            text,
            ..
        } = said;
        if !(self.kept).keep(number, identity, process, text, ExtraRoom::Shared) {
            self.left_out[sort as usize] += 1;
            self.unheard += u64::from(!self.kept.is_heard(process));
        }
    }

    fn event(&mut self, class: &'static str, said: LogMessage<'_>) {
        self.count(MessageGroup::Event);
        self.signs.cut();
        let LogMessage {
            number,
            process,
            message,
            text,
            ..
        } = said;
        let identity = hash(&(
            MessageGroup::Event as u8,
            said.host(),
            class,
            event::identity(message),
        ));
        if self.kept.again(identity, number, process) {
            return;
        }
        let signs = self.signs.count();
        let (key, room) = self.of_class.count(class, &said, signs, self.events);
        let is_kept = |room| self.kept.keep(number, identity, process, text, room);
        if !room.is_some_and(is_kept) {
            self.left_out[MessageGroup::Event as usize] += 1;
            self.of_class.drop_event(key, number);
        }
    }

    fn perhaps_channel(&mut self, said: LogMessage<'_>) {
        let words = channel::besides_number(said.message).map_or(0, |words| hash(&words));
        if self.channels.is_recent(said.process, words, said.number) {
            return;
        }
        let channel = match channel::read(said.message) {
            channel::ChannelLine::Channel(channel) => channel,
            channel::ChannelLine::Other => return self.count(MessageGroup::Init),
            channel::ChannelLine::Torn => return self.count(MessageGroup::Torn),
        };
        self.count(MessageGroup::Channel);
        let identity = channel_counts::identity(said.process, &channel);
        let LogMessage {
            number,
            process,
            text,
            ..
        } = said;
        if !(self.kept).keep(number, identity, process, text, ExtraRoom::Shared) {
            self.left_out[MessageGroup::Channel as usize] += 1;
            self.channels.drop_channel(said.writer, &channel);
        } else if let Some(process) = process {
            let now = RecentChannel {
                words,
                identity,
                last: number,
                count: 0,
            };
            let before = self.channels.replace(process, now);
            self.settle(before);
        }
    }

    /// Counts how often a process repeated a channel's line.
    fn settle(
        &mut self,
        RecentChannel {
            identity,
            last,
            count,
            ..
        }: RecentChannel,
    ) {
        if count > 0 {
            self.kept.count_more(identity, count, last);
            self.sorts[MessageGroup::Channel as usize] += count;
        }
    }

    fn digest(mut self, broken_off: Option<String>) -> Digest {
        if !self.announced.is_empty() {
            self.last_error(self.lines + 1, &[]);
        }
        for recent in self.channels.recent() {
            self.settle(recent);
        }
        let by_sort = |counts: &[u64]| {
            let counted = MessageGroup::ALL.iter().zip(counts);
            let counted = counted.filter(|(_, n)| **n > 0);
            counted
                .map(|((_, word), n)| ((*word).to_owned(), *n))
                .collect()
        };
        let found = self.excerpt.finish();
        let failures = self.unlisted.outside(&found.blocks);
        let mut kept = self.kept.finish();
        self.sorts[MessageGroup::Event as usize] += failures.len() as u64;
        if !failures.is_empty() {
            kept.extend(failures);
            kept.sort_by_key(|kept| kept.line);
        }
        let mut not_read = found.left_out;
        let unheard = LeftOut::counted(self.unheard, "line", UNHEARD);
        for more in [
            unheard,
            self.writers.left_out(),
            self.channels.left_out(),
            self.launches.left_out(),
        ] {
            left_out::add(&mut not_read, more);
        }
        Digest {
            uncounted: self.of_class.finish(),
            bytes: self.bytes,
            lines: self.lines,
            sorts: by_sort(&self.sorts),
            kept,
            processes: self.writers.finish(),
            crowd: self.channels.finish(),
            left_out: by_sort(&self.left_out),
            outputs: found.blocks,
            not_read,
            signs: self.signs.finish(),
            launches: self.launches.finish(),
            trace: None,
            broken_off,
        }
    }
}

/// Where a part of a line begins in it.
fn offset(line: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize)
}

/// The kept part of a line: all of it, or, if it is long, the message with the text right before it.
fn window_of(line: &[u8], begin: usize, prefix: usize, end: usize) -> &[u8] {
    let begin = match end.saturating_sub(begin) > TEXT {
        true => begin.max(prefix.saturating_sub(IN_FRONT)),
        false => begin,
    };
    clipped(line.get(begin..end).unwrap_or(&[]))
}

fn clipped(text: &[u8]) -> &[u8] {
    text.get(..text.len().min(TEXT)).unwrap_or(&[])
}
