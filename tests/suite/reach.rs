//! What `check` of a launch says of ways between nodes: hosts that are network namespaces on one
//! wire try to reach each other. What is planted is seen on no node, so that only the trial shows it.
//!
//! Needs root, `ip`, `nft` and `unshare`; elsewhere the tests are skipped and say so.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::bridged_hosts::{self, BridgedHosts};
use crate::engines::ssh::Ssh;
use crate::place::doctor;
use crate::process::{Ended, Report, Running, start};

const KEY: &str = "a key of the tests of reach";
const PORT: u16 = 21_700;

fn node(net: &BridgedHosts, n: usize, nodes: usize) -> Command {
    let mut command = net.on(n, doctor());
    command
        .args(["check", "--format", "json", "--rank", &(n - 1).to_string()])
        .args(["--nodes", &nodes.to_string()])
        .args(["--rendezvous", &format!("10.77.0.1:{PORT}")])
        .env("RDMA_DOCTOR_KEY", KEY);
    command
}

/// What rank 0 says of so many nodes.
fn judged(net: &BridgedHosts, nodes: usize, more: &[&str]) -> Report {
    let begin = |n: usize| start(node(net, n, nodes).args(more));
    let all: Vec<Running> = (1..=nodes).map(begin).collect();
    let ended: Vec<Ended> = all.into_iter().map(Running::ends).collect();
    for (at, one) in ended.iter().enumerate().skip(1) {
        assert_eq!(one.status, 0, "n{}: {}", at + 1, one.err);
    }
    let report = ended[0].report();
    assert_eq!(report.nodes().len(), nodes);
    net.nothing_is_left();
    report
}

/// The checks of ways that fail.
fn of_ways(report: &Report) -> Vec<&str> {
    let causes = report.0["causes"].as_array().unwrap();
    let names = causes.iter().map(|cause| cause["check"].as_str().unwrap());
    names.filter(|name| name.starts_with("reach/")).collect()
}

/// How the area of ways was examined.
fn area(report: &Report) -> Option<String> {
    let areas = report.0["areas"].as_array().unwrap();
    let area = areas.iter().find(|area| area["area"] == "reach")?;
    area["state"].as_str().map(str::to_owned)
}

#[test]
fn nodes_that_reach_each_other_are_said_to() {
    if !bridged_hosts::can_run(&[]) {
        return;
    }
    let net = BridgedHosts::new(4);
    let report = judged(&net, 4, &[]);
    assert_eq!(of_ways(&report), [""; 0]);
    assert_eq!(area(&report).as_deref(), Some("examined"));
    // Nothing is said of ways that nobody tried.
    let report = judged(&net, 2, &["--no-reach"]);
    assert_ne!(area(&report).as_deref(), Some("examined"));
}

#[test]
fn a_connection_that_a_filter_drops_is_named_with_both_ends() {
    if !bridged_hosts::can_run(&["nft"]) {
        return;
    }
    let net = BridgedHosts::new(4);
    net.shell(
        4,
        "nft add table inet f; nft add chain inet f c '{ type filter hook input priority 0; }'
        nft add rule inet f c ip saddr 10.77.0.3 tcp flags '& (syn | ack) == syn' drop",
    );
    let report = judged(&net, 4, &[]);
    assert_eq!(of_ways(&report), ["reach/unreachable"]);
    let (sentence, _) = report.finding("reach/unreachable").unwrap();
    let expected = "n3 to n4: no connection (no answer), the other way round there is one";
    assert_eq!(sentence, expected);
}

#[test]
fn a_node_that_loses_packets_or_takes_no_large_packets_is_named() {
    if !bridged_hosts::can_run(&["nft"]) {
        return;
    }
    let net = BridgedHosts::new(4);
    net.shell(
        2,
        "nft add table inet f; nft add chain inet f c '{ type filter hook input priority 0; }'
        nft add rule inet f c meta length '>' 1000 numgen random mod 100 '<' 8 drop",
    );
    let report = judged(&net, 4, &[]);
    assert_eq!(of_ways(&report), ["reach/loses-packets"]);
    let (sentence, nodes) = report.finding("reach/loses-packets").unwrap();
    assert!(
        sentence.starts_with("n2 loses packets that it receives"),
        "{sentence}"
    );
    assert_eq!(nodes, ["n2"]);
    net.shell(2, "nft flush ruleset");
    net.shell(
        3,
        "nft add table inet f; nft add chain inet f c '{ type filter hook input priority 0; }'
        nft add rule inet f c meta length '>' 1500 drop",
    );
    let report = judged(&net, 4, &[]);
    assert_eq!(of_ways(&report), ["reach/packet-short"]);
    let (sentence, nodes) = report.finding("reach/packet-short").unwrap();
    let expected = "n3 receives packets of 1500 bytes at most";
    assert!(sentence.starts_with(expected), "{sentence}");
    assert!(
        sentence.ends_with("; connections open and stall"),
        "{sentence}"
    );
    assert_eq!(nodes, ["n3"]);
}

/// The route is a warning by itself, since it may be a spare address; what it stops is an error.
#[test]
fn a_route_that_refuses_one_peer_is_the_cause_of_the_trials_failure() {
    if !bridged_hosts::can_run(&[]) {
        return;
    }
    let net = BridgedHosts::new(3);
    net.shell(2, "ip route add blackhole 10.77.0.3/32");
    let report = judged(&net, 3, &[]);
    let causes = report.0["causes"].as_array().unwrap();
    let cause = &causes[0];
    assert_eq!(cause["check"], "network/subnet-unroutable", "{causes:#?}");
    assert_eq!(cause["severity"], "error");
    assert_eq!(cause["nodes"][0], "n2");
    let beneath = cause["consequences"].as_array().unwrap();
    let sentences = beneath
        .iter()
        .filter(|one| one["check"] == "reach/unreachable");
    let sentences: Vec<&str> = sentences
        .filter_map(|one| one["sentence"].as_str())
        .collect();
    let expected = "its own route is a blackhole";
    assert!(
        sentences.iter().any(|one| one.contains(expected)),
        "{sentences:?}"
    );
    assert_eq!(of_ways(&report), [""; 0]);
    assert!(report.0["headline"].as_str().unwrap().contains("10.77.0.3"));
}

/// What a check of hosts over ssh says, from the first of them.
fn of_hosts(ssh: &Ssh<'_>, hosts: &str, more: &[&str]) -> Report {
    let ended = start(
        ssh.doctor(&[&["check"], more].concat())
            .args(["--hosts", hosts]),
    )
    .ends();
    assert!(ended.status < 4, "{ended:?}");
    ended.report()
}

fn can_run_over_ssh() -> bool {
    bridged_hosts::can_run(&["ssh", "ssh-keygen", "sshd", "nft"])
}

#[test]
fn hosts_that_are_asked_over_ssh_try_the_ways_between_them() {
    if !can_run_over_ssh() {
        return;
    }
    let net = BridgedHosts::new(4);
    let ssh = Ssh::start(&net, 1..=4);
    let report = of_hosts(&ssh, "n[1-4]", &[]);
    assert_eq!(report.nodes().len(), 4);
    assert_eq!(of_ways(&report), [""; 0]);
    assert_eq!(area(&report).as_deref(), Some("examined"), "{:#}", report.0);
    let report = of_hosts(&ssh, "n[1-2]", &["--no-reach"]);
    assert_ne!(area(&report).as_deref(), Some("examined"));

    // Between two that this host reaches.
    net.shell(
        4,
        "nft add table inet f; nft add chain inet f c '{ type filter hook input priority 0; }'
        nft add rule inet f c ip saddr 10.77.0.3 tcp flags '& (syn | ack) == syn' drop",
    );
    let report = of_hosts(&ssh, "n[1-4]", &[]);
    assert_eq!(of_ways(&report), ["reach/unreachable"]);
    let (sentence, _) = report.finding("reach/unreachable").unwrap();
    let expected = "n3 to n4: no connection (no answer), the other way round there is one";
    assert_eq!(sentence, expected);
    net.nothing_is_left_but("sshd");
}

/// A filter that lets ssh in and nothing else is met by whoever wants to meet, and before a job is.
#[test]
fn a_host_that_only_ssh_reaches_is_named() {
    if !can_run_over_ssh() {
        return;
    }
    let net = BridgedHosts::new(4);
    let ssh = Ssh::start(&net, 1..=4);
    // Beyond what this node's rules show: on the wire.
    net.drops_on_the_wire(3, "tcp dport != 22 tcp flags & (syn | ack) == syn");
    let report = of_hosts(&ssh, "n3,n[1-2],n4", &[]);
    let (sentence, nodes) = report.finding("reach/unreachable").unwrap();
    assert!(
        sentence.starts_with("n3 cannot be reached from n[1-2] and n4")
            || sentence.starts_with("n3 cannot be reached from n[1-2,4]"),
        "{sentence}"
    );
    assert_eq!(nodes, ["n3"]);
    assert_eq!(report.0["exit"], 2);
    let headline = report.0["headline"].as_str().unwrap();
    assert!(
        headline.starts_with("n3 cannot be reached from"),
        "{headline} / {sentence}"
    );
    let report = of_hosts(&ssh, "n3,n1", &[]);
    let (sentence, _) = report.finding("reach/unreachable").unwrap();
    assert!(
        sentence.starts_with("n1 does not reach n3: no connection to 10.77.0.3:"),
        "{sentence}"
    );
    net.nothing_is_left_but("sshd");
}

/// An older doctor knows no ways: what it says of its node is judged, and that nothing was tried is said.
#[test]
fn hosts_with_an_older_doctor_are_judged_without_their_ways() {
    if !can_run_over_ssh() {
        return;
    }
    let net = BridgedHosts::new(2);
    let ssh = Ssh::start(&net, 1..=2);
    let old = net.dir().join("old");
    let text = format!(
        "#!/bin/bash\n[ \"$1\" != reach ] || {{ echo \"error: unrecognized subcommand 'reach'\" >&2; exit 64; }}\nexec {} \"$@\"\n",
        doctor()
    );
    std::fs::write(&old, text).unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let old = old.to_str().unwrap().to_owned();
    let report = of_hosts(&ssh, "n[1-2]", &["--remote", &old]);
    assert_eq!(report.nodes().len(), 2);
    assert_eq!(of_ways(&report), [""; 0]);
    assert_eq!(
        area(&report).as_deref(),
        Some("not-examined"),
        "{:#}",
        report.0
    );
    assert!(report.0.to_string().contains("unrecognized subcommand"));
    net.nothing_is_left_but("sshd");
}

/// Who does not know the first host's name takes no part, and of its ways nothing is known.
#[test]
fn a_host_that_takes_no_part_leaves_the_area_in_part() {
    if !can_run_over_ssh() {
        return;
    }
    let net = BridgedHosts::new(3);
    let ssh = Ssh::start(&net, 1..=3);
    // It is ready, and ends before it meets anybody.
    let remote = net.dir().join("ends").to_str().unwrap().to_owned();
    let text = format!(
        "#!/bin/bash\nif [ \"$1 $(hostname)\" = \"reach n3\" ]; then timeout 4 {0} \"$@\" 9<&0 </dev/null; exit 70; fi\nexec {0} \"$@\"\n",
        doctor()
    );
    std::fs::write(&remote, text).unwrap();
    std::fs::set_permissions(&remote, std::fs::Permissions::from_mode(0o755)).unwrap();
    let report = of_hosts(&ssh, "n[1-3]", &["--remote", &remote]);
    assert_ne!(area(&report).as_deref(), Some("examined"), "{:#}", report.0);
    net.nothing_is_left_but("sshd");
}
