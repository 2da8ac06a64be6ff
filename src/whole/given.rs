//! What people gave in place of a machine, in numbers: outputs of tools, a bundle, a copied tree.

use super::inventory::{gpus, ports};
use crate::diagnosis::areas::is_given;
use crate::fact::{Facts, Id};

/// What was given of a node: `12 ports (9 active; 3 down: mlx5_2/1, mlx5_7/1, mlx5_8/1), 8 × H100`;
/// empty where it holds neither ports nor GPUs. `None` of a machine that was examined, or its
/// recording.
pub(super) fn given(facts: &Facts, node: Id) -> Option<String> {
    let said = [ports(facts, node), gpus(facts, node)];
    let said: Vec<String> = said.into_iter().flatten().collect();
    is_given(facts, node).then(|| said.join(", "))
}
