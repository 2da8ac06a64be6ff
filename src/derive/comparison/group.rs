//! Which nodes are alike: of one role, and of one kind of hardware.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Realm, TextOrReason};
use crate::fact::{Facts, Gap, Id, Subject, device, gpu, node};

/// Parts of host names that say that a node computes nothing. They keep nodes from being compared,
/// and never accuse one.
const OTHER_ROLES: [&str; 22] = [
    "login", "head", "admin", "mgmt", "mgt", "master", "control", "bastion", "gateway", "gw",
    "storage", "nas", "nfs", "oss", "mds", "ost", "mgs", "monitor", "service", "proxy", "visu",
    "dtn",
];

/// The role and the kind of hardware of a node, in words.
///
/// Nodes with GPUs are alike where they have the same GPUs; others where adapters, NUMA nodes and
/// memory are the same, the memory within some 20 %: of a machine's use nothing else can be seen.
pub(super) fn kind(facts: &Facts, node: Id, realm: &Realm) -> TextOrReason {
    let role = match realm {
        Realm::Shared(mark) if &**mark == "none" => role(facts.name(node)),
        _ => None,
    };
    let hardware = hardware(facts, node).map_err(|gap| Arc::from(gap.to_string()))?;
    Ok(match role {
        Some(role) => format!("{role} {hardware}").into(),
        None => hardware.into(),
    })
}

fn role(name: &str) -> Option<&'static str> {
    let short = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let words: Vec<&str> = short.split(|c: char| !c.is_ascii_alphabetic()).collect();
    OTHER_ROLES
        .into_iter()
        .find(|role| words.contains(role) || (role.len() > 3 && short.starts_with(role)))
}

fn hardware(facts: &Facts, node: Id) -> Result<String, Gap> {
    facts.members(Subject::Gpu, node)?;
    if let Some(id) = gpu_id(facts, node)? {
        return Ok(format!("nodes with GPUs {id}"));
    }
    facts.members(Subject::Device, node)?;
    let mut boards: BTreeMap<String, u64> = BTreeMap::new();
    for id in facts.below(node, Subject::Device) {
        if facts.get(id, device::VIRTUAL_FUNCTION).as_result().ok() == Some(&true) {
            continue;
        }
        let kind = crate::derive::group::kind(facts, id)?;
        let name = [kind.board, kind.model, kind.driver]
            .into_iter()
            .find(|name| !name.is_empty());
        *boards.entry(name.unwrap_or_default()).or_default() += 1;
    }
    if boards.is_empty() {
        return Ok("nodes without GPUs and RDMA devices".into());
    }
    let value = |fact: crate::fact::Fact<u64>| fact.as_result().copied().map_err(Clone::clone);
    let numa = value(facts.get(node, node::NUMA_NODES))?;
    let memory = value(facts.get(node, node::MEMORY).map(|bytes| bytes.0))?;
    let boards: Vec<String> = boards
        .into_iter()
        .map(|(name, n)| format!("{n} {name}"))
        .collect();
    Ok(format!(
        "nodes without GPUs, with {}, {numa} NUMA nodes and some {} of memory",
        boards.join(", "),
        rough(memory)
    ))
}

/// The id that most GPUs have; the first of those that are as frequent.
pub(super) fn gpu_id(facts: &Facts, node: Id) -> Result<Option<Arc<str>>, Gap> {
    let mut ids: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for gpu in facts.below(node, Subject::Gpu) {
        let id = facts.get(gpu, gpu::ID);
        *ids.entry(Arc::clone(id.as_result().map_err(Clone::clone)?))
            .or_default() += 1;
    }
    let most = ids.values().copied().max();
    Ok(ids
        .into_iter()
        .find(|(_, n)| Some(*n) == most)
        .map(|(id, _)| id))
}

/// Half a power of two: what the firmware keeps for itself makes no other kind of machine.
fn rough(bytes: u64) -> String {
    let steps = ((bytes.max(1) as f64).log2() * 2.0).round();
    let size = (steps / 2.0).exp2() / f64::from(1 << 30);
    if size < 1.0 {
        format!("{:.0} MiB", size * 1024.0)
    } else {
        format!("{size:.0} GiB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_what_a_node_is_for() {
        for (name, expected) in [
            ("login1", Some("login")),
            ("cluster-login-02.dc", Some("login")),
            ("gpu-node-17", None),
            ("n01", None),
            ("mds1", Some("mds")),
            ("admiral", None),
            ("posses3", None),
            ("node3.mgmt.example", None),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }

    #[test]
    fn memory_is_alike_within_a_fifth() {
        assert_eq!(rough(251 << 30), rough(256 << 30));
        assert_eq!(rough(503 << 30), "512 GiB");
        assert_ne!(rough(128 << 30), rough(256 << 30));
        assert_eq!(rough(970 << 20), "1 GiB");
    }
}
