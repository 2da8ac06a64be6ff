//! The second pass: which pairs are measured again, alone, and which of their flows count.

use std::collections::{BTreeMap, BTreeSet};

use super::schedule::End;
use super::verdict;
use super::{Flow, PairDirection, Results};
use crate::fact::Limits;
use crate::fact::suspect::SuspectProblem;

/// The most rounds of the second pass.
const AGAIN: usize = 16;

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
            ];
            !not.contains(&suspect.problem)
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

/// Keeps the flow that carried most, with the segments of all flows: the fastest lost little by chance. One that failed is kept if no other carried anything.
pub fn keep_faster(flows: &mut BTreeMap<PairDirection, Flow>, way: PairDirection, flow: Flow) {
    let Some(kept) = flows.get_mut(&way) else {
        flows.insert(way, flow);
        return;
    };
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_attempts_the_fastest_counts_with_the_losses_of_all() {
        let way = PairDirection {
            from: (0, 0),
            to: (1, 0),
        };
        let flow = |bytes, again| Flow {
            bytes,
            micros: 1000,
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
        let mut flows = BTreeMap::new();
        keep_faster(&mut flows, way, Flow::failed("refused"));
        keep_faster(&mut flows, way, Flow::failed("not tried again"));
        assert_eq!(flows[&way].failed.as_deref(), Some("refused"));
    }
}
