//! Limits that bind, as against limits that are merely set.

use crate::fact::{Bytes, Fact, Facts, Id, node};

/// Whether the limit of locked memory binds this process.
pub fn derive(facts: &mut Facts, node: Id) {
    let fact = match (
        facts.get(node, node::MEMLOCK),
        facts.get(node, node::IPC_LOCK),
    ) {
        (Fact::Known(Bytes::UNLIMITED, origin), _) => Fact::Known(false, origin),
        (_, Fact::Known(true, origin)) => Fact::Known(false, origin),
        (Fact::Known(limit, _), Fact::Known(false, _)) => Fact::derived(
            true,
            format!("{limit}, and no CAP_IPC_LOCK in the initial user namespace"),
        ),
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
    };
    facts.set(node, node::MEMLOCK_BINDS, fact);
}
