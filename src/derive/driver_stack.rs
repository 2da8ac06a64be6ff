//! Whose RDMA modules run, and whether they are those that are installed.

use super::Derivation;
use crate::fact::node::RdmaStack;
use crate::fact::{Fact, Facts, Gap, Id, Subject, known, module, node};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("driver_stack", &[], derive);

/// Works out the stack, and compares it with the package.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    // Whatever of NVIDIA's stack is loaded loads its compatibility module first.
    let stack = match facts.find(Subject::Module, node, "mlx_compat") {
        Some(id) => facts.get(id, module::PRESENT).map(|there| {
            if there {
                RdmaStack::Ofed
            } else {
                RdmaStack::Inbox
            }
        }),
        None => Fact::Unknown(Gap::missing("module mlx_compat")),
    };
    facts.set(node, node::RDMA_STACK, stack);
    facts.set(node, node::OFED_RUNS, runs(facts, node));
}

/// `24.10-3.2.5` of the module is `24.10-3.2.5.0` of the package.
fn runs(facts: &Facts, node: Id) -> Fact<bool> {
    let installed = known!(facts.get(node, node::OFED));
    let running = match facts.find(Subject::Module, node, "mlx5_core") {
        Some(id) => facts.get(id, module::VERSION),
        None => Fact::Unknown(Gap::missing("module mlx5_core")),
    };
    match (facts.get(node, node::RDMA_STACK), running) {
        (Fact::Known(RdmaStack::Inbox, _), _) => {
            Fact::derived(false, "the module mlx_compat is not loaded")
        }
        (Fact::Known(RdmaStack::Ofed, _), Fact::Known(running, origin)) => {
            let rest = installed.strip_prefix(&*running);
            let same = rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
            Fact::Known(same, origin)
        }
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_package_has_one_number_more_than_the_module() {
        for (compat, running, installed, expected) in [
            (true, "24.10-3.2.5", "24.10-3.2.5.0", true),
            (true, "24.10-1.1.4", "24.10-1.1.4", true),
            (true, "23.10-2.1.3", "24.10-3.2.5.0", false),
            (true, "24.10-3.2.5", "24.10-3.2.51.0", false),
            (true, "none", "24.10-3.2.5.0", false),
            (false, "none", "24.10-3.2.5.0", false),
        ] {
            let mut facts = Facts::new();
            let n = node(&mut facts);
            let id = facts.instance(Subject::Module, n, "mlx_compat");
            facts.set(id, module::PRESENT, stated(compat));
            let id = facts.instance(Subject::Module, n, "mlx5_core");
            facts.set(id, module::VERSION, stated(running.into()));
            facts.set(n, node::OFED, stated(installed.into()));
            derive(&mut facts, n);
            assert_eq!(
                facts.known(n, node::OFED_RUNS),
                Some(expected),
                "{running} {installed}"
            );
        }
    }
}
