//! The facts of ranks, and of processes that say no rank.

use std::collections::BTreeMap;

use super::{INFO, RunView, not_logged};
use crate::fact::host;
use crate::fact::rank as fact;
use crate::fact::{Fact, Facts, Subject};
use crate::small_sort;

/// Ranks that become instances of their own.
const TOLD: usize = 4096;

pub(super) fn state(view: &RunView<'_, '_>, facts: &mut Facts) {
    let log = view.log;
    let mut of_host: BTreeMap<&str, u64> = BTreeMap::new();
    let mut members = Vec::new();
    if let Some(largest) = view.largest() {
        let comm = &log.comms.all[largest];
        members.extend(comm.members.iter().map(|(rank, member)| (*rank, *member)));
        small_sort::by_key(&mut members, |(rank, _)| *rank);
    }
    for (_, member) in &members {
        *of_host.entry(member.host).or_default() += 1;
    }
    for (name, id) in &view.hosts {
        let ranks = match (of_host.get(name), members.is_empty()) {
            (_, true) => Fact::Unknown(not_logged(INFO)),
            (ranks, false) => view.total(
                ranks.copied().unwrap_or(0),
                "the ranks that name their communicator",
            ),
        };
        facts.set(*id, host::RANKS, ranks);
    }
    for (rank, member) in members.into_iter().take(TOLD) {
        let Some(host) = view.host(member.host) else {
            continue;
        };
        let id = facts.instance(Subject::Rank, host, &format!("rank {rank}"));
        let origin = log.lines[member.said].origin();
        facts.know(id, fact::NUMBER, rank, origin);
        if let Some(gpu) = member.device {
            facts.know(id, fact::GPU, gpu, origin);
        }
        let initialised = match member.complete {
            Some(place) => Fact::Known(true, log.lines[place].origin().clone()),
            None => view.total(
                false,
                "the rank names its communicator, and no line says Init COMPLETE",
            ),
        };
        facts.set(id, fact::INITIALISED, initialised);
    }
}
