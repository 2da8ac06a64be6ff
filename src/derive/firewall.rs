//! What must get through the packet filter, and whether it does.

mod evaluate;
mod manager;
mod packet;
mod passage;
mod remedy;
#[cfg(test)]
mod tests;

use super::Derivation;
use super::obstacle::riders;
use std::sync::Arc;

use self::packet::{Addresses, Packet, PacketDirection, Transport, Version};
use self::passage::{Judged, Legs, Segment};
use crate::fact::device::NodeType;
use crate::fact::flow::{Direction, FlowPassage, Purpose};
use crate::fact::gid::GidKind;
use crate::fact::port::LinkLayer;
use crate::fact::ruleset::{Base, Ruleset, state};
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, Percent, Subject, device, flow, gid, interface,
    limit, node, port, selection, setting,
};

/// What is sent to a port of this number is RoCE v2 (IANA).
const ROCE: u16 = 4791;
/// RoCE v2 sends from these (`include/rdma/ib_verbs.h`, IB_ROCE_UDP_ENCAP_VALID_PORT_MIN and _MAX).
const ROCE_SOURCES: (u16, u16) = (0xc000, 0xffff);
/// Ports from which a program may send that asked for none in particular, where this system's own
/// are not known.
const EPHEMERAL: (u16, u16) = (1024, 65535);
const SYN: u8 = 2;
const ACK: u8 = 16;

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "firewall",
    &["port.intended", "selection", "selection.interface"],
    derive,
);

/// What stands for the interface that a job uses, where none is known.
const ANY: &str = "any interface";

/// Makes the node's flows and judges each by the rules in force.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let ruleset = ruleset(facts, node);
    manager::derive(facts, node, &ruleset);
    let mut flows = Flows {
        cuts: match &ruleset {
            Fact::Known(ruleset, _) => passage::cuts(ruleset),
            Fact::Unknown(_) => Vec::new(),
        },
        picked: EPHEMERAL,
        hole: facts.limit(limit::PORT_HOLE),
        ruleset,
        node,
    };
    let open = flows.tcp(facts).or(flows.roce(facts));
    whichever(facts, node);
    let membership = Membership::known_unless(
        open,
        Origin::derived("the interfaces that jobs use, and RoCE ports"),
    );
    facts.set_members(Subject::Flow, node, membership);
}

/// The rules, where those of a device are those of what sends through it: a VLAN, the bond that it
/// is a member of.
fn ruleset(facts: &Facts, node: Id) -> Fact<Arc<Ruleset>> {
    facts.ruleset(node).map(|mut ruleset| {
        let named = |base: &Base| base.devices.as_ref().is_some_and(|all| !all.is_empty());
        let mut chains = ruleset.tables.iter().flat_map(|table| &table.chains);
        if chains.any(|chain| chain.base.as_ref().is_some_and(named)) {
            for table in &mut Arc::make_mut(&mut ruleset).tables {
                let bases = table
                    .chains
                    .iter_mut()
                    .filter_map(|chain| chain.base.as_mut());
                for devices in bases.filter_map(|base| base.devices.as_mut()) {
                    let all = devices.iter().flat_map(|name| riders(facts, node, name));
                    *devices = all.collect();
                }
            }
        }
        ruleset
    })
}

/// What the rules in force do to TCP to this port over this interface, and the rule that decides;
/// `None` where it is not known.
pub fn tcp(
    facts: &Facts,
    node: Id,
    interface: &Arc<str>,
    direction: Direction,
    port: u16,
) -> Option<(FlowPassage, Arc<str>)> {
    let ruleset = ruleset(facts, node);
    let known = Arc::clone(ruleset.known()?);
    let flows = Flows {
        cuts: passage::cuts(&known),
        picked: EPHEMERAL,
        hole: facts.limit(limit::PORT_HOLE),
        ruleset,
        node,
    };
    let used = Fact::derived(true, "TCP of the kernel");
    let one = ExaminedFlow::tcp(Purpose::Rendezvous, direction, interface, used);
    let addresses = addresses(facts, node, interface);
    let judged = flows.verdict(&known, &one, &addresses, (port, port)).ok()?;
    Some((judged.passage, judged.rule))
}

/// Where none of the interfaces that jobs may use lets a flow through, it does not matter which
/// they use. Known only where every interface that they may use is known, and was judged.
fn whichever(facts: &mut Facts, node: Id) {
    if facts.members(Subject::Interface, node).is_err() {
        return;
    }
    let usable = usable(facts, node);
    for (purpose, direction) in [
        (Purpose::Bootstrap, Direction::In),
        (Purpose::Bootstrap, Direction::Out),
        (Purpose::Rendezvous, Direction::In),
        (Purpose::Rendezvous, Direction::Out),
    ] {
        let of = |id: &Id| {
            facts.known(*id, flow::PURPOSE) == Some(purpose)
                && facts.known(*id, flow::DIRECTION) == Some(direction)
                && facts.known(*id, flow::USED) != Some(false)
        };
        let same: Vec<Id> = facts.below(node, Subject::Flow).filter(of).collect();
        let judged = |name: &Arc<str>| {
            let mut all = facts.below(node, Subject::Flow);
            all.any(|id| {
                facts.known(id, flow::PURPOSE) == Some(purpose)
                    && facts.known(id, flow::INTERFACE).as_ref() == Some(name)
            })
        };
        let blocked = |id: &Id| {
            let verdict = facts.known(*id, flow::VERDICT);
            matches!(verdict, Some(FlowPassage::Dropped | FlowPassage::Rejected))
        };
        if usable.iter().all(judged) && same.iter().all(blocked) {
            for id in same {
                let why = "no interface that jobs may use lets it through";
                facts.derive(id, flow::USED, true, why);
            }
        }
    }
}

/// Each interface that is not known to be down, without an address, within the machine, or the
/// bridge of its containers.
fn usable(facts: &Facts, node: Id) -> Vec<Arc<str>> {
    let usable = |id: &Id| {
        let is = |key, value| facts.known(*id, key) == Some(value);
        !is(interface::UP, false)
            && !is(interface::LOOPBACK, true)
            && facts
                .known(*id, interface::ADDRESSES)
                .is_none_or(|list| !list.is_empty())
            && !is_inner_bridge(facts, node, *id)
    };
    let all = facts.below(node, Subject::Interface).filter(usable);
    all.map(|id| facts.name(id).into()).collect()
}

/// Whether an interface is a bridge without a port to the outside.
fn is_inner_bridge(facts: &Facts, node: Id, bridge: Id) -> bool {
    let outward = |member: Id| {
        let master = facts.known(member, interface::MASTER);
        let kind = facts.known(member, interface::KIND);
        master.is_none_or(|master| &*master == facts.name(bridge))
            && kind.is_none_or(|kind| !matches!(&*kind, "veth" | "tun"))
    };
    let kind = facts.known(bridge, interface::KIND);
    kind.is_some_and(|kind| &*kind == "bridge")
        && !facts.below(node, Subject::Interface).any(outward)
}

/// An interface that TCP between nodes may use.
pub(super) struct Candidate {
    pub(super) name: Arc<str>,
    pub(super) used: Fact<bool>,
}

/// What is known of an interface's addresses.
#[derive(Clone, Copy, Default)]
struct AddressPair {
    own: Addresses,
    peer: Addresses,
}

struct Flows {
    ruleset: Fact<Arc<Ruleset>>,
    /// Ports at which rules begin or end to match.
    cuts: Vec<u32>,
    /// Ports from which connections are opened.
    picked: (u16, u16),
    /// The part of these ports that counts.
    hole: Percent,
    node: Id,
}

impl Flows {
    /// The flows of TCP, and of what belongs to it.
    fn tcp(&mut self, facts: &mut Facts) -> Option<Gap> {
        let (candidates, open) = candidates(facts, self.node);
        let range = facts.get(self.node, node::PORT_RANGE).and_then(|text| {
            let ends = text.split_once('-');
            let ends = ends.and_then(|(low, high)| low.parse().ok().zip(high.parse().ok()));
            ends.ok_or(format!("{text:?} is not a range of ports"))
        });
        if let Fact::Known(range, _) = &range {
            self.picked = *range;
        }
        let rendezvous = ["MASTER_PORT", "PET_MASTER_PORT"]
            .into_iter()
            .find_map(|name| facts.find(Subject::Setting, self.node, name))
            .map(|id| facts.get(id, setting::VALUE));
        // A job may name a port that was not seen: then there may be more flows than these.
        let unseen = match rendezvous {
            None => facts.incomplete(self.node, Subject::Setting),
            Some(_) => None,
        };
        let port = rendezvous.as_ref().map(|port| {
            port.clone().and_then(|text| {
                let port: u16 = text
                    .trim()
                    .parse()
                    .map_err(|_| format!("{text:?} is not a port"))?;
                Ok((port, port))
            })
        });
        let rank_0 = RankZero::find(facts, self.node);
        if let (Some(rank_0), Some(port)) = (&rank_0, &port) {
            let used = Fact::derived(true, "the kernel's way to rank 0");
            let purpose = Purpose::Rendezvous;
            let one = ExaminedFlow::tcp(purpose, Direction::Out, &rank_0.interface, used);
            let addresses = rank_0.addresses(facts, self.node);
            self.judge(facts, one, &addresses, port);
        }
        let mut local = false;
        for candidate in candidates {
            let name = &candidate.name;
            let addresses = addresses(facts, self.node, name);
            if addresses.as_ref().is_ok_and(Vec::is_empty) {
                // Without an address nobody connects to it.
                continue;
            }
            let used = candidate.used;
            if used.known() != Some(&false) {
                if !local {
                    self.local(facts, &addresses, &range);
                    local = true;
                }
                for direction in [Direction::In, Direction::Out] {
                    let flow = |purpose| ExaminedFlow::tcp(purpose, direction, name, used.clone());
                    self.judge(facts, flow(Purpose::Bootstrap), &addresses, &range);
                    let is_judged = direction == Direction::Out && rank_0.is_some();
                    if let (Some(port), false) = (&port, is_judged) {
                        self.judge(facts, flow(Purpose::Rendezvous), &addresses, port);
                    }
                }
                let one = ExaminedFlow {
                    filtered: Fact::derived(true, "IP of the kernel"),
                    ..ExaminedFlow::tcp(Purpose::PathMtu, Direction::In, name, used.clone())
                };
                self.judge(facts, one, &addresses, &Fact::derived((0, 0), "ICMP"));
            }
            let one = ExaminedFlow::tcp(Purpose::Ssh, Direction::In, name, used);
            self.judge(facts, one, &addresses, &Fact::derived((22, 22), "ssh(1)"));
        }
        open.or(unseen)
    }

    /// Between processes of one node, which connect to the node's own address over the loopback
    /// interface.
    fn local(
        &mut self,
        facts: &mut Facts,
        addresses: &Result<Vec<(Version, AddressPair)>, Gap>,
        range: &Fact<(u16, u16)>,
    ) {
        let (lo, used) = ("lo".into(), Fact::derived(true, "each job"));
        let one = ExaminedFlow::tcp(Purpose::Local, Direction::In, &lo, used);
        self.judge(facts, one, addresses, range);
    }

    /// RoCE v2, of each Ethernet port that speaks it.
    fn roce(&mut self, facts: &mut Facts) -> Option<Gap> {
        let mut open = facts.incomplete(self.node, Subject::Port);
        let mut seen: Vec<Arc<str>> = Vec::new();
        for id in facts.below(self.node, Subject::Port).collect::<Vec<_>>() {
            let kind = facts
                .parent(id)
                .map(|device| facts.get(device, device::NODE_TYPE));
            let roce = match (facts.get(id, port::LINK_LAYER), kind) {
                (Fact::Known(LinkLayer::Ethernet, _), Some(Fact::Known(NodeType::Ca, _))) => true,
                (Fact::Known(..), Some(Fact::Known(..))) => false,
                (Fact::Unknown(gap), _) | (_, Some(Fact::Unknown(gap))) => {
                    open.get_or_insert(gap);
                    false
                }
                (_, None) => false,
            };
            if !roce || facts.known(id, port::HAS_NETDEV) == Some(false) {
                continue;
            }
            let Some(name) = facts.get(id, port::NETDEV).or_open(&mut open) else {
                continue;
            };
            if seen.contains(&name) {
                continue;
            }
            seen.push(Arc::clone(&name));
            let none = || Fact::Unknown(Gap::missing("device.software"));
            let filtered = facts.parent(id);
            let filtered = filtered.map_or_else(none, |of| facts.get(of, device::SOFTWARE));
            let addresses = addresses(facts, self.node, &name);
            let own = facts.find(Subject::Interface, self.node, &name);
            let up = own.and_then(|own| facts.known(own, interface::UP));
            // A spare adapter: nothing is sent before somebody sets it up.
            if up == Some(false) && addresses.as_ref().is_ok_and(Vec::is_empty) {
                continue;
            }
            let used = facts.get(id, port::INTENDED);
            for direction in [Direction::In, Direction::Out] {
                let one = ExaminedFlow {
                    purpose: Purpose::Roce,
                    direction,
                    interface: &name,
                    used: used.clone(),
                    filtered: filtered.clone(),
                };
                let ports = Fact::derived((ROCE, ROCE), "RoCE v2");
                let flow = self.judge(facts, one, &addresses, &ports);
                facts.relate(flow, id);
            }
        }
        open
    }

    fn judge(
        &self,
        facts: &mut Facts,
        one: ExaminedFlow<'_>,
        addresses: &Result<Vec<(Version, AddressPair)>, Gap>,
        range: &Fact<(u16, u16)>,
    ) -> Id {
        let id = facts.instance(Subject::Flow, self.node, &one.name());
        for subject in [Subject::Netdev, Subject::Interface] {
            if let Some(of) = facts.find(subject, self.node, one.interface) {
                facts.relate(id, of);
            }
        }
        let how = Origin::derived("the flow itself");
        facts.know(id, flow::PURPOSE, one.purpose, &how);
        facts.know(id, flow::DIRECTION, one.direction, &how);
        facts.know(id, flow::INTERFACE, Arc::clone(one.interface), &how);
        facts.set(id, flow::USED, one.used.clone());
        facts.set(id, flow::FILTERED, one.filtered.clone());
        let ports = range.clone().map(|range| passage::range_text(range).into());
        facts.set(id, flow::PORTS, ports);
        let of_system = matches!(one.purpose, Purpose::Bootstrap | Purpose::Local);
        let judged = match (&self.ruleset, range) {
            (Fact::Known(ruleset, origin), Fact::Unknown(gap)) if of_system => {
                // What no port gets through is blocked, whichever the system takes.
                let judged = self.verdict(ruleset, &one, addresses, EPHEMERAL).ok();
                let blocked = judged.filter(passage::Judged::is_blocked);
                blocked
                    .map(|judged| (judged, origin.clone()))
                    .ok_or_else(|| gap.clone())
            }
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Err(gap.clone()),
            (Fact::Known(ruleset, origin), Fact::Known(range, _)) => self
                .verdict(ruleset, &one, addresses, *range)
                .map(|judged| (judged, origin.clone())),
        };
        let (judged, origin) = match judged {
            Ok((judged, origin)) => (Ok(judged), origin),
            Err(gap) => (Err(gap), Origin::Stated),
        };
        if let Ok(judged) = &judged {
            let own = facts.find(Subject::Interface, self.node, one.interface);
            let networks = own.and_then(|own| facts.known(own, interface::NETWORKS));
            let network = networks.as_deref().and_then(|all| all.first());
            let network: Arc<str> = network.map_or_else(|| "SUBNET".into(), Arc::clone);
            let packets = remedy::Packets {
                purpose: one.purpose,
                direction: one.direction,
                interface: one.interface,
                network: &network,
            };
            let command = remedy::remedy(&judged.rule, packets);
            let accepting =
                remedy::accepting(&judged.rule, packets).unwrap_or_else(|| command.clone());
            facts.know(id, flow::REMEDY, command, &origin);
            facts.know(id, flow::ACCEPTING, accepting, &origin);
            facts.know(id, flow::NETWORK, network, &origin);
        }
        passage::state(facts, id, judged, &origin);
        id
    }

    /// The verdict on all ports of a flow; for both versions of IP where the interface's addresses
    /// do not tell which is used.
    fn verdict(
        &self,
        ruleset: &Ruleset,
        one: &ExaminedFlow<'_>,
        addresses: &Result<Vec<(Version, AddressPair)>, Gap>,
        range: (u16, u16),
    ) -> Result<Judged, Gap> {
        let versions = match addresses {
            Ok(known) => known.clone(),
            Err(_) => vec![
                (Version::Four, AddressPair::default()),
                (Version::Six, AddressPair::default()),
            ],
        };
        let picked = match one.purpose {
            Purpose::Roce => ROCE_SOURCES,
            // The other side's system is taken to be as this one.
            _ => self.picked,
        };
        let mut found: Option<Judged> = None;
        for (version, at) in versions {
            let mut segments = Vec::new();
            for ports in passage::segments(range, &self.cuts)? {
                let fate = passage::by_chance(picked, &self.cuts, self.hole, |own| {
                    one.legs(version, at, ports, own).fate(ruleset)
                })?;
                segments.push(Segment { ports, fate });
            }
            let judged = passage::sum(segments)?;
            match &found {
                None => found = Some(judged),
                Some(first) if first.passage == judged.passage => {}
                Some(_) => return Err(Gap::missing("interface.addresses")),
            }
        }
        let judged = found.ok_or_else(|| Gap::missing("interface.addresses"))?;
        match &ruleset.open {
            // No further table lets through what one drops.
            Some(gap) if !judged.is_blocked() => Err(gap.clone()),
            _ => Ok(judged),
        }
    }
}

/// The host at which a job meets, as the kernel reaches it.
struct RankZero {
    interface: Arc<str>,
    version: Version,
    address: u128,
}

impl RankZero {
    /// It, if it is another host and there is a way to it.
    fn find(facts: &Facts, node: Id) -> Option<Self> {
        let id = ["MASTER_ADDR", "PET_MASTER_ADDR"]
            .into_iter()
            .find_map(|name| facts.find(Subject::Setting, node, name))?;
        let refused = facts.known(id, setting::ROUTE_REFUSED)?;
        let interface = facts.known(id, setting::PEER_INTERFACE)?;
        let address = facts.known(id, setting::PEER)?;
        let (version, address) = match address.parse().ok()? {
            std::net::IpAddr::V4(a) => (Version::Four, u128::from(u32::from(a))),
            std::net::IpAddr::V6(a) => (Version::Six, u128::from(a)),
        };
        (&*refused == "none" && &*interface != "lo").then_some(Self {
            interface,
            version,
            address,
        })
    }

    /// The addresses of both ends.
    fn addresses(&self, facts: &Facts, node: Id) -> Result<Vec<(Version, AddressPair)>, Gap> {
        let own = addresses(facts, node, &self.interface)?;
        let of_version = own
            .into_iter()
            .find(|(version, _)| *version == self.version);
        let own = of_version.and_then(|(_, pair)| pair.own);
        let peer = Some((self.address, self.address));
        Ok(vec![(self.version, AddressPair { own, peer })])
    }
}

/// A flow.
struct ExaminedFlow<'a> {
    purpose: Purpose,
    direction: Direction,
    interface: &'a Arc<str>,
    used: Fact<bool>,
    filtered: Fact<bool>,
}

impl<'a> ExaminedFlow<'a> {
    /// A flow of the kernel's TCP, which the packet filter sees.
    fn tcp(
        purpose: Purpose,
        direction: Direction,
        interface: &'a Arc<str>,
        used: Fact<bool>,
    ) -> Self {
        ExaminedFlow {
            purpose,
            direction,
            interface,
            used,
            filtered: Fact::derived(true, "TCP of the kernel"),
        }
    }

    fn name(&self) -> String {
        let what = match self.purpose {
            Purpose::Bootstrap => "bootstrap TCP",
            Purpose::Local => return "bootstrap TCP within the node".into(),
            Purpose::Rendezvous => "rendezvous TCP",
            Purpose::Roce => "RoCE v2",
            Purpose::Ssh => "ssh",
            Purpose::PathMtu => "path MTU discovery",
        };
        format!("{what} {} on {}", self.direction.word(), self.interface)
    }

    /// The packets that have to get through: the first, and the answer to it. `own` are the ports
    /// of whoever opens.
    fn legs(&self, version: Version, at: AddressPair, ports: (u16, u16), own: (u16, u16)) -> Legs {
        let packet = |way: PacketDirection, transport: Transport, state: u128| Packet {
            way,
            version,
            interface: Arc::clone(self.interface),
            local: self.purpose == Purpose::Local,
            own: at.own,
            peer: at.peer,
            transport,
            state,
        };
        let tcp = |source, destination, flags| Transport::Tcp {
            source,
            destination,
            flags,
        };
        let (forth, back) = match self.direction {
            Direction::In => (PacketDirection::In, PacketDirection::Out),
            Direction::Out => (PacketDirection::Out, PacketDirection::In),
        };
        Legs(match self.purpose {
            Purpose::Bootstrap | Purpose::Rendezvous | Purpose::Ssh => vec![
                packet(forth, tcp(own, ports, SYN), state::NEW),
                packet(back, tcp(ports, own, SYN | ACK), state::ESTABLISHED),
            ],
            Purpose::Local => {
                // The same packet leaves and comes back.
                let both = |tcp: Transport, state: u128| {
                    [PacketDirection::Out, PacketDirection::In]
                        .map(|way| packet(way, tcp.clone(), state))
                };
                let opens = both(tcp(own, ports, SYN), state::NEW);
                let answers = both(tcp(ports, own, SYN | ACK), state::ESTABLISHED);
                opens.into_iter().chain(answers).collect()
            }
            // Each side picks its source port by itself, so that connection tracking never sees a
            // reply.
            Purpose::Roce => {
                let udp = Transport::Udp {
                    source: own,
                    destination: ports,
                };
                vec![packet(forth, udp, state::NEW)]
            }
            Purpose::PathMtu => {
                let (kind, code) = match version {
                    Version::Four => (3, 4),
                    Version::Six => (2, 0),
                };
                let mut router = packet(forth, Transport::Icmp { kind, code }, state::RELATED);
                router.peer = None;
                vec![router]
            }
        })
    }
}

/// The interfaces that TCP between nodes may use, and what keeps the list from being whole.
pub(super) fn candidates(facts: &Facts, node: Id) -> (Vec<Candidate>, Option<Gap>) {
    let mut found: Vec<Candidate> = Vec::new();
    let mut add = |name: Arc<str>, used: Fact<bool>| {
        if found.iter().all(|c| c.name != name) {
            found.push(Candidate { name, used });
        }
    };
    if let Some(name) = facts.known(node, node::MET_BY) {
        add(name, Fact::derived(true, "the nodes met by it"));
    }
    if let Some(name) = selected(facts, node) {
        add(name, Fact::derived(true, "selection.interface"));
        for name in facts.texts(node, node::DEFAULT_ROUTE) {
            add(name, Fact::derived(false, "selection.interface"));
        }
        return (found, None);
    }
    let mut names: Vec<Arc<str>> = facts.texts(node, node::DEFAULT_ROUTE).collect();
    let open = facts.value(node, node::DEFAULT_ROUTE).err();
    for id in facts.below(node, Subject::Port) {
        if facts.known(id, port::INTENDED) == Some(true)
            && let Some(name) = facts.known(id, port::NETDEV)
        {
            names.push(bearer(facts, node, name));
        }
    }
    // Any that is not known to be unfit may be the one that is chosen.
    for id in facts.below(node, Subject::Interface) {
        let not = |key, value| facts.known(id, key) != Some(value);
        let name: Arc<str> = facts.name(id).into();
        if not(interface::UP, false)
            && not(interface::LOOPBACK, true)
            && not(interface::PHYSICAL, false)
        {
            names.push(name);
        }
    }
    names.dedup();
    let empty =
        |name: &Arc<str>| addresses(facts, node, name).is_ok_and(|addresses| addresses.is_empty());
    names.retain(|name| !empty(name));
    let first = names.first().cloned();
    let unlisted = facts.members(Subject::Interface, node).err();
    let is_pasted = facts.known(node, node::PASTED) == Some(true);
    let has_rules = facts.ruleset(node).known().is_some();
    if names.is_empty() && is_pasted && has_rules && unlisted.is_some() {
        // Rules that somebody pasted alone hold whatever interface there is.
        add(
            ANY.into(),
            Fact::derived(true, "whatever interface a job uses"),
        );
    }
    let lone = open.is_none()
        && unlisted.is_none()
        && names
            .iter()
            .chain(&usable(facts, node))
            .all(|name| Some(name) == first.as_ref());
    for name in names {
        let used = if lone {
            Fact::derived(true, "the only interface for TCP between nodes")
        } else {
            Fact::Unknown(Gap::missing("selection.interface"))
        };
        add(name, used);
    }
    // Which is chosen decides, and it may be one that none of this tells of.
    let unchosen = (!lone).then(|| Gap::missing("selection.interface"));
    (found, open.or(unlisted).or(unchosen))
}

/// A bond's member has no address: the bond has.
fn bearer(facts: &Facts, node: Id, name: Arc<str>) -> Arc<str> {
    let master = facts
        .find(Subject::Interface, node, &name)
        .and_then(|id| facts.known(id, interface::MASTER));
    match master {
        Some(master) if &*master != "none" => master,
        _ => name,
    }
}

/// The interface that NCCL will use for its bootstrap, where that is known.
fn selected(facts: &Facts, node: Id) -> Option<Arc<str>> {
    let id = facts.find(Subject::Selection, node, "NCCL")?;
    let name = facts.known(id, selection::INTERFACE);
    name.filter(|name| !name.is_empty() && &**name != "none")
}

/// The version of IP that an interface is used with, its address and its subnet; empty where it has
/// no address.
fn addresses(facts: &Facts, node: Id, name: &str) -> Result<Vec<(Version, AddressPair)>, Gap> {
    let found = facts.find(Subject::Interface, node, name);
    let list = found.map(|id| facts.get(id, interface::ADDRESSES));
    let list = match list {
        Some(Fact::Known(list, _)) => list,
        _ if name == ANY || has_ipv4(facts, node, name) => {
            return Ok(vec![(Version::Four, AddressPair::default())]);
        }
        Some(Fact::Unknown(gap)) => return Err(gap),
        None => {
            return Err(match facts.members(Subject::Interface, node) {
                Err(gap) => gap,
                Ok(_) => Gap::missing("interface.addresses"),
            });
        }
    };
    let read: Vec<(Version, AddressPair)> = list.iter().filter_map(|text| subnet(text)).collect();
    if read.len() < list.len() {
        return Err(Gap::missing("interface.addresses"));
    }
    // NCCL and the launchers take an interface's IPv4 address first.
    let four = read.iter().find(|(version, _)| *version == Version::Four);
    let six = read.iter().find(|(version, _)| *version == Version::Six);
    Ok(four.or(six).into_iter().copied().collect())
}

/// Whether an interface has an IPv4 address, whichever: it carries a default route of IPv4, or a
/// GID of its port holds one.
fn has_ipv4(facts: &Facts, node: Id, name: &str) -> bool {
    let routes = facts.known(node, node::DEFAULT_ROUTE);
    if routes.is_some_and(|names| names.iter().any(|n| &**n == name)) {
        return true;
    }
    facts.below(node, Subject::Gid).any(|gid| {
        facts.known(gid, gid::KIND) == Some(GidKind::Ipv4)
            && facts.known(gid, gid::NETDEV).is_some_and(|n| &*n == name)
    })
}

/// `10.0.0.1/24`: the address, and the subnet where peers are. A subnet of two addresses is a link
/// to a router.
fn subnet(text: &str) -> Option<(Version, AddressPair)> {
    let (address, length) = text.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    let (version, value, bits) = match address.parse::<std::net::IpAddr>().ok()? {
        std::net::IpAddr::V4(a) => (Version::Four, u128::from(u32::from(a)), 32u32),
        std::net::IpAddr::V6(a) => (Version::Six, u128::from(a), 128),
    };
    let free = bits.checked_sub(length)?;
    let host = match free {
        128 => u128::MAX,
        free => (1u128 << free) - 1,
    };
    Some((
        version,
        AddressPair {
            own: Some((value, value)),
            peer: (free > 2).then_some((value & !host, value | host)),
        },
    ))
}
