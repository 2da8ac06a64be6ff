//! Whether equals agree: rates, MTUs, firmware, link layers, GID indexes, LIDs. Two that differ
//! have no majority.

use super::Derivation;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use crate::fact::device::NodeType;
use crate::fact::port::LinkLayer;
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Key, Subject, device, known, node, port};
use crate::sentence::shell::Command;
use crate::small_sort;

use super::{group, majority};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "agreement",
    &[
        "port.gid_index",
        "port.gid_routable_v2",
        "port.intended",
        "port.netdev_mtu",
        "port.subnet_prefix",
    ],
    derive,
);

/// Works out all agreements of a node.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let used = used_ports(facts, node);
    rates(facts, node, &used);
    firmware(facts, node);
    let indexes = {
        let roce: Vec<Used> = used
            .iter()
            .filter(|u| {
                u.port().is_none_or(|p| {
                    let device = facts.ancestor(p, Subject::Device);
                    !matches!(facts.known(p, port::LINK_LAYER), Some(LinkLayer::InfiniBand | LinkLayer::Unspecified))
                        && device.and_then(|d| facts.known(d, device::NODE_TYPE)) != Some(NodeType::Rnic)
                        // A port without a routable GID is a finding of its own, not one of
                        // disagreement.
                        && facts.known(p, port::GID_ROUTABLE_V2) != Some(false)
                })
            })
            .cloned()
            .collect();
        agree(&roce, |p| Ok(((), facts.value(p, port::GID_INDEX)?)))
    };
    let keys = (node::GID_INDEXES_AGREE, node::GID_INDEXES);
    state(facts, node, indexes, keys, "RoCE v2 GID indexes");
    // Equal boards at unequal rates may serve the job and its storage, each with an MTU of its own.
    let mtus = agree(&used, |p| {
        let rate = facts.value(p, port::RATE)?;
        let kind = (group::port_kind(facts, p)?, rate.0);
        Ok((kind, facts.value(p, port::MTU)?))
    });
    let keys = (node::MTUS_AGREE, node::MTUS);
    state(facts, node, mtus, keys, "RDMA MTUs of equal ports");
    if facts.known(node, node::MTUS_AGREE) == Some(false) {
        let (commands, how) = (mtu_commands(facts, &used), "the MTU of equal ports");
        facts.derive(node, node::MTU_COMMANDS, commands, how);
    }
    lids(facts, node, &used);
}

/// A port that takes part, or the reason why it is not known whether one does.
#[derive(Clone)]
pub(super) enum Used {
    Port(Id, String),
    Open(Gap),
}

impl Used {
    fn port(&self) -> Option<Id> {
        match self {
            Used::Port(id, _) => Some(*id),
            Used::Open(_) => None,
        }
    }
}

/// The ports that are intended and active.
fn used_ports(facts: &Facts, node: Id) -> Vec<Used> {
    let mut used: Vec<Used> = facts
        .incomplete(node, Subject::Port)
        .map(Used::Open)
        .into_iter()
        .collect();
    for id in facts.below(node, Subject::Port) {
        match (facts.get(id, port::INTENDED), facts.get(id, port::STATE)) {
            (Fact::Known(false, _), _) => {}
            (_, Fact::Known(state, _)) if !state.is_active() => {}
            (Fact::Known(true, _), Fact::Known(..)) => {
                used.push(Used::Port(id, facts.name(id).to_owned()))
            }
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => used.push(Used::Open(gap)),
        }
    }
    used
}

/// Whether all ports of each kind have one value; else who has which. Disagreement is known from
/// two; agreement needs all.
pub(super) fn agree<K: Ord, V: PartialEq + Display>(
    ports: &[Used],
    look: impl Fn(Id) -> Result<(K, V), Gap>,
) -> Result<Result<(), String>, Gap> {
    let mut groups: BTreeMap<K, Vec<(&str, V)>> = BTreeMap::new();
    let mut open = None;
    for used in ports {
        match used {
            Used::Open(gap) => open = Some(gap.clone()),
            Used::Port(id, name) => match look(*id) {
                Ok((kind, value)) => groups.entry(kind).or_default().push((name, value)),
                Err(gap) => open = Some(gap),
            },
        }
    }
    for members in groups.values() {
        if members.iter().any(|(_, v)| *v != members[0].1) {
            return Ok(Err(who_has_which(members)));
        }
    }
    open.map_or(Ok(Ok(())), Err)
}

/// `400 Gb/s: mlx5_0/1, mlx5_1/1; 200 Gb/s: mlx5_2/1`, the most frequent first.
fn who_has_which<V: PartialEq + Display>(members: &[(&str, V)]) -> String {
    let mut values: Vec<(&V, Vec<&str>)> = Vec::new();
    for (name, value) in members {
        match values.iter_mut().find(|(v, _)| *v == value) {
            Some((_, names)) => names.push(name),
            None => values.push((value, vec![name])),
        }
    }
    small_sort::by_key(&mut values, |(_, names)| std::cmp::Reverse(names.len()));
    let parts: Vec<String> = values
        .iter()
        .map(|(v, names)| format!("{v}: {}", names.join(", ")))
        .collect();
    parts.join("; ")
}

fn state(
    facts: &mut Facts,
    node: Id,
    outcome: Result<Result<(), String>, Gap>,
    (agree, which): (Key<bool>, Key<Arc<str>>),
    what: &'static str,
) {
    match outcome {
        Ok(Ok(())) => {
            facts.derive(node, agree, true, what);
            facts.derive(node, which, "all the same".into(), what);
        }
        Ok(Err(who)) => {
            facts.derive(node, agree, false, &who);
            facts.derive(node, which, who.into(), what);
        }
        Err(gap) => facts.leave_open(node, &[agree.index, which.index], &gap),
    }
}

/// The commands that give ports with another MTU that of most of their equals; with placeholders
/// where no network device is known, as on InfiniBand.
fn mtu_commands(facts: &Facts, used: &[Used]) -> Arc<[Command]> {
    let mut groups: BTreeMap<_, Vec<(Id, Bytes)>> = BTreeMap::new();
    for port in used.iter().filter_map(Used::port) {
        let known = (
            group::port_kind(facts, port),
            facts.known(port, port::RATE),
            facts.known(port, port::MTU),
        );
        if let (Ok(kind), Some(rate), Some(mtu)) = known {
            groups.entry((kind, rate.0)).or_default().push((port, mtu));
        }
    }
    let mut commands: Vec<Command> = Vec::new();
    for members in groups.values() {
        let votes = |mtu: Bytes| members.iter().filter(|(_, other)| *other == mtu).count();
        let usual = members.iter().map(|(_, mtu)| (votes(*mtu), *mtu)).max();
        let of = |is_odd: bool| {
            let is = move |mtu: &Bytes| usual.is_some_and(|(_, usual)| (usual != *mtu) == is_odd);
            let of = members.iter().filter(move |(_, mtu)| is(mtu));
            of.map(|(port, _)| *port)
        };
        let mtu = of(false).filter_map(|port| facts.known(port, port::NETDEV_MTU));
        let mtu = mtu.max().map_or("MTU".to_owned(), |mtu| mtu.0.to_string());
        let netdevs = of(true).filter_map(|port| facts.known(port, port::NETDEV));
        commands.extend(
            netdevs.map(|netdev| Command::filled("ip link set {} mtu {}", &[&netdev, &mtu])),
        );
    }
    if commands.is_empty() {
        commands.push(Command::of_text("ip link set NETDEV mtu MTU"));
    }
    commands.into()
}

fn rates(facts: &mut Facts, node: Id, used: &[Used]) {
    let outcome = agree(used, |p| {
        Ok((group::port_kind(facts, p)?, facts.value(p, port::RATE)?))
    });
    let keys = (node::RATES_AGREE, node::RATES);
    state(facts, node, outcome, keys, "rates of equal ports");
    let majorities: Vec<(Id, Fact<crate::fact::BitRate>)> = used
        .iter()
        .filter_map(Used::port)
        .map(|p| (p, majority_rate(facts, used, p)))
        .collect();
    for (port, fact) in majorities {
        facts.set(port, port::SIBLINGS_RATE, fact);
    }
}

/// The rate of a strict majority of the equal ports; where there is none, the port's own, since
/// nothing speaks against it.
fn majority_rate(facts: &Facts, used: &[Used], port: Id) -> Fact<crate::fact::BitRate> {
    let rate = |id: Id| facts.get(id, port::RATE);
    let ports = used.iter().filter_map(Used::port);
    let rates = known!(ok group::of_equals(facts, ports, port, rate));
    let unread = used.iter().find_map(|one| match one {
        Used::Open(gap) => Some(gap),
        Used::Port(..) => None,
    });
    let open = unread.or_else(|| rates.iter().find_map(|rate| rate.as_result().err()));
    majority::of(&rate(port), &rates, "equal ports").unless(open.cloned())
}

/// Devices with their firmware versions.
type Versions = Vec<(String, Arc<str>)>;

fn firmware(facts: &mut Facts, node: Id) {
    let devices: Vec<Id> = facts.below(node, Subject::Device).collect();
    let incomplete = facts.members(Subject::Device, node).err();
    for &device in &devices {
        let outcome: Result<Option<(Versions, bool)>, Gap> = (|| {
            let kind = group::kind(facts, device)?;
            let own = facts.value(device, device::FIRMWARE)?;
            let mut members = vec![(facts.name(device).to_owned(), own)];
            let mut open: Vec<Gap> = incomplete.clone().into_iter().collect();
            for &other in devices.iter().filter(|d| **d != device) {
                match (
                    group::kind(facts, other),
                    facts.get(other, device::FIRMWARE),
                ) {
                    (Ok(k), _) if k != kind => {}
                    (Ok(_), Fact::Known(version, _)) => {
                        members.push((facts.name(other).to_owned(), version))
                    }
                    (Err(gap), _) | (Ok(_), Fact::Unknown(gap)) => open.push(gap),
                }
            }
            // With most of its equals a device is not the odd one. Those that are not known may be
            // of either side.
            let same = members.iter().filter(|(_, v)| *v == members[0].1).count();
            let all = members.len() + open.len();
            let differ = same < members.len();
            match open.into_iter().next() {
                Some(gap) if !differ => Err(gap),
                Some(gap) if 2 * same <= all && 2 * (same + all - members.len()) > all => Err(gap),
                _ if members.len() == 1 => Ok(None),
                _ => Ok(Some((members, !differ || 2 * same > all))),
            }
        })();
        match outcome {
            Err(gap) => {
                facts.set(device, device::FIRMWARE_AGREES, Fact::Unknown(gap.clone()));
                facts.set(device, device::HAS_EQUALS, Fact::Unknown(gap.clone()));
                facts.set(device, device::FIRMWARE_OF_EQUALS, Fact::Unknown(gap));
            }
            Ok(None) => {
                let alone = "no other device of this driver, model and board";
                facts.derive(device, device::FIRMWARE_AGREES, true, alone);
                facts.derive(device, device::HAS_EQUALS, false, alone);
                facts.derive(device, device::FIRMWARE_OF_EQUALS, "none".into(), alone);
            }
            Ok(Some((members, agrees))) => {
                let named: Vec<(&str, &str)> = members.iter().map(|(n, v)| (&**n, &**v)).collect();
                let who = who_has_which(&named);
                let equals = format!("{} equal devices", members.len());
                let how = "firmware of equal devices";
                facts.derive(device, device::FIRMWARE_AGREES, agrees, &who);
                facts.derive(device, device::HAS_EQUALS, true, equals);
                facts.derive(device, device::FIRMWARE_OF_EQUALS, who.into(), how);
            }
        }
    }
}

/// Two active InfiniBand ports with one LID in one subnet: both answer to what is sent to one of
/// them.
fn lids(facts: &mut Facts, node: Id, used: &[Used]) {
    let mut by_lid: BTreeMap<(String, u64), Vec<&str>> = BTreeMap::new();
    let mut open = None;
    for entry in used {
        let (id, name) = match entry {
            Used::Open(gap) => {
                open = Some(gap.clone());
                continue;
            }
            Used::Port(id, name) => (*id, name),
        };
        // A virtual function answers to the LID of its adapter by design.
        let device = facts.ancestor(id, Subject::Device);
        if device.and_then(|d| facts.known(d, device::VIRTUAL_FUNCTION)) == Some(true) {
            continue;
        }
        match facts.get(id, port::LINK_LAYER) {
            Fact::Known(LinkLayer::InfiniBand, _) => {}
            Fact::Known(..) => continue,
            Fact::Unknown(gap) => {
                open = Some(gap);
                continue;
            }
        }
        match (facts.get(id, port::SUBNET_PREFIX), facts.get(id, port::LID)) {
            (_, Fact::Known(0, _)) => {}
            (Fact::Known(prefix, _), Fact::Known(lid, _)) => {
                by_lid
                    .entry((prefix.to_string(), lid))
                    .or_default()
                    .push(name);
            }
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => open = Some(gap),
        }
    }
    let shared: Vec<String> = by_lid
        .iter()
        .filter(|(_, ports)| ports.len() > 1)
        .map(|((prefix, lid), ports)| format!("LID {lid} in subnet {prefix}: {}", ports.join(", ")))
        .collect();
    let outcome = if shared.is_empty() {
        open.map_or(Ok(Ok(())), Err)
    } else {
        Ok(Err(shared.join("; ")))
    };
    let keys = (node::LIDS_DISTINCT, node::SHARED_LIDS);
    state(
        facts,
        node,
        outcome,
        keys,
        "LIDs of active InfiniBand ports",
    );
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::fact::port::PortState;
    use crate::fact::{BitRate, Bytes};

    fn derived(facts: &mut Facts, n: Id) {
        super::super::derive(facts);
        assert_eq!(facts.subject(n), Subject::Node);
    }

    #[test]
    fn a_slow_rail_differs_from_the_majority() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let slow = port(&mut facts, n, "mlx5_0", PortState::Active, 200);
        for i in 1..4 {
            port(&mut facts, n, &format!("mlx5_{i}"), PortState::Active, 400);
        }
        derived(&mut facts, n);
        assert_eq!(
            facts.known(slow, port::SIBLINGS_RATE),
            Some(BitRate(400_000_000_000))
        );
        assert_eq!(facts.known(n, node::RATES_AGREE), Some(false));
        assert_eq!(
            facts.known(n, node::RATES).as_deref(),
            Some("400 Gb/s: mlx5_1/1, mlx5_2/1, mlx5_3/1; 200 Gb/s: mlx5_0/1")
        );
    }

    #[test]
    fn mtus_are_compared_among_ports_of_one_rate() {
        let mtus = |rate: u64, mtu: Option<u64>| {
            let mut facts = Facts::new();
            let n = node(&mut facts);
            for (name, rate, mtu) in [
                ("mlx5_0", 400, Some(4096)),
                ("mlx5_1", 400, Some(4096)),
                ("mlx5_2", rate, mtu),
            ] {
                let id = port(&mut facts, n, name, PortState::Active, rate);
                if let Some(mtu) = mtu {
                    facts.derive(id, port::MTU, Bytes(mtu), "test");
                    let netdev = Bytes(if mtu == 4096 { 9000 } else { 1500 });
                    facts.derive(id, port::NETDEV_MTU, netdev, "test");
                    facts.derive(id, port::NETDEV, format!("net-{name}").into(), "test");
                }
            }
            derived(&mut facts, n);
            let which = facts.known(n, node::MTUS).map(|text| text.to_string());
            let commands = facts.known(n, node::MTU_COMMANDS);
            assert_eq!(
                commands.is_some(),
                facts.known(n, node::MTUS_AGREE) == Some(false)
            );
            if let Some(commands) = commands {
                let expected = Command::of_text("ip link set net-mlx5_2 mtu 9000");
                assert_eq!(*commands, [expected]);
            }
            (facts.known(n, node::MTUS_AGREE), which)
        };
        assert_eq!(mtus(400, Some(4096)).0, Some(true));
        assert_eq!(
            mtus(400, Some(1024)),
            (
                Some(false),
                Some("4096 B: mlx5_0/1, mlx5_1/1; 1024 B: mlx5_2/1".to_owned())
            )
        );
        assert_eq!(
            mtus(200, Some(1024)).0,
            Some(true),
            "storage at another rate"
        );
        assert_eq!(mtus(400, None).0, None, "it may be another");
    }

    #[test]
    fn two_that_differ_have_no_majority() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let a = port(&mut facts, n, "mlx5_0", PortState::Active, 25);
        port(&mut facts, n, "mlx5_1", PortState::Active, 100);
        derived(&mut facts, n);
        assert_eq!(
            facts.known(a, port::SIBLINGS_RATE),
            Some(BitRate(25_000_000_000)),
            "its own"
        );
        assert_eq!(facts.known(n, node::RATES_AGREE), Some(false));
    }

    #[test]
    fn agreement_needs_all_and_disagreement_two() {
        let mut facts = Facts::new();
        let n = facts.new_node("n");
        port(&mut facts, n, "mlx5_0", PortState::Active, 200);
        port(&mut facts, n, "mlx5_1", PortState::Active, 200);
        derived(&mut facts, n);
        assert_eq!(
            facts.known(n, node::RATES_AGREE),
            None,
            "the devices may not be all"
        );

        let mut facts = Facts::new();
        let n = facts.new_node("n");
        port(&mut facts, n, "mlx5_0", PortState::Active, 200);
        port(&mut facts, n, "mlx5_1", PortState::Active, 100);
        derived(&mut facts, n);
        assert_eq!(facts.known(n, node::RATES_AGREE), Some(false));
    }
}
