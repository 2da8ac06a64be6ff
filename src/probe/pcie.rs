//! PCIe links, bridges and the IOMMU: every function on the way from a GPU or an adapter to the host bridge.

pub mod config;
mod iommu;
mod link;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use self::config::{Acs, Config, Express, Unreadable};
use super::pci::{DEVICES, Signs, functions, is_adapter_class, place};
use super::{Ask, Probe, gpu, inside};
use crate::fact::bridge::{self, PortType};
use crate::fact::function::{self, Feature};
use crate::fact::node::Iommu;
use crate::fact::pcie::LinkKeys;
use crate::fact::{
    Bytes, Fact, Facts, Gap, Id, Membership, Origin, Subject, Why, gpu as gpu_fact, node,
};
use crate::source::{Errno, Question, Refusal};

/// The probe.
// A hypervisor may take a microsecond or a millisecond for each of the thousand words of a configuration space.
pub const PROBE: Probe = Probe::new("pcie", run).within(Duration::from_secs(5));

/// A function at the end of a path.
struct Endpoint {
    subject: Subject,
    name: Arc<str>,
}

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let cmdline = ask.text("/proc/cmdline");
    let mut groups = iommu::Groups::ask(ask, &cmdline);
    let iommu_parameters = cmdline.map(|text| iommu::parameters(&text));
    facts.set(node, node::IOMMU_PARAMETERS, iommu_parameters);
    let vendor = ask.parse("/sys/devices/system/cpu/modalias", iommu::cpu_vendor);
    facts.set(node, node::CPU_VENDOR, vendor);

    let (endpoints, mut open, origin) = endpoints(ask);
    let mut bridges = BTreeSet::new();
    for Endpoint { name, .. } in &endpoints {
        match place::path(ask, &inside(DEVICES, name)) {
            Fact::Known(path, _) => {
                // The host bridge is no function, and the last is the endpoint itself.
                let between = path.get(1..path.len() - 1).unwrap_or_default();
                bridges.extend(between.iter().map(Arc::clone));
            }
            Fact::Unknown(gap) => open = open.or(Some(gap)),
        }
    }
    for name in &bridges {
        let id = facts.instance(Subject::Bridge, node, name);
        let dir = inside(DEVICES, name);
        link_of(ask, facts, id, &dir, &bridge::LINK);
        let space = space(ask, facts, id, &dir, &bridge::LINK);
        bridge_of(facts, id, &space);
    }
    let members = Membership::known_unless(open, origin);
    facts.set_members(Subject::Bridge, node, members);
    let mut translations = Vec::new();
    for Endpoint { subject, name } in &endpoints {
        let id = facts.instance(*subject, node, name);
        let dir = inside(DEVICES, name);
        translations.push((Arc::clone(name), groups.mode_of_function(ask, &dir)));
        match subject {
            Subject::Gpu => {
                link_of(ask, facts, id, &dir, &gpu_fact::LINK);
                space(ask, facts, id, &dir, &gpu_fact::LINK);
            }
            _ => {
                link_of(ask, facts, id, &dir, &function::LINK);
                let space = space(ask, facts, id, &dir, &function::LINK);
                requests_of(facts, id, &space);
            }
        }
    }
    let kinds: Vec<Fact<Iommu>> = translations.iter().map(|(_, kind)| kind.clone()).collect();
    let iommu = groups.mode_of_node(ask, &kinds);
    facts.set(node, node::IOMMU, iommu);
    let translated = match translations
        .iter()
        .find_map(|(_, kind)| kind.as_result().err())
    {
        Some(gap) => Fact::Unknown(gap.clone()),
        None => {
            let names = translations.iter();
            let names = names.filter(|(_, kind)| kind.known() == Some(&Iommu::Translating));
            let names: Arc<[Arc<str>]> = names.map(|(name, _)| Arc::clone(name)).collect();
            Fact::derived(names, "the IOMMU group of each")
        }
    };
    facts.set(node, node::IOMMU_TRANSLATED, translated);
}

/// The GPUs and the functions that can do RDMA, as the probes of those know them; a gap if there may be more.
fn endpoints(ask: &Ask<'_>) -> (Vec<Endpoint>, Option<Gap>, Origin) {
    let (names, mut open, origin) = functions(ask);
    let mut found = Vec::new();
    for name in names.iter() {
        let dir = inside(DEVICES, name);
        let Some(class) = ask
            .parse(inside(&dir, "class"), super::whole_number)
            .or_open(&mut open)
        else {
            continue;
        };
        let (subject, meant) = if gpu::is_gpu_class(class) {
            let meant = gpu::maker(ask, &dir).map(|(_, meant)| meant);
            (Subject::Gpu, meant.as_result().copied().map_err(Gap::clone))
        } else if is_adapter_class(class) {
            let meant = Signs::ask(ask, &dir, class).can_rdma();
            (Subject::Function, meant)
        } else {
            continue;
        };
        match meant {
            Ok(true) => found.push(Endpoint {
                subject,
                name: Arc::clone(name),
            }),
            Ok(false) => {}
            Err(gap) => open = open.or(Some(gap)),
        }
    }
    (found, open, origin)
}

/// What sysfs reports about a function's link, and of its errors.
fn link_of(ask: &Ask<'_>, facts: &mut Facts, id: Id, dir: &str, keys: &LinkKeys) {
    for (key, file, parser) in [
        (
            keys.generation,
            "current_link_speed",
            link::generation as fn(&str) -> Result<u64, String>,
        ),
        (keys.width, "current_link_width", link::width),
        (keys.max_generation, "max_link_speed", link::generation),
        (keys.max_width, "max_link_width", link::width),
    ] {
        let mut fact = ask.parse(inside(dir, file), parser);
        // A function without a link of its own (conventional PCI) has these (pci_speed_string in drivers/pci/probe.c).
        let is_none = |what: &str| what.starts_with("\"Unknown") || what.starts_with("\"0\"");
        if let Fact::Unknown(gap) = &mut fact
            && matches!(&gap.why, Why::NotUnderstood(what) if is_none(what))
        {
            gap.why = Why::NotSaid("the kernel shows no link of this function".into());
        }
        facts.set(id, key, fact);
    }
    let correctable = ask.text_if_any(inside(dir, "aer_dev_correctable"));
    facts.set(id, keys.counts_errors, correctable.is_present());
    let none = Why::NotSaid("the function counts no errors".into());
    match correctable.or_gap(none) {
        Fact::Known(text, origin) => {
            let errors = Fact::Known(text, origin).and_then(|text| link::link_errors(&text));
            facts.set(id, keys.link_errors, errors);
            let nonfatal = ask.parse(inside(dir, "aer_dev_nonfatal"), link::nonfatal_errors);
            facts.set(id, keys.nonfatal_errors, nonfatal);
            let fatal = ask.parse(inside(dir, "aer_dev_fatal"), link::fatal_errors);
            facts.set(id, keys.fatal_errors, fatal);
        }
        Fact::Unknown(gap) => {
            for key in [keys.link_errors, keys.nonfatal_errors, keys.fatal_errors] {
                facts.set(id, key, Fact::Unknown(gap.clone()));
            }
        }
    }
}

/// A configuration space as far as it could be read.
struct Space {
    origin: Origin,
    config: Result<Config, Gap>,
    express: Fact<Express>,
}

impl Space {
    /// The bytes that a reader finds in it.
    fn read<T>(&self, reader: impl FnOnce(&Config) -> Result<T, Unreadable>) -> Fact<T> {
        match &self.config {
            Err(gap) => Fact::Unknown(gap.clone()),
            Ok(config) => match reader(config) {
                Ok(value) => Fact::Known(value, self.origin.clone()),
                Err(hidden) => Fact::Unknown(hidden_gap(hidden, &self.origin)),
            },
        }
    }
}

fn hidden_gap(hidden: Unreadable, origin: &Origin) -> Gap {
    let why = match hidden {
        // As if the kernel had refused the rest, and not only cut it off.
        Unreadable::NotRoot => Why::Refused(Refusal::Errno(Errno::EACCES)),
        Unreadable::OffBus => Why::NotSaid("all ones: the function does not answer".into()),
        Unreadable::NotExtended => {
            Why::NotSaid("no access to the extended configuration space".into())
        }
        Unreadable::Odd(how) => Why::NotSaid(how.into()),
    };
    Gap::new(why, origin.clone())
}

/// Reads a function's configuration space, and states what every function has.
fn space(ask: &Ask<'_>, facts: &mut Facts, id: Id, dir: &str, keys: &LinkKeys) -> Space {
    let bytes = ask.bytes(Question::read(inside(dir, "config")));
    space_of(facts, id, bytes, keys)
}

/// States what a configuration space says that lspci(8) printed; sysfs has the link's state from its registers.
pub(super) fn printed(facts: &mut Facts, id: Id, bytes: Fact<Arc<[u8]>>, keys: &LinkKeys) {
    let space = space_of(facts, id, bytes, keys);
    for (registers, generation, width) in [
        (0, keys.max_generation, keys.max_width),
        (1, keys.generation, keys.width),
    ] {
        let of = |shift: u16, mask: u16| {
            let field = space
                .express
                .clone()
                .map(|e| u64::from(e.link[registers] >> shift & mask));
            field.and_then(|n| match n {
                0 => Err("the link is down".to_owned()),
                n => Ok(n),
            })
        };
        facts.set(id, generation, of(0, 0xf));
        facts.set(id, width, of(4, 0x3f));
    }
    match facts.subject(id) {
        Subject::Bridge => bridge_of(facts, id, &space),
        Subject::Function => requests_of(facts, id, &space),
        _ => {}
    }
}

fn space_of(facts: &mut Facts, id: Id, bytes: Fact<Arc<[u8]>>, keys: &LinkKeys) -> Space {
    let (config, origin) = match bytes {
        Fact::Known(bytes, origin) => {
            let config = Config::new(&bytes).map_err(|hidden| hidden_gap(hidden, &origin));
            (config, origin)
        }
        Fact::Unknown(gap) => (Err(gap.clone()), gap.origin),
    };
    let mut space = Space {
        origin,
        config,
        express: Fact::Unknown(Gap::missing("configuration space")),
    };
    space.express = space.read(Config::express).and_then(|express| {
        express.ok_or_else(|| "a conventional PCI function, not a PCIe one".to_owned())
    });
    let payload = space.express.clone().map(|e| Bytes(e.max_payload));
    facts.set(id, keys.max_payload, payload);
    let supported = space
        .express
        .clone()
        .map(|e| Bytes(e.max_payload_supported));
    facts.set(id, keys.max_payload_supported, supported);
    space
}

fn bridge_of(facts: &mut Facts, id: Id, space: &Space) {
    let bridge_id = space.read(Config::id).map(Arc::from);
    facts.set(id, bridge::ID, bridge_id);
    let kind: Fact<PortType> = space
        .read(Config::express)
        .map(|express| express.map_or(PortType::Other, |express| config::port_type(express.kind)));
    facts.set(id, bridge::KIND, kind);
    let acs = space.read(Config::acs);
    let redirects = acs
        .clone()
        .map(|acs| acs.is_some_and(|acs| acs.redirects()));
    facts.set(id, bridge::ACS_REDIRECT, redirects);
    let words = acs.map(|acs| acs.map_or("none".into(), Acs::words));
    facts.set(id, bridge::ACS, words);
}

/// How an adapter sends its requests.
fn requests_of(facts: &mut Facts, id: Id, space: &Space) {
    let express = &space.express;
    let request = express.clone().map(|e| Bytes(e.max_read_request));
    facts.set(id, function::MAX_READ_REQUEST, request);
    let ordering = express.clone().map(|e| e.relaxed_ordering);
    facts.set(id, function::RELAXED_ORDERING, ordering);
    let tags = express
        .clone()
        .map(|e| match (e.extended_tags, e.extended_tags_supported) {
            (true, _) => Feature::On,
            (false, true) => Feature::Off,
            (false, false) => Feature::Absent,
        });
    facts.set(id, function::EXTENDED_TAGS, tags);
    facts.set(id, function::ASPM_L1, express.clone().map(|e| e.aspm_l1));
    let ats = space.read(Config::ats).map(|ats| match ats {
        Some(true) => Feature::On,
        Some(false) => Feature::Off,
        None => Feature::Absent,
    });
    facts.set(id, function::ATS, ats);
}
