//! The rails of a node: the adapters through which it is measured.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Gpu, Rail};
use crate::fact::{Facts, Id, Subject, interface, netdev, node, path, port};
use crate::measure::plan::gpu_choice::{choose_gpus, nearest_gpus, occupied};
use crate::measure::plan::port_choice::active_ports;
use crate::network::Network;

/// The rails of these names, else those of the ports that jobs use, else the interface with the
/// address that reaches rank 0.
///
/// # Errors
///
/// Why the node has none, in words.
pub fn choose_rails(
    facts: &Facts,
    node: Id,
    wanted: &[String],
    to_rank_0: Option<IpAddr>,
) -> Result<Vec<Rail>, String> {
    if !wanted.is_empty() {
        return wanted.iter().map(|name| named(facts, node, name)).collect();
    }
    let ports = active_ports(facts, node);
    let rails: Vec<Rail> = ports
        .iter()
        .filter_map(|id| of_port(facts, node, *id))
        .collect();
    if !rails.is_empty() {
        return Ok(rails);
    }
    rail_to_rank_0(facts, node, to_rank_0).map(|rail| vec![rail])
}

/// The interface with the address that reaches rank 0: by it the ranks of a job meet, too, unless
/// somebody chose another one.
///
/// # Errors
///
/// Why the node has none, in words.
pub fn rail_to_rank_0(facts: &Facts, node: Id, to_rank_0: Option<IpAddr>) -> Result<Rail, String> {
    let address = to_rank_0.ok_or("no address leads to rank 0")?;
    let mut interfaces = facts.below(node, Subject::Interface);
    let has = |id: &Id| addresses(facts, *id).contains(&address);
    let found = interfaces.find(has);
    let found = found.ok_or_else(|| format!("no interface has {address}"))?;
    rail(facts, node, found, Some(address), None)
}

/// A rail that is not used, and its network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnusedRail {
    /// The rail.
    pub rail: Rail,
    /// The network of its address, as text.
    pub network: String,
}

/// The interfaces beside those of these rails that have an address in a network of its own.
pub fn unused_rails(facts: &Facts, node: Id, used: &[Rail]) -> Vec<UnusedRail> {
    let is_candidate = |id: &Id| {
        let name = facts.name(*id);
        facts.known(*id, interface::LOOPBACK) == Some(false)
            && facts.known(*id, interface::UP) == Some(true)
            && used.iter().all(|rail| rail.interface != name)
    };
    let candidates = facts.below(node, Subject::Interface).filter(is_candidate);
    let unused = candidates.filter_map(|id| {
        let rail = rail(facts, node, id, None, None).ok()?;
        let address: IpAddr = rail.address.parse().ok()?;
        let mut all = facts.texts(id, interface::ADDRESSES);
        let own = all.find(|text| text.split('/').next() == Some(&rail.address))?;
        let length = own.split('/').nth(1)?.parse().ok()?;
        let network = Network::of(address, length).filter(|network| network.has_peers())?;
        Some(UnusedRail {
            rail,
            network: network.to_string(),
        })
    });
    unused.collect()
}

/// The RDMA ports of these names, else those that jobs use, whether or not their interfaces have
/// addresses.
///
/// # Errors
///
/// Why the node has none, in words.
pub fn choose_rdma_rails(facts: &Facts, node: Id, wanted: &[String]) -> Result<Vec<Rail>, String> {
    let ports = match wanted {
        [] => active_ports(facts, node),
        wanted => wanted
            .iter()
            .map(|name| port_of(facts, node, name))
            .collect::<Result<_, _>>()?,
    };
    if ports.is_empty() {
        return Err("it has no active RDMA port that jobs use".into());
    }
    let rail = |port: &Id| {
        of_port(facts, node, *port).unwrap_or_else(|| Rail {
            speed: facts.known(*port, port::RATE).map(|rate| rate.0),
            link: of_hardware(facts, node, None, Some(*port)),
            device: Some(facts.name(*port).to_owned()),
            ..Rail::default()
        })
    };
    Ok(ports.iter().map(rail).collect())
}

/// Gives each rail the GPU nearest to its port, or the reason why it has none.
pub fn assign_gpus(facts: &Facts, node: Id, rails: &mut [Rail], force: bool) {
    let shown = choose_gpus(facts, node, &[]).unwrap_or_default();
    let ports: Vec<String> = rails
        .iter()
        .map(|rail| rail.device.clone().unwrap_or_default())
        .collect();
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let by_facts = facts.known(node, node::GPUDIRECT);
    let by_facts = by_facts.map(|access| access.word().to_owned());
    let near = nearest_gpus(facts, node, &shown, &ports);
    for (rail, pci) in rails.iter_mut().zip(near) {
        rail.gpu = Some(match pci {
            None => Gpu::none(None, "CUDA shows no GPU"),
            Some(pci) => match occupied(facts, node, &pci).filter(|_| !force) {
                Some(why) => Gpu::none(
                    Some(pci.to_string()),
                    format!("{why} (--force measures at the same time)"),
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
        return rail(facts, node, id, None, port_of(facts, node, name).ok());
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
    rail(facts, node, interface, None, Some(port)).ok()
}

fn addresses(facts: &Facts, interface: Id) -> Vec<IpAddr> {
    let list = facts.texts(interface, interface::ADDRESSES);
    let list = list.filter_map(|text| text.split('/').next()?.parse().ok());
    list.collect()
}

/// What the hardware of a port carries, by its wire and by PCIe; of an interface without one by its
/// own word.
fn of_hardware(facts: &Facts, node: Id, interface: Option<Id>, port: Option<Id>) -> Option<u64> {
    let rate = match (port, interface) {
        (Some(port), _) => {
            let name = format!("rail {}", facts.name(port).replace('/', ":"));
            facts.known(facts.find(Subject::Path, node, &name)?, path::BANDWIDTH)?
        }
        (None, interface) => {
            let interface = interface?;
            // A veth says 10 Gb/s, whatever carries it.
            facts
                .known(interface, interface::PHYSICAL)
                .filter(|is| *is)?;
            let device = facts.find(Subject::Netdev, node, facts.name(interface))?;
            facts.known(device, netdev::SPEED)?
        }
    };
    Some(rate.0)
}

fn rail(
    facts: &Facts,
    node: Id,
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
        link: of_hardware(facts, node, Some(interface), of),
        device: of.map(|port| facts.name(port).to_owned()),
        ..Rail::default()
    })
}
