//! Where GPUs and adapters are to each other: distances, each GPU's nearest adapter, and what of it
//! this process can reach.

mod distance;
mod near;
mod pairing;
mod pairs;
mod reach;
#[cfg(test)]
mod tests;

use super::Derivation;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::distance::PciLocation;
use self::near::Nearest;
use crate::fact::gpu_nic::Distance;
use crate::fact::kleene::Several;
use crate::fact::{Fact, Facts, Gap, Id, Subject, device, function, gpu, node};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "topology",
    &["device.intended", "selection", "selection.hcas"],
    derive,
);

/// Works out the pairs of a node, and what follows from them for GPUs, devices and the node.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    let nics = nics(facts, node);
    let distances = pairs::gpu_nics(facts, node, &gpus, &nics);
    pairs::gpu_pairs(facts, node, &gpus);
    counts(facts, node, &gpus, &nics, &distances);
    let nearest: Vec<Nearest> = distances
        .iter()
        .map(|to| Nearest::of(facts, node, &nics, to))
        .collect();
    near::state(facts, node, &gpus, &nics, &nearest);
    reach::selected(facts, node, &gpus, &nics, &nearest);
    reach::allowed(facts, node, &gpus, &nics);
    reach::misses(facts, node, &gpus, &nics);
}

/// An RDMA-capable function that is, or may be, an adapter for GPUs.
struct Nic {
    function: Id,
    devices: Vec<Id>,
    /// The first device's name, else the PCI address.
    name: Arc<str>,
    /// The card: functions and ports of one are one adapter.
    card: String,
    /// What makes it equal to others: vendor and device id.
    model: Fact<Arc<str>>,
    place: PciLocation,
    /// Whether one of its ports is meant for use.
    counts: Fact<bool>,
}

fn nics(facts: &Facts, node: Id) -> Vec<Nic> {
    let mut by_pci: HashMap<Arc<str>, Vec<Id>> = HashMap::new();
    let mut lost = facts.incomplete(node, Subject::Device);
    for device in facts.below(node, Subject::Device) {
        match facts.get(device, device::PCI) {
            Fact::Known(pci, _) => by_pci.entry(pci).or_default().push(device),
            Fact::Unknown(gap) => lost = Some(gap),
        }
    }
    let functions = facts.below(node, Subject::Function);
    functions
        .filter(|id| {
            facts.known(*id, function::RDMA) != Some(false)
                && facts.known(*id, function::PASSED_THROUGH) != Some(true)
        })
        .map(|function| {
            let pci = facts.name(function);
            let devices = by_pci.get(pci).cloned().unwrap_or_default();
            let name = devices.first().map_or(pci, |device| facts.name(*device));
            let place = PciLocation {
                path: facts.get(function, function::PATH),
                numa_node: facts.get(function, function::NUMA_NODE),
            };
            Nic {
                function,
                name: name.into(),
                card: card(
                    pci,
                    &place,
                    facts.known(function, function::VIRTUAL_FUNCTION),
                ),
                model: facts.get(function, function::ID),
                place,
                counts: counts_for_gpus(facts, function, &devices, lost.as_ref()),
                devices,
            }
        })
        .collect()
}

/// The card that a function is on: the port above it, since a PCIe link leads to one card. On a
/// root bus, and on a conventional PCI bus, the device number tells cards apart; a virtual function
/// has another one than its card.
fn card(pci: &str, place: &PciLocation, is_virtual: Option<bool>) -> String {
    let slot = pci.split('.').next().unwrap_or(pci);
    let above = place.path.known().and_then(|path| match path.len() {
        0..=2 => None,
        length => path.get(length - 2),
    });
    let device = slot.rsplit(':').next().unwrap_or("");
    match above {
        Some(port) if is_virtual == Some(true) || device == "00" => port.to_string(),
        Some(port) => format!("{port} {device}"),
        None => slot.to_owned(),
    }
}

/// Whether the function has a port that is meant for use.
fn counts_for_gpus(facts: &Facts, function: Id, devices: &[Id], lost: Option<&Gap>) -> Fact<bool> {
    if let Fact::Unknown(gap) = facts.get(function, function::RDMA) {
        return Fact::Unknown(gap);
    }
    let none = devices.is_empty().then(|| Gap::missing("device.pci"));
    let intended = devices.iter().map(|id| facts.get(*id, device::INTENDED));
    let intended: Several<bool> = intended.collect();
    let any = intended.or_others(lost.cloned().or(none)).any(|is| *is);
    Fact::of(any, "whether a port of it is intended for use")
}

/// How many adapters and NUMA nodes there are for GPUs, and the shortest distance of all.
fn counts(
    facts: &mut Facts,
    node: Id,
    gpus: &[Id],
    nics: &[Nic],
    distances: &[Vec<Fact<Distance>>],
) {
    let functions = facts.incomplete(node, Subject::Function);
    let all_gpus = facts.incomplete(node, Subject::Gpu);
    let mut open = functions.clone();
    let counting = |nic: &&Nic| nic.counts.clone().or_open(&mut open) == Some(true);
    let cards: BTreeSet<&str> = nics.iter().filter(counting).map(|nic| &*nic.card).collect();
    let count = Fact::derived(cards.len() as u64, "cards with an intended RDMA port").unless(open);
    facts.set(node, node::COMPUTE_NICS, count);

    let mut open = all_gpus.clone();
    let numa_node = |gpu: &Id| facts.get(*gpu, gpu::NUMA_NODE).or_open(&mut open);
    let numa: BTreeSet<u64> = gpus.iter().filter_map(numa_node).collect();
    let count = Fact::derived(numa.len() as u64, "gpu.numa_node of each gpu").unless(open);
    facts.set(node, node::GPU_NUMA_NODES, count);

    let pairs = distances.iter().flat_map(|row| nics.iter().zip(row));
    let pairs = pairs.map(|(nic, distance)| (&nic.counts, distance));
    let nearest = near::shortest(pairs, functions.or(all_gpus));
    facts.set(node, node::NEAREST_PAIR, nearest);

    let drivers = Several::of(facts, node, device::DRIVER);
    let efa = drivers.any(|(_, driver)| &**driver == "efa");
    facts.set(
        node,
        node::EFA,
        Fact::of(efa, "device.driver of each device"),
    );
}
