//! What `rdma-doctor bench pairs` measured: whom the pairs of nodes accuse.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{Ask, Probe};
use crate::fact::suspect::{self, SuspectProblem};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Percent, Subject};
use crate::measure::plan::pairs::outlier_attribution::Blame;
use crate::measure::plan::pairs::schedule::End;
use crate::measure::plan::pairs::verdict;
use crate::measure::plan::pairs::{NAME, PairDirection, Plan, Results};
use crate::sentence::shell::Command;
use crate::source::Refusal;

/// The probe. It runs over recordings only; pairs are measured by `rdma-doctor bench pairs`.
pub const PROBE: Probe = Probe::new(NAME, run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let question = Plan::question();
    let origin = Origin::Asked(question.clone());
    let members = match Results::read_known(ask.source) {
        Ok((results, missing)) => {
            state(facts, node, &results);
            match missing {
                None => Membership::Known(origin),
                // The suspects found are certain; a missing reply may hide others.
                Some(refusal) => Membership::Unknown(Gap::refused(&question, refusal)),
            }
        }
        // Nobody asked for it: to say so is the answer.
        Err(Refusal::NotAsked(_)) => Membership::Known(origin),
        Err(refusal) => Membership::Unknown(Gap::refused(&question, refusal)),
    };
    facts.set_members(Subject::Suspect, node, members);
}

fn state(facts: &mut Facts, node: Id, results: &Results) {
    let mut names: HashMap<String, u64> = HashMap::new();
    let mut seen: Vec<(Id, BTreeSet<PairDirection>)> = Vec::new();
    for found in verdict::suspects(results, facts.limits()) {
        let word = found.problem.word();
        // By its place, and not by a name that a redacted recording has not.
        let place = match found.blame {
            None | Some(Blame::Everything | Blame::Cut(_)) => String::new(),
            Some(Blame::Node(node)) => format!(" node {node}"),
            Some(Blame::Rail(rail)) => format!(" rail {rail}"),
            Some(Blame::Adapter((node, rail))) => format!(" node {node} rail {rail}"),
            Some(Blame::Pair(a, b)) => format!(" nodes {} and {} rail {}", a.0, b.0, a.1),
        };
        let name = format!("{word}{place}");
        let count = names.entry(name.clone()).or_default();
        *count += 1;
        let name = match count {
            1 => name,
            more => format!("{name} ({more})"),
        };
        let origin = Origin::derived(match found.ways.len() {
            0 => "bench pairs".to_owned(),
            1 => "bench pairs, one direction of one pair".to_owned(),
            ways => format!("bench pairs, {ways} directions of pairs"),
        });
        let id = facts.instance(Subject::Suspect, node, &name);
        let text = |text: &str| Fact::Known(text.into(), origin.clone());
        facts.know(id, suspect::PROBLEM, found.problem, &origin);
        facts.set(id, suspect::NAME, text(&found.name));
        facts.know(id, suspect::WHAT, found.what.clone(), &origin);
        if let Some(loss) = found.loss {
            facts.know(id, suspect::LOSS, Percent(loss), &origin);
            facts.know(id, suspect::SLOWED, found.slowed, &origin);
        }
        if found.problem == SuspectProblem::PacketShort {
            let commands = verdict::mtu_commands(results, &found.ways);
            facts.know(id, suspect::MTU_COMMANDS, commands, &origin);
        }
        if found.problem == SuspectProblem::FasterNetwork {
            let set = |name: &str| Command::filled(&format!("export {name}={{}}"), &[&found.name]);
            let commands = ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"].map(set);
            facts.know(id, suspect::USE_COMMANDS, Arc::from(commands), &origin);
        }
        let own = own(results, &found.ways);
        facts.know(id, suspect::OWN, own, &origin);
        // What is wrong with one way may be the reason for what else is wrong with it.
        let both = |way: &PairDirection| [*way, way.back()];
        let ways: BTreeSet<PairDirection> = found.ways.iter().flat_map(both).collect();
        for (other, others) in &seen {
            if !others.is_disjoint(&ways) {
                facts.relate(id, *other);
            }
        }
        seen.push((id, ways));
    }
}

/// The interfaces and ports of the node that recorded this, of those that these ways begin or end at. It was rank 0, whose place is the first.
fn own(results: &Results, ways: &[PairDirection]) -> Arc<[Arc<str>]> {
    let ends = ways.iter().flat_map(|way| [way.from, way.to]);
    let ends: BTreeSet<End> = ends.filter(|end| end.0 == 0).collect();
    let rails = ends.iter().filter_map(|end| results.plan.rail(*end));
    let names = rails.flat_map(|rail| [Some(&rail.interface), rail.device.as_ref()]);
    let names = names.flatten().filter(|name| !name.is_empty());
    names.map(|name| Arc::from(name.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::pairs::{Extent, Member, Rail, Silent};
    use crate::measure::plan::run::Backend;
    use crate::probe::testing::{known, run as run_probe};
    use crate::source::recording::Recording;
    use crate::source::wire::Header;

    #[test]
    fn who_is_accused_is_a_fact_and_nobody_measured_is_an_answer() {
        let rail = Rail {
            interface: "eth0".into(),
            address: "10.0.0.1".into(),
            mtu: 1500,
            speed: None,
            link: None,
            device: None,
            port: None,
            gid: None,
            gpu: None,
        };
        let member = |host: &str| Member {
            host: host.into(),
            rails: vec![rail.clone()],
        };
        let mut results = Results::new(Plan {
            backend: Backend::Tcp,
            why: None,
            extent: Extent::All,
            across: false,
            memory: crate::measure::plan::pairs::host_only(),
            nodes: vec![member("n1"), member("n2")],
            silent: vec![Silent {
                host: "n3".into(),
                why: "it did not connect".into(),
            }],
            unable: Vec::new(),
            flow_ms: 100,
            again: Vec::new(),
            others: Vec::new(),
        });
        results.complete();
        let mut recording = Recording::new(Header::default());
        for line in results.lines(0) {
            recording.add(line);
        }
        let mut facts = Facts::new();
        let node = facts.new_node("n1");
        run(&Ask::new(&recording.of(NAME)), &mut facts, node);
        let name = "silent";
        let what = known(&facts, Subject::Suspect, name, suspect::WHAT).unwrap();
        assert_eq!(what, "n3 did not respond: it did not connect");
        assert_eq!(facts.below(node, Subject::Suspect).count(), 1);
        let own = known(&facts, Subject::Suspect, name, suspect::OWN).unwrap();
        assert!(own.is_empty());
        let ends = |from, to| {
            [PairDirection {
                from: (from, 0),
                to: (to, 0),
            }]
        };
        assert_eq!(&*super::own(&results, &ends(1, 0)), [Arc::from("eth0")]);
        assert!(super::own(&results, &ends(1, 2)).is_empty());
        // Equal MTUs: the network between them takes less.
        let commands = |results: &Results| verdict::mtu_commands(results, &ends(0, 1)).to_vec();
        assert_eq!(
            commands(&results),
            [Command::of_text("tracepath -n 10.0.0.1")]
        );
        results.plan.nodes[0].rails[0].mtu = 9000;
        assert_eq!(
            commands(&results),
            [Command::of_text("ip link set eth0 mtu 9000")]
        );
        let no = r#"{"q":{"bench":"ablation"},"refused":"not-asked: nothing was measured"}"#;
        let (facts, node) = run_probe(&PROBE, &[no]);
        let members = |facts: &Facts, node| match facts.members(Subject::Suspect, node) {
            Ok(_) => Some(facts.below(node, Subject::Suspect).count()),
            Err(_) => None,
        };
        assert_eq!(members(&facts, node), Some(0));
        let (facts, node) = run_probe(&PROBE, &[]);
        assert_eq!(members(&facts, node), None);
    }
}
