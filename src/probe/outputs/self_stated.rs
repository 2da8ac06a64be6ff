//! Values that state a fault by themselves, whatever else is known of the machine, in outputs that
//! somebody picked: a line of a table, links and neighbours without an answer, limits of a file.

use std::net::IpAddr;

use super::counters::option;
use super::self_tests::add;
use super::{Output, OutputLine, interfaces};
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id};

/// The tool, what all stands in the line, and the kind of the result.
type StatedLine = (&'static str, &'static [&'static str], &'static str);

const STATED: &[StatedLine] = include!(concat!(env!("OUT_DIR"), "/self_stated.stated.rs"));

/// So many interfaces somebody picked: the spare ones of a whole list are nobody's fault.
const PICKED: usize = 4;

/// States what one output says so.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    listed_lines(output, facts, node);
    match output.tool() {
        "ip" if output.has("neigh") || output.has("n") => unanswered(output, facts, node),
        "ip" | "ifconfig" | "ethtool" => without_link(output, facts, node),
        "nvidia-smi" if output.has("-p2p") => peers_refused(output, facts, node),
        "limits.conf" => memlock(output, facts, node),
        "cat" => {
            memlock(output, facts, node);
            killed_for_memory(output, facts, node);
            states_of_pattern(output, facts, node);
            governors(output, facts, node);
            ecn_of_priority(output, facts, node);
            if output.has("/etc/hosts") {
                names_on_loopback(output, facts, node);
            }
        }
        "beegfs-net" => servers_over_tcp(output, facts, node),
        "ucx_info" => transports(output, facts, node),
        "getent" => names_on_loopback(output, facts, node),
        "kubectl" if output.has("pods") || output.has("pod") => failing_pods(output, facts, node),
        "ibportstate" | "smpquery" => port_of_management(output, facts, node),
        "tc" => queue_drops(output, facts, node),
        _ => {}
    }
}

/// Lines of the table, about the device that the command names.
fn listed_lines(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let is_it = |row: &&StatedLine| {
            row.0 == output.tool() && row.1.iter().all(|part| line.text.contains(part))
        };
        let kind = STATED.iter().find(is_it);
        let Some(kind) = kind.and_then(|row| ToolResultKind::from_word(row.2)) else {
            continue;
        };
        let device = option(output, "-d", "--dev");
        let device = device.or(option(output, "-i", "--interface"));
        let device = device.unwrap_or("an adapter");
        add(facts, node, kind, device, (&line, &words_of(line.text)));
    }
}

/// The words with one space between two.
fn words_of(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// `10.12.4.21 FAILED`, `10.12.4.21 dev eth2 INCOMPLETE`: nobody gave a hardware address.
fn unanswered(output: &Output, facts: &mut Facts, node: Id) {
    let is_open = |line: &OutputLine<'_>| {
        let state = line.text.split_whitespace().next_back();
        matches!(state, Some("FAILED" | "INCOMPLETE"))
    };
    let lines: Vec<OutputLine<'_>> = output.lines().filter(is_open).collect();
    let Some(first) = lines.first() else {
        return;
    };
    let address = |line: &OutputLine<'_>| {
        let address = line.text.split_whitespace().next();
        address.unwrap_or_default().to_owned()
    };
    let addresses: Vec<String> = lines.iter().map(address).collect();
    let own = option(output, "dev", "dev").map(str::to_owned);
    let device = own.or_else(|| {
        let mut words = first.text.split_whitespace();
        words.find(|word| *word == "dev")?;
        words.next().map(str::to_owned)
    });
    let about = device.unwrap_or_else(|| "the link".to_owned());
    let said = addresses.join(", ");
    let kind = ToolResultKind::NeighboursUnanswered;
    add(facts, node, kind, &about, (first, &said));
}

/// Interfaces that are up and have no carrier, where somebody shows a few.
fn without_link(output: &Output, facts: &mut Facts, node: Id) {
    let mut shown = 0;
    let mut lost: Vec<(String, OutputLine<'_>)> = Vec::new();
    let mut off: Vec<(String, OutputLine<'_>)> = Vec::new();
    let operand = output.operand().unwrap_or_default();
    let mut name = operand.to_owned();
    for line in output.lines() {
        let text = line.text.trim();
        if let Some(own) = interface_of(output.tool(), line.text) {
            name = own.to_owned();
            shown += 1;
        } else if let Some(of) = text.strip_prefix("Settings for ") {
            of.trim_end_matches(':').clone_into(&mut name);
        }
        let is_lost = match output.tool() {
            "ifconfig" => text.contains("<UP,") && !text.contains("RUNNING"),
            "ethtool" => text == "Link detected: no",
            _ => text.contains("<NO-CARRIER,") || text.contains(",NO-CARRIER"),
        };
        if !interfaces::is_of_adapter(&name) {
            continue;
        }
        if is_lost {
            lost.push((name.clone(), line));
        } else if output.tool() == "ip" && is_switched_off(text) {
            off.push((name.clone(), line));
        }
    }
    // Nobody who lists all means the spare ones.
    let verbs = ["link", "l", "addr", "address", "a", "show", "list", "ls"];
    let lists_all = !output.is_cut && (operand.is_empty() || verbs.contains(&operand));
    if shown > PICKED || lists_all && shown > 1 {
        return;
    }
    for (kind, all) in [
        (ToolResultKind::NoLink, lost),
        (ToolResultKind::SwitchedOff, off),
    ] {
        for (name, line) in &all {
            add(facts, node, kind, name, (line, line.text.trim()));
        }
    }
}

/// Whether ip(8) shows flags of an interface without UP.
fn is_switched_off(line: &str) -> bool {
    let flags = line.split(['<', '>']).nth(1).unwrap_or("");
    flags.contains("BROADCAST") && !flags.split(',').any(|flag| flag == "UP")
}

/// `mofed-ds-8kx2p  0/1  CrashLoopBackOff  41 (2m ago)  3h`: a state in which a pod runs nothing.
fn failing_pods(output: &Output, facts: &mut Facts, node: Id) {
    const FAILING: [&str; 6] = [
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "CreateContainerError",
        "CreateContainerConfigError",
        "RunContainerError",
    ];
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let state = words.iter().find(|word| {
            let own = word.strip_prefix("Init:").unwrap_or(word);
            FAILING.contains(&own)
        });
        // With -A the namespace stands before the name.
        let ready = words.iter().position(|word| word.contains('/'));
        let name = ready.and_then(|at| words.get(at.checked_sub(1)?));
        if let (Some(state), Some(name)) = (state, name) {
            add(facts, node, ToolResultKind::PodFails, name, (&line, state));
        }
    }
}

/// `4: ACTIVE`, `1: DOWN`: the states of the ports that a pattern of files means, whose names nobody prints.
fn states_of_pattern(output: &Output, facts: &mut Facts, node: Id) {
    let is_of_ports = |word: &&std::sync::Arc<str>| {
        word.contains('*') && word.contains("/ports/") && word.ends_with("/state")
    };
    let Some(pattern) = output.argv.iter().find(is_of_ports) else {
        return;
    };
    let states: Vec<OutputLine<'_>> = output.lines().collect();
    let count = states.len();
    for (at, line) in states.iter().enumerate() {
        let Some((number, word)) = line.text.trim().split_once(": ") else {
            return;
        };
        if number != "4" && number.len() == 1 {
            let about = format!("{pattern}, port {} of {count}", at + 1);
            let said = word.to_lowercase();
            add(
                facts,
                node,
                ToolResultKind::PortBelow,
                &about,
                (line, &said),
            );
        }
    }
}

/// The governors of the CPUs, a line for each, or counted by uniq(1).
fn governors(output: &Output, facts: &mut Facts, node: Id) {
    const LOW: [&str; 4] = ["powersave", "ondemand", "conservative", "schedutil"];
    if !output
        .argv
        .iter()
        .any(|word| word.ends_with("/scaling_governor"))
    {
        return;
    }
    for line in output.lines() {
        let name = line.text.split_whitespace().last().unwrap_or_default();
        if LOW.contains(&name) {
            let kind = ToolResultKind::GovernorLow;
            add(facts, node, kind, "the CPUs", (&line, &words_of(line.text)));
            return;
        }
    }
}

/// `ecn/roce_np/enable/3` of an interface, with 0 in it.
fn ecn_of_priority(output: &Output, facts: &mut Facts, node: Id) {
    let is_of_ecn = |word: &&std::sync::Arc<str>| {
        word.contains("/ecn/roce_") && word.contains("/enable/") && !word.contains('*')
    };
    let Some(path) = output.argv.iter().find(is_of_ecn) else {
        return;
    };
    let mut parts = path.split('/').rev();
    let priority = parts.next().unwrap_or_default();
    let netdev = path
        .split("/class/net/")
        .nth(1)
        .and_then(|rest| rest.split('/').next());
    if let (Some(netdev), Some(line)) = (netdev, output.lines().next())
        && line.text.trim() == "0"
    {
        let words = format!("priority {priority}");
        add(facts, node, ToolResultKind::EcnOff, netdev, (&line, &words));
    }
}

/// An attribute of a port, as ibportstate(8) and smpquery(8) print it.
struct Attribute<'o> {
    line: OutputLine<'o>,
    value: &'o str,
}

/// `LinkState:......................Down`.
fn attribute<'o>(output: &'o Output, name: &str) -> Option<Attribute<'o>> {
    for line in output.lines() {
        if let Some((key, dotted)) = line.text.trim().split_once(":.")
            && key == name
        {
            let value = dotted.trim_start_matches('.').trim();
            return Some(Attribute { line, value });
        }
    }
    None
}

/// A port that is down, or has fewer lanes than it may use: `LinkWidthActive:.....1X` of
/// `LinkWidthEnabled:....1X or 4X`.
fn port_of_management(output: &Output, facts: &mut Facts, node: Id) {
    let words: Vec<&str> = output.argv.iter().map(|word| &**word).collect();
    let about = words.join(" ");
    let kind = ToolResultKind::PortBelow;
    let state = attribute(output, "LinkState").filter(|state| state.value == "Down");
    if let Some(state) = state {
        let said = match attribute(output, "PhysLinkState") {
            Some(physical) => format!("down ({})", physical.value),
            None => "down".to_owned(),
        };
        add(facts, node, kind, &about, (&state.line, &said));
        return;
    }
    let both = (
        attribute(output, "LinkWidthActive"),
        attribute(output, "LinkWidthEnabled"),
    );
    if let (Some(active), Some(enabled)) = both
        && enabled.value.split(" or ").last() != Some(active.value)
    {
        let said = format!("{}, with {} enabled", active.value, enabled.value);
        add(facts, node, kind, &about, (&active.line, &said));
    }
}

/// The interface whose description begins in this line.
fn interface_of<'l>(tool: &str, line: &'l str) -> Option<&'l str> {
    let first = line.split_whitespace().next()?;
    let is_indented = line.starts_with([' ', '\t']);
    match tool {
        "ifconfig" if !is_indented => first.strip_suffix(':'),
        "ip" if line.contains('<') => interfaces::listed_name(line),
        _ => None,
    }
}

/// A matrix of `topo -p2p` in which no pair may: the cells are all the same refusal.
fn peers_refused(output: &Output, facts: &mut Facts, node: Id) {
    const REFUSALS: [&str; 4] = ["CNS", "GNS", "TNS", "NS"];
    let mut cells: Vec<&str> = Vec::new();
    let mut first_row: Option<OutputLine<'_>> = None;
    for line in output.lines() {
        let mut words = line.text.split_whitespace();
        let is_row = words.next().is_some_and(|word| word.starts_with("GPU"));
        let says = words.filter(|word| *word != "X" && !word.starts_with("GPU"));
        let says: Vec<&str> = says.filter(|_| is_row).collect();
        if !says.is_empty() {
            first_row.get_or_insert(line);
            cells.extend(says);
        }
    }
    if let (Some(line), Some(refusal)) = (&first_row, cells.first())
        && REFUSALS.contains(refusal)
        && cells.iter().all(|cell| cell == refusal)
    {
        // GPUs without NVLink are so by design.
        let access = match option(output, "-p2p", "-p2p") {
            Some("w") => "write to",
            Some("r") => "read from",
            _ => return,
        };
        let kind = ToolResultKind::PeersRefused;
        add(facts, node, kind, access, (line, refusal));
    }
}

/// `* hard memlock 65536` for all logins, in KiB (limits.conf(5)), in lines that somebody picked. A
/// whole file is read with those beside it.
fn memlock(output: &Output, facts: &mut Facts, node: Id) {
    let mut limited = None;
    for line in output.lines().filter(|_| output.is_cut) {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        if let ["*", "soft" | "hard" | "-", "memlock", value, ..] = words.as_slice() {
            if value.parse::<u64>().is_err() {
                return;
            }
            limited.get_or_insert((line, words.join(" ")));
        }
    }
    if let Some((line, said)) = limited {
        let kind = ToolResultKind::MemlockLimited;
        add(facts, node, kind, "logins", (&line, &said));
    }
}

/// Servers of data or metadata that are reached over TCP, where others are over RDMA.
fn servers_over_tcp(output: &Output, facts: &mut Facts, node: Id) {
    let mut section = "";
    let mut server = "";
    let mut uses_rdma = false;
    let mut by_tcp: Vec<&str> = Vec::new();
    let mut first: Option<OutputLine<'_>> = None;
    for line in output.lines() {
        let text = line.text.trim();
        if text.ends_with("_nodes") {
            section = text;
        } else if let Some((name, _)) = text.split_once(" [ID: ") {
            server = name;
        } else if text.starts_with("Connections:") && !section.starts_with("mgmt") {
            uses_rdma |= text.contains("RDMA:");
            if text.contains("TCP:") && !text.contains("RDMA:") {
                by_tcp.push(server);
                first.get_or_insert(line);
            }
        }
    }
    if let Some(line) = first.filter(|_| uses_rdma) {
        let kind = ToolResultKind::ServersOverTcp;
        let names = by_tcp.join(", ");
        add(facts, node, kind, &names, (&line, line.text.trim()));
    }
}

/// The transports that `ucx_info -d` lists, where none is one of RDMA.
fn transports(output: &Output, facts: &mut Facts, node: Id) {
    const OF_RDMA: [&str; 6] = ["rc_", "ud_", "dc_", "srd_", "gga_", "rdmacm"];
    let mut names: Vec<&str> = Vec::new();
    let mut first: Option<OutputLine<'_>> = None;
    for line in output.lines() {
        if let Some((_, named)) = line.text.split_once("Transport: ") {
            let name = named.trim();
            first.get_or_insert(line);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let has_rdma = names
        .iter()
        .any(|name| OF_RDMA.iter().any(|begin| name.starts_with(begin)));
    if let (false, Some(line)) = (has_rdma, first) {
        let kind = ToolResultKind::NoRdmaTransport;
        add(
            facts,
            node,
            kind,
            &names.join(", "),
            (&line, line.text.trim()),
        );
    }
}

/// `127.0.1.1  gpu01`: who asks for the name gets an address that no other host reaches.
fn names_on_loopback(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let mut words = line.text.split_whitespace();
        let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        if !address.is_some_and(|address| address.is_loopback()) {
            continue;
        }
        let own =
            |name: &&str| !name.starts_with('#') && !LOOPBACK.iter().any(|of| name.contains(of));
        if let Some(name) = words.find(own) {
            let kind = ToolResultKind::NameOnLoopback;
            add(facts, node, kind, name, (&line, &words_of(line.text)));
            return;
        }
    }
}

/// Names that are the loopback's by right.
const LOOPBACK: [&str; 2] = ["localhost", "loopback"];

/// `oom_kill 12` of a control group's memory.events (Documentation/admin-guide/cgroup-v2.rst).
fn killed_for_memory(output: &Output, facts: &mut Facts, node: Id) {
    let Some(path) = output
        .operand()
        .filter(|path| path.ends_with("/memory.events"))
    else {
        return;
    };
    let of_kills = output
        .lines()
        .find(|line| line.text.starts_with("oom_kill "));
    if let Some(line) = of_kills
        && line
            .text
            .split(' ')
            .nth(1)
            .is_some_and(|count| count != "0")
    {
        let group = path.trim_end_matches("/memory.events");
        let group = group.rsplit('/').next().unwrap_or(group);
        let kind = ToolResultKind::KilledForMemory;
        add(facts, node, kind, group, (&line, line.text.trim()));
    }
}

/// ` Sent … bytes … pkt (dropped 120331, overlimits …)` below `qdisc mq 0: dev eth2 root`.
fn queue_drops(output: &Output, facts: &mut Facts, node: Id) {
    let mut interface = option(output, "dev", "dev").unwrap_or("an interface");
    for line in output.lines() {
        let mut words = line.text.split_whitespace();
        if words.next() == Some("qdisc") {
            let named = words.skip_while(|word| *word != "dev").nth(1);
            interface = named.unwrap_or(interface);
        } else if let Some((_, rest)) = line.text.split_once("(dropped ")
            && let Some((count, _)) = rest.split_once(',')
            && count != "0"
        {
            let kind = ToolResultKind::QueueDropped;
            add(facts, node, kind, interface, (&line, count));
        }
    }
}
