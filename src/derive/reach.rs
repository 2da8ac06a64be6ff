//! What ways between nodes that were tried accuse: facts of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::comparison::Concerns;
use crate::fact::suspect::SuspectProblem;
use crate::fact::{Facts, Id, Membership, Origin, Subject, cluster, reach};
use crate::measure::plan::pairs::outlier_attribution::Blame;
use crate::measure::plan::pairs::verdict::{Suspect, has_short_packets, mtu_commands, suspects};
use crate::measure::plan::pairs::{PairDirection, Results};
use crate::measure::plan::reach::{TriedWays, Unreached};
use crate::nodeset;
use crate::sentence::{Sentence, Span};

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
    if let Some((id, blamed)) = accuse_meeting(facts, &tried.unreached)
        && let Some(leader) = blamed
    {
        concerns.insert(id, vec![leader]);
    }
    concerns
}

/// States that nodes did not reach the one at which all meet: two ends are apart, and whom several
/// do not reach is itself to blame.
fn accuse_meeting(facts: &mut Facts, unreached: &[Unreached]) -> Option<(Id, Option<Arc<str>>)> {
    let first = unreached.first()?;
    let leader: Arc<str> = first.leader.as_str().into();
    let hosts: Vec<&str> = unreached.iter().map(|one| one.host.as_str()).collect();
    let (name, what, blamed) = if let [one] = hosts.as_slice() {
        let name = format!("{one}, {leader}");
        let what = Sentence::from(Span::Node((*one).into()))
            .then(" does not reach ")
            .then(Span::Node(leader.clone()));
        (name.into(), what, None)
    } else {
        let list = nodeset::list(&hosts);
        let what = Sentence::from(Span::Node(leader.clone()))
            .then(" cannot be reached from ")
            .then(list);
        (leader.clone(), what, Some(leader.clone()))
    };
    let id = facts.instance(
        Subject::Reach,
        Facts::CLUSTER,
        &format!("meeting at {leader}"),
    );
    let origin = Origin::derived("the port at which the nodes meet");
    facts.know(id, reach::PROBLEM, SuspectProblem::Unreachable, &origin);
    facts.know(id, reach::NAME, name, &origin);
    let why = Span::Quote(first.why.as_str().into());
    let what = what.then_optionally(": ").then(why);
    facts.know(id, reach::WHAT, what, &origin);
    let both = hosts.into_iter().map(Arc::from).chain([leader]);
    facts.know(id, reach::HOSTS, both.collect(), &origin);
    Some((id, blamed))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::pairs::{
        Extent, Flow, Member, PairDirection, Plan, Rail, Reach, Results, Silent,
    };

    fn results(nodes: usize) -> Results {
        let member = |node: usize| Member {
            host: format!("n{}", node + 1),
            rails: vec![Rail {
                interface: "eth0".into(),
                address: format!("10.0.0.{}", node + 1),
                mtu: 9000,
                ..Rail::default()
            }],
        };
        let plan = Plan {
            extent: Extent::Neighbours,
            ..Plan::of((0..nodes).map(member).collect(), 25)
        };
        let mut results = Results::new(plan);
        for way in results.ways() {
            let reach = Reach {
                to: way.to.0,
                rail: 0,
                tcp: Ok(100),
                packet: Some(9000),
            };
            results.reach.entry(way.from.0).or_default().push(reach);
            let flow = Flow {
                bytes: 1 << 20,
                micros: 1000,
                segments: Some(200),
                again: Some(0),
                ..Flow::default()
            };
            results.first.insert(way, flow);
        }
        results
    }

    /// The problem, whom it concerns and whether connections stall, of each accusation.
    fn stated(results: Results) -> Vec<(SuspectProblem, Vec<Arc<str>>, bool)> {
        let mut facts = Facts::new();
        let tried = TriedWays {
            parts: vec![results],
            left_out: vec!["RDMA: n2 has no port".into()],
            unreached: Vec::new(),
        };
        let concerns = state(&mut facts, Some(&tried));
        assert_eq!(facts.known(Facts::CLUSTER, cluster::TRIED), Some(true));
        let untried = facts.known(Facts::CLUSTER, cluster::UNTRIED).unwrap();
        assert_eq!(&*untried, "RDMA: n2 has no port");
        let all = facts.all(Subject::Reach).map(|id| {
            let problem = facts.known(id, reach::PROBLEM).unwrap();
            let whom = concerns.get(&id).cloned().unwrap_or_default();
            (problem, whom, facts.known(id, reach::STALLS).unwrap())
        });
        all.collect()
    }

    fn reach_of(results: &mut Results, from: usize, to: usize) -> &mut Reach {
        let all = results.reach.get_mut(&from).unwrap();
        all.iter_mut().find(|reach| reach.to == to).unwrap()
    }

    #[test]
    fn a_node_is_accused_by_all_its_ways_and_two_ends_by_one() {
        assert_eq!(stated(results(5)), []);
        let mut cut = results(5);
        for way in cut.ways().into_iter().filter(|way| way.to.0 == 3) {
            reach_of(&mut cut, way.from.0, 3).tcp = Err("no answer".into());
        }
        let n4: Vec<Arc<str>> = vec!["n4".into()];
        assert_eq!(stated(cut), [(SuspectProblem::Unreachable, n4, false)]);
        let mut one = results(5);
        reach_of(&mut one, 0, 1).tcp = Err("refused".into());
        assert_eq!(stated(one), [(SuspectProblem::Unreachable, vec![], false)]);
        let mut lost = results(5);
        lost.plan.silent.push(Silent {
            host: "n2".into(),
            why: "its connection closed".into(),
        });
        let n2: Vec<Arc<str>> = vec!["n2".into()];
        assert_eq!(stated(lost), [(SuspectProblem::Silent, n2, false)]);
    }

    #[test]
    fn what_stalls_is_a_packet_that_is_too_large_and_no_second_fault() {
        let n3: Vec<Arc<str>> = vec!["n3".into()];
        for stalls in [false, true] {
            let mut short = results(5);
            for way in short.ways().into_iter().filter(|way| way.to.0 == 2) {
                reach_of(&mut short, way.from.0, 2).packet = Some(1500);
                if stalls {
                    short.first.insert(way, Flow::failed("no answer"));
                }
            }
            let expected = (SuspectProblem::PacketShort, n3.clone(), stalls);
            assert_eq!(stated(short), [expected]);
        }
    }

    #[test]
    fn rates_of_a_moment_accuse_nobody_and_lost_packets_do() {
        let mut slow = results(4);
        let ways = slow.ways().into_iter();
        for way in ways.filter(|way| way.from.0 == 1) {
            slow.first.get_mut(&way).unwrap().micros = 100_000;
        }
        assert_eq!(stated(slow), []);
        let mut loss = results(4);
        let way = PairDirection {
            from: (0, 0),
            to: (1, 0),
        };
        loss.first.get_mut(&way).unwrap().again = Some(20);
        assert_eq!(stated(loss), [(SuspectProblem::Loss, vec![], false)]);
    }
}
