//! Ports and their network devices, as `ibdev2netdev` and `ethtool` print them.

use super::{Output, OutputLine, named};
use crate::fact::port::OperState;
use crate::fact::{BitRate, Fact, Facts, Id, Subject, device, netdev, port};

/// The port of a device, made if it is not yet there.
pub(super) fn port_of(facts: &mut Facts, node: Id, device: &str, number: u64) -> Id {
    let id = facts.instance(Subject::Device, node, device);
    facts.instance(Subject::Port, id, &format!("{device}/{number}"))
}

/// States the network device of a port, and makes it.
pub(super) fn runs_on(facts: &mut Facts, node: Id, port: Id, name: &str, line: &OutputLine<'_>) {
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
        if let Some(state) = named::typed::<OperState>(state.trim_matches(['(', ')'])) {
            facts.set(id, netdev::OPERSTATE, line.known(state));
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
    if let Some((mbps, line)) = supported
        && !output.is_cut
        && !name.is_empty()
    {
        let rate = BitRate(mbps.saturating_mul(1_000_000));
        match port_on(facts, node, &name) {
            Some(port) => facts.set(port, port::MAX_RATE, line.known(rate)),
            None => {
                let id = facts.instance(Subject::Netdev, node, &name);
                facts.set(id, netdev::MAX_SPEED, line.known(rate));
            }
        }
    }
}

/// The port that runs on a network device.
pub(super) fn port_on(facts: &Facts, node: Id, netdev: &str) -> Option<Id> {
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
