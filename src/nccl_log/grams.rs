//! Many needles in one pass over a text.
//!
//! Of each needle three pairs of bytes that follow each other are known, chosen for being rare. Wherever the needle stands, one of the
//! three begins at a place that is a multiple of three, so that every third pair of the text is looked up in a table of bits, and
//! nearly all of them are none.

/// Places between pairs that are looked up.
const STRIDE: usize = 3;

/// Needles that are looked for together.
pub struct Grams {
    /// A bit for each pair of bytes.
    pairs: Box<[u64; 1024]>,
    /// The pairs, with the needle and the place there; in order.
    wanted: Vec<(u16, u16, u16)>,
    needles: Vec<&'static [u8]>,
}

/// Where a needle stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The place of its first byte.
    pub at: usize,
    /// Which needle it is.
    pub needle: usize,
}

impl Grams {
    /// Of these words, each of at least four bytes and without a line's end; a shorter one would not be found.
    pub fn new(words: impl IntoIterator<Item = &'static str>) -> Self {
        let needles: Vec<&'static [u8]> = words.into_iter().map(str::as_bytes).collect();
        let mut pairs = Box::new([0u64; 1024]);
        let mut wanted = Vec::new();
        for (number, needle) in needles.iter().enumerate() {
            let from = rarest(needle);
            for (at, pair) in needle.windows(2).enumerate().skip(from).take(STRIDE) {
                if let [a, b] = pair {
                    let pair = u16::from_le_bytes([*a, *b]);
                    if let Some(bits) = pairs.get_mut(usize::from(pair >> 6)) {
                        *bits |= 1 << (pair & 63);
                    }
                    let small = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
                    wanted.push((pair, small(number), small(at)));
                }
            }
        }
        wanted.sort_unstable();
        Grams {
            pairs,
            wanted,
            needles,
        }
    }

    /// A needle in the text from `from` to `to`; of those in several lines the one in the first.
    pub fn find(&self, text: &[u8], from: usize, to: usize) -> Option<Hit> {
        let text = text.get(..to)?;
        let (triples, rest) = text.get(from..)?.as_chunks::<STRIDE>();
        for (number, [a, b, _]) in triples.iter().enumerate() {
            if self.may_be(*a, *b)
                && let Some(hit) = self.verify(text, from, from + number * STRIDE)
            {
                return Some(hit);
            }
        }
        match rest {
            [a, b] if self.may_be(*a, *b) => self.verify(text, from, to - 2),
            _ => None,
        }
    }

    #[inline]
    fn may_be(&self, a: u8, b: u8) -> bool {
        let pair = u16::from_le_bytes([a, b]);
        let bits = self.pairs.get(usize::from(pair >> 6)).copied();
        bits.unwrap_or(0) >> (pair & 63) & 1 == 1
    }

    #[cold]
    fn verify(&self, text: &[u8], from: usize, at: usize) -> Option<Hit> {
        let pair = match text.get(at..at + 2)? {
            [a, b] => u16::from_le_bytes([*a, *b]),
            _ => return None,
        };
        let first = self.wanted.partition_point(|(other, ..)| *other < pair);
        let same = self.wanted.get(first..)?.iter();
        for (_, number, offset) in same.take_while(|(other, ..)| *other == pair) {
            let needle = self.needles.get(usize::from(*number))?;
            let begin = at.checked_sub(usize::from(*offset));
            if let Some(begin) = begin.filter(|begin| *begin >= from)
                && text
                    .get(begin..)
                    .is_some_and(|rest| rest.starts_with(needle))
            {
                return Some(Hit {
                    at: begin,
                    needle: usize::from(*number),
                });
            }
        }
        None
    }
}

/// Where in a needle the three rarest pairs in a row begin.
fn rarest(needle: &[u8]) -> usize {
    let places = 0..needle.len().saturating_sub(STRIDE);
    let cost = |at: &usize| -> u32 {
        let pairs = needle.windows(2).skip(*at).take(STRIDE);
        pairs
            .map(|pair| pair.iter().map(|b| commonness(*b)).product::<u32>())
            .sum()
    };
    places.min_by_key(cost).unwrap_or(0)
}

/// How often a byte is seen in logs, on a scale of its own.
fn commonness(byte: u8) -> u32 {
    match byte {
        b' ' | b'e' => 12,
        b'a' | b'i' | b'n' | b'o' | b'r' | b's' | b't' | b'l' | b'c' | b'd' => 8,
        b'0'..=b'9' | b'u' | b'm' | b'p' | b':' | b'g' => 6,
        b'a'..=b'z' | b'.' | b'/' | b'_' | b'-' => 4,
        b'A'..=b'Z' | b',' | b'[' | b']' | b'=' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::{Grams, Hit};

    const WORDS: [&str; 5] = ["rror", "SIGBUS", "CA '", "blocked for more than", "c10d"];

    #[test]
    fn a_needle_is_found_wherever_it_stands() {
        let grams = Grams::new(WORDS);
        for (number, word) in WORDS.iter().enumerate() {
            for before in 0..40 {
                for after in 0..4 {
                    let text = format!(
                        "{}{word}{}",
                        "xor".repeat(14)[..before].to_owned(),
                        &"e10"[..after.min(3)]
                    );
                    let found = grams.find(text.as_bytes(), 0, text.len());
                    let hit = Hit {
                        at: before,
                        needle: number,
                    };
                    assert_eq!(found, Some(hit), "{text}");
                    for from in 0..before {
                        let found = grams.find(text.as_bytes(), from, text.len());
                        assert_eq!(found, Some(hit), "{text} from {from}");
                    }
                    let cut = grams.find(text.as_bytes(), 0, before + word.len() - 1);
                    assert_eq!(cut, None, "{text}");
                    assert_eq!(grams.find(text.as_bytes(), before + 1, text.len()), None);
                }
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_needle_is_none() {
        let grams = Grams::new(WORDS);
        let text = b"or ro rr SIG IGB GBU c1 0d 10d orrro blocked for mor e than CA  ' 'CA";
        assert_eq!(grams.find(text, 0, text.len()), None);
        assert_eq!(grams.find(b"", 0, 0), None);
        assert_eq!(grams.find(b"rror", 2, 9), None);
    }

    #[test]
    fn the_first_line_comes_first() {
        let grams = Grams::new(WORDS);
        let text = b"tasks blocked for more than 120 s\nan error\n";
        let hit = grams.find(text, 0, text.len());
        assert_eq!(hit.map(|hit| hit.needle), Some(3));
    }
}
