//! Rails beside each other: whose networks overlap, and who has whose address.

use super::Derivation;
use std::sync::Arc;

use crate::fact::kleene::Several;
use crate::fact::port::LinkLayer;
use crate::fact::{Fact, Facts, Gap, Id, Subject, netdev, port};
use crate::network::Network;

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("rail", &["port.intended"], derive);

/// Compares the networks and addresses of the netdevs of intended RoCE ports.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    // What keeps the list of rails from being whole.
    let mut open = facts.incomplete(node, Subject::Port);
    let mut rails: Vec<Id> = Vec::new();
    let mut others: Vec<(Id, Gap)> = Vec::new();
    let netdevs: Vec<Id> = facts.below(node, Subject::Netdev).collect();
    for &id in &netdevs {
        let rail = is_rail(facts, id);
        let roce = Fact::of(rail.clone(), "the link layer of its intended ports");
        facts.set(id, netdev::ROCE, roce);
        match rail {
            Ok(true) => rails.push(id),
            Ok(false) => nothing(facts, id),
            Err(gap) => {
                open.get_or_insert(gap.clone());
                others.push((id, gap));
            }
        }
    }
    for port in facts.below(node, Subject::Port) {
        // A port whose netdev is not known may be on a rail that is not in the list.
        if facts.known(port, port::LINK_LAYER) != Some(LinkLayer::InfiniBand)
            && let Fact::Unknown(gap) = facts.get(port, port::HAS_NETDEV)
        {
            open.get_or_insert(gap);
        }
    }
    for (id, gap) in others {
        facts.set(id, netdev::SHARES_NETWORK, Fact::Unknown(gap.clone()));
        facts.set(id, netdev::ADDRESS_SHARED, Fact::Unknown(gap));
    }
    if let ([only], None) = (&rails[..], &open) {
        nothing(facts, *only);
        return;
    }
    let networks: Vec<Fact<Vec<Network>>> = rails
        .iter()
        .map(|id| {
            facts
                .get(*id, netdev::NETWORKS)
                .and_then(|all| all.iter().map(|text| Network::read(text)).collect())
        })
        .collect();
    let addresses: Vec<_> = rails
        .iter()
        .map(|id| facts.get(*id, netdev::ADDRESSES))
        .collect();
    for (at, id) in rails.iter().enumerate() {
        let overlap = |a: &Vec<Network>, b: &Vec<Network>| {
            a.iter()
                .any(|one| b.iter().any(|other| one.overlaps(*other)))
        };
        let found = like(facts, &rails, &networks, at, overlap, &open);
        let shares_network = found.clone().map(|l| !l.is_empty());
        facts.set(*id, netdev::SHARES_NETWORK, shares_network);
        facts.set(*id, netdev::SHARES_NETWORK_WITH, found);
        let same = |a: &Arc<[Arc<str>]>, b: &Arc<[Arc<str>]>| a.iter().any(|one| b.contains(one));
        let found = like(facts, &rails, &addresses, at, same, &open);
        let address_shared = found.clone().map(|l| !l.is_empty());
        facts.set(*id, netdev::ADDRESS_SHARED, address_shared);
        facts.set(*id, netdev::SAME_ADDRESS, found);
    }
}

/// The other rails that are like this one in what is looked at. One that is makes the answer known;
/// that none is needs all.
fn like<T>(
    facts: &Facts,
    rails: &[Id],
    of: &[Fact<T>],
    at: usize,
    alike: impl Fn(&T, &T) -> bool,
    open: &Option<Gap>,
) -> Fact<Arc<[Arc<str>]>> {
    let own = match of.get(at) {
        Some(Fact::Known(own, _)) => own,
        Some(Fact::Unknown(gap)) => return Fact::Unknown(gap.clone()),
        None => return Fact::Unknown(Gap::missing("netdev.networks")),
    };
    let mut found: Vec<Arc<str>> = Vec::new();
    let mut open = open.clone();
    for (n, (rail, other)) in rails.iter().zip(of).enumerate() {
        match other {
            _ if n == at => {}
            Fact::Known(other, _) if alike(own, other) => found.push(facts.name(*rail).into()),
            Fact::Known(..) => {}
            Fact::Unknown(gap) => open = Some(gap.clone()),
        }
    }
    match open {
        Some(gap) if found.is_empty() => Fact::Unknown(gap),
        _ => Fact::derived(found.into(), "the networks of the node's rails"),
    }
}

/// Whether an intended Ethernet port runs on the netdev.
fn is_rail(facts: &Facts, id: Id) -> Result<bool, Gap> {
    let related = facts.related(id).iter().copied();
    let ports = related.filter(|id| facts.subject(*id) == Subject::Port);
    let used = ports.map(|port| {
        let layer = facts.get(port, port::LINK_LAYER);
        let ethernet = layer.map(|layer| layer == LinkLayer::Ethernet);
        let needs = [ethernet, facts.get(port, port::INTENDED)];
        needs.into_iter().collect::<Several<bool>>().all(|is| *is)
    });
    let others = facts.value(id, netdev::PORTS).err();
    used.collect::<Several<bool>>()
        .or_others(others)
        .any(|is| *is)
}

fn nothing(facts: &mut Facts, id: Id) {
    let how = "no other rail, or none itself";
    facts.derive(id, netdev::SHARES_NETWORK, false, how);
    facts.derive(id, netdev::ADDRESS_SHARED, false, how);
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::fact::port::PortState;

    fn rail(facts: &mut Facts, n: Id, name: &str, networks: &[&str], addresses: &[&str]) -> Id {
        let p = port(facts, n, &format!("mlx5_{name}"), PortState::Active, 400);
        // The helper's port is of InfiniBand; a fact stays as it was stated first.
        let device = facts.parent(p).unwrap();
        let p = facts.instance(Subject::Port, device, &format!("mlx5_{name}/2"));
        facts.set(p, port::LINK_LAYER, stated(LinkLayer::Ethernet));
        facts.set(p, port::INTENDED, stated(true));
        facts.set(p, port::HAS_NETDEV, stated(true));
        let id = facts.instance(Subject::Netdev, n, name);
        facts.relate(p, id);
        let texts = |all: &[&str]| {
            all.iter()
                .map(|t| Arc::from(*t))
                .collect::<Arc<[Arc<str>]>>()
        };
        facts.set(id, netdev::PORTS, stated(texts(&[name])));
        facts.set(id, netdev::NETWORKS, stated(texts(networks)));
        facts.set(id, netdev::ADDRESSES, stated(texts(addresses)));
        id
    }

    #[test]
    fn networks_that_overlap_and_networks_beside_each_other() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let a = rail(&mut facts, n, "eth2", &["10.0.0.0/16"], &["10.0.0.5"]);
        let b = rail(&mut facts, n, "eth3", &["10.0.1.0/24"], &["10.0.1.5"]);
        let c = rail(&mut facts, n, "eth4", &["10.1.0.0/16"], &["10.1.0.5"]);
        derive(&mut facts, n);
        let shares = |id| facts.known(id, netdev::SHARES_NETWORK);
        assert_eq!(
            (shares(a), shares(b), shares(c)),
            (Some(true), Some(true), Some(false))
        );
        let with = facts.known(b, netdev::SHARES_NETWORK_WITH).unwrap();
        assert_eq!(with.join(" "), "eth2");
        assert_eq!(facts.known(a, netdev::ADDRESS_SHARED), Some(false));
    }

    #[test]
    fn point_to_point_networks_do_not_overlap() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let a = rail(&mut facts, n, "eth2", &["10.0.0.0/31"], &["10.0.0.1"]);
        let b = rail(&mut facts, n, "eth3", &["10.0.0.2/31"], &["10.0.0.3"]);
        derive(&mut facts, n);
        assert_eq!(facts.known(a, netdev::SHARES_NETWORK), Some(false));
        assert_eq!(facts.known(b, netdev::SHARES_NETWORK), Some(false));
    }

    #[test]
    fn one_address_on_two_rails() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let a = rail(&mut facts, n, "eth2", &["10.0.0.0/24"], &["10.0.0.5"]);
        rail(&mut facts, n, "eth3", &["10.0.0.0/24"], &["10.0.0.5"]);
        derive(&mut facts, n);
        assert_eq!(facts.known(a, netdev::ADDRESS_SHARED), Some(true));
        let same = facts.known(a, netdev::SAME_ADDRESS).unwrap();
        assert_eq!(same.join(" "), "eth3");
    }

    #[test]
    fn a_single_rail_shares_with_nobody_though_its_networks_are_not_known() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let a = rail(&mut facts, n, "eth2", &[], &[]);
        derive(&mut facts, n);
        assert_eq!(facts.known(a, netdev::SHARES_NETWORK), Some(false));
    }

    #[test]
    fn a_rail_whose_networks_are_not_known_leaves_the_others_open() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let a = rail(&mut facts, n, "eth2", &["10.0.0.0/24"], &["10.0.0.5"]);
        let b = rail(&mut facts, n, "eth3", &["10.0.1.0/24"], &["10.0.1.5"]);
        let odd = rail(&mut facts, n, "eth4", &["nonsense"], &[]);
        derive(&mut facts, n);
        assert_eq!(facts.known(a, netdev::SHARES_NETWORK), None);
        assert_eq!(facts.known(b, netdev::SHARES_NETWORK), None);
        assert_eq!(facts.known(odd, netdev::SHARES_NETWORK), None);
    }

    #[test]
    fn the_management_interface_is_no_rail() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        rail(&mut facts, n, "eth2", &["10.0.0.0/24"], &["10.0.0.5"]);
        let management = facts.instance(Subject::Netdev, n, "eno1");
        facts.set(management, netdev::PORTS, stated(Arc::from([])));
        derive(&mut facts, n);
        assert_eq!(facts.known(management, netdev::SHARES_NETWORK), Some(false));
        assert_eq!(facts.known(management, netdev::ROCE), Some(false));
    }
}
