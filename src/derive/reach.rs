//! What ways between nodes that were tried accuse: facts of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::comparison::Concerns;
use crate::fact::suspect::SuspectProblem;
use crate::fact::{Facts, Id, Membership, Origin, Percent, Subject, cluster, reach};
use crate::measure::plan::pairs::outlier_attribution::Blame;
use crate::measure::plan::pairs::verdict::{Suspect, has_short_packets, mtu_commands, suspects};
use crate::measure::plan::pairs::{PairDirection, Results};
use crate::measure::plan::reach::TriedWays;

/// States what came of the ways, and gives the nodes that each accusation concerns: of two ends
/// that do not reach each other it is neither.
pub fn state(facts: &mut Facts, tried: Option<&TriedWays>) -> Concerns {
    let mut concerns = Concerns::new();
    let how = "ways between nodes that were tried";
    facts.derive(Facts::CLUSTER, cluster::TRIED, tried.is_some(), how);
    let members = Membership::Known(Origin::derived(how));
    facts.set_members(Subject::Reach, Facts::CLUSTER, members);
    let Some(tried) = tried else {
        return concerns;
    };
    let untried: Arc<str> = tried.left_out.join("; ").into();
    facts.derive(Facts::CLUSTER, cluster::UNTRIED, untried, how);
    for (part, results) in tried.parts.iter().enumerate() {
        let all = suspects(results, facts.limits());
        let (stalled, found): (Vec<Suspect>, Vec<Suspect>) = all.into_iter().partition(|found| {
            found.problem == SuspectProblem::Unreachable && is_stalled(results, found)
        });
        for (number, found) in found.into_iter().enumerate() {
            let name = format!("{} {part}.{number}", found.problem.word());
            let id = facts.instance(Subject::Reach, Facts::CLUSTER, &name);
            accuse(facts, id, results, &found);
            let shares_way =
                |other: &Suspect| other.ways.iter().any(|way| found.ways.contains(way));
            facts.derive(id, reach::STALLS, stalled.iter().any(shares_way), how);
            let accused = accused(results, &found);
            if let Some(host) = accused {
                concerns.insert(id, vec![host]);
            }
        }
    }
    concerns
}

/// Whether connections opened, and nothing passed but small packets.
fn is_stalled(results: &Results, found: &Suspect) -> bool {
    found
        .ways
        .iter()
        .all(|way| has_short_packets(results, *way))
}

fn accuse(facts: &mut Facts, id: Id, results: &Results, found: &Suspect) {
    let ways = &found.ways;
    let how = match ways.len() {
        0 => "ways between nodes".to_owned(),
        1 => "one way between nodes, one direction".to_owned(),
        count => format!("ways between nodes, {count} directions"),
    };
    let origin = Origin::derived(how);
    facts.know(id, reach::PROBLEM, found.problem, &origin);
    let name: Arc<str> = found.name.as_str().into();
    facts.know(id, reach::NAME, name, &origin);
    facts.know(id, reach::WHAT, found.what.clone(), &origin);
    facts.know(id, reach::HOSTS, hosts(results, ways), &origin);
    facts.know(
        id,
        reach::MTU_COMMANDS,
        mtu_commands(results, ways),
        &origin,
    );
    let loss = Percent(found.loss.unwrap_or(0.0));
    facts.know(id, reach::LOSS, loss, &origin);
}

fn host(results: &Results, node: usize) -> Option<Arc<str>> {
    let member = results.plan.nodes.get(node)?;
    Some(member.host.as_str().into())
}

/// The nodes at the ends of these ways.
fn hosts(results: &Results, ways: &[PairDirection]) -> Arc<[Arc<str>]> {
    let nodes = ways.iter().flat_map(|way| [way.from.0, way.to.0]);
    let nodes: BTreeSet<usize> = nodes.collect();
    nodes
        .into_iter()
        .filter_map(|node| host(results, node))
        .collect()
}

/// The one node that is to blame, where it is one.
fn accused(results: &Results, found: &Suspect) -> Option<Arc<str>> {
    match found.blame {
        None => Some(found.name.as_str().into()),
        Some(Blame::Node(node) | Blame::Adapter((node, _))) => host(results, node),
        Some(Blame::Pair(..) | Blame::Rail(_) | Blame::Everything | Blame::Cut(_)) => None,
    }
}
