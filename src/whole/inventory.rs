//! What a node has, in numbers: GPUs by model, adapters, ports by state.

use std::collections::BTreeMap;

use crate::fact::{Facts, Id, Subject, gpu, node, port};
use crate::sentence::in_words::plural;

/// Names of ports in one state that are listed; more are counted.
const NAMED: usize = 4;

/// What the node has: `8 × NVIDIA H100`, `4 RDMA devices`, `4 ports (3 active: 400 Gb/s InfiniBand; 1 down: mlx5_2/1)`.
/// Without a part that nothing tells.
pub(super) fn inventory(facts: &Facts, node: Id) -> Vec<String> {
    let devices = facts.known(node, node::DEVICES);
    let devices = devices.map(|count| plural(count, "RDMA device"));
    [gpus(facts, node), devices, ports(facts, node)]
        .into_iter()
        .flatten()
        .collect()
}

/// The ports by state: `12 ports (9 active; 3 down: mlx5_2/1, mlx5_7/1, mlx5_8/1)`. An active port is as it should
/// be: of these the link is said, where all have the same.
pub(super) fn ports(facts: &Facts, node: Id) -> Option<String> {
    let mut by_state: BTreeMap<&'static str, Vec<Id>> = BTreeMap::new();
    let mut count = 0u64;
    for id in facts.below(node, Subject::Port) {
        count += 1;
        if let Some(state) = facts.known(id, port::STATE) {
            by_state.entry(state.word()).or_default().push(id);
        }
    }
    let said = by_state.into_iter().map(|(state, ids)| {
        let counted = format!("{} {state}", ids.len());
        if state == "active" {
            return match link(facts, &ids) {
                Some(link) => format!("{counted}: {link}"),
                None => counted,
            };
        }
        if ids.len() > NAMED {
            return counted;
        }
        let names: Vec<&str> = ids.into_iter().map(|id| facts.name(id)).collect();
        format!("{counted}: {}", names.join(", "))
    });
    let said = said.collect::<Vec<_>>().join("; ");
    (count > 0).then(|| match said.as_str() {
        "" => plural(count, "port"),
        said => format!("{} ({said})", plural(count, "port")),
    })
}

/// The rate and the link layer that all these ports have: `400 Gb/s InfiniBand`.
fn link(facts: &Facts, ports: &[Id]) -> Option<String> {
    let mut links = ports.iter().map(|id| {
        let layer = match facts.known(*id, port::LINK_LAYER)? {
            port::LinkLayer::InfiniBand => "InfiniBand",
            port::LinkLayer::Ethernet => "Ethernet",
            port::LinkLayer::Unspecified => return None,
        };
        Some((facts.known(*id, port::RATE)?, layer))
    });
    let first = links.next()??;
    let (rate, layer) = first;
    links
        .all(|link| link == Some(first))
        .then(|| format!("{rate} {layer}"))
}

/// The GPUs by model: `8 × NVIDIA H100 80GB HBM3`.
pub(super) fn gpus(facts: &Facts, node: Id) -> Option<String> {
    let mut models: BTreeMap<Option<String>, u64> = BTreeMap::new();
    for id in facts.below(node, Subject::Gpu) {
        let model = facts.known(id, gpu::MODEL);
        *models
            .entry(model.map(|model| model.to_string()))
            .or_default() += 1;
    }
    let unnamed = models.remove(&None);
    let is_all = models.is_empty();
    let named = models.into_iter();
    let named = named.filter_map(|(model, count)| Some(format!("{count} × {}", model?)));
    let unnamed = unnamed.map(|count| {
        if is_all {
            plural(count, "GPU")
        } else {
            format!("{} of unknown model", plural(count, "GPU"))
        }
    });
    let said: Vec<String> = named.chain(unnamed).collect();
    Some(said.join(", ")).filter(|said| !said.is_empty())
}
