//! Pairs of nodes for real: network namespaces as hosts with two rails each, and faults that are planted in them: loss, a low rate, a small MTU, a packet
//! filter, a pair that is cut, a node that is killed. Each has to be named, in time, and nothing may be left running.
//!
//! Needs root, `ip`, `tc`, `nft` and `unshare`; elsewhere the tests are skipped and say so. `RDMA_DOCTOR_NETNS=0` skips them,
//! `RDMA_DOCTOR_NETNS=require` makes a machine that cannot run them a failure.
#![expect(clippy::unwrap_used, reason = "what fails in a test is to fail loudly")]
#![expect(clippy::panic, reason = "a test's way to fail")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests run programs and read what they leave"
)]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const DOCTOR: &str = env!("CARGO_BIN_EXE_rdma-doctor");
const HOSTS: usize = 4;
const KEY: &str = "a key of the tests of pairs";

fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

fn shell(script: &str) -> (bool, String) {
    let out = Command::new("bash")
        .args(["-c", script])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    (out.status.success(), said.into_owned())
}

/// Whether these tests can run here; says why not.
fn can_run() -> bool {
    let wish = std::env::var("RDMA_DOCTOR_NETNS").unwrap_or_default();
    if wish == "0" {
        say("skipped: pairs (RDMA_DOCTOR_NETNS=0)");
        return false;
    }
    let try_out = format!(
        "command -v ip tc nft unshare hostname && ip netns add pairs-try-{0} &&
        ip -n pairs-try-{0} link add try0 type veth peer name try1 && ip -n pairs-try-{0} link set try0 up &&
        ip netns exec pairs-try-{0} tc qdisc add dev try0 root tbf rate 10mbit burst 32k latency 50ms
        done=$?; ip netns del pairs-try-{0}; exit $done",
        std::process::id()
    );
    let why = match rustix::process::geteuid().is_root() {
        false => Some("not root".to_owned()),
        true => match shell(&try_out) {
            (true, _) => None,
            (false, said) => Some(format!("no namespaces with rates: {said}")),
        },
    };
    match why {
        None => true,
        Some(why) if wish == "require" => panic!("pairs are required and cannot run: {why}"),
        Some(why) => {
            say(&format!("skipped: pairs ({why})"));
            false
        }
    }
}

/// Hosts n1 to n4, each with `rail0` and `rail1`, and a switch for each rail.
struct World {
    name: String,
    port: u16,
    /// For how many seconds data flows one way.
    flow: &'static str,
}

impl World {
    fn new() -> Self {
        let world = World {
            name: format!("pairs-{}", std::process::id()),
            port: 21_000,
            flow: "0.2",
        };
        let switch = world.host(0);
        let mut script = format!(
            "set -e; ip netns add {switch}; ip -n {switch} link set lo up
            for r in 0 1; do ip -n {switch} link add br$r mtu 9000 type bridge; ip -n {switch} link set br$r up; done\n"
        );
        for host in 1..=HOSTS {
            let name = world.host(host);
            script += &format!(
                "ip netns add {name}; ip -n {name} link set lo up
                for r in 0 1; do
                    ip -n {name} link add rail$r mtu 9000 type veth peer name p{host}r$r mtu 9000 netns {switch}
                    ip -n {name} addr add 10.91.$r.{host}/24 dev rail$r; ip -n {name} link set rail$r gso_max_segs 1 up
                    ip -n {switch} link set p{host}r$r master br$r up
                done\n"
            );
        }
        let (done, said) = shell(&script);
        assert!(done, "{said}");
        for host in 1..=HOSTS {
            world.well(host);
        }
        world
    }

    /// The namespace of a host; of the switch for 0.
    fn host(&self, host: usize) -> String {
        format!("{}-{host}", self.name)
    }

    fn inside(&self, host: usize, script: &str) {
        let script = script.replace('\'', "'\\''");
        let (done, said) = shell(&format!(
            "ip netns exec {} bash -ec '{script}'",
            self.host(host)
        ));
        assert!(done, "{said}");
    }

    /// A host as all others: what no processor of a busy machine holds up.
    fn well(&self, host: usize) {
        self.inside(
            host,
            "for r in 0 1; do
                tc qdisc replace dev rail$r root tbf rate 200mbit burst 64k latency 100ms
                ip link set rail$r mtu 9000
            done; nft flush ruleset",
        );
    }

    fn start(&self, host: usize, more: &[&str]) -> Child {
        Command::new("ip")
            .args([
                "netns",
                "exec",
                &self.host(host),
                "unshare",
                "--uts",
                "sh",
                "-c",
            ])
            .arg(format!("hostname n{host}; exec \"$0\" \"$@\""))
            .arg(DOCTOR)
            .args([
                "bench",
                "pairs",
                "--device",
                "rail0,rail1",
                "--flow",
                self.flow,
                "--format",
                "json",
            ])
            .args([
                "--rank",
                &(host - 1).to_string(),
                "--nodes",
                &HOSTS.to_string(),
            ])
            .args(["--rendezvous", &format!("10.91.0.1:{}", self.port)])
            .args(more)
            .env("RDMA_DOCTOR_KEY", KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// All hosts measure; gives what rank 0 says, and how all ended.
    fn measure(
        &mut self,
        hosts: usize,
        more: &[&str],
        meanwhile: impl FnOnce(&Self),
    ) -> (Value, Vec<Output>) {
        self.port += 1;
        let began = Instant::now();
        let all: Vec<Child> = (1..=hosts).map(|host| self.start(host, more)).collect();
        meanwhile(self);
        let all: Vec<Output> = all
            .into_iter()
            .map(|c| c.wait_with_output().unwrap())
            .collect();
        let text = String::from_utf8_lossy(&all[0].stdout).into_owned();
        let errors: String = all
            .iter()
            .map(|out| String::from_utf8_lossy(&out.stderr))
            .collect();
        say(&format!("{:?}\n{errors}", began.elapsed()));
        let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{errors}"));
        (value, all)
    }

    /// Kills what runs on a host, after so long.
    fn kill(&self, host: usize, after: Duration) {
        std::thread::sleep(after);
        shell(&format!(
            "ip netns pids {} | xargs -r kill -9",
            self.host(host)
        ));
    }

    /// What is accused, and of what.
    fn accused(&mut self) -> Vec<(String, String)> {
        let (value, all) = self.measure(HOSTS, &[], |_| {});
        for out in &all[1..] {
            assert_eq!(out.status.code(), Some(0));
        }
        accused(&value)
    }
}

fn accused(value: &Value) -> Vec<(String, String)> {
    say(&serde_json::to_string(&value["accused"]).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = value["accused"].as_array().unwrap().iter();
    all.map(|one| (text(&one["name"]), text(&one["problem"])))
        .collect()
}

impl Drop for World {
    fn drop(&mut self) {
        for host in 0..=HOSTS {
            let name = self.host(host);
            shell(&format!(
                "ip netns pids {name} | xargs -r kill -9; ip netns del {name}"
            ));
        }
    }
}

fn pair(name: &str, problem: &str) -> (String, String) {
    (name.to_owned(), problem.to_owned())
}

#[test]
fn what_is_planted_is_named() {
    if !can_run() {
        return;
    }
    let mut world = World::new();

    // All are well.
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pairs.jsonl");
    let named = file.to_str().unwrap();
    let (value, all) = world.measure(HOSTS, &["-o", named, "--exit-on", "all"], |_| {});
    assert_eq!(accused(&value), [], "{value:#}");
    assert_eq!(
        all.iter().map(|o| o.status.code()).collect::<Vec<_>>(),
        [Some(0); HOSTS]
    );
    let sentence = value["sentence"].as_str().unwrap();
    assert!(
        sentence
            .starts_with("each of 4 nodes reaches each other over 2 rails, and none stands out: "),
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
    let (value, _) = world.measure(HOSTS, &["-o", named], |_| {});
    assert_eq!(accused(&value), [pair("n2/rail1", "loss")], "{value:#}");
    let what = value["accused"][0]["what"].as_str().unwrap();
    assert!(what.starts_with("n2/rail1 loses what it sends: "), "{what}");
    assert_eq!(value["findings"][0]["check"], "pairs/loses-packets");
    // The recording says the same.
    let replayed = Command::new(DOCTOR)
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
        "for r in 0 1; do tc qdisc replace dev rail$r root tbf rate 30mbit burst 64k latency 100ms; done",
    );
    world.inside(3, "ip link set rail0 mtu 1500");
    assert_eq!(
        world.accused(),
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
        world.accused(),
        [
            pair("n4", "unreachable"),
            pair("n1/rail1 and n3/rail1", "unreachable")
        ]
    );
    world.well(1);
    world.well(4);

    // One host never comes, and one is killed in the middle.
    world.flow = "1.5";
    let (value, all) = world.measure(HOSTS - 1, &["--wait", "4"], |world| {
        world.kill(3, Duration::from_millis(8000));
    });
    assert_eq!(
        accused(&value),
        [pair("rank 3", "silent"), pair("n3", "silent")],
        "{value:#}"
    );
    assert_eq!(all[0].status.code(), Some(2));
    assert_eq!(all[1].status.code(), Some(0));
    for host in 0..=HOSTS {
        let (_, left) = shell(&format!("ip netns pids {}", world.host(host)));
        assert_eq!(left, "", "left running on {host}");
    }
}
