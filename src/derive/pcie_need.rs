//! What the ports of an adapter need of its PCIe path.

use super::Derivation;
use crate::fact::{BitRate, Fact, Facts, Id, Subject, device, function, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("pcie_need", &["port.intended"], derive);

/// Works out the rate of each function's fastest port in use.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let functions: Vec<Id> = facts.below(node, Subject::Function).collect();
    for function in functions {
        let rate = fastest(facts, node, function);
        facts.set(function, function::PORT_RATE, rate);
    }
}

fn fastest(facts: &Facts, node: Id, function: Id) -> Fact<BitRate> {
    let name = facts.name(function);
    let mut open = facts.members(Subject::Device, node).err();
    let mut rate = BitRate(0);
    for device in facts.below(node, Subject::Device) {
        match facts.get(device, device::PCI) {
            Fact::Known(pci, _) if *pci == *name => {}
            Fact::Known(..) => continue,
            Fact::Unknown(gap) => {
                open = open.or(Some(gap));
                continue;
            }
        }
        open = open.or(facts.members(Subject::Port, device).err());
        for port in facts.below(device, Subject::Port) {
            let intended = facts.get(port, port::INTENDED);
            match intended.zip(facts.get(port, port::STATE)) {
                Fact::Known((true, state), _) if state.is_active() => {
                    if let Some(own) = facts.get(port, port::RATE).or_open(&mut open) {
                        rate = rate.max(own);
                    }
                }
                Fact::Known(..) => {}
                Fact::Unknown(gap) => open = open.or(Some(gap)),
            }
        }
    }
    Fact::derived(rate, "the fastest intended, active port").unless(open)
}
