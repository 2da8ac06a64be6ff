//! Real rules against real packets: two network namespaces joined by a veth pair, rules of nft, iptables over nf_tables and over
//! ip_tables, ufw and firewalld in one of them, and TCP connections and UDP packets that show what gets through. The doctor's
//! verdict has to agree with them, and to name the rule.
//!
//! Needs root and the tools (`tests/install-deps test` installs them); elsewhere the tests are skipped and say so.
//! `RDMA_DOCTOR_NETNS=0` skips them, `RDMA_DOCTOR_NETNS=require` makes a machine that cannot run them a failure.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::namespaces::{self, say, shell};
use crate::place::{Scratch, doctor, unique};
use crate::sample;
use rdma_doctor::derive::derive;
use rdma_doctor::fact::flow::{self, FlowCondition, FlowPassage};
use rdma_doctor::fact::port::{LinkLayer, PortState};
use rdma_doctor::fact::{
    Fact, Facts, Id, Membership, Origin, Subject, device, interface, node, port, setting,
};
use rdma_doctor::probe::establish;
use rdma_doctor::source::recording::Recording;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// This side's interface and address, and the peer's.
const DEVICE: &str = "fwa";
const OWN: &str = "10.88.0.1";
const PEER: &str = "10.88.0.2";
const ROCE: u16 = 4791;
/// How long a packet that gets through may take on a busy machine, and how long one that does not is waited for.
const PATIENT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(250);

/// Whether these tests can run here; says why not.
fn can_run(tools: &[&str]) -> bool {
    namespaces::can_run("firewall tests", tools, "true")
}

/// Two namespaces joined by a cable.
struct Net {
    own: String,
    peer: String,
}

impl Net {
    fn new() -> Self {
        let net = Net {
            own: unique("fw-a"),
            peer: unique("fw-b"),
        };
        let Net { own, peer } = &net;
        let (done, said) = shell(&format!(
            "set -e; ip netns add {own}; ip netns add {peer}
            ip -n {own} link add {DEVICE} type veth peer name fwb netns {peer}
            ip -n {own} addr add {OWN}/24 dev {DEVICE}; ip -n {peer} addr add {PEER}/24 dev fwb
            for i in 'fwa {own}' 'fwb {peer}'; do set -- $i; ip -n $2 link set $1 up; ip -n $2 link set lo up; done
            ip -n {own} route add default via {PEER}"
        ));
        assert!(done, "{said}");
        net
    }

    /// Runs a script on this side.
    fn run(&self, script: &str) -> (bool, String) {
        shell(&format!(
            "ip netns exec {} bash -c '{}'",
            self.own,
            script.replace('\'', "'\\''")
        ))
    }

    fn flush(&self) {
        self.run(
            "nft flush ruleset
            for i in iptables-legacy ip6tables-legacy; do
                for t in filter nat mangle raw; do $i -t $t -F; $i -t $t -X; done
                for c in INPUT OUTPUT FORWARD; do $i -P $c ACCEPT; done
            done; conntrack -F; true",
        );
    }

    /// Runs a function in a thread of a namespace.
    fn inside<T: Send + 'static>(
        &self,
        own: bool,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let name = if own { &self.own } else { &self.peer };
        let file = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
        thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            f()
        })
    }

    /// Whether a connection opens. `to_own`: to this side; `local`: both ends are here.
    fn tcp(&self, to_own: bool, local: bool, port: u16, wait: Duration) -> bool {
        let address: IpAddr = if to_own { OWN } else { PEER }.parse().unwrap();
        let at = SocketAddr::new(address, port);
        let (ready, is_ready) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let listener = self.inside(to_own, move || {
            let listener = TcpListener::bind(at).unwrap();
            ready.send(()).unwrap();
            let _ = stopped.recv();
            drop(listener);
        });
        is_ready.recv().unwrap();
        let client = self.inside(to_own == local, move || {
            TcpStream::connect_timeout(&at, wait).is_ok()
        });
        let through = client.join().unwrap();
        drop(stop);
        listener.join().unwrap();
        through
    }

    /// Whether a packet arrives, from one of RoCE's source ports.
    fn udp(&self, to_own: bool, wait: Duration) -> bool {
        let (to, from) = if to_own { (OWN, PEER) } else { (PEER, OWN) };
        let to: SocketAddr = format!("{to}:{ROCE}").parse().unwrap();
        let from: SocketAddr = format!("{from}:50123").parse().unwrap();
        let (ready, is_ready) = mpsc::channel();
        let receiver = self.inside(to_own, move || {
            let socket = UdpSocket::bind(to).unwrap();
            socket.set_read_timeout(Some(wait)).unwrap();
            ready.send(()).unwrap();
            socket.recv(&mut [0; 16]).is_ok()
        });
        is_ready.recv().unwrap();
        // A filter of the sender's refuses at once.
        let sender = self.inside(!to_own, move || {
            let socket = UdpSocket::bind(from).unwrap();
            let _ = socket.send_to(b"roce", to);
        });
        sender.join().unwrap();
        receiver.join().unwrap()
    }

    /// What the doctor says of the rules: as of a machine with soft-RoCE on the interface, and a job.
    fn judged(&self) -> (Facts, Id) {
        let dir = Scratch::new("firewall");
        let file = dir.join("node.jsonl");
        let out = Command::new("ip")
            .args([
                "netns",
                "exec",
                &self.own,
                doctor(),
                "record",
                "--no-redact",
                "-o",
            ])
            .arg(&file)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let recording = Recording::open(&file).unwrap();
        let mut facts = Facts::new();
        let id = establish(&recording, &mut facts);
        fn stated<T>(value: T) -> Fact<T> {
            Fact::Known(value, Origin::Stated)
        }
        let known = || Membership::Known(Origin::Stated);
        for subject in [Subject::Device, Subject::Interface] {
            facts.set_members(subject, id, known());
        }
        let rxe = facts.instance(Subject::Device, id, "rxe0");
        facts.set(rxe, device::SOFTWARE, stated(true));
        facts.set(rxe, device::NODE_TYPE, stated(device::NodeType::Ca));
        facts.set_members(Subject::Port, rxe, known());
        let p = facts.instance(Subject::Port, rxe, "rxe0/1");
        facts.set(p, port::LINK_LAYER, stated(LinkLayer::Ethernet));
        facts.set(p, port::STATE, stated(PortState::Active));
        facts.set(p, port::HAS_NETDEV, stated(true));
        facts.set(p, port::NETDEV, stated(DEVICE.into()));
        let veth = facts.instance(Subject::Interface, id, DEVICE);
        let addresses = [format!("{OWN}/24").as_str().into()].into();
        facts.set(veth, interface::ADDRESSES, stated(addresses));
        let master = facts.instance(Subject::Setting, id, "MASTER_PORT");
        facts.set(master, setting::VALUE, stated("29500".into()));
        derive(&mut facts);
        (facts, id)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        shell(&format!(
            "ip netns del {}; ip netns del {}",
            self.own, self.peer
        ));
    }
}

/// What the doctor says of a flow: its verdict, the rule, the ports that are blocked.
#[derive(Debug)]
struct FlowJudgement {
    passage: Option<FlowPassage>,
    rule: String,
    blocked: Vec<(u16, u16)>,
    /// Whether the ports that are not blocked get through for certain.
    rest: bool,
}

fn said(facts: &Facts, node: Id, name: &str) -> FlowJudgement {
    let id = facts
        .find(Subject::Flow, node, name)
        .unwrap_or_else(|| panic!("no flow {name}"));
    let text = |key| {
        facts
            .known(id, key)
            .map_or(String::new(), |t: std::sync::Arc<str>| t.to_string())
    };
    let ports = text(flow::BLOCKED_PORTS);
    let blocked = ports.split(", ").filter_map(|part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some((low.parse().ok()?, high.parse().ok()?))
    });
    FlowJudgement {
        passage: facts.known(id, flow::VERDICT),
        rule: match facts.get(id, flow::RULE) {
            Fact::Known(rule, _) => rule.to_string(),
            Fact::Unknown(gap) => format!("unknown: {gap}"),
        },
        blocked: blocked.collect(),
        rest: facts.known(id, flow::CONDITION) == Some(FlowCondition::Nothing),
    }
}

/// What a port's fate is by the doctor's words; `None` where it does not say.
fn expected(said: &FlowJudgement, port: u16) -> Option<bool> {
    match said.passage? {
        FlowPassage::Accepted => Some(true),
        FlowPassage::Dropped | FlowPassage::Rejected => Some(false),
        FlowPassage::Partly => {
            let inside = said
                .blocked
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&port));
            // A list that was cut short does not name all.
            (inside || said.rest && said.blocked.len() < 6).then_some(!inside)
        }
        FlowPassage::Depends => None,
    }
}

/// Sends real packets and compares; gives what disagrees, and how many were compared.
fn compare(net: &Net, facts: &Facts, node: Id, ports: &[u16]) -> (Vec<String>, u32) {
    let mut wrong = Vec::new();
    let mut compared = 0;
    let mut check =
        |name: &str, said: &FlowJudgement, port: u16, attempt: &dyn Fn(Duration) -> bool| {
            let Some(expected) = expected(said, port) else {
                return;
            };
            compared += 1;
            let really = attempt(if expected { PATIENT } else { SHORT });
            if really != expected {
                let word = |yes| {
                    if yes {
                        "gets through"
                    } else {
                        "does not get through"
                    }
                };
                wrong.push(format!(
                    "{name}, port {port}: {} by the doctor ({said:?}), {} really",
                    word(expected),
                    word(really)
                ));
            }
        };
    let of = |name: String| (said(facts, node, &name), name);
    let (inward, name) = of(format!("bootstrap TCP in on {DEVICE}"));
    for &port in ports {
        check(&name, &inward, port, &|wait| {
            net.tcp(true, false, port, wait)
        });
    }
    let (outward, name) = of(format!("bootstrap TCP out on {DEVICE}"));
    for &port in ports {
        check(&name, &outward, port, &|wait| {
            net.tcp(false, false, port, wait)
        });
    }
    let (local, name) = of("bootstrap TCP within the node".into());
    for &port in ports.iter().take(1) {
        check(&name, &local, port, &|wait| net.tcp(true, true, port, wait));
    }
    let (ssh, name) = of(format!("ssh in on {DEVICE}"));
    check(&name, &ssh, 22, &|wait| net.tcp(true, false, 22, wait));
    let (master, name) = of(format!("rendezvous TCP in on {DEVICE}"));
    check(&name, &master, 29500, &|wait| {
        net.tcp(true, false, 29500, wait)
    });
    let (roce, name) = of(format!("RoCE v2 in on {DEVICE}"));
    check(&name, &roce, ROCE, &|wait| net.udp(true, wait));
    let (roce, name) = of(format!("RoCE v2 out on {DEVICE}"));
    check(&name, &roce, ROCE, &|wait| net.udp(false, wait));
    (wrong, compared)
}

/// A flow's name without its interface, its verdict, and a part of the rule that it names.
type Wanted<'a> = (&'a str, FlowPassage, &'a str);

/// Rules, and what the doctor has to say of them.
struct Case<'a> {
    name: &'a str,
    tools: &'a [&'a str],
    rules: &'a str,
    wanted: &'a [Wanted<'a>],
}

/// Makes the rules, asks the doctor, and lets packets try it.
fn try_case(case: &Case<'_>) {
    let mut tools = vec!["ip", "nft"];
    tools.extend(case.tools);
    if !can_run(&tools) {
        return;
    }
    let net = Net::new();
    let (done, out) = net.run(&format!("set -e\n{}", case.rules));
    assert!(done, "{}: {out}", case.name);
    let (facts, node) = net.judged();
    let mut wrong = String::new();
    for (flow, passage, rule) in case.wanted {
        let name = match *flow {
            "local" => "bootstrap TCP within the node".to_owned(),
            flow => format!("{flow} on {DEVICE}"),
        };
        let said = said(&facts, node, &name);
        if said.passage != Some(*passage) || !said.rule.contains(rule) {
            let _ = writeln!(wrong, "{name}: {said:?}, not {passage:?} by {rule:?}");
        }
    }
    let (disagree, compared) = compare(&net, &facts, node, &[32768, 40000, 50000, 60999]);
    for line in disagree {
        let _ = writeln!(wrong, "{line}");
    }
    let managers = facts.known(node, node::FIREWALL_MANAGERS);
    say(&format!(
        "{}: {compared} flows tried, managers {managers:?}",
        case.name
    ));
    assert!(
        wrong.is_empty(),
        "{}:\n{wrong}\n{}",
        case.name,
        net.run("nft list ruleset").1
    );
}

#[test]
fn no_rules_let_everything_through() {
    try_case(&Case {
        name: "no rules",
        tools: &[],
        rules: "true",
        wanted: &[
            ("bootstrap TCP in", FlowPassage::Accepted, "none"),
            ("bootstrap TCP out", FlowPassage::Accepted, "none"),
            ("RoCE v2 in", FlowPassage::Accepted, "none"),
            ("local", FlowPassage::Accepted, "none"),
        ],
    });
}

#[test]
fn nftables_policy_and_port_rules() {
    try_case(&Case {
        name: "nft",
        tools: &[],
        rules: "nft -f - <<'N'
table inet fw {
  set cluster { type ipv4_addr; flags interval; elements = { 10.88.0.0/16 } }
  chain helper { tcp dport 29500 reject with tcp reset; return; }
  chain in {
    type filter hook input priority filter; policy drop;
    iif lo accept
    ct state vmap { established : accept, related : accept, invalid : drop }
    jump helper
    ip saddr @cluster tcp dport 32768-49999 accept
    tcp dport vmap { 22 : accept, 50001-50100 : accept }
    udp dport 4791 counter drop
  }
  chain out { type filter hook output priority filter; policy accept; meta l4proto udp udp dport { 4789, 4791 } reject; }
}
N",
        wanted: &[
            ("bootstrap TCP in", FlowPassage::Partly, "policy drop of chain in in table inet fw"),
            ("bootstrap TCP out", FlowPassage::Accepted, "none"),
            ("rendezvous TCP in", FlowPassage::Rejected, "inet fw helper handle"),
            ("RoCE v2 in", FlowPassage::Dropped, "udp dport 4791 drop"),
            ("RoCE v2 out", FlowPassage::Rejected, "udp dport { 4789, 4791 } reject"),
            ("ssh in", FlowPassage::Accepted, "none"),
            ("path MTU discovery in", FlowPassage::Accepted, "none"),
            ("local", FlowPassage::Accepted, "none"),
        ],
    });
}

#[test]
fn nftables_of_several_tables_and_priorities() {
    try_case(&Case {
        name: "nft, several chains",
        tools: &[],
        rules: "nft -f - <<'N'
table ip first {
  chain in { type filter hook input priority -10; policy accept
    tcp dport 1024-65535 accept
    meta mark set 0x7
  }
}
table inet second {
  chain pre { type filter hook prerouting priority -300; policy accept
    udp dport 4791 notrack
    tcp dport 29500 meta mark set 0x10
  }
  chain in { type filter hook input priority 10; policy accept
    iifname \"fw*\" tcp dport 40000-65535 drop
    meta mark 0x10 drop
    meta mark & 0x7 == 0x7 tcp dport 22 reject
    ct state untracked drop
  }
  chain post { type filter hook postrouting priority 0; policy accept
    oifname \"fwa\" tcp dport > 50000 ct state new drop
  }
}
N",
        wanted: &[
            (
                "bootstrap TCP in",
                FlowPassage::Partly,
                "tcp dport 40000-65535 drop",
            ),
            (
                "bootstrap TCP out",
                FlowPassage::Partly,
                "tcp dport > 50000",
            ),
            (
                "rendezvous TCP in",
                FlowPassage::Dropped,
                "meta mark 16 drop",
            ),
            (
                "RoCE v2 in",
                FlowPassage::Dropped,
                "ct state untracked drop",
            ),
            ("ssh in", FlowPassage::Rejected, "tcp dport 22 reject"),
        ],
    });
}

const IPTABLES: &str = "
    $T -N CLUSTER; $T -A CLUSTER ! -s 10.88.0.0/24 -j RETURN; $T -A CLUSTER -p tcp -m multiport --dports 22,32768:45000 -j ACCEPT
    $T -A INPUT -i lo -j ACCEPT
    $T -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment \"known ones -j DROP\" -j ACCEPT
    $T -A INPUT -m conntrack --ctstate INVALID -j DROP
    $T -A INPUT -j CLUSTER
    $T -A INPUT -p udp -m udp --dport 4791 -j DROP
    $T -A INPUT -m limit --limit 3/min -j LOG --log-prefix \"[BLOCK] \"
    $T -A INPUT -p tcp -m tcp --dport 29500 --tcp-flags SYN,ACK SYN -j REJECT --reject-with tcp-reset
    $T -P INPUT DROP
    $T -A OUTPUT -o fw+ -p tcp -m tcp --dport 50000:65535 -m state --state NEW -j REJECT
    $T -t raw -A OUTPUT -p udp -m multiport --dports 4791,4792 -j DROP";
const OF_IPTABLES: &[Wanted<'_>] = &[
    (
        "bootstrap TCP in",
        FlowPassage::Partly,
        "policy drop of chain INPUT",
    ),
    (
        "bootstrap TCP out",
        FlowPassage::Partly,
        "iptables -A OUTPUT -o fw+ -p tcp",
    ),
    (
        "rendezvous TCP in",
        FlowPassage::Rejected,
        "--tcp-flags SYN,ACK SYN -j REJECT",
    ),
    (
        "RoCE v2 in",
        FlowPassage::Dropped,
        "iptables -A INPUT -p udp -m udp --dport 4791 -j DROP",
    ),
    (
        "RoCE v2 out",
        FlowPassage::Dropped,
        "iptables -t raw -A OUTPUT -p udp -m multiport",
    ),
    ("ssh in", FlowPassage::Accepted, "none"),
    ("local", FlowPassage::Accepted, "none"),
];

#[test]
fn iptables_over_nf_tables() {
    try_case(&Case {
        name: "iptables-nft",
        tools: &["iptables-nft"],
        rules: &IPTABLES.replace("$T", "iptables-nft"),
        wanted: OF_IPTABLES,
    });
}

#[test]
fn iptables_over_ip_tables() {
    try_case(&Case {
        name: "iptables-legacy",
        tools: &["iptables-legacy"],
        rules: &IPTABLES.replace("$T", "iptables-legacy"),
        wanted: OF_IPTABLES,
    });
}

/// ufw and firewalld write to /etc and /run: to copies of their own.
const OWN_FILES: &str = "
    D=$(mktemp -d); mount -t tmpfs t $D; mkdir $D/u $D/w
    mount -t overlay o -o lowerdir=/etc,upperdir=$D/u,workdir=$D/w /etc; mount -t tmpfs t /run; mkdir -p /run/dbus /run/lock
    mount -t tmpfs t /var/lib/ufw 2>/dev/null || true";

fn in_own_files(script: &str) -> String {
    format!(
        "unshare -m bash -ec '{}' >/dev/null 2>&1 </dev/null",
        format!("{OWN_FILES}\n{script}").replace('\'', "'\\''")
    )
}

#[test]
fn rules_of_ufw() {
    try_case(&Case {
        name: "ufw",
        tools: &["ufw", "iptables"],
        rules: &in_own_files(
            "ufw --force enable; ufw allow 22/tcp; ufw allow proto tcp from 10.88.0.0/24 to any port 32768:50000; ufw deny 4791/udp; ufw reject 29500/tcp; ufw deny out 60000:60999/tcp",
        ),
        wanted: &[
            ("bootstrap TCP in", FlowPassage::Partly, ""),
            ("bootstrap TCP out", FlowPassage::Partly, "ufw-user-output"),
            ("rendezvous TCP in", FlowPassage::Rejected, "ufw-user-input"),
            ("RoCE v2 in", FlowPassage::Dropped, "4791"),
            ("ssh in", FlowPassage::Accepted, "none"),
            ("local", FlowPassage::Accepted, "none"),
        ],
    });
}

#[test]
fn rules_of_firewalld() {
    try_case(&Case {
        name: "firewalld",
        tools: &["firewalld", "firewall-cmd", "dbus-daemon"],
        rules: &in_own_files(
            "dbus-daemon --system --fork --nopidfile --print-pid >/run/bus.pid
            firewalld --nofork --nopid & d=$!
            for i in $(seq 50); do firewall-cmd --state && break; sleep 0.2; done
            firewall-cmd --change-interface=fwa --zone=public
            firewall-cmd --add-port=32768-45000/tcp; firewall-cmd --add-rich-rule=\"rule port port=4791 protocol=udp drop\"
            firewall-cmd --add-rich-rule=\"rule family=ipv4 source address=10.99.0.0/16 port port=29500 protocol=tcp accept\"
            kill -9 $d $(cat /run/bus.pid)",
        ),
        wanted: &[
            ("bootstrap TCP in", FlowPassage::Partly, "reject"),
            ("bootstrap TCP out", FlowPassage::Accepted, "none"),
            ("rendezvous TCP in", FlowPassage::Rejected, "inet firewalld"),
            ("RoCE v2 in", FlowPassage::Dropped, "udp dport 4791"),
            ("ssh in", FlowPassage::Accepted, "none"),
            ("local", FlowPassage::Accepted, "none"),
        ],
    });
}

/// A generator of numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.next(of.len())]
    }
}

fn random_nft(dice: &mut Dice) -> String {
    let matches = [
        "iifname lo",
        "iif lo",
        "iifname fwa",
        "iifname \"fw*\"",
        "iifname { lo, eth7 }",
        "iifname != lo",
        "oifname fwa",
        "oif lo",
        "ct state new",
        "ct state established",
        "ct state established,related",
        "ct state { new, untracked }",
        "ct state != new",
        "tcp dport 40000",
        "tcp dport 32768-50000",
        "tcp dport { 22, 29500, 40000-60999 }",
        "tcp dport != 22",
        "tcp dport < 45000",
        "tcp dport != { 22, 40000 }",
        "tcp sport 1024-65535",
        "udp dport 4791",
        "udp dport != 4791",
        "th dport 4000-41000",
        "ip saddr 10.88.0.0/24",
        "ip saddr 10.88.0.0-10.88.0.255",
        "ip saddr != 10.88.0.0/16",
        "ip saddr 10.99.0.0/16",
        "ip daddr 10.88.0.1",
        "ip daddr != 10.88.0.1",
        "ip saddr { 10.88.0.0/24, 10.1.2.3 }",
        "meta l4proto tcp",
        "meta l4proto { tcp, icmp }",
        "meta l4proto != tcp",
        "ip protocol udp",
        "meta nfproto ipv4",
        "meta nfproto ipv6",
        "ip6 saddr fe80::/10",
        "meta mark 0x1",
        "meta mark != 0x1",
        "meta mark & 0x3 == 0x2",
        "tcp flags & (syn|ack) == syn",
        "tcp flags syn",
        "fib daddr type local",
        "fib saddr type local",
        "icmp type echo-request",
        "ct direction original",
        "ct mark 0x0",
        "ct status dnat",
        "meta pkttype host",
    ];
    let ends = [
        "accept",
        "accept",
        "drop",
        "drop",
        "reject",
        "return",
        "continue",
        "jump one",
        "jump two",
        "goto two",
        "counter",
        "meta mark set 0x1",
        "meta mark set mark or 0x2",
        "tcp dport vmap { 22 : drop, 32768-45000 : accept, 50000 : jump two }",
        "meta l4proto vmap { tcp : jump two, udp : accept }",
        "ct state vmap { new : continue, established : accept }",
        "iifname vmap { lo : accept, fwa : jump two }",
        "meta l4proto . th dport vmap { tcp . 40000 : drop, udp . 4791 : drop }",
    ];
    let mut rules = |depth: usize, most: usize| {
        let mut text = String::new();
        for _ in 0..dice.next(most) {
            let mut rule = String::new();
            for _ in 0..dice.next(3) {
                rule += dice.pick(&matches);
                rule.push(' ');
            }
            let mut end = dice.pick(&ends);
            if depth == 0 && end.contains("one")
                || depth > 0 && end.contains("two")
                || depth == 0 && end.contains("two") && rule.is_empty()
            {
                end = "counter";
            }
            let _ = writeln!(text, "    {rule}{end}");
        }
        text
    };
    let (two, one) = (rules(1, 4), rules(0, 4));
    // What is in `one` may jump to `two`, and not to itself.
    let bodies: Vec<String> = (0..4).map(|_| rules(2, 6)).collect();
    let mut text =
        format!("table inet t {{\n  chain two {{\n{two}  }}\n  chain one {{\n{one}  }}\n");
    for (hook, body) in ["input", "output", "prerouting", "postrouting"]
        .iter()
        .zip(bodies)
    {
        let policy = match hook {
            &"input" | &"output" => dice.pick(&["accept", "accept", "drop"]),
            _ => "accept",
        };
        let priority = dice.next(3) as i32 - 1;
        let _ = writeln!(
            text,
            "  chain {hook} {{ type filter hook {hook} priority {priority}; policy {policy};\n    jump one\n{body}  }}"
        );
    }
    text.push_str("}\n");
    text
}

fn random_iptables(dice: &mut Dice, tool: &str) -> String {
    let matches = [
        "-i lo",
        "! -i lo",
        "-i fwa",
        "-i fw+",
        "-p tcp",
        "! -p udp",
        "-p tcp -m tcp --dport 40000",
        "-p tcp -m tcp --dport 32768:50000",
        "-p tcp -m tcp ! --dport 1:1023",
        "-p tcp -m multiport --dports 22,29500,40000:60999",
        "-p tcp -m multiport ! --dports 22,50000",
        "-p tcp -m multiport --ports 22,40000:50000",
        "-p udp -m udp --dport 4791",
        "-p udp -m multiport --dports 4789:4791",
        "-s 10.88.0.0/24",
        "! -s 10.88.0.0/16",
        "-s 10.99.0.0/16",
        "-d 10.88.0.1/32",
        "! -d 10.88.0.1/32",
        "-m conntrack --ctstate NEW",
        "-m conntrack --ctstate RELATED,ESTABLISHED",
        "-m state --state NEW",
        "-m conntrack ! --ctstate NEW",
        "-m mark --mark 0x1",
        "-m mark ! --mark 0x1/0x3",
        "-p tcp -m tcp --syn",
        "-p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK",
        "-m addrtype --dst-type LOCAL",
        "-m addrtype --src-type LOCAL",
        "-p icmp -m icmp --icmp-type 8",
        "-m iprange --src-range 10.88.0.0-10.88.0.255",
        "-m comment --comment \"a -j DROP\"",
        "-m conntrack --ctstate DNAT",
        "-m pkttype --pkt-type unicast",
    ];
    let ends = [
        "-j ACCEPT",
        "-j ACCEPT",
        "-j DROP",
        "-j DROP",
        "-j REJECT",
        "-j RETURN",
        "-j ONE",
        "-j TWO",
        "-g TWO",
        "",
        "-j MARK --set-mark 0x1",
    ];
    let mut text = format!("{tool} -N ONE; {tool} -N TWO\n");
    for (chain, most) in [("TWO", 4), ("ONE", 4), ("INPUT", 6), ("OUTPUT", 6)] {
        for _ in 0..dice.next(most) {
            let first = dice.pick(&matches);
            let mut end = dice.pick(&ends);
            let inner = chain == "TWO" || chain == "ONE" && end.contains("ONE");
            if end.contains("MARK") || inner && (end.contains("ONE") || end.contains("TWO")) {
                end = "";
            }
            // -i has no meaning on the way out, and iptables refuses it there.
            let first = if chain != "INPUT" && (first.contains("-i ") || first.contains("pkttype"))
            {
                "-p tcp"
            } else {
                first
            };
            let _ = writeln!(text, "{tool} -A {chain} {first} {end}");
        }
    }
    let _ = writeln!(
        text,
        "{tool} -t mangle -A PREROUTING {} -j MARK --set-mark 0x1",
        dice.pick(&matches)
            .replace("--src-type LOCAL", "--src-type UNICAST")
    );
    let _ = writeln!(
        text,
        "{tool} -P INPUT {}",
        dice.pick(&["ACCEPT", "ACCEPT", "DROP"])
    );
    let _ = writeln!(
        text,
        "{tool} -P OUTPUT {}",
        dice.pick(&["ACCEPT", "ACCEPT", "DROP"])
    );
    text
}

#[test]
fn random_rules_agree_with_packets() {
    if !can_run(&["ip", "nft", "iptables-nft", "iptables-legacy"]) {
        return;
    }
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .and_then(|v| v.parse().ok())
            .unwrap_or(default)
    };
    let rounds = number("RDMA_DOCTOR_FIREWALL_RULESETS", sample::times(15));
    let seed = number("RDMA_DOCTOR_FIREWALL_SEED", 1);
    let net = Net::new();
    let (mut loaded, mut compared, mut silent, mut blocked) = (0, 0, 0, 0);
    let mut wrong = String::new();
    for round in 0..rounds {
        // Rules that contradict themselves, or that this kernel does not support, are thrown again.
        let script = (0..8).find_map(|again| {
            let mut dice = Dice((seed * 1_000_003 + round) * 8 + again);
            dice.next(2);
            let script = match round % 3 {
                0 => format!("nft -f - <<'N'\n{}N", random_nft(&mut dice)),
                1 => random_iptables(&mut dice, "iptables-nft"),
                _ => random_iptables(&mut dice, "iptables-legacy"),
            };
            net.flush();
            net.run(&format!("set -e\n{script}")).0.then_some(script)
        });
        let Some(script) = script else {
            continue;
        };
        loaded += 1;
        let (facts, node) = net.judged();
        for id in facts.all(Subject::Flow) {
            match facts.known(id, flow::VERDICT) {
                None => silent += 1,
                Some(FlowPassage::Accepted) => {}
                Some(_) => blocked += 1,
            }
        }
        let (disagree, tried) = compare(&net, &facts, node, &[32768, 40000, 50000, 55000]);
        compared += tried;
        if !disagree.is_empty() {
            let _ = writeln!(
                wrong,
                "seed {seed} round {round}:\n{}\n{script}\n",
                disagree.join("\n")
            );
        }
    }
    say(&format!(
        "{loaded} rulesets, {compared} flows compared, {blocked} verdicts other than accepted, {silent} unknown"
    ));
    assert!(wrong.is_empty(), "{wrong}");
    assert!(loaded * 2 >= rounds, "most rulesets load");
    assert!(compared > 5 * loaded as u32, "most flows have a verdict");
}
