//! What several lines of outputs state together by their numbers: memory with errors, connections that
//! send again, a load beyond the CPUs, interfaces of one network.

use std::net::Ipv4Addr;

use super::self_tests::add;
use super::{Output, OutputLine, interfaces};
use crate::fact::tool_result::{self, ToolResultKind};
use crate::fact::{Bytes, Facts, Id, Percent};
use crate::tool_output::{self, NamedRow};

/// States what the outputs of a host state together.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    for output in outputs {
        match output.tool() {
            "edac-util" | "ras-mc-ctl" => memory(output, facts, node),
            "ss" => sent_again(output, facts, node),
            "uptime" => load(outputs, output, facts, node),
            "ethtool" if output.has("-l") || output.has("--show-channels") => {
                queues(output, facts, node);
            }
            "cat" if output.has("/proc/cmdline") => iommu(output, facts, node),
            "ping" => large_lost(outputs, output, facts, node),
            tool_output::NOT_LISTED => not_listed(output, facts, node),
            tool_output::ALIKE_ROWS => odd_row(output, facts, node),
            "ip" | "ifconfig" => one_network(outputs, output, facts, node),
            _ => {}
        }
    }
}

/// `mc0: csrow0: 2 Uncorrected Errors`, as edac-util(1) prints it.
fn memory(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let Some((about, said)) = line.text.trim().rsplit_once(": ") else {
            continue;
        };
        let count = said.split_once(" Uncorrected Errors");
        if let Some((count, _)) = count
            && count.parse::<u64>().is_ok_and(|count| count > 0)
        {
            let kind = ToolResultKind::MemoryUncorrected;
            add(facts, node, kind, about, (&line, count));
        }
    }
}

/// `lsmod | grep peermem` without a line below it.
fn not_listed(output: &Output, facts: &mut Facts, node: Id) {
    let Some(line) = output.lines().next() else {
        return;
    };
    let tool = output.argv.get(1).map_or("", |tool| &**tool);
    let words = line.text.split_once("grep ").map_or("", |(_, words)| words);
    let wanted = words.split_whitespace().find(|word| !word.starts_with('-'));
    let wanted = wanted.unwrap_or_default().trim_matches(['\'', '"']);
    // What nobody wants to be there is missed by nobody.
    if !wanted.is_empty() && !UNWANTED.iter().any(|word| wanted.contains(word)) {
        add(
            facts,
            node,
            ToolResultKind::NotListed,
            wanted,
            (&line, tool),
        );
    }
}

/// Words for which lists are searched in the hope that they are not there.
const UNWANTED: [&str; 5] = ["nouveau", "down", "Down", "DOWN", "downgraded"];

/// The row that is unlike the others.
fn odd_row(output: &Output, facts: &mut Facts, node: Id) {
    let lines: Vec<OutputLine<'_>> = output.lines().collect();
    let rows = lines
        .iter()
        .filter_map(|line| tool_output::named_row(line.text));
    let rows: Vec<NamedRow<'_>> = rows.collect();
    let Some((odd, others)) = tool_output::odd_row(&rows) else {
        return;
    };
    let line = lines
        .iter()
        .find(|line| tool_output::named_row(line.text) == Some(*odd));
    if let Some(line) = line {
        let said = format!(
            "{}, where {} others show {others}",
            odd.said,
            rows.len() - 1
        );
        add(facts, node, ToolResultKind::OddRow, odd.name, (line, &said));
    }
}

/// `Combined: 63` below the maximums, and `Combined: 1` below the current settings.
fn queues(output: &Output, facts: &mut Facts, node: Id) {
    let mut most = 0;
    let mut is_now = false;
    for line in output.lines() {
        let text = line.text.trim();
        is_now |= text.starts_with("Current hardware settings");
        let count = text.strip_prefix("Combined:");
        let Some(count) = count.and_then(|count| count.trim().parse::<u64>().ok()) else {
            continue;
        };
        if is_now && count <= FEW && count * 4 < most {
            let about = output.operand().unwrap_or("an interface");
            let said = format!("{count} of {most}");
            add(
                facts,
                node,
                ToolResultKind::FewQueues,
                about,
                (&line, &said),
            );
        }
        most = most.max(count);
    }
}

/// So few queues are as many CPUs that take all packets.
const FEW: u64 = 2;

/// `intel_iommu=on` without `iommu=pt` in the kernel's parameters.
fn iommu(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let has = |parameter: &str| line.text.split_whitespace().any(|word| word == parameter);
        let on = ["intel_iommu=on", "amd_iommu=on"]
            .into_iter()
            .find(|word| has(word));
        if let Some(on) = on.filter(|_| !has("iommu=pt")) {
            let said = format!("{on} without iommu=pt");
            add(
                facts,
                node,
                ToolResultKind::IommuTranslates,
                "the kernel",
                (&line, &said),
            );
        }
    }
}

/// What a ping shows: to whom, of which size, and whether all or none came back.
struct Echo {
    to: String,
    size: u64,
    lost: f64,
}

fn echo(output: &Output) -> Option<Echo> {
    let option = super::counters::option(output, "-s", "--size");
    let size = option.and_then(|size| size.parse().ok()).unwrap_or(56);
    let lost = output.lines().find_map(|line| {
        let (before, _) = line.text.split_once("% packet loss")?;
        before.rsplit([' ', ',']).next()?.parse().ok()
    })?;
    let to = output.operand()?.to_owned();
    Some(Echo { to, size, lost })
}

/// A ping of large packets of which none is answered, and one of small ones to the same address of
/// which all are.
fn large_lost(outputs: &[Output], ping: &Output, facts: &mut Facts, node: Id) {
    let Some(large) =
        echo(ping).filter(|echo| echo.lost >= 100.0 && (LARGE + 1..=LARGEST).contains(&echo.size))
    else {
        return;
    };
    let pings = outputs.iter().filter(|output| output.tool() == "ping");
    let small = pings
        .filter_map(echo)
        .any(|echo| echo.to == large.to && echo.lost == 0.0 && echo.size <= LARGE);
    let line = ping
        .lines()
        .find(|line| line.text.contains("% packet loss"));
    if let Some(line) = line.filter(|_| small) {
        let kind = ToolResultKind::LargeLost;
        let id = add(facts, node, kind, &large.to, (&line, line.text.trim()));
        // The headers of IP and ICMP.
        let size = Bytes(large.size + 28);
        facts.set(id, tool_result::SIZE, line.known(size));
    }
}

/// Ethernet's packets hold so many bytes of an echo everywhere.
const LARGE: u64 = 1472;
/// No packet of IP holds more.
const LARGEST: u64 = 65_507;

/// The number behind a word of a line: `bytes_sent:8192231`.
fn behind(line: &str, key: &str) -> Option<u64> {
    let word = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix(key))?;
    word.parse().ok()
}

/// `bytes_sent:8192231 bytes_retrans:2210332` below the addresses of a connection (ss(8), -i).
fn sent_again(output: &Output, facts: &mut Facts, node: Id) {
    let mut peer = String::new();
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        if let [.., address] = words.as_slice()
            && let Some((host, _)) = address.rsplit_once(':').filter(|_| words.len() >= 4)
            && !line.text.starts_with([' ', '\t'])
        {
            host.trim_matches(['[', ']']).clone_into(&mut peer);
        }
        let sent = behind(line.text, "bytes_sent:");
        let again = behind(line.text, "bytes_retrans:");
        if let (Some(sent @ MUCH..), Some(again)) = (sent, again) {
            let about = if peer.is_empty() { "a peer" } else { &peer };
            let kind = ToolResultKind::SentAgain;
            let id = add(facts, node, kind, about, (&line, &again.to_string()));
            let share = Percent(100.0 * again as f64 / sent as f64);
            facts.set(id, tool_result::LOST, line.known(share));
        }
    }
}

/// Of fewer bytes a share says nothing.
const MUCH: u64 = 1 << 20;

/// `load average: 812.33, 790.20, 700.01` beside the number of CPUs that another output shows: all
/// three are above twice of it.
fn load(outputs: &[Output], uptime: &Output, facts: &mut Facts, node: Id) {
    let cpus = outputs.iter().find(|output| output.tool() == "nproc");
    let cpus = cpus.and_then(|output| output.lines().next()?.text.trim().parse::<u64>().ok());
    for line in uptime.lines() {
        let Some((_, averages)) = line.text.split_once("load average: ") else {
            continue;
        };
        let all: Vec<f64> = averages
            .split(", ")
            .filter_map(|average| average.trim().parse().ok())
            .collect();
        let Some(cpus) = cpus.filter(|cpus| all.iter().all(|one| *one > 2.0 * *cpus as f64)) else {
            continue;
        };
        if let [first, ..] = all.as_slice() {
            let said = format!("{first}, of {cpus} CPUs");
            add(
                facts,
                node,
                ToolResultKind::Overloaded,
                "this host",
                (&line, &said),
            );
        }
    }
}

/// Interfaces of adapters with addresses of one network, where `sysctl` shows a strict filter for all.
fn one_network(outputs: &[Output], list: &Output, facts: &mut Facts, node: Id) {
    let strict = outputs.iter().filter(|output| output.tool() == "sysctl");
    let strict = strict.flat_map(Output::lines).find(is_strict);
    let Some(strict) = strict else {
        return;
    };
    let mut name = "";
    let mut networks: Vec<(u32, u32, Vec<&str>)> = Vec::new();
    for line in list.lines() {
        name = interfaces::listed_name(line.text).unwrap_or(name);
        let words = line.text.split_whitespace();
        for (address, length) in words.filter_map(network_of) {
            if !interfaces::is_of_adapter(name) || length >= 31 {
                continue;
            }
            let own = address >> (32 - length);
            match networks
                .iter_mut()
                .find(|(network, of, _)| (*network, *of) == (own, length))
            {
                Some((.., names)) if names.contains(&name) => {}
                Some((.., names)) => names.push(name),
                None => networks.push((own, length, vec![name])),
            }
        }
    }
    for (.., names) in networks.iter().filter(|(.., names)| names.len() > 1) {
        let said = strict.text.trim();
        let kind = ToolResultKind::OneNetwork;
        add(facts, node, kind, &names.join(", "), (&strict, said));
    }
}

fn is_strict(line: &OutputLine<'_>) -> bool {
    let said = line.text.trim().split_once('=');
    said.is_some_and(|(key, value)| {
        key.trim() == "net.ipv4.conf.all.rp_filter" && value.trim() == "1"
    })
}

/// `10.10.0.11/24`: the address and the length of its network's prefix.
fn network_of(word: &str) -> Option<(u32, u32)> {
    let (address, length) = word.split_once('/')?;
    let address: Ipv4Addr = address.parse().ok()?;
    let length: u32 = length
        .parse()
        .ok()
        .filter(|length| (1..=32).contains(length))?;
    Some((address.to_bits(), length))
}
