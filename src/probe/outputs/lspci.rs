//! PCI functions, their links and what bridges redirect, as `lspci -vvv` and `lspci -xxx` print them, and their paths, as `lspci -t` draws them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counters::option;
use super::self_tests::add;
use super::{Output, OutputLine, named};
use crate::fact::bridge::{self, PortType};
use crate::fact::function::{self, Feature, PciClass};
use crate::fact::pcie::LinkKeys;
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Bytes, Facts, Id, Subject, gpu};
use crate::probe::{joined, pci, pcie};
use crate::tool_output;

/// States adapters, GPUs of NVIDIA and AMD, and the bridges that show their Access Control Services.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut at: Option<(Id, LinkKeys)> = None;
    let mut names_functions = false;
    let mut redirecting: Option<Id> = None;
    let mut unnamed: Vec<OutputLine<'_>> = Vec::new();
    for line in output.lines() {
        // Somebody may have taken the tabs away, so that its address alone tells where a function begins.
        if tool_output::is_function(line.text) {
            at = begin(facts, node, &line);
            names_functions = true;
            let Some((id, _)) = &at else {
                continue;
            };
            if facts.subject(*id) == Subject::Bridge {
                redirecting = is_switch(line.text).then_some(*id);
            } else if let Some(bridge) = redirecting.take()
                && facts.known(bridge, bridge::ACS_REDIRECT) == Some(true)
            {
                let below = line.known(facts.name(*id).into());
                facts.set(bridge, bridge::REDIRECTS_ABOVE, below);
            }
            continue;
        }
        if let Some((id, keys)) = &at {
            field(facts, *id, keys, &line);
            if line.text.contains("] Express (") && facts.subject(*id) == Subject::Bridge {
                let is_downstream = line.text.contains("Downstream Port");
                redirecting = is_downstream.then_some(*id);
            }
        } else if !names_functions {
            unnamed_link(output, facts, node, &line);
            unnamed.extend(line.text.contains("ACSCtl:").then_some(line));
        }
    }
    unnamed_redirects(facts, node, &unnamed);
    for (name, at, bytes) in tool_output::config_spaces(output.lines().map(|line| line.text)) {
        let subjects = [
            (Subject::Function, function::LINK),
            (Subject::Gpu, gpu::LINK),
            (Subject::Bridge, bridge::LINK),
        ];
        let find = |(of, keys)| Some((facts.find(of, node, &name)?, keys));
        let found = subjects.into_iter().find_map(find);
        if let (Some((id, keys)), Some(line)) = (found, output.lines().nth(at)) {
            pcie::printed(facts, id, line.known(bytes.into()), &keys);
        }
    }
}

/// Whether a bridge is called a port of a switch. A root port redirects on most machines, and
/// nothing turns round below it.
fn is_switch(line: &str) -> bool {
    ["Switch", "switch", "PEX8", "PLX"]
        .iter()
        .any(|word| line.contains(word))
}

/// States how many of the lines of Access Control Services, of which none names its function, send
/// requests up.
fn unnamed_redirects(facts: &mut Facts, node: Id, lines: &[OutputLine<'_>]) {
    let mut redirecting = lines.iter().filter(|line| line.text.contains("ReqRedir+"));
    let Some(first) = redirecting.next() else {
        return;
    };
    let count = 1 + redirecting.count();
    let about = format!("{count} of {} functions that are not named", lines.len());
    let kind = ToolResultKind::Redirects;
    add(facts, node, kind, &about, (first, first.text.trim()));
}

/// A link of which lspci says that it is below what it supports, without the line that names its
/// function. An idle GPU lowers its speed, so that only the lanes prove something.
fn unnamed_link(output: &Output, facts: &mut Facts, node: Id, line: &OutputLine<'_>) {
    let Some(link) = line.text.split("LnkSta:").nth(1) else {
        return;
    };
    let lanes = link
        .split("Width ")
        .nth(1)
        .and_then(|rest| rest.split(',').next());
    let asked = option(output, "-s", "-s");
    let name = asked.map_or_else(
        || format!("unnamed function (line {})", line.number),
        str::to_owned,
    );
    let status = link.split(", TrErr").next().unwrap_or(link).trim();
    if lanes.is_some_and(|lanes| lanes.contains("(downgraded)")) {
        let id = facts.instance(Subject::Function, node, &name);
        facts.set(id, function::LINK_BELOW, line.known(status.into()));
    } else if link.contains("(downgraded)") {
        add(
            facts,
            node,
            ToolResultKind::SpeedLowered,
            &name,
            (line, status),
        );
    }
}

/// The class that stands behind the address.
fn class(rest: &str) -> Option<&str> {
    Some(rest.split(['[', ':']).next()?.trim())
}

fn is_gpu(class: &str) -> bool {
    matches!(
        class,
        "3D controller"
            | "VGA compatible controller"
            | "Processing accelerators"
            | "Display controller"
    )
}

/// The address of a GPU of NVIDIA, if this line is its first.
pub(super) fn nvidia_gpu(line: &str) -> Option<String> {
    let (address, rest) = line.split_once(' ')?;
    let is_nvidia = is_gpu(class(rest)?) && rest.to_lowercase().contains("nvidia");
    is_nvidia.then(|| tool_output::function_name(address).to_string())
}

/// Whether the name of an Ethernet controller is of a line that can do RDMA.
fn does_rdma(name: &str) -> bool {
    [
        "mellanox",
        "netxtreme-e",
        "bcm575",
        "bcm576",
        "e810",
        "e830",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// `0000:1a:00.0 Infiniband controller: Mellanox Technologies MT2910 …`; without its domain an address is of the first.
fn begin(facts: &mut Facts, node: Id, line: &OutputLine<'_>) -> Option<(Id, LinkKeys)> {
    let (address, rest) = line.text.split_once(' ')?;
    let name = tool_output::function_name(address);
    let class = class(rest)?;
    let vendor = rest.to_lowercase();
    match class {
        "Infiniband controller"
        | "InfiniBand controller"
        | "Ethernet controller"
        | "Network controller"
            if class.starts_with("Inf") || does_rdma(&vendor) =>
        {
            let id = facts.instance(Subject::Function, node, &name);
            let class = match class.starts_with("Inf") {
                true => PciClass::InfiniBand,
                false => PciClass::Ethernet,
            };
            facts.set(id, function::CLASS, line.known(class));
            let virtual_function = line.known(vendor.contains("virtual function"));
            facts.set(id, function::VIRTUAL_FUNCTION, virtual_function);
            if class == PciClass::InfiniBand {
                facts.set(id, function::RDMA_EXPECTED, line.known(true));
            }
            let on_bus = line.known(!vendor.contains("(rev ff)"));
            facts.set(id, function::ON_BUS, on_bus);
            Some((id, function::LINK))
        }
        _ if is_gpu(class) && (vendor.contains("nvidia") || vendor.contains("amd")) => {
            let id = facts.instance(Subject::Gpu, node, &name);
            facts.set(id, gpu::PCI, line.known(name.as_str().into()));
            facts.set(id, gpu::ON_BUS, line.known(!vendor.contains("(rev ff)")));
            Some((id, gpu::LINK))
        }
        "PCI bridge" => {
            let id = facts.instance(Subject::Bridge, node, &name);
            Some((id, bridge::LINK))
        }
        _ => None,
    }
}

fn field(facts: &mut Facts, id: Id, keys: &LinkKeys, line: &OutputLine<'_>) {
    let text = line.text.trim();
    let (key, value) = text.split_once(':').unwrap_or((text, ""));
    let after = |key: &str| {
        let (_, rest) = text.split_once(key)?;
        rest.trim_start().split([' ', ',', '(']).next()
    };
    let words_on = || {
        text.split_whitespace()
            .filter_map(|word| word.strip_suffix('+'))
    };
    let on = |name: &str| words_on().any(|word| word == name);
    let is_bridge = facts.subject(id) == Subject::Bridge;
    let is_function = facts.subject(id) == Subject::Function;
    match key {
        "LnkCap" | "LnkSta" => {
            let generation = after("Speed ").and_then(generation);
            let width = after("Width ").and_then(|w| w.strip_prefix('x')?.parse().ok());
            // A link that is down has no width, and what lspci cannot read it calls unknown.
            if let (Some(generation), Some(width @ 1..=32)) = (generation, width) {
                let (speed, lanes) = match key {
                    "LnkCap" => (keys.max_generation, keys.max_width),
                    _ => (keys.generation, keys.width),
                };
                facts.set(id, speed, line.known(generation));
                facts.set(id, lanes, line.known(width));
            }
        }
        "Kernel driver in use" | "NUMA node" => {
            named::state(facts, id, named::PCI, (key, value), line);
            if is_function && key != "NUMA node" {
                facts.set(id, function::BOUND, line.known(true));
            }
        }
        "ACSCtl" if is_bridge => {
            let acs_redirect = line.known(on("ReqRedir") || on("CmpltRedir"));
            facts.set(id, bridge::ACS_REDIRECT, acs_redirect);
            let words = joined(&words_on().collect::<Vec<_>>(), " ");
            facts.set(id, bridge::ACS, line.known(words));
        }
        _ => {}
    }
    if let Some((_, kind)) = text.split_once("] Express (").filter(|_| is_bridge) {
        let kinds = [
            ("Root Port", PortType::Root),
            ("Upstream Port", PortType::Upstream),
            ("Downstream Port", PortType::Downstream),
        ];
        if let Some((_, of)) = kinds.iter().find(|(name, _)| kind.contains(name)) {
            facts.set(id, bridge::KIND, line.known(*of));
        }
    }
    // `DevCtl` goes on over several lines, whose words are its own.
    let bytes = |word: &str| after(word).and_then(|n| n.parse().ok()).map(Bytes);
    if text.contains("MaxReadReq ")
        && let Some(payload) = bytes("MaxPayload ")
    {
        facts.set(id, keys.max_payload, line.known(payload));
        if let Some(request) = bytes("MaxReadReq ").filter(|_| is_function) {
            facts.set(id, function::MAX_READ_REQUEST, line.known(request));
        }
    }
    if is_function && text.contains("RlxdOrd") && text.contains("ExtTag") {
        facts.set(id, function::RELAXED_ORDERING, line.known(on("RlxdOrd")));
        if on("ExtTag") {
            facts.set(id, function::EXTENDED_TAGS, line.known(Feature::On));
        }
    }
}

/// Whether it is the tree of the buses.
pub(super) fn is_tree(output: &Output) -> bool {
    let mut options = output.argv.iter().filter(|arg| !arg.starts_with("--"));
    options.any(|arg| arg.starts_with('-') && arg.contains('t'))
}

/// A bus of the tree: its domain and number, and the host bridge and bridges that lead to it.
#[derive(Clone)]
struct Bus {
    domain: String,
    number: String,
    path: Vec<Arc<str>>,
}

/// States the paths of the functions that others have named: `+-01.0-[16-19]----00.0-[17-19]--+-00.0  NAME`. What a bus has stands in one column.
pub(super) fn tree(output: &Output, facts: &mut Facts, node: Id) {
    let mut columns: BTreeMap<usize, Bus> = BTreeMap::new();
    for line in output.lines() {
        let mut bus: Option<Bus> = None;
        let mut rest = line.text;
        loop {
            let trimmed = rest.trim_start_matches([' ', '|', '+', '\\', '-']);
            let column = line.text.len() - trimmed.len();
            if let Some((numbers, behind)) =
                (trimmed.strip_prefix('[')).and_then(|inner| inner.split_once(']'))
            {
                // A bridge has the numbers of its buses, the first of which is its own; a root has its domain.
                let first = numbers.split('-').next().unwrap_or(numbers);
                bus = match (bus, first.rsplit_once(':')) {
                    (Some(bus), None) => Some(Bus {
                        number: first.to_owned(),
                        ..bus
                    }),
                    (_, root) => {
                        let (domain, number) = root.unwrap_or(("0000", first));
                        columns.clear();
                        Some(Bus {
                            domain: domain.to_owned(),
                            number: number.to_owned(),
                            path: vec![format!("pci{domain}:{number}").into()],
                        })
                    }
                };
                rest = behind;
                continue;
            }
            let end = trimmed.find([' ', '-']).unwrap_or(trimmed.len());
            let (place, behind) = trimmed.split_at(end);
            let on = match bus.take() {
                Some(bus) => {
                    columns.retain(|at, _| *at < column);
                    columns.entry(column).or_insert(bus)
                }
                None => match columns.get(&column) {
                    Some(bus) => bus,
                    None => break,
                },
            };
            let name = format!("{}:{}:{place}", on.domain, on.number);
            if !pci::place::is_function(&name) {
                break;
            }
            let mut own = on.clone();
            own.path.push(name.as_str().into());
            let path: Arc<[Arc<str>]> = own.path.clone().into();
            for (subject, key) in [
                (Subject::Function, function::PATH),
                (Subject::Gpu, gpu::PATH),
            ] {
                if let Some(id) = facts.find(subject, node, &name) {
                    facts.set(id, key, line.known(Arc::clone(&path)));
                }
            }
            if !behind.starts_with("-[") {
                break;
            }
            bus = Some(own);
            rest = behind;
        }
    }
}

fn generation(speed: &str) -> Option<u64> {
    Some(match speed.strip_suffix("GT/s")? {
        "2.5" => 1,
        "5" => 2,
        "8" => 3,
        "16" => 4,
        "32" => 5,
        "64" => 6,
        _ => return None,
    })
}
