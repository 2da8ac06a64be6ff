//! Whether a port is meant to be used: an unused port is no error, and a dead rail is one.
//!
//! The rule, first match decides:
//!
//! 0. Yes: NCCL_IB_HCA names it by its whole name. (The beginning of a name, as in `mlx5`, says
//!    nothing of one port.)
//! 1. No: its device carries the machine's own traffic (the default route, which other RDMA devices
//!    do not carry).
//! 2. No: an Ethernet port of a virtual function without a GID in this network namespace.
//! 3. Yes: it is active. 4. Yes: it has link, or had it since the driver was loaded.
//! 5. Yes: most of its equals (same board, same link layer) are active. 6. Yes: it is the node's
//!    only RDMA port.
//! 7. No: it never had link, and other ports are active. Else unknown.
//!
//! Where NCCL's environment is unknown, a No is unknown too: the port may be named there.

use super::Derivation;
use crate::fact::counter::CounterClass;
use crate::fact::device::Role;
use crate::fact::kleene::Several;
use crate::fact::port::{LinkLayer, PhysState, PortState};
use crate::fact::{Fact, Facts, Gap, Id, Subject, counter, device, known, netdev, port, selector};

use super::group;

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "intended",
    &[
        "device.role",
        "selector",
        "selector.excludes",
        "selector.named",
        "selector.variable",
    ],
    derive,
);

/// Decides for each port, and for each network device by its ports.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let ports: Vec<Id> = facts.below(node, Subject::Port).collect();
    for &port in &ports {
        facts.set(port, port::HAD_LINK, had_link(facts, node, port));
    }
    let named = named(facts, node);
    let is_named = |port: Id| named.any(|ports| ports.contains(&port));
    let decided: Vec<Fact<bool>> = ports
        .iter()
        .map(|&p| match is_named(p) {
            Ok(true) => Fact::derived(true, "NCCL_IB_HCA names it"),
            Ok(false) => intended(facts, node, &ports, p),
            Err(gap) => match intended(facts, node, &ports, p) {
                Fact::Known(false, _) => Fact::Unknown(gap),
                decided => decided,
            },
        })
        .collect();
    for (&port, fact) in ports.iter().zip(decided) {
        let equals = match active_equals(facts, node, &ports, port) {
            Ok(Some(how)) => Fact::derived(true, how),
            Ok(None) => Fact::derived(false, "most of its equals are not active"),
            Err(gap) => Fact::Unknown(gap),
        };
        facts.set(port, port::EQUALS_ACTIVE, equals);
        facts.set(port, port::INTENDED, fact);
    }
    for netdev in facts.below(node, Subject::Netdev).collect::<Vec<_>>() {
        facts.set(netdev, netdev::INTENDED, netdev_intended(facts, netdev));
    }
}

/// The ports that each entry of NCCL_IB_HCA names by its whole name.
fn named(facts: &Facts, node: Id) -> Several<Vec<Id>> {
    let of_list = |entry: &Id| {
        facts.known(*entry, selector::VARIABLE).as_deref() == Some("NCCL_IB_HCA")
            && facts.known(*entry, selector::EXCLUDES) == Some(false)
    };
    let entries = facts.below(node, Subject::Selector).filter(of_list);
    let ports = |entry: Id| {
        facts.get(entry, selector::NAMED).map(|ports| {
            // As NCCL writes a port, mlx5_0:1; the facts have it as mlx5_0/1.
            let is_it = |id: &Id| ports.contains(&facts.name(*id).replace('/', ":").into());
            facts.below(node, Subject::Port).filter(is_it).collect()
        })
    };
    let named: Several<Vec<Id>> = entries.map(ports).collect();
    named.or_others(facts.members(Subject::Selector, node).err())
}

fn had_link(facts: &Facts, node: Id, port: Id) -> Fact<bool> {
    let mut open: Option<Gap> = None;
    match facts.get(port, port::STATE) {
        Fact::Known(state, _)
            if state.is_active() || matches!(state, PortState::Init | PortState::Armed) =>
        {
            return Fact::derived(true, format!("its state is {}", state.word()));
        }
        Fact::Known(..) => {}
        Fact::Unknown(gap) => open = Some(gap),
    }
    match facts.get(port, port::PHYS_STATE) {
        Fact::Known(PhysState::LinkUp | PhysState::Recovery, _) => {
            return Fact::derived(true, "it has a physical link");
        }
        Fact::Known(..) => {}
        Fact::Unknown(gap) => open = Some(gap),
    }
    if let Some(gap) = facts.incomplete(port, Subject::Counter) {
        open = Some(gap);
    }
    let is_software = |device| facts.known(device, device::SOFTWARE) == Some(true);
    let software = facts.parent(port).is_some_and(is_software);
    for id in facts.below(port, Subject::Counter) {
        if facts.known(id, counter::CLASS) != Some(CounterClass::Flap) {
            continue;
        }
        match facts.get(id, counter::VALUE) {
            Fact::Known(0, _) => {}
            // Soft-RoCE counts one as it is made on an interface without link.
            Fact::Known(1, _) if software => {}
            Fact::Known(n, origin) => {
                return Fact::derived(true, format!("it lost its link {n} times ({origin})"));
            }
            Fact::Unknown(gap) => open = Some(gap),
        }
    }
    match (
        facts.get(port, port::HAS_NETDEV),
        facts.known(port, port::NETDEV),
    ) {
        (Fact::Known(false, _), _) => {}
        (_, Some(name)) => match facts
            .find(Subject::Netdev, node, &name)
            .map(|n| facts.get(n, netdev::CARRIER_CHANGES))
        {
            // Losing the carrier with which a device is made counts as one change.
            Some(Fact::Known(n, origin)) if n >= 2 => {
                return Fact::derived(true, format!("{name} had carrier: {n} changes ({origin})"));
            }
            Some(Fact::Known(..)) => {}
            Some(Fact::Unknown(gap)) => open = Some(gap),
            None => open = Some(Gap::missing("netdev.carrier_changes")),
        },
        (Fact::Unknown(gap), None) => open = Some(gap),
        (Fact::Known(true, _), None) => open = Some(Gap::missing("port.netdev")),
    }
    Fact::derived(false, "no link now, no link lost, no carrier seen").unless(open)
}

fn intended(facts: &Facts, node: Id, ports: &[Id], port: Id) -> Fact<bool> {
    let Some(device) = facts.ancestor(port, Subject::Device) else {
        return Fact::Unknown(Gap::missing("device"));
    };
    if let (Role::Management, origin) = known!(facts.get(device, device::ROLE), with origin) {
        return Fact::Known(false, origin);
    }
    if facts.known(port, port::LINK_LAYER) != Some(LinkLayer::InfiniBand) {
        // An InfiniBand port always has its GID 0.
        let gids = facts.below(port, Subject::Gid).count();
        match (
            facts.get(device, device::VIRTUAL_FUNCTION),
            facts.members(Subject::Gid, port),
        ) {
            _ if gids > 0 => {}
            (Fact::Known(false, _), _) => {}
            (Fact::Known(true, _), Ok(_)) => {
                return Fact::derived(
                    false,
                    "a virtual function without a GID in this network namespace",
                );
            }
            (Fact::Known(true, _), Err(gap)) | (Fact::Unknown(gap), _) => {
                return Fact::Unknown(gap);
            }
        }
    }
    let state = facts.get(port, port::STATE);
    if state.known().is_some_and(|s| s.is_active()) {
        return Fact::derived(true, "it is active");
    }
    let had_link = facts.get(port, port::HAD_LINK);
    if let Fact::Known(true, origin) = &had_link {
        return Fact::derived(true, origin.to_string());
    }
    let equals = active_equals(facts, node, ports, port);
    if let Ok(Some(how)) = &equals {
        return Fact::derived(true, how);
    }
    let others = facts.incomplete(node, Subject::Port);
    if others.is_none() && ports.len() == 1 {
        return Fact::derived(true, "it is the node's only RDMA port");
    }
    let gaps = [
        state.as_result().err(),
        had_link.as_result().err(),
        equals.as_ref().err(),
        others.as_ref(),
    ];
    if let Some(gap) = gaps.into_iter().flatten().next() {
        return Fact::Unknown(gap.clone());
    }
    let another = ports.iter().find(|p| {
        facts
            .known(**p, port::STATE)
            .is_some_and(PortState::is_active)
    });
    match another {
        Some(other) => Fact::derived(
            false,
            format!(
                "it never had link, and {} is active on another board",
                facts.name(*other)
            ),
        ),
        None => Fact::Unknown(Gap::missing(
            "which of the ports, all without link, are meant to be used",
        )),
    }
}

/// Whether most of the equal ports, this one counted, are active: how, or that they are not, or
/// what is missing to tell.
fn active_equals(facts: &Facts, node: Id, ports: &[Id], port: Id) -> Result<Option<String>, Gap> {
    let others = ports.iter().copied().filter(|other| *other != port);
    let state = |port| facts.get(port, port::STATE).map(PortState::is_active);
    let equals = group::of_equals(facts, others, port, state)?;
    let equals: Several<bool> = equals.into_iter().collect();
    let answered = equals.answered();
    let active = answered.iter().filter(|active| **active).count();
    let lost = facts.incomplete(node, Subject::Port);
    if 2 * active > equals.members() + 1 {
        let how = format!("{active} of its {} equals are active", answered.len());
        return lost.map_or(Ok(Some(how)), Err);
    }
    equals.open().cloned().or(lost).map_or(Ok(None), Err)
}

fn netdev_intended(facts: &Facts, netdev: Id) -> Fact<bool> {
    let related = facts.related(netdev).iter();
    let ports = related.filter(|id| facts.subject(**id) == Subject::Port);
    let intended: Several<bool> = ports.map(|id| facts.get(*id, port::INTENDED)).collect();
    let others = facts.value(netdev, netdev::PORTS).err();
    let any = intended.or_others(others).any(|is| *is);
    Fact::of(any, "whether a port on it is intended for use")
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    use crate::fact::{Membership, Origin};

    fn intended_of(facts: &mut Facts, n: Id, p: Id) -> Option<bool> {
        facts.set_members(Subject::Selector, n, Membership::Known(Origin::Stated));
        judged(facts, n, p)
    }

    fn judged(facts: &mut Facts, n: Id, p: Id) -> Option<bool> {
        super::super::netdev_of_port::derive(facts, n);
        derive(facts, n);
        facts.known(p, port::INTENDED)
    }

    #[test]
    fn a_dead_rail_among_active_equals_is_intended() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let dead = port(&mut facts, n, "mlx5_0", PortState::Down, 400);
        for i in 1..8 {
            port(&mut facts, n, &format!("mlx5_{i}"), PortState::Active, 400);
        }
        assert_eq!(intended_of(&mut facts, n, dead), Some(true));
    }

    #[test]
    fn what_equals_do_is_known_where_the_role_is_not() {
        let mut facts = Facts::new();
        // Without the routing table.
        let n = facts.new_node("n");
        facts.set_members(Subject::Device, n, Membership::Known(Origin::Stated));
        let ports: Vec<Id> = (0..8)
            .map(|i| {
                let state = if i < 2 {
                    PortState::Down
                } else {
                    PortState::Active
                };
                let name = format!("mlx5_{i}");
                let device = facts.instance(Subject::Device, n, &name);
                let p = facts.instance(Subject::Port, device, &format!("{name}/1"));
                facts.set(p, port::LINK_LAYER, stated(LinkLayer::Ethernet));
                facts.set(p, port::HAS_NETDEV, stated(true));
                facts.set(p, port::NETDEV, stated(format!("eth{i}").into()));
                port(&mut facts, n, &name, state, 400)
            })
            .collect();
        assert_eq!(intended_of(&mut facts, n, ports[0]), None);
        let of = |key| facts.known(ports[0], key);
        assert_eq!(of(port::EQUALS_ACTIVE), Some(true));
    }

    #[test]
    fn unused_front_end_ports_beside_one_active_are_not() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let unused = port(&mut facts, n, "mlx5_0", PortState::Down, 100);
        port(&mut facts, n, "mlx5_1", PortState::Down, 100);
        port(&mut facts, n, "mlx5_2", PortState::Active, 100);
        assert_eq!(intended_of(&mut facts, n, unused), Some(false));
    }

    #[test]
    fn the_only_port_is_intended_though_it_never_had_link() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let only = port(&mut facts, n, "mlx5_0", PortState::Down, 100);
        assert_eq!(intended_of(&mut facts, n, only), Some(true));
    }

    #[test]
    fn two_dead_ports_leave_it_open() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let one = port(&mut facts, n, "mlx5_0", PortState::Down, 100);
        port(&mut facts, n, "mlx5_1", PortState::Down, 100);
        assert_eq!(intended_of(&mut facts, n, one), None);
    }

    #[test]
    fn a_port_that_nccl_is_told_to_use_is_intended() {
        for (excludes, expected) in [(None, false), (Some(true), false), (Some(false), true)] {
            let mut facts = Facts::new();
            let n = node(&mut facts);
            let told = port(&mut facts, n, "mlx5_0", PortState::Down, 100);
            port(&mut facts, n, "mlx5_1", PortState::Down, 100);
            port(&mut facts, n, "mlx5_2", PortState::Active, 100);
            if let Some(excludes) = excludes {
                let entry = facts.instance(Subject::Selector, n, "NCCL_IB_HCA mlx5_0");
                facts.set(entry, selector::VARIABLE, stated("NCCL_IB_HCA".into()));
                facts.set(entry, selector::EXCLUDES, stated(excludes));
                facts.set(entry, selector::NAMED, stated(["mlx5_0:1".into()].into()));
            }
            assert_eq!(
                intended_of(&mut facts, n, told),
                Some(expected),
                "{excludes:?}"
            );
        }
    }

    #[test]
    fn an_unused_port_may_be_named_where_the_environment_is_unknown() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let unused = port(&mut facts, n, "mlx5_0", PortState::Down, 100);
        port(&mut facts, n, "mlx5_1", PortState::Down, 100);
        port(&mut facts, n, "mlx5_2", PortState::Active, 100);
        let gap = Gap::missing("the environment");
        facts.set_members(Subject::Selector, n, Membership::Unknown(gap));
        assert_eq!(judged(&mut facts, n, unused), None);
    }
}
