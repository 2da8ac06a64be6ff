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

impl Anchors {
    /// Whether the text has a needle.
    pub fn any(&self, text: &[u8]) -> bool {
        self.finders.iter().any(|f| f.find(text).is_some())
    }

    /// Calls `line` with each line that has a needle: its number counted from 0 within `lines`, and its bytes without their end.
    /// Gives the number of lines.
    pub fn lines(&self, lines: &[u8], mut line: impl FnMut(u64, &[u8])) -> u64 {
        let mut next = [0usize; NEEDLES.len()];
        for (at, finder) in next.iter_mut().zip(&self.finders) {
            *at = finder.find(lines).unwrap_or(usize::MAX);
        }
        let (mut number, mut from) = (0, 0);
        while let Some(hit) = next.iter().copied().min().filter(|at| *at < lines.len()) {
            let passed = lines.get(from..hit).unwrap_or(&[]);
            let begin = match memchr::memrchr(b'\n', passed) {
                Some(at) => {
                    number += count(passed.get(..=at).unwrap_or(&[]));
                    from + at + 1
                }
                None => from,
            };
            let rest = lines.get(hit..).unwrap_or(&[]);
            let end = hit + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            line(number, lines.get(begin..end).unwrap_or(&[]));
            number += 1;
            from = end + 1;
            for (at, finder) in next.iter_mut().zip(&self.finders) {
                if *at < from {
                    let rest = lines.get(from..).unwrap_or(&[]);
                    *at = finder.find(rest).map_or(usize::MAX, |found| from + found);
                }
            }
        }
        number + count(lines.get(from..).unwrap_or(&[]))
    }
}

fn count(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
