//! PCI functions, their links and what bridges redirect, as `lspci -vvv` prints them.

use super::{Output, OutputLine};
use crate::fact::bridge::{self, PortType};
use crate::fact::function::{self, Feature, PciClass};
use crate::fact::pcie::LinkKeys;
use crate::fact::{Bytes, Facts, Id, Subject, gpu};

/// States adapters, GPUs of NVIDIA and AMD, and the bridges that show their Access Control Services.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut at: Option<(Id, LinkKeys)> = None;
    for line in output.lines() {
        if !line.text.starts_with([' ', '\t']) && !line.text.trim().is_empty() {
            at = begin(facts, node, &line);
            continue;
        }
        if let Some((id, keys)) = &at {
            field(facts, *id, keys, &line);
        }
    }
}

/// `0000:1a:00.0 Infiniband controller: Mellanox Technologies MT2910 …`; without its domain an address is of the first.
fn begin(facts: &mut Facts, node: Id, line: &OutputLine<'_>) -> Option<(Id, LinkKeys)> {
    let (address, rest) = line.text.split_once(' ')?;
    let name = match address.matches(':').count() {
        1 => format!("0000:{address}"),
        _ => address.to_owned(),
    };
    let class = rest.split(['[', ':']).next()?.trim();
    let vendor = rest.to_lowercase();
    match class {
        "Infiniband controller"
        | "InfiniBand controller"
        | "Ethernet controller"
        | "Network controller"
            if class.starts_with("Inf") || vendor.contains("mellanox") =>
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
        "3D controller"
        | "VGA compatible controller"
        | "Processing accelerators"
        | "Display controller"
            if vendor.contains("nvidia") || vendor.contains("amd") =>
        {
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
    let subject = facts.subject(id);
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
        "Kernel driver in use" if subject == Subject::Function => {
            facts.set(id, function::DRIVER, line.known(value.trim().into()));
            facts.set(id, function::BOUND, line.known(true));
        }
        "Kernel driver in use" if subject == Subject::Gpu => {
            facts.set(id, gpu::DRIVER, line.known(value.trim().into()));
        }
        "NUMA node" => {
            if let Ok(numa) = value.trim().parse() {
                match subject {
                    Subject::Function => facts.set(id, function::NUMA_NODE, line.known(numa)),
                    Subject::Gpu => facts.set(id, gpu::NUMA_NODE, line.known(numa)),
                    _ => {}
                }
            }
        }
        "ACSCtl" if subject == Subject::Bridge => {
            let on = |name: &str| {
                value
                    .split_whitespace()
                    .any(|w| w.strip_suffix('+') == Some(name))
            };
            let acs_redirect = line.known(on("ReqRedir") || on("CmpltRedir"));
            facts.set(id, bridge::ACS_REDIRECT, acs_redirect);
            let words: Vec<&str> = value
                .split_whitespace()
                .filter_map(|w| w.strip_suffix('+'))
                .collect();
            let words = if words.is_empty() {
                "none".to_owned()
            } else {
                words.join(" ")
            };
            facts.set(id, bridge::ACS, line.known(words.into()));
        }
        _ => {}
    }
    if let Some((_, kind)) = text.split_once("] Express (") {
        let kind = [
            ("Root Port", PortType::Root),
            ("Upstream Port", PortType::Upstream),
            ("Downstream Port", PortType::Downstream),
        ]
        .iter()
        .find_map(|(name, kind_of)| kind.contains(name).then_some(*kind_of));
        if subject == Subject::Bridge
            && let Some(kind) = kind
        {
            facts.set(id, bridge::KIND, line.known(kind));
        }
    }
    // `DevCtl` goes on over several lines, whose words are its own.
    let bytes = |word: &str| after(word).and_then(|n| n.parse().ok()).map(Bytes);
    if text.contains("MaxReadReq ")
        && let Some(payload) = bytes("MaxPayload ")
    {
        facts.set(id, keys.max_payload, line.known(payload));
        if subject == Subject::Function
            && let Some(request) = bytes("MaxReadReq ")
        {
            facts.set(id, function::MAX_READ_REQUEST, line.known(request));
        }
    }
    if subject == Subject::Function && text.contains("RlxdOrd") && text.contains("ExtTag") {
        let on = |name: &str| {
            text.split_whitespace()
                .any(|w| w.strip_suffix('+') == Some(name))
        };
        facts.set(id, function::RELAXED_ORDERING, line.known(on("RlxdOrd")));
        if on("ExtTag") {
            facts.set(id, function::EXTENDED_TAGS, line.known(Feature::On));
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
