//! Collectives over several nodes for real: network namespaces as hosts, whose ranks meet over the session of their launch.
//!
//! Needs root, `ip`, `tc`, `nft` and `unshare`; elsewhere the tests are skipped and say so. `RDMA_DOCTOR_NETNS=0` skips them,
//! `RDMA_DOCTOR_NETNS=require` makes a machine that cannot run them a failure.

use std::path::PathBuf;
use std::process::Command;

use crate::namespaces::shell;
use crate::place::doctor;
use crate::rail_hosts::{HOSTS, RailHosts, can_run};
use serde_json::Value;

const REDUCE: [&str; 11] = [
    "all-reduce",
    "--backend",
    "tcp",
    "--ranks",
    "2",
    "-b",
    "1M",
    "--trials",
    "1",
    "--warmups",
    "0",
];

#[test]
fn ranks_of_several_nodes_reduce_together_and_what_goes_wrong_is_named() {
    if !can_run() {
        return;
    }
    let mut world = RailHosts::new();
    for host in 1..=HOSTS {
        world.inside(
            host,
            "tc qdisc replace dev rail0 root tbf rate 40mbit burst 64k latency 100ms",
        );
    }
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("all-reduce-of-nodes.jsonl");
    let named = file.to_str().unwrap();
    let (value, all) = world.measure(
        HOSTS,
        &[&REDUCE[..], &["--record", named]].concat(),
        |_, _| {},
    );
    for out in &all {
        assert!(matches!(out.status.code(), Some(0 | 1)), "{value:#}");
    }
    assert_eq!(value["ranks"].as_array().unwrap().len(), 2 * HOSTS);
    let hosts: Vec<&str> = value["ranks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rank| rank["host"].as_str().unwrap())
        .collect();
    assert_eq!(hosts, ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"]);
    assert_eq!(value["troubles"], serde_json::json!([]));
    let row = &value["rows"][0];
    assert_eq!(
        (row["wrong"].as_u64(), row["checked"].as_u64()),
        (Some(0), Some(8 << 18))
    );
    // 40 Mb/s are what each host sends: the ring cannot be faster, and the shaper's bucket is small.
    let busbw = row["busbw"].as_u64().unwrap();
    assert!((10_000_000..50_000_000).contains(&busbw), "{busbw}");
    let scopes = &value["scopes"];
    assert_eq!(scopes["inside"].as_array().unwrap().len(), HOSTS);
    assert_eq!(scopes["between"]["ranks"], HOSTS);
    assert_eq!(scopes["whole"]["nodes"], HOSTS);
    let sentence = value["against_one_node"].as_str().unwrap();
    assert!(
        sentence.starts_with("multi-node is ")
            && sentence.contains("× slower than single-node: one rank a node carries "),
        "{sentence}"
    );
    // The recording says the same.
    let replayed = Command::new(doctor())
        .args(["bench", "all-reduce", named, "--format", "json"])
        .output()
        .unwrap();
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(replayed["against_one_node"], value["against_one_node"]);
    assert_eq!(replayed["rows"], value["rows"]);

    // A host that is killed in the middle ends the run everywhere, and is named.
    let long = [&REDUCE[..6], &["64M", "--trials", "50"]].concat();
    let (value, all) = world.measure(HOSTS, &long, |world, terminal| {
        terminal.says("whole: all-reduce of 64 MiB");
        world.kill(3);
    });
    let troubles = value["troubles"].to_string();
    assert!(troubles.contains("n3: "), "{value:#}");
    assert_eq!(all[0].status.code(), Some(2));
    // A rank that is killed is named with its number.
    let (value, all) = world.measure(HOSTS, &long, |world, terminal| {
        terminal.says("whole: all-reduce of 64 MiB");
        let name = world.host(2);
        shell(&format!(
            "for p in $(ip netns pids {name}); do grep -qa __rank /proc/$p/cmdline && kill -9 $p && break; done"
        ));
    });
    let first = &value["troubles"][0];
    assert_eq!(
        (first["rank"].as_u64(), first["ended"].as_str()),
        (Some(2), Some("died")),
        "{value:#}"
    );
    assert_eq!(all[0].status.code(), Some(2));
    world.is_quiet();
}

#[test]
fn the_node_that_makes_a_job_slow_is_found_by_halves() {
    if !can_run() {
        return;
    }
    let mut world = RailHosts::new();
    let rate = |host: usize, rate: &str| {
        world.inside(
            host,
            &format!("tc qdisc replace dev rail0 root tbf rate {rate} burst 64k latency 100ms"),
        );
    };
    for host in 1..=HOSTS {
        rate(host, if host == 3 { "15mbit" } else { "40mbit" });
    }
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bisected.jsonl");
    let named = file.to_str().unwrap();
    let one_rank = [&REDUCE[..4], &["1"], &REDUCE[5..]].concat();
    let (value, all) = world.measure(
        HOSTS,
        &[&one_rank[..], &["--bisect", "--record", named]].concat(),
        |_, _| {},
    );
    assert_eq!(all[0].status.code(), Some(1), "{value:#}");
    let bisection = &value["scopes"]["bisection"];
    assert_eq!(
        bisection["host"],
        serde_json::json!(["n1", "n2", "n3", "n4"])
    );
    assert_eq!(bisection["ended"], Value::Null, "{bisection:#}");
    let parts = bisection["parts"].as_array().unwrap();
    assert!((4..=6).contains(&parts.len()), "{bisection:#}");
    let sentence = value["what_is_slow"].as_str().unwrap();
    assert!(
        sentence.starts_with("n3 makes it slow: parts with it reach at most "),
        "{sentence}"
    );
    // The recording says the same, of a pseudonym.
    let replayed = Command::new(doctor())
        .args(["bench", "all-reduce", named])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(
        said.contains(" makes it slow: parts with it reach at most ")
            && said.contains("[bench/node-slows-job]")
            && !said.contains("n3"),
        "{said}"
    );
    // Where all are alike, nobody is.
    for host in 1..=HOSTS {
        world.inside(
            host,
            "tc qdisc replace dev rail0 root tbf rate 40mbit burst 64k latency 100ms",
        );
    }
    let (value, all) = world.measure(HOSTS, &[&one_rank[..], &["--bisect"]].concat(), |_, _| {});
    assert!(matches!(all[0].status.code(), Some(0 | 1)), "{value:#}");
    assert!(!value.to_string().contains("node-slows-job"), "{value:#}");
    world.is_quiet();
}
