//! Whether the interfaces that a storage client is told to use are there.

use super::Derivation;
use std::sync::Arc;

use super::tally;
use crate::fact::port::LinkLayer;
use crate::fact::{Fact, Facts, Gap, Id, Subject, gid, interface, mount, port};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("storage", &[], derive);

/// Looks at the interfaces of BeeGFS's lists.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    for id in facts.below(node, Subject::Mount).collect::<Vec<_>>() {
        if facts.known(id, mount::KIND).as_deref() != Some("beegfs") {
            continue;
        }
        let named = facts.get(id, mount::INTERFACES);
        let any = named.clone().map(|names| !names.is_empty());
        facts.set(id, mount::INTERFACES_NAMED, any);
        state_usable(facts, node, id, named);
        let named = facts.get(id, mount::RDMA_INTERFACES);
        let any = named.clone().map(|names| !names.is_empty());
        facts.set(id, mount::RDMA_INTERFACES_NAMED, any);
        let capable = named.flat_map(|names| capable(facts, node, &names));
        facts.set(id, mount::RDMA_INTERFACE_USABLE, capable);
    }
}

/// Why an interface cannot be used; `None` where it can.
fn unusable(facts: &Facts, node: Id, name: &str) -> Result<Option<&'static str>, Gap> {
    let Some(id) = facts.find(Subject::Interface, node, name) else {
        return Ok(Some("not there"));
    };
    if !*known(&facts.get(id, interface::UP))? {
        return Ok(Some("down"));
    }
    if !*known(&facts.get(id, interface::RUNNING))? {
        return Ok(Some("no carrier"));
    }
    let addresses = facts.get(id, interface::ADDRESSES);
    Ok(known(&addresses)?.is_empty().then_some("no address"))
}

fn known<T>(fact: &Fact<T>) -> Result<&T, Gap> {
    fact.as_result().map_err(Clone::clone)
}

fn state_usable(facts: &mut Facts, node: Id, id: Id, named: Fact<Arc<[Arc<str>]>>) {
    let seen = named.as_result().map_err(Clone::clone).and_then(|names| {
        facts.members(Subject::Interface, node)?;
        let mut found = Vec::new();
        for name in names.iter() {
            if let Some(why) = unusable(facts, node, name)? {
                found.push((name, why));
            }
        }
        let any = found.len() < names.len();
        let down = found.iter().any(|(_, why)| *why != "not there");
        let texts: Arc<[Arc<str>]> = found
            .iter()
            .map(|(name, why)| format!("{name} ({why})").into())
            .collect();
        Ok((any, down, texts))
    });
    let how = "the interfaces of connInterfacesFile";
    let (usable, down, texts) = match seen {
        Ok((usable, down, texts)) => (
            Fact::derived(usable, how),
            Fact::derived(down, how),
            Fact::derived(texts, how),
        ),
        Err(gap) => (
            Fact::Unknown(gap.clone()),
            Fact::Unknown(gap.clone()),
            Fact::Unknown(gap),
        ),
    };
    facts.set(id, mount::INTERFACE_USABLE, usable);
    facts.set(id, mount::INTERFACE_DOWN, down);
    facts.set(id, mount::INTERFACES_UNUSABLE, texts);
}

/// Whether one of these interfaces belongs to an RDMA device: it is a port's, has one of its GIDs, is a part of one (`ib0.8001`), or a
/// bond of them.
fn capable(facts: &Facts, node: Id, names: &[Arc<str>]) -> Fact<bool> {
    let mut rdma: Vec<Arc<str>> = Vec::new();
    for port in facts.below(node, Subject::Port) {
        rdma.extend(facts.known(port, port::NETDEV));
        rdma.extend(
            facts
                .below(port, Subject::Gid)
                .filter_map(|gid| facts.known(gid, gid::NETDEV)),
        );
    }
    for id in facts.below(node, Subject::Interface) {
        if rdma.iter().any(|name| **name == *facts.name(id)) {
            let master = facts.known(id, interface::MASTER);
            rdma.extend(master.filter(|master| &**master != "none"));
        }
    }
    let fits = |name: &Arc<str>| {
        let base = name.split('.').next().unwrap_or(name);
        rdma.iter().any(|rdma| rdma == name || **rdma == *base)
    };
    let how = "the interfaces of connRDMAInterfacesFile, and those of RDMA devices";
    if names.iter().any(fits) {
        return Fact::derived(true, how);
    }
    let open = tally::incomplete(facts, node, Subject::Port)
        .or_else(|| facts.members(Subject::Interface, node).err())
        .or_else(|| {
            let mut ports = facts.below(node, Subject::Port);
            ports.find_map(|port| nameless(facts, port))
        });
    Fact::derived(false, how).unless(open)
}

/// What keeps the interfaces of a port from being known. An InfiniBand port's GIDs have none.
fn nameless(facts: &Facts, port: Id) -> Option<Gap> {
    if let Fact::Unknown(gap) = facts.get(port, port::HAS_NETDEV) {
        return Some(gap);
    }
    if facts.known(port, port::LINK_LAYER) == Some(LinkLayer::InfiniBand) {
        return None;
    }
    facts.members(Subject::Gid, port).err().or_else(|| {
        let mut gids = facts.below(port, Subject::Gid);
        gids.find_map(|gid| facts.get(gid, gid::NETDEV).as_result().err().cloned())
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node, port, stated};
    use super::*;
    use crate::fact::port::PortState;
    use crate::fact::{Membership, Origin};

    fn texts(names: &[&str]) -> Fact<Arc<[Arc<str>]>> {
        stated(names.iter().map(|n| Arc::from(*n)).collect())
    }

    /// ib0 of mlx5_0 is up, ib1 has no address, eth0 is down.
    fn built(named: &[&str], rdma: &[&str]) -> (Facts, Id) {
        let mut facts = Facts::new();
        let node = node(&mut facts);
        let p = port(&mut facts, node, "mlx5_0", PortState::Active, 400);
        facts.set(p, port::HAS_NETDEV, stated(true));
        facts.set(p, port::NETDEV, stated("ib0".into()));
        facts.set_members(Subject::Interface, node, Membership::Known(Origin::Stated));
        for (name, up, addresses) in [
            ("ib0", true, &["10.0.0.1/24"][..]),
            ("ib1", true, &[]),
            ("eth0", false, &["10.1.0.1/24"]),
        ] {
            let id = facts.instance(Subject::Interface, node, name);
            facts.set(id, interface::UP, stated(up));
            facts.set(id, interface::RUNNING, stated(up));
            facts.set(id, interface::ADDRESSES, texts(addresses));
            facts.set(id, interface::MASTER, stated("none".into()));
        }
        let id = facts.instance(Subject::Mount, node, "/mnt/beegfs");
        facts.set(id, mount::KIND, stated("beegfs".into()));
        facts.set(id, mount::INTERFACES, texts(named));
        facts.set(id, mount::RDMA_INTERFACES, texts(rdma));
        derive(&mut facts, node);
        (facts, id)
    }

    #[test]
    fn one_usable_interface_is_enough() {
        let (facts, id) = built(&["ib9", "ib0"], &["ib0"]);
        assert_eq!(facts.known(id, mount::INTERFACE_USABLE), Some(true));
        assert_eq!(facts.known(id, mount::INTERFACE_DOWN), Some(false));
        assert_eq!(facts.known(id, mount::RDMA_INTERFACE_USABLE), Some(true));
        let (facts, id) = built(&["ib9", "ib1", "eth0"], &["eth0"]);
        assert_eq!(facts.known(id, mount::INTERFACE_USABLE), Some(false));
        assert_eq!(facts.known(id, mount::INTERFACE_DOWN), Some(true));
        let unusable = facts.known(id, mount::INTERFACES_UNUSABLE).unwrap();
        assert_eq!(
            unusable.join(", "),
            "ib9 (not there), ib1 (no address), eth0 (down)"
        );
        assert_eq!(facts.known(id, mount::RDMA_INTERFACE_USABLE), Some(false));
    }

    #[test]
    fn without_a_list_nothing_is_limited() {
        let (facts, id) = built(&[], &[]);
        assert_eq!(facts.known(id, mount::INTERFACES_NAMED), Some(false));
        assert_eq!(facts.known(id, mount::RDMA_INTERFACES_NAMED), Some(false));
    }

    #[test]
    fn a_gid_whose_interface_is_not_known_may_be_of_any() {
        let mut facts = Facts::new();
        let node = node(&mut facts);
        let device = facts.instance(Subject::Device, node, "mlx5_0");
        facts.set_members(Subject::Port, device, Membership::Known(Origin::Stated));
        facts.set_members(Subject::Interface, node, Membership::Known(Origin::Stated));
        let p = facts.instance(Subject::Port, device, "mlx5_0/1");
        facts.set(p, port::LINK_LAYER, stated(LinkLayer::Ethernet));
        facts.set(p, port::HAS_NETDEV, stated(true));
        facts.set(p, port::NETDEV, stated("eth2".into()));
        facts.set_members(Subject::Gid, p, Membership::Known(Origin::Stated));
        let gid = facts.instance(Subject::Gid, p, "mlx5_0/1/3");
        let names = [Arc::from("storage")];
        assert_eq!(capable(&facts, node, &names).known(), None);
        facts.set(gid, gid::NETDEV, stated("storage".into()));
        assert_eq!(capable(&facts, node, &names).known(), Some(&true));
        let names = [Arc::from("eth9")];
        assert_eq!(capable(&facts, node, &names).known(), Some(&false));
    }

    #[test]
    fn a_part_of_an_interface_is_as_capable() {
        let (facts, id) = built(&[], &["ib0.8001"]);
        assert_eq!(facts.known(id, mount::RDMA_INTERFACE_USABLE), Some(true));
    }
}
