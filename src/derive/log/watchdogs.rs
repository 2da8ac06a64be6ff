//! What PyTorch's watchdogs of several ranks say of one hang: which rank is behind, and which called another collective.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fact::event::{self, LogClass};
use crate::fact::{Facts, Id, Subject, rank, run};

/// A rank's call that did not end.
struct StuckCall {
    rank: u64,
    sequence: u64,
    operation: Arc<str>,
}

/// Ranks that must have timed out before a gap in their numbers says anything.
const FEWEST: usize = 3;

/// Hosts that are named in a sentence, at most.
const NAMED: usize = 4;

/// Ranges of ranks of one host that are named in a sentence, at most.
const LISTED: usize = 6;

/// Places at which ranks are that are named in a sentence, at most.
const PLACES: usize = 3;

/// States of the run which ranks are behind the others, or called another collective.
pub(super) fn state_stuck_calls(facts: &mut Facts, run: Id, events: &[Id]) {
    // Collectives are counted in each group of ranks by itself.
    let mut groups: BTreeMap<Arc<str>, Vec<StuckCall>> = BTreeMap::new();
    for &id in events {
        if facts.known(id, event::CLASS) != Some(LogClass::TorchTimeout) {
            continue;
        }
        let (Some(rank), Some(sequence), Some(operation)) = (
            facts.known(id, event::RANK),
            facts.known(id, event::SEQUENCE),
            facts.known(id, event::OPERATION),
        ) else {
            continue;
        };
        let group = facts.known(id, event::GROUP).unwrap_or_default();
        groups.entry(group).or_default().push(StuckCall {
            rank,
            sequence,
            operation,
        });
    }
    let how = "the watchdogs' lines of several ranks";
    let places = RankPlaces::of_run(facts, run);
    let laggards = (groups.values())
        .find_map(|calls| describe_laggards(calls, &places))
        .or_else(|| (groups.values()).find_map(|calls| describe_absent(calls, &places)));
    let mismatch = groups
        .values()
        .find_map(|calls| describe_mismatch(calls, &places));
    facts.derive(run, run::CALLS_DIFFER, mismatch.is_some(), how);
    if let Some(laggards) = laggards {
        facts.derive(run, run::BEHIND, laggards.into(), how);
    }
    if let Some(mismatch) = mismatch {
        facts.derive(run, run::DIFFERING, mismatch.into(), how);
    }
    state_named_by_ras(facts, run, events, &places);
}

/// States which ranks RAS names, each on a line of its own: `Rank 5 -- GPU 1 managed by process 1005 on
/// node 10.0.0.2`.
fn state_named_by_ras(facts: &mut Facts, run: Id, events: &[Id], places: &RankPlaces) {
    let mut named = BTreeSet::new();
    for &id in events {
        if facts.known(id, event::CLASS) == Some(LogClass::RankBehind)
            && let Some(text) = facts.known(id, event::TEXT)
            && let Some((_, rest)) = text.split_once("Rank ")
        {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
            named.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
        }
    }
    if !named.is_empty() {
        let ranks = places.list(&named).into();
        facts.derive(run, run::NAMED_BY_RAS, ranks, "RAS's lines of ranks");
    }
}

/// Where the ranks of a run are, as far as NCCL's lines tell it.
struct RankPlaces {
    /// The host of each rank that wrote; empty where all are on one.
    hosts: BTreeMap<u64, Arc<str>>,
    /// The ranks that wrote lines of NCCL.
    wrote: BTreeSet<u64>,
    /// How many ranks there are.
    ranks: Option<u64>,
}

impl RankPlaces {
    fn of_run(facts: &Facts, run: Id) -> Self {
        let mut hosts = BTreeMap::new();
        for id in facts.below(run, Subject::Rank) {
            if let (Some(number), Some(host)) = (facts.known(id, rank::NUMBER), facts.parent(id)) {
                hosts.insert(number, facts.shared_name(host));
            }
        }
        let wrote = hosts.keys().copied().collect();
        let different: BTreeSet<&Arc<str>> = hosts.values().collect();
        if different.len() < 2 {
            hosts.clear();
        }
        RankPlaces {
            hosts,
            wrote,
            ranks: facts.known(run, run::RANKS),
        }
    }

    /// `rank 7 (n2)`, `ranks 0-5`, `ranks 3 (n1), 4 and 7 (n2)`
    fn list(&self, ranks: &BTreeSet<u64>) -> String {
        let mut of_hosts: Vec<(Option<&Arc<str>>, Vec<u64>)> = Vec::new();
        for rank in ranks {
            let host = self.hosts.get(rank);
            match of_hosts.last_mut() {
                Some((last, listed)) if *last == host => listed.push(*rank),
                _ => of_hosts.push((host, vec![*rank])),
            }
        }
        let count = of_hosts.len();
        let named = of_hosts.iter().take(NAMED).map(|(host, ranks)| {
            let listed = list_ranges(ranks);
            match host {
                Some(host) => format!("{listed} ({host})"),
                None => listed,
            }
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match count.saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and ranks on {more} more hosts"),
        };
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{noun} {named}{more}")
    }
}

/// `3`, `3 and 11`, `0-5, 7 and 9`
fn list_ranges(ranks: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => ranges.push((*rank, *rank)),
        }
    }
    let mut words: Vec<String> = Vec::new();
    for (first, last) in ranges {
        match last - first {
            0 => words.push(first.to_string()),
            1 => words.extend([first.to_string(), last.to_string()]),
            _ => words.push(format!("{first}-{last}")),
        }
    }
    match words.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        all if all.len() > LISTED => {
            format!(
                "{} and {} more",
                all[..LISTED].join(", "),
                all.len() - LISTED
            )
        }
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// `rank 7 is at collective 2209, the others at 2210`; `rank 5 is at collective 88, rank 6 at 89, the
/// others at 90`
fn describe_laggards(calls: &[StuckCall], places: &RankPlaces) -> Option<String> {
    let furthest = calls.iter().map(|call| call.sequence).max()?;
    let behind: BTreeSet<u64> = calls.iter().map(|call| call.sequence).collect();
    let behind: Vec<u64> = behind.into_iter().filter(|at| *at < furthest).collect();
    let mut said = Vec::new();
    for (place, at) in behind.iter().take(PLACES).enumerate() {
        let ranks = ranks_of(calls, |call| call.sequence == *at);
        let verb = if ranks.len() == 1 { "is" } else { "are" };
        let ranks = places.list(&ranks);
        said.push(match place {
            0 => format!("{ranks} {verb} at collective {at}"),
            _ => format!("{ranks} at {at}"),
        });
    }
    let others = match behind.len() {
        0 => return None,
        count if count > PLACES => format!("the others further, up to {furthest}"),
        _ => format!("the others at {furthest}"),
    };
    said.push(others);
    Some(said.join(", "))
}

/// `no line says that ranks 3 and 7 timed out, as the other 14 did`: the ranks that wait know of more,
/// by the gaps in their numbers or by the lines that these wrote before. Where a third of the ranks or
/// more is missing that wrote nothing, the log is of a part of the job.
fn describe_absent(calls: &[StuckCall], places: &RankPlaces) -> Option<String> {
    let timed_out = ranks_of(calls, |_| true);
    let others = timed_out.len();
    let all = match places.ranks {
        Some(ranks) if places.wrote.len() as u64 == ranks => ranks,
        _ => *timed_out.last()?,
    };
    let absent: BTreeSet<u64> = (0..all).filter(|rank| !timed_out.contains(rank)).collect();
    let wrote_all = absent.iter().all(|rank| places.wrote.contains(rank));
    let is_few = absent.len() * 3 <= others;
    (!absent.is_empty() && others >= FEWEST && (wrote_all || is_few)).then(|| {
        format!(
            "no line says that {} timed out, as the other {others} did",
            places.list(&absent)
        )
    })
}

/// `at collective 124 rank 1 called ALLGATHER (512 elements), the others ALLREDUCE (1 element)`
fn describe_mismatch(calls: &[StuckCall], places: &RankPlaces) -> Option<String> {
    let sequences: BTreeSet<u64> = calls.iter().map(|call| call.sequence).collect();
    sequences.into_iter().find_map(|sequence| {
        let of_sequence = calls.iter().filter(|call| call.sequence == sequence);
        let operations: BTreeSet<&str> = of_sequence.map(|call| &*call.operation).collect();
        let callers = |operation: &str| {
            ranks_of(calls, |call| {
                call.sequence == sequence && *call.operation == *operation
            })
        };
        let rare = (operations.iter()).min_by_key(|operation| callers(operation).len())?;
        let common = (operations.iter().filter(|operation| *operation != rare))
            .max_by_key(|operation| callers(operation).len())?;
        let odd_ranks = places.list(&callers(rare));
        Some(format!(
            "at collective {sequence} {odd_ranks} called {rare}, the others {common}"
        ))
    })
}

/// The ranks of the calls that fit.
fn ranks_of(calls: &[StuckCall], fits: impl Fn(&StuckCall) -> bool) -> BTreeSet<u64> {
    let fitting = calls.iter().filter(|call| fits(call));
    fitting.map(|call| call.rank).collect()
}
