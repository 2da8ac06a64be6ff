//! The two GPUs of a pair.

use std::sync::Arc;

use crate::fact::{Facts, Gap, Id, Key, Subject, gpu_pair};

/// The GPUs whose addresses a pair names.
pub(super) type Ends = Result<[Id; 2], Gap>;

/// The GPUs of a pair, by the lower address first.
pub(super) fn ends(facts: &Facts, node: Id, pair: Id) -> Ends {
    let end = |key: Key<Arc<str>>| {
        let name = facts.value(pair, key)?;
        let found = facts.find(Subject::Gpu, node, &name);
        found.ok_or_else(|| Gap::missing(format!("GPU {name}")))
    };
    Ok([end(gpu_pair::FIRST)?, end(gpu_pair::SECOND)?])
}
