//! The same network recorded live and by the outputs of its tools: what both say agrees, by text and by JSON.

use std::collections::BTreeMap;

use rdma_doctor::examine::one;
use rdma_doctor::fact::{Facts, Subject, flow, interface, obstacle};
use rdma_doctor::probe::outputs::recorded::Evidence;
use rdma_doctor::source::recording::Recording;

use crate::namespaces::{can_run, shell};
use crate::place::{Scratch, doctor, unique};

/// A rail with a route that makes packets small, rules, a table of its own, a neighbour that somebody wrote down, and a filter.
const MADE: &str = "ip link set lo up; ip link add eth0 type veth peer name eth1
ip link set eth0 mtu 9000 up; ip link set eth1 mtu 9000 up
ip addr add 10.9.0.1/16 dev eth0; ip addr add 10.8.0.1/24 dev eth1
ip route replace 10.9.0.0/16 dev eth0 src 10.9.0.1 mtu 1400
ip route add default via 10.9.0.254; ip route add unreachable 10.9.4.0/24
ip route add 10.8.0.0/24 dev eth1 src 10.8.0.1 table 102
ip rule add pref 90 to 10.9.0.0/16 ipproto tcp prohibit; ip rule add pref 100 from 10.8.0.1 lookup 102
ip neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent";
const FILTER: &str = "table inet t {
    set known { type ipv4_addr; flags interval; elements = { 10.8.0.0/24, 192.168.0.1-192.168.0.9 } }
    chain sub { udp dport { 53, 4791 } drop; tcp dport 1024-65535 counter reject with tcp reset; return; }
    chain in { type filter hook input priority filter - 5; policy drop;
        ct state vmap { established : accept, invalid : drop }
        iifname { lo, eth9 } accept
        iifname \"eth1\" ip saddr @known jump sub
        iifname eth1 accept;
    }
}";

/// What is said of obstacles and of the ways of interfaces, by what it is said of; and the verdicts of flows that are known.
fn said(facts: &Facts) -> [BTreeMap<String, String>; 2] {
    let (mut ways, mut flows) = (BTreeMap::new(), BTreeMap::new());
    for id in facts.all(Subject::Interface) {
        let networks = facts.known(id, interface::NETWORKS);
        let written = facts.known(id, interface::PERMANENT_NEIGHBOURS);
        let of = format!(
            "{networks:?} {written:?} {:?}",
            facts.known(id, interface::ROUTED)
        );
        ways.insert(facts.name(id).to_owned(), of);
    }
    for id in facts.all(Subject::Obstacle) {
        let kind = format!("{:?}", facts.known(id, obstacle::KIND));
        ways.insert(facts.name(id).to_owned(), kind);
    }
    for id in facts.all(Subject::Flow) {
        if let Some(verdict) = facts.known(id, flow::VERDICT) {
            flows.insert(facts.name(id).to_owned(), format!("{verdict:?}"));
        }
    }
    [ways, flows]
}

#[test]
fn outputs_say_what_a_recording_of_the_same_network_says() {
    let trial =
        "ip -n $ns rule add pref 9 ipproto tcp prohibit && ip netns exec $ns nft add table inet t";
    if !can_run("outputs of a namespace", &["nft"], trial) {
        return;
    }
    let scratch = Scratch::new("evidence-live");
    let (live, doctor, ns) = (scratch.join("live.jsonl"), doctor(), unique("rd-out"));
    let script = |json: &str| {
        format!(
            r#"for one in "ip -d {json} link" "ip {json} addr" "ip {json} rule" "ip {json} route show table all" "ip {json} neigh" \
                "ip -6 {json} rule" "ip -6 {json} route" "nft {json} list ruleset" "sysctl net.ipv4.ip_local_port_range"; do
                echo "$ $one"; $one; echo; done"#
        )
    };
    let (done, out) = shell(&format!(
        "trap 'ip netns del {ns}' EXIT; ip netns add {ns}; ip netns exec {ns} bash -e <<'MAKE'
{MADE}
nft -f - <<'NFT'
{FILTER}
NFT
{doctor} record --no-redact --no-self-test -o {live} >/dev/null 2>&1 || :
{}
echo == json ==
{}
MAKE",
        script(""),
        script("-j"),
        live = live.display(),
    ));
    assert!(done, "{out}");
    let recording = Recording::open(&live).unwrap();
    let [ways, flows] = said(&one::facts(&[recording]).0);
    assert!(ways.len() == 6 && flows.len() > 3, "{ways:?} {flows:?}");
    let (text, json) = out.split_once("== json ==\n").unwrap();
    for outputs in [text, json] {
        let mut evidence = Evidence::of("post");
        evidence.add_text("post.txt", outputs);
        assert!(evidence.unread().is_empty(), "{:?}", evidence.unread());
        let [printed, judged] = said(&one::facts(&evidence.finish()).0);
        assert_eq!(printed, ways, "{outputs}");
        // A post does not say which filters it leaves out, so that it proves what is stopped.
        let both = judged
            .iter()
            .filter_map(|(of, is)| Some((of, is, flows.get(of)?)));
        let stopped = both.inspect(|(of, is, live)| assert_eq!(is, live, "{of}\n{outputs}"));
        assert!(stopped.count() >= 2, "{judged:?} {flows:?}");
    }
}
