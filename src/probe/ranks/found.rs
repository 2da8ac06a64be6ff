//! Which processes are ranks, of which job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::fact::{Gap, Presence};
use crate::launch::{self, Launch};
use crate::probe::Ask;
use crate::probe::tuning::cgroup;

/// A job of which no launcher tells anything.
pub(super) const NAMELESS: &str = "job";

/// The reply about the processes.
#[derive(Clone, Deserialize)]
pub(super) struct Processes {
    processes: Vec<Process>,
    withheld: Vec<Withheld>,
    all_visible: bool,
}

#[derive(Clone, Deserialize)]
struct Withheld {
    pid: u32,
    name: Arc<str>,
}

#[derive(Clone, Deserialize)]
struct Process {
    pid: u32,
    parent: u32,
    name: Arc<str>,
    /// `None` for one that is below a rank, and whose environment says nothing.
    env: Option<BTreeMap<String, String>>,
}

impl Process {
    fn launch(&self) -> Option<Launch> {
        let env = self.env.as_ref()?;
        launch::read(|name| env.get(name).cloned()).ok()?
    }
}

impl Processes {
    /// Whose environment the kernel withholds: it may be a rank.
    pub(super) fn withheld_in_words(&self) -> Option<String> {
        let hidden = "/proc hides the processes of other users (run as root)".to_owned();
        match self.withheld.as_slice() {
            [] => (!self.all_visible).then_some(hidden),
            [one] => Some(format!(
                "process {} ({}) has another user or more rights, and may not be looked at (run as root)",
                one.pid, one.name
            )),
            many => Some(format!(
                "{} processes of other users or with more rights may not be looked at (run as root)",
                many.len()
            )),
        }
    }

    fn children(&self, pid: u32) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |one| one.parent == pid)
    }

    /// All processes below this one.
    fn descendants(&self, pid: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut open = vec![pid];
        while let Some(at) = open.pop() {
            for child in self.children(at) {
                if !found.contains(&child.pid) {
                    found.push(child.pid);
                    open.push(child.pid);
                }
            }
        }
        found
    }
}

/// A job, by its ranks' processes.
pub(super) struct FoundJob {
    /// What its ranks have in common: the launcher, the job's id, where they meet.
    pub(super) key: Vec<String>,
    engine: Option<String>,
    id: Option<String>,
    meets_at: Option<String>,
    /// How many ranks it has on all nodes, and how many nodes, where the launcher says so.
    pub(super) all: Option<u64>,
    pub(super) nodes: Option<u64>,
    /// How many of its ranks its launcher started on this node, where that is known.
    here: u64,
    pub(super) ranks: Vec<FoundRank>,
    missing: Vec<String>,
}

/// A rank's process.
#[derive(Clone, Debug)]
pub(super) struct FoundRank {
    /// `None` for a process that was named and whose environment tells none.
    pub(super) number: Option<u64>,
    local: Option<u64>,
    pub(super) pid: u32,
    command: Arc<str>,
    below: Vec<u32>,
}

impl FoundRank {
    /// `rank 2 (pid 77)`, `python3 (pid 77)`; `rank 2 (n1, pid 77)` where several nodes are looked at.
    pub(super) fn name(&self, host: Option<&str>) -> String {
        let on = host.map_or(String::new(), |host| format!("{host}, "));
        match self.number {
            Some(number) => format!("rank {number} ({on}pid {})", self.pid),
            None => format!("{} ({on}pid {})", self.command, self.pid),
        }
    }

    pub(super) fn all_pids(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.pid).chain(self.below.iter().copied())
    }
}

impl FoundJob {
    /// `job 77 (Slurm)`, `job at c0:29500 (torchrun)`
    pub(super) fn name(&self) -> String {
        let Some(engine) = &self.engine else {
            return NAMELESS.to_owned();
        };
        // torchrun's own word where nobody gave an id.
        let id = self.id.as_ref().filter(|id| *id != "none");
        match (id, &self.meets_at) {
            (Some(id), _) => format!("job {id} ({engine})"),
            (None, Some(place)) => format!("job at {place} ({engine})"),
            (None, None) => format!("job ({engine})"),
        }
    }

    /// Whether it has no ranks on other nodes, or tells nothing of them: what looks like it elsewhere is another job.
    pub(super) fn is_of_one_node(&self) -> bool {
        self.key.is_empty() || self.nodes == Some(1) || self.all == Some(self.here)
    }

    /// Who is missing in both looks.
    pub(super) fn missing_in(&self, earlier: &FoundJob) -> &[String] {
        if self.missing == earlier.missing {
            &self.missing
        } else {
            &[]
        }
    }
}

/// The jobs; of processes that were named, and tell no rank, one of these.
pub(super) fn jobs(processes: &Processes, named: &[u32]) -> Vec<FoundJob> {
    let mut jobs: BTreeMap<Vec<String>, FoundJob> = BTreeMap::new();
    let mut expected: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for process in &processes.processes {
        let Some(launch) = process.launch() else {
            continue;
        };
        let key = key_of(&launch);
        let here = launch
            .local_ranks
            .or(launch.ranks.filter(|_| launch.nodes == Some(1)));
        expected.entry(key.clone()).or_insert(here.unwrap_or(0));
        let job = jobs.entry(key.clone()).or_insert_with(|| FoundJob {
            key,
            engine: Some(launch.engine.to_string()),
            id: launch.job.clone(),
            meets_at: meeting_place(&launch),
            all: launch.ranks,
            nodes: launch.nodes,
            here: here.unwrap_or(0),
            ranks: Vec::new(),
            missing: Vec::new(),
        });
        if !job.ranks.iter().any(|one| one.number == Some(launch.rank)) {
            let place = rank_process(processes, process, &launch);
            job.ranks.push(FoundRank {
                number: Some(launch.rank),
                local: launch.local_rank,
                pid: place.pid,
                command: Arc::clone(&place.name),
                below: processes.descendants(place.pid),
            });
        }
    }
    for (key, job) in &mut jobs {
        job.ranks.sort_by_key(|rank| rank.number);
        job.missing = missing(&job.ranks, expected.get(key).copied().unwrap_or(0));
    }
    let mut found: Vec<FoundJob> = jobs.into_values().collect();
    if found.is_empty() && !named.is_empty() {
        found.push(of_named(processes, named));
    }
    found.retain(|job| !job.ranks.is_empty());
    found
}

fn of_named(processes: &Processes, named: &[u32]) -> FoundJob {
    let own = processes
        .processes
        .iter()
        .filter(|one| named.contains(&one.pid));
    let rank = |one: &Process| FoundRank {
        number: None,
        local: None,
        pid: one.pid,
        command: Arc::clone(&one.name),
        below: processes.descendants(one.pid),
    };
    FoundJob {
        key: Vec::new(),
        engine: None,
        id: None,
        meets_at: None,
        all: None,
        nodes: None,
        here: 0,
        ranks: own.map(rank).collect(),
        missing: Vec::new(),
    }
}

fn meeting_place(launch: &Launch) -> Option<String> {
    let port = launch.master_port?;
    Some(format!("{}:{port}", launch.master.as_ref()?))
}

fn key_of(launch: &Launch) -> Vec<String> {
    let parts = [
        Some(launch.engine.to_string()),
        launch.job.clone(),
        meeting_place(launch),
        launch.ranks.map(|ranks| ranks.to_string()),
    ];
    parts.into_iter().flatten().collect()
}

/// The process that does the rank's work: shells and wrappers of launchers above it, and workers
/// below it, have its variables too.
fn rank_process<'p>(processes: &'p Processes, from: &'p Process, launch: &Launch) -> &'p Process {
    let is_same = |one: &&Process| {
        one.launch()
            .is_some_and(|other| key_of(&other) == key_of(launch) && other.rank == launch.rank)
    };
    let mut at = from;
    let mut seen = BTreeSet::new();
    while seen.insert(at.pid)
        && let Some(parent) = processes.processes.iter().find(|one| one.pid == at.parent)
        && is_same(&parent)
    {
        at = parent;
    }
    while is_wrapper(&at.name) {
        let mut children = processes.children(at.pid).filter(is_same);
        let (Some(child), None) = (children.next(), children.next()) else {
            break;
        };
        at = child;
    }
    at
}

/// Whether a program only starts another one.
fn is_wrapper(name: &str) -> bool {
    let programs = [
        "sh",
        "bash",
        "dash",
        "zsh",
        "ksh",
        "numactl",
        "taskset",
        "nsys",
        "ncu",
        "env",
        "time",
        "timeout",
        "strace",
        "perf",
        "slurmstepd",
        "conda",
        "uv",
        "sudo",
        "su",
        "setpriv",
        "tini",
    ];
    programs.contains(&name)
}

/// The local ranks of which no process is there, by their numbers in the job where those follow.
fn missing(ranks: &[FoundRank], expected: u64) -> Vec<String> {
    let local: BTreeSet<u64> = ranks.iter().filter_map(|rank| rank.local).collect();
    if local.len() != ranks.len() {
        return Vec::new();
    }
    let end = expected.max(local.last().map_or(0, |last| last + 1));
    let offsets: BTreeSet<Option<u64>> = ranks
        .iter()
        .map(|rank| rank.number?.checked_sub(rank.local?))
        .collect();
    let offset = match offsets.first() {
        Some(offset) if offsets.len() == 1 => *offset,
        _ => None,
    };
    let absent = (0..end).filter(|number| !local.contains(number));
    absent
        .map(|number| match offset {
            Some(offset) => format!("rank {}", number + offset),
            None => format!("local rank {number}"),
        })
        .collect()
}

/// Whether the control group of a process, or one above it, is frozen. What does not answer is no
/// freezer, and among the gaps.
pub(super) fn is_frozen(ask: &Ask<'_>, pid: u32, gaps: &mut Vec<Gap>) -> bool {
    let text = match ask.text_if_any(format!("/proc/{pid}/cgroup")) {
        Presence::Present(text, _) => text,
        Presence::Absent(_) => return false,
        Presence::Unknown(gap) => {
            gaps.push(gap);
            return false;
        }
    };
    let (freezer, unified) = cgroup::paths(&text, "freezer");
    let files = [
        freezer.map(|path| format!("/sys/fs/cgroup/freezer{path}/freezer.state")),
        unified.map(|path| format!("/sys/fs/cgroup{path}/cgroup.events")),
    ];
    files
        .into_iter()
        .flatten()
        .any(|file| match ask.text_if_any(file) {
            Presence::Present(text, _) => text
                .lines()
                .any(|line| line == "FROZEN" || line == "frozen 1"),
            Presence::Absent(_) => false,
            Presence::Unknown(gap) => {
                gaps.push(gap);
                false
            }
        })
}
