//! The number of machines in a run: from NCCL, from launchers and nccl-tests, or from the hosts that wrote.

use std::collections::{BTreeMap, BTreeSet};

use super::benchmark_ranks::{self, listed_hosts};
use super::{ALL_HOSTS, RunView, not_logged, variables};
use crate::fact::env::VariableMention;
use crate::fact::run as fact;
use crate::fact::{Fact, Facts, Origin};

/// States how many there are. `stated` is what NCCL says (`nNodes`), with the place of its line.
pub(super) fn state(view: &mut RunView<'_, '_>, facts: &mut Facts, stated: Option<(u64, usize)>) {
    if let Some((nodes, place)) = stated {
        let origin = view.log.lines[place].origin();
        facts.know(view.id, fact::NODES, nodes, origin);
        facts.know(view.id, fact::NODES_STATED, true, origin);
        view.nodes = Some((nodes, true));
        return;
    }
    facts.derive(view.id, fact::NODES_STATED, false, "no line says nNodes");
    let (machines, how) = match identities(view) {
        Some(identities) => (identities, "the values of NCCL_HOSTID"),
        None => (Some(view.hosts_seen()), "the hosts that wrote lines"),
    };
    let comm = view.largest().map(|at| &view.log.comms.all[at]);
    let ranks = comm.map(|comm| comm.ranks);
    let all_seen = comm.is_some_and(|comm| comm.members.len() as u64 >= comm.ranks);
    // One host of which not all ranks are seen may be one of several.
    let counted = machines.filter(|machines| *machines > 1 || *machines == 1 && all_seen);
    let told = || reported_nodes(view, machines.unwrap_or(1), ranks);
    let nodes = match (counted.filter(|_| all_seen), told()) {
        (None, Some((nodes, origin))) => Fact::Known(nodes, origin),
        _ => match counted {
            Some(nodes) => view.total(nodes, how),
            None => Fact::Unknown(not_logged(ALL_HOSTS)),
        },
    };
    view.nodes = match &nodes {
        Fact::Known(nodes, _) => Some((*nodes, false)),
        // That the log breaks off makes a count no less a count of these.
        Fact::Unknown(_) => counted.map(|nodes| (nodes, false)),
    };
    facts.set(view.id, fact::NODES, nodes);
}

/// How many machines there are by NCCL_HOSTID, if it is set: hosts are none then. Unknown where not every host says its own.
fn identities(view: &RunView<'_, '_>) -> Option<Option<u64>> {
    let mut of_host: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (line, host) in view.lines() {
        if let Some(("NCCL_HOSTID", value, VariableMention::Set)) = variables::read(line.message) {
            of_host.entry(host).or_default().insert(value);
        }
    }
    if of_host.is_empty() {
        return None;
    }
    let all: BTreeSet<&str> = of_host.values().flatten().copied().collect();
    let every = view
        .processes
        .iter()
        .all(|(host, _)| of_host.contains_key(host));
    Some(every.then_some(all.len() as u64))
}

/// The number from launchers and nccl-tests, if they agree and it is possible.
fn reported_nodes(view: &RunView<'_, '_>, least: u64, ranks: Option<u64>) -> Option<(u64, Origin)> {
    // Of several runs in one log it may be another's.
    if view.log.of_run.len() > 1 {
        return None;
    }
    let mut said = Vec::new();
    for (name, digest) in view.log.files {
        let at = |line: u64, text: &str| Origin::logged(name, line, text);
        let launches = digest.launches.iter();
        said.extend(launches.map(|said| (said.nodes, at(said.line, &said.text))));
        let lists = digest
            .outputs
            .iter()
            .filter(|list| list.is_benchmark(benchmark_ranks::LIST) && !list.is_cut);
        for list in lists {
            let hosts = listed_hosts(list).len() as u64;
            said.extend(
                list.lines
                    .first()
                    .map(|(line, text)| (hosts, at(*line, text))),
            );
        }
    }
    let fits = |nodes: u64| nodes >= least.max(1) && ranks.is_none_or(|ranks| nodes <= ranks);
    said.retain(|(nodes, _)| fits(*nodes));
    let (first, origin) = said.first()?;
    said.iter()
        .all(|(nodes, _)| nodes == first)
        .then(|| (*first, origin.clone()))
}

/// Whether these channels inside a node lead around all ranks there are: then no other node takes part. Each rank wrote its own channels, and
/// none goes over a network.
pub(super) fn is_closed(view: &RunView<'_, '_>, channels: &BTreeSet<(u64, u64)>) -> bool {
    let ranks: BTreeSet<u64> = channels
        .iter()
        .flat_map(|(from, to)| [*from, *to])
        .collect();
    let count = ranks.len() as u64;
    let comm = view.largest().map(|at| view.log.comms.all[at].ranks);
    let reached = |forward: bool| {
        let mut reached = BTreeSet::from([0]);
        let mut open = vec![0];
        while let Some(at) = open.pop() {
            for (from, to) in channels {
                let (from, to) = if forward { (from, to) } else { (to, from) };
                if *from == at && reached.insert(*to) {
                    open.push(*to);
                }
            }
        }
        reached.len() as u64
    };
    view.hosts_seen() == 1
        && count > 1
        && ranks.iter().copied().eq(0..count)
        && comm.is_none_or(|all| all == count)
        && reached(true) == count
        && reached(false) == count
}
