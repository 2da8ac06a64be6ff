//! Which NCCL library a benchmark loads.

use std::sync::Arc;

use crate::fact::{Facts, Id, node};

/// A library, and why it is this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its path.
    pub path: Arc<str>,
    /// How it was found: `found by VIRTUAL_ENV`.
    pub why: Arc<str>,
}

/// The library that `--nccl` names, else the one of the environment and of the Python that would
/// run a training, else the system's: in the order in which the probe `nccl` lists them.
///
/// # Errors
///
/// In words, that there is none, or that only a version was named.
pub fn choose(facts: &Facts, node: Id) -> Result<Choice, String> {
    let path = facts.value(node, node::NCCL_BENCH_PATH);
    Ok(Choice {
        path: path.map_err(|gap| gap.to_string())?,
        why: facts.known(node, node::NCCL_BENCH_WHY).unwrap_or_default(),
    })
}
