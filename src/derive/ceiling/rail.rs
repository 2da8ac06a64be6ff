//! What adapters carry: the wire, the PCIe links of their paths, and what of those they share.

use std::sync::Arc;

use super::Ceiling;
use super::inside::{hops, of_hop, redirects};
use super::term::{Term, least};
use crate::derive::bandwidth_model;
use crate::derive::bandwidth_model::Wire;
use crate::derive::nccl::setting;
use crate::derive::pcie_peers::turning_ports;
use crate::fact::gpu_nic::{self, Distance};
use crate::fact::node::Gpudirect;
use crate::fact::path::BoundBy;
use crate::fact::port::LinkLayer;
use crate::fact::{
    Facts, Gap, Id, Subject, device, function, gpu, interface, netdev, node, port, selection,
};

/// A port that NCCL uses.
pub(super) struct Rail {
    /// As NCCL's log writes it.
    pub(super) name: Arc<str>,
    pub(super) port: Id,
    device: Id,
}

/// What NCCL chooses on the node.
pub(super) fn selection(facts: &Facts, node: Id) -> Result<Id, Gap> {
    let chosen = facts.find(Subject::Selection, node, "NCCL");
    chosen.ok_or_else(|| Gap::missing("selection"))
}

/// The ports that NCCL uses.
pub(super) fn ports(facts: &Facts, node: Id, chosen: Id) -> Result<Vec<Rail>, Gap> {
    let mut found = Vec::new();
    for name in facts.value(chosen, selection::HCAS)?.iter() {
        let missing = || Gap::missing(format!("port {name}"));
        let (of, number) = name.rsplit_once(':').ok_or_else(missing)?;
        let device = facts.find(Subject::Device, node, of).ok_or_else(missing)?;
        let port = facts.find(Subject::Port, device, &format!("{of}/{number}"));
        found.push(Rail {
            name: Arc::clone(name),
            port: port.ok_or_else(missing)?,
            device,
        });
    }
    Ok(found)
}

/// How data gets from a GPU to an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// Straight: GPUDirect RDMA.
    Straight,
    /// Straight by its own account, while a switch sends it up to the root complex and back.
    Redirected,
    /// Through the host's memory.
    Host,
}

/// What the port's wire carries of data.
fn wire(facts: &Facts, node: Id, rail: &Rail) -> Result<Term, Gap> {
    if facts.value(rail.device, device::SOFTWARE)? {
        return Err(Gap::missing("what a device of software carries"));
    }
    let rate = facts.value(rail.port, port::RATE)?;
    let driver = facts.value(rail.device, device::DRIVER)?;
    let wire = match facts.value(rail.port, port::LINK_LAYER)? {
        _ if &*driver == "efa" => Wire::Srd,
        LinkLayer::InfiniBand => Wire::InfiniBand,
        LinkLayer::Ethernet => {
            facts.members(Subject::Bond, node)?;
            let name = facts.value(rail.port, port::NETDEV)?;
            if facts.find(Subject::Bond, node, &name).is_some() {
                // The kernel says the rate of one of its ports, or of all.
                return Err(Gap::missing(format!("how many ports of {name} take part")));
            }
            Wire::Roce
        }
        LinkLayer::Unspecified => return Err(Gap::missing("port.link_layer")),
    };
    let mtu = match wire {
        // Its share does not depend on it.
        Wire::Srd => 4096,
        _ => facts.value(rail.port, port::MTU)?.0,
    };
    let part = bandwidth_model::wire_efficiency(wire, mtu)
        .ok_or_else(|| Gap::missing("what the MTU leaves for data"))?;
    Ok(Term {
        carries: bandwidth_model::gigabytes(rate) * part,
        by: BoundBy::Nic,
        at: format!("{} ({rate}, MTU {mtu})", rail.name).into(),
    })
}

/// The first of the GPUs that are nearest to a function, and their distance; `None` where the node
/// has none.
fn near(facts: &Facts, node: Id, function: Id) -> Result<Option<(Id, Distance)>, Gap> {
    facts.incomplete(node, Subject::Gpu).map_or(Ok(()), Err)?;
    let mut best: Option<(Id, Distance)> = None;
    for gpu in facts.below(node, Subject::Gpu) {
        let name = format!("{} - {}", facts.name(gpu), facts.name(function));
        // A virtual GPU is where its physical one is, and has no pair of its own.
        let Some(pair) = facts.find(Subject::GpuNic, gpu, &name) else {
            continue;
        };
        let distance = facts.value(pair, gpu_nic::DISTANCE)?;
        if best.is_none_or(|(_, near)| (distance as u8) < near as u8) {
            best = Some((gpu, distance));
        }
    }
    Ok(best)
}

/// A PCIe link that a rail's data goes over, and how often.
#[derive(Clone, Debug)]
struct Crossing {
    hop: Id,
    times: u32,
}

/// The links of the adapter's path that its data crosses.
fn crossings(facts: &Facts, node: Id, rail: &Rail, via: Via) -> Result<Vec<Crossing>, Gap> {
    facts.members(Subject::Hop, node)?;
    let function = function_of(facts, node, rail)?;
    let own = hops(facts, function);
    let once = |hop: &Id| Crossing {
        hop: *hop,
        times: 1,
    };
    let Some((gpu, _)) = near(facts, node, function)? else {
        // Without a GPU all goes to the host's memory, once.
        return Ok(own.iter().map(once).collect());
    };
    let theirs = hops(facts, gpu);
    let mut found = Vec::new();
    for hop in own {
        let is_shared = theirs.contains(&hop);
        let times = match (is_shared, via) {
            (false, _) => 1,
            // What the GPU and the adapter have in common lies above the switch where their traffic
            // turns round.
            (true, Via::Straight) => continue,
            // Up to the root and down again, and that for what comes as for what goes.
            (true, Via::Redirected | Via::Host) => 2,
        };
        found.push(Crossing { hop, times });
    }
    Ok(found)
}

fn function_of(facts: &Facts, node: Id, rail: &Rail) -> Result<Id, Gap> {
    let pci = facts.value(rail.device, device::PCI)?;
    facts
        .find(Subject::Function, node, &pci)
        .ok_or_else(|| Gap::missing(format!("PCI function {pci}")))
}

/// How the data of a rail goes on this node, as it is set up; `None` where there is no GPU.
fn way(facts: &Facts, node: Id, rail: &Rail) -> Result<Option<Via>, Gap> {
    let function = function_of(facts, node, rail)?;
    let Some((gpu, distance)) = near(facts, node, function)? else {
        return Ok(None);
    };
    if facts.value(node, node::GPUDIRECT)? == Gpudirect::None {
        return Ok(Some(Via::Host));
    }
    // Switches of GPUDirect RDMA, and of how far it goes.
    for name in ["NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ"] {
        let set = setting(facts, node, name)?;
        match (name, set.as_deref()) {
            (_, None | Some("")) | ("NCCL_NET_GDR_READ", Some("1")) => {}
            ("NCCL_NET_GDR_LEVEL", Some("LOC" | "0")) => return Ok(Some(Via::Host)),
            (_, Some(set)) => {
                let what = format!("what {name}={set} does to this adapter");
                return Err(Gap::missing(what));
            }
        }
    }
    if !distance.is_near() {
        return Ok(Some(Via::Host));
    }
    let path = facts.value(function, function::PATH)?;
    let other = facts.value(gpu, gpu::PATH)?;
    Ok(Some(match turning_ports(&path, &other) {
        Some((here, there)) if redirects(facts, node, [&here, &there])? => Via::Redirected,
        _ => Via::Straight,
    }))
}

/// The terms of one rail: its wire, and each PCIe link that it crosses.
fn terms(facts: &Facts, node: Id, rail: &Rail, via: Via) -> Result<Vec<Term>, Gap> {
    let mut terms = vec![wire(facts, node, rail)?];
    for crossing in crossings(facts, node, rail, via)? {
        let by = match (crossing.times, via) {
            (1, _) => BoundBy::PcieHop,
            (_, Via::Host) => BoundBy::GdrOff,
            (..) => BoundBy::Acs,
        };
        terms.push(Term {
            carries: of_hop(facts, crossing.hop)? / f64::from(crossing.times),
            by,
            at: facts.name(crossing.hop).into(),
        });
    }
    Ok(terms)
}

/// What one rail carries as the node is set up, and what part that is of what its wire carries.
pub(super) fn rail(facts: &Facts, node: Id, rail: &Rail) -> Result<(Ceiling, f64), Gap> {
    let terms = match way(facts, node, rail) {
        Ok(via) => terms(facts, node, rail, via.unwrap_or(Via::Straight))?,
        // Where the way makes no difference it need not be known.
        Err(gap) => {
            let straight = terms(facts, node, rail, Via::Straight)?;
            let detour = terms(facts, node, rail, Via::Host)?;
            match (least(&straight), least(&detour)) {
                (Some(a), Some(b)) if a == b => straight,
                _ => return Err(gap),
            }
        }
    };
    let wire = wire(facts, node, rail)?.carries;
    let term = least(&terms).ok_or_else(|| Gap::missing("port.rate"))?;
    let share = term.carries / wire;
    Ok((Ceiling::of(term, &terms), share))
}

/// The network of the ports that NCCL uses, as the node is set up, and what part that is of what
/// the wires carry.
pub(super) fn chosen(facts: &Facts, node: Id, rails: &[Rail]) -> Result<(Term, f64), Gap> {
    let mut ways = Vec::new();
    let mut open = None;
    for rail in rails {
        match way(facts, node, rail) {
            Ok(via) => ways.push(via.unwrap_or(Via::Straight)),
            Err(gap) => open = open.or(Some(gap)),
        }
    }
    let Some(gap) = open else {
        return together(facts, node, rails, &ways);
    };
    let all = |via| together(facts, node, rails, &vec![via; rails.len()]);
    let (straight, detour) = (all(Via::Straight)?, all(Via::Host)?);
    if straight == detour {
        Ok(straight)
    } else {
        Err(gap)
    }
}

/// The network of the ports that NCCL uses, all by one way.
pub(super) fn network(facts: &Facts, node: Id, via: Via) -> Result<Term, Gap> {
    let rails = ports(facts, node, selection(facts, node)?)?;
    if rails.is_empty() {
        return Err(Gap::missing("a port that NCCL will use"));
    }
    let (term, _) = together(facts, node, &rails, &vec![via; rails.len()])?;
    Ok(term)
}

/// A PCIe link, and the rails over it.
struct Shared {
    hop: Id,
    rails: Vec<usize>,
    times: u32,
    via: Via,
}

/// What rails carry together: each what its wire carries, and no link more than it can.
///
/// The links of PCIe form a tree, so that what is below one is all below the one above it. From the
/// ends to the root each link cuts what comes from below it to what it carries; in this order the
/// sum is the most that can flow.
fn together(facts: &Facts, node: Id, rails: &[Rail], ways: &[Via]) -> Result<(Term, f64), Gap> {
    let mut flows = Vec::new();
    let mut links: Vec<Shared> = Vec::new();
    for (at, (rail, via)) in rails.iter().zip(ways).enumerate() {
        flows.push(wire(facts, node, rail)?.carries);
        for crossing in crossings(facts, node, rail, *via)? {
            match links.iter_mut().find(|link| link.hop == crossing.hop) {
                Some(link) => {
                    link.rails.push(at);
                    link.times = link.times.min(crossing.times);
                }
                None => links.push(Shared {
                    hop: crossing.hop,
                    rails: vec![at],
                    times: crossing.times,
                    via: *via,
                }),
            }
        }
    }
    let wires: f64 = flows.iter().sum();
    links.sort_by_key(|link| link.rails.len());
    let mut cuts: Vec<(f64, BoundBy, Arc<str>)> = Vec::new();
    for link in &links {
        let carried: f64 = link.rails.iter().filter_map(|at| flows.get(*at)).sum();
        let room = of_hop(facts, link.hop)? / f64::from(link.times);
        if carried <= room {
            continue;
        }
        for at in &link.rails {
            if let Some(flow) = flows.get_mut(*at) {
                *flow *= room / carried;
            }
        }
        let by = match (link.times, link.via, link.rails.len()) {
            (2, Via::Host, _) => BoundBy::GdrOff,
            (2, ..) => BoundBy::Acs,
            (_, _, 1) => BoundBy::PcieHop,
            _ => BoundBy::SharedHop,
        };
        cuts.push((carried - room, by, facts.name(link.hop).into()));
    }
    let carries: f64 = flows.iter().sum();
    let most = cuts.iter().map(|(cut, by, _)| (*cut, *by));
    let most = most.max_by(|a, b| a.0.total_cmp(&b.0));
    let (by, at) = match most {
        None => (BoundBy::Nic, listed(rails.iter().map(|rail| &rail.name))),
        Some((_, by)) => {
            let alike = cuts.iter().filter(|(_, other, _)| *other == by);
            (by, listed(alike.map(|(.., name)| name)))
        }
    };
    let term = Term { carries, by, at };
    Ok((term, carries / wires))
}

/// The first four names, and how many more there are.
fn listed<'n>(names: impl Iterator<Item = &'n Arc<str>>) -> Arc<str> {
    let names: Vec<&str> = names.map(|name| &**name).collect();
    match names.get(..4) {
        Some(first) if names.len() > 4 => {
            format!("{} and {} more", first.join(", "), names.len() - 4).into()
        }
        _ => names.join(", ").into(),
    }
}

/// The interfaces of NCCL's sockets that lead out of the node.
pub(super) fn interfaces(facts: &Facts, node: Id, chosen: Id) -> Result<Vec<Arc<str>>, Gap> {
    let mut found = Vec::new();
    for name in facts.value(chosen, selection::INTERFACES)?.iter() {
        let id = facts.find(Subject::Interface, node, name);
        let id = id.ok_or_else(|| Gap::missing(format!("interface {name}")))?;
        if !facts.value(id, interface::LOOPBACK)? {
            found.push(Arc::clone(name));
        }
    }
    Ok(found)
}

/// What the interfaces of NCCL's sockets carry together.
pub(super) fn sockets(facts: &Facts, node: Id) -> Result<Term, Gap> {
    let names = interfaces(facts, node, selection(facts, node)?)?;
    if names.is_empty() {
        return Err(Gap::missing("an interface for sockets"));
    }
    let mut carries = 0.0;
    for name in &names {
        let missing = |what: &str| Gap::missing(format!("{what} of interface {name}"));
        let device = facts.find(Subject::Netdev, node, name);
        let device = device.ok_or_else(|| missing("the speed"))?;
        let speed = facts.value(device, netdev::SPEED)?;
        let mtu = match facts.find(Subject::Interface, node, name) {
            Some(id) => facts.value(id, interface::MTU)?,
            None => return Err(missing("the MTU")),
        };
        let part =
            bandwidth_model::wire_efficiency(Wire::Tcp, mtu.0).ok_or_else(|| missing("the MTU"))?;
        carries += bandwidth_model::gigabytes(speed) * part;
    }
    Ok(Term {
        carries,
        by: BoundBy::Socket,
        at: listed(names.iter()),
    })
}
