//! Whether somebody moves interrupts from CPU to CPU: where they stand now says little then.

use super::Derivation;
use crate::fact::{Fact, Facts, Gap, Id, Subject, node, service};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("interrupts", &[], derive);

/// States whether irqbalance runs.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let active = match facts.find(Subject::Service, node, "irqbalance") {
        Some(id) => match facts.get(id, service::ACTIVE) {
            Fact::Known(active, _) => Fact::derived(active, "service irqbalance"),
            unknown => unknown,
        },
        None => Fact::Unknown(Gap::missing("service irqbalance")),
    };
    facts.set(node, node::IRQ_BALANCED, active);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node, stated};
    use super::*;

    #[test]
    fn the_service_decides() {
        let balanced = |active: Option<bool>| {
            let mut facts = Facts::new();
            let n = node(&mut facts);
            if let Some(active) = active {
                let id = facts.instance(Subject::Service, n, "irqbalance");
                facts.set(id, service::ACTIVE, stated(active));
            }
            derive(&mut facts, n);
            facts.known(n, node::IRQ_BALANCED)
        };
        assert_eq!(balanced(Some(true)), Some(true));
        assert_eq!(balanced(Some(false)), Some(false));
        assert_eq!(balanced(None), None);
    }
}
