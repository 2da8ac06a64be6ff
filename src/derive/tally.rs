//! Counts of devices, functions and ports.

use super::Derivation;
use crate::fact::kleene::Several;
use crate::fact::port::PortState;
use crate::fact::{Fact, Facts, Id, Key, Subject, Typed, cluster, device, function, node, port};

/// How many nodes are judged together.
pub fn cluster(facts: &mut Facts, nodes: u64) {
    let how = "recordings judged together";
    facts.derive(Facts::CLUSTER, cluster::NODES, nodes, how);
}

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("tally", &["port.intended"], node);

/// The counts of one node.
pub(super) fn node(facts: &mut Facts, node: Id) {
    for (subject, key) in [(Subject::Device, node::DEVICES), (Subject::Gpu, node::GPUS)] {
        let least = facts.below(node, subject).count() as u64;
        let count = facts.complete(subject, node).map(|()| least);
        facts.set_at_least(node, key, count, least);
    }
    for device in facts.below(node, Subject::Device).collect::<Vec<_>>() {
        let intended = any(facts, device, port::INTENDED, |v| *v);
        facts.set(device, device::INTENDED, intended);
    }
    for (key, of) in [
        (node::RDMA_FUNCTIONS, function::RDMA_EXPECTED),
        (node::INTENDED_PORTS, port::INTENDED),
    ] {
        count(facts, node, key, of, |v| *v);
    }
    facts.set(node, node::JOB_NODE, takes_part(facts, node));
    let is_active = |state: &PortState| state.is_active();
    count(facts, node, node::ACTIVE_PORTS, port::STATE, is_active);
    let one = any(facts, node, port::STATE, is_active);
    facts.set(node, node::HAS_ACTIVE_PORT, one);
}

/// Whether jobs of several nodes may run on a node: it has ports or GPUs for them, a rendezvous is
/// set, or it met others or was measured with them.
fn takes_part(facts: &Facts, node: Id) -> Fact<bool> {
    let rendezvous = ["MASTER_ADDR", "PET_MASTER_ADDR"];
    if facts.below(node, Subject::Suspect).next().is_some() {
        return Fact::derived(true, "it was measured with other nodes");
    }
    if rendezvous
        .iter()
        .any(|name| facts.find(Subject::Setting, node, name).is_some())
    {
        return Fact::derived(true, "a rendezvous is set");
    }
    if facts.known(node, node::MET_BY).is_some() {
        return Fact::derived(true, "it met other nodes");
    }
    let has = [node::INTENDED_PORTS, node::GPUS].map(|key| facts.is_any(node, key));
    let any = Several::from_iter(has).any(|has| *has);
    Fact::of(any, "ports that are intended for use, and GPUs")
}

/// States how many instances have a fact for which the predicate holds; unknown where one of them,
/// or their number, is.
fn count<T: Typed>(
    facts: &mut Facts,
    node: Id,
    to: Key<u64>,
    key: Key<T>,
    holds: impl Fn(&T) -> bool,
) {
    let each = Several::of(facts, node, key);
    let (count, least) = each.counted(|(_, value)| holds(value));
    facts.set_at_least(node, to, Fact::of(count, of_each(key)), least);
}

/// Whether the predicate holds for one instance at least: known as soon as it does for one.
fn any<T: Typed>(
    facts: &Facts,
    ancestor: Id,
    key: Key<T>,
    holds: impl Fn(&T) -> bool,
) -> Fact<bool> {
    match Several::of(facts, ancestor, key).find(|(_, value)| holds(value)) {
        Ok(Some((id, _))) => Fact::derived(true, facts.name(*id).to_owned()),
        Ok(None) => Fact::derived(false, of_each(key)),
        Err(gap) => Fact::Unknown(gap),
    }
}

fn of_each<T>(key: Key<T>) -> String {
    format!("{} of each {}", key.path(), key.subject.name())
}
