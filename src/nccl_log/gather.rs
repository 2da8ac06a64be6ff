//! Equal lines become one with a count, in tables that cannot grow without end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use foldhash::fast::FixedState;

use super::anchor::{AnchorPosition, Anchors, ScannedPart};
use super::channel::{self, Channel, Transport};
use super::digest::{Digest, DroppedChannels, DroppedEvents, KeptLine, Process};
use super::event::{self, ClassCache, MessageClass, MessageKind};
use super::event_table;
use super::launch::Launches;
use super::message::{self, DedupScope, MessageAction, MessageGroup};
use super::pasted::Pasted;
use super::prefix::{self, LogLevel, LogWriter};
use super::rare_grams::{self, RareGrams};
use super::sign::Signs;
use super::text::{self, from_json, without_colours};
use super::unread;
use super::window::{Lines, Window};

/// How large a digest may become.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Lines that are kept, channels among them; events may be an eighth more, and what may be the first failure a quarter.
    pub lines: usize,
    /// Bytes of text that are kept.
    pub bytes: usize,
    /// Events kept of one class, besides the first one after each progress sign.
    pub events: usize,
    /// Processes that are distinguished.
    pub processes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            lines: 24 << 10,
            bytes: 4 << 20,
            events: 200,
            processes: 64 << 10,
        }
    }
}

/// Lines that each process may have kept of its own when half of the room is taken: those that write later are heard too.
const SHARE: u32 = 16;

/// Processes that are distinguished of those that wrote the same line.
pub const TOLD_APART: usize = 32;

/// Bytes of a line that are kept.
const TEXT: usize = 1400;
/// Of a longer line, bytes in front of the message that are kept: a time and a launcher's tag.
const IN_FRONT: usize = 160;

/// Reads a log in pieces, and leaves its digest.
#[derive(Default)]
pub struct Reader {
    window: Window,
    gather: Gather,
}

impl Reader {
    /// A reader whose digest stays within these limits.
    pub fn new(limits: Limits) -> Self {
        Reader {
            window: Window::default(),
            gather: Gather {
                limits,
                ..Gather::default()
            },
        }
    }

    /// Reads the next piece; pieces may be cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.gather.bytes += bytes.len() as u64;
        self.window.feed(bytes, &mut self.gather);
    }

    /// The digest of all that was read. `broken_off` is why reading stopped early.
    pub fn finish(mut self, broken_off: Option<String>) -> Digest {
        self.window.finish(&mut self.gather);
        self.gather.digest(broken_off)
    }
}

/// A line that is kept.
struct KeptRow {
    line: u64,
    text: Box<[u8]>,
    /// The processes of the others that say the same.
    others: Vec<u32>,
}

/// The counter of equal lines, small because each further line touches it.
struct RepeatCounter {
    row: u32,
    /// The process of the first line, [`NOBODY`] if it is not known.
    first: u32,
    last: u64,
    count: u64,
}

const NOBODY: u32 = u32::MAX;

/// Statuses of completions that are distinguished: `ibv_wc_status` has fewer.
const STATUSES: u64 = 64;

/// Events of a class, and of a status if they tell one.
#[derive(Default)]
struct ClassCounter {
    /// How many differ.
    count: usize,
    /// How many signs stood before the last one.
    signs: Option<u64>,
    /// Those that found no place: how many, the line of the first and of the last.
    uncounted: Option<(u64, u64, u64)>,
}

/// How much more room than other lines a line has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExtraRoom {
    /// None, and of a process that wrote much less.
    Shared,
    /// An eighth: a failure is at the end of a log.
    Event,
    /// A quarter: no event of its class is between it and the last sign of how the work goes, so that it may be the first failure.
    FirstEvent,
}

/// The channel that a process told last, and how often it told the same since: of two ranks there are many channels, and most processes
/// write them in a row.
#[derive(Clone, Copy, Default)]
struct RecentChannel {
    /// The hash of its words, without the channel's number.
    words: u64,
    identity: u64,
    last: u64,
    count: u64,
}

#[derive(Default)]
struct Gather {
    limits: Limits,
    anchors: Anchors,
    pasted: Pasted,
    signs: Signs,
    launches: Launches,
    classes: ClassCache,
    bytes: u64,
    /// Lines that were passed.
    lines: u64,
    kept_bytes: usize,
    rows: Vec<KeptRow>,
    by_identity: HashMap<u64, RepeatCounter, Hashed>,
    of_class: HashMap<(&'static str, Option<u64>), ClassCounter, FixedState>,
    processes: Vec<Process>,
    by_process: HashMap<u64, u32, Hashed>,
    /// For each process.
    recent: Vec<RecentChannel>,
    /// For each process the lines that are kept of it.
    kept_of: Vec<u32>,
    crowd: BTreeMap<DroppedChannels, u64>,
    sorts: [u64; MessageGroup::ALL.len()],
    left_out: [u64; MessageGroup::ALL.len()],
    stripped: Vec<u8>,
    unwrapped: Vec<u8>,
    /// A line that ends in `Last error:`: the next one is what NCCL said last.
    announced: Vec<u8>,
    /// The number of the line that such a one announced.
    repeated: u64,
    seldom: RareGrams,
    /// Tools whose output is present but not read.
    unread: BTreeSet<&'static str>,
}

impl Lines for Gather {
    fn whole(&mut self, lines: &[u8]) {
        let anchors = std::mem::take(&mut self.anchors);
        let before = self.lines;
        let plain = memchr::memchr2(0x1b, b'\r', lines).is_none();
        let number = anchors.lines(lines, |number, part| {
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
                    self.pasted.lines(lines, from, to, number, other);
                }
                ScannedPart::Line(line, mark) if !rare_grams::goes_on(line) => {
                    self.pasted.marked(line, mark, number);
                    if let AnchorPosition::None(found) = mark
                        && found.only_signs()
                        && self.announced.is_empty()
                        && self.signs.one_more(number, found.signs())
                    {
                        return;
                    }
                    match plain {
                        true => self.part(number, line, mark),
                        false => self.line(number, line, mark),
                    }
                }
                ScannedPart::Line(line, _) => {
                    let end = offset(lines, line) + line.len();
                    let behind = lines.get(end..).unwrap_or(&[]);
                    if let Some(joined) = rare_grams::joined(line, behind) {
                        self.line(number, &joined, AnchorPosition::Unknown);
                    }
                }
            }
        });
        self.anchors = anchors;
        self.lines = before + number;
    }

    fn piece(&mut self, piece: &[u8], ends: bool) {
        if ends {
            self.pasted
                .lines(piece, 0, piece.len(), self.lines + 1, true);
        }
        if self.anchors.any(piece) {
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
        let seldom = !any && others && self.seldom.has(line);
        if seldom
            && self.repeated != number
            && let Some((level, message)) = prefix::bare(line)
            && (level == LogLevel::Warn || self.processes.is_empty())
        {
            self.message(number, level, None, message, clipped(line));
            return;
        }
        let found = match mark {
            AnchorPosition::None(found) => Some(found.signs()),
            _ => None,
        };
        if !any && self.signs.line(number, line, found) {
            return;
        }
        // A launcher's command line gives the number of nodes, and may set variables.
        let launched = !any && self.launches.line(number, line);
        if !any
            && !launched
            && let MessageClass::Event(row) = self.classes.classify(MessageKind::Framework, line)
        {
            self.event(number, row, None, line, clipped(line));
        } else if seldom && rare_grams::sets(line) {
            let same = clipped(line);
            self.keep(
                number,
                MessageGroup::Other,
                DedupScope::Host,
                None,
                None,
                same,
                same,
            );
        } else if seldom
            && !launched
            && let Some(tool) = unread::tool(line)
        {
            self.unread.insert(tool);
        }
    }

    /// PyTorch writes `Last error:`, and on the next line what NCCL said last at level WARN: the two become one.
    fn last_error(&mut self, number: u64, next: &[u8]) {
        let mut line = std::mem::take(&mut self.announced);
        self.repeated = number;
        let before = line.len().saturating_sub(prefix::LAST_ERROR.len());
        let same = line.get(..before).unwrap_or(&[]);
        let Some(message) = next.strip_prefix(same).map(<[u8]>::trim_ascii) else {
            return;
        };
        // Where nothing was said the next line is anything: only what is known for certain counts.
        let MessageClass::Event(row) = self.classes.classify(MessageKind::Warning, message) else {
            return;
        };
        let class = event_table::class(usize::from(row));
        if message.is_empty()
            || [
                "internal",
                "unrecognised",
                "feature-fallback",
                "usage",
                "other-warning",
            ]
            .contains(&class)
        {
            return;
        }
        let message = message.get(..message.len().min(TEXT)).unwrap_or(message);
        line.push(b' ');
        line.extend_from_slice(message);
        self.keep_event(number, class, None, None, message, &line);
    }

    fn message(
        &mut self,
        number: u64,
        level: LogLevel,
        writer: Option<LogWriter<'_>>,
        message: &[u8],
        text: &[u8],
    ) {
        let process = writer.and_then(|writer| self.process(number, level, writer));
        match level {
            LogLevel::Other => self.count(MessageGroup::Trace),
            LogLevel::Version => self.keep(
                number,
                MessageGroup::Init,
                DedupScope::Host,
                writer,
                process,
                message,
                text,
            ),
            LogLevel::Warn => {
                self.perhaps_event(number, MessageKind::Warning, writer, process, message, text)
            }
            LogLevel::Info => match message::action_for_info(message) {
                MessageAction::Count(sort) => self.count(sort),
                MessageAction::Keep(sort, of, same) => {
                    self.keep(number, sort, of, writer, process, same, text)
                }
                MessageAction::Channel => {
                    self.perhaps_channel(number, writer, process, message, text)
                }
                MessageAction::Unlisted => {
                    self.perhaps_event(number, MessageKind::Info, writer, process, message, text)
                }
            },
        }
    }

    fn perhaps_event(
        &mut self,
        number: u64,
        kind: MessageKind,
        writer: Option<LogWriter<'_>>,
        process: Option<u32>,
        message: &[u8],
        text: &[u8],
    ) {
        match self.classes.classify(kind, message) {
            MessageClass::Event(row) => self.event_of(number, row, writer, process, message, text),
            MessageClass::Unwinding => {
                self.keep_event(number, "unwinding", writer, process, message, text)
            }
            MessageClass::Known(sort) => self.count(sort),
            MessageClass::Nothing => self.count(MessageGroup::Unlisted),
        }
    }

    fn count(&mut self, sort: MessageGroup) {
        self.sorts[sort as usize] += 1;
    }

    /// The process's number; `None` if there are too many.
    fn process(&mut self, line: u64, level: LogLevel, writer: LogWriter<'_>) -> Option<u32> {
        let key = hash(&(writer.host, writer.pid, writer.device));
        let number = match self.by_process.get(&key) {
            Some(number) => *number,
            None if self.processes.len() >= self.limits.processes => return None,
            None => {
                let number = u32::try_from(self.processes.len()).ok()?;
                self.processes.push(Process {
                    host: String::from_utf8_lossy(writer.host).into_owned(),
                    pid: writer.pid,
                    device: writer.device,
                    first: line,
                    last: line,
                    info: 0,
                    warnings: 0,
                });
                self.signs.begin();
                self.recent.push(RecentChannel::default());
                self.kept_of.push(0);
                self.by_process.insert(key, number);
                number
            }
        };
        let process = self.processes.get_mut(number as usize)?;
        process.last = line;
        match level {
            LogLevel::Info => process.info += 1,
            LogLevel::Warn => process.warnings += 1,
            LogLevel::Version | LogLevel::Other => {}
        }
        Some(number)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call for each line, with all that is known of it"
    )]
    fn keep(
        &mut self,
        number: u64,
        sort: MessageGroup,
        of: DedupScope,
        writer: Option<LogWriter<'_>>,
        process: Option<u32>,
        same: &[u8],
        text: &[u8],
    ) {
        self.count(sort);
        let host = writer.map_or(&[][..], |writer| writer.host);
        let identity = match of {
            DedupScope::Host => hash(&(sort as u8, host, same)),
            DedupScope::Process => hash(&(sort as u8, host, process, same)),
        };
        if !self.row(number, identity, process, text, ExtraRoom::Shared) {
            self.left_out[sort as usize] += 1;
        }
    }

    fn event(
        &mut self,
        number: u64,
        row: u16,
        writer: Option<LogWriter<'_>>,
        message: &[u8],
        text: &[u8],
    ) {
        self.event_of(number, row, writer, None, message, text);
    }

    fn event_of(
        &mut self,
        number: u64,
        row: u16,
        writer: Option<LogWriter<'_>>,
        process: Option<u32>,
        message: &[u8],
        text: &[u8],
    ) {
        self.keep_event(
            number,
            event_table::class(usize::from(row)),
            writer,
            process,
            message,
            text,
        );
    }

    fn keep_event(
        &mut self,
        number: u64,
        class: &'static str,
        writer: Option<LogWriter<'_>>,
        process: Option<u32>,
        message: &[u8],
        text: &[u8],
    ) {
        self.count(MessageGroup::Event);
        self.signs.cut();
        let host = writer.map_or(&[][..], |writer| writer.host);
        let identity = hash(&(
            MessageGroup::Event as u8,
            host,
            class,
            event::identity(message),
        ));
        if self.again(identity, number, process) {
            return;
        }
        // A flushed request is of the class of the one that failed, and no failure.
        let status = ["status=", "with error "].iter();
        let status = status.filter_map(|before| text::number_after(message, before));
        let key = (class, status.map(|status| status.min(STATUSES)).next());
        let of_class = self.of_class.entry(key).or_default();
        of_class.count += 1;
        let signs = self.signs.count();
        let room = match of_class.signs.replace(signs) == Some(signs) {
            false => ExtraRoom::FirstEvent,
            true => ExtraRoom::Event,
        };
        let full = of_class.count > self.limits.events && room == ExtraRoom::Event;
        if !full && self.row(number, identity, process, text, room) {
            return;
        }
        self.left_out[MessageGroup::Event as usize] += 1;
        if let Some(of_class) = self.of_class.get_mut(&key) {
            let (count, first, _) = of_class.uncounted.unwrap_or((0, number, number));
            of_class.uncounted = Some((count + 1, first, number));
        }
    }

    fn perhaps_channel(
        &mut self,
        number: u64,
        writer: Option<LogWriter<'_>>,
        process: Option<u32>,
        message: &[u8],
        text: &[u8],
    ) {
        let words = channel::besides_number(message).map_or(0, |words| hash(&words));
        let recent = process.and_then(|process| self.recent.get_mut(process as usize));
        if let Some(recent) = recent
            && words != 0
            && recent.words == words
        {
            recent.last = number;
            recent.count += 1;
            return;
        }
        match channel::read(message) {
            channel::ChannelLine::Channel(channel) => {
                let identity = self.channel(number, writer, process, &channel, text);
                if let Some(identity) = identity
                    && let Some(process) = process
                {
                    self.settle(process as usize);
                    if let Some(recent) = self.recent.get_mut(process as usize) {
                        *recent = RecentChannel {
                            words,
                            identity,
                            last: number,
                            count: 0,
                        };
                    }
                }
            }
            channel::ChannelLine::Other => self.count(MessageGroup::Init),
            channel::ChannelLine::Torn => self.count(MessageGroup::Torn),
        }
    }

    /// Counts a repeated line of a process.
    fn settle(&mut self, process: usize) {
        let Some(recent) = self.recent.get_mut(process) else {
            return;
        };
        if recent.count > 0
            && let Some(told) = self.by_identity.get_mut(&recent.identity)
        {
            told.count += recent.count;
            told.last = told.last.max(recent.last);
            self.sorts[MessageGroup::Channel as usize] += recent.count;
        }
        recent.count = 0;
    }

    /// Gives the identity of the line that is kept; `None` if there was no room.
    fn channel(
        &mut self,
        number: u64,
        writer: Option<LogWriter<'_>>,
        process: Option<u32>,
        channel: &Channel<'_>,
        text: &[u8],
    ) -> Option<u64> {
        self.count(MessageGroup::Channel);
        let flags =
            u8::from(channel.receives) | u8::from(channel.gdr) << 1 | u8::from(channel.pxn) << 2;
        let identity = hash(&(
            (
                MessageGroup::Channel as u8,
                channel.transport as u8,
                flags,
                process,
            ),
            (channel.from, channel.to, channel.adapter, channel.comm),
            channel.kind,
        ));
        if self.row(number, identity, process, text, ExtraRoom::Shared) {
            return Some(identity);
        }
        self.left_out[MessageGroup::Channel as usize] += 1;
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let transport = match channel.transport {
            Transport::P2p => "p2p",
            Transport::Shm => "shm",
            Transport::Net => "net",
            Transport::CollNet => "collnet",
        };
        let crowd = DroppedChannels {
            host: writer.map_or(String::new(), |writer| lossy(writer.host)),
            transport: transport.to_owned(),
            kind: lossy(channel.kind),
            receives: channel.receives,
            gdr: channel.gdr,
            count: 0,
        };
        // Hosts and networks are few; a file that invents them for each line is not to fill the memory.
        if self.crowd.len() < 4096 || self.crowd.contains_key(&crowd) {
            *self.crowd.entry(crowd).or_default() += 1;
        }
        None
    }

    /// Keeps a line, or counts it with an equal one. False if there is no room.
    fn row(
        &mut self,
        number: u64,
        identity: u64,
        process: Option<u32>,
        text: &[u8],
        room: ExtraRoom,
    ) -> bool {
        if self.again(identity, number, process) {
            return true;
        }
        let Limits { lines, bytes, .. } = self.limits;
        let more = |limit: usize| match room {
            ExtraRoom::Shared => limit,
            ExtraRoom::Event => limit + limit / 8,
            ExtraRoom::FirstEvent => limit + limit / 4,
        };
        let mut of_process = process.and_then(|process| self.kept_of.get_mut(process as usize));
        let crowded = room == ExtraRoom::Shared && self.rows.len() >= lines / 2;
        let share = of_process.as_ref().is_none_or(|kept| **kept < SHARE);
        let room = self.rows.len() < more(lines)
            && self.kept_bytes + text.len() <= more(bytes)
            && (share || !crowded);
        if let (true, Ok(row)) = (room, u32::try_from(self.rows.len())) {
            if let Some(kept) = &mut of_process {
                **kept += 1;
            }
            self.kept_bytes += text.len();
            self.by_identity.insert(
                identity,
                RepeatCounter {
                    row,
                    first: process.unwrap_or(NOBODY),
                    last: number,
                    count: 1,
                },
            );
            self.rows.push(KeptRow {
                line: number,
                text: text.into(),
                others: Vec::new(),
            });
        }
        room
    }

    /// Counts a line with an equal one, if there is one.
    fn again(&mut self, identity: u64, number: u64, process: Option<u32>) -> bool {
        let Some(told) = self.by_identity.get_mut(&identity) else {
            return false;
        };
        told.count += 1;
        told.last = number;
        if let Some(process) = process
            && process != told.first
            && let Some(row) = self.rows.get_mut(told.row as usize)
        {
            let others = &mut row.others;
            if others.len() + 1 < TOLD_APART && !others.contains(&process) {
                others.push(process);
            }
        }
        true
    }

    fn digest(mut self, broken_off: Option<String>) -> Digest {
        (0..self.recent.len()).for_each(|process| self.settle(process));
        let by_sort = |counts: &[u64]| {
            let counted = MessageGroup::ALL
                .iter()
                .zip(counts)
                .filter(|(_, n)| **n > 0);
            counted
                .map(|(sort, n)| (sort.word().to_owned(), *n))
                .collect()
        };
        let mut told = vec![(0, 0); self.rows.len()];
        for of in self.by_identity.values() {
            if let Some(told) = told.get_mut(of.row as usize) {
                *told = (of.last, of.count);
            }
        }
        let kept = self
            .rows
            .into_iter()
            .zip(told)
            .map(|(row, (last, count))| KeptLine {
                line: row.line,
                last,
                count,
                processes: 1 + row.others.len() as u64,
                text: String::from_utf8_lossy(&row.text).into_owned(),
            });
        let crowd = self
            .crowd
            .into_iter()
            .map(|(crowd, count)| DroppedChannels { count, ..crowd });
        let mut uncounted: Vec<DroppedEvents> = Vec::new();
        for ((class, status), of_class) in self.of_class {
            if let Some((count, line, last)) = of_class.uncounted {
                uncounted.push(DroppedEvents {
                    class: class.to_owned(),
                    status,
                    count,
                    line,
                    last,
                });
            }
        }
        uncounted.sort_unstable_by_key(|of_class| of_class.line);
        Digest {
            uncounted,
            bytes: self.bytes,
            lines: self.lines,
            sorts: by_sort(&self.sorts),
            kept: kept.collect(),
            processes: self.processes,
            crowd: crowd.collect(),
            left_out: by_sort(&self.left_out),
            pasted: self.pasted.finish(),
            signs: self.signs.finish(),
            launches: self.launches.finish(),
            unread: self.unread.into_iter().map(str::to_owned).collect(),
            broken_off,
        }
    }
}

/// For keys that are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

type Hashed = BuildHasherDefault<IdentityHasher>;

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

fn hash(value: &impl Hash) -> u64 {
    FixedState::default().hash_one(value)
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
