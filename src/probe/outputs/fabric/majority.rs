//! What most of a group have.

use std::collections::BTreeMap;

/// Members of which a majority is the rule: of two, neither is.
const FEWEST: usize = 3;

/// The value that more than half of the group have.
pub(super) fn majority<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let (value, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (all >= FEWEST && count * 2 > all).then_some(value)
}
