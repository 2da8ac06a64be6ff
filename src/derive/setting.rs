//! What the settings beside NCCL's come to on this node: which interfaces and devices they name,
//! and what they take away.

mod meeting;
pub(super) mod names;
#[cfg(test)]
mod tests;
mod transports;

use super::Derivation;
use std::collections::HashMap;
use std::sync::Arc;

use crate::fact::kleene::Several;
use crate::fact::port::{LinkLayer, PortState};
use crate::fact::setting::{self, SettingRole};
use crate::fact::{Fact, Facts, Gap, Id, Subject, device, gid, node, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("setting", &["port.intended"], derive);

/// Works out what each setting comes to.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    facts.set(node, node::EFA_DEVICES, efa_devices(facts, node));
    let gloo = is_set(facts, node, "GLOO_SOCKET_IFNAME");
    facts.set(node, node::GLOO_INTERFACE_SET, gloo);
    let settings: Vec<Id> = facts.below(node, Subject::Setting).collect();
    for id in settings {
        let (Some(variable), Some(value), Some(role)) = (
            facts.known(id, setting::VARIABLE),
            facts.known(id, setting::VALUE),
            facts.known(id, setting::ROLE),
        ) else {
            continue;
        };
        match role {
            SettingRole::Interfaces | SettingRole::Devices => {
                names::derive(facts, node, id, &variable, &value);
            }
            SettingRole::RendezvousAddress => meeting::address(facts, node, id, &value),
            SettingRole::RendezvousPort => meeting::port(facts, node, id, &variable),
            SettingRole::GidIndex => empty_gids(facts, node, id, &value),
            _ => {}
        }
        let without = transports::without_rdma(facts, node, &variable, &value);
        facts.set(id, setting::WITHOUT_RDMA, without);
        mpi_lists(facts, node, id, &variable, &value);
    }
}

/// Whether a setting is there: known to be absent only where all are known.
fn is_set(facts: &Facts, node: Id, name: &str) -> Fact<bool> {
    if facts.find(Subject::Setting, node, name).is_some() {
        return Fact::derived(true, format!("{name} is set"));
    }
    let absent = facts.members(Subject::Setting, node).map(|_| false);
    Fact::of(absent, format!("{name} is not set"))
}

fn efa_devices(facts: &Facts, node: Id) -> Fact<u64> {
    let drivers = Several::of(facts, node, device::DRIVER);
    Fact::of(
        drivers.count(|(_, driver)| &**driver == "efa"),
        "the devices' drivers",
    )
}

/// The intended, active Ethernet ports that have no GID at an index. A negative index leaves the
/// choice to the library.
fn empty_gids(facts: &mut Facts, node: Id, id: Id, value: &str) {
    let Ok(index) = value.trim().parse::<u64>() else {
        let how = "the index is not a number: the library chooses";
        facts.derive(id, setting::EMPTY_GIDS, 0, how);
        return;
    };
    let mut empty: Vec<&str> = Vec::new();
    let mut gap: Option<Gap> = facts.incomplete(node, Subject::Port);
    for at in facts.below(node, Subject::Port) {
        let meant = (|| {
            Ok::<bool, Gap>(
                facts.value(at, port::INTENDED)?
                    && facts.value(at, port::LINK_LAYER)? == LinkLayer::Ethernet
                    && facts.value(at, port::STATE)? == PortState::Active,
            )
        })();
        match meant {
            Ok(true) => {}
            Ok(false) => continue,
            Err(missing) => {
                gap.get_or_insert(missing);
                continue;
            }
        }
        let mut gids = facts.below(at, Subject::Gid);
        if gids.any(|g| facts.known(g, gid::INDEX) == Some(index)) {
            continue;
        }
        match facts.members(Subject::Gid, at) {
            Ok(_) => empty.push(facts.name(at)),
            Err(missing) => {
                gap.get_or_insert(missing);
            }
        }
    }
    let how = format!("the GID tables at index {index}");
    let (count, ports) = (empty.len() as u64, Arc::from(empty.join(", ")));
    // One that is empty decides, whatever the others have.
    let count = Fact::derived(count, &how).unless(gap.filter(|_| count == 0));
    facts.set(id, setting::EMPTY_GIDS, count);
    facts.derive(id, setting::EMPTY_GID_PORTS, ports, how);
}

/// Open MPI's lists of interfaces: only one of the two may be set, and one of what to leave out
/// replaces the default, which has the loopback interface.
fn mpi_lists(facts: &mut Facts, node: Id, id: Id, name: &str, value: &str) {
    let other = match name.strip_suffix("_include") {
        Some(stem) => format!("{stem}_exclude"),
        None => match name.strip_suffix("_exclude") {
            Some(stem) => format!("{stem}_include"),
            None => return,
        },
    };
    facts.set(id, setting::WITH_COUNTERPART, is_set(facts, node, &other));
    if name.ends_with("_exclude") {
        let mut entries = value.split(',').map(str::trim);
        let has = entries.any(|e| e == "lo" || e.starts_with("127.") || e.starts_with("lo:"));
        facts.derive(id, setting::EXCLUDES_LOOPBACK, has, "the list's entries");
    }
}

/// The node's interfaces by name.
fn interfaces(facts: &Facts, node: Id) -> HashMap<Arc<str>, Id> {
    let all = facts.below(node, Subject::Interface);
    all.map(|id| (Arc::from(facts.name(id)), id)).collect()
}
