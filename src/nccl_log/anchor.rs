//! Which lines can matter: those that hold one of a few needles. The rest is passed over at the speed of memory.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::grams::{Grams, Hit, Needles};
use super::{excerpt, launch, prefix, shape_table, sign};

/// Text that is in every line of NCCL and RCCL, and in PyTorch's reports of their errors.
const MARK: &[u8] = b"CCL";

/// What else a line can hold to be looked at: what launchers, Python and the system say when a process fails.
const NEEDLES: [&str; 8] = [
    "rror", "SIGBUS", "(SIG", "Killed", "c10d", "TCPStore",
    // NCCL before 2.3 puts no name before the level.
    "] INFO ", " WARN ",
];

/// Finds the lines that can matter.
pub struct Anchors {
    mark: Finder<'static>,
    /// The needles, behind them those of signs, launchers and other programs, and behind these those of other tools' output.
    needles: Grams,
    /// How many there are of the first.
    own: usize,
}

/// Made once: its tables take as long as a block of lines.
pub static ANCHORS: LazyLock<Anchors> = LazyLock::new(Anchors::new);

impl Anchors {
    fn new() -> Self {
        let own: Vec<&str> = NEEDLES
            .into_iter()
            .chain(sign::NEEDLES)
            .chain(launch::needles())
            .chain(prefix::beginnings())
            .chain(shape_table::needles())
            .collect();
        Anchors {
            mark: Finder::new(MARK),
            own: own.len(),
            needles: Grams::new(own.into_iter().chain(excerpt::needles())),
        }
    }
}

/// Where in a line `CCL` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorPosition {
    /// There, and nowhere else.
    Once(usize),
    /// There first, and further on too.
    First(usize),
    /// Nowhere; these needles are in the line.
    None(FoundNeedles),
    /// Not searched yet.
    Unknown,
}

/// The needles that are in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundNeedles(Needles);

impl FoundNeedles {
    /// Whether this one of [`NEEDLES`] is there.
    pub(super) fn has(self, needle: &str) -> bool {
        let at = NEEDLES.iter().position(|other| *other == needle);
        at.is_some_and(|at| self.0 >> at & 1 == 1)
    }

    /// Those of signs.
    pub(super) fn signs(self) -> Needles {
        self.0 >> NEEDLES.len() & ((1 << sign::NEEDLES.len()) - 1)
    }

    /// Whether those of signs are all there are.
    pub(super) fn only_signs(self) -> bool {
        self.0 == self.signs() << NEEDLES.len()
    }

    /// Whether one is there that is neither of these nor of signs: of launchers, of other programs, of another tool's output.
    pub(super) fn others(self) -> bool {
        self.0 >> (NEEDLES.len() + sign::NEEDLES.len()) != 0
    }
}

/// A part of the text that was scanned.
pub enum ScannedPart<'l> {
    /// A line that has a needle, without its end.
    Line(&'l [u8], AnchorPosition),
    /// Whole lines, none of which has one: from there, to there; and whether one of them may begin another tool's output.
    Between(usize, usize, bool),
}

impl Anchors {
    /// Whether the text has a needle.
    pub fn any(&self, text: &[u8]) -> bool {
        self.mark.find(text).is_some() || self.needle(text, 0, text.len()).0.is_some()
    }

    /// Calls `tell` with each line that has a needle, and with what is between them: the number of the first line, counted from 0
    /// within `lines`, and the part. Gives the number of lines.
    pub fn lines(&self, lines: &[u8], mut tell: impl FnMut(u64, ScannedPart<'_>)) -> u64 {
        let find = |from: usize| {
            let rest = lines.get(from..).unwrap_or(&[]);
            self.mark.find(rest).map(|found| from + found)
        };
        let (mut number, mut from) = (0, 0);
        let mut next = find(0);
        while let Some(hit) = next {
            let passed = lines.get(from..hit).unwrap_or(&[]);
            let begin = match memchr::memrchr(b'\n', passed) {
                Some(at) => {
                    let begin = from + at + 1;
                    number = self.between(lines, from, begin, number, &mut tell);
                    begin
                }
                None => from,
            };
            let rest = lines.get(hit..).unwrap_or(&[]);
            let end = hit + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            next = find(hit + MARK.len());
            let mark = match next {
                Some(other) if other < end => {
                    next = find(end);
                    AnchorPosition::First(hit - begin)
                }
                _ => AnchorPosition::Once(hit - begin),
            };
            tell(
                number,
                ScannedPart::Line(lines.get(begin..end).unwrap_or(&[]), mark),
            );
            number += 1;
            from = end + 1;
        }
        self.between(lines, from, lines.len(), number, &mut tell)
    }

    /// The next needle from `from` to `to`, and whether one of another tool's output is before it.
    fn needle(&self, text: &[u8], from: usize, to: usize) -> (Option<Hit>, bool) {
        let (mut at, mut other) = (from, false);
        while let Some(hit) = self.needles.find(text, at, to) {
            if hit.needle < self.own {
                return (Some(hit), other);
            }
            other = true;
            at = hit.at + 1;
        }
        (None, other)
    }

    /// Lines without `CCL`, from `from` to `to`, of which the first is `number`. Gives the number of the line behind them.
    fn between(
        &self,
        lines: &[u8],
        mut from: usize,
        to: usize,
        mut number: u64,
        tell: &mut impl FnMut(u64, ScannedPart<'_>),
    ) -> u64 {
        let pass = |number: u64,
                    from: usize,
                    to: usize,
                    other: bool,
                    tell: &mut dyn FnMut(u64, ScannedPart<'_>)| {
            tell(number, ScannedPart::Between(from, to, other));
            number + count(lines.get(from..to).unwrap_or(&[]))
        };
        while from < to {
            let (hit, other) = self.needle(lines, from, to);
            let Some(hit) = hit else {
                return pass(number, from, to, other, tell);
            };
            let passed = lines.get(from..hit.at).unwrap_or(&[]);
            let begin = match memchr::memrchr(b'\n', passed) {
                Some(at) => {
                    let begin = from + at + 1;
                    number = pass(number, from, begin, other, tell);
                    begin
                }
                None => from,
            };
            let rest = lines.get(hit.at..).unwrap_or(&[]);
            let end = hit.at + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            // There is none before the first one, but perhaps some of other tools.
            let at = if other { begin } else { hit.pair };
            let found = FoundNeedles(self.needles.all(lines, begin, at, end));
            tell(
                number,
                ScannedPart::Line(
                    lines.get(begin..end).unwrap_or(&[]),
                    AnchorPosition::None(found),
                ),
            );
            number += 1;
            from = end + 1;
        }
        number
    }
}

fn count(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
