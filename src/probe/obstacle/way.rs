//! The way of packets to each interface's own network: rules, routes and neighbours.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::neighbour::{Neighbour, Neighbours};
use super::routing::{self, Action, Decision, MAIN, Route, Rule};
use super::{Ask, Found};
use crate::fact::obstacle::ObstacleKind;
use crate::fact::{Bytes, Fact, Gap, Id, Origin, Subject, interface, obstacle};
use crate::network::Network;
use crate::sentence::shell::Command;
use crate::source::Question;
use crate::source::question::Argument;

const TCP: u8 = 6;

/// The routes and rules of a family.
pub(super) type Known = (Vec<Route>, Vec<Rule>);
/// The addresses of an interface, by its name.
pub(super) type Addresses = HashMap<Arc<str>, Vec<(IpAddr, Network)>>;

/// The routes and rules of IPv4, or of the family that is asked for.
pub(super) fn known<const N: usize>(ask: &Ask<'_>, family: [(&str, Argument); N]) -> Fact<Known> {
    let exceptions = Question::netlink("route/getroute-exceptions", family.clone());
    let exceptions = ask.bytes(exceptions).and_then(|b| routing::routes(&b));
    let rules = routing::rules_asked(ask, family.clone());
    let routes = routing::routes_asked(ask, family).zip(exceptions);
    let all = routes.zip(rules);
    all.map(|((routes, others), rules)| ([routes, others].concat(), rules))
}

/// States what keeps an interface from its own network.
pub(super) fn state(
    found: &mut Found<'_>,
    four: Known,
    six: Fact<Known>,
    neighbours: &Neighbours,
    origin: &Origin,
) {
    let (mut routes, mut rules) = four;
    let without_six = match six {
        Fact::Known(six, _) => {
            routes.extend(six.0);
            rules.extend(six.1);
            None
        }
        Fact::Unknown(gap) => Some(gap),
    };
    let (routes, rules) = (&*routes, &*rules);
    let addresses = addresses(found);
    for own in interfaces(found) {
        let of_own = addresses.get(&own.name).into_iter().flatten();
        describe(
            found,
            &own,
            of_own.clone().map(|(_, net)| *net),
            (routes, rules),
            origin,
        );
        for (address, net) in of_own {
            if !net.has_peers() || net.is_link_local() {
                continue;
            }
            if let (true, Some(gap)) = (net.six, &without_six) {
                found.missing(gap);
                continue;
            }
            let way = NetworkRoute {
                routes,
                own: &own,
                net: *net,
                addresses: &addresses,
                origin,
            };
            match routing::decide(rules, routes, Some(*address), *net) {
                Ok(decision) => way.whole(found, decision, *address),
                Err(what) => found.missing(&Gap::misread(what, origin.clone())),
            }
            if let Some(rule) = routing::refuses_protocol(rules, TCP, *address, *net) {
                way.refused_by_rule(found, rule);
            }
            way.parts(found);
        }
        gateways(found, routes, neighbours, &own);
    }
}

/// States an interface's networks, and whether a router leads to others.
fn describe(
    found: &mut Found<'_>,
    own: &Interface,
    networks: impl Iterator<Item = Network>,
    (routes, rules): (&[Route], &[Rule]),
    origin: &Origin,
) {
    let Some(id) = found.facts.find(Subject::Interface, found.node, &own.name) else {
        return;
    };
    let networks = networks.filter(|net| !net.is_link_local());
    let networks: Arc<[Arc<str>]> = networks.map(|net| net.to_string().into()).collect();
    let routed = |route: &Route| route.gateway && route.interfaces.contains(&own.index);
    let routed = routes.iter().any(routed);
    // A table that is not listed may lead to a router.
    if routed || !rules.iter().any(|rule| rule.action == Action::Unlisted) {
        found.facts.know(id, interface::ROUTED, routed, origin);
    }
    found.facts.know(id, interface::NETWORKS, networks, origin);
}

/// An interface that is up.
pub(super) struct Interface {
    pub(super) name: Arc<str>,
    pub(super) index: u32,
    mtu: Option<Bytes>,
    of_ipv4: bool,
}

pub(super) fn interfaces(found: &Found<'_>) -> Vec<Interface> {
    let facts = &*found.facts;
    let of = |id: Id| {
        let up = facts.known(id, interface::UP)? && !facts.known(id, interface::LOOPBACK)?;
        Some(Interface {
            name: facts.name(id).into(),
            index: facts.known(id, interface::INDEX)?.try_into().ok()?,
            mtu: facts.known(id, interface::MTU),
            of_ipv4: facts
                .known(id, interface::ADDRESSES)
                .is_some_and(|all| all.iter().any(|address| address.contains('.'))),
        })
        .filter(|_| up)
    };
    facts
        .below(found.node, Subject::Interface)
        .filter_map(of)
        .collect()
}

/// NCCL takes addresses of IPv4 before those of IPv6: the latter count where an interface has no others.
pub(super) fn addresses(found: &Found<'_>) -> Addresses {
    let facts = &*found.facts;
    let read = |text: &Arc<str>| {
        let (address, length) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        Some((address, Network::of(address, length.parse().ok()?)?))
    };
    let of = |id: Id| {
        let list = facts.known(id, interface::ADDRESSES)?;
        let mut all: Vec<_> = list.iter().filter_map(read).collect();
        if all.iter().any(|(address, _)| address.is_ipv4()) {
            all.retain(|(address, _)| address.is_ipv4());
        }
        Some((facts.name(id).into(), all))
    };
    facts
        .below(found.node, Subject::Interface)
        .filter_map(of)
        .collect()
}

/// Whether an interface of this kind is the machine's own business: containers, virtual machines, tunnels.
fn is_inner(found: &Found<'_>, name: &str) -> bool {
    let kind = found.facts.find(Subject::Interface, found.node, name);
    let kind = kind.and_then(|id| found.facts.known(id, interface::KIND));
    kind.is_some_and(|kind| !matches!(&*kind, "none" | "vlan" | "bond" | "team" | "vrf" | "ipoib"))
}

/// The way of an interface to one of its networks.
struct NetworkRoute<'a> {
    routes: &'a [Route],
    own: &'a Interface,
    net: Network,
    addresses: &'a Addresses,
    origin: &'a Origin,
}

impl NetworkRoute<'_> {
    fn add(
        &self,
        found: &mut Found<'_>,
        kind: ObstacleKind,
        net: Network,
        text: (String, Command),
    ) -> Id {
        found.add(kind, &self.own.name, Some(net), text, self.origin)
    }

    fn refused_by_rule(&self, found: &mut Found<'_>, rule: &Rule) {
        let ip = ip(self.net);
        let removal = Command::of_words(format!("{ip} rule del {rule}").split(' '));
        let text = (format!("{ip} rule {rule}"), removal);
        self.add(found, ObstacleKind::Unroutable, self.net, text);
    }

    /// What becomes of packets to all of the network.
    fn whole(&self, found: &mut Found<'_>, decision: Decision<'_>, address: IpAddr) {
        let (name, net) = (&self.own.name, self.net);
        let restoring = format!("{} route replace {net} dev {{}} src {address}", ip(net));
        let restore = Command::filled(&restoring, &[name]);
        let route = match decision {
            Decision::Rule(rule) => return self.refused_by_rule(found, rule),
            Decision::Nothing => {
                let text = (format!("no route to {net}"), restore);
                self.add(found, ObstacleKind::Unroutable, net, text);
                return;
            }
            Decision::Route(route) => route,
        };
        let (what, removal) = said(found, route);
        if route.refuses.is_some() {
            self.add(found, ObstacleKind::Unroutable, net, (what, removal));
        } else if !route.interfaces.contains(&self.own.index) {
            if self.leads_astray(found, route, net) {
                let fix = if route.to == net { removal } else { restore };
                self.add(found, ObstacleKind::OtherDevice, net, (what, fix));
            }
        } else if route.gateway {
            self.add(found, ObstacleKind::Gateway, net, (what, restore));
        } else if let (Some(mtu), Some(own)) = (route.mtu, self.own.mtu)
            && u64::from(mtu) < own.0
        {
            let text = (format!("{what} mtu {mtu}"), restore);
            let id = self.add(found, ObstacleKind::RouteMtu, net, text);
            let mtu = Bytes(mtu.into());
            found.facts.know(id, obstacle::MTU, mtu, self.origin);
        }
    }

    /// Routes to parts of the network that lead elsewhere.
    fn parts(&self, found: &mut Found<'_>) {
        for route in self.routes {
            let part = route.to.length > self.net.length && self.net.contains(route.to);
            if !part || route.table != MAIN || route.interfaces.contains(&self.own.index) {
                continue;
            }
            let kind = match route.refuses {
                Some(_) => ObstacleKind::PartUnroutable,
                None if self.leads_astray(found, route, route.to) => ObstacleKind::OtherDevice,
                None => continue,
            };
            let text = said(found, route);
            self.add(found, kind, route.to, text);
        }
    }

    /// Whether a route leads out of an interface that peers are not behind. Two rails in one network have checks of their own.
    fn leads_astray(&self, found: &Found<'_>, route: &Route, net: Network) -> bool {
        let names = route
            .interfaces
            .iter()
            .filter_map(|index| found.interface(*index));
        let mut names = names.collect::<Vec<_>>().into_iter();
        names.all(|name| {
            let own = self.addresses.get(&name).into_iter().flatten();
            is_inner(found, &name)
                || !own
                    .into_iter()
                    .any(|(_, of)| of.contains(net) || net.contains(*of))
        })
    }
}

/// A route as ip-route(8) lists it, and the command that removes it.
fn said(found: &Found<'_>, route: &Route) -> (String, Command) {
    let mut text = match (route.refuses, route.to.length) {
        (Some(how), _) => format!("{how} {}", route.to),
        (None, 0) => "default".into(),
        (None, _) => route.to.to_string(),
    };
    if let Some(gateway) = route.gateway_address {
        text += &format!(" via {gateway}");
    }
    if let Some(name) = route
        .interfaces
        .first()
        .and_then(|index| found.interface(*index))
    {
        text += &format!(" dev {name}");
    }
    if route.table != MAIN {
        text += &format!(" table {}", route.table);
    }
    let ip = ip(route.to);
    let removal = Command::of_words(format!("{ip} route del {text}").split(' '));
    (format!("{ip} route {text}"), removal)
}

/// The command for networks of this family.
fn ip(net: Network) -> &'static str {
    if net.six { "ip -6" } else { "ip" }
}

/// Default gateways that do not answer. That of IPv6 counts on interfaces without an address of IPv4, as jobs choose theirs.
fn gateways(found: &mut Found<'_>, routes: &[Route], neighbours: &Neighbours, own: &Interface) {
    let of_own = |route: &&Route| route.to.length == 0 && route.interfaces.contains(&own.index);
    for route in routes.iter().filter(of_own) {
        let gateway = route.gateway_address;
        let Some(gateway) = gateway.filter(|gateway| gateway.is_ipv4() || !own.of_ipv4) else {
            continue;
        };
        let (neighbours, origin) = match neighbours.of(gateway) {
            Fact::Known(neighbours, origin) => (neighbours, origin),
            Fact::Unknown(gap) => {
                found.missing(gap);
                continue;
            }
        };
        let silent =
            |one: &Neighbour| one.failed && one.index == own.index && one.address == gateway;
        if neighbours.iter().any(silent) {
            let (kind, text) = (ObstacleKind::GatewayUnanswered, said(found, route));
            let id = found.add(kind, &own.name, None, text, origin);
            let gateway = gateway.to_string().into();
            found.facts.know(id, obstacle::GATEWAY, gateway, origin);
        }
    }
}

/// The neighbours of each interface that somebody wrote down.
pub(super) fn permanent(found: &mut Found<'_>, neighbours: &Neighbours) {
    for own in interfaces(found) {
        let all = neighbours.known();
        let all = all.filter(|n| n.permanent && n.index == own.index);
        let lines = all.filter_map(|n| Some(format!("{} {}", n.address, n.mac.as_ref()?).into()));
        let lines: Arc<[Arc<str>]> = lines.collect();
        if let Some(id) = found.facts.find(Subject::Interface, found.node, &own.name) {
            let written = neighbours.four.clone().map(|_| lines);
            let key = interface::PERMANENT_NEIGHBOURS;
            found.facts.set(id, key, written);
        }
    }
}

/// Interfaces of hardware that ask nobody for hardware addresses, and have none written down.
pub(super) fn without_arp(found: &mut Found<'_>, neighbours: &Neighbours) {
    if neighbours.four.known().is_none() {
        return;
    }
    for own in interfaces(found) {
        let Some(id) = found.facts.find(Subject::Interface, found.node, &own.name) else {
            continue;
        };
        let mut neighbours = neighbours.known();
        let written = neighbours.any(|n| n.permanent && n.index == own.index);
        if let Fact::Known(false, origin) = found.facts.get(id, interface::ARP)
            && !written
            && !is_inner(found, &own.name)
        {
            let removal = Command::filled("ip link set {} arp on", &[&own.name]);
            let text = ("NOARP".to_owned(), removal);
            found.add(ObstacleKind::NoArp, &own.name, None, text, &origin);
        }
    }
}
