//! What belongs together though neither is inside the other: a PCI function and its RDMA device, a module and what needs it, what
//! NCCL chooses and the devices that it chooses from.

use crate::fact::{Facts, Id, Subject, device, function, module};

/// Relates functions with their devices, wanted modules with the functions and devices of their driver, and NCCL's selection with all devices.
pub fn derive(facts: &mut Facts, node: Id) {
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
}
