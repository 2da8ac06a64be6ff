//! The way to rank 0 is the one that the kernel takes: of several gateways of an interface the one
//! that leads there, and what refuses to lead there, are named.

use serde_json::Value;

use crate::namespaces::{can_run, shell};
use crate::place::{doctor, unique};

/// The report of a node with an interface, two routes over it and this change, in a job whose
/// rank 0 has this address.
fn report(change: &str, rank_0: &str) -> Value {
    let near = unique("rd-way");
    let script = format!(
        r#"trap 'ip netns del {near}; ip netns del {near}-far' EXIT
set -e
ip netns add {near}; ip netns add {near}-far
ip link add eth0 netns {near} type veth peer name eth0 netns {near}-far
ip -n {near} address add 192.168.77.1/24 dev eth0
ip -n {near}-far address add 192.168.77.2/24 dev eth0
for ns in {near} {near}-far; do for of in lo eth0; do ip -n $ns link set $of up; done; done
ip -n {near} route add default via 192.168.77.2
ip -n {near} route add 10.8.0.0/16 via 192.168.77.2
ip -n {near} route add 10.9.0.0/16 via 192.168.77.253
ip netns exec {near} bash -e <<'INSIDE'
{change}
export MASTER_ADDR={rank_0} MASTER_PORT=29500 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1
{doctor} check --alone --format json 2>/dev/null || :
INSIDE"#,
        doctor = doctor()
    );
    let (_, said) = shell(&script);
    let json = said.find('{').and_then(|at| said.get(at..));
    serde_json::from_str(json.unwrap_or_default()).unwrap_or_else(|e| panic!("{e}: {said}"))
}

/// What a check says, as error, warning or note, if it fails.
fn finding(report: &Value, check: &str) -> Option<String> {
    let lists = ["causes", "notes"].map(|list| report[list].as_array().unwrap());
    let mut all = lists.into_iter().flatten();
    let found = all.find(|one| one["check"] == check)?;
    Some(found["sentence"].as_str().unwrap().to_owned())
}

#[test]
fn the_way_to_rank_0_is_the_kernels() {
    if !can_run("ways to rank 0", &[], "ip -n $ns link set lo up") {
        return;
    }
    const GATEWAY: &str = "network/gateway-unanswered";
    const REFUSED: &str = "setting/rendezvous-unroutable";
    for rank_0 in ["10.8.0.7", "172.16.0.7", "192.168.77.2"] {
        let fine = report("", rank_0);
        assert_eq!(finding(&fine, GATEWAY), None, "{rank_0}: {fine}");
        assert_eq!(finding(&fine, REFUSED), None, "{rank_0}: {fine}");
    }
    let silent = report("", "10.9.0.7");
    let said = finding(&silent, GATEWAY).unwrap_or_else(|| panic!("{silent}"));
    assert!(said.contains("10.9.0.0/16 via 192.168.77.253"), "{said}");
    assert!(said.contains("the way to 10.9.0.7"), "{said}");
    let elsewhere =
        "ip rule add to 10.9.0.7 table 7; ip route add default via 192.168.77.2 table 7";
    let by_rule = report(elsewhere, "10.9.0.7");
    assert_eq!(finding(&by_rule, GATEWAY), None, "{by_rule}");
    for (change, rank_0, why) in [
        (
            "ip route add blackhole 10.7.0.0/16",
            "10.7.0.7",
            "invalid argument",
        ),
        (
            "ip route add unreachable 10.7.0.0/16",
            "10.7.0.7",
            "no route to host",
        ),
        (
            "ip route add prohibit 10.7.0.0/16",
            "10.7.0.7",
            "permission denied",
        ),
        (
            "ip route del default",
            "172.16.0.7",
            "network is unreachable",
        ),
        (
            "ip rule add to 172.16.0.7 prohibit",
            "172.16.0.7",
            "permission denied",
        ),
    ] {
        let refused = report(change, rank_0);
        let said = finding(&refused, REFUSED).unwrap_or_else(|| panic!("{change}: {refused}"));
        assert!(
            said.contains(why) && said.contains(rank_0),
            "{change}: {said}"
        );
        assert_eq!(refused["exit"], 2, "{change}");
    }
}
