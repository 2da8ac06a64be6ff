//! Figures in which nodes of one kind are close to each other unless something is left over on one
//! of them: load, free memory.

use std::sync::Arc;

use super::Sample;
use crate::fact::comparison::ComparedProperty;
use crate::fact::{Facts, Id, Percent, node};
use crate::sentence::{Sentence, sentence};

/// Takes a node's figures.
pub(super) fn take(facts: &Facts, node: Id, sample: &mut Sample) {
    for (of, key) in [
        (ComparedProperty::Load, node::LOAD),
        (ComparedProperty::Memory, node::MEMORY_AVAILABLE),
    ] {
        let share = facts.known(node, key).map(|Percent(share)| share);
        sample.figures.extend(share.map(|share| (of, share)));
    }
}

/// The nodes that are worse than the better half by more than is allowed, and what they have in
/// words.
pub(super) fn outliers(
    of: ComparedProperty,
    nodes: &[(Arc<str>, f64)],
    allowed: Percent,
) -> (Vec<Arc<str>>, Sentence) {
    // Load is worse if it is higher, memory if it is lower.
    let sign = if of == ComparedProperty::Load {
        1.0
    } else {
        -1.0
    };
    let mut nodes = nodes.to_vec();
    nodes.sort_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)));
    let middle = nodes[(nodes.len() - 1) / 2].1;
    let odd = |(_, share): &&(Arc<str>, f64)| sign * (share - middle) > allowed.0;
    let odd: Vec<_> = nodes.iter().rev().filter(odd).collect();
    let what = match of {
        ComparedProperty::Load => "load",
        _ => "free memory",
    };
    let middle = Percent(middle);
    let summary = match odd.first() {
        Some((name, share)) => {
            let (share, all) = (Percent(*share), nodes.len());
            sentence!(
                "{what} of {name}: {share}",
                "; median of {all} nodes: {middle}"
            )
        }
        None => sentence!("{what}: about {middle} on each node"),
    };
    (
        odd.iter().map(|(name, _)| Arc::clone(name)).collect(),
        summary,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_worse_than_the_median_is_named() {
        let of = |of, figures: &[f64]| {
            let nodes = figures.iter().zip(1..);
            let nodes = nodes.map(|(share, n)| (format!("n{n}").into(), *share));
            outliers(of, &nodes.collect::<Vec<_>>(), Percent(50.0))
        };
        let (odd, summary) = of(ComparedProperty::Load, &[2.0, 95.0, 3.0]);
        assert_eq!(odd.join(","), "n2");
        assert_eq!(summary, "load of n2: 95 %; median of 3 nodes: 3 %");
        let (odd, summary) = of(ComparedProperty::Memory, &[95.0, 20.0]);
        assert_eq!(odd.join(","), "n2");
        assert_eq!(summary, "free memory of n2: 20 %; median of 2 nodes: 95 %");
        assert!(
            of(ComparedProperty::Memory, &[60.0, 95.0, 94.0])
                .0
                .is_empty()
        );
        // A job runs on both.
        assert!(of(ComparedProperty::Load, &[95.0, 80.0]).0.is_empty());
    }
}
