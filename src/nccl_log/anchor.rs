//! Which lines can matter: those that hold one of a few needles. The rest is passed over at the speed of memory.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::grams::{Grams, Hit, Needles};
use super::line_template::{LineTemplates, VaryingNeedles};
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
    varying: VaryingNeedles,
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
        let count = own.len();
        let all: Vec<&str> = own.into_iter().chain(excerpt::needles()).collect();
        Anchors {
            mark: Finder::new(MARK),
            own: count,
            varying: VaryingNeedles::of(&all),
            needles: Grams::new(all),
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

impl AnchorPosition {
    /// No needle is in the line.
    pub(super) const NOWHERE: Self = AnchorPosition::None(FoundNeedles(0));
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
    pub(super) fn lines(
        &self,
        lines: &[u8],
        templates: &mut LineTemplates,
        mut tell: impl FnMut(u64, ScannedPart<'_>),
    ) -> u64 {
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
                    let passed = lines.get(..begin).unwrap_or(lines);
                    number = self.between(passed, from, number, templates, &mut tell);
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
        self.between(lines, from, number, templates, &mut tell)
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

    /// The lines from `from` to the end of `lines`, which have no `CCL`; the first is `number`. Gives the number of the line behind them.
    fn between(
        &self,
        lines: &[u8],
        mut from: usize,
        mut number: u64,
        templates: &mut LineTemplates,
        tell: &mut impl FnMut(u64, ScannedPart<'_>),
    ) -> u64 {
        // What was passed and not told yet: where it begins, its first line, and whether it may have another tool's output.
        let mut passed = (from, number, false);
        while let Some(rest) = lines.get(from..).filter(|rest| !rest.is_empty()) {
            let line = memchr::memchr(b'\n', rest).map_or(rest, |end| rest.split_at(end).0);
            let end = from + line.len();
            let found = match templates.needles(line) {
                Some(needles) => needles,
                None => {
                    let (hit, other) = self.needle(lines, from, end);
                    passed.2 |= other && hit.is_none();
                    // There is none before the first one, but perhaps some of other tools.
                    let needles = hit.map_or(0, |hit| {
                        let at = if other { from } else { hit.pair };
                        self.needles.all(lines, from, at, end)
                    });
                    if hit.is_some() || !other {
                        templates.learn(line, needles, &self.varying);
                    }
                    needles
                }
            };
            if found != 0 {
                if passed.0 < from {
                    tell(passed.1, ScannedPart::Between(passed.0, from, passed.2));
                }
                let mark = AnchorPosition::None(FoundNeedles(found));
                tell(number, ScannedPart::Line(line, mark));
                passed = (end + 1, number + 1, false);
            }
            number += 1;
            from = end + 1;
        }
        if passed.0 < lines.len() {
            tell(
                passed.1,
                ScannedPart::Between(passed.0, lines.len(), passed.2),
            );
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::{ANCHORS, AnchorPosition, LineTemplates, ScannedPart};

    /// The marks of the lines that are told, each with its number, and the numbers of those that another tool may have written.
    fn told(text: &str, templates: &mut LineTemplates) -> Vec<(u64, Option<AnchorPosition>)> {
        let mut all = Vec::new();
        let count = ANCHORS.lines(text.as_bytes(), templates, |number, part| match part {
            ScannedPart::Line(_, mark) => all.push((number, Some(mark))),
            ScannedPart::Between(_, _, true) => all.push((number, None)),
            ScannedPart::Between(..) => {}
        });
        assert_eq!(count, text.lines().count() as u64);
        all
    }

    #[test]
    fn a_line_with_a_template_has_the_needles_that_a_search_finds() {
        let mut templates = LineTemplates::default();
        let mut marks = 0;
        for number in 0..200u64 {
            for line in [
                format!(
                    "iteration {number:8} of 500000 | elapsed 12.{number:04} | loss 2.{number:04}"
                ),
                format!("loaded shard {number:8} of the data set in 0.{number:04} s"),
                format!(
                    "worker-{number:04} of the job exited with code {}",
                    number % 10
                ),
                format!(
                    "GPU{} of the host is at {:02} degrees",
                    number % 8,
                    number % 90
                ),
                format!(
                    "in module c{}d at line {number:04} of the file",
                    10 + number % 3
                ),
                format!("job {number:04}: NCCL is not in use in this process"),
            ] {
                let line = line + "\n";
                let fresh = told(&line, &mut LineTemplates::default());
                assert_eq!(told(&line, &mut templates), fresh, "{line}");
                marks += fresh.len();
            }
        }
        assert!(templates.hits > 300, "{}", templates.hits);
        // Each loss and each line of NCCL; of the others those with `code 0`, `GPU0` and `c10d`.
        assert_eq!(marks, 200 + 200 + 20 + 25 + 67);
    }
}
