//! Whose traffic with each other passes a PCIe bridge without going up to the root complex.

use super::Derivation;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::pcie_hop::{Endpoint, endpoints};
use crate::fact::bridge::{self, BypassedPeers};
use crate::fact::{Fact, Facts, Id, Subject};

/// The two ports at which the paths of two functions part, below the last function that both have;
/// `None` where they part at the host bridge or above it: traffic between those goes through the
/// root complex whatever the bridges say.
///
/// A packet from the one to the other goes up to the switch, enters it at one of these ports and
/// leaves it at the other, and it is on entering that Access Control Services redirect it (PCI
/// Express Base Specification, 6.12).
pub fn turning_ports(a: &[Arc<str>], b: &[Arc<str>]) -> Option<(Arc<str>, Arc<str>)> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    if common < 2 {
        return None;
    }
    Some((Arc::clone(a.get(common)?), Arc::clone(b.get(common)?)))
}

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("pcie_peers", &[], derive);

/// Works out what each bridge is between.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let (endpoints, open) = endpoints(facts, node);
    let mut found: BTreeMap<Arc<str>, (BypassedPeers, String)> = BTreeMap::new();
    let gpus: Vec<&Endpoint> = endpoints.iter().filter(|e| e.is_gpu).collect();
    for (at, gpu) in gpus.iter().enumerate() {
        let others = endpoints.iter().filter(|e| !e.is_gpu);
        for peer in others.chain(gpus.iter().skip(at + 1).copied()) {
            let Some((here, there)) = turning_ports(&gpu.path, &peer.path) else {
                continue;
            };
            let between = if peer.is_gpu {
                BypassedPeers::GpuGpu
            } else {
                BypassedPeers::GpuNic
            };
            let names = || format!("{} and {}", facts.name(gpu.id), facts.name(peer.id));
            for port in [here, there] {
                let old = found.get(&port);
                // An adapter counts for more than another GPU: NVLink may spare the latter the bus.
                if old.is_none_or(|(old, _)| {
                    *old == BypassedPeers::GpuGpu && between == BypassedPeers::GpuNic
                }) {
                    found.insert(port, (between, names()));
                }
            }
        }
    }
    for id in facts.below(node, Subject::Bridge).collect::<Vec<_>>() {
        let (between, peers) = match (found.remove(facts.name(id)), &open) {
            (Some((between, peers)), _) => (
                Fact::derived(between, &peers),
                Fact::derived(
                    peers.as_str().into(),
                    "the paths that part below its switch",
                ),
            ),
            (None, Some(gap)) => (Fact::Unknown(gap.clone()), Fact::Unknown(gap.clone())),
            (None, None) => {
                let how = "no two paths of GPUs and RDMA functions part here";
                (
                    Fact::derived(BypassedPeers::None, how),
                    Fact::derived("none".into(), how),
                )
            }
        };
        facts.set(id, bridge::BETWEEN, between);
        facts.set(id, bridge::PEERS, peers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{node, stated};
    use crate::fact::{Membership, Origin, function, gpu};

    fn path(text: &str) -> Arc<[Arc<str>]> {
        text.split(' ').map(Arc::from).collect()
    }

    #[test]
    fn paths_part_at_a_switch_a_root_port_or_nowhere() {
        let turn =
            |a: &str, b: &str| turning_ports(&path(a), &path(b)).map(|(a, b)| format!("{a} {b}"));
        // As on a DGX A100: two switches above each other; the outer one turns the traffic round.
        assert_eq!(
            turn(
                "pci0000:00 0000:00:01.1 0000:01:00.0 0000:02:00.0 0000:03:00.0 0000:04:00.0 0000:07:00.0",
                "pci0000:00 0000:00:01.1 0000:01:00.0 0000:02:04.0 0000:0a:00.0 0000:0b:00.0 0000:0c:00.0",
            )
            .as_deref(),
            Some("0000:02:00.0 0000:02:04.0")
        );
        // Two root ports of one host bridge, and two host bridges: through the root complex in any
        // case.
        assert_eq!(
            turn(
                "pci0000:00 0000:00:01.0 0000:01:00.0",
                "pci0000:00 0000:00:02.0 0000:02:00.0"
            ),
            None
        );
        assert_eq!(
            turn(
                "pci0000:00 0000:00:01.0 0000:01:00.0",
                "pci0000:80 0000:80:02.0 0000:82:00.0"
            ),
            None
        );
        assert_eq!(
            turn("pci0000:00 0000:00:01.0", "pci0000:00 0000:00:01.0"),
            None
        );
    }

    #[test]
    fn an_adapter_weighs_more_than_a_gpu_and_a_gap_leaves_the_rest_open() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        facts.set_members(Subject::Gpu, n, Membership::Known(Origin::Stated));
        let below = "pci0000:15 0000:15:01.0 0000:16:00.0";
        for (gpu, port) in [
            ("0000:19:00.0", "0000:17:01.0"),
            ("0000:1a:00.0", "0000:17:02.0"),
        ] {
            let id = facts.instance(Subject::Gpu, n, gpu);
            facts.set(
                id,
                gpu::PATH,
                stated(path(&format!("{below} {port} {gpu}"))),
            );
        }
        let nic = facts.instance(Subject::Function, n, "0000:18:00.0");
        facts.set(
            nic,
            function::PATH,
            stated(path(&format!("{below} 0000:17:00.0 0000:18:00.0"))),
        );
        let ports: Vec<Id> = [
            "0000:15:01.0",
            "0000:16:00.0",
            "0000:17:00.0",
            "0000:17:02.0",
            "0000:57:00.0",
        ]
        .into_iter()
        .map(|name| facts.instance(Subject::Bridge, n, name))
        .collect();
        derive(&mut facts, n);
        let of = |facts: &Facts, i: usize| facts.known(ports[i], bridge::BETWEEN);
        assert_eq!(
            of(&facts, 0),
            Some(BypassedPeers::None),
            "the root port is above both"
        );
        assert_eq!(of(&facts, 1), Some(BypassedPeers::None));
        assert_eq!(of(&facts, 2), Some(BypassedPeers::GpuNic));
        assert_eq!(
            of(&facts, 3),
            Some(BypassedPeers::GpuNic),
            "though a GPU is its neighbour too"
        );
        assert_eq!(
            facts.known(ports[3], bridge::PEERS).as_deref(),
            Some("0000:1a:00.0 and 0000:18:00.0")
        );

        let mut facts = Facts::new();
        let n = facts.new_node("n");
        let port = facts.instance(Subject::Bridge, n, "0000:57:00.0");
        derive(&mut facts, n);
        assert_eq!(
            facts.known(port, bridge::BETWEEN),
            None,
            "there may be others"
        );
    }
}
