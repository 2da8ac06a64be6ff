use super::routing::testing::{route, rule};
use super::*;
use crate::fact::Why;
use crate::probe::testing::{known, run};
use crate::source::wire::to_hex;
use crate::source::{Question, Refusal};

/// Two soft-RoCE devices on eth2 (index 3) and eth3 (index 4).
fn two() -> Vec<String> {
    let mut lines = vec![
        r#"{"q":{"list":"/sys/class/infiniband"},"names":["rxe0","rxe1"]}"#.to_owned(),
        r#"{"q":{"list":"/sys/class/net"},"names":["eth2","eth3"]}"#.to_owned(),
    ];
    for (device, netdev, index) in [("rxe0", "eth2", 3), ("rxe1", "eth3", 4)] {
        let dir = format!("/sys/class/infiniband/{device}");
        lines.extend([
            format!(r#"{{"q":{{"list":"{dir}/ports"}},"names":["1"]}}"#),
            format!(r#"{{"q":{{"read":"{dir}/ports/1/link_layer"}},"text":"Ethernet\n"}}"#),
            format!(r#"{{"q":{{"read":"{dir}/parent"}},"text":"{netdev}\n"}}"#),
            format!(r#"{{"q":{{"read":"/sys/class/net/{netdev}/ifindex"}},"text":"{index}\n"}}"#),
        ]);
    }
    lines
}

fn netlink(name: &str, bytes: &[u8]) -> String {
    format!(
        r#"{{"q":{{"netlink":"route/{name}"}},"hex":"{}"}}"#,
        to_hex(bytes)
    )
}

fn over(lines: &[String]) -> Facts {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    run(&PROBE, &lines).0
}

fn one_network() -> Vec<u8> {
    [
        route([10, 0, 0, 0], 24, 254, 3, &[(7, &[10, 0, 0, 5])]),
        route([10, 0, 0, 0], 24, 254, 4, &[(7, &[10, 0, 0, 6])]),
        route([169, 254, 0, 0], 16, 254, 4, &[]),
    ]
    .concat()
}

fn usual() -> Vec<u8> {
    [rule(0, None, 255), rule(32766, None, 254)].concat()
}

#[test]
fn two_rails_in_one_network() {
    let mut lines = two();
    lines.push(netlink("getroute", &one_network()));
    lines.push(netlink("getrule", &usual()));
    let facts = over(&lines);
    let texts = |key| {
        let list: Option<Arc<[Arc<str>]>> = known(&facts, Subject::Netdev, "eth3", key);
        list.map(|list| list.join(" "))
    };
    assert_eq!(texts(netdev::NETWORKS).as_deref(), Some("10.0.0.0/24"));
    assert_eq!(texts(netdev::ADDRESSES).as_deref(), Some("10.0.0.6"));
    let by = known(&facts, Subject::Netdev, "eth3", netdev::ANSWERS_BY);
    assert_eq!(by.as_deref(), Some("eth2"));
    let itself = |name| known(&facts, Subject::Netdev, name, netdev::ANSWERS_ITSELF);
    assert_eq!((itself("eth2"), itself("eth3")), (Some(true), Some(false)));
}

#[test]
fn a_rule_and_a_table_for_each_rail() {
    let mut lines = two();
    let own = route([10, 0, 0, 0], 24, 102, 4, &[]);
    lines.push(netlink("getroute", &[one_network(), own].concat()));
    lines.push(netlink(
        "getrule",
        &[rule(100, Some([10, 0, 0, 6]), 102), usual()].concat(),
    ));
    let facts = over(&lines);
    let itself = known(&facts, Subject::Netdev, "eth3", netdev::ANSWERS_ITSELF);
    assert_eq!(itself, Some(true));
    // Without the rules it is unknown.
    let last = lines.len() - 1;
    let facts = over(&lines[..last]);
    let itself = known(&facts, Subject::Netdev, "eth3", netdev::ANSWERS_ITSELF);
    assert_eq!(itself, None);
}

#[test]
fn the_larger_of_all_and_its_own_is_in_force() {
    let mut lines = two();
    for (whose, rp, ignore) in [("all", 2, 0), ("eth2", 1, 1), ("eth3", 0, 0)] {
        let file = |what: &str, n: u32| {
            format!(r#"{{"q":{{"read":"/proc/sys/net/ipv4/conf/{whose}/{what}"}},"text":"{n}\n"}}"#)
        };
        lines.extend([file("rp_filter", rp), file("arp_ignore", ignore)]);
    }
    let facts = over(&lines);
    let get = |name, key| known(&facts, Subject::Netdev, name, key);
    assert_eq!(get("eth2", netdev::RP_FILTER), Some(2));
    assert_eq!(get("eth2", netdev::ARP_IGNORE), Some(1));
    assert_eq!(get("eth3", netdev::ARP_IGNORE), Some(0));
    assert_eq!(get("eth3", netdev::ARP_ANNOUNCE), None, "not recorded");
}

#[test]
fn one_rail_is_not_asked_about() {
    let mut lines = two();
    lines[0] = r#"{"q":{"list":"/sys/class/infiniband"},"names":["rxe0"]}"#.to_owned();
    let facts = over(&lines);
    assert_eq!(facts.all(Subject::Netdev).count(), 0);
}

/// bond0 of eth2 and eth3, as Linux 6.1 shows it.
fn bond(
    mode: &str,
    status: [&str; 2],
    partner: &str,
    ids: [u32; 2],
    states: [u32; 2],
) -> Vec<String> {
    let mut lines = two();
    lines[1] =
        r#"{"q":{"list":"/sys/class/net"},"names":["bond0","bonding_masters","eth2","eth3"]}"#
            .to_owned();
    let read = |path: &str, text: &str| {
        format!(r#"{{"q":{{"read":"/sys/class/net/{path}"}},"text":"{text}\n"}}"#)
    };
    lines.extend([
        read("bonding_masters", "bond0"),
        read("bond0/bonding/slaves", "eth2 eth3"),
        read("bond0/bonding/mode", mode),
        read("bond0/bonding/xmit_hash_policy", "layer3+4 1"),
        read("bond0/bonding/miimon", "100"),
        read("bond0/bonding/arp_interval", "0"),
        read("bond0/bonding/ad_partner_mac", partner),
        r#"{"q":{"read":"/proc/net/route"},"text":"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"}"#.to_owned(),
        r#"{"q":{"list":"/sys/class/net/eth2"},"names":["mtu","upper_bond0"]}"#.to_owned(),
        r#"{"q":{"list":"/sys/class/net/eth3"},"names":["mtu","upper_bond0"]}"#.to_owned(),
    ]);
    for (at, member) in ["eth2", "eth3"].into_iter().enumerate() {
        lines.extend([
            read(&format!("{member}/bonding_slave/mii_status"), status[at]),
            read(&format!("{member}/bonding_slave/link_failure_count"), "1"),
            read(
                &format!("{member}/bonding_slave/ad_aggregator_id"),
                &ids[at].to_string(),
            ),
            read(
                &format!("{member}/bonding_slave/ad_partner_oper_port_state"),
                &states[at].to_string(),
            ),
            read(
                &format!("{member}/speed"),
                if at == 0 { "100000" } else { "25000" },
            ),
        ]);
    }
    lines
}

#[test]
fn a_healthy_bond() {
    let facts = over(&bond(
        "802.3ad 4",
        ["up", "up"],
        "b8:3f:d2:00:00:01",
        [1, 1],
        [61, 61],
    ));
    let id = facts.all(Subject::Bond).next().unwrap();
    assert_eq!(facts.known(id, bond::MODE).as_deref(), Some("802.3ad"));
    assert_eq!(facts.known(id, bond::ROCE), Some(false), "soft-RoCE");
    assert_eq!(facts.known(id, bond::HASH).as_deref(), Some("layer3+4"));
    assert_eq!(facts.known(id, bond::WATCHES), Some(true));
    assert_eq!(facts.known(id, bond::DOWN_COUNT), Some(0));
    assert_eq!(facts.known(id, bond::LINK_FAILURES), Some(2));
    assert_eq!(facts.known(id, bond::PARTNER), Some(true));
    assert_eq!(facts.known(id, bond::AGGREGATORS), Some(1));
    assert_eq!(facts.known(id, bond::NOT_TAKEN_COUNT), Some(0));
    assert_eq!(facts.known(id, bond::SPEEDS_AGREE), Some(false));
    let speeds = facts.known(id, bond::SPEEDS).unwrap().join(", ");
    assert_eq!(speeds, "eth2 100 Gb/s, eth3 25 Gb/s");
}

#[test]
fn an_adapters_bond() {
    let mut lines = bond("balance-rr 0", ["up", "up"], "", [0, 0], [0, 0]);
    for line in &mut lines {
        if line.contains("/parent") {
            *line = line.replace(r#""text":"eth2\n""#, r#""errno":"ENOENT""#);
        }
    }
    let dir = "/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs";
    lines.push(format!(r#"{{"q":{{"list":"{dir}"}},"names":["0"]}}"#));
    lines.push(format!(r#"{{"q":{{"read":"{dir}/0"}},"text":"bond0\n"}}"#));
    let below = r#"{"q":{"list":"/sys/class/net/bond0"},"names":["lower_eth2","lower_eth3"]}"#;
    lines.push(below.to_owned());
    let facts = over(&lines);
    let id = facts.all(Subject::Bond).next().unwrap();
    assert_eq!(facts.known(id, bond::ROCE), Some(true));
}

#[test]
fn a_bond_whose_switch_is_silent_and_one_whose_member_is_down() {
    let facts = over(&bond(
        "802.3ad 4",
        ["up", "up"],
        "00:00:00:00:00:00",
        [1, 2],
        [1, 1],
    ));
    let id = facts.all(Subject::Bond).next().unwrap();
    assert_eq!(facts.known(id, bond::PARTNER), Some(false));
    assert_eq!(facts.known(id, bond::AGGREGATORS), Some(2));
    assert_eq!(facts.known(id, bond::NOT_TAKEN_COUNT), Some(2));
    // Only root sees the partner.
    let facts = over(&bond("802.3ad 4", ["up", "up"], "", [1, 2], [1, 1]));
    let id = facts.all(Subject::Bond).next().unwrap();
    assert_eq!(facts.known(id, bond::PARTNER), None);
    let facts = over(&bond("active-backup 1", ["up", "down"], "", [0, 0], [0, 0]));
    let id = facts.all(Subject::Bond).next().unwrap();
    let down = facts.known(id, bond::MEMBERS_DOWN).unwrap().join(" ");
    assert_eq!(down, "eth3");
    assert_eq!(
        facts.known(id, bond::SPEEDS_AGREE),
        Some(true),
        "of those with link"
    );
    assert_eq!(facts.known(id, bond::LACP), Some(false));
}

#[test]
fn no_module_no_bonds_and_a_bond_of_nobodys_is_left_alone() {
    let facts = over(&two());
    let node = facts.all(Subject::Node).next().unwrap();
    assert_eq!(facts.all(Subject::Bond).count(), 0);
    assert!(
        facts.members(Subject::Bond, node).is_err(),
        "bonding_masters is not recorded"
    );
    let mut lines = two();
    lines.push(r#"{"q":{"read":"/sys/class/net/bonding_masters"},"errno":"ENOENT"}"#.to_owned());
    let facts = over(&lines);
    let node = facts.all(Subject::Node).next().unwrap();
    assert!(facts.members(Subject::Bond, node).is_ok());
    let mut lines = bond("802.3ad 4", ["up", "up"], "", [1, 1], [61, 61]);
    for line in &mut lines {
        if line.contains("bond0/bonding/slaves") {
            *line = line.replace("eth2 eth3", "");
        }
        if line.contains("upper_bond0") {
            *line = line.replace(",\"upper_bond0\"", "");
        }
    }
    let facts = over(&lines);
    assert_eq!(facts.all(Subject::Bond).count(), 0);
}

#[test]
fn what_this_machines_kernel_says_is_understood() {
    let machine = crate::live::Live::machine(0, None, None);
    let ask = Ask::new(&machine);
    // Where netlink or policy routing is forbidden or missing, that is said.
    match ask.bytes(Question::netlink("route/getrule", [])) {
        Fact::Known(bytes, _) => assert!(!routing::rules(&bytes).unwrap().is_empty()),
        Fact::Unknown(gap) => assert!(matches!(gap.why, Why::Refused(Refusal::Errno(_)))),
    }
    match ask.bytes(Question::netlink("route/getroute", [])) {
        Fact::Known(bytes, _) => drop(routing::routes(&bytes).unwrap()),
        Fact::Unknown(gap) => assert!(matches!(
            gap.why,
            Why::Refused(Refusal::Errno(_) | Refusal::TooLarge)
        )),
    }
}
