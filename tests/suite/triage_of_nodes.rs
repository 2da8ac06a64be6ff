//! `rdma-doctor triage` alone over three nodes without GPUs and without RDMA: network namespaces behind leaf switches, whose links have rates. What is planted
//! is seen on no node, so that only a measurement can find it; triage has to say how much slower three nodes are than one, what was expected, and why.
//!
//! Needs root, `ip`, `tc`, `nft`, `taskset` and `unshare`; elsewhere the tests are skipped and say so.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::namespaces::{self, shell};
use crate::place::{Scratch, doctor, unique};
use serde_json::Value;

const HOSTS: usize = 3;
const KEY: &str = "a key of the tests of triage";

fn can_run() -> bool {
    let rates = "ip -n $ns link add try0 type veth peer name try1 && ip -n $ns link set try0 up &&
        ip netns exec $ns tc qdisc add dev try0 root tbf rate 10mbit burst 32k latency 50ms";
    let tools = ["tc", "nft", "unshare", "hostname", "taskset"];
    namespaces::can_run("triage of nodes with rates", &tools, rates)
}

/// Hosts n1 to n3 with `rail0`, each behind a leaf switch of its own; they go when it is dropped.
struct LeafHosts {
    name: String,
    port: u16,
}

impl LeafHosts {
    fn new() -> Self {
        let world = LeafHosts {
            name: unique("leaf"),
            port: 22_000,
        };
        let spine = world.host(0);
        let mut script = format!(
            "set -e; ip netns add {spine}; ip -n {spine} link set lo up
            ip -n {spine} link add spine mtu 9000 type bridge; ip -n {spine} link set spine up\n"
        );
        for host in 1..=HOSTS {
            let name = world.host(host);
            script += &format!(
                "ip netns add {name}; ip -n {name} link set lo up
                ip -n {spine} link add leaf{host} mtu 9000 type bridge; ip -n {spine} link set leaf{host} up
                ip -n {spine} link add up{host} mtu 9000 type veth peer name to{host} mtu 9000
                ip -n {spine} link set up{host} master leaf{host} up; ip -n {spine} link set to{host} master spine up
                ip -n {name} link add rail0 mtu 9000 type veth peer name down{host} mtu 9000 netns {spine}
                ip -n {name} addr add 10.93.0.{host}/24 dev rail0; ip -n {name} link set rail0 gso_max_segs 1 up
                ip -n {spine} link set down{host} master leaf{host} up\n"
            );
        }
        let (done, said) = shell(&script);
        assert!(done, "{said}");
        for host in 1..=HOSTS {
            world.rates(host, "50mbit", "50mbit");
        }
        world
    }

    /// The namespace of a host; of the switches for 0.
    fn host(&self, host: usize) -> String {
        format!("{}-{host}", self.name)
    }

    /// What a host's leaf lets it send and receive.
    fn rates(&self, host: usize, sends: &str, receives: &str) {
        self.switches(&format!(
            "tc qdisc replace dev up{host} root tbf rate {sends} burst 64k latency 400ms
            tc qdisc replace dev down{host} root tbf rate {receives} burst 64k latency 400ms"
        ));
    }

    fn switches(&self, script: &str) {
        let spine = self.host(0);
        let (done, said) = shell(&format!("ip netns exec {spine} bash -ec \"{script}\""));
        assert!(done, "{said}");
    }

    /// All hosts run triage, `pinned` on one processor; gives what rank 0 says, and how all ended.
    fn triage(&mut self, more: &[&str], pinned: Option<usize>) -> (Value, Vec<Output>) {
        self.port += 1;
        let start = |host: usize| {
            let name = self.host(host);
            let mut command = Command::new("taskset");
            match pinned {
                None => command.args(["-c", "0-4095", "ip"]),
                Some(own) if own == host => command.args(["-c", "1", "ip"]),
                // What else this machine does shall not hold them up.
                Some(_) => command.args(["-c", "0", "nice", "-n", "-10", "ip"]),
            };
            command
                .args(["netns", "exec", &name, "unshare", "--uts", "sh", "-c"])
                .arg(format!("hostname n{host}; exec \"$0\" \"$@\""))
                .args([doctor(), "triage"])
                .args(more)
                .args(["--format", "json", "--rank", &(host - 1).to_string()])
                .args(["--nodes", &HOSTS.to_string()])
                .args(["--rendezvous", &format!("10.93.0.1:{}", self.port)])
                .env("RDMA_DOCTOR_KEY", KEY)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let all: Vec<_> = (1..=HOSTS).map(start).collect();
        let ends = |child: std::process::Child| child.wait_with_output().unwrap();
        let all: Vec<Output> = all.into_iter().map(ends).collect();
        let errors = all.iter().map(|out| String::from_utf8_lossy(&out.stderr));
        let errors = errors.collect::<String>();
        let text = String::from_utf8_lossy(&all[0].stdout);
        let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{errors}"));
        (value, all)
    }
}

impl Drop for LeafHosts {
    fn drop(&mut self) {
        for host in 0..=HOSTS {
            let name = self.host(host);
            shell(&format!(
                "ip netns pids {name} | xargs -r kill -9; ip netns del {name}"
            ));
        }
    }
}

/// The checks of what was measured that are causes.
fn measured_causes(value: &Value) -> Vec<String> {
    let causes = value["causes"].as_array().unwrap().iter();
    let names = causes.map(|cause| cause["check"].as_str().unwrap().to_owned());
    let kinds = ["ablation/", "bench/", "pairs/"];
    let measured = |name: &String| kinds.iter().any(|kind| name.starts_with(kind));
    names.filter(measured).collect()
}

/// The one sentence has the cause that was planted: how much slower, what was expected, and because of what.
fn has_cause(value: &Value, check: &str, words: &[&str]) {
    let answer = &value["answer"];
    assert_eq!(measured_causes(value), [check], "{answer:#}");
    let sentence = answer["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("an all-reduce over 3 nodes takes "),
        "{sentence}"
    );
    for words in [" times as long as on one", "× expected", "because "] {
        assert!(sentence.contains(words), "{sentence}");
    }
    let (slower, expected) = (answer["slower"].as_f64(), answer["expected"].as_f64());
    assert!(slower.unwrap() > 1.6 * expected.unwrap(), "{sentence}");
    let because = answer["because"].as_str().unwrap();
    for words in words {
        assert!(because.contains(words), "{sentence}");
    }
    assert!(answer["next"].is_null(), "{sentence}");
}

#[test]
fn what_slows_three_nodes_is_said_in_one_sentence() {
    if !can_run() {
        return;
    }
    let mut world = LeafHosts::new();

    // All are well: slower than one node, as much as the network between them says.
    let (value, all) = world.triage(&["--quick", "--link", "50M"], None);
    let answer = &value["answer"];
    assert_eq!(measured_causes(&value), [""; 0], "{answer:#}");
    let sentence = answer["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("an all-reduce over 3 nodes takes "),
        "{sentence}"
    );
    assert!(
        sentence.contains(" times as long as on one, as expected: "),
        "{sentence}"
    );
    assert!(sentence.ends_with("; their links 6.25 MB/s"), "{sentence}");
    assert!(
        answer["because"].is_null() && answer["next"].is_null(),
        "{answer:#}"
    );
    let codes: Vec<_> = all.iter().map(|out| out.status.code()).collect();
    assert_eq!(codes[1..], [Some(0), Some(0)], "{answer:#}");

    // A node that is slow both ways.
    world.rates(3, "12mbit", "12mbit");
    let (value, _) = world.triage(&["--quick"], None);
    has_cause(
        &value,
        "pairs/slow",
        &["n3: ", " at most, where equals carry "],
    );

    // A node that sends slowly, and receives well.
    world.rates(3, "50mbit", "50mbit");
    world.rates(2, "12mbit", "50mbit");
    let (value, _) = world.triage(&["--quick"], None);
    has_cause(
        &value,
        "pairs/slow",
        &["n2 is slow: ", " to n1 and n3, where equals send "],
    );

    // A link that loses packets.
    world.rates(2, "50mbit", "50mbit");
    world.switches(
        "nft add table netdev t
        nft add chain netdev t in '{ type filter hook ingress device down2 priority 0; }'
        nft add rule netdev t in numgen random mod 100 '<' 4 drop",
    );
    let (value, _) = world.triage(&["--quick"], None);
    // TCP sends again within microseconds here: it is no slower, and the fault is said all the same.
    assert_eq!(
        measured_causes(&value),
        ["pairs/loses-packets"],
        "{value:#}"
    );
    let answer = &value["answer"];
    let beside = answer["beside"]
        .as_str()
        .or(answer["because"].as_str())
        .unwrap();
    assert!(
        beside.starts_with("n2 loses packets that it sends: "),
        "{answer:#}"
    );
    assert_eq!(value["headline"], answer["sentence"]);
    world.switches("nft flush ruleset");

    // Where nothing is measured the plan says what would be, and for how long.
    let out = Command::new(doctor())
        .args(["triage", "--dry-run", "--rank", "0", "--nodes", "3"])
        .args(["--rendezvous", "10.93.0.1:1"])
        .env("RDMA_DOCTOR_KEY", KEY)
        .output()
        .unwrap();
    let plan = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(0), "{plan}");
    for step in [
        "examine",
        "one node and all",
        "pairs of nodes",
        "halves of the nodes",
        "latency, if nothing tells why yet: 3 s",
        "TCP in place of RDMA: 96 s",
    ] {
        assert!(plan.contains(step), "{plan}");
    }
}

/// What triage says of a recording.
fn replayed(recording: &Path) -> Value {
    let out = Command::new(doctor())
        .args(["triage", "--format", "json"])
        .arg(recording)
        .output()
        .unwrap();
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn where_pairs_and_halves_tell_nothing_triage_goes_on_by_itself() {
    let shared = "ip -n $ns link add try0 type ifb && ip -n $ns link add try1 type veth peer name try2 &&
        ip netns exec $ns tc qdisc add dev try1 clsact &&
        ip netns exec $ns tc filter add dev try1 egress protocol all u32 match u32 0 0 action mirred egress redirect dev try0";
    if !can_run() || !namespaces::can_run("links that both directions share", &["tc"], shared) {
        return;
    }
    let mut world = LeafHosts::new();
    // Each link carries so much in both directions together: any pair alone is well, a ring is not, and of as many nodes as one likes.
    for host in 1..=HOSTS {
        world.switches(&format!(
            "ip link add both{host} type ifb; ip link set both{host} mtu 9000 up
            tc qdisc del dev up{host} root; tc qdisc del dev down{host} root
            tc qdisc add dev both{host} root tbf rate 50mbit burst 64k latency 400ms
            tc qdisc add dev down{host} clsact
            for way in ingress egress; do
                tc filter add dev down{host} \\$way protocol all u32 match u32 0 0 action mirred egress redirect dev both{host}
            done"
        ));
    }
    let dir = Scratch::new("goes-on");
    let to = dir.join("triage.jsonl");
    let recording = ["--no-redact", "--record", to.to_str().unwrap()];
    let (value, _) = world.triage(
        &[&["--quick", "--time-budget", "120"], &recording[..]].concat(),
        None,
    );
    let (answer, sentence) = (&value["answer"], value["headline"].as_str().unwrap());
    assert_eq!(
        measured_causes(&value),
        ["bench/nodes-below-expected"],
        "{answer:#}"
    );
    let tried = "; not found in ranks, single nodes, pairs of nodes, parts of the nodes, latency, other connections; next: ";
    assert!(sentence.contains(tried), "{sentence}");
    let arms = value["measured"]["measurements"][0]["arms"]
        .as_array()
        .unwrap();
    let used = |name: &str| {
        let mut arms = arms.iter();
        let arm = arms.find(|arm| arm["name"] == name);
        let arm = arm.unwrap_or_else(|| panic!("{name}: {value:#}"));
        format!("{} {}", arm["honoured"], arm["paths"])
    };
    for (name, words) in [
        ("streams=4", "\"honoured\" \"4 connections, "),
        ("message=16384", ", 16 KiB a write, "),
        (
            "mtu=1280",
            ", 1228 B a segment (10.93.0.1, 10.93.0.2, 10.93.0.3)",
        ),
    ] {
        assert!(used(name).contains(words), "{}", used(name));
    }

    // The same, had small packets been twice as fast.
    let text = std::fs::read_to_string(&to).unwrap();
    let faster = text.lines().map(|line| {
        if !line.contains("\"arm\":\"mtu=1280\"") {
            return line.to_owned();
        }
        let mut line: Value = serde_json::from_str(line).unwrap();
        let points = line["value"]["points"].as_array_mut();
        for ms in points
            .into_iter()
            .flatten()
            .flat_map(|point| point["ms"].as_array_mut().unwrap())
        {
            *ms = (ms.as_f64().unwrap() / 2.0).into();
        }
        line.to_string()
    });
    let altered = dir.join("altered.jsonl");
    std::fs::write(&altered, faster.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let value = replayed(&altered);
    has_cause(
        &value,
        "ablation/change-faster",
        &[
            "mtu=1280 makes it ",
            " faster: packets of the links' MTU are lost",
        ],
    );

    // The same with links whose hardware is known: what pairs carry is no excuse.
    let known = text.replacen("\"pairs\":", "\"links\":10000000000,\"pairs\":", 1);
    assert_ne!(known, text);
    std::fs::write(&altered, known).unwrap();
    let value = replayed(&altered);
    let sentence = value["headline"].as_str().unwrap();
    for words in [
        " expected: two nodes carry ",
        ", their links 1.25 GB/s; not found in ",
        "next: the rate that switch ports",
    ] {
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn a_rank_that_waits_for_its_processor_is_named() {
    if !can_run() || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let mut world = LeafHosts::new();
    for host in 1..=HOSTS {
        world.rates(host, "200mbit", "200mbit");
    }
    let mut hog = Command::new("taskset")
        .args([
            "-c",
            "1",
            "nice",
            "-n",
            "-20",
            "sh",
            "-c",
            "while :; do :; done",
        ])
        .spawn()
        .unwrap();
    // However long the runs before them take on a busy machine, pairs are measured.
    let (value, _) = world.triage(&["--quick", "--time-budget", "600"], Some(3));
    let _ = hog.kill();
    let _ = hog.wait();
    // On a machine that is busy with something else, other signs of the same node may lead: what it carries, what it reaches alone.
    let answer = &value["answer"];
    let sentence = answer["sentence"].as_str().unwrap();
    let (slower, expected) = (answer["slower"].as_f64(), answer["expected"].as_f64());
    assert!(slower > expected, "{sentence}");
    let because = answer["because"].as_str().unwrap_or_default();
    assert!(because.contains("n3"), "{sentence}");
}

#[test]
fn a_slow_network_is_measured_and_not_called_a_hang() {
    if !can_run() {
        return;
    }
    let mut world = LeafHosts::new();
    for host in 1..=HOSTS {
        // (without credit for a pair that comes after a pause: of so few bytes it would be most)
        for way in ["up", "down"] {
            world.switches(&format!(
                "tc qdisc replace dev {way}{host} root tbf rate 2mbit burst 10k latency 400ms"
            ));
        }
    }
    let slow = ["--quick", "--deadline", "30", "--link", "2M"];
    let (value, _) = world.triage(&slow, None);
    let answer = &value["answer"];
    // Of so few packets one rank may seem slower than the others, and the shaper's queue may drop what a slow start sends too much.
    let mut causes = measured_causes(&value);
    causes.retain(|cause| !matches!(&**cause, "bench/rank-slower" | "pairs/loses-packets"));
    assert_eq!(causes, [""; 0], "{answer:#}");
    let sentence = answer["sentence"].as_str().unwrap();
    assert!(
        sentence.contains(" times as long as on one, as expected: "),
        "{sentence}"
    );

    // A size that somebody asked for is kept: how far it came is said.
    let (value, _) = world.triage(&["--size", "8M", "--deadline", "20"], None);
    assert_eq!(measured_causes(&value), ["bench/run-slow"], "{value:#}");
    let headline = value["headline"].as_str().unwrap();
    assert!(headline.contains(" steps in 20 s"), "{headline}");
}
