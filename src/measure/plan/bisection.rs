//! Which nodes make a job slow: halves of it are measured, then halves of what is slow, until the
//! smallest part is found.
//!
//! A half that is notably faster than the whole has none of what makes it slow, and its nodes are
//! *good*; one that is not is divided further. A node that is left alone is measured with a good
//! one, and with a second one before it is accused. Where both halves are faster than the whole,
//! what is slow lies between them. One bad node of N is found in log2(N) rounds of two
//! measurements.
//!
//! Each part is compared with the one that it is a half of, and never with parts of other sizes:
//! what a ring or a tree of fewer nodes reaches is close to what one of twice as many does.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::fact::Percent;
use crate::nodeset;
use crate::sentence::{Sentence, sentence};

/// The member of a plan that says that parts of its nodes were measured.
pub const BISECTED: &str = "bisected";
/// After so many parts none of which is faster than the whole, no few nodes are to blame: halves,
/// quarters and eighths.
const ALL_SLOW: usize = 14;

/// A part of the nodes.
type Part = Vec<usize>;

/// What was measured: the nodes by their numbers, and the bus bandwidth in bits per second where
/// that is valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The nodes.
    pub nodes: Part,
    /// What they reached together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busbw: Option<u64>,
}

/// All that was measured to find what is slow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// The names of the nodes, by their numbers.
    pub host: Vec<String>,
    /// What the whole reached in bits per second.
    pub whole: u64,
    /// The parts, in the order in which they were measured, one after the other.
    pub parts: Vec<Measured>,
    /// Why it ended before it was done, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// What makes the whole slow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blame {
    /// Nodes that are slow with each good one that they were measured with.
    pub nodes: Vec<usize>,
    /// Two nodes, or parts, that are fast each for themselves and slow with each other: what is
    /// between them.
    pub between: Vec<(Part, Part)>,
    /// Parts that are slow though each part of them is fast, however they are divided: what they
    /// share is too little for all of them.
    pub together: Vec<Part>,
    /// Parts that are slow, and were not divided further.
    pub open: Vec<Part>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// These parts are to be measured, one after the other: parts that are measured at once may
    /// share links, and slow each other down.
    Measure(Vec<Part>),
    /// What makes it slow; of nothing, where no part is faster than the whole.
    Done(Blame),
}

/// What a part turned out to be, beside the one that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Fast,
    Slow(u64),
    Invalid,
    /// It is to be measured.
    Open,
}

/// What is worked out of what was measured.
struct Search<'m> {
    nodes: usize,
    slow_below: Percent,
    measured: BTreeMap<&'m [usize], Option<u64>>,
    good: BTreeSet<usize>,
    wanted: Vec<Part>,
    blame: Blame,
}

/// What to measure next of so many nodes, of which all together reached so much; or what came out.
/// A part is slow where it reaches less than this share of what a half of it does.
pub fn next(nodes: usize, whole: u64, measured: &[Measured], slow_below: Percent) -> Step {
    if nodes < 3 || whole == 0 {
        return Step::Done(Blame::default());
    }
    let mut search = Search {
        nodes,
        slow_below,
        measured: measured
            .iter()
            .map(|one| (one.nodes.as_slice(), one.busbw))
            .collect(),
        good: BTreeSet::new(),
        wanted: Vec::new(),
        blame: Blame::default(),
    };
    let all: Part = (0..nodes).collect();
    // Which nodes are good decides over what is measured with them.
    loop {
        let known = search.good.len();
        search.wanted.clear();
        search.blame = Blame::default();
        search.divide(&all, whole);
        if search.good.len() == known {
            break;
        }
    }
    if search.good.is_empty() && measured.len() >= ALL_SLOW {
        return Step::Done(Blame::default());
    }
    if search.wanted.is_empty() {
        if search.good.is_empty() {
            search.blame = Blame::default();
        }
        Step::Done(search.blame)
    } else {
        Step::Measure(search.wanted)
    }
}

impl Search<'_> {
    /// What a part turned out to be, of which the one that it is of reached so much.
    fn of(&mut self, part: &[usize], above: u64) -> Found {
        match self.measured.get(part) {
            None => {
                if !self.wanted.iter().any(|wanted| wanted == part) {
                    self.wanted.push(part.to_vec());
                }
                Found::Open
            }
            Some(None) => Found::Invalid,
            Some(Some(busbw)) if (above as f64) < self.slow_below.0 / 100.0 * *busbw as f64 => {
                self.good.extend(part);
                Found::Fast
            }
            Some(Some(busbw)) => Found::Slow(*busbw),
        }
    }

    /// Looks into a part that is slow.
    fn divide(&mut self, part: &[usize], busbw: u64) {
        let (left, right) = part.split_at(part.len().div_ceil(2));
        let mut found = [Found::Open; 2];
        for (found, half) in found.iter_mut().zip([left, right]) {
            *found = match half {
                [one] => self.one(*one, part, busbw),
                half => self.of(half, busbw),
            };
        }
        match found {
            [Found::Fast, Found::Fast] => self.between(left, right, busbw),
            found => {
                for (found, half) in found.into_iter().zip([left, right]) {
                    match (found, half) {
                        (Found::Slow(_), [one]) => self.blame.nodes.push(*one),
                        (Found::Slow(busbw), half) => self.divide(half, busbw),
                        (Found::Invalid, half) => self.blame.open.push(half.to_vec()),
                        (Found::Fast | Found::Open, _) => {}
                    }
                }
            }
        }
    }

    /// What one node of a slow part turns out to be with good ones, which are not of that part
    /// where there are others.
    fn one(&mut self, one: usize, of: &[usize], above: u64) -> Found {
        let pair = |with: usize| {
            if one < with {
                vec![one, with]
            } else {
                vec![with, one]
            }
        };
        let mut partners: Vec<usize> = self.good.iter().copied().filter(|n| *n != one).collect();
        partners.sort_by_key(|n| (of.contains(n), *n));
        if partners.is_empty() {
            // Nobody is known to be good: one of these may be.
            let others = (0..self.nodes).filter(|n| of.contains(n) == (of.len() > 2) && *n != one);
            let found = others.take(2).map(|with| self.of(&pair(with), above));
            if !found.collect::<Vec<_>>().contains(&Found::Fast) {
                self.blame.open.push(of.to_vec());
            }
            return Found::Open;
        }
        let (tried, untried): (Vec<usize>, Vec<usize>) = partners
            .into_iter()
            .partition(|with| self.measured.contains_key(pair(*with).as_slice()));
        let found: Vec<(usize, Found)> = tried
            .into_iter()
            .map(|with| (with, self.of(&pair(with), above)))
            .collect();
        let slow: Vec<(usize, u64)> = found
            .iter()
            .filter_map(|(with, found)| match found {
                Found::Slow(busbw) => Some((*with, *busbw)),
                _ => None,
            })
            .collect();
        let is_fast = found.iter().any(|(_, found)| *found == Found::Fast);
        match (slow.as_slice(), is_fast, untried.first()) {
            (slow, true, _) => {
                // Slow with one good node, and fast with another.
                for (with, _) in slow {
                    let both = (vec![one.min(*with)], vec![one.max(*with)]);
                    if !self.blame.between.contains(&both) {
                        self.blame.between.push(both);
                    }
                }
                Found::Fast
            }
            ([_, (_, busbw), ..], false, _) | ([(_, busbw)], false, None) => Found::Slow(*busbw),
            (_, false, Some(with)) => self.of(&pair(*with), above),
            ([], false, None) => Found::Invalid,
        }
    }

    /// Both halves are fast, and the whole is not: what lies between them, or all together.
    fn between(&mut self, left: &[usize], right: &[usize], busbw: u64) {
        if left.len() < 2 || right.len() < 2 {
            let both = (left.to_vec(), right.to_vec());
            if !self.blame.between.contains(&both) {
                self.blame.between.push(both);
            }
            return;
        }
        // Divided across: each of these parts has nodes of both halves.
        let ((a, b), (c, d)) = (
            left.split_at(left.len() / 2),
            right.split_at(right.len() / 2),
        );
        let across = [[a, c].concat(), [b, d].concat()];
        let found = across.map(|part| self.of(&part, busbw));
        if found.contains(&Found::Open) {
            return;
        }
        let (left, right) = (left.to_vec(), right.to_vec());
        if found.iter().all(|found| *found == Found::Fast) {
            self.blame.together.push([left, right].concat())
        } else {
            self.blame.between.push((left, right))
        }
    }
}

impl Bisection {
    /// What came out: `None` where more was to be measured.
    pub fn blame(&self, slow_below: Percent) -> Option<Blame> {
        match next(self.host.len(), self.whole, &self.parts, slow_below) {
            Step::Done(blame) => Some(blame),
            Step::Measure(_) => None,
        }
    }

    /// The names of nodes, as a list.
    pub fn names(&self, nodes: &[usize]) -> String {
        let names: Vec<&str> = nodes
            .iter()
            .filter_map(|node| self.host.get(*node).map(String::as_str))
            .collect();
        let folded = nodeset::fold(&names);
        if folded.is_empty() {
            names.join(",")
        } else {
            folded
        }
    }

    /// What came out in a sentence.
    pub fn sentence(&self, slow_below: Percent) -> Sentence {
        let count = self.parts.len();
        let measured = match count {
            1 => "1 part measured".to_owned(),
            n => format!("{n} parts measured one at a time"),
        };
        if let Some(why) = &self.ended {
            let smallest = self
                .smallest_slow(slow_below)
                .map_or(String::new(), |part| {
                    format!("; the smallest slow part is {}", self.names(&part))
                });
            return sentence!("slow part not found", ": {why}", " ({measured}{smallest})");
        }
        let Some(blame) = self.blame(slow_below) else {
            return sentence!("slow part not found: parts are missing", " ({measured})");
        };
        let mut said = Vec::new();
        if !blame.nodes.is_empty() {
            let verb = match blame.nodes.len() {
                1 => "makes",
                _ => "make",
            };
            let what = self.against_others(&blame.nodes);
            let slow = format!("{} {verb} it slow", self.names(&blame.nodes));
            said.push(Sentence::from(slow).then_optionally(what));
        }
        for (left, right) in &blame.between {
            let (left, right) = (self.names(left), self.names(right));
            said.push(sentence!(
                "the network between {left} and {right} makes it slow",
                ": each is fast by itself"
            ));
        }
        for part in &blame.together {
            let names = self.names(part);
            said.push(sentence!(
                "{names} are slow together, and each part of them is fast",
                ": they share a link that is too slow for all"
            ));
        }
        for part in &blame.open {
            let names = self.names(part);
            said.push(sentence!("{names} is slow", "; it was not divided further"));
        }
        if said.is_empty() {
            said.push(
                "no part is faster than the whole: no single node or group makes it slow".into(),
            );
        }
        Sentence::joined(said, "; ").then_optionally(format!(" ({measured})"))
    }

    /// What parts with and without these nodes reach.
    fn against_others(&self, nodes: &[usize]) -> String {
        let with = |one: &&Measured| one.nodes.iter().any(|node| nodes.contains(node));
        let rates = |parts: Vec<&Measured>| -> Vec<u64> {
            parts.into_iter().filter_map(|one| one.busbw).collect()
        };
        let (with, without): (Vec<&Measured>, Vec<&Measured>) = self.parts.iter().partition(with);
        match (
            rates(with).into_iter().max(),
            rates(without).into_iter().min(),
        ) {
            (Some(with), Some(without)) if without > with => format!(
                ": parts with it reach at most {}, those without it at least {}",
                super::bandwidth_words::rate(with),
                super::bandwidth_words::rate(without)
            ),
            _ => String::new(),
        }
    }

    /// The smallest part that is no faster than the whole.
    fn smallest_slow(&self, slow_below: Percent) -> Option<Part> {
        let slow = self.parts.iter().filter(|part| {
            let busbw = part.busbw;
            busbw.is_some_and(|busbw| (self.whole as f64) >= slow_below.0 / 100.0 * busbw as f64)
        });
        let smallest = slow.min_by_key(|part| part.nodes.len());
        smallest.map(|part| part.nodes.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures until it is done, with what a part reaches in Gb/s; what came out, after how many
    /// parts and rounds.
    fn found(nodes: usize, reach: impl Fn(&[usize]) -> Option<f64>) -> (Blame, usize, usize) {
        let bits = |part: &[usize]| reach(part).map(|gigabits| (gigabits * 1e9) as u64);
        let all: Part = (0..nodes).collect();
        let whole = bits(&all).unwrap();
        let (mut measured, mut rounds) = (Vec::new(), 0);
        loop {
            match next(nodes, whole, &measured, Percent(80.0)) {
                Step::Done(blame) => return (blame, measured.len(), rounds),
                Step::Measure(parts) => {
                    rounds += 1;
                    assert!(rounds < 50, "{measured:?}");
                    for nodes in parts {
                        assert!(nodes.len() > 1 && nodes.is_sorted(), "{nodes:?}");
                        let busbw = bits(&nodes);
                        measured.push(Measured { nodes, busbw });
                    }
                }
            }
        }
    }

    /// A ring is as fast as its slowest node.
    fn ring(slow: &[usize]) -> impl Fn(&[usize]) -> Option<f64> {
        move |part| {
            Some(if part.iter().any(|n| slow.contains(n)) {
                100.0
            } else {
                390.0
            })
        }
    }

    fn nodes(blame: &Blame) -> Blame {
        Blame {
            nodes: blame.nodes.clone(),
            ..Blame::default()
        }
    }

    #[test]
    fn one_of_64_is_found_in_rounds_of_the_logarithm() {
        for bad in 0..64 {
            let (blame, parts, rounds) = found(64, ring(&[bad]));
            assert_eq!(blame.nodes, [bad]);
            assert_eq!(blame, nodes(&blame));
            // Six rounds of halves, and one more node to be sure of.
            assert!(parts <= 2 * 6 + 2 && rounds <= 8, "{bad}: {parts} {rounds}");
        }
    }

    #[test]
    fn several_are_found_wherever_they_are() {
        for (count, bad) in [
            (64, vec![3, 40]),
            (64, vec![10, 11]),
            (64, vec![0, 63]),
            (9, vec![2, 7]),
            (5, vec![4]),
            (4, vec![2]),
            (4, vec![1, 2]),
            (3, vec![0]),
            (3, vec![1]),
            (3, vec![2]),
            (16, vec![1, 6, 12]),
        ] {
            let (blame, ..) = found(count, ring(&bad));
            assert_eq!(blame.nodes, bad, "of {count}");
            assert_eq!(blame, nodes(&blame));
        }
    }

    #[test]
    fn nobody_is_accused_where_all_are_alike() {
        for count in [2, 3, 4, 7, 16, 64] {
            let (blame, parts, _) = found(count, |_| Some(390.0));
            assert_eq!(blame, Blame::default(), "of {count}");
            assert!(parts <= 2 * ALL_SLOW, "{parts}");
        }
        // Fewer nodes reach somewhat more, as trees do.
        let (blame, ..) = found(64, |part| Some(300.0 + 120.0 / (part.len() as f64).sqrt()));
        assert_eq!(blame, Blame::default());
    }

    #[test]
    fn what_is_slow_between_halves_is_no_nodes_fault() {
        let cut = |part: &[usize]| {
            let crosses = part.iter().any(|n| *n < 32) && part.iter().any(|n| *n >= 32);
            Some(if crosses { 50.0 } else { 390.0 })
        };
        let (blame, parts, _) = found(64, cut);
        assert_eq!(blame.between, [((0..32).collect(), (32..64).collect())]);
        assert!(blame.nodes.is_empty() && parts == 4, "{parts}");
        // Two nodes that are slow with each other alone.
        let pair = |part: &[usize]| {
            Some(if part.contains(&4) && part.contains(&5) {
                50.0
            } else {
                390.0
            })
        };
        let (blame, ..) = found(16, pair);
        assert_eq!(blame.between, [(vec![4], vec![5])]);
        assert!(blame.nodes.is_empty());
        // A switch that has too little for all.
        let shared = |part: &[usize]| Some(if part.len() > 8 { 150.0 } else { 390.0 });
        let (blame, ..) = found(16, shared);
        assert_eq!(blame.together, [(0..16).collect::<Part>()]);
    }

    #[test]
    fn noise_accuses_nobody_and_hides_nobody() {
        for seed in 0..200_u64 {
            // 10 % up and down, by what the part is and the seed.
            let noise = |part: &[usize]| {
                let mut hash = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for node in part {
                    hash = (hash ^ *node as u64).wrapping_mul(0x0100_0000_01b3);
                    hash ^= hash >> 29;
                }
                0.9 + 0.2 * (hash % 1000) as f64 / 1000.0
            };
            let (blame, ..) = found(32, |part| Some(390.0 * noise(part)));
            assert_eq!(blame, Blame::default(), "{seed}");
            let bad = usize::try_from(seed % 32).unwrap();
            let slow = [bad];
            let one = ring(&slow);
            let (blame, ..) = found(32, |part| Some(one(part)? * noise(part)));
            assert_eq!(blame.nodes, [bad], "{seed}");
        }
    }

    #[test]
    fn what_was_not_measured_well_is_said() {
        let broken = |part: &[usize]| ring(&[3])(part).filter(|_| part != [0, 1]);
        let (blame, ..) = found(8, broken);
        assert_eq!(blame.nodes, [3]);
        assert_eq!(blame.open, [[0, 1]]);
    }

    #[test]
    fn the_verdict_is_a_sentence() {
        let reach = ring(&[2]);
        let mut bisection = Bisection {
            host: (1..=4).map(|n| format!("n{n}")).collect(),
            whole: 100_000_000_000,
            ..Bisection::default()
        };
        assert_eq!(
            bisection.sentence(Percent(80.0)),
            "slow part not found: parts are missing (0 parts measured one at a time)"
        );
        while let Step::Measure(parts) = next(4, bisection.whole, &bisection.parts, Percent(80.0)) {
            for nodes in parts {
                let busbw = reach(&nodes).map(|gigabits| (gigabits * 1e9) as u64);
                bisection.parts.push(Measured { nodes, busbw });
            }
        }
        assert_eq!(
            bisection.sentence(Percent(80.0)),
            "n3 makes it slow: parts with it reach at most 12.5 GB/s, those without it at least 48.8 GB/s (4 parts measured one at a time)"
        );
        bisection.ended = Some("its time was up".into());
        assert_eq!(
            bisection.sentence(Percent(80.0)),
            "slow part not found: its time was up (4 parts measured one at a time; the smallest slow part is n[3-4])"
        );
    }
}
