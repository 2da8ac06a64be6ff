//! Ports and their network devices, as `rdma link`, `ibdev2netdev`, `ibv_devinfo -v` and `ethtool` print them.

use std::net::Ipv6Addr;

use serde_json::Value;

use super::{Output, OutputLine, devices as words};
use crate::fact::port::{LinkLayer, OperState};
use crate::fact::{BitRate, Fact, Facts, Id, Membership, Subject, device, gid, netdev, port};

/// The port of a device, made if it is not yet there.
fn port_of(facts: &mut Facts, node: Id, device: &str, number: u64) -> Id {
    let id = facts.instance(Subject::Device, node, device);
    facts.instance(Subject::Port, id, &format!("{device}/{number}"))
}

/// States the network device of a port, and makes it.
fn runs_on(facts: &mut Facts, node: Id, port: Id, name: &str, line: &OutputLine<'_>) {
    facts.set(port, port::HAS_NETDEV, line.known(true));
    facts.set(port, port::NETDEV, line.known(name.into()));
    let id = facts.instance(Subject::Netdev, node, name);
    facts.relate(port, id);
}

/// `mlx5_0 port 1 ==> ens1f0np0 (Up)`
pub(super) fn netdevs(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let [device, "port", number, "==>", name, state, ..] = words.as_slice() else {
            continue;
        };
        let Ok(number) = number.parse() else {
            continue;
        };
        let port = port_of(facts, node, device, number);
        runs_on(facts, node, port, name, &line);
        let id = facts.instance(Subject::Netdev, node, name);
        let operstate = match *state {
            "(Up)" => Some(OperState::Up),
            "(Down)" => Some(OperState::Down),
            _ => None,
        };
        if operstate.is_some() {
            facts.set(id, netdev::OPERSTATE, line.read(operstate));
        }
    }
}

/// `rdma link`, as text, old and new, and as JSON.
pub(super) fn links(output: &Output, facts: &mut Facts, node: Id) {
    if let Ok(Value::Array(list)) = serde_json::from_str(&output.text()) {
        let line = output.lines().next();
        for (link, line) in list.iter().zip(line.iter().cycle()) {
            let text = |key: &str| link.get(key).and_then(Value::as_str);
            let fields: Vec<(&str, String)> = [
                "state",
                "physical_state",
                "netdev",
                "subnet_prefix",
                "lid",
                "sm_lid",
            ]
            .iter()
            .filter_map(|key| {
                let value = link.get(*key)?;
                Some((
                    *key,
                    value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned),
                ))
            })
            .collect();
            if let (Some(name), Some(number)) =
                (text("ifname"), link.get("port").and_then(Value::as_u64))
            {
                link_fields(facts, node, (name, number), &fields, line);
            }
        }
    } else {
        for line in output.lines() {
            let words: Vec<&str> = line.text.split_whitespace().collect();
            let Some(at) = words
                .iter()
                .position(|word| *word == "state" || *word == "subnet_prefix")
            else {
                continue;
            };
            // `link mlx5_0/1 state …`, before iproute2 5.0 `1/1: mlx5_0/1: state …`.
            let place = at
                .checked_sub(1)
                .and_then(|at| words.get(at))
                .map(|word| word.trim_end_matches(':'));
            let Some((name, Ok(number))) = place
                .and_then(|p| p.split_once('/'))
                .map(|(n, p)| (n, p.parse()))
            else {
                continue;
            };
            let pairs = words.get(at..).unwrap_or_default().chunks_exact(2);
            let fields: Vec<(&str, String)> =
                pairs.map(|pair| (pair[0], pair[1].to_owned())).collect();
            link_fields(facts, node, (name, number), &fields, &line);
        }
    }
    let links = facts.below(node, Subject::Device).count();
    if links > 0 && output.is_whole(&["link", "show", "list"]) {
        facts.set_members(Subject::Device, node, Membership::Known(output.origin()));
    }
}

fn link_fields(
    facts: &mut Facts,
    node: Id,
    (name, number): (&str, u64),
    fields: &[(&str, String)],
    line: &OutputLine<'_>,
) {
    let port = port_of(facts, node, name, number);
    for (key, value) in fields {
        match *key {
            "state" => facts.set(port, port::STATE, line.read(words::port_state(value))),
            "physical_state" => {
                facts.set(port, port::PHYS_STATE, line.read(words::phys_state(value)))
            }
            "lid" => facts.set(port, port::LID, line.read(value.parse().ok())),
            "sm_lid" => facts.set(port, port::SM_LID, line.read(value.parse().ok())),
            // Ports of Ethernet have none.
            "subnet_prefix" => facts.set(port, port::LINK_LAYER, line.known(LinkLayer::InfiniBand)),
            "netdev" => runs_on(facts, node, port, value, line),
            _ => {}
        }
    }
}

/// `GID[  3]:  ::ffff:10.10.1.5, RoCE v2` of `ibv_devinfo -v`.
pub(super) fn gids(output: &Output, facts: &mut Facts, node: Id) {
    let mut device = String::new();
    let mut number = 1;
    for line in output.lines() {
        let Some((key, value)) = line.text.trim().split_once(':') else {
            continue;
        };
        let value = value.trim();
        match key.trim() {
            "hca_id" => device = value.to_owned(),
            "port" => number = value.parse().unwrap_or(number),
            key => {
                let index = key.strip_prefix("GID[").and_then(|k| k.strip_suffix(']'));
                let Some(Ok(index)) = index.map(|index| index.trim().parse::<u64>()) else {
                    continue;
                };
                let (address, kind) = value.split_once(',').unwrap_or((value, ""));
                let Ok(address) = address.trim().parse::<Ipv6Addr>() else {
                    continue;
                };
                let port = port_of(facts, node, &device, number);
                let id = words::gid(facts, port, index, address, &line);
                let version = match kind.trim() {
                    "RoCE v2" => Some(gid::GidType::V2),
                    "RoCE v1" | "IB/RoCE v1" => Some(gid::GidType::V1),
                    _ => None,
                };
                if version.is_some() {
                    facts.set(id, gid::TYPE, line.read(version));
                }
            }
        }
    }
}

/// `ethtool DEVICE`: what it runs at, and the fastest that it supports, which counts for the port on it.
pub(super) fn speed(output: &Output, facts: &mut Facts, node: Id) {
    let mut name = output.operand().unwrap_or_default().to_owned();
    let mut is_supported = false;
    let mut supported: Option<(u64, OutputLine<'_>)> = None;
    for line in output.lines() {
        let text = line.text.trim();
        if let Some(of) = text.strip_prefix("Settings for ") {
            of.trim_end_matches(':').clone_into(&mut name);
            continue;
        }
        let (key, value) = text.split_once(':').unwrap_or(("", text));
        if !key.is_empty() {
            is_supported = key == "Supported link modes";
        }
        for mode in value.split_whitespace().filter(|_| is_supported) {
            let mbps = mode.split_once("base").and_then(|(n, _)| n.parse().ok());
            if let Some(mbps) = mbps
                && supported.is_none_or(|(best, _)| best < mbps)
            {
                supported = Some((mbps, line));
            }
        }
        if key == "Speed" && !name.is_empty() {
            let speed = value.trim().strip_suffix("Mb/s");
            let speed = speed.and_then(|n| n.parse::<u64>().ok());
            let id = facts.instance(Subject::Netdev, node, &name);
            let rate = speed.and_then(|mbps| Some(BitRate(mbps.checked_mul(1_000_000)?)));
            facts.set(id, netdev::SPEED, line.read(rate));
        }
    }
    if let (Some((mbps, line)), Some(port)) = (supported, port_on(facts, node, &name))
        && !output.is_cut
    {
        let rate = BitRate(mbps.saturating_mul(1_000_000));
        facts.set(port, port::MAX_RATE, line.known(rate));
    }
}

/// The port that runs on a network device.
fn port_on(facts: &Facts, node: Id, netdev: &str) -> Option<Id> {
    let on = |port: &Id| facts.known(*port, port::NETDEV).as_deref() == Some(netdev);
    facts.below(node, Subject::Port).find(on)
}

/// `ethtool -i DEVICE`: firmware, board and place of the adapter.
pub(super) fn driver(output: &Output, facts: &mut Facts, node: Id) {
    let port = output
        .operand()
        .and_then(|netdev| port_on(facts, node, netdev));
    let Some(id) = port.and_then(|port| facts.ancestor(port, Subject::Device)) else {
        return;
    };
    for line in output.lines() {
        let Some((key, value)) = line.text.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match key.trim() {
            "driver" => facts.set(id, device::DRIVER, line.known(value.into())),
            "bus-info" => facts.set(id, device::PCI, line.known(value.into())),
            "firmware-version" => {
                let (version, board) = value.split_once(' ').unwrap_or((value, ""));
                facts.set(id, device::FIRMWARE, line.known(version.into()));
                let board = board.trim_matches(['(', ')', ' ']);
                if board.starts_with("MT_") {
                    facts.set(id, device::BOARD, Fact::Known(board.into(), line.origin()));
                }
            }
            _ => {}
        }
    }
}
