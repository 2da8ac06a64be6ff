//! Where a job's process runs, as against where the RDMA devices are.

use super::Derivation;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fact::{Fact, Facts, Gap, Id, Subject, device, job};

/// The derivation.
pub(super) const DERIVATION: Derivation =
    Derivation::new("job_place", &["device.intended"], derive);

/// Whether a CPU of the process is on a NUMA node that has an RDMA device.
///
/// One such node is enough: a rank that is bound beside its own GPU leaves the other nodes to other
/// ranks.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let jobs: Vec<Id> = facts.below(node, Subject::Job).collect();
    if jobs.is_empty() {
        return;
    }
    let nodes = rdma_nodes(facts, node);
    for job in jobs {
        let near = |what: &str, own: Fact<Arc<[Arc<str>]>>| match (&nodes, own) {
            (Fact::Known(nodes, _), Fact::Known(own, _)) => Fact::derived(
                own.iter().any(|n| nodes.contains(n)),
                format!("{what} on {}; RDMA on {}", own.join(", "), nodes.join(", ")),
            ),
            (Fact::Unknown(gap), _) => Fact::Unknown(gap.clone()),
            (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
        };
        let memory = near("memory", facts.get(job, job::MEMORY_NODES));
        let near = near("CPUs", facts.get(job, job::NUMA_NODES));
        facts.set(job, job::MEMORY_NEAR_RDMA, memory);
        facts.set(job, job::NEAR_RDMA, near);
        facts.set(job, job::RDMA_NUMA_NODES, nodes.clone());
    }
}

fn rdma_nodes(facts: &Facts, node: Id) -> Fact<Arc<[Arc<str>]>> {
    if let Err(gap) = facts.members(Subject::Device, node) {
        return Fact::Unknown(gap);
    }
    let mut found: BTreeSet<u64> = BTreeSet::new();
    for id in facts.below(node, Subject::Device) {
        match (
            facts.get(id, device::INTENDED),
            facts.get(id, device::NUMA_NODE),
        ) {
            (Fact::Known(false, _), _) => {}
            (Fact::Known(true, _), Fact::Known(numa, _)) => {
                found.insert(numa);
            }
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => return Fact::Unknown(gap),
        }
    }
    if found.is_empty() {
        return Fact::Unknown(Gap::missing("device.numa_node"));
    }
    let names = found.iter().map(|n| Arc::from(n.to_string()));
    Fact::derived(names.collect(), "the NUMA nodes of the intended devices")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node, port, stated};
    use super::*;
    use crate::fact::port::PortState;

    fn near(own: &[&str], numa: Option<u64>) -> Option<bool> {
        let mut facts = Facts::new();
        let node = node(&mut facts);
        let p = port(&mut facts, node, "mlx5_0", PortState::Active, 400);
        let device = facts.parent(p).unwrap();
        facts.set(device, device::INTENDED, stated(true));
        if let Some(numa) = numa {
            facts.set(device, device::NUMA_NODE, stated(numa));
        }
        let id = facts.instance(Subject::Job, node, "process 42");
        let own: Arc<[Arc<str>]> = own.iter().map(|n| Arc::from(*n)).collect();
        facts.set(id, job::NUMA_NODES, stated(Arc::clone(&own)));
        facts.set(id, job::MEMORY_NODES, stated(own));
        derive(&mut facts, node);
        assert_eq!(
            facts.known(id, job::NEAR_RDMA),
            facts.known(id, job::MEMORY_NEAR_RDMA)
        );
        facts.known(id, job::NEAR_RDMA)
    }

    #[test]
    fn one_node_is_enough_and_none_is_not() {
        assert_eq!(near(&["0", "1"], Some(1)), Some(true));
        assert_eq!(near(&["0"], Some(1)), Some(false));
        assert_eq!(near(&["0"], None), None);
    }
}
