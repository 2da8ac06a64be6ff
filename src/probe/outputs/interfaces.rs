//! Interfaces and their addresses, as ip(8) prints them: as text, and by `-j`.

use std::sync::Arc;

use serde_json::Value;

use super::statistics::Damage;
use super::{Output, OutputLine};
use crate::fact::port::OperState;
use crate::fact::{Bytes, Facts, Id, Membership, Subject, interface, netdev};

/// What is said of an interface.
struct Link<'p> {
    name: String,
    line: OutputLine<'p>,
    flags: Vec<String>,
    mtu: Option<u64>,
    state: String,
    index: Option<u64>,
    master: Option<String>,
    kind: Option<String>,
    addresses: Vec<String>,
}

/// States what one output says.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let is = |words: &[&str]| words.iter().any(|word| output.has(word));
    if is(&["-br", "-brief"]) {
        return brief(output, facts, node, is(&["addr", "address", "a"]));
    }
    if is(&["link", "l", "addr", "address", "a"]) {
        let json: Option<Vec<Value>> = serde_json::from_str(&output.text()).ok();
        let links = match (json, output.lines().next()) {
            (Some(list), Some(line)) => list.iter().filter_map(|one| of_json(one, line)).collect(),
            _ => of_text(output),
        };
        let with_addresses = is(&["addr", "address", "a"]);
        interfaces(output, facts, node, &links, with_addresses);
        received_badly(output, facts, node);
    }
}

/// Below an interface of `ip -s link`, `RX:  bytes packets errors dropped  missed   mcast` and the numbers of these.
fn received_badly(output: &Output, facts: &mut Facts, node: Id) {
    let mut name = None;
    let mut place = None;
    for line in output.lines() {
        if let Some(found) = head(line.text) {
            (name, place) = (Some(found.1), None);
            continue;
        }
        let mut words = line.text.split_whitespace();
        if let (Some(name), Some(at)) = (name, place.take()) {
            if let Some(count) = words.nth(at).and_then(|word| word.parse().ok()) {
                let id = facts.instance(Subject::Netdev, node, name);
                let name = "RX errors";
                Damage { name, count, line }.state(facts, id);
            }
        } else if words.next() == Some("RX:") {
            place = words.position(|word| word == "errors");
        }
    }
}

fn interfaces(
    output: &Output,
    facts: &mut Facts,
    node: Id,
    links: &[Link<'_>],
    with_addresses: bool,
) {
    // `-d` alone shows kinds, and JSON shows what differs from nothing.
    let with_kinds = output.argv.iter().any(|arg| arg.starts_with("-d"));
    for link in links {
        let id = facts.instance(Subject::Interface, node, &link.name);
        let line = &link.line;
        let has = |flag: &str| link.flags.iter().any(|f| f == flag);
        facts.set(id, interface::UP, line.known(has("UP")));
        // IFF_RUNNING follows the operational state; a driver that does not state one is up.
        let running = match link.state.as_str() {
            "UP" => Some(true),
            "UNKNOWN" => Some(has("UP")),
            "" => None,
            _ => Some(false),
        };
        if running.is_some() {
            facts.set(id, interface::RUNNING, line.read(running));
        }
        facts.set(id, interface::LOOPBACK, line.known(has("LOOPBACK")));
        facts.set(id, interface::ARP, line.known(!has("NOARP")));
        facts.set(id, interface::MTU, line.read(link.mtu.map(Bytes)));
        facts.set(id, interface::INDEX, line.read(link.index));
        let master = link.master.as_deref().unwrap_or("none");
        facts.set(id, interface::MASTER, line.known(master.into()));
        if with_kinds || link.kind.is_some() {
            let kind = link.kind.as_deref().unwrap_or("none");
            facts.set(id, interface::KIND, line.known(kind.into()));
        }
        if with_addresses {
            let addresses: Arc<[Arc<str>]> =
                link.addresses.iter().map(|a| Arc::from(&**a)).collect();
            facts.set(id, interface::ADDRESSES, line.known(addresses));
        }
        // A network device that belongs to a port has been made by what named it.
        if let Some(id) = facts.find(Subject::Netdev, node, &link.name) {
            facts.set(id, netdev::UP, line.known(has("UP")));
            facts.set(id, netdev::MTU, line.read(link.mtu.map(Bytes)));
            let state = OperState::from_word(&link.state.to_lowercase());
            facts.set(id, netdev::OPERSTATE, line.read(state));
        }
    }
    if output.is_whole(&["link", "l", "addr", "address", "a", "show", "list"])
        && links.iter().any(|link| link.name == "lo")
    {
        facts.set_members(Subject::Interface, node, Membership::Known(output.origin()));
    }
}

/// `eno1  UP  10.0.0.7/24 fe80::1/64`, and of links `eno1  UP  3c:ec:ef:00:00:01 <BROADCAST,UP>`: a part of what is said of an interface.
fn brief(output: &Output, facts: &mut Facts, node: Id, with_addresses: bool) {
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let [name, state, rest @ ..] = words.as_slice() else {
            continue;
        };
        let name = name.split('@').next().unwrap_or(name);
        let id = facts.instance(Subject::Interface, node, name);
        if ["UP", "DOWN", "LOWERLAYERDOWN"].contains(state) {
            facts.set(id, interface::RUNNING, line.known(*state == "UP"));
        }
        if with_addresses {
            let addresses: Arc<[Arc<str>]> = rest.iter().map(|one| Arc::from(*one)).collect();
            facts.set(id, interface::ADDRESSES, line.known(addresses));
        } else if let Some(flags) = rest.last().and_then(|word| word.strip_prefix('<')) {
            let has = |flag: &str| {
                flags
                    .trim_end_matches('>')
                    .split(',')
                    .any(|one| one == flag)
            };
            facts.set(id, interface::UP, line.known(has("UP")));
            facts.set(id, interface::LOOPBACK, line.known(has("LOOPBACK")));
            facts.set(id, interface::ARP, line.known(!has("NOARP")));
        }
        if let Some(id) = facts.find(Subject::Netdev, node, name) {
            let state = OperState::from_word(&state.to_lowercase());
            facts.set(id, netdev::OPERSTATE, line.read(state));
        }
    }
}

/// `2: eno1: <BROADCAST,UP> mtu 1500 … state UP …`, and the lines that are indented below it.
fn of_text(output: &Output) -> Vec<Link<'_>> {
    let mut links: Vec<Link<'_>> = Vec::new();
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let after = |key: &str| {
            let at = words.iter().position(|word| *word == key)?;
            words.get(at + 1).map(|word| (*word).to_owned())
        };
        if let Some((index, name)) = head(line.text) {
            let flags = words
                .iter()
                .find_map(|word| word.strip_prefix('<')?.strip_suffix('>'));
            links.push(Link {
                name: name.to_owned(),
                line,
                flags: flags.unwrap_or("").split(',').map(str::to_owned).collect(),
                mtu: after("mtu").and_then(|mtu| mtu.parse().ok()),
                state: after("state").unwrap_or_default(),
                index: Some(index),
                master: after("master"),
                kind: None,
                addresses: Vec::new(),
            });
            continue;
        }
        let Some(link) = links.last_mut() else {
            continue;
        };
        match words.as_slice() {
            ["inet" | "inet6", address, ..] => link.addresses.push((*address).to_owned()),
            [kind, ..] if KINDS.contains(kind) => {
                link.kind.get_or_insert((*kind).to_owned());
            }
            _ => {}
        }
    }
    links
}

/// The kinds of software interfaces that `ip -d link` names at the beginning of a line.
const KINDS: [&str; 14] = [
    "bridge",
    "bond",
    "vlan",
    "veth",
    "tun",
    "vxlan",
    "macvlan",
    "ipvlan",
    "dummy",
    "ipoib",
    "wireguard",
    "gre",
    "vrf",
    "team",
];

/// How the names of interfaces begin that an adapter has: those of containers come and go.
const ADAPTERS: [&str; 6] = ["ib", "en", "eth", "roce", "hsn", "bond"];

/// Whether an interface of this name is one of an adapter.
pub(super) fn is_of_adapter(name: &str) -> bool {
    ADAPTERS.iter().any(|begin| name.starts_with(begin))
}

/// The interface that a line describes: `4: ens1f0np0: <…>`, and `ens1f0np0  DOWN  …` of `-br`.
pub(super) fn listed_name(line: &str) -> Option<&str> {
    if line.starts_with([' ', '\t']) {
        return None;
    }
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let name = match first.strip_suffix(':') {
        Some(_) => words.next()?.strip_suffix(':')?,
        None => first,
    };
    name.split('@').next()
}

fn head(text: &str) -> Option<(u64, &str)> {
    let (index, rest) = text.split_once(": ")?;
    let (name, rest) = rest.split_once(": ")?;
    let name = name.split('@').next()?;
    rest.starts_with('<')
        .then_some((index.trim().parse().ok()?, name))
}

fn of_json<'p>(one: &Value, line: OutputLine<'p>) -> Option<Link<'p>> {
    let text = |key: &str| one.get(key).and_then(Value::as_str).map(str::to_owned);
    let list = |key: &str| {
        one.get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let address = |one: &Value| {
        let prefix = one.get("prefixlen")?.as_u64()?;
        Some(format!("{}/{prefix}", one.get("local")?.as_str()?))
    };
    Some(Link {
        name: text("ifname")?,
        line,
        flags: list("flags")
            .iter()
            .filter_map(|f| Some(f.as_str()?.to_owned()))
            .collect(),
        mtu: one.get("mtu").and_then(Value::as_u64),
        state: text("operstate").unwrap_or_default(),
        index: one.get("ifindex").and_then(Value::as_u64),
        master: text("master"),
        kind: one
            .pointer("/linkinfo/info_kind")
            .and_then(Value::as_str)
            .map(str::to_owned),
        addresses: list("addr_info").iter().filter_map(address).collect(),
    })
}
