//! What PyTorch's watchdogs of several ranks say of one hang: which rank is behind, and which called another collective.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fact::event::{self, LogClass};
use crate::fact::{Facts, Id, run};

/// A rank's call that did not end.
struct StuckCall {
    rank: u64,
    sequence: u64,
    operation: Arc<str>,
}

/// Ranks that must have timed out before a gap in their numbers says anything.
const FEWEST: usize = 3;

/// Ranks that are named in a sentence, at most.
const NAMED: usize = 4;

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
    let laggards = (groups.values())
        .find_map(|calls| describe_laggards(calls))
        .or_else(|| groups.values().find_map(|calls| describe_absent(calls)));
    let mismatch = groups.values().find_map(|calls| describe_mismatch(calls));
    facts.derive(run, run::CALLS_DIFFER, mismatch.is_some(), how);
    if let Some(laggards) = laggards {
        facts.derive(run, run::BEHIND, laggards.into(), how);
    }
    if let Some(mismatch) = mismatch {
        facts.derive(run, run::DIFFERING, mismatch.into(), how);
    }
}

/// `rank 7 is at collective 2209, the others at 2210`
fn describe_laggards(calls: &[StuckCall]) -> Option<String> {
    let furthest = calls.iter().map(|call| call.sequence).max()?;
    let least = calls.iter().map(|call| call.sequence).min()?;
    if least == furthest {
        return None;
    }
    let behind = ranks_of(calls, |call| call.sequence == least);
    let verb = if behind.len() == 1 { "is" } else { "are" };
    Some(format!(
        "{} {verb} at collective {least}, the others at {furthest}",
        list_ranks(&behind)
    ))
}

/// `no line says that rank 7 timed out, as the other 15 did`: the ranks that wait know of one more, by
/// the gap in their numbers.
fn describe_absent(calls: &[StuckCall]) -> Option<String> {
    let timed_out = ranks_of(calls, |_| true);
    let last = *timed_out.last()?;
    let absent: BTreeSet<u64> = (0..last)
        .filter(|rank| !timed_out.contains(rank))
        .take(2)
        .collect();
    let others = timed_out.len();
    (absent.len() == 1 && others >= FEWEST).then(|| {
        format!(
            "no line says that {} timed out, as the other {others} did",
            list_ranks(&absent)
        )
    })
}

/// `at collective 124 rank 1 called ALLGATHER (512 elements), the others ALLREDUCE (1 element)`
fn describe_mismatch(calls: &[StuckCall]) -> Option<String> {
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
        let odd_ranks = list_ranks(&callers(rare));
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

/// `rank 7`, `ranks 1, 2, 3, 4 and 9 more`
fn list_ranks(ranks: &BTreeSet<u64>) -> String {
    let names: Vec<String> = ranks.iter().take(NAMED).map(u64::to_string).collect();
    let named = names.join(", ");
    match ranks.len() {
        1 => format!("rank {named}"),
        count if count > NAMED => format!("ranks {named} and {} more", count - NAMED),
        _ => format!("ranks {named}"),
    }
}
