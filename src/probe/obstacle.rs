//! What hinders packets between a network device and the kernel's IP stack, and whether the tables of the kernel are full.
//!
//! All of it is asked by netlink and /proc, which need no privilege.

mod address;
pub(super) mod neighbour;
pub(super) mod printed;
mod qdisc;
pub(super) mod trial;
mod way;

use std::sync::Arc;

use super::routing;
use super::{Ask, Probe, whole_number};
use crate::fact::obstacle::ObstacleKind;
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, PerSecond, Percent, Subject, interface, node,
    obstacle,
};
use crate::network::Network;
use crate::sentence::shell::Command;
use crate::source::{Errno, Question};
use qdisc::{Effect, Qdisc};

/// The probe.
pub const PROBE: Probe = Probe::new("obstacle", run);

/// The kernel's count of neighbours, a line for each CPU.
const ARP_CACHE: &str = "/proc/net/stat/arp_cache";
const NEIGHBOUR_LIMIT: &str = "/proc/sys/net/ipv4/neigh/default/gc_thresh3";
const CONNTRACK: &str = "/proc/sys/net/netfilter/nf_conntrack";

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let mut found = Found {
        facts,
        node,
        open: None,
    };
    // What is asked does not depend on other probes, and names come from them.
    let first = queueing(ask, &mut found);
    let four = way::known(ask, []);
    let six = way::known(ask, [("family", 6.into())]);
    let neighbours = neighbour::Neighbours::ask(ask);
    address::state(ask, &mut found, four.known().map(|(routes, _)| &**routes));
    match four {
        Fact::Known(four, origin) => way::state(&mut found, four, six, &neighbours, &origin),
        Fact::Unknown(gap) => found.missing(&gap),
    }
    if let Fact::Unknown(gap) = &neighbours.four {
        found.missing(gap);
    }
    way::without_arp(&mut found, &neighbours);
    way::permanent(&mut found, &neighbours);
    // Without the list of interfaces an obstacle has no name to stand under.
    if let Err(gap) = found.facts.members(Subject::Interface, node) {
        found.missing(&gap);
    }
    tables(ask, found.facts, node);
    again(ask, &mut found, &first);
    let membership = Membership::known_unless(
        found.open.take(),
        Origin::derived("queueing disciplines, rules and routes"),
    );
    facts.set_members(Subject::Obstacle, node, membership);
}

/// Where obstacles are stated.
struct Found<'f> {
    facts: &'f mut Facts,
    node: Id,
    /// Why there may be others.
    open: Option<Gap>,
}

impl Found<'_> {
    fn missing(&mut self, gap: &Gap) {
        self.open.get_or_insert_with(|| gap.clone());
    }

    /// The name of an interface.
    fn interface(&self, index: u32) -> Option<Arc<str>> {
        let mut all = self.facts.below(self.node, Subject::Interface);
        all.find(|id| self.facts.known(*id, interface::INDEX) == Some(index.into()))
            .map(|id| self.facts.name(id).into())
    }

    /// States an obstacle on an interface.
    fn add(
        &mut self,
        kind: ObstacleKind,
        interface: &Arc<str>,
        network: Option<Network>,
        (what, removal): (String, Command),
        origin: &Origin,
    ) -> Id {
        let name = format!("{what} on {interface}");
        let id = self.facts.instance(Subject::Obstacle, self.node, &name);
        self.facts.know(id, obstacle::REMOVAL, removal, origin);
        let mut set = |key, text: &str| self.facts.know(id, key, text.into(), origin);
        set(obstacle::INTERFACE, interface);
        set(obstacle::WHAT, &what);
        let network = network.map_or("none".to_owned(), |network| network.to_string());
        set(obstacle::NETWORK, &network);
        self.facts.know(id, obstacle::KIND, kind, origin);
        if let Some(own) = self.facts.find(Subject::Interface, self.node, interface) {
            self.facts.relate(id, own);
        }
        if let Some(own) = self.facts.find(Subject::Netdev, self.node, interface) {
            self.facts.relate(id, own);
        }
        id
    }
}

fn disciplines(ask: &Ask<'_>) -> (u64, Fact<Arc<[Qdisc]>>) {
    let (at, all) = ask.bytes_at(Question::netlink("route/getqdisc", []));
    // A kernel without traffic control has none.
    let all = all.and_then(|bytes| qdisc::read(&bytes));
    (at, all.or_refused(Errno::EOPNOTSUPP, [].into()))
}

/// The queueing disciplines as they are now.
fn queueing(ask: &Ask<'_>, found: &mut Found<'_>) -> (u64, Fact<Arc<[Qdisc]>>) {
    let (at, all) = disciplines(ask);
    let (disciplines, origin) = match &all {
        Fact::Known(all, origin) => (all, origin),
        Fact::Unknown(gap) => {
            found.missing(gap);
            return (at, all);
        }
    };
    for one in disciplines.iter() {
        let mut effects = one.effects.clone();
        if one.is_classful_shaper() {
            let index = u64::from(one.index).into();
            let classes = ask
                .bytes(Question::netlink("route/gettclass", [("index", index)]))
                .and_then(|bytes| qdisc::read(&bytes));
            match classes {
                Fact::Known(classes, _) => {
                    effects.extend(qdisc::default_rate(one, &classes).map(Effect::Rate));
                }
                Fact::Unknown(gap) => found.missing(&gap),
            }
        }
        let Some(name) = found.interface(one.index) else {
            continue;
        };
        for effect in effects {
            state(found, one, &name, &effect, origin);
        }
    }
    (at, all)
}

fn state(found: &mut Found<'_>, one: &Qdisc, name: &Arc<str>, effect: &Effect, origin: &Origin) {
    let place = one.place();
    let (kind, does) = match effect {
        Effect::Loss(lost) => (ObstacleKind::Loss, format!(", loss {lost}")),
        Effect::Delay(delay) => (ObstacleKind::Delay, format!(", delay {delay}")),
        Effect::Rate(rate) => (ObstacleKind::Rate, format!(", rate {rate}")),
        Effect::NoRoom => (ObstacleKind::NoRoom, ", limit 0".into()),
    };
    let what = format!("qdisc {} {}{does}", one.kind, place);
    let removal = Command::filled(&format!("tc qdisc del dev {{}} {place}"), &[name]);
    let id = found.add(kind, name, None, (what, removal), origin);
    let facts = &mut *found.facts;
    match effect {
        Effect::Loss(lost) => facts.know(id, obstacle::LOST, *lost, origin),
        Effect::Delay(delay) => facts.know(id, obstacle::DELAY, *delay, origin),
        Effect::Rate(rate) => facts.know(id, obstacle::RATE, *rate, origin),
        Effect::NoRoom => {}
    }
}

/// What queues dropped while a sample was taken.
fn again(ask: &Ask<'_>, found: &mut Found<'_>, (from, first): &(u64, Fact<Arc<[Qdisc]>>)) {
    let Fact::Known(first, _) = first else {
        return;
    };
    match ask.sample().0 {
        Fact::Known(true, _) => {}
        Fact::Known(false, _) => return,
        Fact::Unknown(gap) => return found.missing(&gap),
    }
    let (to, second) = disciplines(ask);
    let (second, origin) = match second {
        Fact::Known(second, origin) => (second, origin),
        Fact::Unknown(gap) => return found.missing(&gap),
    };
    let seconds = to.saturating_sub(*from) as f64 / 1e6;
    for one in second
        .iter()
        .filter(|one| !matches!(&*one.kind, "ingress" | "clsact"))
    {
        let same = |other: &&Qdisc| {
            (other.index, other.handle, other.parent) == (one.index, one.handle, one.parent)
        };
        // What dropped nothing before is not in the first reply.
        let before = first.iter().find(same).map_or(0, |before| before.drops);
        let rise = one.drops.saturating_sub(before);
        if rise == 0 || seconds <= 0.0 {
            continue;
        }
        let Some(name) = found.interface(one.index) else {
            continue;
        };
        let what = format!("qdisc {} {}", one.kind, one.place());
        let look = Command::filled("tc -s qdisc show dev {}", &[&name]);
        let id = found.add(ObstacleKind::Drops, &name, None, (what, look), &origin);
        let rate = PerSecond(rise as f64 / seconds);
        found.facts.know(id, obstacle::DROP_RATE, rate, &origin);
    }
}

/// How full the kernel's tables of neighbours and of connections are.
fn tables(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let neighbours = ask.parse(ARP_CACHE, neighbour::count);
    let limit = ask.parse(NEIGHBOUR_LIMIT, whole_number);
    let neighbour_share = share(neighbours.clone(), limit.clone());
    facts.set(node, node::NEIGHBOUR_SHARE, neighbour_share);
    facts.set(node, node::NEIGHBOURS, neighbours);
    facts.set(node, node::NEIGHBOUR_LIMIT, limit);
    let tracked = ask.text_if_any(format!("{CONNTRACK}_count"));
    let tracked = tracked.parse(0, whole_number);
    let limit = match &tracked {
        // Nothing is tracked where the module is not loaded.
        Fact::Known(0, origin) => Fact::Known(u64::MAX, origin.clone()),
        _ => ask.parse(format!("{CONNTRACK}_max"), whole_number),
    };
    let connection_share = share(tracked.clone(), limit.clone());
    facts.set(node, node::CONNECTION_SHARE, connection_share);
    facts.set(node, node::CONNECTIONS, tracked);
    facts.set(node, node::CONNECTION_LIMIT, limit);
}

fn share(count: Fact<u64>, limit: Fact<u64>) -> Fact<Percent> {
    let both = count.zip(limit);
    both.map(|(count, limit)| Percent(100.0 * count as f64 / limit.max(1) as f64))
}
