//! Which NCCL library a benchmark loads.

use std::sync::Arc;

use crate::fact::{Fact, Facts, Id, node};

/// A library, and why it is this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its path.
    pub path: Arc<str>,
    /// How it was found: `found by VIRTUAL_ENV`.
    pub why: Arc<str>,
}

/// The library that `--nccl` names, else the one of the environment and of the Python that would run a training, else the system's: in the order in
/// which the probe `nccl` lists them.
///
/// # Errors
///
/// In words, that there is none, or that only a version was named.
pub fn choose(facts: &Facts, node: Id) -> Result<Choice, String> {
    match facts.get(node, node::NCCL_BENCH_PATH) {
        Fact::Known(path, _) => Ok(Choice {
            path,
            why: facts.known(node, node::NCCL_BENCH_WHY).unwrap_or_default(),
        }),
        Fact::Unknown(gap) => Err(gap.to_string()),
    }
}
