//! Counts of devices, functions and ports.

use crate::fact::port::PortState;
use crate::fact::{
    Fact, Facts, Gap, Id, Key, Origin, Subject, cluster, device, function, node, port,
};

/// How many nodes are judged together.
pub fn cluster(facts: &mut Facts, nodes: u64) {
    facts.set(
        Facts::CLUSTER,
        cluster::NODES,
        Fact::derived(nodes, "recordings judged together"),
    );
}

/// The counts of one node.
pub fn node(facts: &mut Facts, node: Id) {
    let devices: Vec<Id> = facts.below(node, Subject::Device).collect();
    let count = match facts.members(Subject::Device, node) {
        Ok(origin) => Fact::Known(devices.len() as u64, origin.clone()),
        Err(gap) => Fact::Unknown(gap),
    };
    facts.set(node, node::DEVICES, count);
    let gpus = match facts.members(Subject::Gpu, node) {
        Ok(origin) => Fact::Known(
            facts.below(node, Subject::Gpu).count() as u64,
            origin.clone(),
        ),
        Err(gap) => Fact::Unknown(gap),
    };
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

/// Why not all instances of a subject below an ancestor are known, where they are not.
pub fn incomplete(facts: &Facts, ancestor: Id, subject: Subject) -> Option<Gap> {
    let parent = subject.parent()?;
    if facts.subject(ancestor) == parent {
        return facts.members(subject, ancestor).err();
    }
    incomplete(facts, ancestor, parent).or_else(|| {
        facts
            .below(ancestor, parent)
            .find_map(|p| facts.members(subject, p).err())
    })
}

/// How many instances have a fact for which the predicate holds; unknown where one of them, or their number, is.
fn count_where<T: crate::fact::Typed>(
    facts: &Facts,
    ancestor: Id,
    subject: Subject,
    key: Key<T>,
    holds: impl Fn(&T) -> bool,
) -> Fact<u64> {
    if let Some(gap) = incomplete(facts, ancestor, subject) {
        return Fact::Unknown(gap);
    }
    let mut count = 0;
    for id in facts.below(ancestor, subject) {
        match facts.get(id, key) {
            Fact::Known(value, _) => count += u64::from(holds(&value)),
            Fact::Unknown(gap) => return Fact::Unknown(gap),
        }
    }
    Fact::Known(
        count,
        Origin::derived(format!("{} of each {}", key.path(), subject.name())),
    )
}

/// Whether the predicate holds for one instance at least: known as soon as it does for one.
fn any<T: crate::fact::Typed>(
    facts: &Facts,
    ancestor: Id,
    subject: Subject,
    key: Key<T>,
    holds: impl Fn(&T) -> bool,
) -> Fact<bool> {
    let mut open = incomplete(facts, ancestor, subject);
    for id in facts.below(ancestor, subject) {
        match facts.get(id, key) {
            Fact::Known(value, _) if holds(&value) => {
                return Fact::derived(true, facts.name(id).to_owned());
            }
            Fact::Known(..) => {}
            Fact::Unknown(gap) => open = open.or(Some(gap)),
        }
    }
    match open {
        Some(gap) => Fact::Unknown(gap),
        None => Fact::derived(false, format!("{} of each {}", key.path(), subject.name())),
    }
}
