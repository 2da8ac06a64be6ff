//! Faults of the packet's way that need no RDMA, made for real between two network namespaces: the rows of `tests/vm/path-faults` that tc, ip and nft make
//! on one node. One of each class, and all healthy set-ups; those that this kernel cannot make are said. The virtual machines make the others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rdma_doctor::source::recording::Recording;
use serde_json::Value;

use crate::known_half::judged;
use crate::namespaces::{can_run, say, shell};
use crate::place::{doctor, unique};

/// What rows are made with here: tools, and functions of the script.
const TOOLS: &[&str] = &[
    "tc", "ip", "nft", "true", "sysctl", "rdma", "export", "both", "n1", "peer", "hello",
];
/// Rows that are other between the ends of a veth pair: it is no hardware, which is asked for hardware addresses.
const OF_HARDWARE: &[&str] = &["arp-off"];
/// A policy of IPsec that blocks a peer: soft-RoCE's queue pairs do not survive it.
const BLOCKED: [&str; 2] = [
    "hello 2",
    "ip xfrm policy add src 192.168.77.1/32 dst 192.168.77.2/32 dir out action block",
];
/// The exit status of a script whose fault this kernel cannot make.
const NOT_MADE: &str = "77";

/// Name, the check that must lead or `healthy`, and the commands.
type Row = (String, String, Vec<String>);

/// What a row shows: one of several that show the same will do.
fn class((name, expect, commands): &Row) -> (String, String) {
    let tool = commands.last().and_then(|line| line.split(' ').next());
    let what = if expect == "healthy" {
        Some(&**name)
    } else {
        tool
    };
    (expect.clone(), what.unwrap_or_default().to_owned())
}

fn rows() -> Vec<Row> {
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vm/path-faults");
    let table = fs::read_to_string(table).unwrap() + include_str!("packet_path/address-faults");
    let mut all = vec![(
        "policy-of-ipsec".to_owned(),
        "network/way-refused".to_owned(),
        BLOCKED.map(str::to_owned).to_vec(),
    )];
    for row in table.split("\n== ").skip(1) {
        let mut lines = row
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let cells: Vec<&str> = lines.next().unwrap().split('|').map(str::trim).collect();
        let [name, expect, damage, ..] = cells[..] else {
            panic!("{row}");
        };
        let commands: Vec<String> = lines.map(str::to_owned).collect();
        let here = commands.iter().all(|line| {
            let tool = line.split(' ').next().unwrap_or_default();
            TOOLS.contains(&tool) && (expect == "healthy" || !line.contains("rdma"))
        });
        let area = expect.split('/').next().unwrap_or_default();
        let seen = match area {
            "healthy" => true,
            "network" | "firewall" => damage == "both" || damage == "tcp",
            _ => false,
        };
        if here && seen && !OF_HARDWARE.contains(&name) {
            all.push((name.to_owned(), expect.to_owned(), commands));
        }
    }
    all
}

/// What is wrong with what the doctor says of a row; `Err` if the fault cannot be made here.
fn judge((name, expect, commands): &Row) -> Result<Option<String>, String> {
    let (near, far) = (unique("rd-near"), unique("rd-far"));
    let doctor = doctor();
    let commands = commands.join("\n");
    let script = format!(
        r#"near={near} far={far}
trap 'ip netns del $near; ip netns del $far' EXIT
ip netns add $near && ip netns add $far || exit 1
ip link add eth0 netns $near address 52:54:00:77:00:01 type veth peer name eth0 netns $far address 52:54:00:77:00:02
ip -n $near address add 192.168.77.1/24 dev eth0
ip -n $far address add 192.168.77.2/24 dev eth0
for ns in $near $far; do ip -n $ns link set lo up; ip -n $ns link set eth0 up; done
export far VM_NODE=0 MASTER_ADDR=192.168.77.2 MASTER_PORT=29500 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1
ip netns exec $near bash -e <<'MAKE'
exec 3>&1 >&2
# No module is loaded here, no device made, and a setting of the whole machine stays as it is.
rdma() {{ :; }}
modprobe() {{ :; }}
sysctl() {{ for one in "${{@:2}}"; do command sysctl -qw "$one" || :; done; }}
export -f rdma modprobe sysctl
n1() {{ VM_NODE=1 ip netns exec $far bash -ec "$*"; }}
hello() {{ for a; do timeout 4 bash -c ": </dev/tcp/192.168.77.$a/9" 2>/dev/null || :; done; }}
both() {{ eval "$*"; n1 "$*"; }}
peer() {{ export MASTER_ADDR=$1; }}
trap 'exit {NOT_MADE}' ERR
{commands}
trap - ERR
{doctor} check --only "network/*" --only "firewall/*" --format json 2>/dev/null >&3 || :
MAKE"#
    );
    let (done, said) = shell(&script);
    if !done {
        return Err(said.trim().replace('\n', "; "));
    }
    let json = said
        .find('{')
        .and_then(|at| said.rfind('}').map(|end| &said[at..=end]));
    let report: Value = json
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let Some(causes) = report["causes"].as_array() else {
        return Ok(Some(format!("{name}: no report: {said}")));
    };
    let led = causes.first().map_or("healthy", |cause| {
        cause["check"].as_str().unwrap_or_default()
    });
    Ok((led != expect).then(|| format!("{name}: {led} leads, not {expect}")))
}

#[test]
fn faults_of_the_packets_way_lead_between_namespaces() {
    if !can_run(
        "faults of the packet's way",
        &["tc", "nft"],
        "ip -n $ns link set lo up",
    ) {
        return;
    }
    let (mut wrong, mut made) = (Vec::new(), BTreeSet::new());
    for row in rows() {
        let class = class(&row);
        if made.contains(&class) {
            continue;
        }
        match judge(&row) {
            Ok(None) => {
                made.insert(class);
            }
            Ok(Some(what)) => wrong.push(what),
            Err(why) => say(&format!("not made here: {}: {why}", row.0)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let quiet = made.iter().filter(|(expect, _)| expect == "healthy");
    let quiet = quiet.count();
    say(&format!(
        "{} faults lead, {quiet} set-ups are quiet",
        made.len() - quiet
    ));
    // Each kernel with namespaces has rules, routes and the token bucket.
    assert!(made.len() >= 4, "{made:?}");
}

/// The healthy set-ups as `KEEP=1 tests/vm/path.sh` recorded them, on Linux 6.1 with soft-RoCE and in the table's order: each kernel has them so.
#[test]
fn healthy_set_ups_of_virtual_machines_stay_quiet() {
    let table = include_str!("../vm/path-faults");
    let names = table.lines().filter_map(|line| line.strip_prefix("== "));
    let names: Vec<&str> = names.filter(|name| name.starts_with("healthy-")).collect();
    let packed = include_bytes!("packet_path/healthy.jsonl.zst");
    let text = zstd::decode_all(&packed[..]).unwrap();
    let text = String::from_utf8(text).unwrap();
    let begin = "{\"rdma-doctor-recording\"";
    let all: Vec<&str> = text.split(begin).skip(1).collect();
    assert_eq!(all.len(), names.len());
    for (name, rest) in names.iter().zip(all) {
        let one = format!("{begin}{rest}");
        let recording = Recording::read(one.as_bytes(), Path::new("healthy.jsonl")).unwrap();
        assert!(recording.is_complete(), "{name}");
        let report = judged(&recording);
        assert_eq!(report.status, "healthy", "{name}: {}", report.headline);
    }
}
