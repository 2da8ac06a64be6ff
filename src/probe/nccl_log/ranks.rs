//! The facts of ranks, and of processes that say no rank.

use std::collections::BTreeMap;

use super::{INFO, RunView, not_logged};
use crate::fact::host;
use crate::fact::rank as fact;
use crate::fact::{Fact, Facts, Origin, Seconds, Subject};
use crate::small_sort;

/// Ranks that become instances of their own.
const TOLD: usize = 4096;

pub(super) fn state(view: &RunView<'_, '_>, facts: &mut Facts) {
    let log = view.log;
    let mut of_host: BTreeMap<&str, u64> = BTreeMap::new();
    let mut members = Vec::new();
    if let Some(largest) = view.largest() {
        let comm = &log.comms.all[largest];
        members.extend(
            comm.members
                .iter()
                .map(|(rank, member)| (*rank, comm.ranks, *member)),
        );
        small_sort::by_key(&mut members, |(rank, ..)| *rank);
    }
    for (.., member) in &members {
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
    // What lines say of their own process, by process and device.
    let mut said: BTreeMap<(&str, u64, Option<u64>), RankFacts> = BTreeMap::new();
    for (line, host) in view.lines() {
        let Some(writer) = line.writer else {
            continue;
        };
        let message = line.message;
        let about = said.entry((host, writer.pid, writer.device)).or_default();
        let origin = line.origin();
        for (slot, time) in [&mut about.init, &mut about.bootstrap]
            .into_iter()
            .zip(super::runs::init_times(message))
        {
            if let Some(time) = time {
                slot.get_or_insert((Seconds(time), origin.clone()));
            }
        }
        if let Some(rest) = message.strip_prefix("Connected all rings, use ring ") {
            let gdr = rest
                .split_once("GDR ")
                .and_then(|(_, gdr)| gdr.trim().parse::<u64>().ok());
            if let Some(gdr) = gdr {
                about.ring_gdr.get_or_insert((gdr != 0, origin.clone()));
            }
        }
        if let Some(cpus) = super::hosts::affinity(message) {
            about.affinity.get_or_insert((cpus, origin.clone()));
        }
        if message.ends_with("Abort COMPLETE") {
            about.aborted.get_or_insert((true, origin.clone()));
        }
    }
    for (rank, ranks, member) in members.into_iter().take(TOLD) {
        let Some(host) = view.host(member.host) else {
            continue;
        };
        let id = facts.instance(Subject::Rank, host, &format!("rank {rank}"));
        let origin = log.lines[member.said].origin().clone();
        facts.set(id, fact::NUMBER, Fact::Known(rank, origin.clone()));
        facts.set(id, fact::RANKS, Fact::Known(ranks, origin.clone()));
        if let Some(gpu) = member.device {
            facts.set(id, fact::GPU, Fact::Known(gpu, origin.clone()));
        }
        if let Some(bus_id) = member.bus_id {
            facts.set(id, fact::BUS_ID, Fact::Known(bus_id.into(), origin));
        }
        let at = |place: usize| log.lines[place].origin().clone();
        facts.set(
            id,
            fact::STARTED,
            match member.started {
                Some(place) => Fact::Known(true, at(place)),
                None => Fact::Unknown(not_logged(INFO)),
            },
        );
        facts.set(
            id,
            fact::INITIALISED,
            match member.complete {
                Some(place) => Fact::Known(true, at(place)),
                None => view.total(
                    false,
                    "the rank names its communicator, and no line says Init COMPLETE",
                ),
            },
        );
        let writer = log.lines[member.said].writer.map(|writer| writer.device);
        let key = (member.host, member.pid, writer.flatten());
        let about = said.remove(&key).unwrap_or_default();
        set(facts, id, fact::INIT_TIME, about.init);
        set(facts, id, fact::BOOTSTRAP_TIME, about.bootstrap);
        set(facts, id, fact::RING_GDR, about.ring_gdr);
        set(facts, id, fact::AFFINITY_CPUS, about.affinity);
        facts.set(
            id,
            fact::ABORTED,
            match about.aborted {
                Some((aborted, origin)) => Fact::Known(aborted, origin),
                None => view.total(false, "no line says Abort COMPLETE"),
            },
        );
        facts.set(
            id,
            fact::WARNINGS,
            view.total(
                log.warnings.get(&key).copied().unwrap_or(0),
                "the lines of level WARN",
            ),
        );
        // One network for all processes of the host is each one's.
        let network = facts.get(host, host::NETWORKS);
        if let Fact::Known(names, origin) = network
            && let [name] = &*names
        {
            facts.set(id, fact::NETWORK, Fact::Known(name.clone(), origin));
        }
    }
}

#[derive(Default)]
struct RankFacts {
    init: Option<(Seconds, Origin)>,
    bootstrap: Option<(Seconds, Origin)>,
    ring_gdr: Option<(bool, Origin)>,
    affinity: Option<(u64, Origin)>,
    aborted: Option<(bool, Origin)>,
}

fn set<T: crate::fact::Typed>(
    facts: &mut Facts,
    id: crate::fact::Id,
    key: crate::fact::Key<T>,
    found: Option<(T, Origin)>,
) {
    facts.set(
        id,
        key,
        match found {
            Some((value, origin)) => Fact::Known(value, origin),
            None => Fact::Unknown(not_logged(INFO)),
        },
    );
}
