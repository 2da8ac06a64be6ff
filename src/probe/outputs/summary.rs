//! The outputs that were read, each with its key values.

use std::sync::Arc;

use super::Output;
use crate::fact::{Facts, Id, Origin, Subject, gpu, ib_fabric, node as of_node, nvlink, port};
use crate::tool_output;

/// Outputs that are named, at most.
const NAMED: usize = 12;

/// States which outputs there are.
pub(super) fn state_outputs(outputs: &[Output], facts: &mut Facts, node: Id) {
    let mut names: Vec<String> = Vec::new();
    for output in outputs {
        let name = output_name(output);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut said: Vec<Arc<str>> = Vec::new();
    for fabric in facts.below(node, Subject::IbFabric) {
        let summary = facts.known(fabric, ib_fabric::SUMMARY);
        said.extend(summary.map(|summary| format!("fabric: {summary}").into()));
    }
    for name in names.iter().take(NAMED) {
        let same = outputs.iter().filter(|output| output_name(output) == *name);
        let values = key_values(&same.collect::<Vec<_>>(), facts, node);
        said.push(format!("{name}: {values}").into());
    }
    if names.len() > NAMED {
        said.push(format!("{} more", names.len() - NAMED).into());
    }
    let origin = Origin::derived("the outputs that were read");
    facts.know(node, of_node::OUTPUTS, said.into(), &origin);
}

/// The tool with the word that says what it was asked for.
fn output_name(output: &Output) -> String {
    if output.is_gpu_list() {
        return "nvidia-smi -L".to_owned();
    }
    let by_its_lines = match output.tool() {
        tool_output::ALIKE_ROWS => Some("rows that are alike"),
        tool_output::COUNTERS => Some("counters"),
        tool_output::COUNTER_TABLE => Some("a table of counters"),
        tool_output::SAID_SETTINGS => Some("settings in the text"),
        tool_output::NOT_LISTED => Some("lists without what was looked for"),
        _ => None,
    };
    if let Some(name) = by_its_lines {
        return name.to_owned();
    }
    let word = match output.tool() {
        "nvidia-smi" | "ip" | "rdma" | "nft" | "tc" => output
            .argv
            .iter()
            .skip(1)
            .find(|arg| arg.starts_with(|c: char| c.is_ascii_lowercase()) || &***arg == "-q"),
        "iptables" | "ethtool" => output.argv.iter().skip(1).find(|arg| arg.starts_with('-')),
        _ => None,
    };
    match word {
        Some(word) => format!("{} {word}", output.tool()),
        None => output.tool().to_owned(),
    }
}

/// What the outputs of one kind hold, in numbers.
fn key_values(outputs: &[&Output], facts: &Facts, node: Id) -> String {
    let first = outputs.first();
    match first.map_or("", |output| output.tool()) {
        "ibstat" | "ibstatus" | "ibv_devinfo" | "ibdev2netdev" => ports(facts, node),
        "nvidia-smi" if first.is_some_and(|output| output.is_gpu_list()) => {
            counted(count(outputs, |line| line.contains("(UUID: GPU-")), "GPU")
        }
        "nvidia-smi" if first.is_some_and(|output| output.has("nvlink")) => nvlinks(facts, node),
        "nvidia-smi" => counted(facts.below(node, Subject::Gpu).count() as u64, "GPU"),
        "lspci" => counted(count(outputs, crate::tool_output::is_function), "function"),
        "perfquery" => counted(count(outputs, |line| line.contains(":...")), "counter"),
        "iptables" | "iptables-save" | "ip6tables" | "ip6tables-save" => {
            counted(count(outputs, |line| line.starts_with("-A ")), "rule")
        }
        "ethtool" if count(outputs, |line| line.trim() == "Link detected: no") > 0 => {
            format!("no link on {}", names_without_link(outputs).join(", "))
        }
        _ => counted(count(outputs, |line| !line.trim().is_empty()), "line"),
    }
}

/// The interfaces of which ethtool says that they have no link.
fn names_without_link(outputs: &[&Output]) -> Vec<String> {
    let mut names = Vec::new();
    let mut above = "";
    for line in outputs.iter().flat_map(|output| output.lines()) {
        if let Some(name) = line.text.trim().strip_prefix("Settings for ") {
            above = name.trim_end_matches(':');
        } else if line.text.trim() == "Link detected: no" {
            names.push(above.to_owned());
        }
    }
    names
}

fn count(outputs: &[&Output], fits: fn(&str) -> bool) -> u64 {
    let lines = outputs.iter().flat_map(|output| output.lines());
    lines.filter(|line| fits(line.text)).count() as u64
}

fn counted(number: u64, what: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {what}{end}")
}

fn ports(facts: &Facts, node: Id) -> String {
    let mut active = 0;
    let mut inactive: Vec<String> = Vec::new();
    for port in facts.below(node, Subject::Port) {
        match facts.known(port, port::LISTED_AS).as_deref() {
            Some("none") => active += 1,
            Some(listed) => inactive.push(format!("{} {listed}", facts.name(port))),
            None => {}
        }
    }
    let all = counted(active + inactive.len() as u64, "port");
    let names = inactive.iter().map(|one| format!(", {one}"));
    format!("{all}, {active} active{}", names.collect::<String>())
}

fn nvlinks(facts: &Facts, node: Id) -> String {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    let links = gpus
        .iter()
        .flat_map(|gpu| facts.below(*gpu, Subject::Nvlink));
    let states: Vec<bool> = links
        .filter_map(|link| facts.known(link, nvlink::ACTIVE))
        .collect();
    let active = states.iter().filter(|active| **active).count();
    let without = gpus
        .iter()
        .filter(|gpu| facts.known(**gpu, gpu::NVLINKS_ACTIVE) == Some(0))
        .count();
    let links = counted(states.len() as u64, "NVLink");
    let none = if without > 0 {
        format!(", {without} without an active one")
    } else {
        String::new()
    };
    format!(
        "{}, {links}, {active} active{none}",
        counted(gpus.len() as u64, "GPU")
    )
}
