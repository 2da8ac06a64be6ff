//! What a rank waits for: the oldest call that it made and that is not complete, and which ranks
//! keep that from ending.

use std::collections::BTreeSet;

use super::job::{Group, Job};
use crate::trace::Call;

/// What ranks wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Point {
    /// A collective, by its group and its number there.
    Collective { group: usize, sequence: i64 },
    /// A message between two ranks.
    Message { group: usize, from: u32, to: u32 },
}

/// Who keeps a call from ending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blockers {
    /// Ranks that did not make the call.
    pub(super) absent: BTreeSet<u32>,
    /// Ranks without a dump, of which no watchdog tells.
    pub(super) untold: BTreeSet<u32>,
    /// Ranks that made it and did not complete it, while others did.
    pub(super) unfinished: BTreeSet<u32>,
    /// Ranks that made it, and wait in an older call.
    pub(super) elsewhere: BTreeSet<u32>,
    /// Ranks that made it.
    pub(super) joined: BTreeSet<u32>,
    /// Whether the call names no other rank: a group of sends and receives.
    pub(super) is_opaque: bool,
}

/// The point at which a rank's call stands.
pub(super) fn point_of(job: &Job<'_>, rank: u32, call: &Call) -> Option<Point> {
    let group = job.group_of(rank, call)?;
    if let Some((from, to)) = call.peers() {
        let members = job.groups[group].members;
        return Some(Point::Message {
            group,
            from: members.at(from)?,
            to: members.at(to)?,
        });
    }
    Some(Point::Collective {
        group,
        sequence: call.sequence,
    })
}

/// Who keeps the calls at this point from ending.
pub(super) fn blockers(job: &Job<'_>, point: Point, call: &Call) -> Blockers {
    match point {
        Point::Message { from, to, .. } => of_message(job, point, [from, to]),
        Point::Collective { .. } if call.after_collective.is_some() => Blockers {
            is_opaque: true,
            ..Blockers::default()
        },
        Point::Collective { group, sequence } => of_collective(job, group, sequence),
    }
}

fn is_at(job: &Job<'_>, rank: u32, call: &Call, point: Point) -> bool {
    point_of(job, rank, call) == Some(point)
}

fn of_message(job: &Job<'_>, point: Point, ends: [u32; 2]) -> Blockers {
    let mut found = Blockers::default();
    for end in ends {
        let Some(rank) = job.ranks.get(&end) else {
            if !job.timed_out.contains(&end) {
                found.untold.insert(end);
            }
            continue;
        };
        let has_made = rank
            .dump
            .pending
            .iter()
            .any(|call| is_at(job, end, call, point));
        let waits_here = rank.head().is_some_and(|head| is_at(job, end, head, point));
        if !has_made {
            found.absent.insert(end);
            continue;
        }
        found.joined.insert(end);
        if !waits_here {
            found.elsewhere.insert(end);
        }
    }
    found
}

/// Whether a rank made the collective, and whether it completed it; `None` where its dump does not tell.
fn stands(job: &Job<'_>, group: &Group<'_>, at: (usize, i64), rank: u32) -> Option<(bool, bool)> {
    let (place, sequence) = at;
    let one = job.ranks.get(&rank)?;
    let is_pending = one.pending(place, sequence).is_some();
    if group.point_to_point {
        // The counts are of messages too: only calls tell.
        let calls = one.dump.pending.iter().chain(&one.dump.last);
        let own = calls.filter(|call| one.groups.get(call.group) == Some(&place));
        let furthest = own
            .map(|call| call.after_collective.unwrap_or(call.sequence))
            .max();
        return match furthest {
            Some(furthest) => Some((furthest >= sequence, furthest >= sequence && !is_pending)),
            None if one.head().is_none() => Some((false, false)),
            None => None,
        };
    }
    let progress = group.progress.get(&rank)?;
    let enqueued = progress.enqueued?;
    let completed = progress.completed.unwrap_or(-1);
    Some((
        enqueued >= sequence || is_pending,
        completed >= sequence && !is_pending,
    ))
}

fn of_collective(job: &Job<'_>, place: usize, sequence: i64) -> Blockers {
    let group = &job.groups[place];
    let point = Point::Collective {
        group: place,
        sequence,
    };
    let mut found = Blockers::default();
    let mut has_ended = false;
    for rank in group.members.iter() {
        if !job.ranks.contains_key(&rank) {
            if !job.timed_out.contains(&rank) {
                found.untold.insert(rank);
            }
            continue;
        }
        let Some((has_made, has_completed)) = stands(job, group, (place, sequence), rank) else {
            continue;
        };
        has_ended |= has_completed;
        if !has_made {
            found.absent.insert(rank);
            continue;
        }
        found.joined.insert(rank);
        if has_completed {
            continue;
        }
        found.unfinished.insert(rank);
        let head = job.ranks.get(&rank).and_then(|rank| rank.head());
        if head.is_some_and(|head| !is_at(job, rank, head, point)) {
            found.elsewhere.insert(rank);
        }
    }
    if !has_ended {
        found.unfinished.clear();
    }
    found
}
