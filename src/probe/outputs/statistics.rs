//! What ethtool(8) counts, how it pauses, and what a module says of itself: `-S`, `-a`, `-m`.

use std::collections::BTreeMap;

use super::{Output, OutputLine, named, ports};
use crate::fact::{BitRate, Facts, Id, Subject, netdev, port};

/// States what one output says of its device.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let Some(device) = output.operand() else {
        return;
    };
    let mut lines: BTreeMap<&str, (&str, OutputLine<'_>)> = BTreeMap::new();
    for line in output.lines() {
        if let Some((key, value)) = line.text.split_once(':') {
            lines.entry(key.trim()).or_insert((value.trim(), line));
        }
    }
    let has = |options: [&str; 2]| options.iter().any(|option| output.has(option));
    if has(["-m", "--module-info"]) {
        // `100G Ethernet: 100G Base-CR4 or 25G Base-CR CA-L`: the fastest counts.
        let best = lines.get("Transceiver type").and_then(|(value, line)| {
            let words = value.split([' ', ':', '/']);
            let gigabits = words.filter_map(|word| word.split_once('G')?.0.parse::<u64>().ok());
            Some((gigabits.max()?, line))
        });
        if let (Some((gigabits, line)), Some(port)) = (best, ports::port_on(facts, node, device)) {
            let rate = BitRate(gigabits.saturating_mul(1_000_000_000));
            facts.set(port, port::CABLE_RATE, line.known(rate));
        }
        return;
    }
    let id = facts.instance(Subject::Netdev, node, device);
    if has(["-a", "--show-pause"]) {
        for (key, (value, line)) in &lines {
            named::state(facts, id, named::NETDEV, (key, value), line);
        }
        return;
    }
    match lines.get("rx_discards_phy") {
        Some((value, line)) => {
            facts.set(id, netdev::COUNTS_DROPS, line.known(true));
            facts.set(id, netdev::DISCARDS, line.read(value.parse().ok()));
            // An adapter that cannot watch for stalls has none of them.
            match lines.get("tx_pause_storm_error_events") {
                Some((n, line)) => facts.set(id, netdev::PAUSE_STORMS, line.read(n.parse().ok())),
                None if output.is_cut => {}
                None => facts.set(id, netdev::PAUSE_STORMS, output.known(0)),
            }
        }
        None if !output.is_cut && !lines.is_empty() => {
            facts.set(id, netdev::COUNTS_DROPS, output.known(false));
        }
        None => {}
    }
}
