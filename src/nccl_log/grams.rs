//! Many needles in one pass over a text.
//!
//! Of each needle three triples of bytes that follow each other are known, chosen for being rare. Wherever the needle stands, one of the
//! three begins at a place that is a multiple of three, so that every third triple of the text is looked up in a table of bits, and
//! nearly all of them are none.

/// Places between triples that are looked up, and their length.
const STRIDE: usize = 3;

/// The bits of the table: so many that few triples of other words have one, and few enough to stay in the fastest cache.
const BITS: u32 = 17;

/// Needles that are looked for together.
pub struct Grams {
    /// A bit for each triple that is looked for, by its hash.
    triples: Box<[u64; 1 << (BITS - 6)]>,
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
        debug_assert!(needles.iter().all(|needle| needle.len() > STRIDE));
        let mut triples = Box::new([0u64; 1 << (BITS - 6)]);
        let mut set = |triple: [u8; STRIDE]| {
            let (word, bit) = place(triple);
            triples[word] |= bit;
        };
        let mut wanted = Vec::new();
        for (number, needle) in needles.iter().enumerate() {
            let from = rarest(needle);
            for (at, pair) in needle.windows(2).enumerate().skip(from).take(STRIDE) {
                if let [a, b] = *pair {
                    match needle.get(at + 2) {
                        Some(c) => set([a, b, *c]),
                        // A needle of four bytes has two triples: the third has any byte behind it.
                        None => (0..=u8::MAX).for_each(|c| set([a, b, c])),
                    }
                    let small = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
                    wanted.push((u16::from_le_bytes([a, b]), small(number), small(at)));
                }
            }
        }
        wanted.sort_unstable();
        let mut first = vec![0; 1 << 16].into_boxed_slice();
        for (at, (pair, ..)) in wanted.iter().enumerate().rev() {
            first[usize::from(*pair)] = u16::try_from(at).unwrap_or(u16::MAX);
        }
        Grams {
            triples,
            wanted,
            first,
            needles,
        }
    }

    /// A needle in the text from `from` to `to`; of those in several lines the one in the first.
    pub fn find(&self, text: &[u8], from: usize, to: usize) -> Option<Hit> {
        let text = text.get(..to)?;
        let (triples, rest) = text.get(from..)?.as_chunks::<STRIDE>();
        for (number, triple) in triples.iter().enumerate() {
            if self.may_be(*triple)
                && let Some(hit) = self.verify(text, from, from + number * STRIDE)
            {
                return Some(hit);
            }
        }
        match rest {
            [_, _] => self.verify(text, from, to - 2),
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
        while let Some([a, b, behind @ ..]) = text.get(at..) {
            // Behind the last pair any byte may follow.
            if behind.first().is_none_or(|c| self.may_be([*a, *b, *c])) {
                let found = self.at_pair(text, from, at);
                all |= found.fold(0, |all, hit| all | 1 << hit.needle.min(LAST));
            }
            at += STRIDE;
        }
        all
    }

    #[inline]
    fn may_be(&self, triple: [u8; STRIDE]) -> bool {
        let (word, bit) = place(triple);
        self.triples[word] & bit != 0
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
            // Nearly all differ in the last byte, which costs no call.
            let last = text.get(begin + needle.len() - 1) == needle.last();
            (last && begin >= from && text.get(begin..)?.starts_with(needle)).then_some(Hit {
                at: begin,
                needle: usize::from(*number),
                pair: at,
            })
        })
    }
}

/// The word of the table and the bit in it that three bytes have.
#[inline]
fn place([a, b, c]: [u8; STRIDE]) -> (usize, u64) {
    let hash = u32::from_le_bytes([a, b, c, 0]).wrapping_mul(0x9e37_79b1) >> (32 - BITS);
    ((hash >> 6) as usize, 1 << (hash & 63))
}

/// Where in a needle the three rarest triples in a row begin.
fn rarest(needle: &[u8]) -> usize {
    let places = 0..needle.len().saturating_sub(STRIDE + 1);
    let cost = |at: &usize| -> u32 {
        let triples = needle.windows(STRIDE).skip(*at).take(STRIDE);
        triples
            .map(|triple| triple.iter().map(|b| commonness(*b)).product::<u32>())
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
