//! Which two GPUs are to reach each other's memory, on which way, and what may keep them from it.

use super::Derivation;
use std::sync::Arc;

use super::gpu_ends::{Ends, ends};
use crate::fact::bridge::BypassedPeers;
use crate::fact::gpu::{FabricState, GpuMode, GpuSegment};
use crate::fact::gpu_pair::{P2p, P2pExclusion, P2pPath};
use crate::fact::kleene::Several;
use crate::fact::node::Iommu;
use crate::fact::{Fact, Facts, Gap, Id, Key, Subject, bridge, gpu, gpu_pair, known, node};

/// What NVML says of a pair, in each direction.
const STATUSES: [Key<P2p>; 4] = [
    gpu_pair::P2P_READ,
    gpu_pair::P2P_READ_BACK,
    gpu_pair::P2P_WRITE,
    gpu_pair::P2P_WRITE_BACK,
];

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "gpu_peer",
    &[
        "bridge.between",
        "gpu.purpose",
        "gpu_pair",
        "gpu_pair.distance",
        "gpu_pair.first",
        "gpu_pair.second",
    ],
    derive,
);

/// Works out the ways of all pairs, and whether one of them is open.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let pairs: Vec<Id> = facts.below(node, Subject::GpuPair).collect();
    let machine = Machine::of(facts, node);
    for &pair in &pairs {
        let gpus = ends(facts, node, pair);
        let in_nvml = both_are(facts, &gpus, gpu::IN_NVML);
        facts.set(pair, gpu_pair::IN_NVML, in_nvml);
        let in_cuda = both_are(facts, &gpus, gpu::IN_CUDA);
        facts.set(pair, gpu_pair::IN_CUDA, in_cuda);
        let way = way(facts, pair, &gpus);
        let statuses = STATUSES.map(|key| facts.get(pair, key));
        let barred = barred(facts, &way, &gpus, &statuses, &machine);
        let obstacle = obstacle(facts, &way, &gpus, &statuses, &machine);
        facts.set(pair, gpu_pair::WAY, way);
        facts.set(pair, gpu_pair::BARRED, barred);
        facts.set(pair, gpu_pair::OBSTACLE, obstacle);
    }
    let open = facts.incomplete(node, Subject::GpuPair);
    let (count, works, obstacle) = together(facts, &pairs, open);
    facts.set(node, node::PEER_PAIRS, count);
    facts.set(node, node::PEER_PAIR_WORKS, works);
    facts.set(node, node::PEER_OBSTACLE, obstacle);
}

/// What of the machine bears on all pairs.
struct Machine {
    confidential: Fact<bool>,
    registry: Option<Arc<str>>,
    translates: bool,
    is_virtual: bool,
    /// The bridges whose access control turns the traffic of GPUs away.
    redirecting: Vec<Id>,
}

impl Machine {
    fn of(facts: &Facts, node: Id) -> Self {
        let redirects = |id: &Id| {
            facts.known(*id, bridge::ACS_REDIRECT) == Some(true)
                && matches!(
                    facts.known(*id, bridge::BETWEEN),
                    Some(BypassedPeers::GpuGpu | BypassedPeers::GpuNic)
                )
        };
        Machine {
            confidential: facts.get(node, node::CONFIDENTIAL),
            registry: facts.known(node, node::DRIVER_REGISTRY),
            translates: matches!(
                facts.known(node, node::IOMMU),
                Some(Iommu::Translating | Iommu::Mixed)
            ),
            is_virtual: facts.known(node, node::VIRTUAL) == Some(true),
            redirecting: facts
                .below(node, Subject::Bridge)
                .filter(redirects)
                .collect(),
        }
    }
}

/// Whether a fact holds of both.
fn both_are(facts: &Facts, gpus: &Ends, key: Key<bool>) -> Fact<bool> {
    all(&known!(ok gpus).map(|id| facts.get(id, key)))
}

fn way(facts: &Facts, pair: Id, gpus: &Ends) -> Fact<P2pPath> {
    let direct = facts.get(pair, gpu_pair::NVLINKS);
    if let Fact::Known(links, origin) = &direct
        && *links > 0
    {
        return Fact::Known(P2pPath::Nvlink, origin.clone());
    }
    // A virtual machine can hide what is at the other end of a link; NVML still says that the two
    // are joined.
    if let Fact::Known(P2p::Ok, origin) = facts.get(pair, gpu_pair::P2P_NVLINK) {
        return Fact::Known(P2pPath::Nvswitch, origin);
    }
    let mut open = direct.as_result().err().cloned();
    let to_switch = match gpus {
        Ok(gpus) => all(&gpus.map(|id| leads_to_switch(facts, id))),
        Err(gap) => Fact::Unknown(gap.clone()),
    };
    match to_switch.or_open(&mut open) {
        Some(true) if open.is_none() => {
            return Fact::derived(P2pPath::Nvswitch, "both have NVLinks to switches");
        }
        _ => {}
    }
    let distance = facts.get(pair, gpu_pair::DISTANCE);
    let way = distance.map(|distance| {
        if distance.is_near() {
            P2pPath::PcieSwitch
        } else {
            P2pPath::Host
        }
    });
    way.unless(open)
}

/// Whether a GPU has an NVLink to a switch. Without any NVLink that is up none leads to one.
fn leads_to_switch(facts: &Facts, id: Id) -> Fact<bool> {
    let links = facts.get(id, gpu::NVLINKS_TO_SWITCH);
    let active = || facts.get(id, gpu::NVLINKS_ACTIVE);
    let none_active = || match active() {
        Fact::Known(0, origin) => Fact::Known(0, origin),
        other => other.flat_map(|_| Fact::Unknown(Gap::missing("gpu.nvlinks_to_switch"))),
    };
    links.or_else(none_active).map(|links| links > 0)
}

/// The first of what speaks against it: known as soon as one does, "not" only where all is known.
fn barred(
    facts: &Facts,
    way: &Fact<P2pPath>,
    gpus: &Ends,
    statuses: &[Fact<P2p>; 4],
    machine: &Machine,
) -> Fact<P2pExclusion> {
    let gpus = *known!(ok gpus);
    let over_nvlink = way
        .clone()
        .map(|way| matches!(way, P2pPath::Nvlink | P2pPath::Nvswitch));
    let mut reasons: Vec<Fact<(bool, P2pExclusion)>> = Vec::new();
    let mut look = |fact: Fact<bool>, reason| reasons.push(fact.map(|is| (is, reason)));
    for id in gpus {
        look(
            facts.get(id, gpu::MIG).map(|mode| mode == GpuMode::On),
            P2pExclusion::Mig,
        );
    }
    look(machine.confidential.clone(), P2pExclusion::Confidential);
    for id in gpus {
        look(
            facts.get(id, gpu::VIRTUAL_FUNCTION),
            P2pExclusion::VirtualFunction,
        );
        look(
            and_not(
                facts
                    .get(id, gpu::PURPOSE)
                    .map(|p| p == GpuSegment::Consumer),
                &over_nvlink,
            ),
            P2pExclusion::Consumer,
        );
    }
    look(unlike(facts, gpus), P2pExclusion::Unlike);
    let never = statuses
        .clone()
        .map(|fact| fact.map(|status| matches!(status, P2p::GpuNotSupported | P2p::NotSupported)));
    look(
        and_not(all(&never), &over_nvlink),
        P2pExclusion::Unsupported,
    );
    let reasons: Several<(bool, P2pExclusion)> = reasons.into_iter().collect();
    let found = reasons.find(|(is, _)| *is);
    let reason = found.map(|found| found.map_or(P2pExclusion::Not, |(_, reason)| *reason));
    Fact::of(reason, "what speaks against it")
}

/// `a and not b`, of which one that is known to be false, or true, can decide.
fn and_not(a: Fact<bool>, b: &Fact<bool>) -> Fact<bool> {
    all(&[a, b.clone().map(|b| !b)])
}

fn all(facts: &[Fact<bool>]) -> Fact<bool> {
    let each: Several<bool> = facts.iter().cloned().collect();
    Fact::of(each.all(|is| *is), "each of them")
}

fn unlike(facts: &Facts, ids: [Id; 2]) -> Fact<bool> {
    let [a, b] = ids.map(|id| facts.get(id, gpu::MODEL));
    a.zip(b).flat_map(|(a, b)| {
        if a == b {
            Fact::derived(false, "of one model")
        } else {
            Fact::derived(true, format!("{a} and {b}"))
        }
    })
}

/// What NVML says, and what of the machine is known to keep two GPUs apart on their way.
fn obstacle(
    facts: &Facts,
    way: &Fact<P2pPath>,
    gpus: &Ends,
    statuses: &[Fact<P2p>; 4],
    machine: &Machine,
) -> Fact<Arc<str>> {
    let mut said: Vec<&'static str> = Vec::new();
    for status in statuses {
        match status {
            Fact::Known(P2p::Ok, _) => {}
            Fact::Known(status, _) if said.contains(&status.word()) => {}
            Fact::Known(status, _) => said.push(status.word()),
            Fact::Unknown(gap) => return Fact::Unknown(gap.clone()),
        }
    }
    let mut parts = Vec::new();
    if !said.is_empty() {
        parts.push(format!("NVML says {}", said.join(", ")));
    }
    match &machine.registry {
        Some(keys) if &**keys != "none" => parts.push(format!("the driver was told {keys}")),
        _ => {}
    }
    let over_pcie = matches!(way.known(), Some(P2pPath::PcieSwitch | P2pPath::Host));
    match gpus {
        Ok(gpus) if over_pcie => {
            if let Some(bridge) = redirecting(facts, gpus, &machine.redirecting) {
                parts.push(format!("ACS of {bridge} sends it up to the root complex"));
            }
            if machine.translates {
                parts.push("the IOMMU translates".to_owned());
            }
            if machine.is_virtual {
                parts.push("a hypervisor is between them".to_owned());
            }
        }
        Ok(gpus) => {
            for &id in gpus {
                match facts.known(id, gpu::FABRIC_STATE) {
                    None | Some(FabricState::Unsupported | FabricState::Completed) => {}
                    Some(state) => {
                        let (name, state) = (facts.name(id), state.word());
                        parts.push(format!("the fabric of {name} is {state}"));
                    }
                }
            }
        }
        Err(_) => {}
    }
    let text: Arc<str> = if parts.is_empty() {
        "none".into()
    } else {
        parts.join("; ").into()
    };
    Fact::derived(text, "what is known of the two")
}

/// A bridge above one of the two, of those whose access control turns their traffic away.
fn redirecting<'f>(facts: &'f Facts, gpus: &[Id; 2], bridges: &[Id]) -> Option<&'f str> {
    if bridges.is_empty() {
        return None;
    }
    let paths: Vec<Arc<[Arc<str>]>> = gpus
        .iter()
        .filter_map(|id| facts.known(*id, gpu::PATH))
        .collect();
    let mut names = bridges.iter().map(|id| facts.name(*id));
    names.find(|name| {
        paths
            .iter()
            .any(|path| path.iter().any(|above| **above == **name))
    })
}

/// How many pairs are to reach each other, whether one does, and what may keep the first from it.
fn together(
    facts: &Facts,
    pairs: &[Id],
    mut open: Option<Gap>,
) -> (Fact<u64>, Fact<bool>, Fact<Arc<str>>) {
    let mut meant = Vec::new();
    for &pair in pairs {
        let barred = facts.get(pair, gpu_pair::BARRED).or_open(&mut open);
        if barred == Some(P2pExclusion::Not) {
            meant.push(pair);
        }
    }
    let count =
        Fact::derived(meant.len() as u64, "gpu_pair.barred of each pair").unless(open.clone());
    let obstacle = match meant.first() {
        Some(pair) => facts.get(*pair, gpu_pair::OBSTACLE),
        None => Fact::Unknown(Gap::missing("a pair that is to reach each other's memory")),
    };
    for pair in meant {
        for key in STATUSES {
            if facts.get(pair, key).or_open(&mut open) == Some(P2p::Ok) {
                let works = Fact::derived(true, facts.name(pair).to_owned());
                return (count, works, obstacle);
            }
        }
    }
    let works = Fact::derived(false, "no pair that is to").unless(open);
    (count, works, obstacle)
}

#[cfg(test)]
mod tests;
