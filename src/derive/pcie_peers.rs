//! Whose traffic with each other passes a PCIe bridge without going up to the root complex.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pcie_hop::{Endpoint, endpoints};
use crate::fact::bridge::{self, Between};
use crate::fact::{Fact, Facts, Id, Subject};

/// The two ports at which the paths of two functions part, below the last function that both have; `None` where they part at the
/// host bridge or above it: traffic between those goes through the root complex whatever the bridges say.
///
/// A packet from the one to the other goes up to the switch, enters it at one of these ports and leaves it at the other, and it is on
/// entering that Access Control Services redirect it (PCI Express Base Specification, 6.12).
pub fn turning_ports(a: &[Arc<str>], b: &[Arc<str>]) -> Option<(Arc<str>, Arc<str>)> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    if common < 2 {
        return None;
    }
    Some((Arc::clone(a.get(common)?), Arc::clone(b.get(common)?)))
}

/// Works out what each bridge is between.
pub fn derive(facts: &mut Facts, node: Id) {
    let (endpoints, open) = endpoints(facts, node);
    let mut found: BTreeMap<Arc<str>, (Between, String)> = BTreeMap::new();
    let gpus: Vec<&Endpoint> = endpoints.iter().filter(|e| e.is_gpu).collect();
    for (at, gpu) in gpus.iter().enumerate() {
        let others = endpoints.iter().filter(|e| !e.is_gpu);
        for peer in others.chain(gpus.iter().skip(at + 1).copied()) {
            let Some((here, there)) = turning_ports(&gpu.path, &peer.path) else {
                continue;
            };
            let between = match peer.is_gpu {
                true => Between::GpuGpu,
                false => Between::GpuNic,
            };
            let names = || format!("{} and {}", facts.name(gpu.id), facts.name(peer.id));
            for port in [here, there] {
                let old = found.get(&port);
                // An adapter counts for more than another GPU: NVLink may spare the latter the bus.
                if old.is_none_or(|(old, _)| *old == Between::GpuGpu && between == Between::GpuNic)
                {
                    found.insert(port, (between, names()));
                }
            }
        }
    }
    for id in facts.below(node, Subject::Bridge).collect::<Vec<_>>() {
        let (between, peers) = match (found.remove(facts.name(id)), &open) {
            (Some((between, peers)), _) => (
                Fact::derived(between, &*peers),
                Fact::derived(
                    peers.as_str().into(),
                    "the paths that part below its switch",
                ),
            ),
            (None, Some(gap)) => (Fact::Unknown(gap.clone()), Fact::Unknown(gap.clone())),
            (None, None) => {
                let how = "no two paths of GPUs and RDMA functions part here";
                (
                    Fact::derived(Between::None, how),
                    Fact::derived("none".into(), how),
                )
            }
        };
        facts.set(id, bridge::BETWEEN, between);
        facts.set(id, bridge::PEERS, peers);
    }
}
