//! What `rdma-doctor triage` says in situations that were written down with their sentences first (`situations/four_nodes.toml`): four nodes without GPUs in
//! network namespaces, two behind each rack's switch, with links that have rates.
//!
//! A few situations run with the other tests, all with `RDMA_DOCTOR_CASES=all` (make exhaustive); `RDMA_DOCTOR_SITUATION=WORDS` runs those whose name has
//! these words. No node that is not to blame may be blamed, in any of them.
//!
//! Needs root, `ip`, `tc`, `nft` and `unshare`; elsewhere the test is skipped and says so.

use std::collections::BTreeSet;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use crate::namespaces::{self, say, shell};
use crate::place::{doctor, unique};
use crate::sample;
use serde::Deserialize;
use serde_json::Value;

const KEY: &str = "a key of the tests of situations";

/// A situation, and what must be said of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Situation {
    name: String,
    /// How many nodes there are.
    #[serde(default = "four")]
    nodes: usize,
    /// What is planted before, in the words of [`FUNCTIONS`].
    #[serde(default)]
    setup: String,
    /// What happens while triage runs; it waits for a state first.
    #[serde(default)]
    meanwhile: String,
    /// Options of triage.
    #[serde(default)]
    args: Vec<String>,
    /// The report's status.
    status: String,
    /// What the headline has, all of it.
    says: Vec<String>,
    /// What the headline has none of.
    #[serde(default)]
    never: Vec<String>,
    /// The nodes that may be blamed, and drained.
    #[serde(default)]
    blames: BTreeSet<String>,
    /// Whether it runs with the other tests.
    #[serde(default)]
    quick: bool,
}

fn four() -> usize {
    4
}

#[derive(Deserialize)]
struct Situations {
    situation: Vec<Situation>,
}

/// The functions of a situation's scripts; `$p` is what the namespaces' names begin with.
const FUNCTIONS: &str = r#"
switches() { ip netns exec $p-0 bash -ec "$1"; }
in_node() { ip netns exec $p-$1 bash -ec "$2"; }
rates() {
    ip netns exec $p-0 tc qdisc replace dev up$1 root tbf rate $2 burst ${4:-128k} latency 400ms
    ip netns exec $p-0 tc qdisc replace dev down$1 root tbf rate ${3:-$2} burst ${4:-128k} latency 400ms
}
trunk_one_way() { ip netns exec $p-0 tc qdisc replace dev trunk0 root "$@"; }
trunk() { trunk_one_way "$@"; ip netns exec $p-0 tc qdisc replace dev trunk1 root "$@"; }
pair() {
    ip netns exec $p-0 bash -ec "tc qdisc del dev up$1 root; tc qdisc add dev up$1 root handle 1: htb default 10 r2q 1000
        tc class add dev up$1 parent 1: classid 1:10 htb rate 200mbit burst 128k
        tc class add dev up$1 parent 1: classid 1:20 htb rate $3 burst 32k
        tc filter add dev up$1 parent 1: protocol ip u32 match ip dst 10.94.0.$2/32 flowid 1:20"
}
loses() {
    ip netns exec $p-0 nft "add table netdev loss$1; add chain netdev loss$1 i { type filter hook ingress device down$1 priority 0; }
        add rule netdev loss$1 i numgen random mod 1000 < $2 drop"
}
mtu() {
    for n in $(seq $nodes); do ip -n $p-$n link set eth0 mtu $1; done
}
second() {
    ip -n $p-0 link add other mtu 9000 type bridge; ip -n $p-0 link set other up
    for n in $(seq $nodes); do
        ip -n $p-$n link add eth1 mtu 9000 type veth peer name other$n mtu 9000 netns $p-0
        ip -n $p-$n addr add 10.95.0.$n/24 dev eth1; ip -n $p-$n link set eth1 gso_max_segs 1 up
        ip -n $p-0 link set other$n master other up
        in_node $n "tc qdisc add dev eth1 root tbf rate $1 burst 128k latency 400ms"
    done
}
busy() {
    for cpu in $(seq $(nproc)); do
        ip netns exec $p-0 nice -n 5 sh -c 'while :; do :; done' > /dev/null 2>&1 &
    done
}
ranks() { for pid in $(ip netns pids $p-$1); do cat /proc/$pid/cmdline 2> /dev/null | tr '\0' ' ' | grep -q __rank && echo $pid; done; true; }
ranks_on() { until [ -n "$(ranks $1)" ]; do sleep 0.05; [ -d /proc/$PPID ] || exit 1; done; sleep 0.5; }
kill_ranks() { for pid in $(ranks $1); do kill -$2 $pid; done; }
kill_node() { ip netns pids $p-$1 | xargs -r kill -9; }
"#;

/// Nodes with `eth0`, two of them at each of two switches; they go when it is dropped.
struct World {
    name: String,
    nodes: usize,
}

impl World {
    fn new(nodes: usize) -> Self {
        let world = World {
            name: unique("sit"),
            nodes,
        };
        let spine = world.namespace(0);
        let mut script = format!(
            "set -e; ip netns add {spine}; ip -n {spine} link set lo up
            ip -n {spine} link add trunk0 mtu 9000 type veth peer name trunk1 mtu 9000
            for rack in 0 1; do
                ip -n {spine} link add rack$rack mtu 9000 type bridge; ip -n {spine} link set rack$rack up
                ip -n {spine} link set trunk$rack master rack$rack up
            done\n"
        );
        for node in 1..=nodes {
            let name = world.namespace(node);
            let rack = (node - 1) / 2;
            script += &format!(
                "ip netns add {name}; ip -n {name} link set lo up
                ip -n {spine} link add leaf{node} mtu 9000 type bridge; ip -n {spine} link set leaf{node} up
                ip -n {spine} link add up{node} mtu 9000 type veth peer name to{node} mtu 9000
                ip -n {spine} link set up{node} master leaf{node} up; ip -n {spine} link set to{node} master rack{rack} up
                ip -n {name} link add eth0 mtu 9000 type veth peer name down{node} mtu 9000 netns {spine}
                ip -n {name} addr add 10.94.0.{node}/24 dev eth0; ip -n {name} link set eth0 gso_max_segs 1 up
                ip -n {spine} link set down{node} master leaf{node} up\n"
            );
        }
        let (done, said) = shell(&script);
        assert!(done, "{said}");
        let rates = (1..=nodes).map(|node| format!("rates {node} 200mbit\n"));
        world.plant(&rates.collect::<String>());
        world
    }

    fn namespace(&self, node: usize) -> String {
        format!("{}-{node}", self.name)
    }

    fn script(&self, words: &str) -> String {
        let (name, nodes) = (&self.name, self.nodes);
        format!("set -e; p={name}; nodes={nodes}\n{FUNCTIONS}\n{words}")
    }

    fn plant(&self, words: &str) {
        let (done, said) = shell(&self.script(words));
        assert!(done, "{words}: {said}");
    }

    fn start(&self, node: usize, args: &[String]) -> Child {
        Command::new("ip")
            .args(["netns", "exec", &self.namespace(node)])
            .args(["unshare", "--uts", "sh", "-c"])
            .arg(format!("hostname n{node}; exec \"$0\" \"$@\""))
            .args([
                doctor(),
                "triage",
                "--quick",
                "--skip",
                "kernel/*",
                "--require",
                "none",
            ])
            .args(args)
            .args(["--format", "json", "--rank", &(node - 1).to_string()])
            .args(["--nodes", &self.nodes.to_string()])
            .args(["--rendezvous", "10.94.0.1:22000"])
            .env("RDMA_DOCTOR_KEY", KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// All nodes run triage while a script runs; gives how rank 0 ended.
    fn triage(&self, situation: &Situation) -> Output {
        let all: Vec<Child> = (1..=self.nodes)
            .map(|node| self.start(node, &situation.args))
            .collect();
        let mut meanwhile = Command::new("bash")
            .args(["-c", &self.script(&situation.meanwhile)])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut ends = all
            .into_iter()
            .map(|child| child.wait_with_output().unwrap());
        let first = ends.next().unwrap();
        let _ = meanwhile.kill();
        let _ = meanwhile.wait();
        ends.for_each(drop);
        first
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for node in 0..=self.nodes {
            let name = self.namespace(node);
            shell(&format!(
                "ip netns pids {name} | xargs -r kill -9; ip netns del {name}"
            ));
        }
    }
}

/// The nodes that a finding is about: the first word of its sentence that is a node's name, and who is drained.
fn blamed(value: &Value) -> BTreeSet<String> {
    let is_node = |word: &&str| word.len() == 2 && word.starts_with('n');
    let mut all = BTreeSet::new();
    let findings = value["causes"].as_array().into_iter().flatten();
    for finding in findings {
        let check = finding["check"].as_str().unwrap_or_default();
        if ["ablation/", "bench/", "pairs/"]
            .iter()
            .any(|kind| check.starts_with(kind))
        {
            let sentence = finding["sentence"].as_str().unwrap_or_default();
            let mut words = sentence.split(|c: char| !c.is_alphanumeric());
            all.extend(words.find(is_node).map(str::to_owned));
        }
        let remedy = finding["fix"].to_string() + &finding["remedy"].to_string();
        for drained in remedy.split("update node=").skip(1) {
            all.extend(drained.split(' ').next().map(str::to_owned));
        }
    }
    all
}

/// What is wrong with what was said; empty where it is right.
fn faults(situation: &Situation, value: &Value) -> Vec<String> {
    let headline = value["headline"].as_str().unwrap_or_default();
    let mut faults = Vec::new();
    if value["status"] != situation.status.as_str() {
        faults.push(format!(
            "status {}, not {}",
            value["status"], situation.status
        ));
    }
    let absent = situation
        .says
        .iter()
        .filter(|words| !headline.contains(*words));
    faults.extend(absent.map(|words| format!("does not say \"{words}\"")));
    let present = situation
        .never
        .iter()
        .filter(|words| headline.contains(*words));
    faults.extend(present.map(|words| format!("says \"{words}\"")));
    let wrong = blamed(value);
    let wrong = wrong.difference(&situation.blames);
    faults.extend(wrong.map(|node| format!("blames {node}, which is healthy")));
    faults
}

fn is_chosen(situation: &Situation) -> bool {
    match std::env::var("RDMA_DOCTOR_SITUATION") {
        Ok(words) => situation.name.contains(&words),
        Err(_) => situation.quick || sample::one_in(2) == 1,
    }
}

#[test]
fn each_situation_has_its_sentence() {
    let rates = "ip -n $ns link add try0 type veth peer name try1 && ip -n $ns link set try0 up &&
        ip netns exec $ns tc qdisc add dev try0 root tbf rate 10mbit burst 32k latency 50ms";
    if !namespaces::can_run(
        "situations of triage",
        &["tc", "nft", "unshare", "hostname"],
        rates,
    ) {
        return;
    }
    let all: Situations = toml::from_str(include_str!("situations/four_nodes.toml")).unwrap();
    let mut wrong = Vec::new();
    let (mut tried, mut blamed_healthy) = (0, 0);
    for situation in all.situation.iter().filter(|one| is_chosen(one)) {
        let world = World::new(situation.nodes);
        world.plant(&situation.setup);
        let begun = Instant::now();
        let out = world.triage(situation);
        let seconds = begun.elapsed().as_secs_f64();
        let value: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        let faults = match value.is_null() {
            true => vec![format!(
                "no report: {}",
                String::from_utf8_lossy(&out.stderr)
            )],
            false => faults(situation, &value),
        };
        tried += 1;
        blamed_healthy += usize::from(faults.iter().any(|fault| fault.starts_with("blames")));
        let mark = if faults.is_empty() { "right" } else { "WRONG" };
        let line = format!(
            "{mark} {seconds:5.1} s  {}: {} {}\n    {}",
            situation.name,
            value["status"],
            value["headline"],
            faults.join("; ")
        );
        say(line.trim_end());
        if !faults.is_empty() {
            let checks = value["causes"].as_array().into_iter().flatten();
            let checks = checks.map(|cause| format!("{}: {}", cause["check"], cause["sentence"]));
            wrong.push(format!(
                "{line}\n    {}",
                checks.collect::<Vec<_>>().join("\n    ")
            ));
        }
    }
    say(&format!(
        "{} of {tried} situations right; {blamed_healthy} blame a healthy node",
        tried - wrong.len()
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
