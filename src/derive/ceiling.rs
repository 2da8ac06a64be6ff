//! What each path of a node can carry, and what binds it: NVLink, PCIe, adapters, the host's
//! memory.
//!
//! The hardware's numbers come from facts, the model from [`crate::derive::bandwidth_model`]. A
//! ceiling holds for the node as it is: a link that runs low is counted as it runs.

mod inside;
mod rail;
mod term;

use super::Derivation;
use std::sync::Arc;

use self::rail::Via;
pub use self::term::Term;
use crate::derive::bandwidth_model;
use crate::derive::bandwidth_model::{Carries, Shape, Side};
use crate::fact::kleene::Several;
use crate::fact::path::{self, BoundBy, PathKind};
use crate::fact::variable::VariableEffect;
use crate::fact::{
    BitRate, Fact, Facts, Gap, Id, Membership, Origin, Percent, Subject, gpu, known, node,
    selection, variable,
};
use crate::measure::plan::collective::Collective;

/// What a run really used, as its log or its counters tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// What was measured.
    pub collective: Collective,
    /// How many nodes, and ranks on each.
    pub shape: Shape,
    /// What carried the traffic inside a node.
    pub inside: Transport,
    /// What carried the traffic between nodes, and inside one whose [`Transport`] is the network;
    /// `None` where nothing did.
    pub between: Option<Network>,
    /// Whether switches of NVLink added (NVLS); by what the node can, where the log does not tell.
    pub nvls: Option<bool>,
}

/// What carries traffic inside a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// From GPU to GPU: over NVLink where it joins all GPUs, else over PCIe.
    P2p,
    /// Through the host's memory.
    Shm,
    /// By adapters, as between nodes.
    Net,
}

/// What carries traffic between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// RDMA.
    Rdma {
        /// Straight to the GPUs' memory (GPUDirect RDMA), and not through that of the host.
        gdr: bool,
    },
    /// TCP sockets.
    Socket,
}

/// What a run can reach at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// busbw.
    pub busbw: BitRate,
    /// What binds it.
    pub bound_by: BoundBy,
    /// Where that is.
    pub bound_where: Arc<str>,
    /// All terms that were compared, each with its value.
    pub terms: Vec<Arc<str>>,
}

impl Ceiling {
    /// What was reached, of the ceiling.
    pub fn share(&self, reached: BitRate) -> Percent {
        let share = reached.0 as f64 / self.busbw.0.max(1) as f64;
        Percent((share * 1000.0).round() / 10.0)
    }

    fn of(term: Term, terms: &[Term]) -> Self {
        Ceiling {
            busbw: bandwidth_model::rate(term.carries),
            bound_by: term.by,
            bound_where: term.at,
            terms: terms.iter().map(|term| term.to_string().into()).collect(),
        }
    }
}

/// The ceiling of a run on nodes like this one, by what it really used.
///
/// Whether switches redirect traffic (ACS) is left out: that is a setting, and takes from what is
/// reached, not from what can be.
pub fn ceiling_of(facts: &Facts, node: Id, used: Use) -> Fact<Ceiling> {
    let found = || -> Result<Ceiling, Gap> {
        if used.shape.ranks() < 2 {
            return Err(Gap::missing("a second rank"));
        }
        let gpus = inside::gpus(facts, node)?;
        if used.shape.nodes > 1 && facts.known(node, node::FABRIC_OF_NODES) == Some(true) {
            return Err(Gap::missing(
                "how many of the nodes one NVLink fabric joins",
            ));
        }
        let network = || match used.between {
            Some(Network::Socket) => rail::sockets(facts, node),
            Some(Network::Rdma { gdr: true }) => rail::network(facts, node, Via::Straight),
            Some(Network::Rdma { gdr: false }) => rail::network(facts, node, Via::Host),
            None => Err(Gap::missing("what carried the traffic between nodes")),
        };
        let inside = if used.shape.ranks_per_node < 2 {
            None
        } else {
            Some(match used.inside {
                Transport::P2p => inside::p2p(facts, node, &gpus)?,
                Transport::Shm => inside::shm(facts, node, &gpus)?,
                Transport::Net => {
                    let network = network()?;
                    let each =
                        bandwidth_model::loopback(network.carries, used.shape.ranks_per_node);
                    Term {
                        carries: each.unwrap_or_default(),
                        ..network
                    }
                }
            })
        };
        let nvls = match (&inside, used.nvls) {
            (_, Some(false)) | (None, _) => None,
            (Some(inside), Some(true)) => inside.nvls(used.shape.ranks_per_node),
            (Some(inside), None) => {
                if inside::switches_add(facts, node, &gpus)? {
                    inside.nvls(used.shape.ranks_per_node)
                } else {
                    None
                }
            }
        };
        let network = match used.shape.nodes {
            1 => None,
            _ => Some(network()?),
        };
        compose(used.collective, used.shape, inside, nvls, network)
    };
    let ceiling = known!(ok found());
    let how = format!("{} at {}", ceiling.bound_by.word(), ceiling.bound_where);
    Fact::derived(ceiling, how)
}

/// The ceiling out of what carries inside and between nodes.
fn compose(
    collective: Collective,
    shape: Shape,
    ring: Option<Term>,
    nvls: Option<Term>,
    network: Option<Term>,
) -> Result<Ceiling, Gap> {
    let carries = Carries {
        ring: ring.as_ref().map_or(0.0, |ring| ring.carries),
        nvls: nvls.as_ref().map(|nvls| nvls.carries),
        network: network.as_ref().map_or(0.0, |network| network.carries),
    };
    let bound = bandwidth_model::ceiling(collective, shape, carries)
        .ok_or_else(|| Gap::missing("a model for this collective"))?;
    let terms = [&ring, &nvls, &network].into_iter().flatten();
    let terms: Vec<Term> = terms.cloned().collect();
    let over_nvls = nvls.filter(|nvls| bound.busbw > carries.ring.min(nvls.carries));
    let binding = match bound.side {
        Side::Inside => over_nvls.or(ring),
        Side::Network => network,
    };
    let binding = binding.ok_or_else(|| Gap::missing("what carried the traffic"))?;
    let binding = Term {
        carries: bound.busbw,
        ..binding
    };
    Ok(Ceiling::of(binding, &terms))
}

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "ceiling",
    &[
        "gpu.nvidia",
        "gpu_nic",
        "gpu_nic.distance",
        "gpu_pair",
        "gpu_pair.distance",
        "gpu_pair.first",
        "gpu_pair.second",
        "gpu_pair.way",
        "hop",
        "hop.bandwidth",
        "hop.possible_bandwidth",
        "hop.rest",
        "node.fabric_of_nodes",
        "node.gpudirect",
        "selection",
        "selection.hcas",
        "selection.interfaces",
        "selection.wants_hcas",
        "variable.effect",
    ],
    derive,
);

/// States the paths of a node.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let mut open: Option<Gap> = None;
    let gpus = inside::gpus(facts, node).unwrap_or_else(|gap| {
        open = Some(gap);
        Vec::new()
    });
    let mut inside_way = None;
    if gpus.len() > 1 {
        match inside::joined(facts, node, &gpus) {
            Ok(true) => {
                let found = inside::nvlink(facts, node, &gpus);
                state(facts, node, PathKind::Nvlink, "nvlink", found.map(one));
            }
            Ok(false) => {}
            // Whether there is one is as open as what it carries.
            Err(gap) => {
                state(facts, node, PathKind::Nvlink, "nvlink", Err(gap));
            }
        }
        let found = inside::pcie(facts, node, &gpus);
        state(facts, node, PathKind::PcieP2p, "pcie-p2p", found.map(one));
        let found = inside::shm(facts, node, &gpus);
        state(facts, node, PathKind::Shm, "shm", found.map(one));
        let found = inside::chosen(facts, node, &gpus).and_then(|inside| {
            let nvls = if inside::switches_add(facts, node, &gpus)? {
                inside.nvls(gpus.len() as u64)
            } else {
                None
            };
            Ok((inside, nvls))
        });
        let shape = Shape {
            nodes: 1,
            ranks_per_node: gpus.len() as u64,
        };
        let ceiling = found.clone().and_then(|(inside, nvls)| {
            compose(Collective::AllReduce, shape, Some(inside), nvls, None)
        });
        let kind = PathKind::AllReduceIntra;
        state(facts, node, kind, "all-reduce-intra", ceiling);
        inside_way = Some(found);
    }
    let network = outside(facts, node).unwrap_or_else(|gap| {
        open.get_or_insert(gap);
        None
    });
    if let Some(network) = network
        && !gpus.is_empty()
    {
        for (kind, name, nodes) in [
            (PathKind::AllReduceInter2, "all-reduce-inter-2", 2),
            // From four nodes on the number makes no difference; a tree on three can pass it.
            (PathKind::AllReduceInterMany, "all-reduce-inter-many", 4),
        ] {
            let shape = Shape {
                nodes,
                ranks_per_node: gpus.len() as u64,
            };
            let ceiling = between(facts, node, &inside_way, &network, shape);
            state(facts, node, kind, name, ceiling);
        }
    }
    let members =
        Membership::known_unless(open, Origin::derived("GPUs, and the ports that NCCL uses"));
    facts.set_members(Subject::Path, node, members);
}

/// What NCCL would choose inside a node: the ring, and what its switches add; `None` with one GPU.
type Chosen = Option<Result<(Term, Option<Term>), Gap>>;

fn between(
    facts: &Facts,
    node: Id,
    inside: &Chosen,
    network: &Result<Term, Gap>,
    shape: Shape,
) -> Result<Ceiling, Gap> {
    if facts.known(node, node::FABRIC_OF_NODES) == Some(true) {
        return Err(Gap::missing(
            "how many of the nodes one NVLink fabric joins",
        ));
    }
    let (inside, nvls) = match inside {
        Some(Ok((inside, nvls))) => (Some(inside.clone()), nvls.clone()),
        Some(Err(gap)) => return Err(gap.clone()),
        None => (None, None),
    };
    let network = network.clone()?;
    compose(Collective::AllReduce, shape, inside, nvls, Some(network))
}

/// States rails, network and sockets; gives what NCCL's traffic to other nodes will take, `None`
/// where it has nothing.
fn outside(facts: &mut Facts, node: Id) -> Result<Option<Result<Term, Gap>>, Gap> {
    let chosen = rail::selection(facts, node)?;
    let ports = if facts.value(chosen, selection::WANTS_HCAS)? {
        rail::ports(facts, node, chosen)?
    } else {
        Vec::new()
    };
    if !ports.is_empty() {
        for rail in &ports {
            let name = format!("rail {}", rail.name);
            let found = rail::rail(facts, node, rail);
            let id = state_wired(facts, node, PathKind::Rail, &name, found);
            facts.relate(id, rail.port);
        }
        let network = rail::chosen(facts, node, &ports);
        let found = network.clone().map(|(term, share)| (one(term), share));
        let id = state_wired(facts, node, PathKind::Network, "network", found);
        for rail in &ports {
            facts.relate(id, rail.port);
        }
        return Ok(Some(network.map(|(term, _)| term)));
    }
    if rail::interfaces(facts, node, chosen)?.is_empty() {
        return Ok(None);
    }
    let sockets = rail::sockets(facts, node);
    let stated = sockets.clone().map(one);
    state(facts, node, PathKind::Sockets, "sockets", stated);
    Ok(Some(sockets))
}

/// States a path over adapters, with what part it carries of what their wires do.
fn state_wired(
    facts: &mut Facts,
    node: Id,
    kind: PathKind,
    name: &str,
    found: Result<(Ceiling, f64), Gap>,
) -> Id {
    let (ceiling, share) = found.map_or_else(
        |gap| (Err(gap), Err(Gap::missing("path.bandwidth"))),
        |(ceiling, share)| (Ok(ceiling), Ok(Percent((share * 1000.0).round() / 10.0))),
    );
    let id = state(facts, node, kind, name, ceiling);
    let share = Fact::of(share, "what is carried, of what the wire carries");
    facts.set(id, path::OF_RATES, share);
    id
}

/// A path of one term.
fn one(term: Term) -> Ceiling {
    let terms = [term.clone()];
    Ceiling::of(term, &terms)
}

fn state(
    facts: &mut Facts,
    node: Id,
    kind: PathKind,
    name: &str,
    found: Result<Ceiling, Gap>,
) -> Id {
    let id = facts.instance(Subject::Path, node, name);
    facts.derive(id, path::KIND, kind, "what it is named for");
    if !matches!(kind, PathKind::Rail | PathKind::Network) {
        let gap = Gap::missing("a port of this path");
        facts.set(id, path::OF_RATES, Fact::Unknown(gap));
    }
    match found {
        Ok(ceiling) => {
            let how = format!("{} at {}", ceiling.bound_by.word(), ceiling.bound_where);
            facts.derive(id, path::BANDWIDTH, ceiling.busbw, &how);
            facts.derive(id, path::BOUND_BY, ceiling.bound_by, &how);
            let at = Fact::derived(ceiling.bound_where, &how);
            facts.set(id, path::BOUND_WHERE, at);
            facts.derive(id, path::TERMS, ceiling.terms.into(), "the model");
            if let Some(at) = facts.known(id, path::BOUND_WHERE)
                && let Some(hop) = facts.find(Subject::Hop, node, &at)
            {
                facts.relate(id, hop);
            }
        }
        Err(gap) => {
            facts.set(id, path::BANDWIDTH, Fact::Unknown(gap.clone()));
            facts.set(id, path::BOUND_BY, Fact::Unknown(gap.clone()));
            facts.set(id, path::BOUND_WHERE, Fact::Unknown(gap.clone()));
            facts.set(id, path::TERMS, Fact::Unknown(gap));
        }
    }
    id
}

/// Whether a variable in effect does this; a gap where not all variables are known and none is seen
/// to.
fn does(facts: &Facts, node: Id, effect: VariableEffect) -> Result<bool, Gap> {
    Several::of(facts, node, variable::EFFECT).any(|(_, found)| *found == effect)
}

/// Whether the GPU is NVIDIA's: NCCL runs on no other.
fn is_nvidia(facts: &Facts, id: Id) -> Result<bool, Gap> {
    facts.value(id, gpu::NVIDIA)
}

#[cfg(test)]
mod tests;
