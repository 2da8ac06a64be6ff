//! The two GPUs of a pair.

use std::sync::Arc;

use crate::fact::{Fact, Facts, Gap, Id, Key, Subject, gpu_pair};

/// The GPUs whose addresses a pair names.
pub(super) type Ends = Result<[Id; 2], Gap>;

/// The GPUs of a pair, by the lower address first.
pub(super) fn ends(facts: &Facts, node: Id, pair: Id) -> Ends {
    let end = |key: Key<Arc<str>>| match facts.get(pair, key) {
        Fact::Known(name, _) => facts
            .find(Subject::Gpu, node, &name)
            .ok_or_else(|| Gap::missing(format!("GPU {name}"))),
        Fact::Unknown(gap) => Err(gap),
    };
    Ok([end(gpu_pair::FIRST)?, end(gpu_pair::SECOND)?])
}
