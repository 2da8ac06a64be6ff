//! The network devices of RDMA ports, and those that carry a default route.

mod parse;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::device::{self, PortEntry};
use super::routing::{self, Route};
use super::{Ask, Probe};
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, Presence, Subject, Why, known, netdev, node, port,
};
use crate::source::{Question, Refusal};

/// The probe.
pub const PROBE: Probe = Probe::new("netdev", run);

pub(super) const NET: &str = "/sys/class/net";
/// A RoCE port's GIDs begin with the default ones of its network device: if these name none, later ones need not be tried.
const GIDS: usize = 4;
/// Devices stacked on each other (bridge on VLAN on bond on port), beyond which nothing is followed.
const STACK: u32 = 4;

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (ports, membership) = device::ports(ask, facts, node);
    // What keeps the list of network devices from being whole.
    let mut open = match membership {
        Membership::Known(_) => None,
        Membership::Unknown(gap) => Some(gap),
    };
    let mut of_netdev: BTreeMap<Arc<str>, Vec<&PortEntry>> = BTreeMap::new();
    let mut texts = Texts::new(ask);
    for port in &ports {
        let netdev = netdev_of(&mut texts, port);
        if let Some(Some(name)) = netdev.clone().if_any().or_open(&mut open) {
            of_netdev.entry(name).or_default().push(port);
        }
        facts.set(port.id, port::HAS_NETDEV, netdev.is_present());
        let none = Why::NotSaid("the port has no network device".into());
        facts.set(port.id, port::NETDEV, netdev.or_gap(none));
    }

    let routes = default_routes(ask);
    let all_ports = open.clone();
    let carriers = routes.clone().or_open(&mut open).unwrap_or_default();
    for carrier in carriers.iter() {
        of_netdev.entry(Arc::clone(carrier)).or_default();
    }
    let membership = Membership::known_unless(
        open,
        Origin::derived("the ports' network devices and the default routes"),
    );
    facts.set_members(Subject::Netdev, node, membership);
    for (name, of) in of_netdev {
        let id = facts.instance(Subject::Netdev, node, &name);
        describe(ask, facts, id, &name);
        let names: Arc<[Arc<str>]> = of.iter().map(|port| Arc::from(&*port.name)).collect();
        let ports = Fact::derived(names, "netdev of each port").unless(all_ports.clone());
        facts.set(id, netdev::PORTS, ports);
        facts.set(id, netdev::DEFAULT_ROUTE, carries(ask, &name, &routes));
        for port in of {
            facts.relate(port.id, id);
        }
    }
    facts.set(node, node::DEFAULT_ROUTE, routes);
}

fn describe(ask: &Ask<'_>, facts: &mut Facts, id: Id, name: &str) {
    let dir = format!("{NET}/{name}");
    let flags = ask.parse(format!("{dir}/flags"), super::whole_number);
    // IFF_UP
    facts.set(id, netdev::UP, flags.map(|flags| flags & 1 == 1));
    let operstate = ask.parse(format!("{dir}/operstate"), parse::operstate);
    facts.set(id, netdev::OPERSTATE, operstate);
    facts.set(id, netdev::MTU, ask.parse(format!("{dir}/mtu"), parse::mtu));
    let speed = ask.parse(format!("{dir}/speed"), parse::speed);
    facts.set(id, netdev::SPEED, speed);
    let changes = ask.parse(format!("{dir}/carrier_changes"), super::whole_number);
    facts.set(id, netdev::CARRIER_CHANGES, changes);
}

/// The devices of the default routes, in order, each once. Where the file lists more routes than are
/// read, or nothing at all, the kernel tells the default ones alone: of a network namespace without a
/// main table the file has not even a heading (`fib_route_seq_start` of net/ipv4/fib_trie.c).
pub(super) fn default_routes(ask: &Ask<'_>) -> Fact<Arc<[Arc<str>]>> {
    let listed = ask.parse("/proc/net/route", |text| {
        let has_heading = !text.is_empty();
        has_heading.then(|| parse::default_routes(text)).transpose()
    });
    match listed {
        Fact::Known(None, _) => {}
        Fact::Known(Some(listed), origin) => return Fact::Known(listed, origin),
        Fact::Unknown(gap) if gap.why == Why::Refused(Refusal::TooLarge) => {}
        Fact::Unknown(gap) => return Fact::Unknown(gap),
    }
    let (routes, origin) = known!(routing::routes_asked(ask, []), with origin);
    let mut names: HashMap<u64, Arc<str>> = HashMap::new();
    // The kernel keeps a file between the devices.
    let devices = known!(ask.names(NET));
    for name in devices.iter().filter(|name| &***name != "bonding_masters") {
        let index = known!(ask.parse(format!("{NET}/{name}/ifindex"), super::whole_number));
        names.insert(index, Arc::clone(name));
    }
    let mut found: Vec<Arc<str>> = Vec::new();
    for index in routes
        .iter()
        .filter(is_default)
        .flat_map(|route| &route.interfaces)
    {
        match names.get(&u64::from(*index)) {
            Some(name) if !found.contains(name) => found.push(Arc::clone(name)),
            Some(_) => {}
            None => return Fact::Unknown(Gap::missing(format!("the name of interface {index}"))),
        }
    }
    Fact::Known(found.into(), origin)
}

fn is_default(route: &&Route) -> bool {
    route.to.length == 0 && route.table == routing::MAIN && route.refuses.is_none()
}

/// Whether a default route goes over the device: it names the device, or a bond, bridge or VLAN on top of it.
fn carries(ask: &Ask<'_>, name: &str, routes: &Fact<Arc<[Arc<str>]>>) -> Fact<bool> {
    let (carriers, origin) = known!(routes, with origin);
    let mut seen: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut level: Vec<Arc<str>> = vec![name.into()];
    for _ in 0..STACK {
        if level.iter().any(|name| carriers.contains(name)) {
            return Fact::Known(true, origin.clone());
        }
        let mut above = Vec::new();
        for name in level {
            let entries = known!(ask.names(format!("{NET}/{name}")));
            let upper = entries.iter().filter_map(|e| e.strip_prefix("upper_"));
            above.extend(upper.map(Arc::from));
        }
        above.retain(|name| seen.insert(Arc::clone(name)));
        if above.is_empty() {
            break;
        }
        level = above;
    }
    Fact::Known(false, origin.clone())
}

/// Files that matter to each port of a device, and are read once.
pub(super) struct Texts<'a, 's> {
    ask: &'a Ask<'s>,
    read: HashMap<String, Fact<Arc<str>>>,
}

impl<'a, 's> Texts<'a, 's> {
    /// None read yet.
    pub(super) fn new(ask: &'a Ask<'s>) -> Self {
        Texts {
            ask,
            read: HashMap::new(),
        }
    }

    /// The file's text, asked for once.
    pub(super) fn text(&mut self, path: String) -> Fact<Arc<str>> {
        if let Some(known) = self.read.get(&path) {
            return known.clone();
        }
        let fact = self.ask.text(path.as_str());
        self.read.insert(path, fact.clone());
        fact
    }

    fn number(&mut self, path: String) -> Fact<u64> {
        self.text(path).and_then(|text| super::whole_number(&text))
    }
}

/// The port's network device. Absent only where something says so.
pub(super) fn netdev_of(texts: &mut Texts<'_, '_>, port: &PortEntry) -> Presence<Arc<str>> {
    let ask = texts.ask;
    let device = format!("{}/{}", device::CLASS, port.device);
    // Soft-RoCE names the device that it sits on.
    if let Fact::Known(name, origin) = texts.text(format!("{device}/parent"))
        && !name.is_empty()
    {
        return Presence::Present(name, origin);
    }
    // The GIDs of InfiniBand have no network device.
    let link_layer = texts.text(format!("{}/link_layer", port.dir));
    if matches!(link_layer, Fact::Known(layer, _) if &*layer == "Ethernet")
        && let Some(found) = by_gids(ask, port)
    {
        return found;
    }
    // Without a device below it: siw has a network device, and does not say which.
    if ask.exists(&format!("{device}/device")).known() == Some(&false) {
        let what = "it has no link `device`, below which network devices are listed";
        return Presence::Unknown(Gap::not_understood(&Question::list(device), what));
    }
    match ask.names_if_any(format!("{device}/device/net")) {
        Presence::Present(names, origin) if names.is_empty() => Presence::Absent(origin),
        Presence::Present(names, origin) => by_port_number(texts, port, &device, &names, origin),
        Presence::Absent(origin) => Presence::Absent(origin),
        Presence::Unknown(gap) => Presence::Unknown(gap),
    }
}

/// The network device of the first GIDs, if one is named.
fn by_gids(ask: &Ask<'_>, port: &PortEntry) -> Option<Presence<Arc<str>>> {
    let dir = format!("{}/gid_attrs/ndevs", port.dir);
    let Fact::Known(names, _) = ask.names(dir.as_str()) else {
        return None;
    };
    let (indexes, _) = device::numbers(&names);
    for index in indexes.into_iter().take(GIDS) {
        if let Fact::Known(name, origin) = ask.text(format!("{dir}/{index}"))
            && !name.is_empty()
        {
            return Some(Presence::Present(name, origin));
        }
    }
    None
}

/// The one network device of the PCI function that has the port's number.
fn by_port_number(
    texts: &mut Texts<'_, '_>,
    port: &PortEntry,
    device: &str,
    names: &[Arc<str>],
    origin: Origin,
) -> Presence<Arc<str>> {
    let mut fitting: Vec<&Arc<str>> = Vec::new();
    let mut silent: Vec<&Arc<str>> = Vec::new();
    let mut missing = None;
    for name in names {
        let dir = format!("{device}/device/net/{name}");
        // IPoIB counts its ports in dev_id, others in dev_port: whichever is not 0 tells, and both are 0 for port 1.
        let number = match texts.number(format!("{dir}/dev_port")) {
            port @ Fact::Known(1.., _) => port,
            port => texts.number(format!("{dir}/dev_id")).or_else(|| port),
        };
        match number {
            Fact::Known(number, _) if number + 1 == port.number => fitting.push(name),
            Fact::Known(..) => {}
            Fact::Unknown(gap) => {
                silent.push(name);
                missing.get_or_insert(gap);
            }
        }
    }
    // IPoIB's further partitions (ib0.8001) stand beside the first (ib0).
    let all = fitting.clone();
    fitting.retain(|name| {
        let base = name.split_once('.').map(|(base, _)| base);
        !base.is_some_and(|base| all.iter().any(|other| &***other == base))
    });
    match (&fitting[..], &silent[..], missing) {
        ([one], [], _) => Presence::Present(Arc::clone(one), origin),
        // One function, one port, one network device: their numbers need not be asked for.
        ([], [one], _) if names.len() == 1 && port.number == 1 && only_port(texts.ask, device) => {
            Presence::Present(Arc::clone(one), origin)
        }
        ([], [], _) => Presence::Absent(origin),
        (.., Some(gap)) => Presence::Unknown(gap),
        _ => Presence::Unknown(Gap::not_said(
            format!(
                "several network devices fit: {}",
                fitting.iter().map(|n| &***n).collect::<Vec<_>>().join(", ")
            ),
            origin,
        )),
    }
}

fn only_port(ask: &Ask<'_>, device: &str) -> bool {
    ask.names(format!("{device}/ports"))
        .known()
        .is_some_and(|ports| ports.len() == 1)
}
