//! The RDMA MTU that a network device's MTU allows, and the MTU of interfaces that are named alike.

use std::collections::BTreeMap;

use super::Derivation;
use crate::fact::port::LinkLayer;
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Origin, Subject, interface, node as of_node, port};

/// Headers that the kernel keeps room for: GRH or IPv6 40, UDP 8, BTH 12, XRC 4, AtomicETH 28, ICRC
/// 4 (include/rdma/ib_addr.h, iboe_get_mtu).
const HEADERS: u64 = 40 + 8 + 12 + 4 + 28 + 4;

/// The largest RDMA MTU that fits a network device's MTU; `None` where not even the smallest does.
pub fn fitting(netdev_mtu: Bytes) -> Option<Bytes> {
    let room = netdev_mtu.0.checked_sub(HEADERS)?;
    [4096, 2048, 1024, 512, 256]
        .into_iter()
        .find(|mtu| *mtu <= room)
        .map(Bytes)
}

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("mtu", &["port.netdev_mtu"], derive);

/// Works out the fitting MTU of each Ethernet port.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    for port in facts.below(node, Subject::Port).collect::<Vec<_>>() {
        let fact = match (
            facts.get(port, port::LINK_LAYER),
            facts.get(port, port::NETDEV_MTU),
            facts.get(port, port::MAX_MTU),
        ) {
            (Fact::Known(LinkLayer::Ethernet, _), Fact::Known(mtu, _), Fact::Known(max, _)) => {
                let missing = || Gap::missing("an RDMA MTU that fits the netdev MTU");
                let fit = fitting(mtu).map(|fit| fit.min(max)).ok_or_else(missing);
                Fact::of(fit, format!("netdev MTU {mtu} less {HEADERS} B of headers"))
            }
            (Fact::Known(LinkLayer::Ethernet, _), Fact::Unknown(gap), _)
            | (Fact::Known(LinkLayer::Ethernet, _), _, Fact::Unknown(gap))
            | (Fact::Unknown(gap), ..) => Fact::Unknown(gap),
            (Fact::Known(..), ..) => Fact::Unknown(Gap::missing("an Ethernet port")),
        };
        facts.set(port, port::FITTING_MTU, fact);
    }
    of_names_alike(facts, node);
}

/// An interface that is up, and its MTU.
struct Up {
    id: Id,
    /// Its name, in which any number stands for any other.
    pattern: String,
    mtu: Bytes,
}

/// States of each interface the MTU that most of the others have whose names differ in numbers alone.
/// One that has the default route serves the machine itself, and so does the first of them, by
/// custom, where routes are not known.
fn of_names_alike(facts: &mut Facts, node: Id) {
    let routes = facts.known(node, of_node::DEFAULT_ROUTE);
    let all: Vec<Id> = facts.below(node, Subject::Interface).collect();
    let ups = all.into_iter().filter_map(|id| {
        let is_hardware = facts
            .known(id, interface::KIND)
            .is_none_or(|kind| &*kind == "none");
        let is_up = facts.known(id, interface::RUNNING) == Some(true);
        let mtu = facts
            .known(id, interface::MTU)
            .filter(|_| is_hardware && is_up)?;
        let name = facts.name(id);
        Some(Up {
            id,
            pattern: pattern(name),
            mtu,
        })
    });
    let mut groups: BTreeMap<String, Vec<Up>> = BTreeMap::new();
    for up in ups {
        groups.entry(up.pattern.clone()).or_default().push(up);
    }
    for group in groups.values() {
        let first = group
            .iter()
            .map(|up| facts.name(up.id))
            .min()
            .map(str::to_owned);
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for up in group {
            *counts.entry(up.mtu.0).or_default() += 1;
        }
        let members = group.len() as u64;
        let Some((most, alike)) = counts.into_iter().find(|one| 2 * one.1 > members) else {
            continue;
        };
        for up in group {
            let name = facts.name(up.id);
            let is_the_machines = match &routes {
                Some(routes) => routes.iter().any(|of| **of == *name),
                None => first.as_deref() == Some(name),
            };
            if !is_the_machines {
                let origin = Origin::derived("interfaces that are named alike");
                facts.know(up.id, interface::ALIKE_MTU, Bytes(most), &origin);
                facts.know(up.id, interface::ALIKE, alike, &origin);
            }
        }
    }
}

fn pattern(name: &str) -> String {
    let mut pattern = String::new();
    for letter in name.chars() {
        if !letter.is_ascii_digit() {
            pattern.push(letter);
        } else if !pattern.ends_with('#') {
            pattern.push('#');
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_steps() {
        for (netdev, rdma) in [
            (1000, 512),
            (1500, 1024),
            (2143, 1024),
            (2144, 2048),
            (4191, 2048),
            (4192, 4096),
            (9000, 4096),
        ] {
            assert_eq!(fitting(Bytes(netdev)), Some(Bytes(rdma)), "{netdev}");
        }
        assert_eq!(fitting(Bytes(68)), None);
    }
}
