//! The entry of a printed GID table that NCCL_IB_GID_INDEX chooses.

use crate::fact::{Fact, Facts, Gap, Id, Origin, Subject, Why, env, gid, node};

/// States of the variable whether a GID table in the same text has an entry at its index.
pub(super) fn state_gid_listed(facts: &mut Facts, variable: Id, machine: Option<Id>) {
    let is_index = facts.known(variable, env::NAME).as_deref() == Some("NCCL_IB_GID_INDEX");
    let Some(chosen) = facts.known(variable, env::NUMBER).filter(|_| is_index) else {
        return;
    };
    let is_whole = |id: &Id| facts.known(*id, node::GIDS_FOUND).is_some();
    let Some(printed) = machine.filter(is_whole) else {
        let why = Why::NotLogged("give the output of `show_gids` with the log");
        let origin = Origin::derived("the outputs of tools in the text");
        facts.set(
            variable,
            env::GID_LISTED,
            Fact::Unknown(Gap { why, origin }),
        );
        return;
    };
    let mut listed = false;
    let mut shown_by = Origin::derived("a GID table without entries");
    for entry in facts.below(printed, Subject::Gid) {
        if let (false, Fact::Known(index, origin)) = (listed, facts.get(entry, gid::INDEX)) {
            listed = index == chosen;
            shown_by = origin;
        }
    }
    facts.know(variable, env::GID_LISTED, listed, &shown_by);
}
