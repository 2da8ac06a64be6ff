//! Which lines can matter: those that hold one of a few needles. The rest is passed over at the speed of memory.

use memchr::memmem::Finder;

/// What is in every line of NCCL and RCCL, and in what PyTorch says of them.
const MARK: &[u8] = b"CCL";

/// What else a line can hold to be looked at: what launchers, Python and the system say when a process fails, and what nccl-tests says
/// of its results.
const NEEDLES: [&str; 7] = [
    "rror",
    "SIG",
    "Killed",
    "c10d",
    "TCPStore",
    "libibverbs: ",
    "bounds values",
];

/// Needles that are looked for together.
pub struct Needles<const N: usize>([Finder<'static>; N]);

impl<const N: usize> Needles<N> {
    /// Of these words.
    pub fn new(words: [&'static str; N]) -> Self {
        Needles(words.map(|word| Finder::new(word.as_bytes())))
    }

    /// Whether the text has one.
    pub fn any(&self, text: &[u8]) -> bool {
        self.0.iter().any(|f| f.find(text).is_some())
    }
}

/// The next place of each needle in one text. Most texts have none: each is looked for once in all of it, and again only behind its
/// last place.
pub struct Places<const N: usize>([Option<usize>; N]);

impl<const N: usize> Default for Places<N> {
    fn default() -> Self {
        Places([None; N])
    }
}

impl<const N: usize> Places<N> {
    /// The first place of a needle from `from` on, and before `to`. `from` does not go back from call to call.
    pub fn first(
        &mut self,
        needles: &Needles<N>,
        text: &[u8],
        from: usize,
        to: usize,
    ) -> Option<usize> {
        let mut first = to;
        for (place, finder) in self.0.iter_mut().zip(&needles.0) {
            let at = match *place {
                Some(at) if at >= from => at,
                _ => {
                    let rest = text.get(from..).unwrap_or(&[]);
                    let at = finder.find(rest).map_or(usize::MAX, |found| from + found);
                    *place = Some(at);
                    at
                }
            };
            first = first.min(at);
        }
        (first < to).then_some(first)
    }
}

/// Finds the lines that can matter.
pub struct Anchors {
    mark: Finder<'static>,
    needles: Needles<{ NEEDLES.len() }>,
}

impl Default for Anchors {
    fn default() -> Self {
        Anchors {
            mark: Finder::new(MARK),
            needles: Needles::new(NEEDLES),
        }
    }
}

/// Where in a line `CCL` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// There, and nowhere else.
    Once(usize),
    /// There first, and further on too.
    First(usize),
    /// Nobody looked.
    Unknown,
}

/// What is told of lines.
pub enum Part<'l> {
    /// A line that has a needle, without its end.
    Line(&'l [u8], Mark),
    /// Whole lines, none of which has one: from there, to there.
    Between(usize, usize),
}

impl Anchors {
    /// Whether the text has a needle.
    pub fn any(&self, text: &[u8]) -> bool {
        self.mark.find(text).is_some() || self.needles.any(text)
    }

    /// Calls `tell` with each line that has a needle, and with what stands between them: the number of the first line, counted from 0
    /// within `lines`, and the part. Gives the number of lines.
    pub fn lines(&self, lines: &[u8], mut tell: impl FnMut(u64, Part<'_>)) -> u64 {
        let find = |from: usize| {
            let rest = lines.get(from..).unwrap_or(&[]);
            self.mark.find(rest).map(|found| from + found)
        };
        let mut places = Places::default();
        let (mut number, mut from) = (0, 0);
        let mut next = find(0);
        while let Some(hit) = next {
            let passed = lines.get(from..hit).unwrap_or(&[]);
            let begin = match memchr::memrchr(b'\n', passed) {
                Some(at) => {
                    let begin = from + at + 1;
                    number = self.between(lines, from, begin, number, &mut places, &mut tell);
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
                    Mark::First(hit - begin)
                }
                _ => Mark::Once(hit - begin),
            };
            tell(
                number,
                Part::Line(lines.get(begin..end).unwrap_or(&[]), mark),
            );
            number += 1;
            from = end + 1;
        }
        self.between(lines, from, lines.len(), number, &mut places, &mut tell)
    }

    /// Lines without `CCL`, from `from` to `to`, of which the first is `number`. Gives the number of the line behind them.
    fn between(
        &self,
        lines: &[u8],
        mut from: usize,
        to: usize,
        mut number: u64,
        places: &mut Places<{ NEEDLES.len() }>,
        tell: &mut impl FnMut(u64, Part<'_>),
    ) -> u64 {
        let pass = |number: u64, from: usize, to: usize, tell: &mut dyn FnMut(u64, Part<'_>)| {
            tell(number, Part::Between(from, to));
            number + count(lines.get(from..to).unwrap_or(&[]))
        };
        while from < to {
            let Some(hit) = places.first(&self.needles, lines, from, to) else {
                return pass(number, from, to, tell);
            };
            let passed = lines.get(from..hit).unwrap_or(&[]);
            let begin = match memchr::memrchr(b'\n', passed) {
                Some(at) => {
                    let begin = from + at + 1;
                    number = pass(number, from, begin, tell);
                    begin
                }
                None => from,
            };
            let rest = lines.get(hit..).unwrap_or(&[]);
            let end = hit + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            tell(
                number,
                Part::Line(lines.get(begin..end).unwrap_or(&[]), Mark::Unknown),
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
