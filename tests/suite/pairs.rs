//! Pairs of nodes for real: network namespaces as hosts with two rails each, and faults that are planted in them: loss, a low rate, a small MTU, a packet
//! filter, a pair that is cut, a node that is killed. Each has to be named, in time, and nothing may be left running.
//!
//! Needs root, `ip`, `tc`, `nft` and `unshare`; elsewhere the tests are skipped and say so. `RDMA_DOCTOR_NETNS=0` skips them,
//! `RDMA_DOCTOR_NETNS=require` makes a machine that cannot run them a failure.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::namespaces::say;
use crate::place::doctor;
use crate::rail_hosts::{HOSTS, RailHosts, can_run};
use serde_json::Value;

/// What is asked of each host.
const PAIRS: [&str; 5] = ["pairs", "--device", "rail0,rail1", "--flow", "0.4"];

/// All hosts measure, with more wishes.
fn measure(world: &mut RailHosts, more: &[&str]) -> (Value, Vec<Output>) {
    world.measure(HOSTS, &[&PAIRS, more].concat(), |_, _| {})
}

/// What is accused, and of what, where all hosts end well.
fn all_accused(world: &mut RailHosts) -> Vec<(String, String)> {
    let (value, all) = measure(world, &[]);
    for out in &all[1..] {
        assert_eq!(out.status.code(), Some(0));
    }
    accused(&value)
}

fn accused(value: &Value) -> Vec<(String, String)> {
    say(&serde_json::to_string(&value["accused"]).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = value["accused"].as_array().unwrap().iter();
    all.map(|one| (text(&one["name"]), text(&one["problem"])))
        .collect()
}

fn pair(name: &str, problem: &str) -> (String, String) {
    (name.to_owned(), problem.to_owned())
}

#[test]
fn what_is_planted_is_named() {
    if !can_run() {
        return;
    }
    let mut world = RailHosts::new();

    // All are well.
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pairs.jsonl");
    let named = file.to_str().unwrap();
    let (value, all) = measure(&mut world, &["--record", named, "--exit-on", "all"]);
    assert_eq!(accused(&value), [], "{value:#}");
    assert_eq!(
        all.iter().map(|o| o.status.code()).collect::<Vec<_>>(),
        [Some(0); HOSTS]
    );
    let sentence = value["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("all 4 nodes reach each other over 2 rails, without an outlier: "),
        "{sentence}"
    );
    let ways = value["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 2 * HOSTS * (HOSTS - 1));
    assert!(ways.iter().all(|way| way["packet"] == 9000), "{value:#}");

    // One rail of one host loses 2 % of what it sends: on the wire, where no netem is needed, which few kernels of virtual machines have.
    world.inside(
        0,
        "nft add table netdev t; nft add chain netdev t in '{ type filter hook ingress device p2r1 priority 0; }'
        nft add rule netdev t in numgen random mod 100 '<' 2 drop",
    );
    let (value, _) = measure(&mut world, &["--record", named]);
    assert_eq!(accused(&value), [pair("n2/rail1", "loss")], "{value:#}");
    let what = value["accused"][0]["what"].as_str().unwrap();
    assert!(
        what.starts_with("n2/rail1 loses packets that it sends: "),
        "{what}"
    );
    assert_eq!(value["findings"][0]["check"], "pairs/loses-packets");
    // The recording says the same, and nobody's names and addresses.
    let text = std::fs::read_to_string(&file).unwrap();
    for secret in ["10.91.", "\"host\":\"n1\"", "\"host\":\"n2\""] {
        assert!(!text.contains(secret), "{secret}");
    }
    let replayed = Command::new(doctor())
        .args(["bench", "pairs", named, "--format", "json"])
        .output()
        .unwrap();
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(replayed["accused"][0]["problem"], "loss");
    assert_eq!(replayed["ways"], value["ways"]);
    world.inside(0, "nft flush ruleset");

    // One host is slow; one adapter has another MTU, which connections find out by themselves.
    world.inside(
        4,
        "for r in 0 1; do tc qdisc replace dev rail$r root tbf rate 8mbit burst 64k latency 100ms; done",
    );
    world.inside(3, "ip link set rail0 mtu 1500");
    assert_eq!(
        all_accused(&mut world),
        [pair("n3/rail0", "packet-short"), pair("n4", "slow")]
    );
    world.well(3);
    world.well(4);

    // One host lets nobody in; two others alone do not reach each other over one rail.
    world.inside(
        4,
        "nft add table inet t; nft add chain inet t in '{ type filter hook input priority 0; }'
        nft add rule inet t in ct state established accept; nft add rule inet t in iif lo accept; nft add rule inet t in meta l4proto tcp drop",
    );
    world.inside(
        1,
        "nft add table inet t; nft add chain inet t in '{ type filter hook input priority 0; }'
        nft add rule inet t in ip saddr 10.91.1.3 meta l4proto tcp reject with tcp reset",
    );
    assert_eq!(
        all_accused(&mut world),
        [
            pair("n4", "unreachable"),
            pair("n1/rail1 and n3/rail1", "unreachable")
        ]
    );
    world.well(1);
    world.well(4);

    // One host never comes, and one is killed in the middle.
    let slowly = [
        "pairs",
        "--device",
        "rail0,rail1",
        "--flow",
        "1.5",
        "--wait",
        "4",
    ];
    let (value, all) = world.measure(HOSTS - 1, &slowly, |world, terminal| {
        terminal.says("round 1 of ");
        world.kill(3);
    });
    assert_eq!(
        accused(&value),
        [pair("rank 3", "silent"), pair("n3", "silent")],
        "{value:#}"
    );
    assert_eq!(all[0].status.code(), Some(2));
    assert_eq!(all[1].status.code(), Some(0));
    world.is_quiet();
}
