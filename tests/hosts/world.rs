//! Network namespaces as hosts: n1 to n4, each with two rails to a switch of its own.

#[path = "../shared/namespaces.rs"]
pub(crate) mod namespaces;

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use namespaces::{say, shell, unique};

use serde_json::Value;

pub(crate) const DOCTOR: &str = env!("CARGO_BIN_EXE_rdma-doctor");
pub(crate) const HOSTS: usize = 4;
const KEY: &str = "a key of the tests of nodes";

/// Whether these tests can run here; says why not.
pub(crate) fn can_run() -> bool {
    let rates = "ip -n $ns link add try0 type veth peer name try1 && ip -n $ns link set try0 up &&
        ip netns exec $ns tc qdisc add dev try0 root tbf rate 10mbit burst 32k latency 50ms";
    let tools = ["tc", "nft", "unshare", "hostname"];
    namespaces::can_run("hosts with rates", &tools, rates)
}

/// Hosts n1 to n4, each with `rail0` and `rail1`, and a switch for each rail.
/// The hosts; they go when it is dropped.
pub(crate) struct World {
    name: String,
    port: u16,
}

impl World {
    pub(crate) fn new() -> Self {
        let world = World {
            name: unique("nodes"),
            port: 21_000,
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
    pub(crate) fn host(&self, host: usize) -> String {
        format!("{}-{host}", self.name)
    }

    pub(crate) fn inside(&self, host: usize, script: &str) {
        let script = script.replace('\'', "'\\''");
        let (done, said) = shell(&format!(
            "ip netns exec {} bash -ec '{script}'",
            self.host(host)
        ));
        assert!(done, "{said}");
    }

    /// A host as all others: what no processor of a busy machine holds up.
    pub(crate) fn well(&self, host: usize) {
        self.inside(
            host,
            "for r in 0 1; do
                tc qdisc replace dev rail$r root tbf rate 200mbit burst 64k latency 100ms
                ip link set rail$r mtu 9000
            done; nft flush ruleset",
        );
    }

    pub(crate) fn start(&self, host: usize, more: &[&str]) -> Child {
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
            .arg("bench")
            .args(more)
            .args(["--format", "json"])
            .args([
                "--rank",
                &(host - 1).to_string(),
                "--nodes",
                &HOSTS.to_string(),
            ])
            .args(["--rendezvous", &format!("10.91.0.1:{}", self.port)])
            .env("RDMA_DOCTOR_KEY", KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// All hosts measure; gives what rank 0 says, and how all ended.
    pub(crate) fn measure(
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
    pub(crate) fn kill(&self, host: usize, after: Duration) {
        std::thread::sleep(after);
        shell(&format!(
            "ip netns pids {} | xargs -r kill -9",
            self.host(host)
        ));
    }

    /// Nothing is left running on any host.
    pub(crate) fn is_quiet(&self) {
        for host in 0..=HOSTS {
            let (_, left) = shell(&format!("ip netns pids {}", self.host(host)));
            assert_eq!(left, "", "left running on {host}");
        }
    }
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
