//! From who waits for whom to the causes: the ranks, or calls, at which the waiting ends.

use std::collections::{BTreeMap, BTreeSet};

use super::job::Job;
use super::waits::{self, Blockers, Point};
use super::wording::{self, Hosts};
use crate::fact::stall::StallKind;
use crate::trace::Call;

/// Operations whose sizes and types are the same on all ranks, by their names in words.
const SYMMETRIC: [&str; 6] = [
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "broadcast",
    "reduce",
    "barrier",
];

/// A cause.
pub(super) struct Cause {
    pub(super) kind: StallKind,
    /// The ranks at fault; of a collective that none completed, those in it.
    pub(super) ranks: BTreeSet<u32>,
    /// Where others wait for them.
    point: Point,
    /// The call there of one that waits, by its rank.
    caller: u32,
    /// Ranks that wait at this point.
    pub(super) waiters: BTreeSet<u32>,
    /// Ranks that wait for it in the end.
    pub(super) held: usize,
    /// What is said of several calls that differ, or of others like it.
    note: Option<String>,
}

/// What was found.
pub(super) struct Found<'d> {
    /// The call in which each rank waits.
    pub(super) heads: BTreeMap<u32, &'d Call>,
    pub(super) causes: Vec<Cause>,
}

/// What ends a chain of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// A rank that waits for nothing.
    Idle(u32),
    /// A rank without a dump.
    Untold(u32),
    /// A rank that does not complete what others did.
    Unfinished(u32),
    /// A call that all made and none completed.
    Together(Point),
    /// Calls that differ.
    Differs(Point),
}

struct Wait<'d> {
    call: &'d Call,
    point: Point,
    /// The ranks for which it waits.
    on: BTreeSet<u32>,
    ends: BTreeSet<End>,
}

/// Finds the causes.
pub(super) fn find<'d>(job: &Job<'d>) -> Found<'d> {
    let mut heads = BTreeMap::new();
    let mut blocked: BTreeMap<Point, Blockers> = BTreeMap::new();
    let mut waits: BTreeMap<u32, Wait<'d>> = BTreeMap::new();
    let differing = differing_calls(job);
    for (rank, one) in &job.ranks {
        let Some(call) = one.head() else {
            continue;
        };
        heads.insert(*rank, call);
        let Some(point) = waits::point_of(job, *rank, call) else {
            continue;
        };
        let blockers = blocked
            .entry(point)
            .or_insert_with(|| waits::blockers(job, point, call));
        if !blockers.is_opaque {
            waits.insert(*rank, wait(*rank, call, point, blockers, &differing));
        }
    }
    let reached = reached_ends(job, &waits);
    let mut causes = Vec::new();
    add_calls_that_differ(job, &waits, &differing, &mut causes);
    add_ranks(job, &waits, &mut causes);
    add_together(job, &waits, &mut causes);
    for cause in &mut causes {
        let is_held = |ends: &&BTreeSet<End>| ends.iter().any(|end| cause.is_of(end));
        cause.held = reached.values().filter(is_held).count();
    }
    if causes.is_empty() {
        causes.extend(crossed(job, &waits));
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.held));
    Found { heads, causes }
}

fn wait<'d>(
    rank: u32,
    call: &'d Call,
    point: Point,
    blockers: &Blockers,
    differing: &BTreeMap<Point, String>,
) -> Wait<'d> {
    let mut wait = Wait {
        call,
        point,
        on: BTreeSet::new(),
        ends: BTreeSet::new(),
    };
    if differing.contains_key(&point) {
        wait.ends.insert(End::Differs(point));
    } else if !blockers.absent.is_empty() {
        wait.on.clone_from(&blockers.absent);
    } else if !blockers.unfinished.is_empty() {
        if blockers.unfinished.contains(&rank) {
            wait.ends.insert(End::Unfinished(rank));
        }
    } else if !blockers.elsewhere.is_empty() {
        wait.on.clone_from(&blockers.elsewhere);
    } else if !blockers.untold.is_empty() {
        wait.ends
            .extend(blockers.untold.iter().map(|rank| End::Untold(*rank)));
    } else {
        wait.ends.insert(End::Together(point));
    }
    wait
}

/// Whether a rank waits for nothing.
fn is_idle(job: &Job<'_>, rank: u32) -> bool {
    let one = job.ranks.get(&rank);
    one.is_some_and(|one| one.head().is_none())
}

/// For each rank that waits the ends of its chain.
fn reached_ends(job: &Job<'_>, waits: &BTreeMap<u32, Wait<'_>>) -> BTreeMap<u32, BTreeSet<End>> {
    // From the ends back to those that wait for them.
    let mut waiting_on: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut reached: BTreeMap<u32, BTreeSet<End>> = BTreeMap::new();
    let mut open: Vec<(u32, End)> = Vec::new();
    for (rank, wait) in waits {
        open.extend(wait.ends.iter().map(|end| (*rank, *end)));
        for on in &wait.on {
            waiting_on.entry(*on).or_default().push(*rank);
            if is_idle(job, *on) {
                open.push((*rank, End::Idle(*on)));
            }
        }
    }
    while let Some((rank, end)) = open.pop() {
        if reached.entry(rank).or_default().insert(end) {
            let behind = waiting_on.get(&rank).into_iter().flatten();
            open.extend(behind.map(|behind| (*behind, end)));
        }
    }
    reached
}

/// Ranks that wait for nothing, that have no dump, or that do not complete what others did.
fn add_ranks(job: &Job<'_>, waits: &BTreeMap<u32, Wait<'_>>, causes: &mut Vec<Cause>) {
    // For each rank at fault the points at which others wait for it, with these.
    let mut points: BTreeMap<End, BTreeMap<Point, BTreeSet<u32>>> = BTreeMap::new();
    for (rank, wait) in waits {
        let idle = wait.on.iter().filter(|on| is_idle(job, **on));
        let idle = idle.map(|on| End::Idle(*on));
        for end in wait.ends.iter().copied().chain(idle) {
            if matches!(end, End::Idle(_) | End::Untold(_) | End::Unfinished(_)) {
                let at = points.entry(end).or_default();
                at.entry(wait.point).or_default().insert(*rank);
            }
        }
    }
    let mut merged: BTreeMap<(&str, Point), Cause> = BTreeMap::new();
    for (end, at) in points {
        let most = at.into_iter().max_by_key(|(_, waiters)| waiters.len());
        let Some((point, waiters)) = most else {
            continue;
        };
        let (kind, rank) = match end {
            End::Idle(rank) => (StallKind::NotJoined, rank),
            End::Untold(rank) => (StallKind::NoDump, rank),
            End::Unfinished(rank) => (StallKind::NotCompleted, rank),
            End::Together(_) | End::Differs(_) => continue,
        };
        let caller = waiters.first().copied().unwrap_or(rank);
        let cause = merged.entry((kind.word(), point)).or_insert_with(|| Cause {
            kind,
            ranks: BTreeSet::new(),
            point,
            caller,
            waiters: BTreeSet::new(),
            held: 0,
            note: None,
        });
        cause.ranks.insert(rank);
        cause.waiters.extend(waiters);
    }
    causes.extend(merged.into_values());
}

/// Calls that all ranks made and none completed: one cause, of the largest group.
fn add_together(job: &Job<'_>, waits: &BTreeMap<u32, Wait<'_>>, causes: &mut Vec<Cause>) {
    let mut points: BTreeMap<Point, BTreeSet<u32>> = BTreeMap::new();
    for (rank, wait) in waits {
        if wait.ends.contains(&End::Together(wait.point)) {
            points.entry(wait.point).or_default().insert(*rank);
        }
    }
    let others = points.len().saturating_sub(1);
    let largest = points
        .into_iter()
        .max_by_key(|(point, ranks)| (ranks.len(), *point));
    let Some((point, ranks)) = largest else {
        return;
    };
    let Some(caller) = ranks.first().copied() else {
        return;
    };
    let note = match others {
        0 => None,
        1 => Some("1 other group stands in the same way".to_owned()),
        some => Some(format!("{some} other groups stand in the same way")),
    };
    let begun = begun(job, &ranks);
    causes.push(Cause {
        kind: StallKind::Together,
        waiters: ranks.clone(),
        ranks,
        point,
        caller,
        held: 0,
        note: note.or(begun),
    });
}

/// Which devices have begun the oldest call of these ranks; `None` where none has, as where nobody
/// times them.
fn begun(job: &Job<'_>, ranks: &BTreeSet<u32>) -> Option<String> {
    let has_begun = |rank: &u32| {
        let head = job.ranks.get(rank).and_then(|rank| rank.head());
        head.is_some_and(|head| head.started)
    };
    let (begun, not): (BTreeSet<u32>, BTreeSet<u32>) =
        ranks.iter().partition(|rank| has_begun(rank));
    match (begun.len(), not.len()) {
        (0, _) => None,
        (_, 0) => Some("the devices have begun it".to_owned()),
        _ => {
            let who = Hosts::default().list(&not);
            Some(format!(
                "not begun on the device of {who}, begun on the others"
            ))
        }
    }
}

fn add_calls_that_differ(
    job: &Job<'_>,
    waits: &BTreeMap<u32, Wait<'_>>,
    differing: &BTreeMap<Point, String>,
    causes: &mut Vec<Cause>,
) {
    for (point, note) in differing {
        let waiters = waits.iter().filter(|(_, wait)| wait.point == *point);
        let waiters: BTreeSet<u32> = waiters.map(|(rank, _)| *rank).collect();
        let Some(caller) = waiters.first().copied() else {
            continue;
        };
        causes.push(Cause {
            kind: StallKind::CallsDiffer,
            ranks: odd_ranks(job, *point),
            point: *point,
            caller,
            waiters,
            held: 0,
            note: Some(note.clone()),
        });
    }
}

/// What two ranks must have in common to take part in one collective.
fn kind_of_call(call: &Call) -> String {
    let operation = wording::operation(&call.operation);
    if SYMMETRIC.contains(&operation.as_str()) {
        let (elements, types) = (call.elements.0, &call.types);
        format!("{operation} ({elements} × {types})")
    } else {
        operation
    }
}

/// For a collective what each rank called.
fn calls_at(job: &Job<'_>, point: Point) -> BTreeMap<String, BTreeSet<u32>> {
    let mut kinds: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    if let Point::Collective { group, sequence } = point {
        for (rank, one) in &job.ranks {
            if let Some(call) = one.pending(group, sequence) {
                kinds.entry(kind_of_call(call)).or_default().insert(*rank);
            }
        }
    }
    kinds
}

/// The ranks that called what fewest did.
fn odd_ranks(job: &Job<'_>, point: Point) -> BTreeSet<u32> {
    let kinds = calls_at(job, point).into_values();
    kinds.min_by_key(BTreeSet::len).unwrap_or_default()
}

/// The collectives in which ranks wait that did not call the same, and what they called.
fn differing_calls(job: &Job<'_>) -> BTreeMap<Point, String> {
    let heads = job
        .ranks
        .iter()
        .filter_map(|(rank, one)| Some((rank, one.head()?)));
    let points: BTreeSet<Point> = heads
        .filter_map(|(rank, head)| waits::point_of(job, *rank, head))
        .collect();
    let mut differing = BTreeMap::new();
    for point in points {
        let kinds = calls_at(job, point);
        if kinds.len() < 2 {
            continue;
        }
        let mut sorted: Vec<_> = kinds.into_iter().collect();
        sorted.sort_by_key(|(_, ranks)| ranks.len());
        let hosts = Hosts::default();
        let said = sorted.iter().take(3);
        let said = said.map(|(kind, ranks)| format!("{} called {kind}", hosts.list(ranks)));
        differing.insert(point, said.collect::<Vec<_>>().join(", "));
    }
    differing
}

/// Ranks that wait for each other, in a circle.
fn crossed(job: &Job<'_>, waits: &BTreeMap<u32, Wait<'_>>) -> Option<Cause> {
    for start in waits.keys() {
        let mut seen = Vec::new();
        let mut at = *start;
        while let Some(wait) = waits.get(&at) {
            if let Some(begin) = seen.iter().position(|rank| *rank == at) {
                let circle: BTreeSet<u32> = seen[begin..].iter().copied().collect();
                return Some(circle_of(job, waits, circle, at));
            }
            seen.push(at);
            let Some(next) = wait.on.iter().find(|on| waits.contains_key(on)) else {
                break;
            };
            at = *next;
        }
    }
    None
}

fn circle_of(
    job: &Job<'_>,
    waits: &BTreeMap<u32, Wait<'_>>,
    circle: BTreeSet<u32>,
    at: u32,
) -> Cause {
    let said = circle.iter().take(3).filter_map(|rank| {
        let wait = waits.get(rank)?;
        Some(format!(
            "rank {rank} in {}",
            describe(job, wait.point, wait.call)
        ))
    });
    let note = said.collect::<Vec<_>>().join(", ");
    Cause {
        kind: StallKind::OrderDiffers,
        point: waits[&at].point,
        caller: at,
        waiters: circle.clone(),
        ranks: circle,
        held: waits.len(),
        note: Some(note),
    }
}

/// `all-reduce #1023 of default_pg`, `the message from rank 4 to rank 8`
fn describe(job: &Job<'_>, point: Point, call: &Call) -> String {
    match point {
        Point::Collective { group, sequence } => {
            let operation = wording::operation(&call.operation);
            format!("{operation} #{sequence} of {}", job.group_name(group))
        }
        Point::Message { from, to, .. } => format!("the message from rank {from} to rank {to}"),
    }
}

impl Cause {
    fn is_of(&self, end: &End) -> bool {
        match (*end, self.kind) {
            (End::Idle(rank), StallKind::NotJoined)
            | (End::Untold(rank), StallKind::NoDump)
            | (End::Unfinished(rank), StallKind::NotCompleted) => self.ranks.contains(&rank),
            (End::Together(_), StallKind::Together) => true,
            (End::Differs(point), StallKind::CallsDiffer) => point == self.point,
            _ => false,
        }
    }

    fn call<'d>(&self, job: &Job<'d>) -> Option<&'d Call> {
        job.ranks.get(&self.caller)?.head()
    }

    /// The collective, in words.
    pub(super) fn collective(&self, job: &Job<'_>) -> String {
        let call = self.call(job);
        call.map_or("a call".into(), |call| describe(job, self.point, call))
    }

    /// The line of the program that made the call that waits.
    pub(super) fn caller(&self, job: &Job<'_>) -> Option<String> {
        self.call(job)?.frame.clone()
    }

    /// What else is known.
    pub(super) fn detail(&self, job: &Job<'_>) -> Option<String> {
        if self.note.is_some() {
            return self.note.clone();
        }
        let rank = self.ranks.first().filter(|_| self.ranks.len() == 1)?;
        let one = job.ranks.get(rank)?;
        if self.kind != StallKind::NotJoined {
            return None;
        }
        let last = one.dump.last.iter().max_by_key(|call| call.record);
        Some(match last {
            Some(last) => {
                let point = waits::point_of(job, *rank, last)?;
                let at = last
                    .frame
                    .as_ref()
                    .map_or(String::new(), |frame| format!(" at {frame}"));
                format!("its last call was {}{at}", describe(job, point, last))
            }
            None if one.dump.entries == 0 => "its recorder is empty".to_owned(),
            None => return None,
        })
    }
}
