use std::sync::Arc;

use super::*;
use crate::fact::comparison::{self, ComparedProperty};
use crate::sentence::shell::Command;

const KIND: &str = "nodes with GPUs 10de:2330";

fn node(name: &str, mtu: Result<&str, &str>) -> Sample {
    let text = |text: &str| Arc::<str>::from(text);
    Sample {
        printed: Vec::new(),
        listed_ports: Vec::new(),
        name: text(name),
        realm: Realm::Shared(text("none")),
        boot: Some(text(&format!("boot of {name}"))),
        kind: Ok(text(KIND)),
        whole: true,
        properties: vec![Property {
            of: ComparedProperty::NetdevMtu,
            group: text(KIND),
            value: mtu.map(text).map_err(text),
        }],
        netdevs: vec![
            (text("ens1np0"), Some(Bytes(1500))),
            (text("ens2np0"), None),
        ],
        devices: vec![text("mlx5_0")],
        open: Vec::new(),
        own: Vec::new(),
        own_open: Vec::new(),
        clock: None,
        neighbours: Default::default(),
        figures: Vec::new(),
        variables: Ok(Vec::new()),
    }
}

fn stated(samples: Vec<Sample>) -> Facts {
    stated_with(samples, |_| {}).0
}

fn stated_with(samples: Vec<Sample>, also: impl FnOnce(&mut Table)) -> (Facts, Concerns) {
    let (mut facts, mut table) = (Facts::new(), Table::new());
    samples.into_iter().for_each(|sample| table.add(sample));
    also(&mut table);
    let concerns = table.state(&mut facts);
    (facts, concerns)
}

fn of(facts: &Facts, of: ComparedProperty) -> Id {
    let found = facts
        .all(Subject::Comparison)
        .find(|id| facts.known(*id, comparison::OF) == Some(of));
    found.unwrap_or_else(|| panic!("nothing of {of:?}"))
}

/// Agreement, majority, what the majority has, and who is odd.
fn mtu(
    nodes: &[(&str, Result<&str, &str>)],
) -> (Option<bool>, Option<bool>, Option<String>, String) {
    let facts = stated(nodes.iter().map(|(name, mtu)| node(name, *mtu)).collect());
    let id = of(&facts, ComparedProperty::NetdevMtu);
    (
        facts.known(id, comparison::AGREE),
        facts.known(id, comparison::MAJORITY),
        facts.known(id, comparison::VALUE).map(|v| v.to_string()),
        facts.known(id, comparison::ODD).unwrap().to_string(),
    )
}

#[test]
fn the_odd_one_is_named_exactly_where_there_is_a_majority() {
    let (yes, no) = (Some(true), Some(false));
    let value = |text: &str| Some(text.to_owned());
    assert_eq!(
        mtu(&[("a", Ok("9")), ("b", Ok("9")), ("c", Ok("9"))]),
        (yes, yes, value("9"), "".into())
    );
    assert_eq!(
        mtu(&[("a", Ok("9")), ("b", Ok("1")), ("c", Ok("9"))]),
        (no, yes, value("9"), "b".into())
    );
    // Two that differ have no majority: both are named.
    assert_eq!(
        mtu(&[("a", Ok("9")), ("b", Ok("1"))]),
        (no, no, value("none"), "b,a".into())
    );
    assert_eq!(
        mtu(&[
            ("n1", Ok("9")),
            ("n2", Ok("9")),
            ("n3", Ok("1")),
            ("n4", Ok("1"))
        ]),
        (no, no, value("none"), "n[1-4]".into())
    );
}

#[test]
fn silence_can_cost_a_majority_and_never_turns_it() {
    let (no, unknown) = (Some(false), None);
    let gap = Err("permission denied");
    assert_eq!(
        mtu(&[("a", Ok("9")), ("b", Ok("9")), ("c", gap)]).0,
        unknown
    );
    assert_eq!(
        mtu(&[("a", Ok("9")), ("b", Ok("9")), ("c", gap)]).1,
        Some(true)
    );
    assert_eq!(mtu(&[("a", Ok("9")), ("b", gap)]).1, unknown);
    // Three of four could still be either.
    let (agree, majority, _, odd) =
        mtu(&[("a", Ok("9")), ("b", Ok("9")), ("c", Ok("1")), ("d", gap)]);
    assert_eq!((agree, majority), (no, unknown));
    assert_eq!(odd, "a,b,c");
    assert_eq!(
        mtu(&[("a", Ok("9")), ("b", Ok("8")), ("c", Ok("7")), ("d", gap)]).1,
        no
    );
}

#[test]
fn nodes_of_unknown_kind_leave_their_comparison_unknown() {
    let mut samples: Vec<Sample> = ["n1", "n2", "n3", "n4"]
        .map(|name| node(name, Ok("9")))
        .into();
    for sample in &mut samples {
        sample.kind = Err("PCI functions are unknown".into());
        // Without a kind nothing of it is taken.
        sample.properties.clear();
    }
    let facts = stated(samples);
    for &property in ComparedProperty::ALIKE {
        let id = of(&facts, property);
        assert_eq!(facts.known(id, comparison::AGREE), None, "{property:?}");
    }
    let rate = of(&facts, ComparedProperty::Rate);
    assert_eq!(facts.known(rate, comparison::SILENT), Some(4));
}

#[test]
fn one_node_is_compared_with_nobody() {
    let facts = stated(vec![node("a", Ok("9"))]);
    assert_eq!(facts.all(Subject::Comparison).count(), 0);
    assert!(facts.members(Subject::Comparison, Facts::CLUSTER).is_ok());
}

#[test]
fn a_node_of_another_kind_is_none_of_the_odd_ones() {
    let mut login = node("login1", Ok("1500"));
    login.kind = Ok("login nodes".into());
    login.properties[0].group = "login nodes".into();
    let facts = stated(vec![node("a", Ok("9")), node("b", Ok("9")), login]);
    let all: Vec<Id> = facts
        .all(Subject::Comparison)
        .filter(|id| facts.known(*id, comparison::OF) == Some(ComparedProperty::NetdevMtu))
        .collect();
    assert_eq!(all.len(), 1, "the login node is alone in its group");
    assert_eq!(facts.known(all[0], comparison::AGREE), Some(true));
    let kinds = of(&facts, ComparedProperty::Kinds);
    assert_eq!(facts.known(kinds, comparison::AGREE), Some(false));
}

#[test]
fn who_was_expected_and_is_silent_keeps_agreement_open() {
    let (facts, concerns) = stated_with(vec![node("n1", Ok("9")), node("n2", Ok("9"))], |table| {
        table.expect(["n1", "n2.dc", "n3"].map(Arc::from));
    });
    let id = of(&facts, ComparedProperty::NetdevMtu);
    assert_eq!(facts.known(id, comparison::AGREE), None);
    assert_eq!(facts.known(id, comparison::MAJORITY), Some(true));
    let id = of(&facts, ComparedProperty::Presence);
    assert_eq!(facts.known(id, comparison::COMPLETE), Some(false));
    assert_eq!(
        facts.known(id, comparison::SUMMARY).unwrap(),
        "n3 did not respond, 2 others answered: no recording of it is here"
    );
    assert_eq!(concerns[&id], ["n3".into()]);
}

#[test]
fn a_recording_that_cannot_be_read_is_counted_once() {
    let (facts, concerns) = stated_with(vec![node("n1", Ok("9"))], |table| {
        table.is_silent("n2", "not a recording: it is empty");
        table.is_silent("rec-3", "not a recording: it is empty");
        table.expect(["n1", "n2", "n3"].map(Arc::from));
    });
    let id = of(&facts, ComparedProperty::Presence);
    assert_eq!(concerns[&id], ["n2".into(), "n3".into()]);
}

#[test]
fn expected_names_and_pseudonyms_are_not_compared() {
    let redacted = |name: &str| Sample {
        realm: Realm::Alone,
        ..node(name, Ok("9"))
    };
    let complete = |expected: &[&str]| {
        let (facts, _) = stated_with(vec![redacted("host-1"), redacted("host-2")], |table| {
            table.expect(expected.iter().map(|n| Arc::from(*n)));
        });
        facts.known(of(&facts, ComparedProperty::Presence), comparison::COMPLETE)
    };
    assert_eq!(complete(&["n1", "n2"]), None);
    assert_eq!(
        complete(&["n1", "n2", "n3"]),
        Some(false),
        "two are fewer than three"
    );
}

fn with_own(name: &str, of: ComparedProperty, value: &str) -> Sample {
    Sample {
        own: vec![(of, value.into(), "eth0".into())],
        ..node(name, Ok("9"))
    }
}

#[test]
fn what_two_machines_share_is_named_with_both() {
    let distinct = |samples: Vec<Sample>| {
        let facts = stated(samples);
        let id = of(&facts, ComparedProperty::Address);
        (
            facts.known(id, comparison::DISTINCT),
            facts.known(id, comparison::SUMMARY).unwrap().to_string(),
        )
    };
    let address = |name: &str, value: &str| with_own(name, ComparedProperty::Address, value);
    assert_eq!(
        distinct(vec![address("a", "10.0.0.1"), address("b", "10.0.0.1")]),
        (
            Some(false),
            "address 10.0.0.1 is that of a (eth0) and b (eth0)".into()
        )
    );
    let both = stated(vec![address("a", "10.0.0.1"), address("b", "10.0.0.1")]);
    let id = of(&both, ComparedProperty::Address);
    let commands = both.known(id, comparison::COMMANDS).unwrap();
    assert_eq!(*commands, [Command::of_text("arping -D -I eth0 10.0.0.1")]);
    assert_eq!(
        distinct(vec![address("a", "10.0.0.1"), address("b", "10.0.0.2")]).0,
        Some(true)
    );
    // Two containers of one machine, or one machine recorded twice.
    let again = Sample {
        boot: Some("boot of a".into()),
        ..address("b", "10.0.0.1")
    };
    assert_eq!(
        distinct(vec![address("a", "10.0.0.1"), again]).0,
        Some(true)
    );
    // Pseudonyms of their own neither clash nor differ.
    let redacted = |name: &str| {
        let mut sample = address(name, "10.0.0.1");
        sample.realm = Realm::Alone;
        sample.own.clear();
        sample
            .own_open
            .push((ComparedProperty::Address, own::ALONE.into()));
        sample
    };
    assert_eq!(distinct(vec![redacted("a"), redacted("b")]).0, None);
    let keyed = |name: &str, key: &str| Sample {
        realm: Realm::Shared(key.into()),
        ..address(name, &format!("10.0.0.{name}"))
    };
    assert_eq!(
        distinct(vec![keyed("1", "k"), keyed("2", "k")]).0,
        Some(true)
    );
    assert_eq!(distinct(vec![keyed("1", "k"), keyed("2", "j")]).0, None);
}

#[test]
fn machines_of_one_name_and_recordings_of_one_machine_are_told_apart() {
    let twin = |boot: Option<&str>| Sample {
        boot: boot.map(Arc::from),
        ..node("a", Ok("9"))
    };
    let both = |samples: Vec<Sample>| {
        let facts = stated(samples);
        let known = |which| facts.known(of(&facts, which), comparison::DISTINCT);
        (
            known(ComparedProperty::Machine),
            known(ComparedProperty::HostName),
        )
    };
    assert_eq!(
        both(vec![twin(Some("x")), twin(Some("x"))]),
        (Some(false), Some(true))
    );
    assert_eq!(
        both(vec![twin(Some("x")), twin(Some("y"))]),
        (Some(true), Some(false))
    );
    assert_eq!(both(vec![twin(Some("x")), twin(None)]), (None, None));
    assert_eq!(
        both(vec![twin(None), node("b", Ok("9"))]),
        (None, Some(true))
    );
}

#[test]
fn machines_that_were_resumed_from_one_memory_are_told_apart_by_their_guids() {
    let with = |name: &str, guids: &[&str]| Sample {
        boot: Some("x".into()),
        own: guids
            .iter()
            .map(|guid| (ComparedProperty::Guid, Arc::from(*guid), "mlx5_0/1".into()))
            .collect(),
        ..node(name, Ok("9"))
    };
    let said = |samples: Vec<Sample>| {
        let facts = stated(samples);
        let known = |which| facts.known(of(&facts, which), comparison::DISTINCT);
        (
            known(ComparedProperty::Machine),
            known(ComparedProperty::HostName),
        )
    };
    let clones = vec![with("a", &["1", "2"]), with("a", &["3", "4"])];
    assert_eq!(said(clones), (Some(true), Some(false)));
    // A container has some of a machine's ports, or none.
    for few in [&["2"][..], &[]] {
        let both = vec![with("a", &["1", "2"]), with("a", few)];
        assert_eq!(said(both), (Some(false), Some(true)), "{few:?}");
    }
}

#[test]
fn a_variable_that_others_set_is_unset_here() {
    let with = |name: &str, variables: &[(&str, &str)]| Sample {
        variables: Ok(variables
            .iter()
            .map(|(name, value)| (Arc::from(*name), Ok(Arc::from(*value))))
            .collect()),
        ..node(name, Ok("9"))
    };
    let facts = stated(vec![
        with("a", &[("NCCL_IB_TC", "106")]),
        with("b", &[("NCCL_IB_TC", "106")]),
        with("c", &[]),
    ]);
    let id = of(&facts, ComparedProperty::NcclVariable);
    assert_eq!(
        facts.known(id, comparison::SUMMARY).unwrap(),
        "c of 3: NCCL_IB_TC unset, 2 others 106"
    );
    let open = Sample {
        variables: Err("permission denied".into()),
        ..node("c", Ok("9"))
    };
    let facts = stated(vec![
        with("a", &[("NCCL_IB_TC", "1")]),
        with("b", &[("NCCL_IB_TC", "1")]),
        open,
    ]);
    assert_eq!(
        facts.known(
            of(&facts, ComparedProperty::NcclVariable),
            comparison::AGREE
        ),
        None
    );
}

#[test]
fn the_cost_is_in_proportion_to_the_nodes() {
    // Each node with a value of its own is the worst case: a quadratic search would take minutes.
    let samples = (0..20_000)
        .map(|n| node(&format!("n{n}"), Ok(&format!("{n}"))))
        .collect();
    let facts = stated(samples);
    assert_eq!(
        facts.known(
            of(&facts, ComparedProperty::NetdevMtu),
            comparison::MAJORITY
        ),
        Some(false)
    );
}

#[test]
fn each_network_device_of_the_odd_nodes_has_its_command() {
    let commands = |b: Sample| {
        let facts = stated(vec![node("a", Ok("9000 B")), b, node("c", Ok("9000 B"))]);
        let id = of(&facts, ComparedProperty::NetdevMtu);
        let commands = facts.known(id, comparison::COMMANDS).unwrap();
        commands
            .iter()
            .map(|one| one.text().to_owned())
            .collect::<Vec<String>>()
    };
    let each = commands(node("b", Ok("1500 B")));
    assert_eq!(
        each,
        [
            "ip link set ens1np0 mtu 9000",
            "ip link set ens2np0 mtu 9000"
        ]
    );
    // The one that has the MTU of the others is not at fault.
    let mut half = node("b", Ok("1500 B, 9000 B"));
    half.netdevs[1].1 = Some(Bytes(9000));
    assert_eq!(commands(half), ["ip link set ens1np0 mtu 9000"]);
    let nameless = Sample {
        netdevs: Vec::new(),
        ..node("b", Ok("1500 B"))
    };
    let each = commands(nameless);
    assert_eq!(each, ["ip link set NETDEV mtu 9000"]);
}

#[test]
fn a_roce_port_beside_infiniband_is_not_named_for_its_mtu() {
    let with_infiniband = |name: &str, mtu: &str| {
        let mut sample = node(name, Ok("9000 B"));
        sample.properties = vec![Property {
            of: ComparedProperty::RdmaMtu,
            group: "InfiniBand ports of hosts".into(),
            value: Ok(mtu.into()),
        }];
        sample
    };
    let nodes = [("a", "4096 B"), ("b", "2048 B"), ("c", "4096 B")];
    let facts = stated(nodes.map(|(name, mtu)| with_infiniband(name, mtu)).into());
    let id = of(&facts, ComparedProperty::RdmaMtu);
    let netdevs = facts.known(id, comparison::NETDEVS).unwrap();
    assert_eq!(*netdevs, ["NETDEV".into()]);
}
