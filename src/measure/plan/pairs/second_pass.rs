//! The second pass: which pairs are measured again, alone, and which of their flows count.

use std::collections::{BTreeMap, BTreeSet};

use super::schedule::End;
use super::verdict;
use super::{Extent, Flow, PairDirection, Results};
use crate::fact::Limits;
use crate::fact::suspect::SuspectProblem;

/// The most rounds of the second pass.
const AGAIN: usize = 16;

/// How often a bad pair is measured alone; the fastest flow counts. What holds up a flow once, a
/// processor that is busy, seldom does it each time.
const ATTEMPTS: usize = 3;
/// How often at most, where pairs became well meanwhile: something that passes holds them up.
const ATTEMPTS_UNSTEADY: usize = 6;

/// The attempts of the second pass.
#[derive(Debug, Default)]
pub struct SecondPass {
    /// How many have begun.
    pub begun: usize,
    first: Vec<Vec<(End, End)>>,
    bad_before: usize,
}

impl SecondPass {
    /// What the next attempt measures of what is bad now; nothing where the attempts are over. What
    /// was bad at first has its attempts whatever comes of them: a loss is told by the packets of
    /// all.
    pub fn next(&mut self, bad: Vec<Vec<(End, End)>>) -> Vec<Vec<(End, End)>> {
        let count = bad.iter().map(Vec::len).sum();
        if self.begun == 0 {
            (self.first, self.bad_before) = (bad, count);
        } else if self.begun >= ATTEMPTS {
            let became_well = count < std::mem::replace(&mut self.bad_before, count);
            return if became_well && self.begun < ATTEMPTS_UNSTEADY {
                bad
            } else {
                Vec::new()
            };
        }
        self.first.clone()
    }
}

/// The bad pairs, in rounds in which no node is in two pairs: as far as possible alone.
pub fn bad_pairs(results: &Results, limits: &Limits) -> Vec<Vec<(End, End)>> {
    let suspects = verdict::suspects(results, limits);
    let bad: BTreeSet<(End, End)> = suspects
        .iter()
        .filter(|suspect| {
            // The device has retried what RDMA did not carry seven times.
            let not = [
                SuspectProblem::Silent,
                SuspectProblem::PacketShort,
                SuspectProblem::RdmaFails,
                SuspectProblem::GpuFails,
                SuspectProblem::GpuNone,
                SuspectProblem::RailsApart,
                SuspectProblem::FasterNetwork,
            ];
            // Who only tries is content with one failure; a lost packet may be one of many.
            let is_final = results.plan.extent == Extent::Neighbours
                && suspect.problem == SuspectProblem::Unreachable;
            !not.contains(&suspect.problem) && !is_final
        })
        .flat_map(|suspect| &suspect.ways)
        // A node that did not answer was asked twice already.
        .filter(|way| results.reached(**way).is_none_or(|reach| reach.tcp.is_ok()))
        .map(|way| (way.from.min(way.to), way.from.max(way.to)))
        .collect();
    let mut rounds: Vec<Vec<(End, End)>> = Vec::new();
    for (a, b) in bad {
        let is_free = |round: &Vec<(End, End)>| {
            let busy = [a.0, b.0];
            !(round.iter()).any(|(c, d)| busy.contains(&c.0) || busy.contains(&d.0))
        };
        match rounds.iter().position(is_free) {
            Some(at) => rounds[at].push((a, b)),
            None if rounds.len() < AGAIN => rounds.push(vec![(a, b)]),
            None => {}
        }
    }
    rounds
}

/// Keeps the flow that carried most, with the segments of all flows, since the fastest lost little
/// by chance, and the least round trip of all. One that failed is kept if no other carried
/// anything.
pub fn keep_faster(flows: &mut BTreeMap<PairDirection, Flow>, way: PairDirection, flow: Flow) {
    let Some(kept) = flows.get_mut(&way) else {
        flows.insert(way, flow);
        return;
    };
    let round_trip = [kept.round_trip_ns, flow.round_trip_ns];
    let round_trip = round_trip.into_iter().flatten().min();
    let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    let (segments, again) = match (&kept.failed, &flow.failed) {
        (_, Some(_)) => return,
        (Some(_), None) => (flow.segments, flow.again),
        (None, None) => (
            sum(kept.segments, flow.segments),
            sum(kept.again, flow.again),
        ),
    };
    if flow.rate() > kept.rate() {
        *kept = flow;
    }
    (kept.segments, kept.again) = (segments, again);
    kept.round_trip_ns = round_trip;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_become_well_give_the_others_more_attempts() {
        let bad = |count| vec![vec![((0, 0), (1, 0))]; count];
        // (bad before each attempt, how many are measured)
        let runs: [(&[usize], usize); 4] = [
            (&[2, 2, 2, 2, 2], 3),
            (&[2, 0, 0, 0, 0], 3),
            (&[2, 0, 0, 1, 1], 4),
            (&[9, 8, 7, 6, 5, 4, 3, 2], 6),
        ];
        for (counts, attempts) in runs {
            let mut pass = SecondPass::default();
            for count in counts {
                if pass.next(bad(*count)).is_empty() {
                    break;
                }
                pass.begun += 1;
            }
            assert_eq!(pass.begun, attempts, "{counts:?}");
        }
    }

    #[test]
    fn of_several_attempts_the_fastest_counts_with_the_losses_of_all() {
        let way = PairDirection {
            from: (0, 0),
            to: (1, 0),
        };
        let flow = |bytes, again| Flow {
            bytes,
            micros: 1000,
            round_trip_ns: Some(bytes * 100),
            segments: Some(100),
            again: Some(again),
            ..Flow::default()
        };
        let mut flows = BTreeMap::new();
        for one in [
            flow(5, 3),
            flow(9, 0),
            Flow::failed("not tried again"),
            flow(7, 2),
        ] {
            keep_faster(&mut flows, way, one);
        }
        let kept = &flows[&way];
        assert_eq!((kept.bytes, kept.failed.as_deref()), (9, None));
        assert_eq!((kept.segments, kept.again), (Some(300), Some(5)));
        // The fastest need not be the one that waited least for a processor.
        assert_eq!(kept.round_trip_ns, Some(500));
        let mut flows = BTreeMap::new();
        keep_faster(&mut flows, way, Flow::failed("refused"));
        keep_faster(&mut flows, way, Flow::failed("not tried again"));
        assert_eq!(flows[&way].failed.as_deref(), Some("refused"));
    }
}
