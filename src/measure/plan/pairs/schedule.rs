//! Which pairs of nodes are measured at the same time: every pair once, and no adapter in two pairs
//! at once.

use std::collections::BTreeSet;

/// An adapter of a node: its place among the nodes, and its rail.
pub type End = (usize, usize);

/// The pairs of nodes in rounds: each pair is in one round, each node in at most one pair of a
/// round. N − 1 rounds for an even number of nodes, N for an odd one, which is the least there can
/// be.
///
/// The circle method: one node stays, the others move on by one place each round.
pub fn nodes(count: usize) -> Vec<Vec<(usize, usize)>> {
    if count < 2 {
        return Vec::new();
    }
    let even = count + count % 2;
    let turning = even - 1;
    (0..turning)
        .map(|round| {
            let seat = |at: usize| (round + at) % turning;
            let mut pairs = vec![(turning, seat(0))];
            pairs.extend((1..even / 2).map(|at| (seat(at), seat(turning - at))));
            // An odd number has an empty seat: who sits across from it rests.
            pairs.retain(|(a, b)| *a < count && *b < count);
            pairs.iter().map(|(a, b)| (*a.min(b), *a.max(b))).collect()
        })
        .collect()
}

/// Each node with the next one in a ring, and with the one half the ring away: a ring alone stays
/// in a rack for most of its pairs. In a few rounds, each node in at most one pair of a round.
pub fn neighbours(count: usize) -> Vec<Vec<(usize, usize)>> {
    if count < 2 {
        return Vec::new();
    }
    let steps = BTreeSet::from([1, count / 2]);
    let ends = |step: usize| (0..count).map(move |at| (at, (at + step) % count));
    let all: BTreeSet<(usize, usize)> = (steps.into_iter().flat_map(ends))
        .map(|(a, b)| (a.min(b), a.max(b)))
        .collect();
    /// The pairs of a round, and the nodes that are in one.
    #[derive(Default)]
    struct Round {
        pairs: Vec<(usize, usize)>,
        busy: BTreeSet<usize>,
    }
    let mut rounds: Vec<Round> = Vec::new();
    for (a, b) in all {
        let is_free = |round: &Round| !round.busy.contains(&a) && !round.busy.contains(&b);
        let at = rounds.iter().position(is_free);
        let at = at.unwrap_or(rounds.len());
        if at == rounds.len() {
            rounds.push(Round::default());
        }
        rounds[at].busy.extend([a, b]);
        rounds[at].pairs.push((a, b));
    }
    rounds.into_iter().map(|round| round.pairs).collect()
}

/// The pairs of adapters of the same rail in rounds: all rails of two nodes at once.
pub fn along_rails(count: usize, rails: usize) -> Vec<Vec<(End, End)>> {
    on_rails(nodes(count), rails)
}

/// The same of [`neighbours`].
pub fn neighbours_along_rails(count: usize, rails: usize) -> Vec<Vec<(End, End)>> {
    on_rails(neighbours(count), rails)
}

fn on_rails(rounds: Vec<Vec<(usize, usize)>>, rails: usize) -> Vec<Vec<(End, End)>> {
    let pairs = |round: Vec<(usize, usize)>| {
        let rails = move |(a, b)| (0..rails).map(move |rail| ((a, rail), (b, rail)));
        round.into_iter().flat_map(rails).collect()
    };
    rounds.into_iter().map(pairs).collect()
}

/// The pairs of adapters of different nodes and of different rails in rounds: as many times the
/// rounds of the nodes as there are other rails.
pub fn across_rails(count: usize, rails: usize) -> Vec<Vec<(End, End)>> {
    let mut rounds = Vec::new();
    for shift in 1..rails {
        for round in nodes(count) {
            let turned = |(a, b)| (0..rails).map(move |r| ((a, r), (b, (r + shift) % rails)));
            rounds.push(round.into_iter().flat_map(turned).collect());
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hash;

    use super::*;

    /// Every pair once, nobody twice in a round; returns how many pairs there are.
    fn sound<E: Copy + Ord + Hash>(rounds: &[Vec<(E, E)>]) -> usize {
        let mut pairs = HashSet::new();
        for round in rounds {
            let mut busy = HashSet::new();
            for &(a, b) in round {
                assert!(busy.insert(a) && busy.insert(b), "busy twice in a round");
                assert!(pairs.insert((a.min(b), a.max(b))), "a pair twice");
            }
        }
        pairs.len()
    }

    #[test]
    fn every_pair_once_and_nobody_twice_in_a_round() {
        for count in 0..=64 {
            let rounds = nodes(count);
            assert_eq!(sound(&rounds), count * count.saturating_sub(1) / 2);
            let least = match count {
                0 | 1 => 0,
                even if even % 2 == 0 => count - 1,
                _ => count,
            };
            assert_eq!(rounds.len(), least, "{count} nodes");
        }
    }

    #[test]
    fn neighbours_are_a_ring_and_one_far_away() {
        for count in 0..=200 {
            let rounds = neighbours(count);
            let pairs = match count {
                0 | 1 => 0,
                2 => 1,
                3 => 3,
                even if even % 2 == 0 => count + count / 2,
                _ => 2 * count,
            };
            assert_eq!(sound(&rounds), pairs, "{count} nodes");
            assert!(rounds.len() <= 7, "{count} nodes: {}", rounds.len());
        }
        assert_eq!(neighbours(4).len(), 3);
        let far = neighbours(64).into_iter().flatten();
        assert_eq!(far.filter(|(a, b)| b - a == 32).count(), 32);
        assert_eq!(sound(&neighbours_along_rails(5, 2)), 20);
    }

    #[test]
    fn rails_are_measured_side_by_side_and_across() {
        for (count, rails) in [(64, 8), (5, 4), (2, 1), (3, 2)] {
            let pairs = count * (count - 1) / 2;
            let along = along_rails(count, rails);
            assert_eq!(
                (sound(&along), along.len()),
                (pairs * rails, nodes(count).len())
            );
            let across = across_rails(count, rails);
            assert_eq!(sound(&across), pairs * rails * (rails - 1));
            assert!(across.iter().flatten().all(|(a, b)| a.1 != b.1));
            assert_eq!(across.len(), nodes(count).len() * (rails - 1));
            // Both together are all pairs of adapters of different nodes.
            let both: Vec<_> = along.into_iter().chain(across).collect();
            assert_eq!(sound(&both), pairs * rails * rails);
        }
        // Each of 512 adapters has 441 of other rails on other nodes: no schedule is shorter.
        assert_eq!(across_rails(64, 8).len(), 63 * 7);
        assert_eq!(across_rails(4, 1).len(), 0);
    }
}
