//! Which nodes can measure together: the fewest are left out so that all others carry data to each
//! other.

use std::collections::{BTreeMap, BTreeSet};

use super::{PairDirection, Results};

/// The nodes to leave out, by their places: those of which nothing is heard, and of pairs that
/// carry nothing the node that has most of them. The first node, which leads, comes last.
pub fn left_out(results: &Results) -> BTreeSet<usize> {
    let plan = &results.plan;
    let silent: BTreeSet<&str> = plan.silent.iter().map(|one| one.host.as_str()).collect();
    let mut left_out = BTreeSet::new();
    for (node, member) in plan.nodes.iter().enumerate() {
        if silent.contains(member.host.as_str()) {
            left_out.insert(node);
        }
    }
    let ways = results.ways().into_iter();
    let mut broken: Vec<PairDirection> =
        ways.filter(|way| carries_nothing(results, *way)).collect();
    loop {
        broken.retain(|way| !left_out.contains(&way.from.0) && !left_out.contains(&way.to.0));
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for way in &broken {
            *counts.entry(way.from.0).or_default() += 1;
            *counts.entry(way.to.0).or_default() += 1;
        }
        // Of several that have as many, the last.
        match counts
            .into_iter()
            .max_by_key(|(node, count)| (*count, *node))
        {
            Some((node, _)) => left_out.insert(node),
            None => return left_out,
        };
    }
}

/// Whether no data passes this way, or no connection opens.
fn carries_nothing(results: &Results, way: PairDirection) -> bool {
    let unreached = results.reached(way).is_some_and(|reach| reach.tcp.is_err());
    unreached || results.flow(way).is_some_and(|flow| flow.failed.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::{Flow, Member, Plan, Silent};
    use super::*;
    use crate::measure::plan::pairs::Rail;

    fn without(broken: &[(usize, usize)], silent: &[&str]) -> Vec<usize> {
        let member = |node: usize| Member {
            host: format!("n{node}"),
            rails: vec![Rail::default()],
        };
        let silent = silent.iter().map(|host| Silent {
            host: (*host).into(),
            why: "gone".into(),
        });
        let mut results = Results::new(Plan {
            silent: silent.collect(),
            ..Plan::of((0..4).map(member).collect(), 300)
        });
        for way in results.ways() {
            let flow = match broken.contains(&(way.from.0, way.to.0)) {
                true => Flow::failed("no answer"),
                false => Flow::default(),
            };
            results.first.insert(way, flow);
        }
        left_out(&results).into_iter().collect()
    }

    #[test]
    fn the_fewest_nodes_are_left_out() {
        assert_eq!(without(&[], &[]), [0; 0]);
        assert_eq!(without(&[(0, 3), (1, 3), (2, 3)], &[]), [3]);
        assert_eq!(without(&[(3, 0), (3, 1)], &["n1"]), [1, 3]);
        // Of two ends one is enough, and never the first node, which leads.
        assert_eq!(without(&[(0, 2)], &[]), [2]);
        assert_eq!(without(&[(1, 3)], &[]).len(), 1);
        // Unless it is the one that nobody reaches.
        assert_eq!(without(&[(1, 0), (2, 0), (3, 0)], &[]), [0]);
    }
}
