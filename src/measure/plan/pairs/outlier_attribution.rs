//! What the failures among many pairs accuse: a node, an adapter, a rail, or these two ends alone.

use std::collections::BTreeSet;

use super::schedule::End;

/// A pair that was measured, and whether it was bad: it failed, or was far below its equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The ends.
    pub ends: (End, End),
    /// Whether it was bad.
    pub bad: bool,
}

/// The part that is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blame {
    /// All of three nodes or more: the fabric between them, or what they have in common.
    Everything,
    /// Everything of this node: its place among the nodes.
    Node(usize),
    /// Every pair of this rail.
    Rail(usize),
    /// This adapter.
    Adapter(End),
    /// These two ends with each other, and neither with others.
    Pair(End, End),
}

/// The fewest that explain all bad pairs. An end is accused by pairs with several others that are
/// bad, and by none that is good: what has a good pair can work. Where only two ends were tried,
/// both are named as a pair: which of them it is, two ends cannot tell.
pub fn blame(tried: &[Tried]) -> Vec<Blame> {
    let mut open: Vec<&Tried> = tried.iter().filter(|tried| tried.bad).collect();
    let mut found = Vec::new();
    let nodes: BTreeSet<usize> = ends(tried).map(|(node, _)| node).collect();
    if open.len() == tried.len() && nodes.len() > 2 {
        return vec![Blame::Everything];
    }
    let rails: BTreeSet<usize> = ends(tried).map(|(_, rail)| rail).collect();
    // What covers most comes first: a dead node is not told as eight dead adapters.
    let candidates = nodes
        .into_iter()
        .map(Blame::Node)
        .chain(rails.into_iter().map(Blame::Rail));
    let adapters: BTreeSet<End> = ends(tried).collect();
    for candidate in candidates.chain(adapters.into_iter().map(Blame::Adapter)) {
        let of = |tried: &&Tried| candidate.covers(tried.ends);
        let all_bad = tried.iter().filter(of).all(|tried| tried.bad);
        // A node whose partners are accused already keeps pairs of its own to be accused by.
        let others: BTreeSet<usize> = open
            .iter()
            .filter(|tried| candidate.covers(tried.ends))
            .flat_map(|tried| candidate.others(tried.ends))
            .collect();
        if all_bad && others.len() >= candidate.enough() {
            open.retain(|tried| !candidate.covers(tried.ends));
            found.push(candidate);
        }
    }
    found.extend(
        open.iter()
            .map(|tried| Blame::Pair(tried.ends.0, tried.ends.1)),
    );
    found.retain({
        let found = found.clone();
        move |one| !found.iter().any(|other| other.swallows(one))
    });
    found
}

fn ends(tried: &[Tried]) -> impl Iterator<Item = End> + '_ {
    tried.iter().flat_map(|tried| [tried.ends.0, tried.ends.1])
}

impl Blame {
    /// Whether a pair involves it.
    pub fn covers(self, (a, b): (End, End)) -> bool {
        match self {
            Blame::Everything => true,
            Blame::Node(node) => a.0 == node || b.0 == node,
            Blame::Rail(rail) => a.1 == rail || b.1 == rail,
            Blame::Adapter(end) => a == end || b == end,
            Blame::Pair(one, other) => [(a, b), (b, a)].contains(&(one, other)),
        }
    }

    /// The nodes besides that a pair involves.
    fn others(self, (a, b): (End, End)) -> Vec<usize> {
        match self {
            Blame::Node(node) => [a.0, b.0].into_iter().filter(|n| *n != node).collect(),
            Blame::Adapter(end) => [a, b]
                .into_iter()
                .filter(|e| *e != end)
                .map(|e| e.0)
                .collect(),
            Blame::Everything | Blame::Rail(_) | Blame::Pair(..) => vec![a.0, b.0],
        }
    }

    /// Bad pairs with how many nodes it takes.
    fn enough(self) -> usize {
        match self {
            Blame::Node(_) | Blame::Adapter(_) => 2,
            Blame::Everything | Blame::Rail(_) => 3,
            Blame::Pair(..) => 1,
        }
    }

    /// Whether the other is a part of this.
    fn swallows(&self, other: &Blame) -> bool {
        match (self, other) {
            (Blame::Node(node), Blame::Adapter(end)) => end.0 == *node,
            (Blame::Rail(rail), Blame::Adapter(end)) => end.1 == *rail,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule;
    use super::*;

    fn all(count: usize, rails: usize, bad: impl Fn(End, End) -> bool) -> Vec<Tried> {
        schedule::along_rails(count, rails)
            .into_iter()
            .flatten()
            .map(|(a, b)| Tried {
                ends: (a, b),
                bad: bad(a, b) || bad(b, a),
            })
            .collect()
    }

    #[test]
    fn who_is_to_blame() {
        assert_eq!(blame(&all(4, 2, |_, _| false)), []);
        assert_eq!(blame(&all(4, 2, |a, _| a.0 == 2)), [Blame::Node(2)]);
        assert_eq!(blame(&all(4, 2, |a, _| a.1 == 1)), [Blame::Rail(1)]);
        assert_eq!(
            blame(&all(4, 2, |a, _| a == (3, 0))),
            [Blame::Adapter((3, 0))]
        );
        assert_eq!(
            blame(&all(4, 2, |a, b| a == (1, 0) && b == (3, 0))),
            [Blame::Pair((1, 0), (3, 0))]
        );
        assert_eq!(blame(&all(4, 2, |_, _| true)), [Blame::Everything]);
        // Two nodes cannot tell which of them it is.
        assert_eq!(
            blame(&all(2, 1, |_, _| true)),
            [Blame::Pair((0, 0), (1, 0))]
        );
        assert_eq!(
            blame(&all(8, 2, |a, b| a.0 == 2 || (a == (5, 1) && b == (6, 1)))),
            [Blame::Node(2), Blame::Pair((5, 1), (6, 1))]
        );
        assert_eq!(
            blame(&all(8, 1, |a, _| a.0 == 2 || a.0 == 5)),
            [Blame::Node(2), Blame::Node(5)]
        );
    }
}
