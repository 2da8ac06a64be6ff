//! The rails of a node: the adapters by which it is measured.

use std::net::IpAddr;
use std::time::Duration;

use super::super::measuring;
use super::super::memory::nearest_gpus;
use super::super::p2p::chosen;
use crate::cli::{AskArgs, input};
use crate::fact::port::PortState;
use crate::fact::{Facts, Id, Subject, interface, node, port};
use crate::measure::plan::pairs::{Gpu, Rail};
use crate::source::recording::Recording;

/// How long a node may take to record itself: one that is slow is measured too.
const RECORDING: Duration = Duration::from_secs(45);

/// Records this node, before anything is measured.
///
/// # Errors
///
/// The recording cannot be made.
pub(super) fn recording() -> anyhow::Result<Recording> {
    input::record(&AskArgs {
        root: None,
        sample: None,
        nccl: None,
        job: None,
        deadline: RECORDING,
    })
}

/// The rails of this node, by a person's wishes or by its facts; else the interface that leads to rank 0. Why there are none, where there are none.
pub(in crate::cli::bench) fn choose(
    recording: &Recording,
    wanted: &[String],
    to_rank_0: Option<IpAddr>,
) -> Result<Vec<Rail>, String> {
    let (facts, nodes) = input::facts(std::slice::from_ref(recording));
    let node = nodes.first().map(|node| node.id);
    let node = node.ok_or("the node says nothing of itself")?;
    if !wanted.is_empty() {
        return wanted
            .iter()
            .map(|name| named(&facts, node, name))
            .collect();
    }
    let ports = in_use(&facts, node);
    let rails: Vec<Rail> = ports
        .iter()
        .filter_map(|id| of_port(&facts, node, *id))
        .collect();
    if !rails.is_empty() {
        return Ok(rails);
    }
    let address = to_rank_0.ok_or("no address leads to rank 0")?;
    let mut interfaces = facts.below(node, Subject::Interface);
    let has = |id: &Id| addresses(&facts, *id).contains(&address);
    let found = interfaces.find(has);
    let found = found.ok_or_else(|| format!("no interface has {address}"))?;
    rail(&facts, found, Some(address), None).map(|rail| vec![rail])
}

/// The RDMA ports of this node, by a person's wishes or by its facts, whether or not their interfaces have addresses. Why there are none, where there are
/// none.
pub(super) fn with_rdma(recording: &Recording, wanted: &[String]) -> Result<Vec<Rail>, String> {
    let (facts, nodes) = input::facts(std::slice::from_ref(recording));
    let node = nodes.first().map(|node| node.id);
    let node = node.ok_or("the node says nothing of itself")?;
    let ports = match wanted {
        [] => in_use(&facts, node),
        wanted => wanted
            .iter()
            .map(|name| port_of(&facts, node, name))
            .collect::<Result<_, _>>()?,
    };
    if ports.is_empty() {
        return Err("it has no active RDMA port that jobs use".into());
    }
    let rail = |port: &Id| {
        of_port(&facts, node, *port).unwrap_or_else(|| Rail {
            interface: String::new(),
            address: String::new(),
            mtu: 0,
            speed: facts.known(*port, port::RATE).map(|rate| rate.0),
            device: Some(facts.name(*port).to_owned()),
            port: None,
            gid: None,
            gpu: None,
        })
    };
    Ok(ports.iter().map(rail).collect())
}

/// The GPU nearest to each rail's port, or why there is none for it.
pub(super) fn give_gpus(recording: &Recording, rails: &mut [Rail], force: bool) {
    let (facts, nodes) = input::facts(std::slice::from_ref(recording));
    let Some(node) = nodes.first().map(|node| node.id) else {
        return;
    };
    let shown = chosen(&facts, node, &[]).unwrap_or_default();
    let ports: Vec<String> = rails
        .iter()
        .map(|rail| rail.device.clone().unwrap_or_default())
        .collect();
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let by_facts = facts.known(node, node::GPUDIRECT);
    let by_facts = by_facts.map(|way| way.word().to_owned());
    let near = nearest_gpus(&facts, node, &shown, &ports);
    for (rail, pci) in rails.iter_mut().zip(near) {
        rail.gpu = Some(match pci {
            None => Gpu::none(None, "CUDA shows no GPU"),
            Some(pci) => match measuring::in_use(&facts, node, &pci).filter(|_| !force) {
                Some(why) => Gpu::none(
                    Some(pci.to_string()),
                    format!("{why} (--force measures beside it)"),
                ),
                None => Gpu {
                    pci: Some(pci.to_string()),
                    by_facts: by_facts.clone(),
                    ..Gpu::default()
                },
            },
        });
    }
}

/// The active ports that jobs use, by their names.
pub(in crate::cli::bench) fn in_use(facts: &Facts, node: Id) -> Vec<Id> {
    let is = |id: &Id| {
        facts.known(*id, port::INTENDED) == Some(true)
            && facts.known(*id, port::STATE) == Some(PortState::Active)
    };
    let mut ports: Vec<Id> = facts.below(node, Subject::Port).filter(is).collect();
    ports.sort_by_key(|id| facts.name(*id).to_owned());
    ports
}

/// The port of this name, of this device, or with this interface.
fn port_of(facts: &Facts, node: Id, name: &str) -> Result<Id, String> {
    let is = |id: &Id| {
        let port = facts.name(*id);
        port == name
            || port.split('/').next() == Some(name)
            || (facts.known(*id, port::NETDEV)).is_some_and(|netdev| *netdev == *name)
    };
    let mut ports = facts.below(node, Subject::Port);
    let port = ports.find(is);
    port.ok_or_else(|| format!("--device {name}: it has no RDMA port"))
}

/// The rail of this name: an interface's, an RDMA device's, or a port's.
fn named(facts: &Facts, node: Id, name: &str) -> Result<Rail, String> {
    let mut interfaces = facts.below(node, Subject::Interface);
    if let Some(id) = interfaces.find(|id| facts.name(*id) == name) {
        return rail(facts, id, None, port_of(facts, node, name).ok());
    }
    let port = port_of(facts, node, name)
        .map_err(|_| format!("--device {name}: there is no such interface"))?;
    of_port(facts, node, port)
        .ok_or_else(|| format!("--device {name}: its interface has no address"))
}

/// The rail of a port: its interface, where that has an address.
fn of_port(facts: &Facts, node: Id, port: Id) -> Option<Rail> {
    let netdev = facts.known(port, port::NETDEV)?;
    let mut interfaces = facts.below(node, Subject::Interface);
    let interface = interfaces.find(|id| *facts.name(*id) == *netdev)?;
    rail(facts, interface, None, Some(port)).ok()
}

fn addresses(facts: &Facts, interface: Id) -> Vec<IpAddr> {
    let list = facts.known(interface, interface::ADDRESSES);
    let list = list.iter().flat_map(|list| list.iter());
    list.filter_map(|text| text.split('/').next()?.parse().ok())
        .collect()
}

fn rail(
    facts: &Facts,
    interface: Id,
    address: Option<IpAddr>,
    of: Option<Id>,
) -> Result<Rail, String> {
    let name = facts.name(interface);
    // A link-local address means nothing on another node without the interface's name there.
    let reachable = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_link_local(),
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let all = addresses(facts, interface);
    let address = address.or_else(|| all.iter().copied().find(reachable));
    let address = address.ok_or_else(|| format!("{name} has no address"))?;
    let mtu = facts.known(interface, interface::MTU);
    let mtu = mtu.ok_or_else(|| format!("the MTU of {name} is unknown"))?;
    Ok(Rail {
        interface: name.to_owned(),
        address: address.to_string(),
        mtu: mtu.0,
        speed: of
            .and_then(|port| facts.known(port, port::RATE))
            .map(|rate| rate.0),
        device: of.map(|port| facts.name(port).to_owned()),
        port: None,
        gid: None,
        gpu: None,
    })
}
