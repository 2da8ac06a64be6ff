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
    /// A bit for some of the pairs with a byte that the needle has behind them, and with one that it has before them: most pairs that
    /// are seen in a text are of other words.
    behind: Box<[u64; 64]>,
    before: Box<[u64; 64]>,
    /// The pairs, with the needle and the place there; in order.
    wanted: Vec<(u16, u16, u16)>,
    /// For each pair if its entries begin among `wanted`.
    first: Box<[u16]>,
    needles: Vec<&'static [u8]>,
}

/// A found needle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The place of its first byte.
    pub at: usize,
    /// Which needle it is.
    pub needle: usize,
    /// The place of the pair by which it was found.
    pub pair: usize,
}

/// Needles by their numbers, as bits; the last bit stands for its needle and all behind it.
pub type Needles = u128;

const LAST: usize = Needles::BITS as usize - 1;

impl Grams {
    /// Of these words, each of at least four bytes and without a line's end; a shorter one would not be found.
    pub fn new(words: impl IntoIterator<Item = &'static str>) -> Self {
        let needles: Vec<&'static [u8]> = words.into_iter().map(str::as_bytes).collect();
        let mut pairs = Box::new([0u64; 1024]);
        let (mut behind, mut before) = (Box::new([0u64; 64]), Box::new([0u64; 64]));
        let mut wanted = Vec::new();
        for (number, needle) in needles.iter().enumerate() {
            let from = rarest(needle);
            for (at, pair) in needle.windows(2).enumerate().skip(from).take(STRIDE) {
                if let [a, b] = pair {
                    let (bits, other) = match at.checked_sub(1) {
                        Some(other) => (&mut before, needle.get(other)),
                        None => (&mut behind, needle.get(2)),
                    };
                    if let Some(other) = other {
                        let (word, bit) = triple(*a, *b, *other);
                        bits[word] |= bit;
                    }
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
        let mut first = vec![0; 1 << 16].into_boxed_slice();
        for (at, (pair, ..)) in wanted.iter().enumerate().rev() {
            first[usize::from(*pair)] = u16::try_from(at).unwrap_or(u16::MAX);
        }
        Grams {
            pairs,
            behind,
            before,
            wanted,
            first,
            needles,
        }
    }

    /// A needle in the text from `from` to `to`; of those in several lines the one in the first.
    pub fn find(&self, text: &[u8], from: usize, to: usize) -> Option<Hit> {
        let text = text.get(..to)?;
        let (triples, rest) = text.get(from..)?.as_chunks::<STRIDE>();
        for (number, [a, b, _]) in triples.iter().enumerate() {
            let at = from + number * STRIDE;
            if self.may_be(*a, *b)
                && self.is_in_place(text, at)
                && let Some(hit) = self.verify(text, from, at)
            {
                return Some(hit);
            }
        }
        match rest {
            [a, b] if self.may_be(*a, *b) => self.verify(text, from, to - 2),
            _ => None,
        }
    }

    /// All needles in the text from `from` to `to` of which a pair is at or behind `at`, which is as many strides behind `from`.
    pub fn all(&self, text: &[u8], from: usize, at: usize, to: usize) -> Needles {
        let Some(text) = text.get(..to) else {
            return 0;
        };
        let mut all = 0;
        let mut at = at;
        while let Some([a, b]) = text.get(at..at + 2) {
            if self.may_be(*a, *b) && self.is_in_place(text, at) {
                let found = self.at_pair(text, from, at);
                all |= found.fold(0, |all, hit| all | 1 << hit.needle.min(LAST));
            }
            at += STRIDE;
        }
        all
    }

    #[inline]
    fn may_be(&self, a: u8, b: u8) -> bool {
        let pair = u16::from_le_bytes([a, b]);
        let bits = self.pairs.get(usize::from(pair >> 6)).copied();
        bits.unwrap_or(0) >> (pair & 63) & 1 == 1
    }

    /// Whether the byte before the pair at `at` or the one behind it stands so in a needle.
    #[inline]
    fn is_in_place(&self, text: &[u8], at: usize) -> bool {
        let Some([a, b]) = text.get(at..at + 2) else {
            return false;
        };
        let has = |bits: &[u64; 64], other: Option<&u8>| {
            other.is_some_and(|other| {
                let (word, bit) = triple(*a, *b, *other);
                bits[word] & bit != 0
            })
        };
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        has(&self.before, before) || has(&self.behind, text.get(at + 2))
    }

    #[cold]
    fn verify(&self, text: &[u8], from: usize, at: usize) -> Option<Hit> {
        self.at_pair(text, from, at).next()
    }

    /// The needles that begin at or behind `from` and have the pair at `at`.
    fn at_pair(&self, text: &[u8], from: usize, at: usize) -> impl Iterator<Item = Hit> {
        let pair = match text.get(at..at + 2) {
            Some([a, b]) => u16::from_le_bytes([*a, *b]),
            _ => 0,
        };
        let first = self.first.get(usize::from(pair)).copied();
        let first = usize::from(first.unwrap_or(0));
        let same = self.wanted.get(first..).unwrap_or(&[]).iter();
        let same = same.take_while(move |(other, ..)| *other == pair);
        same.filter_map(move |(_, number, offset)| {
            let needle = self.needles.get(usize::from(*number))?;
            let begin = at.checked_sub(usize::from(*offset))?;
            (begin >= from && text.get(begin..)?.starts_with(needle)).then_some(Hit {
                at: begin,
                needle: usize::from(*number),
                pair: at,
            })
        })
    }
}

/// The bit of three bytes.
fn triple(a: u8, b: u8, other: u8) -> (usize, u64) {
    let mixed =
        (u32::from(a) << 16 | u32::from(b) << 8 | u32::from(other)).wrapping_mul(0x9e37_79b1);
    ((mixed >> 26) as usize, 1 << (mixed >> 20 & 63))
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
                    let hit = Some((before, number));
                    let place = |hit: Option<Hit>| hit.map(|hit| (hit.at, hit.needle));
                    assert_eq!(place(found), hit, "{text}");
                    let all = grams.all(text.as_bytes(), 0, 0, text.len());
                    assert_eq!(all, 1 << number, "{text}");
                    for from in 0..before {
                        let found = grams.find(text.as_bytes(), from, text.len());
                        assert_eq!(place(found), hit, "{text} from {from}");
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
    fn needles_that_overlap_are_found_together() {
        let grams = Grams::new(["exited with code 0", "xit code 0", "with code", "rror"]);
        let text = b"error: it exited with code 0";
        for from in 0..8 {
            let all = grams.all(text, from, from, text.len());
            assert_eq!(all, if from < 2 { 0b1101 } else { 0b101 }, "{from}");
        }
        let first = grams.find(text, 2, text.len()).unwrap();
        assert_eq!(grams.all(text, 2, first.pair, text.len()), 0b101);
    }

    #[test]
    fn the_first_line_comes_first() {
        let grams = Grams::new(WORDS);
        let text = b"tasks blocked for more than 120 s\nan error\n";
        let hit = grams.find(text, 0, text.len());
        assert_eq!(hit.map(|hit| hit.needle), Some(3));
    }
}
