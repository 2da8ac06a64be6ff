//! The dumps of all ranks, put together.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::stall::StallProof;
use crate::trace::{Call, Members, RankDump};

/// A rank's dump.
pub(super) struct Rank<'d> {
    pub(super) dump: &'d RankDump,
    /// For each of its groups that group's place in [`Job::groups`].
    pub(super) groups: Vec<usize>,
}

impl<'d> Rank<'d> {
    /// The oldest call that is not complete: what the rank waits in.
    pub(super) fn head(&self) -> Option<&'d Call> {
        self.dump.pending.first()
    }

    /// The rank's call with this number in a group, if it is not complete.
    pub(super) fn pending(&self, group: usize, sequence: i64) -> Option<&'d Call> {
        self.dump.pending.iter().find(|call| {
            self.groups.get(call.group) == Some(&group)
                && call.sequence == sequence
                && call.after_collective.is_none()
        })
    }
}

/// How far a rank is in a group.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    pub(super) enqueued: Option<i64>,
    pub(super) completed: Option<i64>,
}

/// A group of ranks.
pub(super) struct Group<'d> {
    pub(super) name: &'d str,
    pub(super) description: &'d str,
    pub(super) members: &'d Members,
    /// Whether sends and receives count with it.
    pub(super) point_to_point: bool,
    pub(super) progress: BTreeMap<u32, Progress>,
}

/// All ranks of a job.
pub(super) struct Job<'d> {
    pub(super) ranks: BTreeMap<u32, Rank<'d>>,
    pub(super) groups: Vec<Group<'d>>,
    /// The ranks of the largest group.
    pub(super) world: Members,
    /// Ranks of which a watchdog says that a call timed out: they live, with a dump or without.
    pub(super) timed_out: BTreeSet<u32>,
    /// Dumps whose rank is not known.
    pub(super) unplaced: u64,
    /// Whether a rank went on between two of its dumps.
    pub(super) moves: bool,
    /// Whether each rank with two dumps did the same in both.
    is_still: bool,
}

impl<'d> Job<'d> {
    /// The job of these files' dumps.
    pub(super) fn of(dumps: &[(&'d str, &'d RankDump)], timed_out: BTreeSet<u32>) -> Self {
        let mut job = Job {
            ranks: BTreeMap::new(),
            groups: Vec::new(),
            world: Members::default(),
            timed_out,
            unplaced: 0,
            moves: false,
            is_still: false,
        };
        let mut of_rank: BTreeMap<u32, Vec<&'d RankDump>> = BTreeMap::new();
        for (file, dump) in dumps {
            match rank_of(file, dump) {
                Some(rank) => of_rank.entry(rank).or_default().push(dump),
                None => job.unplaced += 1,
            }
        }
        let mut is_twice = !of_rank.is_empty();
        for (rank, mut all) in of_rank {
            all.sort_by_key(|dump| progress_of(dump));
            let (Some(first), Some(last)) = (all.first(), all.last()) else {
                continue;
            };
            is_twice &= all.len() > 1;
            job.moves |= progress_of(first) != progress_of(last);
            job.ranks.insert(
                rank,
                Rank {
                    dump: last,
                    groups: Vec::new(),
                },
            );
        }
        job.is_still = is_twice && !job.moves;
        job.put_groups_together();
        job
    }

    fn put_groups_together(&mut self) {
        let mut places: BTreeMap<(&str, &str, &Members), usize> = BTreeMap::new();
        for (number, rank) in &mut self.ranks {
            for group in &rank.dump.groups {
                let key = (
                    group.name.as_str(),
                    group.description.as_str(),
                    &group.members,
                );
                let all = &mut self.groups;
                let place = *places.entry(key).or_insert_with(|| {
                    all.push(Group {
                        name: &group.name,
                        description: &group.description,
                        members: &group.members,
                        point_to_point: false,
                        progress: BTreeMap::new(),
                    });
                    all.len() - 1
                });
                let progress = Progress {
                    enqueued: group.enqueued,
                    completed: group.completed,
                };
                all[place].point_to_point |= group.point_to_point;
                all[place].progress.insert(*number, progress);
                rank.groups.push(place);
            }
        }
        let largest = self.groups.iter().max_by_key(|group| group.members.len());
        if let Some(largest) = largest {
            self.world = largest.members.clone();
        }
    }

    /// The ranks of which nothing is here, although others of their job are.
    pub(super) fn without_dump(&self) -> Members {
        let ranks = self.world.iter();
        Members::of(ranks.filter(|rank| !self.ranks.contains_key(rank)))
    }

    /// What proves that ranks that wait in these calls stand still.
    pub(super) fn proof(&self, heads: &BTreeMap<u32, &Call>, is_watched: bool) -> StallProof {
        let latest = self
            .ranks
            .values()
            .filter_map(|rank| rank.dump.latest_ns)
            .max();
        let is_over = |call: &&Call| {
            let age = latest.map_or(0, |latest| latest.saturating_sub(call.created_ns));
            call.timeout_ms > 0 && call.created_ns > 0 && age / 1_000_000 >= call.timeout_ms
        };
        if is_watched || heads.values().any(is_over) {
            StallProof::Timeout
        } else if self.is_still {
            StallProof::Twice
        } else {
            StallProof::None
        }
    }

    /// The group of a rank's call.
    pub(super) fn group_of(&self, rank: u32, call: &Call) -> Option<usize> {
        self.ranks.get(&rank)?.groups.get(call.group).copied()
    }

    /// What the program calls a group, with its ranks where it is not the whole job.
    pub(super) fn group_name(&self, group: usize) -> String {
        let Some(group) = self.groups.get(group) else {
            return "a group".into();
        };
        let called = match group.description {
            "" | "undefined" => group.name,
            description => description,
        };
        if *group.members == self.world || group.members.is_empty() {
            called.to_owned()
        } else {
            format!("{called} (ranks {})", group.members)
        }
    }
}

/// How far a dump is: later ones of a rank are further, or the same.
fn progress_of(dump: &RankDump) -> (i64, i64, Option<i64>) {
    let sum = |number: fn(&crate::trace::GroupProgress) -> Option<i64>| {
        let numbers = dump.groups.iter().filter_map(number);
        numbers.fold(0i64, i64::saturating_add)
    };
    (
        sum(|group| group.completed),
        sum(|group| group.enqueued),
        dump.latest_ns,
    )
}

/// The rank whose dump this is: its file's name ends in it (`nccl_trace_rank_12`), unless a group of the
/// dump does not have it; else the only rank that all of its groups have.
fn rank_of(file: &str, dump: &RankDump) -> Option<u32> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split('.').next().unwrap_or(name);
    let digits = stem.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let digits = digits
        .rsplit(|letter: char| !letter.is_ascii_digit())
        .next()?;
    let groups = || dump.groups.iter().filter(|group| !group.members.is_empty());
    if let Ok(rank) = digits.parse()
        && groups().all(|group| group.members.contains(rank))
    {
        return Some(rank);
    }
    let smallest = groups().min_by_key(|group| group.members.len())?;
    let is_in_all = |rank: &u32| groups().all(|group| group.members.contains(*rank));
    let mut shared = smallest.members.iter().filter(is_in_all);
    let only = shared.next();
    only.filter(|_| shared.next().is_none())
}
