//! What a port's network device says, as facts of the port; and which of them carry the machine's
//! own traffic.

use super::Derivation;
use super::setting::names;
use super::{group, majority};
use crate::fact::device::Role;
use crate::fact::port::LinkLayer;
use crate::fact::{Fact, Facts, Gap, Id, Key, Subject, Typed, device, known, netdev, node, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("netdev_of_port", &[], derive);

/// Copies the netdev's facts to its ports, and tells management devices from the rest.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let ports: Vec<Id> = facts.below(node, Subject::Port).collect();
    for &port in &ports {
        copy(facts, node, port, netdev::UP, port::NETDEV_UP);
        copy(facts, node, port, netdev::OPERSTATE, port::NETDEV_OPERSTATE);
        copy(facts, node, port, netdev::MTU, port::NETDEV_MTU);
        let netdev = facts.get(port, port::NETDEV);
        let local = netdev.flat_map(|name| leads_nowhere(facts, node, &name));
        facts.set(port, port::NETDEV_LOCAL, local);
    }
    let incomplete = facts.incomplete(node, Subject::Port);
    for &port in &ports {
        let up = match &incomplete {
            Some(gap) => Fact::Unknown(gap.clone()),
            None => equals_up(facts, &ports, port),
        };
        facts.set(port, port::EQUALS_NETDEV_UP, up);
    }
    let routes: Vec<(Id, Fact<bool>)> = ports
        .iter()
        .map(|&p| (p, carries_default_route(facts, node, p)))
        .collect();
    for device in facts.below(node, Subject::Device).collect::<Vec<_>>() {
        let own = |port: &Id| facts.parent(*port) == Some(device);
        facts.set(device, device::ROLE, role(&routes, own));
    }
}

/// Whether a netdev leads to no other machine: loopback, a bridge without an adapter.
fn leads_nowhere(facts: &Facts, node: Id, name: &str) -> Fact<bool> {
    match facts.find(Subject::Interface, node, name) {
        Some(own) => names::leads_nowhere(facts, node, own),
        None => Fact::derived(name == "lo", "its name"),
    }
}

fn copy<T: Typed>(facts: &mut Facts, node: Id, port: Id, from: Key<T>, to: Key<T>) {
    let fact = match facts.get(port, port::NETDEV) {
        Fact::Known(name, _) => match facts.find(Subject::Netdev, node, &name) {
            Some(netdev) => facts.get(netdev, from),
            None => Fact::Unknown(Gap::missing(from.path())),
        },
        Fact::Unknown(_) => Fact::Unknown(Gap::missing("port.netdev")),
    };
    facts.set(port, to, fact);
}

/// Whether most equal ports with a network device have it up. Two that differ are no majority.
fn equals_up(facts: &Facts, ports: &[Id], port: Id) -> Fact<bool> {
    let up = |port: Id| facts.get(port, port::NETDEV_UP);
    let ports = ports.iter().copied();
    let ports = ports.filter(|p| facts.known(*p, port::HAS_NETDEV) != Some(false));
    let ups = known!(ok group::of_equals(facts, ports, port, up));
    majority::of(&up(port), &ups, "equal ports")
}

/// Whether the port's netdev carries a default route. An InfiniBand port does not count as one: no
/// machine is managed over IPoIB alone.
fn carries_default_route(facts: &Facts, node: Id, port: Id) -> Fact<bool> {
    let layer = facts.get(port, port::LINK_LAYER);
    if let (LinkLayer::InfiniBand, origin) = known!(layer, with origin) {
        return Fact::Known(false, origin);
    }
    if let Fact::Known(false, origin) = facts.get(port, port::HAS_NETDEV) {
        return Fact::Known(false, origin);
    }
    match (
        facts.get(port, port::NETDEV),
        facts.get(node, node::DEFAULT_ROUTE),
    ) {
        (_, Fact::Known(routes, origin)) if routes.is_empty() => Fact::Known(false, origin),
        (Fact::Known(name, _), Fact::Known(routes, origin)) => {
            Fact::Known(routes.contains(&name), origin)
        }
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    }
}

/// A device carries the machine's own traffic where one of its ports has the default route while
/// another device's port has not: the one RDMA device of a small machine serves both, and counts as
/// compute.
fn role(routes: &[(Id, Fact<bool>)], own: impl Fn(&Id) -> bool) -> Fact<Role> {
    let (mine, others): (Vec<_>, Vec<_>) = routes.iter().partition(|(port, _)| own(port));
    let has = |list: &[&(Id, Fact<bool>)], wanted: bool| {
        list.iter().any(|(_, f)| f.known() == Some(&wanted))
    };
    let open =
        |list: &[&(Id, Fact<bool>)]| list.iter().find_map(|(_, f)| f.as_result().err().cloned());
    if has(&mine, true) {
        if has(&others, false) {
            return Fact::derived(
                Role::Management,
                "it carries the default route, and other RDMA devices do not",
            );
        }
        return Fact::derived(Role::Compute, "no RDMA device is without a default route")
            .unless(open(&others));
    }
    match open(&mine) {
        // Where no other device could be the compute one, it does not matter.
        Some(_) if !has(&others, false) && open(&others).is_none() => {
            Fact::derived(Role::Compute, "no RDMA device is without a default route")
        }
        Some(gap) => Fact::Unknown(gap),
        None => Fact::derived(Role::Compute, "it carries no default route"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::fact::port::PortState;

    fn ethernet(facts: &mut Facts, node: Id, name: &str, netdev_name: &str) -> Id {
        let device = facts.instance(Subject::Device, node, name);
        let p = facts.instance(Subject::Port, device, &format!("{name}/1"));
        facts.set(p, port::STATE, stated(PortState::Active));
        facts.set(p, port::LINK_LAYER, stated(LinkLayer::Ethernet));
        facts.set(p, port::HAS_NETDEV, stated(true));
        facts.set(p, port::NETDEV, stated(netdev_name.into()));
        device
    }

    #[test]
    fn the_carrier_of_the_default_route_is_management_only_beside_another() {
        let mut facts = Facts::new();
        let n = facts.new_node("n");
        facts.set(n, node::DEFAULT_ROUTE, stated(["eth0".into()].into()));
        let first = ethernet(&mut facts, n, "mlx5_0", "eth0");
        derive(&mut facts, n);
        assert_eq!(
            facts.known(first, device::ROLE),
            Some(Role::Compute),
            "the only RDMA device"
        );

        let mut facts = Facts::new();
        let n = facts.new_node("n");
        facts.set(n, node::DEFAULT_ROUTE, stated(["eth0".into()].into()));
        let first = ethernet(&mut facts, n, "mlx5_0", "eth0");
        let second = ethernet(&mut facts, n, "mlx5_1", "eth1");
        derive(&mut facts, n);
        assert_eq!(facts.known(first, device::ROLE), Some(Role::Management));
        assert_eq!(facts.known(second, device::ROLE), Some(Role::Compute));
    }

    #[test]
    fn one_interface_down_among_equals_that_are_up() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let ports: Vec<Id> = (0..4)
            .map(|i| {
                let (name, interface) = (format!("mlx5_{i}"), format!("ib{i}"));
                let id = facts.instance(Subject::Netdev, n, &interface);
                facts.set(id, netdev::UP, stated(i != 2));
                let device = facts.instance(Subject::Device, n, &name);
                let p = facts.instance(Subject::Port, device, &format!("{name}/1"));
                facts.set(p, port::HAS_NETDEV, stated(true));
                facts.set(p, port::NETDEV, stated(interface.into()));
                port(&mut facts, n, &name, PortState::Active, 400)
            })
            .collect();
        derive(&mut facts, n);
        assert_eq!(facts.known(ports[2], port::NETDEV_UP), Some(false));
        assert_eq!(facts.known(ports[2], port::EQUALS_NETDEV_UP), Some(true));
    }

    #[test]
    fn an_unknown_route_leaves_an_ethernet_role_open_and_an_infiniband_role_not() {
        let mut facts = Facts::new();
        let n = facts.new_node("n");
        let first = ethernet(&mut facts, n, "mlx5_0", "eth0");
        port(&mut facts, n, "mlx5_1", PortState::Active, 200);
        derive(&mut facts, n);
        assert_eq!(facts.known(first, device::ROLE), None);
        let ib = facts.find(Subject::Device, n, "mlx5_1").unwrap();
        assert_eq!(facts.known(ib, device::ROLE), Some(Role::Compute));
    }
}
