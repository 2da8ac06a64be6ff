//! Devices, ports and GIDs, as `ibstat`, `ibstatus`, `ibv_devinfo` and `show_gids` print them.

use std::collections::{HashMap, HashSet};
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::counters::option;
use super::ports::port_of;
use super::{Output, OutputLine, named};
use crate::fact::device::{self, NodeType, Role};
use crate::fact::gid::{self, GidKind, GidType};
use crate::fact::port::{self, LinkLayer, OperState, PortState};
use crate::fact::tool_result::{self, ToolResultKind};
use crate::fact::{BitRate, Fact, Facts, Id, Membership, Origin, Subject, netdev, node as of_node};
use crate::probe;

/// A device whose name was cut off.
const UNNAMED: &str = "unnamed";

/// States devices and ports.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut device: Option<(Id, &str)> = None;
    let mut port: Option<Id> = None;
    let mut seen = HashSet::new();
    let mut first = None;
    let mut picked = PickedPorts::from_command(output);
    for line in output.lines() {
        let text = line.text.trim();
        first.get_or_insert(line);
        if let Some((name, number)) = begins(text) {
            let id = facts.instance(Subject::Device, node, name);
            seen.insert(name);
            device = Some((id, name));
            port = number.map(|number| port_of(facts, node, name, number));
            continue;
        }
        // The line of the device may have been cut off.
        if device.is_none() && text.starts_with("Port ") {
            let id = facts.instance(Subject::Device, node, UNNAMED);
            seen.insert(UNNAMED);
            device = Some((id, UNNAMED));
        }
        let Some((key, value)) = text.split_once(':') else {
            continue;
        };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let Some((id, name)) = device else {
            if let Some(port) = picked.port_with(&key, facts, node) {
                named::state(facts, port, named::PORT, (&key, value), &line);
            }
            continue;
        };
        let number = match key.as_str() {
            "port" => value.parse().ok(),
            key => key
                .strip_prefix("port ")
                .and_then(|n| n.trim().parse().ok()),
        };
        if let Some(number) = number {
            port = Some(port_of(facts, node, name, number));
            continue;
        }
        // Somebody left out the line of the port.
        if port.is_none() && matches!(key.as_str(), "state" | "physical state") {
            port = Some(port_of(facts, node, name, 1));
        }
        match port {
            Some(port) if key.starts_with("gid[") => {
                let index = key.trim_start_matches("gid[").trim_end_matches(']');
                let (address, kind) = value.split_once(',').unwrap_or((value, ""));
                gid(facts, port, (index, address, Some(kind)), &line);
            }
            Some(port) => named::state(facts, port, named::PORT, (&key, value), &line),
            // What the kernel writes as hca_type is made of the same number: MT4129.
            None if key == "vendor_part_id" => {
                let model = value.parse::<u64>().ok().map(|n| format!("MT{n}").into());
                facts.set(id, device::MODEL, line.read(model));
            }
            None => named::state(facts, id, named::DEVICE, (&key, value), &line),
        }
    }
    let Some(first) = first else {
        return;
    };
    // Each of these tools prints one device if one is asked for, and all without.
    let asks_for_all = output.argv.iter().skip(1).all(|arg| **arg == *"-v");
    if seen.len() > 1 && !output.is_cut || asks_for_all && output.is_whole(&[]) {
        facts.set_members(Subject::Device, node, Membership::Known(first.origin()));
    }
    for id in facts.below(node, Subject::Device).collect::<Vec<_>>() {
        facts.set_members(Subject::Port, id, Membership::Known(first.origin()));
        let infiniband = facts
            .below(id, Subject::Port)
            .any(|port| facts.known(port, port::LINK_LAYER) == Some(LinkLayer::InfiniBand));
        // Of an Ethernet port only its routes say whether it is there for the machine's own traffic.
        if infiniband {
            let how = "an InfiniBand port, which carries no default route where nobody says so";
            facts.set(id, device::ROLE, Fact::derived(Role::Compute, how));
        }
    }
}

/// What ibstat and ibv_devinfo say of a port, by which it is known where somebody picked lines.
const OF_PORTS: [&str; 11] = [
    "state",
    "physical state",
    "phys_state",
    "rate",
    "link layer",
    "link_layer",
    "active_mtu",
    "max_mtu",
    "base lid",
    "sm lid",
    "port_lid",
];

/// Ports of lines that somebody picked, without those that name device and port.
struct PickedPorts {
    /// The device that the command asks for.
    asked: Option<String>,
    number: u64,
    /// What was said of the last port: what is said again is of the next one.
    said: Vec<String>,
    ports: u64,
}

impl PickedPorts {
    fn from_command(output: &Output) -> Self {
        let plain = output.operand().filter(|word| {
            output.tool() != "ibv_devinfo" && !word.bytes().all(|b| b.is_ascii_digit())
        });
        let asked = option(output, "-d", "--ib-dev").or(plain);
        let (asked, number) = match asked.and_then(|name| name.split_once(':')) {
            Some((name, number)) => (Some(name), number.parse().ok()),
            None => (
                asked,
                option(output, "-i", "--ib-port").and_then(|n| n.parse().ok()),
            ),
        };
        PickedPorts {
            asked: asked.map(str::to_owned),
            number: number.unwrap_or(1),
            said: Vec::new(),
            ports: 0,
        }
    }

    /// The port of which a line with this key speaks, if it speaks of one.
    fn port_with(&mut self, key: &str, facts: &mut Facts, node: Id) -> Option<Id> {
        if !OF_PORTS.contains(&key) {
            return None;
        }
        if self.ports == 0 || self.said.iter().any(|said| said == key) {
            self.ports += 1;
            self.said.clear();
        }
        self.said.push(key.to_owned());
        match (&self.asked, self.ports) {
            (Some(device), 1) => {
                let id = facts.instance(Subject::Device, node, device);
                if device.starts_with("mlx") {
                    let how = "devices of mlx4 and mlx5 are channel adapters";
                    facts.set(id, device::NODE_TYPE, Fact::derived(NodeType::Ca, how));
                }
                Some(port_of(facts, node, device, self.number))
            }
            // The command asks for one port, and these are more.
            (Some(_), _) => None,
            (None, 1) => Some(port_of(facts, node, UNNAMED, 1)),
            (None, count) => Some(port_of(facts, node, &format!("{UNNAMED} {count}"), 1)),
        }
    }
}

/// `CA 'mlx5_0'`, `hca_id: mlx5_0`, `Infiniband device 'mlx5_0' port 1 status:`.
fn begins(text: &str) -> Option<(&str, Option<u64>)> {
    let quoted = |rest: &'_ str| rest.split_once('\'').map(|(name, _)| name.len());
    if let Some(rest) = text.strip_prefix("CA '") {
        return Some((rest.get(..quoted(rest)?)?, None));
    }
    if let Some(rest) = text.strip_prefix("hca_id:") {
        let name = rest.trim();
        return (!name.is_empty()).then_some((name, None));
    }
    let rest = ["Infiniband device '", "InfiniBand device '"]
        .iter()
        .find_map(|start| text.strip_prefix(start))?;
    let (name, rest) = rest.split_once('\'')?;
    let number = rest.trim().strip_prefix("port ")?;
    Some((name, number.split_whitespace().next()?.parse().ok()))
}

/// States GIDs.
pub(super) fn gids(output: &Output, facts: &mut Facts, node: Id) {
    let mut ports: Vec<ListedPort> = Vec::new();
    let mut whole = false;
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        if line.text.trim().starts_with("n_gids_found") {
            whole = !output.is_cut;
            let found = line.text.split_once('=').map(|(_, count)| count.trim());
            if let Some(found) = found.and_then(|count| count.parse().ok()) {
                facts.set(node, of_node::GIDS_FOUND, line.known(found));
            }
        }
        let [name, number, index, address, rest @ ..] = words.as_slice() else {
            continue;
        };
        let Ok(number) = number.parse() else {
            continue;
        };
        let port = port_of(facts, node, name, number);
        let version = rest.iter().find(|word| matches!(**word, "v1" | "v2"));
        let Some(id) = gid(facts, port, (index, address, version.copied()), &line) else {
            continue;
        };
        if let Some(netdev) = rest.last().filter(|word| !matches!(**word, "v1" | "v2")) {
            facts.set(id, gid::NETDEV, line.known((*netdev).into()));
        }
        if !ports.iter().any(|listed| listed.port == port) {
            let origin = line.origin();
            ports.push(ListedPort { port, origin });
        }
    }
    if let (false, Some(ListedPort { origin, .. })) = (output.is_cut, ports.last()) {
        let listed = facts.below(node, Subject::Gid).count() as u64;
        facts.set(
            node,
            of_node::GIDS_FOUND,
            Fact::Known(listed, origin.clone()),
        );
    }
    if whole {
        without_address(facts, node, &ports);
    }
    // It prints the whole tables of the ports that it prints.
    for listed in ports.into_iter().filter(|_| whole) {
        facts.set_members(Subject::Gid, listed.port, Membership::Known(listed.origin));
    }
}

/// A port, and the first line that lists it.
struct ListedPort {
    port: Id,
    origin: Origin,
}

/// What a port's GIDs of RoCE v2 are.
struct PortGids {
    name: String,
    kinds: Vec<GidKind>,
    netdev: Option<Arc<str>>,
}

impl PortGids {
    fn of(facts: &Facts, port: Id) -> Self {
        let mut gids = PortGids {
            name: facts.name(port).to_owned(),
            kinds: Vec::new(),
            netdev: None,
        };
        for id in facts.below(port, Subject::Gid) {
            if facts.known(id, gid::TYPE) == Some(GidType::V2) {
                gids.kinds.extend(facts.known(id, gid::KIND));
                gids.netdev = gids.netdev.or_else(|| facts.known(id, gid::NETDEV));
            }
        }
        gids
    }

    fn are_local(&self) -> bool {
        let mut kinds = self.kinds.iter();
        !self.kinds.is_empty() && kinds.all(|kind| *kind == GidKind::LinkLocal)
    }
}

/// States the ports of which all GIDs of RoCE v2 are link-local, where others of the output have one
/// that leaves the link.
fn without_address(facts: &mut Facts, node: Id, ports: &[ListedPort]) {
    let tables: Vec<PortGids> = ports
        .iter()
        .map(|listed| PortGids::of(facts, listed.port))
        .collect();
    let mut others = tables.iter();
    let Some(other) = others.find(|gids| !gids.kinds.is_empty() && !gids.are_local()) else {
        return;
    };
    for at in 0..tables.len() {
        let gids = &tables[at];
        if !gids.are_local() {
            continue;
        }
        let about = match &gids.netdev {
            Some(netdev) => format!("{} ({netdev})", gids.name),
            None => gids.name.clone(),
        };
        let origin = &ports[at].origin;
        let id = facts.instance(Subject::ToolResult, node, &about);
        facts.know(id, tool_result::KIND, ToolResultKind::GidsLinkLocal, origin);
        facts.know(id, tool_result::ABOUT, about.into(), origin);
        facts.know(id, tool_result::WORDS, other.name.as_str().into(), origin);
    }
}

/// Makes a row of a port's GID table, of its index, its address and its type.
fn gid(
    facts: &mut Facts,
    port: Id,
    (index, address, version): (&str, &str, Option<&str>),
    line: &OutputLine<'_>,
) -> Option<Id> {
    let index: u64 = index.trim().parse().ok()?;
    let address: Ipv6Addr = address.trim().parse().ok()?;
    let name = format!("{} gid {index}", facts.name(port));
    let id = facts.instance(Subject::Gid, port, &name);
    facts.set(id, gid::INDEX, line.known(index));
    facts.set(id, gid::KIND, line.known(probe::gid::kind(address)));
    facts.set(id, gid::ADDRESS, line.known(address.to_string().into()));
    if let Some(version) = version.and_then(named::typed::<GidType>) {
        facts.set(id, gid::TYPE, line.known(version));
    }
    Some(id)
}

/// Says how the outputs list each port: by its state, and where only `ibdev2netdev` has it, by its
/// network device.
fn list_inactive(facts: &mut Facts, node: Id, ports: &[Id]) {
    for &port in ports {
        let listed = match facts.get(port, port::STATE) {
            Fact::Known(state, origin) => Fact::Known(listed_state(facts, port, state), origin),
            Fact::Unknown(_) => match operstate_of(facts, node, port) {
                Some(state) => state.map(|state| match state {
                    OperState::Down => "down (by its network interface)".into(),
                    _ => "none".into(),
                }),
                None => continue,
            },
        };
        facts.set(port, port::LISTED_AS, listed);
    }
}

/// A port's state in words; "none" if it is active.
fn listed_state(facts: &Facts, port: Id, state: PortState) -> Arc<str> {
    if matches!(state, PortState::Active | PortState::ActiveDefer) {
        return "none".into();
    }
    match facts.known(port, port::PHYS_STATE) {
        Some(physical) => format!("{} ({})", state.word(), physical.word()).into(),
        None => state.word().into(),
    }
}

/// The state of the network device on a port.
fn operstate_of(facts: &Facts, node: Id, port: Id) -> Option<Fact<OperState>> {
    let name = facts.known(port, port::NETDEV)?;
    let netdev = facts.find(Subject::Netdev, node, &name)?;
    let state = facts.get(netdev, netdev::OPERSTATE);
    state.known().is_some().then_some(state)
}

/// Says of each port whether it is down while as many or more of its type are active; where boards
/// are known these decide.
pub(super) fn odd(facts: &mut Facts, node: Id) {
    let ports: Vec<Id> = facts.below(node, Subject::Port).collect();
    list_inactive(facts, node, &ports);
    list_slower(facts, &ports);
    let mut kinds: HashMap<Kind, Equals> = HashMap::new();
    for &port in &ports {
        if let Some(kind) = kind(facts, port) {
            let equals = kinds.entry(kind).or_default();
            equals.all += 1;
            if facts.known(port, port::STATE) == Some(PortState::Active) {
                equals.active += 1;
                equals.rates.extend(facts.known(port, port::RATE));
            }
        }
    }
    for equals in kinds.values_mut() {
        equals.rate = rate_of_most(&equals.rates);
    }
    for &port in &ports {
        let (Some(kind), Fact::Known(state, origin)) =
            (kind(facts, port), facts.get(port, port::STATE))
        else {
            continue;
        };
        let equals = kinds.get(&kind);
        let are_active = equals.is_some_and(|equals| 2 * equals.active >= equals.all);
        let board = (facts.parent(port)).and_then(|device| facts.known(device, device::BOARD));
        let odd = state == PortState::Down && are_active && board.is_none();
        facts.set(port, port::ODD_IN_PASTE, Fact::Known(odd, origin));
        if let (PortState::Active, Fact::Known(own, origin)) = (state, facts.get(port, port::RATE))
        {
            let most = equals.and_then(|equals| equals.rate).unwrap_or(own);
            facts.set(port, port::EQUALS_RATE, Fact::Known(most, origin));
        }
    }
}

/// The highest rate that a port shows which has no link: 4X QDR of an Ethernet port of mlx5.
const WITHOUT_LINK: BitRate = BitRate(40_000_000_000);

/// Whether a port is active, and nothing says of which link layer. Without its state its rate tells
/// that it has a link.
fn is_bare(facts: &Facts, port: Id) -> bool {
    let is_active = match facts.known(port, port::STATE) {
        Some(state) => state == PortState::Active,
        None => facts
            .known(port, port::RATE)
            .is_some_and(|rate| rate > WITHOUT_LINK),
    };
    is_active && facts.known(port, port::LINK_LAYER).is_none()
}

/// Says of each active port of which only the rate is shown at which most of these run.
fn list_slower(facts: &mut Facts, ports: &[Id]) {
    let bare: Vec<Id> = ports
        .iter()
        .copied()
        .filter(|port| is_bare(facts, *port))
        .collect();
    let rates: Vec<BitRate> = (bare.iter())
        .filter_map(|port| facts.known(*port, port::RATE))
        .collect();
    let Some(most) = rate_of_most(&rates) else {
        return;
    };
    for port in bare {
        if let Fact::Known(_, origin) = facts.get(port, port::RATE) {
            facts.set(port, port::LISTED_RATE, Fact::Known(most, origin));
        }
    }
}

/// The model of a port's device, if it is known, and its link layer.
type Kind = (Option<Arc<str>>, LinkLayer);

/// The ports of one kind.
#[derive(Default)]
struct Equals {
    all: usize,
    active: usize,
    rates: Vec<BitRate>,
    /// The rate of most.
    rate: Option<BitRate>,
}

fn kind(facts: &Facts, port: Id) -> Option<Kind> {
    let model = facts.known(facts.parent(port)?, device::MODEL);
    Some((model, facts.known(port, port::LINK_LAYER)?))
}

/// The highest rate of these ports, if more than half have it.
fn rate_of_most(rates: &[BitRate]) -> Option<BitRate> {
    let highest = rates.iter().copied().max_by_key(|rate| rate.0)?;
    let have = rates.iter().filter(|rate| **rate == highest).count();
    (2 * have > rates.len()).then_some(highest)
}
