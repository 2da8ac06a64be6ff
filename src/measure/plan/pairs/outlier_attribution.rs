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
    /// What lies between these nodes and all others: pairs within a side are good.
    Cut(Side),
}

/// Nodes on one side of a cut, by their places: the first node is one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Side(u128);

impl Side {
    /// Whether a node is on this side; of more nodes than it holds none is.
    pub fn has(self, node: usize) -> bool {
        node < u128::BITS as usize && self.0 & (1 << node) != 0
    }
}

/// The cut that explains all bad pairs: the nodes fall into two parts of several nodes, all pairs
/// between the parts are bad, and none within a part.
pub fn cut(tried: &[Tried]) -> Option<Side> {
    let nodes: BTreeSet<usize> = ends(tried).map(|(node, _)| node).collect();
    if nodes.last()? >= &(u128::BITS as usize) {
        return None;
    }
    let mut side = Side(1 << nodes.first()?);
    loop {
        let crossed = |one: &&Tried| !one.bad && side.has(one.ends.0.0) != side.has(one.ends.1.0);
        let Some(good) = tried.iter().find(crossed) else {
            break;
        };
        side = Side(side.0 | 1 << good.ends.0.0 | 1 << good.ends.1.0);
    }
    let crosses = |one: &Tried| side.has(one.ends.0.0) != side.has(one.ends.1.0);
    let here = nodes.iter().filter(|node| side.has(**node)).count();
    let is_cut =
        here > 1 && nodes.len() > here + 1 && tried.iter().all(|one| one.bad == crosses(one));
    is_cut.then_some(side)
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
            Blame::Cut(side) => side.has(a.0) != side.has(b.0),
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
            Blame::Everything | Blame::Rail(_) | Blame::Pair(..) | Blame::Cut(_) => vec![a.0, b.0],
        }
    }

    /// Bad pairs with how many nodes it takes.
    fn enough(self) -> usize {
        match self {
            Blame::Node(_) | Blame::Adapter(_) => 2,
            Blame::Everything | Blame::Rail(_) => 3,
            Blame::Pair(..) | Blame::Cut(_) => 1,
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

    #[test]
    fn pairs_that_form_a_cut_accuse_what_lies_between() {
        let sides = |a: End, b: End| (a.0 < 2) != (b.0 < 2);
        let side = cut(&all(4, 1, sides)).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|node| side.has(node)),
            [true, true, false, false]
        );
        let crossed = |a: End, b: End| a.0 % 2 != b.0 % 2;
        let side = cut(&all(6, 2, crossed)).unwrap();
        assert_eq!(
            [0, 1, 2, 5].map(|node| side.has(node)),
            [true, false, true, false]
        );
        // One node, a pair, all pairs, and one pair within a part are no cut.
        assert_eq!(cut(&all(4, 1, |a, _| a.0 == 2)), None);
        assert_eq!(cut(&all(4, 1, |a, b| a.0 == 1 && b.0 == 3)), None);
        assert_eq!(cut(&all(4, 1, |_, _| true)), None);
        assert_eq!(cut(&all(4, 1, |_, _| false)), None);
        let more = |a: End, b: End| sides(a, b) || (a.0, b.0) == (0, 1);
        assert_eq!(cut(&all(4, 1, more)), None);
        assert_eq!(cut(&[]), None);
    }
}
