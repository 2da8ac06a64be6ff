//! Counts of devices, functions and ports.

use super::Derivation;
use crate::fact::kleene::Several;
use crate::fact::port::PortState;
use crate::fact::{
    Fact, Facts, Gap, Id, Key, Subject, Typed, cluster, device, function, node, port,
};

/// How many nodes are judged together.
pub fn cluster(facts: &mut Facts, nodes: u64) {
    facts.set(
        Facts::CLUSTER,
        cluster::NODES,
        Fact::derived(nodes, "recordings judged together"),
    );
}

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation {
    name: "tally",
    inputs: &["port.intended"],
    run: node,
};

/// The counts of one node.
pub(super) fn node(facts: &mut Facts, node: Id) {
    let devices: Vec<Id> = facts.below(node, Subject::Device).collect();
    let count = facts.complete(Subject::Device, node);
    facts.set(node, node::DEVICES, count.map(|()| devices.len() as u64));
    let gpus = facts.below(node, Subject::Gpu).count() as u64;
    let gpus = facts.complete(Subject::Gpu, node).map(|()| gpus);
    facts.set(node, node::GPUS, gpus);
    for device in devices {
        let intended = any(facts, device, Subject::Port, port::INTENDED, |v| *v);
        facts.set(device, device::INTENDED, intended);
    }
    let functions = count_where(
        facts,
        node,
        Subject::Function,
        function::RDMA_EXPECTED,
        |v| *v,
    );
    facts.set(node, node::RDMA_FUNCTIONS, functions);
    let intended = count_where(facts, node, Subject::Port, port::INTENDED, |v| *v);
    let job = takes_part(facts, node, [&intended, &facts.get(node, node::GPUS)]);
    facts.set(node, node::JOB_NODE, job);
    facts.set(node, node::INTENDED_PORTS, intended);
    let active = count_where(facts, node, Subject::Port, port::STATE, |v| {
        matches!(v, PortState::Active | PortState::ActiveDefer)
    });
    facts.set(node, node::ACTIVE_PORTS, active);
    let one = any(facts, node, Subject::Port, port::STATE, |v| {
        matches!(v, PortState::Active | PortState::ActiveDefer)
    });
    facts.set(node, node::HAS_ACTIVE_PORT, one);
}

/// Whether jobs of several nodes may run on a node: it has ports or GPUs for them, a rendezvous is set, or it was measured with others.
fn takes_part(facts: &Facts, node: Id, counts: [&Fact<u64>; 2]) -> Fact<bool> {
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
    let has = |count: &Fact<u64>| count.clone().map(|count| count > 0);
    let any = Several::from_iter(counts.map(has)).any(|has| *has);
    Fact::of(any, "ports that are intended for use, and GPUs")
}

/// Why not all instances of a subject below an ancestor are known, where they are not.
pub fn incomplete(facts: &Facts, ancestor: Id, subject: Subject) -> Option<Gap> {
    facts.incomplete(ancestor, subject)
}

/// How many instances have a fact for which the predicate holds; unknown where one of them, or their number, is.
fn count_where<T: Typed>(
    facts: &Facts,
    ancestor: Id,
    subject: Subject,
    key: Key<T>,
    holds: impl Fn(&T) -> bool,
) -> Fact<u64> {
    let count = Several::of(facts, ancestor, subject, key).count(|(_, value)| holds(value));
    Fact::of(count, of_each(subject, key))
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
