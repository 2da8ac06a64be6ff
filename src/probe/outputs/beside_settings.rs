//! Settings of NCCL that another output of the same host refutes: an interface, an index, a class
//! that are not there.

use super::counters::option;
use super::self_tests::add;
use super::{Output, OutputLine, interfaces};
use crate::fact::port::{self, PortState};
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id, Subject};
use crate::tool_output::SAID_SETTINGS;

/// States each setting that an output refutes.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    for output in outputs {
        let tool = output.tool();
        if tool == "ip"
            && ["link", "l", "addr", "address", "a"]
                .iter()
                .any(|word| output.has(word))
        {
            no_such_interface(outputs, output, facts, node);
        } else if tool == "show_gids" {
            no_such_index(outputs, output, facts, node);
        } else if tool == "mlnx_qos" {
            class_not_trusted(outputs, output, facts, node);
        }
    }
    ports_left_out(outputs, facts, node);
}

/// NCCL_IB_HCA takes some of the ports that are active, and not the others.
fn ports_left_out(outputs: &[Output], facts: &mut Facts, node: Id) {
    let Some((line, value)) = setting(outputs, "NCCL_IB_HCA") else {
        return;
    };
    let names_it = |device: &str, number: u64| {
        let is_exact = value.starts_with('=');
        value.trim_start_matches('=').split(',').any(|entry| {
            let (name, of) = entry.split_once(':').unwrap_or((entry, ""));
            let is_device = device == name || !is_exact && device.starts_with(name);
            is_device && of.parse().map_or(of.is_empty(), |of: u64| of == number)
        })
    };
    let active = facts.below(node, Subject::Port).filter_map(|id| {
        let (device, number) = facts.name(id).rsplit_once('/')?;
        let is_active = facts.known(id, port::STATE) == Some(PortState::Active)
            || facts.known(id, port::LISTED_AS).as_deref() == Some("none");
        let number = number.parse::<u64>().ok().filter(|_| is_active)?;
        Some((device.to_owned(), number))
    });
    let (taken, left): (Vec<_>, Vec<_>) =
        active.partition(|(device, number)| names_it(device, *number));
    if !taken.is_empty() && !left.is_empty() && !value.starts_with('^') {
        let names: Vec<String> = left
            .iter()
            .map(|(device, number)| format!("{device}/{number}"))
            .collect();
        let said = format!("NCCL_IB_HCA={value}");
        let kind = ToolResultKind::PortsLeftOut;
        add(facts, node, kind, &names.join(", "), (&line, &said));
    }
}

/// The line that sets a variable, with its value.
fn setting<'o>(outputs: &'o [Output], name: &str) -> Option<(OutputLine<'o>, &'o str)> {
    let env = outputs
        .iter()
        .filter(|output| ["env", "printenv", SAID_SETTINGS].contains(&output.tool()));
    for output in env {
        let is_asked = output.tool() == "printenv" && output.operand() == Some(name);
        for line in output.lines() {
            let text = line.text.trim().trim_start_matches("export ");
            let value = match text.split_once('=') {
                Some((of, value)) if of == name => value,
                None if is_asked => text,
                _ => continue,
            };
            return Some((line, value.trim_matches(['"', '\''])));
        }
    }
    None
}

/// NCCL_SOCKET_IFNAME names prefixes, or with `=` whole names (socket.cc of NCCL): none is that of an
/// interface of the list, which has the loopback.
fn no_such_interface(outputs: &[Output], list: &Output, facts: &mut Facts, node: Id) {
    let Some((line, value)) = setting(outputs, "NCCL_SOCKET_IFNAME") else {
        return;
    };
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| interfaces::listed_name(line.text))
        .collect();
    if list.is_cut || !names.contains(&"lo") || value.starts_with('^') || value.is_empty() {
        return;
    }
    let is_exact = value.starts_with('=');
    let wanted = value.trim_start_matches('=');
    let is_there = |entry: &str| {
        let entry = entry.split(':').next().unwrap_or(entry);
        (names.iter()).any(|name| *name == entry || !is_exact && name.starts_with(entry))
    };
    if !wanted.split(',').any(is_there) {
        let said = format!("NCCL_SOCKET_IFNAME={value}");
        let kind = ToolResultKind::NoSuchInterface;
        add(facts, node, kind, &names.join(", "), (&line, &said));
    }
}

/// NCCL_IB_GID_INDEX is a number that no row of the whole table has.
fn no_such_index(outputs: &[Output], table: &Output, facts: &mut Facts, node: Id) {
    let Some((line, value)) = setting(outputs, "NCCL_IB_GID_INDEX") else {
        return;
    };
    let Ok(wanted) = value.parse::<u64>() else {
        return;
    };
    let is_whole = table
        .lines()
        .any(|line| line.text.starts_with("n_gids_found"));
    let indexes = table.lines().filter_map(|line| {
        let third = line.text.split_whitespace().nth(2)?;
        third.parse::<u64>().ok()
    });
    let indexes: Vec<u64> = indexes.collect();
    if let (true, Some(most)) = (is_whole, indexes.iter().max())
        && !indexes.contains(&wanted)
    {
        let about = format!("show_gids lists up to {most}");
        let said = format!("NCCL_IB_GID_INDEX={wanted}");
        add(
            facts,
            node,
            ToolResultKind::NoSuchGid,
            &about,
            (&line, &said),
        );
    }
}

/// A class of NCCL's is a DSCP, and an adapter that trusts the VLAN tag does not look at it.
fn class_not_trusted(outputs: &[Output], qos: &Output, facts: &mut Facts, node: Id) {
    let trusts_tag = qos
        .lines()
        .any(|line| line.text.trim() == "Priority trust state: pcp");
    let Some((line, value)) = setting(outputs, "NCCL_IB_TC").filter(|_| trusts_tag) else {
        return;
    };
    if value.parse::<u64>().is_ok_and(|class| class > 0) {
        let interface = option(qos, "-i", "--interface").unwrap_or("the adapter");
        let said = format!("NCCL_IB_TC={value}");
        add(
            facts,
            node,
            ToolResultKind::ClassNotTrusted,
            interface,
            (&line, &said),
        );
    }
}
