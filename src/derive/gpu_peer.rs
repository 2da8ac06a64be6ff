//! Which two GPUs are to reach each other's memory, on which way, and what may keep them from it.

use super::Derivation;
use std::sync::Arc;

use super::gpu_ends::{Ends, ends};
use super::tally;
use crate::fact::bridge::BypassedPeers;
use crate::fact::gpu::{FabricState, GpuMode, GpuSegment};
use crate::fact::gpu_pair::{P2p, P2pExclusion, P2pPath};
use crate::fact::node::Iommu;
use crate::fact::{Fact, Facts, Gap, Id, Key, Subject, bridge, gpu, gpu_pair, node};

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
    let open = tally::incomplete(facts, node, Subject::GpuPair);
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
    match gpus {
        Ok(gpus) => all(&gpus.map(|id| facts.get(id, key))),
        Err(gap) => Fact::Unknown(gap.clone()),
    }
}

fn way(facts: &Facts, pair: Id, gpus: &Ends) -> Fact<P2pPath> {
    let direct = facts.get(pair, gpu_pair::NVLINKS);
    if let Fact::Known(links, origin) = &direct
        && *links > 0
    {
        return Fact::Known(P2pPath::Nvlink, origin.clone());
    }
    // A virtual machine can hide what is at the other end of a link; NVML still says that the two are joined.
    if let Fact::Known(P2p::Ok, origin) = facts.get(pair, gpu_pair::P2P_NVLINK) {
        return Fact::Known(P2pPath::Nvswitch, origin);
    }
    let mut open = direct.as_result().err().cloned();
    match gpus {
        Ok(gpus) => {
            let mut to_switch = true;
            for &id in gpus {
                match facts.get(id, gpu::NVLINKS_TO_SWITCH) {
                    Fact::Known(0, _) => to_switch = false,
                    Fact::Known(..) => {}
                    Fact::Unknown(gap) => {
                        // Without any NVLink that is up none leads to a switch.
                        if facts.known(id, gpu::NVLINKS_ACTIVE) == Some(0) {
                            to_switch = false;
                        } else {
                            open = open.or(Some(gap));
                        }
                    }
                }
            }
            if to_switch && open.is_none() {
                return Fact::derived(P2pPath::Nvswitch, "both have NVLinks to switches");
            }
            if !to_switch && direct.known().is_some() {
                open = None;
            }
        }
        Err(gap) => open = open.or(Some(gap.clone())),
    }
    match (open, facts.get(pair, gpu_pair::DISTANCE)) {
        (Some(gap), _) => Fact::Unknown(gap),
        (None, Fact::Known(distance, origin)) => {
            let way = if distance.is_near() {
                P2pPath::PcieSwitch
            } else {
                P2pPath::Host
            };
            Fact::Known(way, origin)
        }
        (None, Fact::Unknown(gap)) => Fact::Unknown(gap),
    }
}

/// The first of what speaks against it: known as soon as one does, "not" only where all is known.
fn barred(
    facts: &Facts,
    way: &Fact<P2pPath>,
    gpus: &Ends,
    statuses: &[Fact<P2p>; 4],
    machine: &Machine,
) -> Fact<P2pExclusion> {
    let gpus = match gpus {
        Ok(gpus) => *gpus,
        Err(gap) => return Fact::Unknown(gap.clone()),
    };
    let over_nvlink = way
        .clone()
        .map(|way| matches!(way, P2pPath::Nvlink | P2pPath::Nvswitch));
    let mut open = None;
    let mut found = None;
    let mut look = |fact: Fact<bool>, reason: P2pExclusion| match fact {
        Fact::Known(true, origin) => {
            found.get_or_insert((reason, origin));
        }
        Fact::Known(false, _) => {}
        Fact::Unknown(gap) => {
            open.get_or_insert(gap);
        }
    };
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
    match (found, open) {
        (Some((reason, origin)), _) => Fact::Known(reason, origin),
        (None, Some(gap)) => Fact::Unknown(gap),
        (None, None) => Fact::derived(P2pExclusion::Not, "nothing speaks against it"),
    }
}

/// `a and not b`, of which one that is known to be false, or true, can decide.
fn and_not(a: Fact<bool>, b: &Fact<bool>) -> Fact<bool> {
    match (a, b) {
        (Fact::Known(false, origin), _) => Fact::Known(false, origin),
        (_, Fact::Known(true, origin)) => Fact::Known(false, origin.clone()),
        (a, Fact::Known(false, _)) => a,
        (Fact::Unknown(gap), _) => Fact::Unknown(gap),
        (_, Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
    }
}

fn all(facts: &[Fact<bool>]) -> Fact<bool> {
    if let Some(no) = facts.iter().find(|fact| fact.known() == Some(&false)) {
        return no.clone();
    }
    match facts.iter().find(|fact| fact.known().is_none()) {
        Some(open) => open.clone(),
        None => Fact::derived(true, "each of them"),
    }
}

fn unlike(facts: &Facts, [a, b]: [Id; 2]) -> Fact<bool> {
    match (facts.get(a, gpu::MODEL), facts.get(b, gpu::MODEL)) {
        (Fact::Known(a, _), Fact::Known(b, _)) if a == b => Fact::derived(false, "of one model"),
        (Fact::Known(a, _), Fact::Known(b, _)) => Fact::derived(true, format!("{a} and {b}")),
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    }
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
        match facts.get(pair, gpu_pair::BARRED) {
            Fact::Known(P2pExclusion::Not, _) => meant.push(pair),
            Fact::Known(..) => {}
            Fact::Unknown(gap) => open = open.or(Some(gap)),
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
            match facts.get(pair, key) {
                Fact::Known(P2p::Ok, _) => {
                    let works = Fact::derived(true, facts.name(pair).to_owned());
                    return (count, works, obstacle);
                }
                Fact::Known(..) => {}
                Fact::Unknown(gap) => open = open.or(Some(gap)),
            }
        }
    }
    let works = Fact::derived(false, "no pair that is to").unless(open);
    (count, works, obstacle)
}

#[cfg(test)]
mod tests;
