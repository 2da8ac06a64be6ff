//! Which lines can matter: those that hold one of a few needles. The rest is passed over at the speed of memory.

use memchr::memmem::Finder;

/// What a line has to hold to be looked at.
///
/// `CCL` is in every line of NCCL and RCCL, and in what PyTorch says of them; the others are what launchers, Python and the
/// system say when a process fails, and what nccl-tests says of its results.
const NEEDLES: [&str; 8] = [
    "CCL",
    "rror",
    "SIG",
    "Killed",
    "c10d",
    "TCPStore",
    "libibverbs: ",
    "bounds values",
];

/// Finds the lines that can matter.
pub struct Anchors {
    finders: [Finder<'static>; NEEDLES.len()],
}

impl Default for Anchors {
    fn default() -> Self {
        Anchors {
            finders: NEEDLES.map(|needle| Finder::new(needle.as_bytes())),
        }
    }
}

/// What is told of lines.
pub enum Part<'l> {
    /// A line that has a needle, without its end.
    Line(&'l [u8]),
    /// Whole lines, none of which has one.
    Between(&'l [u8]),
}

impl Anchors {
    /// Whether the text has a needle.
    pub fn any(&self, text: &[u8]) -> bool {
        self.finders.iter().any(|f| f.find(text).is_some())
    }

    /// Calls `tell` with each line that has a needle, and with what stands between them: the number of the first line, counted from 0
    /// within `lines`, and the bytes. Gives the number of lines.
    pub fn lines(&self, lines: &[u8], mut tell: impl FnMut(u64, Part<'_>)) -> u64 {
        let mut next = [0usize; NEEDLES.len()];
        for (at, finder) in next.iter_mut().zip(&self.finders) {
            *at = finder.find(lines).unwrap_or(usize::MAX);
        }
        let (mut number, mut from) = (0, 0);
        while let Some(hit) = next.iter().copied().min().filter(|at| *at < lines.len()) {
            let passed = lines.get(from..hit).unwrap_or(&[]);
            let begin = match memchr::memrchr(b'\n', passed) {
                Some(at) => {
                    let passed = passed.get(..=at).unwrap_or(&[]);
                    tell(number, Part::Between(passed));
                    number += count(passed);
                    from + at + 1
                }
                None => from,
            };
            let rest = lines.get(hit..).unwrap_or(&[]);
            let end = hit + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            tell(number, Part::Line(lines.get(begin..end).unwrap_or(&[])));
            number += 1;
            from = end + 1;
            for (at, finder) in next.iter_mut().zip(&self.finders) {
                if *at < from {
                    let rest = lines.get(from..).unwrap_or(&[]);
                    *at = finder.find(rest).map_or(usize::MAX, |found| from + found);
                }
            }
        }
        let rest = lines.get(from..).unwrap_or(&[]);
        if !rest.is_empty() {
            tell(number, Part::Between(rest));
        }
        number + count(rest)
    }
}

fn count(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
