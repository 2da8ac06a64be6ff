//! The part of a log in which outputs of other tools can stand: all of a short text, and of a long one what follows a line that only a tool writes.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::anchor::AnchorPosition;
use super::needles::Needles;
use crate::left_out::{self, LeftOut};
use crate::tool_output::{self, CUT, FoundBlocks};

/// What a line has to hold to begin a tool's output in a long log.
const TOOLS: [&str; 17] = [
    "busbw",
    "average bandwidth of all_reduce",
    "DeviceProperties(name='",
    "Using devices",
    "Dual-port",
    "ouldn't connect to ",
    "CA '",
    "hca_id:",
    "nfiniband device '",
    "nfiniBand device '",
    "INDEX",
    "GPU0",
    "topo -p2p ",
    "| NVIDIA-SMI ",
    "==( ",
    "Errors for \"",
    " physical_state ",
];

/// The needles, those of the kernel's lines among them.
pub(super) fn needles() -> impl Iterator<Item = &'static str> {
    TOOLS.into_iter().chain(tool_output::KERNEL_WORDS)
}

/// Lines that are kept behind a line with a needle, in a long log.
const BEHIND: u32 = 100;
/// Bytes that are kept of such lines, all together.
const MORE: usize = 1 << 20;
const OUTPUTS_BOUND: &str = "a long log holds more than 1 MiB of them";

/// What a line of NCCL has, and no line of a tool.
static NCCL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" NCCL "));

static OF_TOOLS: LazyLock<Needles> = LazyLock::new(|| Needles::for_texts(needles()));

/// Keeps lines, and finds the outputs in them at the end.
pub(super) struct Excerpt {
    needles: &'static Needles,
    lines: Vec<(u64, String)>,
    /// Bytes for which there is room while all lines are kept.
    room: usize,
    more: usize,
    /// Whether outputs of tools are looked for at all.
    looks_for_tools: bool,
    /// Lines that are still kept behind the last needle.
    behind: u32,
    /// The beginning of a line that is read in pieces.
    begun: Vec<u8>,
    /// Outputs for which there was no room.
    left_out: u64,
}

impl Default for Excerpt {
    fn default() -> Self {
        Excerpt::within(0)
    }
}

impl Excerpt {
    /// Keeps so many bytes of a text from its beginning.
    pub(super) fn within(room: usize) -> Self {
        Excerpt {
            needles: &OF_TOOLS,
            lines: Vec::new(),
            room,
            more: MORE,
            looks_for_tools: room > 0,
            behind: 0,
            begun: Vec::new(),
            left_out: 0,
        }
    }

    /// Whether each line is kept.
    pub(super) fn keeps_all(&self) -> bool {
        self.room > 0
    }

    /// Whether a line without a needle is not kept.
    pub(super) fn is_idle(&self) -> bool {
        self.room == 0 && self.behind == 0
    }

    /// Reads the whole lines from `from` to `to` of a text, of which the first has the number `number`. `begins` says whether a needle
    /// may be there.
    pub(super) fn lines(
        &mut self,
        text: &[u8],
        mut from: usize,
        to: usize,
        mut number: u64,
        begins: bool,
    ) {
        while from < to {
            if self.is_idle() {
                let hit = match begins && self.looks_for_tools {
                    true => self.needles.first(text.get(from..to).unwrap_or(&[])),
                    false => None,
                };
                let Some(hit) = hit else {
                    return;
                };
                let passed = text.get(from..from + hit.at).unwrap_or(&[]);
                if let Some(end) = memchr::memrchr(b'\n', passed) {
                    let passed = passed.get(..=end).unwrap_or(&[]);
                    number += memchr::memchr_iter(b'\n', passed).count() as u64;
                    from += end + 1;
                }
                self.behind = BEHIND;
                if self
                    .lines
                    .last()
                    .is_some_and(|(last, _)| *last + 1 < number)
                {
                    self.lines.push((number - 1, CUT.to_owned()));
                }
            }
            let rest = text.get(from..to).unwrap_or(&[]);
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            self.keep(number, rest.get(..length).unwrap_or(&[]));
            number += 1;
            from += length + 1;
        }
    }

    /// Reads a line at which the reader of logs looks too.
    pub(super) fn marked(&mut self, line: &[u8], mark: AnchorPosition, number: u64) {
        if let AnchorPosition::Once(at) | AnchorPosition::First(at) = mark
            && at.checked_sub(2).and_then(|begin| line.get(begin..at + 4)) == Some(b" NCCL ")
        {
            return;
        }
        let begins = match mark {
            AnchorPosition::None(found) => found.others(),
            _ => true,
        };
        self.lines(line, 0, line.len(), number, begins);
    }

    /// Reads a piece of a very long line.
    pub(super) fn piece(&mut self, piece: &[u8], number: u64, ends: bool) {
        if self.begun.len() + piece.len() <= self.room {
            self.begun.extend_from_slice(piece);
        }
        if ends {
            let line = std::mem::take(&mut self.begun);
            self.lines(&line, 0, line.len(), number, true);
        }
    }

    fn keep(&mut self, number: u64, line: &[u8]) {
        if NCCL.find(line).is_some() {
            return;
        }
        self.behind = self.behind.saturating_sub(1);
        let left = match self.room {
            0 => &mut self.more,
            _ => &mut self.room,
        };
        let text = String::from_utf8_lossy(line);
        if *left > 0 {
            *left = left.saturating_sub(line.len() + 1);
            self.lines.push((number, text.into_owned()));
        } else if tool_output::begins(&text) {
            self.left_out += 1;
        }
    }

    /// The outputs that were found.
    pub(super) fn finish(self) -> FoundBlocks {
        let lines = self.lines.iter();
        let lines = lines.map(|(number, text)| (*number, text.as_str()));
        let mut found = tool_output::blocks(lines);
        let more = LeftOut::counted(self.left_out, "output", OUTPUTS_BOUND);
        left_out::add(&mut found.left_out, more);
        found
    }
}
