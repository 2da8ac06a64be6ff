//! Network namespaces as hosts: n1 to n4, each with two rails to a switch of its own.

use std::process::{Child, Command, Output, Stdio};

use crate::namespaces::{self, shell};
use crate::place::{doctor, unique};
use crate::process::{Terminal, wait_until};

use serde_json::Value;

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
pub(crate) struct RailHosts {
    name: String,
    port: u16,
}

impl RailHosts {
    pub(crate) fn new() -> Self {
        let world = RailHosts {
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
                tc qdisc replace dev rail$r root tbf rate 50mbit burst 64k latency 100ms
                ip link set rail$r mtu 9000
            done; nft flush ruleset",
        );
    }

    /// The doctor on a host; its standard error goes to a terminal on rank 0's.
    fn start(&self, host: usize, more: &[&str]) -> (Child, Option<Terminal>) {
        let mut command = Command::new("ip");
        let name = self.host(host);
        command
            .args(["netns", "exec", &name, "unshare", "--uts", "sh", "-c"])
            .arg(format!("hostname n{host}; exec \"$0\" \"$@\""))
            .args([doctor(), "bench"])
            .args(more)
            .args(["--format", "json", "--rank", &(host - 1).to_string()])
            .args(["--nodes", &HOSTS.to_string()])
            .args(["--rendezvous", &format!("10.91.0.1:{}", self.port)])
            .env("RDMA_DOCTOR_KEY", KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if host > 1 {
            return (command.spawn().unwrap(), None);
        }
        let (terminal, stderr) = Terminal::open();
        (command.stderr(stderr).spawn().unwrap(), Some(terminal))
    }

    /// All hosts measure; gives what rank 0 says, and how all ended. `meanwhile` is given what rank 0 writes to its terminal: how far it is.
    pub(crate) fn measure(
        &mut self,
        hosts: usize,
        more: &[&str],
        meanwhile: impl FnOnce(&Self, &Terminal),
    ) -> (Value, Vec<Output>) {
        self.port += 1;
        let mut terminal = None;
        let start = |host| {
            let (child, own) = self.start(host, more);
            terminal = terminal.take().or(own);
            child
        };
        let all: Vec<Child> = (1..=hosts).map(start).collect();
        let terminal = terminal.unwrap();
        meanwhile(self, &terminal);
        let ends = |child: Child| child.wait_with_output().unwrap();
        let all: Vec<Output> = all.into_iter().map(ends).collect();
        let text = String::from_utf8_lossy(&all[0].stdout).into_owned();
        let errors = all.iter().map(|out| String::from_utf8_lossy(&out.stderr));
        let errors = terminal.text() + &errors.collect::<String>();
        let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{errors}"));
        (value, all)
    }

    /// Kills what runs on a host.
    pub(crate) fn kill(&self, host: usize) {
        shell(&format!(
            "ip netns pids {} | xargs -r kill -9",
            self.host(host)
        ));
    }

    /// Waits until nothing runs on any host.
    pub(crate) fn is_quiet(&self) {
        wait_until("the end of all processes of the hosts", || {
            (0..=HOSTS).all(|host| {
                let (_, left) = shell(&format!("ip netns pids {}", self.host(host)));
                left.is_empty()
            })
        });
    }
}

impl Drop for RailHosts {
    fn drop(&mut self) {
        for host in 0..=HOSTS {
            let name = self.host(host);
            shell(&format!(
                "ip netns pids {name} | xargs -r kill -9; ip netns del {name}"
            ));
        }
    }
}
