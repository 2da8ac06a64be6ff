//! Whether the GPUs of a node are in one NVLink fabric.

use super::Derivation;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::gpu_purpose::listed;
use crate::fact::gpu::FabricState;
use crate::fact::{Fact, Facts, Gap, Id, gpu, node};
use crate::small_sort;

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("fabric", &[], derive);

/// Compares the cliques of the GPUs that are registered.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let how = "the fabric of each GPU that is registered";
    let Found { cliques, open } = cliques(facts, node);
    let gpus: usize = cliques.values().map(Vec::len).sum();
    let count = Fact::derived(gpus as u64, how).unless(open.clone());
    // Two cliques differ, whatever the others are in.
    let open = open.filter(|_| cliques.len() < 2);
    let text = match cliques.len() {
        0 | 1 => "none".into(),
        _ => written(&cliques),
    };
    let of_nodes = cliques.keys().any(|(cluster, _)| !is_none(cluster));
    let agrees = Fact::derived(cliques.len() < 2, how).unless(open.clone());
    let text = Fact::derived(Arc::from(text), how).unless(open.clone());
    let of_nodes = Fact::derived(of_nodes, how).unless(open);
    facts.set(node, node::FABRIC_GPUS, count);
    facts.set(node, node::FABRIC_AGREES, agrees);
    facts.set(node, node::FABRIC_CLIQUES, text);
    facts.set(node, node::FABRIC_OF_NODES, of_nodes);
}

/// A fabric's UUID and the clique in it.
type Clique = (Arc<str>, u64);

struct Found {
    /// The GPUs of each clique.
    cliques: BTreeMap<Clique, Vec<String>>,
    /// Why it is not known of some GPU.
    open: Option<Gap>,
}

fn cliques(facts: &Facts, node: Id) -> Found {
    let gpus = listed(facts, node);
    let mut found = Found {
        cliques: BTreeMap::new(),
        open: gpus.as_ref().err().cloned(),
    };
    for id in gpus.unwrap_or_default() {
        let clique = facts.get(id, gpu::FABRIC_STATE).flat_map(|state| {
            let cluster = facts.get(id, gpu::FABRIC_CLUSTER);
            let clique = cluster.zip(facts.get(id, gpu::FABRIC_CLIQUE)).map(Some);
            match state {
                FabricState::Completed => clique,
                _ => Fact::derived(None, "not registered"),
            }
        });
        if let Some(Some(clique)) = clique.or_open(&mut found.open) {
            let gpus = found.cliques.entry(clique).or_default();
            gpus.push(facts.name(id).to_owned());
        }
    }
    found
}

/// Whether a fabric has no UUID: it ends at this node.
fn is_none(cluster: &str) -> bool {
    cluster.chars().all(|c| matches!(c, '0' | '-'))
}

/// `clique 0: 0000:1b:00.0, 0000:43:00.0; clique 1: 0000:52:00.0`, the most frequent first.
fn written(cliques: &BTreeMap<Clique, Vec<String>>) -> String {
    let clusters: std::collections::BTreeSet<&Arc<str>> =
        cliques.keys().map(|(cluster, _)| cluster).collect();
    let mut parts: Vec<(&Clique, &Vec<String>)> = cliques.iter().collect();
    small_sort::by_key(&mut parts, |(_, gpus)| std::cmp::Reverse(gpus.len()));
    let named = parts.iter().map(|((cluster, clique), gpus)| {
        let of = match clusters.len() {
            1 => String::new(),
            _ => format!(" of {cluster}"),
        };
        format!("clique {clique}{of}: {}", gpus.join(", "))
    });
    named.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::testing::{node, stated};
    use crate::fact::{Membership, Origin, Subject};

    const HERE: &str = "00000000-0000-0000-0000-000000000000";
    const RACK: &str = "2b6d4a3c-0000-4000-8000-0000000000aa";

    fn gpus(fabric: &[(FabricState, &str, u64)]) -> (Facts, Id) {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        facts.set_members(Subject::Gpu, n, Membership::Known(Origin::Stated));
        for (at, (state, cluster, clique)) in fabric.iter().enumerate() {
            let id = facts.instance(Subject::Gpu, n, &format!("0000:0{at}:00.0"));
            facts.set(id, gpu::IN_NVML, stated(true));
            facts.set(id, gpu::FABRIC_STATE, stated(*state));
            facts.set(id, gpu::FABRIC_CLUSTER, stated((*cluster).into()));
            facts.set(id, gpu::FABRIC_CLIQUE, stated(*clique));
        }
        (facts, n)
    }

    #[test]
    fn one_clique_two_cliques_and_a_rack() {
        use FabricState::{Completed, NotStarted, Unsupported};
        let (mut facts, n) = gpus(&[(Completed, HERE, 0), (Completed, HERE, 0)]);
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::FABRIC_AGREES), Some(true));
        assert_eq!(facts.known(n, node::FABRIC_OF_NODES), Some(false));
        assert_eq!(facts.known(n, node::FABRIC_GPUS), Some(2));
        let (mut facts, n) = gpus(&[
            (Completed, RACK, 1),
            (Completed, RACK, 1),
            (Completed, RACK, 7),
            (NotStarted, HERE, 0),
        ]);
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::FABRIC_AGREES), Some(false));
        assert_eq!(facts.known(n, node::FABRIC_OF_NODES), Some(true));
        assert_eq!(
            facts.known(n, node::FABRIC_CLIQUES).as_deref(),
            Some("clique 1: 0000:00:00.0, 0000:01:00.0; clique 7: 0000:02:00.0")
        );
        let (mut facts, n) = gpus(&[(Completed, RACK, 1), (Completed, HERE, 1)]);
        derive(&mut facts, n);
        let text = facts.known(n, node::FABRIC_CLIQUES).unwrap();
        assert!(text.contains(RACK) && text.contains(HERE), "{text}");
        let (mut facts, n) = gpus(&[(Unsupported, HERE, 0)]);
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::FABRIC_GPUS), Some(0));
    }

    #[test]
    fn what_is_not_known_of_one_leaves_it_open_unless_others_differ() {
        use FabricState::Completed;
        let (mut facts, n) = gpus(&[(Completed, HERE, 0)]);
        let other = facts.instance(Subject::Gpu, n, "0000:09:00.0");
        facts.set(other, gpu::IN_NVML, stated(true));
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::FABRIC_AGREES), None);
        assert_eq!(facts.known(n, node::FABRIC_GPUS), None);
        let (mut facts, n) = gpus(&[(Completed, HERE, 0), (Completed, HERE, 1)]);
        let other = facts.instance(Subject::Gpu, n, "0000:09:00.0");
        facts.set(other, gpu::IN_NVML, stated(true));
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::FABRIC_AGREES), Some(false));
        let (mut facts, n) = gpus(&[]);
        facts.set_members(
            Subject::Gpu,
            n,
            Membership::Unknown(Gap::missing("the PCI bus")),
        );
        derive(&mut facts, n);
        assert_eq!(facts.known(n, node::FABRIC_AGREES), Some(true));
    }
}
