//! Rows of needles: of which rows a message holds all of them.

use std::collections::HashMap;

use super::needles::Needles;
use super::text::contains;

/// A row: the class, and what a message of it holds. A needle that begins with `^` is at its start.
pub(super) type Row = (&'static str, &'static [&'static str]);

/// Whether all needles are in the message.
pub(super) fn fits(needles: &[&str], message: &[u8]) -> bool {
    needles.iter().all(|needle| match needle.strip_prefix('^') {
        Some(start) => message.starts_with(start.as_bytes()),
        None => contains(message, needle),
    })
}

/// Rows that are looked for together.
pub(super) struct RowTable {
    needles: Needles,
    /// Of each needle, whether it counts at a message's start only.
    at_start: Vec<bool>,
    /// The needles of each row.
    rows: Vec<Box<[usize]>>,
}

impl RowTable {
    pub(super) fn new(rows: impl IntoIterator<Item = &'static Row>) -> Self {
        let mut numbers: HashMap<&'static str, usize> = HashMap::new();
        let mut words: Vec<&'static str> = Vec::new();
        let mut numbered = Vec::new();
        for (_, needles) in rows {
            let mut row = Vec::new();
            for needle in *needles {
                let number = *numbers.entry(needle).or_insert(words.len());
                if number == words.len() {
                    words.push(needle);
                }
                row.push(number);
            }
            numbered.push(row.into_boxed_slice());
        }
        RowTable {
            needles: Needles::for_messages(words.iter().map(|word| word.trim_start_matches('^'))),
            at_start: words.iter().map(|word| word.starts_with('^')).collect(),
            rows: numbered,
        }
    }

    /// The rows of which all needles are in the message, in their order.
    pub(super) fn fitting(&self, message: &[u8]) -> impl Iterator<Item = usize> {
        let mut held = vec![false; self.at_start.len()];
        for found in self.needles.all(message) {
            let counts = found.at == 0 || self.at_start.get(found.needle) == Some(&false);
            if let Some(held) = held.get_mut(found.needle).filter(|_| counts) {
                *held = true;
            }
        }
        let rows = self.rows.iter().enumerate();
        rows.filter_map(move |(at, needles)| {
            let fits = needles
                .iter()
                .all(|needle| held.get(*needle) == Some(&true));
            fits.then_some(at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::RowTable;

    #[test]
    fn all_needles_of_a_row_are_there_and_a_start_is_at_the_start() {
        let table = RowTable::new(&[
            ("a", &["Call to", " failed"] as &[&str]),
            ("b", &["^socket", "failed"]),
            ("c", &["failed"]),
            ("d", &["fail", "ailed"]),
        ]);
        let fitting = |message: &str| table.fitting(message.as_bytes()).collect::<Vec<_>>();
        assert_eq!(fitting("Call to socket failed"), [0, 2, 3]);
        assert_eq!(fitting("socket failed"), [1, 2, 3]);
        assert_eq!(fitting("the socket is closed"), [0; 0]);
    }
}
