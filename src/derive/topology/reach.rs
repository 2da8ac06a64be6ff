//! What of the topology this process and its NCCL make use of: the adapters that are chosen, CPUs
//! and memory near them, the topology file.

use std::sync::Arc;

use super::Nic;
use super::near::Nearest;
use crate::fact::node::TopoFile;
use crate::fact::{Fact, Facts, Gap, Id, Subject, device, function, gpu, node, port, selection};

type Texts = Arc<[Arc<str>]>;

/// Whether NCCL's own choice has one of each GPU's nearest adapters in it.
pub(super) fn selected(
    facts: &mut Facts,
    node: Id,
    gpus: &[Id],
    nics: &[Nic],
    nearest: &[Nearest],
) {
    let hcas = match facts.find(Subject::Selection, node, "NCCL") {
        Some(id) => facts.get(id, selection::HCAS),
        None => Fact::Unknown(match facts.members(Subject::Selection, node) {
            Ok(_) => Gap::missing("selection.hcas"),
            Err(gap) => gap,
        }),
    };
    for (gpu, near) in gpus.iter().zip(nearest) {
        let fact = match (&hcas, &near.nics) {
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
            (Fact::Known(hcas, _), _) if hcas.is_empty() => {
                Fact::Unknown(Gap::missing("a port that NCCL will use"))
            }
            (Fact::Known(hcas, _), Fact::Known(near, _)) => near_selected(facts, nics, near, hcas),
        };
        facts.set(*gpu, gpu::NEAR_NIC_SELECTED, fact);
    }
}

fn near_selected(facts: &Facts, nics: &[Nic], near: &[usize], hcas: &[Arc<str>]) -> Fact<bool> {
    let is_chosen = |name: &str| {
        hcas.iter()
            .any(|hca| hca.split(':').next().is_some_and(|device| device == name))
    };
    let mut active = Err(Gap::missing("an active port of a nearest adapter"));
    for device in near.iter().flat_map(|at| &nics[*at].devices) {
        if is_chosen(facts.name(*device)) {
            return Fact::derived(true, format!("NCCL will use {}", facts.name(*device)));
        }
        for port in facts.below(*device, Subject::Port) {
            match facts.get(port, port::STATE) {
                Fact::Known(state, _) if state.is_active() => active = Ok(()),
                Fact::Known(..) => {}
                Fact::Unknown(gap) => active = active.or(Err(gap)),
            }
        }
    }
    // A port that is down is left out for that, which other checks say.
    let how = format!("NCCL will use {}", hcas.join(", "));
    Fact::of(active.map(|()| false), how)
}

/// Whether this process may run where GPUs and adapters are, and use the memory there.
pub(super) fn allowed(facts: &mut Facts, node: Id, gpus: &[Id], nics: &[Nic]) {
    let cpus = facts.get(node, node::CPU_NODES_FORBIDDEN);
    for gpu in gpus {
        let fact = cpus_allowed(&cpus, facts.get(*gpu, gpu::NUMA_NODE));
        facts.set(*gpu, gpu::CPUS_ALLOWED, fact);
    }
    for device in facts.below(node, Subject::Device).collect::<Vec<_>>() {
        let fact = cpus_allowed(&cpus, facts.get(device, device::NUMA_NODE));
        facts.set(device, device::CPUS_ALLOWED, fact);
    }
    let mut places: Vec<Fact<u64>> = gpus
        .iter()
        .map(|gpu| facts.get(*gpu, gpu::NUMA_NODE))
        .collect();
    let counting = nics.iter().filter(|nic| nic.counts.known() == Some(&true));
    places.extend(counting.map(|nic| facts.get(nic.function, function::NUMA_NODE)));
    let left_out = match facts.get(node, node::MEMORY_NODES_FORBIDDEN) {
        Fact::Known(forbidden, origin) => {
            let is_used = |name: &&Arc<str>| {
                let at =
                    |place: &Fact<u64>| place.known().is_some_and(|n| n.to_string() == ***name);
                places.iter().any(at)
            };
            let used: Vec<Arc<str>> = forbidden.iter().filter(is_used).cloned().collect();
            let open = places.iter().find_map(|place| place.as_result().err());
            match open {
                // An empty list is all: what is not known cannot be on it.
                Some(gap) if used.is_empty() && !forbidden.is_empty() => Fact::Unknown(gap.clone()),
                _ => Fact::Known(list(&used), origin),
            }
        }
        Fact::Unknown(gap) => Fact::Unknown(gap),
    };
    facts.set(node, node::MEMORY_LEFT_OUT, left_out);
}

fn cpus_allowed(forbidden: &Fact<Texts>, numa_node: Fact<u64>) -> Fact<bool> {
    let all = forbidden.clone().map(|forbidden| forbidden.is_empty());
    match all {
        Fact::Known(true, _) => all,
        _ => forbidden
            .clone()
            .zip(numa_node)
            .map(|(forbidden, numa_node)| {
                let numa_node = numa_node.to_string();
                !forbidden.iter().any(|name| **name == *numa_node)
            }),
    }
}

/// Which GPUs and adapters NCCL's topology file does not name.
pub(super) fn misses(facts: &mut Facts, node: Id, gpus: &[Id], nics: &[Nic]) {
    let fact = match (
        facts.get(node, node::TOPO_FILE_STATE),
        facts.get(node, node::TOPO_FILE_NAMES),
    ) {
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
        (Fact::Known(TopoFile::Read, _), Fact::Known(names, origin)) => {
            let has = |name: &str| names.iter().any(|n| **n == *name.to_ascii_lowercase());
            let mut missing: Vec<Arc<str>> = Vec::new();
            let physical = |gpu: &&Id| facts.known(**gpu, gpu::VIRTUAL_FUNCTION) != Some(true);
            for gpu in gpus.iter().filter(physical) {
                if !has(facts.name(*gpu)) {
                    missing.push(format!("GPU {}", facts.name(*gpu)).into());
                }
            }
            let mut open = facts
                .incomplete(node, Subject::Gpu)
                .or_else(|| facts.incomplete(node, Subject::Function));
            for nic in nics {
                let device = |id: &Id| has(facts.name(*id));
                if has(facts.name(nic.function)) || nic.devices.iter().any(device) {
                    continue;
                }
                match &nic.counts {
                    Fact::Known(true, _) => missing.push(Arc::clone(&nic.name)),
                    Fact::Known(false, _) => {}
                    Fact::Unknown(gap) => open = Some(gap.clone()),
                }
            }
            match open {
                Some(gap) if missing.is_empty() => Fact::Unknown(gap),
                _ => Fact::Known(list(&missing), origin),
            }
        }
        (Fact::Known(..), Fact::Known(..)) => {
            Fact::Unknown(Gap::missing("a topology file that NCCL reads"))
        }
    };
    facts.set(node, node::TOPO_FILE_MISSES, fact);
}

/// Several things as one text.
fn list(all: &[Arc<str>]) -> Arc<str> {
    match all {
        [] => "none".into(),
        all => all.join(", ").into(),
    }
}
