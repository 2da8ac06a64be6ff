//! What outputs of tools in the same text say of an event's cause: a limit, a full file system.

use super::hosts;
use crate::fact::event::{self, LogClass};
use crate::fact::{Bytes, Facts, Id, Key, Subject, Typed, host, node};

/// Whether what else the text shows rules out the usual cause of an event of this class.
pub(super) fn is_cause_refuted(facts: &Facts, run: Id, id: Id) -> bool {
    let Some(host) = facts.parent(id) else {
        return false;
    };
    match facts.known(id, event::CLASS) {
        Some(LogClass::VerbsCall) => {
            of_machine(facts, run, host, node::MEMLOCK) == Some(Bytes::UNLIMITED)
        }
        Some(LogClass::BootstrapNoInterface | LogClass::SubnetNoInterface) => {
            let is_comm_id = |id: Id| facts.name(id) == "NCCL_COMM_ID";
            facts.known(host, host::BOOTSTRAP_INTERFACE).is_some()
                || facts.below(run, Subject::Env).any(is_comm_id)
        }
        _ => false,
    }
}

/// What the text shows that makes the usual cause of such an event certain.
pub(super) fn confirmation(facts: &Facts, run: Id, id: Id) -> Option<String> {
    let host = facts.parent(id)?;
    match facts.known(id, event::CLASS)? {
        LogClass::VerbsCall if facts.known(id, event::ERRNO).as_deref() == Some("ENOMEM") => {
            let limit = of_machine(facts, run, host, node::MEMLOCK)?;
            (limit != Bytes::UNLIMITED)
                .then(|| format!("in this text the limit of locked memory is {limit}"))
        }
        LogClass::SharedMemory | LogClass::BusError => {
            let free = of_machine(facts, run, host, node::SHM_FREE)?;
            Some(format!("in this text /dev/shm has {free} free"))
        }
        _ => None,
    }
}

/// A fact of the machine on which an event happened: the one of its host's name, or the only one.
fn of_machine<T: Typed>(facts: &Facts, run: Id, host: Id, key: Key<T>) -> Option<T> {
    let is_alone = hosts(facts, run).len() == 1 && facts.all(Subject::Node).count() == 1;
    let is_its = |node: &Id| is_alone || facts.name(*node) == facts.name(host);
    let mut nodes = facts.all(Subject::Node).filter(is_its);
    nodes.find_map(|node| facts.known(node, key))
}
