use super::*;
use crate::fact::port::OperState;
use crate::fact::{BitRate, Bytes};
use crate::probe::routing::testing::route;
use crate::probe::testing::{known, run};

const DEVICES: &str = r#"{"q":{"list":"/sys/class/infiniband"},"names":["d"]}"#;
const NO_DEVICES: &str = r#"{"q":{"list":"/sys/class/infiniband"},"names":[]}"#;
const PORTS: &str = r#"{"q":{"list":"/sys/class/infiniband/d/ports"},"names":["1","2"]}"#;
const PORT: &str = r#"{"q":{"list":"/sys/class/infiniband/d/ports"},"names":["1"]}"#;
const NO_ROUTE: &str = r#"{"q":{"read":"/proc/net/route"},"text":"Iface\tDestination\n"}"#;
const ROUTE: &str = r#"{"q":{"read":"/proc/net/route"},"text":"Iface\tDestination\tGateway\nbond0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"}"#;

fn read(path: &str, text: &str) -> String {
    format!(r#"{{"q":{{"read":"{path}"}},"text":"{text}\n"}}"#)
}

fn list(path: &str, names: &str) -> String {
    let names: Vec<String> = names.split_whitespace().map(|n| format!("{n:?}")).collect();
    format!(
        r#"{{"q":{{"list":"{path}"}},"names":[{}]}}"#,
        names.join(",")
    )
}

fn gone(path: &str) -> [String; 2] {
    ["read", "list"].map(|verb| format!(r#"{{"q":{{"{verb}":"{path}"}},"errno":"ENOENT"}}"#))
}

fn facts_of(fixed: &[&str], more: Vec<String>) -> (Facts, Id) {
    let mut lines: Vec<&str> = fixed.to_vec();
    lines.extend(more.iter().map(String::as_str));
    run(&PROBE, &lines)
}

fn netdev(facts: &Facts, port: &str) -> (Option<bool>, Option<String>) {
    (
        known(facts, Subject::Port, port, port::HAS_NETDEV),
        known(facts, Subject::Port, port, port::NETDEV).map(|n| n.to_string()),
    )
}

#[test]
fn soft_roce_names_its_parent() {
    let (facts, node) = facts_of(
        &[DEVICES, PORT, NO_ROUTE],
        vec![read("/sys/class/infiniband/d/parent", "eth0")],
    );
    assert_eq!(netdev(&facts, "d/1"), (Some(true), Some("eth0".into())));
    assert!(facts.members(Subject::Netdev, node).is_ok());
    let id = facts.all(Subject::Netdev).next().unwrap();
    let port = facts.all(Subject::Port).next().unwrap();
    assert!(facts.touches(id, port));
    assert_eq!(facts.known(id, netdev::PORTS).unwrap().join(" "), "d/1");
}

#[test]
fn roce_by_its_gids_and_a_bond_that_carries_the_default_route() {
    let dir = "/sys/class/infiniband/d";
    let (facts, node) = facts_of(
        &[DEVICES, PORT, ROUTE],
        vec![
            list(dir, "device node_type ports"),
            read(&format!("{dir}/ports/1/link_layer"), "Ethernet"),
            list(&format!("{dir}/ports/1/gid_attrs/ndevs"), "0 1 10 2"),
            format!(r#"{{"q":{{"read":"{dir}/ports/1/gid_attrs/ndevs/0"}},"errno":"EINVAL"}}"#),
            read(&format!("{dir}/ports/1/gid_attrs/ndevs/1"), "ens1f0np0"),
            list("/sys/class/net/ens1f0np0", "flags upper_bond0"),
            read("/sys/class/net/ens1f0np0/flags", "0x1803"),
            read("/sys/class/net/ens1f0np0/operstate", "up"),
            read("/sys/class/net/ens1f0np0/mtu", "9000"),
            read("/sys/class/net/ens1f0np0/speed", "100000"),
            read("/sys/class/net/ens1f0np0/carrier_changes", "2"),
            r#"{"q":{"read":"/sys/class/net/ens1f0np0/carrier"},"errno":"EINVAL"}"#.to_owned(),
        ],
    );
    assert_eq!(
        netdev(&facts, "d/1"),
        (Some(true), Some("ens1f0np0".into()))
    );
    let name = "ens1f0np0";
    assert_eq!(known(&facts, Subject::Netdev, name, netdev::UP), Some(true));
    assert_eq!(
        known(&facts, Subject::Netdev, name, netdev::OPERSTATE),
        Some(OperState::Up)
    );
    assert_eq!(
        known(&facts, Subject::Netdev, name, netdev::MTU),
        Some(Bytes(9000))
    );
    assert_eq!(
        known(&facts, Subject::Netdev, name, netdev::SPEED),
        Some(BitRate(100_000_000_000))
    );
    assert_eq!(
        known(&facts, Subject::Netdev, name, netdev::CARRIER_CHANGES),
        Some(2)
    );
    assert_eq!(
        known(&facts, Subject::Netdev, name, netdev::DEFAULT_ROUTE),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::Netdev, "bond0", netdev::DEFAULT_ROUTE),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::Netdev, "bond0", netdev::PORTS)
            .unwrap()
            .len(),
        0
    );
    assert_eq!(
        facts.known(node, node::DEFAULT_ROUTE).unwrap().join(" "),
        "bond0"
    );
}

#[test]
fn two_ports_of_ipoib_with_a_second_partition() {
    let dir = "/sys/class/infiniband/d";
    let net = format!("{dir}/device/net");
    let (facts, _) = facts_of(
        &[DEVICES, PORTS, NO_ROUTE],
        vec![
            list(dir, "device ports"),
            list(&net, "ib0 ib0.8001 ib1"),
            read(&format!("{net}/ib0/dev_port"), "0"),
            read(&format!("{net}/ib0/dev_id"), "0x0"),
            read(&format!("{net}/ib0.8001/dev_port"), "0"),
            read(&format!("{net}/ib0.8001/dev_id"), "0x0"),
            // An older kernel counts in dev_id only.
            read(&format!("{net}/ib1/dev_port"), "0"),
            read(&format!("{net}/ib1/dev_id"), "0x1"),
        ],
    );
    assert_eq!(netdev(&facts, "d/1").1.as_deref(), Some("ib0"));
    assert_eq!(netdev(&facts, "d/2").1.as_deref(), Some("ib1"));
}

#[test]
fn none_is_said_only_where_the_listing_says_so() {
    let dir = "/sys/class/infiniband/d";
    let mut lines = vec![
        list(dir, "device ports"),
        list(&format!("{dir}/device"), "driver infiniband"),
    ];
    lines.extend(gone(&format!("{dir}/device/net")));
    lines.extend(gone(&format!("{dir}/parent")));
    let (facts, node) = facts_of(&[DEVICES, PORT, NO_ROUTE], lines);
    assert_eq!(netdev(&facts, "d/1"), (Some(false), None));
    assert!(facts.members(Subject::Netdev, node).is_ok());
    // siw: no device, no parent, no names of GIDs' devices.
    let (facts, node) = facts_of(
        &[DEVICES, PORT, NO_ROUTE],
        vec![list(dir, "node_type ports")],
    );
    assert_eq!(netdev(&facts, "d/1"), (None, None));
    assert!(facts.members(Subject::Netdev, node).is_err());
    // Two that fit are not one.
    let net = format!("{dir}/device/net");
    let lines = vec![
        list(dir, "device ports"),
        list(&net, "enp1s0 enp1s0r0"),
        read(&format!("{net}/enp1s0/dev_port"), "0"),
        read(&format!("{net}/enp1s0r0/dev_port"), "0"),
    ];
    let (facts, _) = facts_of(&[DEVICES, PORT, NO_ROUTE], lines);
    assert_eq!(netdev(&facts, "d/1"), (None, None));
}

#[test]
fn no_device_and_no_route() {
    let (facts, node) = facts_of(&[NO_DEVICES, NO_ROUTE], vec![]);
    assert!(facts.members(Subject::Netdev, node).is_ok());
    assert_eq!(facts.known(node, node::DEFAULT_ROUTE).unwrap().len(), 0);
    let (facts, node) = facts_of(&[NO_DEVICES], vec![]);
    assert!(facts.members(Subject::Netdev, node).is_err());
}

#[test]
fn of_routes_that_are_too_many_to_read_the_default_ones_are_asked_for() {
    const TOO_LONG: &str = r#"{"q":{"read":"/proc/net/route"},"refused":"too-large"}"#;
    const EMPTY: &str = r#"{"q":{"read":"/proc/net/route"},"text":""}"#;
    const NONE: &str = r#"{"q":{"netlink":"route/getroute"},"hex":""}"#;
    let (default, other) = ([0, 0, 0, 0], [10, 1, 2, 0]);
    let routes = [
        route(other, 24, 254, 5, &[]),
        route(default, 0, 254, 7, &[(5, &[10, 1, 2, 1])]),
        // Of a table that only some packets come to.
        route(default, 0, 100, 5, &[]),
        route(default, 0, 254, 7, &[(6, &[9, 0, 0, 0])]),
    ];
    let hex: String = routes
        .concat()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let listed = format!(r#"{{"q":{{"netlink":"route/getroute"}},"hex":"{hex}"}}"#);
    let interfaces = vec![
        list(NET, "bonding_masters eth0 eth1"),
        read("/sys/class/net/eth0/ifindex", "5"),
        read("/sys/class/net/eth1/ifindex", "7"),
        listed,
    ];
    let (facts, node) = facts_of(
        &[NO_DEVICES, EMPTY],
        vec![
            list(NET, "lo"),
            read("/sys/class/net/lo/ifindex", "1"),
            NONE.to_owned(),
        ],
    );
    assert!(facts.known(node, node::DEFAULT_ROUTE).unwrap().is_empty());
    let (facts, node) = facts_of(&[NO_DEVICES, EMPTY], Vec::new());
    assert_eq!(facts.known(node, node::DEFAULT_ROUTE), None);
    let (facts, node) = facts_of(&[NO_DEVICES, TOO_LONG], interfaces.clone());
    assert_eq!(
        facts.known(node, node::DEFAULT_ROUTE).unwrap().join(" "),
        "eth1"
    );
    let nameless = interfaces
        .into_iter()
        .filter(|line| !line.contains("eth1/ifindex"));
    let (facts, node) = facts_of(&[NO_DEVICES, TOO_LONG], nameless.collect());
    assert_eq!(facts.known(node, node::DEFAULT_ROUTE), None);
}
