//! Facts from facts: what takes more than a comparison. Unknown inputs give unknown outputs.
//!
//! No function here asks the machine. One that could be decided by a fact that is missing says
//! which.

pub mod ablation;
pub mod agreement;
pub mod arms;
pub mod bandwidth_model;
pub mod ceiling;
pub mod comparison;
pub mod counter_rate;
pub mod cuda_release;
pub mod driver_stack;
pub mod fabric;
pub mod firewall;
pub mod gid_choice;
mod gpu_ends;
pub mod gpu_equals;
mod gpu_load;
pub mod gpu_peer;
pub mod gpu_purpose;
pub mod gpu_share;
pub mod gpudirect;
pub mod group;
pub mod host_limits;
pub mod intended;
pub mod interrupts;
pub mod job_place;
pub mod kernel_event;
pub mod known_defects;
pub mod listed_nics;
pub mod log;
pub mod majority;
pub mod module_wanted;
pub mod mtu;
pub mod nccl;
pub mod netdev_of_port;
pub mod nvlink_equals;
pub mod obstacle;
pub mod p2p;
pub mod pcie_hop;
pub mod pcie_need;
pub mod pcie_peers;
pub mod pcie_slot;
pub mod port_state;
pub mod rail;
pub mod reach;
pub mod relations;
pub mod setting;
pub mod step_time;
pub mod tally;
pub mod topology;
pub mod traffic;

use std::sync::LazyLock;

use crate::fact::{Facts, Id, Subject};

/// Works out all derived facts, in the order in which they build on each other.
pub fn derive(facts: &mut Facts) {
    let nodes = facts.all(Subject::Node).count() as u64;
    of_nodes(facts, nodes);
    log::derive(facts);
    comparison::derive(facts);
    reach::state(facts, None);
}

/// What is derived of all nodes together, where their facts are not here but the samples that were
/// taken of them.
pub fn of_cluster(
    facts: &mut Facts,
    nodes: u64,
    samples: comparison::Table,
) -> comparison::Concerns {
    tally::cluster(facts, nodes);
    log::derive(facts);
    samples.state(facts)
}

/// A derivation: facts of a node from other facts of it. The schema names it as the source of what
/// it sets.
struct Derivation {
    /// Its name, which is that of its file.
    name: &'static str,
    /// What it reads that another derivation sets or makes: facts, and subjects whose instances it
    /// looks for.
    inputs: &'static [&'static str],
    /// Works it out.
    run: fn(&mut Facts, Id),
}

/// All derivations of one node. Their order follows from their inputs.
const DERIVATIONS: &[&Derivation] = &[
    &ablation::DERIVATION,
    &agreement::DERIVATION,
    &arms::DERIVATION,
    &ceiling::DERIVATION,
    &counter_rate::DERIVATION,
    &cuda_release::DERIVATION,
    &driver_stack::DERIVATION,
    &fabric::DERIVATION,
    &firewall::DERIVATION,
    &gid_choice::DERIVATION,
    &gpu_equals::DERIVATION,
    &gpu_load::DERIVATION,
    &gpu_peer::DERIVATION,
    &gpu_purpose::DERIVATION,
    &gpu_share::DERIVATION,
    &gpudirect::DERIVATION,
    &host_limits::DERIVATION,
    &intended::DERIVATION,
    &interrupts::DERIVATION,
    &job_place::DERIVATION,
    &kernel_event::DERIVATION,
    &known_defects::DERIVATION,
    &listed_nics::DERIVATION,
    &module_wanted::DERIVATION,
    &mtu::DERIVATION,
    &nccl::DERIVATION,
    &netdev_of_port::DERIVATION,
    &nvlink_equals::DERIVATION,
    &obstacle::DERIVATION,
    &p2p::DERIVATION,
    &pcie_hop::DERIVATION,
    &pcie_need::DERIVATION,
    &pcie_peers::DERIVATION,
    &pcie_slot::DERIVATION,
    &port_state::DERIVATION,
    &rail::DERIVATION,
    &relations::DERIVATION,
    &setting::DERIVATION,
    &tally::DERIVATION,
    &topology::DERIVATION,
    &traffic::DERIVATION,
];

impl Derivation {
    const fn new(
        name: &'static str,
        inputs: &'static [&'static str],
        run: fn(&mut Facts, Id),
    ) -> Self {
        Derivation { name, inputs, run }
    }

    /// The derivation that sets a fact, or makes the instances of a subject.
    fn of(input: &str) -> Option<&'static Derivation> {
        let (subject, fact) = match input.split_once('.') {
            Some((subject, fact)) => (subject, Some(fact)),
            None => (input, None),
        };
        let schema = Subject::from_name(subject)?.schema();
        let source = match fact {
            Some(fact) => schema.facts.iter().find(|one| one.name == fact)?.probe,
            None => schema.probe,
        };
        let name = source.strip_prefix(crate::fact::schema::DERIVED)?;
        DERIVATIONS.iter().copied().find(|one| one.name == name)
    }
}

/// The derivations in an order in which each follows those whose facts it reads; `Err` names those
/// that wait for each other.
fn ordered() -> Result<Vec<&'static Derivation>, Vec<&'static str>> {
    let mut ordered: Vec<&'static Derivation> = Vec::with_capacity(DERIVATIONS.len());
    let mut waiting: Vec<(&'static Derivation, Vec<&'static str>)> = DERIVATIONS
        .iter()
        .map(|one| {
            let before = one.inputs.iter().filter_map(|input| Derivation::of(input));
            (*one, before.map(|other| other.name).collect())
        })
        .collect();
    while !waiting.is_empty() {
        let done = |name: &&str| ordered.iter().any(|one| one.name == *name);
        let Some(next) = waiting
            .iter()
            .position(|(_, before)| before.iter().all(&done))
        else {
            return Err(waiting.iter().map(|(one, _)| one.name).collect());
        };
        ordered.push(waiting.remove(next).0);
    }
    Ok(ordered)
}

/// Derives what is derived of each node by itself, `among` so many that are judged together.
pub fn of_nodes(facts: &mut Facts, among: u64) {
    tally::cluster(facts, among);
    // Once for all nodes. A test holds that no derivation waits for itself.
    static ORDERED: LazyLock<Vec<&Derivation>> = LazyLock::new(|| ordered().unwrap_or_default());
    let nodes: Vec<_> = facts.all(Subject::Node).collect();
    for node in nodes {
        for one in ORDERED.iter() {
            (one.run)(facts, node);
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A node built by hand, for the tests of derived facts.

    use crate::fact::port::{LinkLayer, PhysState, PortState};
    use crate::fact::*;

    /// A node with its memberships known.
    pub(crate) fn node(facts: &mut Facts) -> Id {
        let node = facts.new_node("n");
        for subject in [
            Subject::Device,
            Subject::Function,
            Subject::Netdev,
            Subject::Module,
        ] {
            facts.set_members(subject, node, Membership::Known(Origin::Stated));
        }
        facts.set(node, node::DEFAULT_ROUTE, stated([].into()));
        node
    }

    /// A known value.
    pub(crate) fn stated<T>(value: T) -> Fact<T> {
        Fact::Known(value, Origin::Stated)
    }

    /// A device of a common board with one port.
    pub(crate) fn port(facts: &mut Facts, node: Id, name: &str, state: PortState, rate: u64) -> Id {
        let device = facts.instance(Subject::Device, node, name);
        facts.set(device, device::DRIVER, stated("mlx5_core".into()));
        facts.set(device, device::MODEL, stated("MT4129".into()));
        facts.set(device, device::BOARD, stated("MT_0000000838".into()));
        facts.set(device, device::VIRTUAL_FUNCTION, stated(false));
        facts.set(device, device::FIRMWARE, stated("28.39.1002".into()));
        facts.set_members(Subject::Port, device, Membership::Known(Origin::Stated));
        let port = facts.instance(Subject::Port, device, &format!("{name}/1"));
        facts.set(port, port::STATE, stated(state));
        let phys = if state == PortState::Down {
            PhysState::Polling
        } else {
            PhysState::LinkUp
        };
        facts.set(port, port::PHYS_STATE, stated(phys));
        facts.set(port, port::LINK_LAYER, stated(LinkLayer::InfiniBand));
        facts.set(port, port::RATE, stated(BitRate(rate * 1_000_000_000)));
        facts.set(port, port::HAS_NETDEV, stated(false));
        facts.set_members(Subject::Gid, port, Membership::Known(Origin::Stated));
        facts.set_members(Subject::Counter, port, Membership::Known(Origin::Stated));
        port
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::fact::reads::during;
    use crate::source::recording::Recording;

    #[test]
    fn no_derivation_waits_for_itself() {
        let ordered = ordered().unwrap_or_else(|circle| panic!("a circle among {circle:?}"));
        assert_eq!(ordered.len(), DERIVATIONS.len());
        for one in DERIVATIONS {
            for input in one.inputs {
                let source = Derivation::of(input);
                assert!(source.is_some(), "{}: nothing derives {input}", one.name);
            }
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the project's own fixtures")]
    fn what_a_derivation_reads_of_others_is_declared_and_what_it_sets_names_it() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let mut used: BTreeSet<(&str, String)> = BTreeSet::new();
        for entry in std::fs::read_dir(fixtures).unwrap() {
            let path = entry.unwrap().path();
            let Ok(recording) = Recording::open(&path) else {
                continue;
            };
            if recording.header.log {
                continue;
            }
            let mut facts = Facts::new();
            let node = crate::probe::establish(&recording, &mut facts);
            tally::cluster(&mut facts, 1);
            for one in ordered().unwrap() {
                let seen = during(|| (one.run)(&mut facts, node));
                let name = |(subject, index): &(Subject, usize)| {
                    let schema = subject.schema();
                    format!("{}.{}", schema.name, schema.facts[*index].name)
                };
                let subjects = seen.looked_for.iter().map(|s| s.schema().name.to_owned());
                for input in seen.read.iter().map(name).chain(subjects) {
                    let Some(source) = Derivation::of(&input) else {
                        continue;
                    };
                    let declared = source.name == one.name || one.inputs.contains(&&*input);
                    assert!(declared, "{} reads {input}", one.name);
                    used.insert((one.name, input));
                }
                for (subject, index) in &seen.set {
                    let fact = &subject.schema().facts[*index];
                    let source = fact.probe.strip_prefix(crate::fact::schema::DERIVED);
                    let own = source.is_none_or(|source| source == one.name);
                    assert!(own, "{} sets {}", one.name, name(&(*subject, *index)));
                }
            }
        }
        for one in DERIVATIONS {
            for input in one.inputs {
                let read = used.contains(&(one.name, (*input).to_owned()));
                assert!(read, "{} reads {input} of no fixture", one.name);
            }
        }
    }
}
