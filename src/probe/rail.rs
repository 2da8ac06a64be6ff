//! Routing and ARP of several rails, bonds.

mod bonding;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::device::{self, PortEntry};
use super::netdev::{NET, Texts, netdev_of};
use super::routing::{self, Route, Rule};
use super::{Ask, Probe, whole_number};
use crate::fact::kleene::proven;
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Subject, bond, netdev};
use crate::network::Network;

/// The probe.
pub const PROBE: Probe = Probe::new("rail", run);

const CONF: &str = "/proc/sys/net/ipv4/conf";
/// Devices below each other (VLAN on bond on ports), beyond which nothing is followed.
const STACK: u32 = 4;

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (ports, membership) = device::ports(ask, facts, node);
    let mut open = match membership {
        Membership::Known(_) => None,
        Membership::Unknown(gap) => Some(gap),
    };
    let mut texts = Texts::new(ask);
    let mut rails: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut adapters: BTreeSet<Arc<str>> = BTreeSet::new();
    for port in &ports {
        match rail_of(&mut texts, port) {
            Ok(Some(name)) => {
                // Only soft-RoCE has the file `parent`.
                let parent = texts.text(format!("{}/{}/parent", device::CLASS, port.device));
                if parent.known().is_none() {
                    adapters.insert(Arc::clone(&name));
                }
                rails.insert(name);
            }
            Ok(None) => {}
            Err(gap) => open = Some(gap),
        }
    }
    // A single rail shares its network with no other.
    if rails.len() > 1 {
        let routes = routing::routes_asked(ask, []);
        let rules = routing::rules_asked(ask, []);
        let index = |name: &str| {
            ask.parse(format!("{NET}/{name}/ifindex"), |text| {
                u32::try_from(whole_number(text)?).map_err(|_| format!("{text:?} is not an index"))
            })
        };
        let indexes = rails.iter().map(|name| (Arc::clone(name), index(name)));
        addressing(
            ask,
            facts,
            node,
            &indexes.collect::<Vec<_>>(),
            (&routes, &rules),
        );
    }
    bonds(ask, facts, node, (&rails, &adapters), open);
}

/// The netdev of an Ethernet port; none if the port is of another kind, or has none.
fn rail_of(texts: &mut Texts<'_, '_>, port: &PortEntry) -> Result<Option<Arc<str>>, Gap> {
    let layer = texts.text(format!("{}/link_layer", port.dir));
    if &*layer.into_result()? != "Ethernet" {
        return Ok(None);
    }
    netdev_of(texts, port).if_any().into_result()
}

/// The networks of each rail, by which rail the kernel answers a peer in them, and its settings of ARP; the numbers of the interfaces are known.
pub(super) fn addressing(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    rails: &[(Arc<str>, Fact<u32>)],
    (routes, rules): (&Fact<Vec<Route>>, &Fact<Vec<Rule>>),
) {
    let number = |(name, index): &(Arc<str>, Fact<u32>)| Some((*index.known()?, Arc::clone(name)));
    let indexes: BTreeMap<u32, Arc<str>> = rails.iter().filter_map(number).collect();
    let all = Arp::of(ask, "all");
    for (name, index) in rails {
        let id = facts.instance(Subject::Netdev, node, name);
        Arp::of(ask, name).in_force(&all, facts, id);
        let (index, routes, origin) = match (index, routes) {
            (Fact::Known(index, _), Fact::Known(routes, origin)) => (*index, routes, origin),
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => {
                facts.set(id, netdev::NETWORKS, Fact::Unknown(gap.clone()));
                facts.set(id, netdev::ADDRESSES, Fact::Unknown(gap.clone()));
                facts.set(id, netdev::ANSWERS_BY, Fact::Unknown(gap.clone()));
                facts.set(id, netdev::ANSWERS_ITSELF, Fact::Unknown(gap.clone()));
                continue;
            }
        };
        let own = networks(routes, index);
        let list = |each: BTreeSet<String>| -> Arc<[Arc<str>]> {
            each.into_iter().map(Arc::from).collect()
        };
        let nets = list(own.iter().map(|(net, _)| net.to_string()).collect());
        facts.set(id, netdev::NETWORKS, Fact::Known(nets, origin.clone()));
        let addresses = own.iter().filter_map(|(_, source)| source.as_ref());
        let addresses = list(addresses.map(ToString::to_string).collect());
        facts.know(id, netdev::ADDRESSES, addresses, origin);
        let way = rules.as_result().map_err(Gap::clone).and_then(|rules| {
            let way = answers(rules, routes, &own, index);
            way.map_err(|what| Gap::misread(what, origin.clone()))
        });
        let answers = way.map(|way| {
            let by: Arc<str> = match way.map(|other| other.map(|at| (at, indexes.get(&at)))) {
                None => facts.name(id).into(),
                Some(Some((_, Some(name)))) => Arc::clone(name),
                Some(Some((index, None))) => format!("interface {index}").into(),
                Some(None) => "none".into(),
            };
            (way.is_none(), by)
        });
        let (itself, by) = Fact::from_result(answers, origin).unzip();
        facts.set(id, netdev::ANSWERS_ITSELF, itself);
        facts.set(id, netdev::ANSWERS_BY, by);
    }
}

/// The networks that an interface is connected to, each with the address that it has there.
fn networks(routes: &[Route], index: u32) -> Vec<(Network, Option<std::net::IpAddr>)> {
    let mut own: Vec<(Network, Option<std::net::IpAddr>)> = Vec::new();
    for route in routes {
        let connected = !route.gateway && route.interfaces == [index] && route.to.length > 0;
        if connected && !route.to.is_link_local() {
            match own.iter_mut().find(|(net, _)| *net == route.to) {
                // Of a network's routes in several tables, one names the address.
                Some((_, source @ None)) => *source = route.source,
                Some((_, Some(_))) if route.source.is_none() => {}
                Some((_, source)) if *source == route.source => {}
                _ => own.push((route.to, route.source)),
            }
        }
    }
    own
}

/// `None` if all of an interface's networks are answered by itself, else the other interface, or that there is no way.
fn answers(
    rules: &[Rule],
    routes: &[Route],
    own: &[(Network, Option<std::net::IpAddr>)],
    index: u32,
) -> Result<Option<Option<u32>>, String> {
    for (net, source) in own {
        let way = routing::way(rules, routes, *source, *net)?;
        if !way.contains(&index) {
            return Ok(Some(way.first().copied()));
        }
    }
    Ok(None)
}

/// The settings of one device, or those of `all`.
struct Arp {
    rp_filter: Fact<u64>,
    ignore: Fact<u64>,
    announce: Fact<u64>,
    filter: Fact<u64>,
}

impl Arp {
    fn of(ask: &Ask<'_>, whose: &str) -> Self {
        let read = |what: &str| ask.parse(format!("{CONF}/{whose}/{what}"), whole_number);
        Arp {
            rp_filter: read("rp_filter"),
            ignore: read("arp_ignore"),
            announce: read("arp_announce"),
            filter: read("arp_filter"),
        }
    }

    /// What the kernel takes of `all` and of the device's own: the larger (`IN_DEV_MAXCONF`), of switches whether one is on.
    fn in_force(self, all: &Arp, facts: &mut Facts, id: Id) {
        let larger = |all: &Fact<u64>, own: Fact<u64>| match (all, own) {
            (Fact::Known(all, origin), Fact::Known(own, _)) if *all > own => {
                Fact::Known(*all, origin.clone())
            }
            (Fact::Known(..), own) => own,
            (Fact::Unknown(gap), _) => Fact::Unknown(gap.clone()),
        };
        let rp_filter = larger(&all.rp_filter, self.rp_filter);
        facts.set(id, netdev::RP_FILTER, rp_filter);
        facts.set(id, netdev::ARP_IGNORE, larger(&all.ignore, self.ignore));
        let announce = larger(&all.announce, self.announce);
        facts.set(id, netdev::ARP_ANNOUNCE, announce);
        let filter = larger(&all.filter, self.filter).map(|on| on > 0);
        facts.set(id, netdev::ARP_FILTER, filter);
    }
}

/// The bonds that carry a rail or a default route. Others are the machine's own business.
fn bonds(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    (rails, adapters): (&BTreeSet<Arc<str>>, &BTreeSet<Arc<str>>),
    mut open: Option<Gap>,
) {
    let (masters, origin) = match bonding::masters(ask).or_absent(Vec::new()) {
        Fact::Known(masters, origin) => (masters, origin),
        Fact::Unknown(gap) => {
            facts.set_members(Subject::Bond, node, Membership::Unknown(gap));
            return;
        }
    };
    if masters.is_empty() {
        facts.set_members(Subject::Bond, node, Membership::Known(origin));
        return;
    }
    let mut carriers: BTreeSet<Arc<str>> = BTreeSet::new();
    match super::netdev::default_routes(ask) {
        Fact::Known(names, _) => carriers.extend(names.iter().cloned()),
        Fact::Unknown(gap) => open = open.or(Some(gap)),
    }
    let below_rails = stack(ask, rails, &mut open);
    let below_adapters = stack(ask, adapters, &mut open);
    let below_routes = stack(ask, &carriers, &mut open);
    for name in &masters {
        let members = bonding::members(ask, name);
        let on = |below: &BTreeSet<Arc<str>>, ports: &BTreeSet<Arc<str>>| {
            let members = members
                .known()
                .is_some_and(|members| members.iter().any(|member| ports.contains(member)));
            members || below.contains(name)
        };
        let roce = on(&below_adapters, adapters);
        if !on(&below_rails, rails) && !below_routes.contains(name) {
            if let Fact::Unknown(gap) = members {
                open = open.or(Some(gap));
            }
            continue;
        }
        let id = facts.instance(Subject::Bond, node, name);
        let how = "the network devices of RoCE ports";
        let roce = Fact::of(proven(roce, open.as_ref()), how);
        facts.set(id, bond::ROCE, roce);
        bonding::describe(ask, facts, id, name, members);
    }
    let membership = Membership::known_unless(
        open,
        Origin::derived("the bonds, the network devices of RoCE ports and the default routes"),
    );
    facts.set_members(Subject::Bond, node, membership);
}

/// The devices and all that they are stacked on.
fn stack(ask: &Ask<'_>, tops: &BTreeSet<Arc<str>>, open: &mut Option<Gap>) -> BTreeSet<Arc<str>> {
    let mut seen = tops.clone();
    let mut level: Vec<Arc<str>> = tops.iter().cloned().collect();
    for _ in 0..STACK {
        let mut next = Vec::new();
        for name in level {
            let entries = ask.names(format!("{NET}/{name}")).or_open(open);
            let entries = entries.unwrap_or_default();
            let lower = entries.iter().filter_map(|e| e.strip_prefix("lower_"));
            next.extend(lower.map(Arc::from));
        }
        next.retain(|name: &Arc<str>| seen.insert(Arc::clone(name)));
        if next.is_empty() {
            break;
        }
        level = next;
    }
    seen
}
