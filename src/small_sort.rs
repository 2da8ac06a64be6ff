//! Sorting where order matters and time does not: `slice::sort_by` has five kilobytes of code for each type and each closure that it is
//! called with, and what is sorted here are lists of a node's devices, of some findings, of the lines of a table.

use std::cmp::Ordering;

/// Sorts a list as `slice::sort_by` does: what is equal stays in its order.
pub fn by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    sort(&mut order, &mut |a, b| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    });
    // Each place takes the item that belongs there; what it had moves on along the cycle.
    for start in 0..order.len() {
        let mut at = start;
        while order[at] != start {
            let from = std::mem::replace(&mut order[at], at);
            items.swap(at, from);
            at = from;
        }
        order[at] = at;
    }
}

/// Sorts a list as `slice::sort_by_key` does.
pub fn by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// One sort for all types.
#[inline(never)]
fn sort(order: &mut [usize], compare: &mut dyn FnMut(usize, usize) -> Ordering) {
    order.sort_by(|a, b| compare(*a, *b));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_sorts_as_the_standard_library_does(items: Vec<(u8, u16)>) {
            let (mut own, mut theirs) = (items.clone(), items);
            by_key(&mut own, |(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(&own, &theirs);
            by(&mut own, |a, b| b.1.cmp(&a.1));
            theirs.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
            prop_assert_eq!(own, theirs);
        }
    }
}
