use super::check;
use crate::check::{Catalogue, Missing, Outcome, Verdict, judge};
use crate::fact::{Fact, Gap};
use crate::fact::{Facts, Id, Membership, Origin, Subject, node, port};

fn catalogue(subjects: &[(&str, &str)]) -> Catalogue {
    Catalogue {
        checks: subjects
            .iter()
            .map(|(s, c)| check(s, "", c).unwrap())
            .collect(),
        ..Catalogue::default()
    }
}

fn all_known(facts: &mut Facts, subject: Subject, parent: Id) {
    facts.set_members(subject, parent, Membership::Known(Origin::Stated));
}

fn outcomes(verdicts: &[Verdict]) -> Vec<(Id, &'static str)> {
    verdicts
        .iter()
        .map(|v| (v.subject, v.outcome.word()))
        .collect()
}

#[test]
fn every_instance_and_every_hole_gets_one_verdict() {
    let ports = catalogue(&[("port", "not port.intended")]);
    let mut facts = Facts::new();
    // Nobody was examined: nothing passes.
    let nothing = Outcome::Unknown(Missing::Members(Subject::Node));
    let verdicts = judge(&ports, &facts);
    assert_eq!(verdicts.len(), 1);
    assert_eq!(
        (verdicts[0].subject, verdicts[0].outcome),
        (Facts::CLUSTER, nothing)
    );

    // A node whose devices are not known, one that is known to have none, and one with three devices.
    let unknown = facts.new_node("unknown");
    let empty = facts.new_node("empty");
    all_known(&mut facts, Subject::Device, empty);
    let full = facts.new_node("full");
    all_known(&mut facts, Subject::Device, full);
    let device = |facts: &mut Facts, name: &str| facts.instance(Subject::Device, full, name);
    let whole = device(&mut facts, "whole");
    let portless = device(&mut facts, "portless");
    let partial = device(&mut facts, "partial");
    all_known(&mut facts, Subject::Port, whole);
    all_known(&mut facts, Subject::Port, portless);
    let a = facts.instance(Subject::Port, whole, "whole/1");
    let b = facts.instance(Subject::Port, whole, "whole/2");
    let c = facts.instance(Subject::Port, partial, "partial/1");
    facts.set(a, port::INTENDED, Fact::Known(true, Origin::Stated));
    facts.set(b, port::INTENDED, Fact::Known(false, Origin::Stated));
    facts.set(c, port::INTENDED, Fact::Unknown(Gap::missing("port.state")));

    let verdicts = judge(&ports, &facts);
    assert_eq!(
        outcomes(&verdicts),
        [
            (a, "passes"),
            (b, "fails"),
            (c, "unknown"),
            (unknown, "unknown"),
            (empty, "does-not-apply"),
            (portless, "does-not-apply"),
            (partial, "unknown"),
        ]
    );
    assert_eq!(
        verdicts[3].outcome,
        Outcome::Unknown(Missing::Members(Subject::Device))
    );
    assert_eq!(
        verdicts[6].outcome,
        Outcome::Unknown(Missing::Members(Subject::Port))
    );
    assert_eq!(verdicts[2].outcome, Outcome::Unknown(Missing::Facts));
    counts_add_up(&facts);
}

/// Counts again, one parent at a time.
fn expected(facts: &Facts, path: &[Subject], id: Id) -> usize {
    let [members, below @ ..] = path else {
        return 1;
    };
    let found: Vec<Id> = facts
        .all(*members)
        .filter(|m| facts.parent(*m) == Some(id))
        .collect();
    let complete =
        facts.members(*members, id).is_ok() || (*members == Subject::Node && !found.is_empty());
    let hole = usize::from(!complete || found.is_empty());
    hole + found
        .into_iter()
        .map(|m| expected(facts, below, m))
        .sum::<usize>()
}

fn counts_add_up(facts: &Facts) {
    for subject in Subject::ALL {
        let schema = subject.schema();
        let conditions = schema.facts.iter().map(|f| {
            let name = format!("{}.{}", schema.name, f.name);
            match f.ty {
                crate::fact::Type::Bool => name,
                crate::fact::Type::Texts => format!("\"a\" in {name}"),
                _ => format!("{name} != {name}"),
            }
        });
        let checks: Vec<_> = conditions
            .map(|c| check(schema.name, "", &c).unwrap())
            .collect();
        let count = checks.len();
        let mut path: Vec<Subject> = subject.scope().collect();
        path.reverse();
        let verdicts = judge(
            &Catalogue {
                checks,
                ..Catalogue::default()
            },
            facts,
        );
        assert_eq!(
            verdicts.len(),
            count * expected(facts, &path[1..], Facts::CLUSTER)
        );
        let mut seen = std::collections::HashSet::new();
        assert!(verdicts.iter().all(|v| seen.insert((v.check, v.subject))));
    }
}

#[test]
fn the_cluster_and_its_nodes_need_no_membership() {
    let mut facts = Facts::new();
    let n = facts.new_node("n");
    let both = catalogue(&[
        ("cluster", "cluster.nodes > 1"),
        ("node", "node.dev_infiniband"),
    ]);
    let verdicts = judge(&both, &facts);
    assert_eq!(
        outcomes(&verdicts),
        [(Facts::CLUSTER, "unknown"), (n, "unknown")]
    );
    counts_add_up(&facts);
    counts_add_up(&Facts::new());
}

#[test]
fn nothing_known_never_passes() {
    let mut facts = Facts::new();
    let n = facts.new_node("n");
    let d = facts.instance(Subject::Device, n, "d");
    let p = facts.instance(Subject::Port, d, "d/1");
    for condition in [
        "port.lid in [1]",
        "not port.lid in [1]",
        "port.lid != port.lid",
        "port.intended and not port.intended",
        "min(port.rate, port.rate) < port.rate",
    ] {
        let check = check("port", "", condition).unwrap();
        assert!(
            matches!(check.judge(&facts, p), Outcome::Unknown(_)),
            "{condition}"
        );
    }
}

/// Two are known to be there, and nobody knows whether there are more.
#[test]
fn what_a_number_is_at_least_decides_what_it_can() {
    let mut facts = Facts::new();
    let n = facts.new_node("n");
    let gap = Fact::Unknown(Gap::missing("gpu"));
    facts.set_at_least(n, node::GPUS, gap, 2);
    let two = Fact::Known(2, Origin::Stated);
    facts.set(n, node::DEVICES, two);
    for (condition, expected) in [
        ("node.gpus > 1", "fails"),
        ("node.gpus > 2", "unknown"),
        ("node.gpus >= 2", "fails"),
        ("node.gpus < 2", "passes"),
        ("node.gpus < 3", "unknown"),
        ("node.gpus <= 1", "passes"),
        ("node.gpus == 1", "passes"),
        ("node.gpus == 2", "unknown"),
        ("node.gpus != 1", "fails"),
        ("node.gpus != 3", "unknown"),
        ("node.devices <= node.gpus", "fails"),
        ("node.devices > node.gpus", "passes"),
        ("node.devices < node.gpus", "unknown"),
        ("not (node.gpus > 1)", "passes"),
    ] {
        // A pass needs something that is known.
        let whole = format!("({condition}) and node.devices == 2");
        let check = check("node", "", &whole).unwrap();
        assert_eq!(check.judge(&facts, n).word(), expected, "{condition}");
    }
    assert_eq!(facts.is_any(n, node::GPUS).known(), Some(&true));
}
