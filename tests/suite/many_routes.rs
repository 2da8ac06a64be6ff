//! A node of a large network is judged as well as any: ten thousand routes hide nothing and take nothing away.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;

use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::many;
use rdma_doctor::report::{Policy, Report};
use rdma_doctor::source::recording::Recording;
use rdma_doctor::source::wire::Line;
use rdma_doctor::source::{Answer, Question};
use serde_json::Value;

use crate::namespaces::{can_run, shell};
use crate::place::{doctor, unique};

/// A route of the main table to 256 addresses from this one on, by a gateway on the interface of this number.
fn route(to: Ipv4Addr, interface: u32) -> Vec<u8> {
    let mut message = [52u32.to_le_bytes(), [24, 0, 2, 0], [1, 0, 0, 0], [0; 4]].concat();
    // AF_INET, the length of the prefix, table 254, RTPROT_BOOT, RT_SCOPE_UNIVERSE, RTN_UNICAST.
    message.extend([2, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0]);
    for (attribute, value) in [
        (1u8, to.octets()),
        (5, Ipv4Addr::new(10, 77, 0, 1).octets()),
        (4, interface.to_le_bytes()),
    ] {
        message.extend([8, 0, attribute, 0]);
        message.extend(value);
    }
    message
}

/// The recording of the healthy node with these routes behind its own.
fn with_routes(more: &[u8]) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rxe-two-healthy.jsonl.zst");
    let whole = Recording::open(&path).unwrap();
    let mut recording = Recording::new(whole.header.clone());
    let asked = Question::netlink("route/getroute", []);
    let mut added = 0;
    for mut line in whole.to_lines() {
        if let Line::Reply {
            question, reply, ..
        } = &mut line
            && *question == asked
            && let Ok(Answer::Bytes(bytes)) = &mut reply.said
        {
            *bytes = [bytes, more].concat().into();
            added += 1;
        }
        recording.add(line);
    }
    assert!(added > 0, "the fixture has routes");
    recording.end();
    recording
}

fn judged(recording: Recording) -> Report {
    let catalogue = Catalogue::embedded().unwrap();
    many::judged(&catalogue, &[recording], &Policy::default())
}

#[test]
fn ten_thousand_routes_take_nothing_away() {
    let routes = (0..10_000u32).flat_map(|n| route(Ipv4Addr::from(0x1400_0000 + (n << 8)), 2));
    let routes: Vec<u8> = routes.collect();
    let (few, many) = (judged(with_routes(&[])), judged(with_routes(&routes)));
    assert_eq!((few.status, &few.headline), ("healthy", &many.headline));
    assert_eq!(few.counts.passes, many.counts.passes);
}

#[test]
fn what_is_no_route_among_ten_thousand_is_said() {
    let routes = (0..10_000u32).flat_map(|n| route(Ipv4Addr::from(0x1400_0000 + (n << 8)), 2));
    let broken: Vec<u8> = routes.chain([9; 20]).collect();
    let report = judged(with_routes(&broken));
    assert_eq!(report.status, "undecided", "{}", report.headline);
}

/// A node of a container network in a namespace: routes to so many other nodes' networks and to
/// four times as many endpoints, each node's address written down, and a fault.
fn container_host(nodes: u32, fault: &str) -> Value {
    let near = unique("rd-routes");
    let script = format!(
        r#"trap 'ip netns del {near}; ip netns del {near}-far' EXIT
set -e
ip netns add {near}; ip netns add {near}-far
ip link add eth0 netns {near} type veth peer name eth0 netns {near}-far
ip link add flannel.1 netns {near} type veth peer name flannel.1 netns {near}-far
ip -n {near} address add 192.168.77.1/24 dev eth0
ip -n {near} address add 10.244.0.0/32 dev flannel.1
ip -n {near}-far address add 192.168.77.2/24 dev eth0
for ns in {near} {near}-far; do
    for of in lo eth0 flannel.1; do ip -n $ns link set $of up; done
done
ip -n {near} route add default via 192.168.77.2
for ((i = 0; i < {nodes}; i++)); do
    a=$((i / 256)) b=$((i % 256))
    printf -v six %x $i; printf -v mac %02x:%02x $a $b
    echo "route add 10.$((64 + a)).$b.0/24 via 192.168.77.2 dev eth0"
    for ((end = 0; end < 4; end++)); do echo "route add 172.$((16 + a)).$b.$end dev flannel.1"; done
    echo "route add fd00:$six::/64 dev flannel.1"
    echo "neigh add 10.$((64 + a)).$b.0 lladdr 02:00:00:00:$mac nud permanent dev flannel.1"
done | ip -n {near} -batch -
for ns in {near} {near}-far; do
    until [ -z "$(ip -n $ns address show tentative)" ]; do sleep 0.1; done
    until [ "$(ip -n $ns -o link show up | grep -c 'LOWER_UP')" = 3 ]; do sleep 0.1; done
done
# The kernel's log and the load are the whole machine's, to which other tests add.
ip netns exec {near} unshare --mount bash -e <<'INSIDE'
mount --bind /dev/null /dev/kmsg
{fault}
{doctor} check --skip 'host/*' --format json 2>/dev/null || :
INSIDE"#,
        doctor = doctor()
    );
    let (_, said) = shell(&script);
    let json = said.find('{').and_then(|at| said.get(at..));
    let mut report: Value =
        serde_json::from_str(json.unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {said}"));
    // These are of each run.
    for key in ["nodes", "seconds"] {
        report.as_object_mut().unwrap().remove(key);
    }
    report
}

#[test]
fn a_host_with_ten_thousand_routes_is_judged_as_one_with_five() {
    if !can_run(
        "a host of a container network",
        &[],
        "ip -n $ns link set lo up",
    ) {
        return;
    }
    let astray = "ip route add blackhole 192.168.77.128/25";
    for fault in ["", astray] {
        let (few, many) = (container_host(5, fault), container_host(10_000, fault));
        let lines = |report| serde_json::to_string_pretty(report).unwrap();
        let (of_few, of_many) = (lines(&few), lines(&many));
        let only = |a: &str, b: &str| {
            let there: BTreeSet<&str> = b.lines().collect();
            let only = a.lines().filter(|line| !there.contains(line));
            only.collect::<Vec<_>>().join("\n")
        };
        assert!(
            few == many,
            "{fault}: five alone:\n{}\nten thousand alone:\n{}",
            only(&of_few, &of_many),
            only(&of_many, &of_few)
        );
        let found = few["causes"].to_string().contains("192.168.77.128/25");
        assert_eq!(found, !fault.is_empty(), "{few}");
    }
}
