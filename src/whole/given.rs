//! What people gave in place of a machine, in numbers: outputs of tools, a bundle, a copied tree.

use std::collections::BTreeMap;

use crate::diagnosis::areas::is_given;
use crate::fact::{Facts, Id, Subject, gpu, port};
use crate::sentence::in_words::plural;

/// Names of ports in one state that are listed; more are counted.
const NAMED: usize = 4;

/// What was given of a node: `12 ports (9 active; 3 down: mlx5_2/1, mlx5_7/1, mlx5_8/1), 8 × H100`;
/// empty where it holds neither ports nor GPUs. `None` of a machine that was examined, or its
/// recording.
pub(super) fn given(facts: &Facts, node: Id) -> Option<String> {
    let said = [ports(facts, node), gpus(facts, node)];
    let said: Vec<String> = said.into_iter().flatten().collect();
    is_given(facts, node).then(|| said.join(", "))
}

fn ports(facts: &Facts, node: Id) -> Option<String> {
    let mut names: BTreeMap<&'static str, Vec<&str>> = BTreeMap::new();
    let mut count = 0u64;
    for id in facts.below(node, Subject::Port) {
        count += 1;
        if let Some(state) = facts.known(id, port::STATE) {
            names.entry(state.word()).or_default().push(facts.name(id));
        }
    }
    let said = names.into_iter().map(|(state, names)| {
        // An active port is as it should be.
        if state == "active" || names.len() > NAMED {
            return format!("{} {state}", names.len());
        }
        format!("{} {state}: {}", names.len(), names.join(", "))
    });
    let said = said.collect::<Vec<_>>().join("; ");
    (count > 0).then(|| match said.as_str() {
        "" => plural(count, "port"),
        said => format!("{} ({said})", plural(count, "port")),
    })
}

fn gpus(facts: &Facts, node: Id) -> Option<String> {
    let mut models: BTreeMap<String, u64> = BTreeMap::new();
    for id in facts.below(node, Subject::Gpu) {
        let model = facts.known(id, gpu::MODEL);
        *models
            .entry(model.map_or_else(|| "GPU".to_owned(), |model| model.to_string()))
            .or_default() += 1;
    }
    let said = models
        .into_iter()
        .map(|(model, count)| format!("{count} × {model}"));
    Some(said.collect::<Vec<_>>().join(", ")).filter(|said| !said.is_empty())
}
