//! Counts of devices, functions and ports.

use super::Derivation;
use crate::fact::kleene::Several;
use crate::fact::port::PortState;
use crate::fact::{
    Fact, Facts, Gap, Id, Key, Subject, Typed, cluster, device, function, node, port,
};

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
        let intended = any(facts, device, Subject::Port, port::INTENDED, |v| *v);
        facts.set(device, device::INTENDED, intended);
    }
    count(
        facts,
        node,
        node::RDMA_FUNCTIONS,
        function::RDMA_EXPECTED,
        |v| *v,
    );
    count(facts, node, node::INTENDED_PORTS, port::INTENDED, |v| *v);
    facts.set(node, node::JOB_NODE, takes_part(facts, node));
    let is_active = |v: &PortState| matches!(v, PortState::Active | PortState::ActiveDefer);
    count(facts, node, node::ACTIVE_PORTS, port::STATE, is_active);
    let one = any(facts, node, Subject::Port, port::STATE, is_active);
    facts.set(node, node::HAS_ACTIVE_PORT, one);
}

/// Whether jobs of several nodes may run on a node: it has ports or GPUs for them, a rendezvous is set, or it was measured with others.
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
    let has = [node::INTENDED_PORTS, node::GPUS].map(|key| facts.is_any(node, key));
    let any = Several::from_iter(has).any(|has| *has);
    Fact::of(any, "ports that are intended for use, and GPUs")
}

/// Why not all instances of a subject below an ancestor are known, where they are not.
pub fn incomplete(facts: &Facts, ancestor: Id, subject: Subject) -> Option<Gap> {
    facts.incomplete(ancestor, subject)
}

/// States how many instances have a fact for which the predicate holds; unknown where one of them, or their number, is.
fn count<T: Typed>(
    facts: &mut Facts,
    node: Id,
    to: Key<u64>,
    key: Key<T>,
    holds: impl Fn(&T) -> bool,
) {
    let each = Several::of(facts, node, key.subject, key);
    let (count, least) = each.counted(|(_, value)| holds(value));
    facts.set_at_least(node, to, Fact::of(count, of_each(key.subject, key)), least);
}

/// Whether the predicate holds for one instance at least: known as soon as it does for one.
fn any<T: Typed>(
    facts: &Facts,
    ancestor: Id,
    subject: Subject,
    key: Key<T>,
    holds: impl Fn(&T) -> bool,
) -> Fact<bool> {
    match Several::of(facts, ancestor, subject, key).find(|(_, value)| holds(value)) {
        Ok(Some((id, _))) => Fact::derived(true, facts.name(*id).to_owned()),
        Ok(None) => Fact::derived(false, of_each(subject, key)),
        Err(gap) => Fact::Unknown(gap),
    }
}

fn of_each<T>(subject: Subject, key: Key<T>) -> String {
    format!("{} of each {}", key.path(), subject.name())
}
