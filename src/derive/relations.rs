//! What belongs together though neither is inside the other: a PCI function and its RDMA device, a
//! module and what needs it, what NCCL chooses and the devices that it chooses from, what pairs of
//! nodes accuse and what it was seen over, a job that was measured and its ranks.

use super::Derivation;
use crate::fact::measurement::{self, MeasurementBackend};
use crate::fact::{Facts, Id, Subject, device, flow, function, module, suspect};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "relations",
    &["flow", "flow.interface", "module.wanted", "selection"],
    derive,
);

/// Relates the user's job that was measured with its ranks, which were looked at when a run did not end.
fn relate_job(facts: &mut Facts, node: Id) {
    for measurement in facts.below(node, Subject::Measurement).collect::<Vec<_>>() {
        if facts.known(measurement, measurement::MEANS) != Some(MeasurementBackend::Job) {
            continue;
        }
        for subject in [Subject::LiveJob, Subject::LiveRank] {
            for one in facts.all(subject).collect::<Vec<_>>() {
                facts.relate(one, measurement);
            }
        }
    }
}

/// Relates functions with their devices, wanted modules with the functions and devices of their
/// driver, NCCL's selection with all devices, and what pairs accuse with this node's ports and
/// interfaces over which it was seen, and with what its packet filter does there.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let devices: Vec<Id> = facts.below(node, Subject::Device).collect();
    let functions: Vec<Id> = facts.below(node, Subject::Function).collect();
    for &device in &devices {
        if let Some(pci) = facts.known(device, device::PCI)
            && let Some(function) = facts.find(Subject::Function, node, &pci)
        {
            facts.relate(device, function);
        }
    }
    for selection in facts.below(node, Subject::Selection).collect::<Vec<_>>() {
        for &device in &devices {
            facts.relate(selection, device);
        }
    }
    for module in facts.below(node, Subject::Module).collect::<Vec<_>>() {
        if facts.known(module, module::WANTED) != Some(true) {
            continue;
        }
        for &device in &devices {
            facts.relate(module, device);
        }
        for &function in &functions {
            if facts.known(function, function::RDMA_EXPECTED) == Some(true) {
                facts.relate(module, function);
            }
        }
    }
    relate_job(facts, node);
    for suspect in facts.below(node, Subject::Suspect).collect::<Vec<_>>() {
        let Some(own) = facts.known(suspect, suspect::OWN) else {
            continue;
        };
        let is_own = |name: &str| own.iter().any(|one| **one == *name);
        let mut seen_over: Vec<Id> = [Subject::Port, Subject::Netdev, Subject::Interface]
            .into_iter()
            .flat_map(|subject| facts.below(node, subject))
            .filter(|id| is_own(facts.name(*id)))
            .collect();
        let flows = facts.below(node, Subject::Flow);
        seen_over.extend(flows.filter(|id| {
            let interface = facts.known(*id, flow::INTERFACE);
            interface.is_some_and(|interface| is_own(&interface))
        }));
        for id in seen_over {
            facts.relate(suspect, id);
        }
    }
}
