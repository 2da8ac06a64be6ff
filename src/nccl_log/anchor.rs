//! Which lines can matter: those that hold one of a few needles. The rest is passed over at the speed of memory.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::line_template::{LineTemplates, VaryingNeedles};
use super::needles::Needles;
use super::sign::{self, SignNeedles};
use super::{excerpt, launch, prefix, shape_table};

/// Text that is in every line of NCCL and RCCL, and in PyTorch's reports of their errors.
const MARK: &str = "CCL";

/// What else a line can hold to be looked at: what launchers, Python and the system say when a process fails.
const NEEDLES: [&str; 8] = [
    "rror", "SIGBUS", "(SIG", "Killed", "c10d", "TCPStore",
    // NCCL before 2.3 puts no name before the level.
    "] INFO ", " WARN ",
];

/// Finds the lines that can matter.
pub struct Anchors {
    mark: Finder<'static>,
    /// [`NEEDLES`], behind them those of signs, of launchers and of other programs, and behind these those of other tools' output.
    needles: Needles,
    /// How many there are without the last.
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
            needles: Needles::for_texts(all),
        }
    }

    fn bit(&self, needle: usize) -> usize {
        if needle < self.own {
            needle.min(OTHERS)
        } else {
            TOOLS
        }
    }

    fn found_in(&self, line: &[u8]) -> FoundNeedles {
        let all = self.needles.all(line);
        FoundNeedles(all.fold(0, |bits, found| bits | 1 << self.bit(found.needle)))
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

/// The needles that are in a line, as bits: [`NEEDLES`], behind them those of signs, one for all others, and one for those of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundNeedles(u32);

const OTHERS: usize = NEEDLES.len() + sign::NEEDLES.len();
const TOOLS: usize = OTHERS + 1;

impl FoundNeedles {
    /// Whether this one of [`NEEDLES`] is there.
    pub(super) fn has(self, needle: &str) -> bool {
        let at = NEEDLES.iter().position(|other| *other == needle);
        at.is_some_and(|at| self.0 >> at & 1 == 1)
    }

    /// Those of signs.
    pub(super) fn signs(self) -> SignNeedles {
        self.0 >> NEEDLES.len() & ((1 << sign::NEEDLES.len()) - 1)
    }

    /// Whether those of signs are all there are.
    pub(super) fn only_signs(self) -> bool {
        self.0 == self.signs() << NEEDLES.len()
    }

    #[cfg(test)]
    pub(super) fn of_bits(bits: u32) -> Self {
        FoundNeedles(bits)
    }

    /// Whether the line may begin another tool's output.
    fn of_tools(self) -> bool {
        self.0 >> TOOLS != 0
    }

    /// Whether the reader of logs looks at the line.
    fn are_own(self) -> bool {
        self.0 & ((1 << TOOLS) - 1) != 0
    }

    /// Whether one is there that is neither of these nor of signs: of launchers, of other programs, of another tool's output.
    pub(super) fn others(self) -> bool {
        self.0 >> OTHERS != 0
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
        self.mark.find(text).is_some() || self.found_in(text).are_own()
    }

    /// Calls `tell` with each line that has a needle, and with what is between them: the number of the first line, counted from 0
    /// within `lines`, and the part. Gives the number of lines.
    pub(super) fn lines(
        &self,
        lines: &[u8],
        templates: &mut LineTemplates,
        mut tell: impl FnMut(u64, ScannedPart<'_>),
    ) -> u64 {
        let mut passed = Passed::default();
        let mut at = 0;
        let mut marks = self.mark.find_iter(lines).peekable();
        while let Some(mark) = marks.next() {
            let line = line_around(lines, at, mark);
            self.unmarked(lines, at..line.start, templates, &mut passed, &mut tell);
            let mut again = false;
            while marks.next_if(|next| *next < line.end).is_some() {
                again = true;
            }
            let mark = mark - line.start;
            let position = if again {
                AnchorPosition::First(mark)
            } else {
                AnchorPosition::Once(mark)
            };
            at = line.end + 1;
            passed.line(lines, line, position, &mut tell);
        }
        self.unmarked(lines, at..lines.len(), templates, &mut passed, &mut tell);
        passed.between(lines, lines.len(), &mut tell);
        passed.number
    }

    /// Lines of which none has the mark.
    fn unmarked(
        &self,
        lines: &[u8],
        place: Range<usize>,
        templates: &mut LineTemplates,
        passed: &mut Passed,
        tell: &mut impl FnMut(u64, ScannedPart<'_>),
    ) {
        let mut at = place.start;
        while let Some(rest) = lines.get(at..place.end).filter(|rest| !rest.is_empty()) {
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or(rest);
            let found = match templates.needles(line) {
                Some(found) => found,
                None => {
                    let found = self.found_in(line);
                    templates.learn(line, found, &self.varying);
                    found
                }
            };
            if found.are_own() {
                let position = AnchorPosition::None(found);
                passed.line(lines, at..at + length, position, tell);
            } else {
                passed.has_output |= found.of_tools();
            }
            at += length + 1;
        }
    }
}

/// The line around this place, which begins at or behind `from`.
fn line_around(lines: &[u8], from: usize, at: usize) -> Range<usize> {
    let before = lines.get(from..at).unwrap_or(&[]);
    let behind = lines.get(at..).unwrap_or(&[]);
    let begin = memchr::memrchr(b'\n', before).map_or(from, |end| from + end + 1);
    begin..at + memchr::memchr(b'\n', behind).unwrap_or(behind.len())
}

/// What was passed and not told yet.
#[derive(Default)]
struct Passed {
    /// Where it begins.
    from: usize,
    /// The number of its first line.
    number: u64,
    /// Whether it may have another tool's output.
    has_output: bool,
}

impl Passed {
    /// Tells a line, and before it what was passed.
    fn line(
        &mut self,
        lines: &[u8],
        line: Range<usize>,
        position: AnchorPosition,
        tell: &mut impl FnMut(u64, ScannedPart<'_>),
    ) {
        self.between(lines, line.start, tell);
        self.from = line.end + 1;
        let text = lines.get(line).unwrap_or(&[]);
        tell(self.number, ScannedPart::Line(text, position));
        self.number += 1;
    }

    fn between(&mut self, lines: &[u8], to: usize, tell: &mut impl FnMut(u64, ScannedPart<'_>)) {
        if self.from < to {
            let part = ScannedPart::Between(self.from, to, self.has_output);
            tell(self.number, part);
            let text = lines.get(self.from..to).unwrap_or(&[]);
            self.number += memchr::memchr_iter(b'\n', text).count() as u64;
            self.number += u64::from(text.last().is_some_and(|last| *last != b'\n'));
        }
        self.has_output = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{ANCHORS, AnchorPosition, LineTemplates, ScannedPart};

    #[test]
    fn lines_with_needles_are_told_with_what_is_between() {
        let text = "a step\nno word\nn1:7 NCCL INFO and NCCL again\n\nexited with code 0\nGPU0\nrror GPU0\nCCL";
        let mut all = Vec::new();
        let count = ANCHORS.lines(
            text.as_bytes(),
            &mut LineTemplates::default(),
            |number, part| {
                all.push(match part {
                    ScannedPart::Line(line, AnchorPosition::None(found)) => {
                        let line = String::from_utf8_lossy(line).into_owned();
                        (
                            number,
                            format!("{line} {} {}", found.has("rror"), found.others()),
                        )
                    }
                    ScannedPart::Line(_, position) => (number, format!("{position:?}")),
                    ScannedPart::Between(from, to, output) => {
                        (number, format!("{:?} {output}", &text[from..to]))
                    }
                });
            },
        );
        assert_eq!(count, 8);
        let told = all.iter().map(|(number, told)| (*number, told.as_str()));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (0, "\"a step\\nno word\\n\" false"),
                (2, "First(6)"),
                (3, "\"\\n\" false"),
                (4, "exited with code 0 false false"),
                (5, "\"GPU0\\n\" true"),
                (6, "rror GPU0 true true"),
                (7, "Once(0)"),
            ]
        );
    }

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
