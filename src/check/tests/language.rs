use super::check;
use crate::check::Outcome;
use crate::fact::port::{PhysState, PortState};
use crate::fact::{
    BitRate, Bytes, Fact, Facts, Gap, Id, Origin, Subject, Typed, device, node, port,
};

fn known<T: Typed>(value: T) -> Fact<T> {
    Fact::Known(value, Origin::Stated)
}

/// A port: `up` true, `down` false, `open` unknown; rate 200 of 400 Gb/s.
fn machine() -> (Facts, Id) {
    let mut facts = Facts::new();
    let n = facts.new_node("n1");
    let d = facts.instance(Subject::Device, n, "mlx5_0");
    let p = facts.instance(Subject::Port, d, "mlx5_0/1");
    facts.set(p, port::INTENDED, known(true));
    facts.set(p, port::HAS_NETDEV, known(false));
    facts.set(p, port::GID_V2, Fact::Unknown(Gap::missing("port.gid_v2")));
    facts.set(p, port::STATE, known(PortState::Active));
    facts.set(p, port::VERBS_STATE, known(PortState::Active));
    facts.set(p, port::PHYS_STATE, known(PhysState::LinkUp));
    facts.set(p, port::RATE, known(BitRate(200_000_000_000)));
    facts.set(p, port::MAX_RATE, known(BitRate(400_000_000_000)));
    facts.set(p, port::LID, known(7));
    facts.set(p, port::NETDEV, known("eth0".into()));
    facts.set(p, port::MTU, known(Bytes(4096)));
    facts.set(d, device::BOARD, known("MT_0000000838".into()));
    facts.set(n, node::MEMLOCK, known(Bytes::UNLIMITED));
    facts.set(
        n,
        node::DEFAULT_ROUTE,
        known(["eth0".into(), "eth1".into()].into()),
    );
    (facts, p)
}

/// What a condition is on the machine above.
fn holds(condition: &str) -> Option<bool> {
    let (facts, p) = machine();
    let check = check("port", "", condition).unwrap_or_else(|e| panic!("{e}"));
    match check.judge(&facts, p) {
        Outcome::Fails => Some(true),
        Outcome::Passes(_) => Some(false),
        Outcome::Unknown(_) => None,
        Outcome::DoesNotApply | Outcome::FailsIf | Outcome::Waived(_) => unreachable!(),
    }
}

#[test]
fn kleene_truth_tables() {
    let value = |name: &str| match name {
        "port.intended" => Some(true),
        "port.has_netdev" => Some(false),
        _ => None,
    };
    let names = ["port.intended", "port.has_netdev", "port.gid_v2"];
    for a in names {
        assert_eq!(holds(&format!("not {a}")), value(a).map(|v| !v));
        for b in names {
            let and = match (value(a), value(b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
            let or = match (value(a), value(b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            assert_eq!(holds(&format!("{a} and {b}")), and, "{a} and {b}");
            assert_eq!(holds(&format!("{a} or {b}")), or, "{a} or {b}");
        }
    }
}

#[test]
fn comparisons() {
    for (condition, expected) in [
        ("port.rate < port.max_rate", Some(true)),
        ("port.rate >= 200 Gb/s", Some(true)),
        ("port.rate > 200Gb/s", Some(false)),
        ("400 Gb/s == port.max_rate", Some(true)),
        ("port.rate != 0.2 Tb/s", Some(false)),
        ("port.rate <= limit.speed", Some(false)),
        ("port.rate < port.cable_rate", None),
        ("port.rate == port.rate", Some(true)),
        ("port.cable_rate == port.cable_rate", None),
        ("port.lid == 7", Some(true)),
        ("port.lid > limit.least", Some(true)),
        ("port.state == \"active\"", Some(true)),
        ("\"down\" != port.state", Some(true)),
        ("port.state == port.verbs_state", Some(true)),
        ("port.state == port.netlink_state", None),
        ("port.intended == true", Some(true)),
        ("port.intended != port.has_netdev", Some(true)),
        ("port.mtu == 4096 B", Some(true)),
        ("port.mtu < 64 MiB", Some(true)),
        ("node.memlock == unlimited", Some(true)),
        ("node.memlock < 64 GiB", Some(false)),
        ("device.board == \"MT_0000000838\"", Some(true)),
        ("port.netdev == \"a\\\"b\\\\\"", Some(false)),
    ] {
        assert_eq!(holds(condition), expected, "{condition}");
    }
}

#[test]
fn lists_and_extremes() {
    for (condition, expected) in [
        ("port.state in [\"active\", \"armed\"]", Some(true)),
        ("not port.state in [\"active\"]", Some(false)),
        ("port.state in [\"down\",]", Some(false)),
        ("port.netlink_state in [\"down\"]", None),
        ("port.lid in [1, 7]", Some(true)),
        ("port.rate in [100 Gb/s, 200 Gb/s]", Some(true)),
        ("port.netdev in [\"eth1\"]", Some(false)),
        ("port.netdev in node.default_route", Some(true)),
        ("\"eth2\" in node.default_route", Some(false)),
        ("port.rate < min(port.max_rate, 300 Gb/s)", Some(true)),
        ("port.rate < max(100 Gb/s, limit.speed)", Some(false)),
        ("min(port.rate, port.cable_rate) < 1 Gb/s", None),
        (
            "min(max(port.rate, port.max_rate), 1 Tb/s) == 400 Gb/s",
            Some(true),
        ),
    ] {
        assert_eq!(holds(condition), expected, "{condition}");
    }
}

#[test]
fn not_binds_tighter_than_and_and_and_tighter_than_or() {
    let (up, down, open) = ("port.intended", "port.has_netdev", "port.gid_v2");
    for (condition, expected) in [
        (format!("not {down} and {up}"), Some(true)),
        (format!("not ({up} and {down})"), Some(true)),
        (format!("{up} or {open} and {down}"), Some(true)),
        (format!("({up} or {open}) and {down}"), Some(false)),
        (format!("{down} and {open} or {up}"), Some(true)),
        (format!("not not {up}"), Some(true)),
        (format!("not {open} or port.rate\n\t< 400 Gb/s"), Some(true)),
        (format!("(({up}))"), Some(true)),
    ] {
        assert_eq!(holds(&condition), expected, "{condition}");
    }
}

#[test]
fn evidence_is_all_that_is_named_and_missing_is_what_matters() {
    let (facts, p) = machine();
    let check = check(
        "port",
        "port.intended and node.memlock == unlimited",
        "port.has_netdev and port.gid_v2 or port.rate < port.cable_rate or port.rate > limit.speed and port.gid_v2",
    )
    .unwrap();
    let names = |list: Vec<crate::check::Evidence>| -> Vec<String> {
        list.into_iter().map(|e| e.fact).collect()
    };
    assert_eq!(
        names(check.evidence(&facts, p)),
        [
            "port.intended",
            "node.memlock",
            "port.has_netdev",
            "port.gid_v2",
            "port.rate",
            "port.cable_rate",
            "limit.speed"
        ]
    );
    // The first `and` is false whatever the GIDs are; the third needs them.
    assert_eq!(
        names(check.missing(&facts, p)),
        ["port.cable_rate", "port.gid_v2"]
    );
    let evidence = check.evidence(&facts, p);
    assert_eq!(evidence[0].origin, Some(Origin::Stated));
    assert_eq!(evidence[3].value, Err(Gap::missing("port.gid_v2")));
    assert!(
        evidence[5]
            .value
            .as_ref()
            .is_err_and(|gap| gap.to_string() == "not established")
    );
}

#[test]
fn an_open_applies_asks_for_its_own_facts_only() {
    let (facts, p) = machine();
    let check = check("port", "port.gid_v2", "port.rate < port.cable_rate").unwrap();
    let missing = check.missing(&facts, p);
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].fact, "port.gid_v2");
}
