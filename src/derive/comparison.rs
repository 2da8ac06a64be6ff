//! What several nodes are compared by: of each node a small sample is kept, and all samples
//! together say who differs, who is silent, and what is shared that ought to be one machine's own.
//!
//! Only nodes of one role and kind of hardware are compared with each other, so that a login or
//! storage node among compute nodes is none of the odd ones. The time is in proportion to the
//! nodes, and nothing of a node is kept but its sample.

mod clocks;
mod figures;
mod group;
mod listed_ports;
mod neighbours;
mod outputs;
mod own;
mod property;
mod sides;
mod table;

pub use table::{Concerns, Table};

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::fact::comparison::ComparedProperty;
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Subject, node};

/// A text, or why there is none.
type TextOrReason = Result<Arc<str>, Arc<str>>;

/// What of a node is compared with others.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The node's name.
    pub name: Arc<str>,
    /// Whose names and addresses these are.
    realm: Realm,
    /// The boot id: another on each machine but those that were resumed from one memory.
    boot: Option<Arc<str>>,
    /// Role and kind of hardware.
    kind: TextOrReason,
    /// Whether its recording is whole.
    whole: bool,
    properties: Vec<Property>,
    /// The network devices of its RoCE ports, and their MTUs.
    netdevs: Vec<(Arc<str>, Option<Bytes>)>,
    /// The RDMA devices of its active ports for jobs.
    devices: Vec<Arc<str>>,
    /// What is unknown of the node, whatever group it would be in.
    open: Vec<(ComparedProperty, Arc<str>)>,
    /// What is to be this machine's own: of what kind, the value, and what has it.
    own: Vec<(ComparedProperty, Arc<str>, Arc<str>)>,
    own_open: Vec<(ComparedProperty, Arc<str>)>,
    /// Its clock, where it was compared with another one.
    clock: Option<clocks::Clock>,
    /// Hardware addresses, its own and those of peers that it does not ask for.
    neighbours: neighbours::Neighbours,
    /// Figures that are compared by how far they are from those of others.
    figures: Vec<(ComparedProperty, f64)>,
    /// NCCL's variables; `Err` where they are not all known.
    variables: Result<Vec<(Arc<str>, TextOrReason)>, Arc<str>>,
    /// What it printed where it is a host of a text.
    printed: Vec<outputs::Printed>,
    /// The ports that outputs of tools list, where it is a host of a text.
    listed_ports: Vec<listed_ports::ListedPort>,
}

/// What tells a machine from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What the kernel made up when it booted, or when the memory was written from which it was
    /// resumed.
    pub boot: Arc<str>,
    /// Those of its ports. A container may have some of them.
    pub guids: BTreeSet<Arc<str>>,
}

impl Machine {
    /// Whether both are beyond doubt one machine: one boot, and a port in common.
    pub fn has_ports_of(&self, other: &Machine) -> bool {
        self.boot == other.boot && !self.guids.is_disjoint(&other.guids)
    }

    /// Whether two recordings are of one machine: clones have the boot id of one, and other GUIDs.
    pub fn is_same(&self, other: &Machine) -> bool {
        let is_clone = !self.guids.is_empty()
            && !other.guids.is_empty()
            && self.guids.is_disjoint(&other.guids);
        self.boot == other.boot && !is_clone
    }
}

/// A property of a node, or of its ports of one group.
#[derive(Clone, Debug)]
struct Property {
    of: ComparedProperty,
    group: Arc<str>,
    value: TextOrReason,
}

/// Whose names and addresses a recording holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Realm {
    /// The machine's own, or pseudonyms under the key of this mark: what is equal there is equal.
    Shared(Arc<str>),
    /// Pseudonyms of this recording alone.
    Alone,
}

/// Takes a node's sample, after all that is derived of it.
pub fn sample(facts: &Facts, node: Id) -> Sample {
    let realm = match facts.known(node, node::PSEUDONYMS) {
        Some(mark) => Realm::Shared(mark),
        None => Realm::Alone,
    };
    let kind = group::kind(facts, node, &realm);
    let mut sample = Sample {
        name: facts.name(node).into(),
        boot: facts.known(node, node::BOOT_ID),
        whole: facts.known(node, node::WHOLE) != Some(false),
        kind,
        properties: Vec::with_capacity(48),
        netdevs: Vec::new(),
        devices: Vec::new(),
        open: Vec::new(),
        own: Vec::new(),
        own_open: Vec::new(),
        clock: None,
        neighbours: Default::default(),
        figures: Vec::new(),
        variables: Ok(Vec::new()),
        printed: outputs::take(facts, node),
        listed_ports: listed_ports::take(facts, node),
        realm,
    };
    property::take(facts, node, &mut sample);
    own::take(facts, node, &mut sample);
    clocks::take(facts, node, &mut sample);
    neighbours::take(facts, node, &mut sample);
    figures::take(facts, node, &mut sample);
    sample
}

/// Compares the nodes that are judged together, where they are all here.
pub fn derive(facts: &mut Facts) {
    let mut table = Table::new();
    for node in facts.all(Subject::Node).collect::<Vec<_>>() {
        if facts.known(node, node::PASTED) == Some(false) {
            table.add(sample(facts, node));
        }
    }
    table.state(facts);
}

impl Sample {
    /// The boot id and the GUIDs of its ports, which together are one machine's.
    pub fn machine(&self) -> Option<Machine> {
        let guids = self.own.iter();
        let guids = guids.filter(|(property, ..)| *property == ComparedProperty::Guid);
        Some(Machine {
            boot: self.boot.clone()?,
            guids: guids.map(|(_, guid, _)| Arc::clone(guid)).collect(),
        })
    }

    /// Whether others of its text printed something for a command that it ran.
    pub fn has_outputs(&self) -> bool {
        !self.printed.is_empty()
    }

    /// Leaves out the outputs with these lines: what a finding says of them, no comparison says again.
    pub fn leave_out_outputs_with(&mut self, lines: &HashSet<Arc<str>>) {
        self.printed.retain(|output| !output.holds_one_of(lines));
    }

    fn has(&mut self, of: ComparedProperty, group: impl Into<Arc<str>>, value: TextOrReason) {
        self.properties.push(Property {
            of,
            group: group.into(),
            value,
        });
    }

    fn lacks(&mut self, of: ComparedProperty, why: &Gap) {
        self.open.push((of, why.to_string().into()));
    }
}

/// A fact as text, as reports write it.
fn said<T: crate::fact::Typed>(fact: Fact<T>) -> TextOrReason {
    match fact.erase() {
        Fact::Known(value, _) => Ok(value.to_string().into()),
        Fact::Unknown(gap) => Err(gap.to_string().into()),
    }
}

#[cfg(test)]
mod tests;
