//! The lines that are kept: equal ones become one with a count, in tables that cannot grow without end.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use foldhash::fast::FixedState;

use crate::nccl_log::digest::KeptLine;

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
    /// Bytes of a text from its beginning in which outputs of tools are found by all their marks; behind these only the strongest count. With 0 none
    /// is looked for.
    pub text: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            lines: 24 << 10,
            bytes: 4 << 20,
            events: 200,
            processes: 64 << 10,
            text: 2 << 20,
        }
    }
}

/// Lines that each process may have kept of its own when half of the room is taken: those that write later are heard too.
const SHARE: u32 = 16;

/// Processes that are distinguished of those that wrote the same line.
pub const TOLD_APART: usize = 32;

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

/// How much more room than other lines a line has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtraRoom {
    /// None, and of a process that wrote much less.
    Shared,
    /// An eighth: a failure is at the end of a log.
    Event,
    /// A quarter: no event of its class is between it and the last sign of how the work goes, so that it may be the first failure.
    FirstEvent,
}

/// The kept lines.
#[derive(Default)]
pub(super) struct KeptLines {
    limits: Limits,
    bytes: usize,
    rows: Vec<KeptRow>,
    by_identity: HashMap<u64, RepeatCounter, Hashed>,
    /// For each process how many lines are kept of it.
    of_process: Vec<u32>,
}

impl KeptLines {
    /// No line yet, and room within these limits.
    pub(super) fn within(limits: Limits) -> Self {
        KeptLines {
            limits,
            ..KeptLines::default()
        }
    }

    /// Keeps a line, or counts it with an equal one. False if there is no room.
    pub(super) fn keep(
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
        if let Some(process) = process
            && process as usize >= self.of_process.len()
        {
            self.of_process.resize(process as usize + 1, 0);
        }
        let mut of_process = process.and_then(|process| self.of_process.get_mut(process as usize));
        let crowded = room == ExtraRoom::Shared && self.rows.len() >= lines / 2;
        let share = of_process.as_ref().is_none_or(|kept| **kept < SHARE);
        let room = self.rows.len() < more(lines)
            && self.bytes + text.len() <= more(bytes)
            && (share || !crowded);
        if let (true, Ok(row)) = (room, u32::try_from(self.rows.len())) {
            if let Some(kept) = &mut of_process {
                **kept += 1;
            }
            self.bytes += text.len();
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

    /// Whether as many lines of a process are kept as each may have.
    pub(super) fn is_heard(&self, process: Option<u32>) -> bool {
        let kept = process.and_then(|process| self.of_process.get(process as usize));
        kept.is_some_and(|kept| *kept >= SHARE)
    }

    /// Counts a line with an equal one, if there is one.
    pub(super) fn again(&mut self, identity: u64, number: u64, process: Option<u32>) -> bool {
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

    /// Counts a line so many more times, of which the last has this number.
    pub(super) fn count_more(&mut self, identity: u64, count: u64, last: u64) {
        if let Some(told) = self.by_identity.get_mut(&identity) {
            told.count += count;
            told.last = told.last.max(last);
        }
    }

    /// All of them, in their order.
    pub(super) fn finish(self) -> Vec<KeptLine> {
        let mut told = vec![(0, 0); self.rows.len()];
        for of in self.by_identity.values() {
            if let Some(told) = told.get_mut(of.row as usize) {
                *told = (of.last, of.count);
            }
        }
        let kept = self.rows.into_iter().zip(told);
        kept.map(|(row, (last, count))| KeptLine {
            line: row.line,
            last,
            count,
            processes: 1 + row.others.len() as u64,
            text: String::from_utf8_lossy(&row.text).into_owned(),
        })
        .collect()
    }
}

/// For keys that are hashes already.
#[derive(Default)]
pub(super) struct IdentityHasher(u64);

pub(super) type Hashed = BuildHasherDefault<IdentityHasher>;

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

pub(super) fn hash(value: &impl Hash) -> u64 {
    FixedState::default().hash_one(value)
}
