//! What RAS tells: ranks that it does not reach, and ranks that are behind.

use std::collections::{BTreeMap, BTreeSet};

use super::Stall;
use super::wording::Hosts;
use crate::fact::stall::{StallKind, StallProof};
use crate::sentence::in_words::plural;
use crate::trace::{Communicator, MissingRank, RankCounts, RankPlace, RasStatus};

/// What follows from all statuses.
pub(super) struct Judged {
    pub(super) stalls: Vec<Stall>,
    /// Whether ranks launched more between two of them.
    pub(super) moves: bool,
}

/// Judges the last status, by the one before it.
pub(super) fn judge(statuses: &[&RasStatus], is_watched: bool) -> Judged {
    let mut judged = Judged {
        stalls: Vec::new(),
        moves: false,
    };
    let Some((last, before)) = statuses.split_last() else {
        return judged;
    };
    let before = before.last();
    let launched = before.map(|before| all_launched(before) == all_launched(last));
    judged.moves = launched == Some(false);
    let proof = match launched {
        _ if is_watched => StallProof::Timeout,
        Some(true) => StallProof::Twice,
        _ => StallProof::None,
    };
    let mut is_told: BTreeSet<(u64, &str, u64)> = BTreeSet::new();
    for communicator in &last.communicators {
        for missing in &communicator.missing {
            let place = &missing.place;
            // A process is missing in each of its communicators.
            let key = if place.pid > 0 { 0 } else { place.rank };
            if is_told.insert((place.pid, &place.host, key)) {
                judged
                    .stalls
                    .extend(lost_rank(communicator, missing, proof));
            }
        }
        // Who does not answer is named already, and ranks come and go while communicators begin or end.
        if communicator.missing.is_empty() && !last.in_transition {
            judged.stalls.extend(behind(communicator, proof));
        }
    }
    judged
}

/// Adds the nodes that RAS names of a communicator of all ranks.
pub(super) fn add_hosts(statuses: &[&RasStatus], world: usize, hosts: &mut Hosts) {
    let communicators = statuses.iter().flat_map(|status| &status.communicators);
    for communicator in communicators.filter(|one| one.size == Some(world as u64)) {
        let named = communicator.counts.iter().flat_map(|counts| &counts.named);
        let missing = communicator.missing.iter().map(|missing| &missing.place);
        for place in named.chain(missing).filter(|place| !place.host.is_empty()) {
            if let Ok(rank) = u32::try_from(place.rank) {
                hosts.0.entry(rank).or_insert_with(|| place.host.clone());
            }
        }
    }
}

/// How many operations were launched, by communicator and kind.
fn all_launched(status: &RasStatus) -> BTreeMap<(&str, &str), Vec<(u64, u64)>> {
    let mut all: BTreeMap<(&str, &str), Vec<(u64, u64)>> = BTreeMap::new();
    for communicator in &status.communicators {
        for counts in &communicator.counts {
            let key = (communicator.hash.as_str(), counts.operation.as_str());
            all.entry(key)
                .or_default()
                .push((counts.launched, counts.ranks));
        }
    }
    all.values_mut().for_each(|counts| counts.sort_unstable());
    all
}

fn lost_rank(
    communicator: &Communicator,
    missing: &MissingRank,
    proof: StallProof,
) -> Option<Stall> {
    let kind = match (missing.is_dead, missing.is_unresponsive) {
        (true, _) => StallKind::Dead,
        (false, true) => StallKind::Unresponsive,
        (false, false) => return None,
    };
    let size = communicator.size.unwrap_or(0);
    let others = size.saturating_sub(communicator.missing.len() as u64);
    Some(Stall {
        kind,
        proof,
        name: named(&[without_host(&missing.place)], 1),
        who: named(std::slice::from_ref(&missing.place), 1),
        collective: format!("communicator {}", communicator.hash),
        waiters: plural(others, "rank"),
        held: None,
        caller: None,
        detail: process(&missing.place),
    })
}

/// The ranks that launched the least of a kind of operation.
fn behind(communicator: &Communicator, proof: StallProof) -> Option<Stall> {
    let mut kinds: BTreeMap<&str, Vec<&RankCounts>> = BTreeMap::new();
    for counts in &communicator.counts {
        kinds.entry(&counts.operation).or_default().push(counts);
    }
    for (operation, mut counts) in kinds {
        counts.sort_by_key(|counts| counts.launched);
        let (Some(least), Some(most)) = (counts.first(), counts.last()) else {
            continue;
        };
        if least.launched == most.launched {
            continue;
        }
        let operation = match operation {
            "" => "collective",
            operation => operation,
        };
        let launched = match least.launched {
            0 => "it launched none".to_owned(),
            some => format!("the last launched is #{some}"),
        };
        let one = (least.named.as_slice())
            .first()
            .filter(|_| least.ranks == 1);
        let process = one.and_then(process);
        let process = process.map_or(String::new(), |process| format!(" ({process})"));
        let nameless: Vec<RankPlace> = least.named.iter().map(without_host).collect();
        return Some(Stall {
            kind: StallKind::Behind,
            proof,
            name: named(&nameless, least.ranks),
            who: named(&least.named, least.ranks),
            collective: format!(
                "{operation} #{} of communicator {}",
                most.launched, communicator.hash
            ),
            waiters: plural(most.ranks, "rank"),
            held: None,
            caller: None,
            detail: Some(format!("{launched}{process}")),
        });
    }
    None
}

fn without_host(place: &RankPlace) -> RankPlace {
    RankPlace {
        host: String::new(),
        ..place.clone()
    }
}

fn named(places: &[RankPlace], count: u64) -> String {
    if places.is_empty() {
        return plural(count, "rank");
    }
    let mut hosts = BTreeMap::new();
    let mut ranks = BTreeSet::new();
    for place in places {
        let Ok(rank) = u32::try_from(place.rank) else {
            continue;
        };
        ranks.insert(rank);
        if !place.host.is_empty() {
            hosts.insert(rank, place.host.clone());
        }
    }
    Hosts(hosts).list(&ranks)
}

/// `process 1650386`
fn process(place: &RankPlace) -> Option<String> {
    (place.pid > 0).then(|| format!("process {}", place.pid))
}

/// `RAS: 1 communicator, all ranks answer`
pub(super) fn summary(status: &RasStatus) -> String {
    let missing = status
        .communicators
        .iter()
        .map(|one| one.missing.len() as u64);
    let missing: u64 = missing.max().unwrap_or(0);
    match missing {
        0 => "RAS: all ranks answer".to_owned(),
        some => format!("RAS: {} missing", plural(some, "rank")),
    }
}
