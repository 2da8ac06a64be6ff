//! Many needles in one pass over a text.

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// Needles that are looked for together.
pub(super) struct Needles {
    /// `None` only of needles that no automaton has room for, which a test refuses.
    automaton: Option<AhoCorasick>,
}

/// A found needle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Which needle it is, by its place among them.
    pub(super) needle: usize,
    /// The place of its first byte.
    pub(super) at: usize,
}

impl Needles {
    /// For texts of any length: as fast as can be, for memory and for time to make it.
    pub(super) fn for_texts(words: impl IntoIterator<Item = &'static str>) -> Self {
        Needles::of_kind(words, AhoCorasickKind::DFA)
    }

    /// For single messages.
    pub(super) fn for_messages(words: impl IntoIterator<Item = &'static str>) -> Self {
        Needles::of_kind(words, AhoCorasickKind::ContiguousNFA)
    }

    fn of_kind(words: impl IntoIterator<Item = &'static str>, kind: AhoCorasickKind) -> Self {
        let automaton = AhoCorasick::builder().kind(Some(kind)).build(words).ok();
        debug_assert!(automaton.is_some());
        Needles { automaton }
    }

    /// Whether one is in the text.
    pub(super) fn are_in(&self, text: &[u8]) -> bool {
        let automaton = self.automaton.as_ref();
        automaton.is_some_and(|automaton| automaton.is_match(text))
    }

    /// The one that ends first.
    pub(super) fn first(&self, text: &[u8]) -> Option<Found> {
        self.automaton.as_ref()?.find(text).map(Found::of)
    }

    /// All of them wherever they stand, in the order of their ends.
    pub(super) fn all<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = Found> + 't {
        let automaton = self.automaton.iter();
        automaton.flat_map(move |automaton| automaton.find_overlapping_iter(text).map(Found::of))
    }
}

impl Found {
    fn of(found: aho_corasick::Match) -> Self {
        Found {
            needle: found.pattern().as_usize(),
            at: found.start(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Needles};

    #[test]
    fn needles_that_overlap_are_found_together() {
        for needles in [Needles::for_texts, Needles::for_messages].map(
            |new: fn([&'static str; 4]) -> Needles| {
                new(["exited with code 0", "xit code 0", "with code", "rror"])
            },
        ) {
            let text = b"error: it exited with code 0";
            let all: Vec<(usize, usize)> = needles
                .all(text)
                .map(|Found { needle, at }| (needle, at))
                .collect();
            assert_eq!(all, [(3, 1), (2, 17), (0, 10)]);
            assert!(needles.are_in(text));
            assert!(!needles.are_in(b"exit code 7"));
            assert_eq!(needles.first(text), Some(Found { needle: 3, at: 1 }));
        }
    }
}
