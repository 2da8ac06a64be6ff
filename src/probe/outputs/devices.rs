//! Devices, ports and GIDs, as `ibstat`, `ibstatus`, `ibv_devinfo` and `show_gids` print them.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use super::{Output, OutputLine};
use crate::fact::device::{self, NodeType, Role};
use crate::fact::gid::{self, GidKind, GidType};
use crate::fact::port::{self, LinkLayer, PhysState, PortState};
use crate::fact::{BitRate, Bytes, Fact, Facts, Id, Membership, Origin, Subject};

/// States devices and ports.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut device: Option<(Id, &str)> = None;
    let mut port: Option<Id> = None;
    let mut seen = HashSet::new();
    let mut first = None;
    for line in output.lines() {
        let text = line.text.trim();
        first.get_or_insert(line);
        if let Some((name, number)) = begins(text) {
            let id = facts.instance(Subject::Device, node, name);
            seen.insert(name);
            device = Some((id, name));
            port = number.map(|number| new_port(facts, id, name, number));
            continue;
        }
        let Some((id, name)) = device else {
            continue;
        };
        let Some((key, value)) = text.split_once(':') else {
            continue;
        };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let number = match key.as_str() {
            "port" => value.parse().ok(),
            key => key
                .strip_prefix("port ")
                .and_then(|n| n.trim().parse().ok()),
        };
        if let Some(number) = number {
            port = Some(new_port(facts, id, name, number));
            continue;
        }
        match port {
            Some(port) => state_port_field(facts, port, &key, value, &line),
            None => state_device_field(facts, id, &key, value, &line),
        }
    }
    let Some(first) = first else {
        return;
    };
    // Each of these tools prints one device if one is asked for, and all without.
    if seen.len() > 1 && !output.is_cut {
        facts.set_members(Subject::Device, node, Membership::Known(first.origin()));
    }
    for id in facts.below(node, Subject::Device).collect::<Vec<_>>() {
        facts.set_members(Subject::Port, id, Membership::Known(first.origin()));
        let infiniband = facts
            .below(id, Subject::Port)
            .any(|port| facts.known(port, port::LINK_LAYER) == Some(LinkLayer::InfiniBand));
        // Of an Ethernet port only its routes say whether it is there for the machine's own traffic.
        if infiniband {
            let how = "an InfiniBand port, which carries no default route where nobody says so";
            facts.set(id, device::ROLE, Fact::derived(Role::Compute, how));
        }
    }
}

/// `CA 'mlx5_0'`, `hca_id: mlx5_0`, `Infiniband device 'mlx5_0' port 1 status:`.
fn begins(text: &str) -> Option<(&str, Option<u64>)> {
    let quoted = |rest: &'_ str| rest.split_once('\'').map(|(name, _)| name.len());
    if let Some(rest) = text.strip_prefix("CA '") {
        return Some((rest.get(..quoted(rest)?)?, None));
    }
    if let Some(rest) = text.strip_prefix("hca_id:") {
        let name = rest.trim();
        return (!name.is_empty()).then_some((name, None));
    }
    let rest = ["Infiniband device '", "InfiniBand device '"]
        .iter()
        .find_map(|start| text.strip_prefix(start))?;
    let (name, rest) = rest.split_once('\'')?;
    let number = rest.trim().strip_prefix("port ")?;
    Some((name, number.split_whitespace().next()?.parse().ok()))
}

fn new_port(facts: &mut Facts, device: Id, name: &str, number: u64) -> Id {
    facts.instance(Subject::Port, device, &format!("{name}/{number}"))
}

fn state_device_field(facts: &mut Facts, id: Id, key: &str, value: &str, line: &OutputLine<'_>) {
    match key {
        "ca type" => facts.set(id, device::MODEL, line.known(value.into())),
        "firmware version" | "fw_ver" => facts.set(id, device::FIRMWARE, line.known(value.into())),
        "board_id" => facts.set(id, device::BOARD, line.known(value.into())),
        // What the kernel writes as hca_type is made of the same number: MT4129.
        "vendor_part_id" => {
            let model = value.parse::<u64>().ok().map(|n| format!("MT{n}").into());
            facts.set(id, device::MODEL, line.read(model));
        }
        "transport" => {
            let kind = match word(value) {
                "infiniband" => Some(NodeType::Ca),
                "iwarp" => Some(NodeType::Rnic),
                _ => None,
            };
            if kind.is_some() {
                facts.set(id, device::NODE_TYPE, line.read(kind));
            }
        }
        _ => {}
    }
}

fn state_port_field(facts: &mut Facts, id: Id, key: &str, value: &str, line: &OutputLine<'_>) {
    match key {
        "state" => facts.set(id, port::STATE, line.read(port_state(value))),
        "physical state" | "phys state" | "phys_state" => {
            facts.set(id, port::PHYS_STATE, line.read(phys_state(value)));
        }
        "rate" => {
            // ibstat prints the number alone; a port that is down keeps its last.
            let number = value
                .split_whitespace()
                .next()
                .and_then(|n| n.parse::<f64>().ok());
            let rate = number
                .filter(|n| (0.0..1e6).contains(n))
                .map(|n| BitRate((n * 1e9) as u64));
            facts.set(id, port::RATE, line.read(rate));
        }
        "base lid" | "port_lid" => facts.set(id, port::LID, line.read(whole(value))),
        "sm lid" | "sm_lid" => facts.set(id, port::SM_LID, line.read(whole(value))),
        "link layer" | "link_layer" => {
            let layer = match value.to_ascii_lowercase().as_str() {
                "infiniband" => Some(LinkLayer::InfiniBand),
                "ethernet" => Some(LinkLayer::Ethernet),
                "unspecified" => Some(LinkLayer::Unspecified),
                _ => None,
            };
            facts.set(id, port::LINK_LAYER, line.read(layer));
        }
        "active_mtu" => facts.set(id, port::MTU, line.read(whole(value).map(Bytes))),
        "max_mtu" => facts.set(id, port::MAX_MTU, line.read(whole(value).map(Bytes))),
        _ => {}
    }
}

/// The first number, decimal or hexadecimal.
fn whole(value: &str) -> Option<u64> {
    let word = value.split_whitespace().next()?;
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// The text before a bracket, in lower case.
fn word(value: &str) -> &str {
    match value.split(['(', ' ']).next() {
        Some("InfiniBand") => "infiniband",
        Some("iWARP") => "iwarp",
        _ => "",
    }
}

/// `Active`, `4: ACTIVE`, `PORT_ACTIVE (4)`.
pub(super) fn port_state(value: &str) -> Option<PortState> {
    let text = plain(value);
    Some(match text.strip_prefix("port_").unwrap_or(&text) {
        "nop" => PortState::NoChange,
        "down" => PortState::Down,
        "init" | "initializing" | "initialize" => PortState::Init,
        "armed" => PortState::Armed,
        "active" => PortState::Active,
        "active_defer" => PortState::ActiveDefer,
        _ => return None,
    })
}

/// `LinkUp`, `5: LinkUp`, `LINK_UP (5)`.
pub(super) fn phys_state(value: &str) -> Option<PhysState> {
    let text = plain(value).replace(['_', ' '], "");
    Some(match text.as_str() {
        "sleep" => PhysState::Sleep,
        "polling" => PhysState::Polling,
        "disabled" => PhysState::Disabled,
        "portconfigurationtraining" | "training" => PhysState::Training,
        "linkup" => PhysState::LinkUp,
        "linkerrorrecovery" => PhysState::Recovery,
        "phytest" => PhysState::PhyTest,
        _ => return None,
    })
}

/// Without the number that is before or behind it.
fn plain(value: &str) -> String {
    let value = value.split_once(':').map_or(value, |(_, word)| word);
    let value = value.split_once('(').map_or(value, |(word, _)| word);
    value.trim().to_ascii_lowercase()
}

/// States GIDs.
pub(super) fn gids(output: &Output, facts: &mut Facts, node: Id) {
    let mut ports: Vec<(Id, Origin)> = Vec::new();
    let mut whole = false;
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        if line.text.trim().starts_with("n_gids_found") {
            whole = !output.is_cut;
        }
        let [name, number, index, address, rest @ ..] = words.as_slice() else {
            continue;
        };
        let (Ok(number), Ok(index), Ok(address)) = (
            number.parse::<u64>(),
            index.parse::<u64>(),
            address.parse::<Ipv6Addr>(),
        ) else {
            continue;
        };
        let version = rest.iter().find_map(|word| match *word {
            "v1" => Some(GidType::V1),
            "v2" => Some(GidType::V2),
            _ => None,
        });
        let device = facts.instance(Subject::Device, node, name);
        let port = new_port(facts, device, name, number);
        let id = gid(facts, port, index, address, &line);
        facts.set(id, gid::TYPE, line.read(version));
        if let Some(netdev) = rest.last().filter(|word| !matches!(**word, "v1" | "v2")) {
            facts.set(id, gid::NETDEV, line.known((*netdev).into()));
        }
        if !ports.iter().any(|(known, _)| *known == port) {
            ports.push((port, line.origin()));
        }
    }
    // It prints the whole tables of the ports that it prints.
    for (port, origin) in ports.into_iter().filter(|_| whole) {
        facts.set_members(Subject::Gid, port, Membership::Known(origin));
    }
}

/// Makes a row of a port's GID table.
pub(super) fn gid(
    facts: &mut Facts,
    port: Id,
    index: u64,
    address: Ipv6Addr,
    line: &OutputLine<'_>,
) -> Id {
    let name = format!("{} gid {index}", facts.name(port));
    let id = facts.instance(Subject::Gid, port, &name);
    let kind = match address {
        a if a.to_ipv4_mapped().is_some() => GidKind::Ipv4,
        a if a.segments()[0] & 0xffc0 == 0xfe80 => GidKind::LinkLocal,
        _ => GidKind::Ipv6,
    };
    facts.set(id, gid::INDEX, line.known(index));
    facts.set(id, gid::KIND, line.known(kind));
    facts.set(id, gid::ADDRESS, line.known(address.to_string().into()));
    id
}

/// Says of each port whether it is down while most of its type are active; where boards are known these decide.
pub(super) fn odd(facts: &mut Facts, node: Id) {
    let ports: Vec<Id> = facts.below(node, Subject::Port).collect();
    let kind = |facts: &Facts, port: Id| {
        let model = facts.known(facts.parent(port)?, device::MODEL)?;
        Some((model, facts.known(port, port::LINK_LAYER)?))
    };
    for &port in &ports {
        let (Some(kind_of), Fact::Known(state, origin)) =
            (kind(facts, port), facts.get(port, port::STATE))
        else {
            continue;
        };
        let is_equal = |other: &&Id| kind(facts, **other).as_ref() == Some(&kind_of);
        let is_active = |other: &&Id| facts.known(**other, port::STATE) == Some(PortState::Active);
        let equals = ports.iter().filter(is_equal);
        let most = 2 * equals.clone().filter(is_active).count() > equals.count();
        let board = (facts.parent(port)).and_then(|device| facts.known(device, device::BOARD));
        let odd = state == PortState::Down && most && board.is_none();
        facts.set(port, port::ODD_IN_PASTE, Fact::Known(odd, origin));
    }
}
