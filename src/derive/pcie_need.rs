//! What the ports of an adapter need of its PCIe path.

use super::Derivation;
use crate::fact::port::PortState;
use crate::fact::{BitRate, Fact, Facts, Id, Subject, Typed, device, function, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation {
    name: "pcie_need",
    inputs: &["port.intended"],
    run: derive,
};

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
            let used = both(
                facts.get(port, port::INTENDED),
                facts.get(port, port::STATE),
            );
            match used {
                Fact::Known((true, PortState::Active | PortState::ActiveDefer), _) => {
                    match facts.get(port, port::RATE) {
                        Fact::Known(own, _) => rate = rate.max(own),
                        Fact::Unknown(gap) => open = open.or(Some(gap)),
                    }
                }
                Fact::Known(..) => {}
                Fact::Unknown(gap) => open = open.or(Some(gap)),
            }
        }
    }
    match open {
        Some(gap) => Fact::Unknown(gap),
        None => Fact::derived(rate, "the fastest intended, active port"),
    }
}

/// Two facts as one.
fn both<A: Typed, B: Typed>(a: Fact<A>, b: Fact<B>) -> Fact<(A, B)> {
    match (a, b) {
        (Fact::Known(a, origin), Fact::Known(b, _)) => Fact::Known((a, b), origin),
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    }
}
