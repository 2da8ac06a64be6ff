//! Which rank is at fault, or differs from the others: from two looks at each.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::found::FoundRank;
use super::gpu_load::GpuPace;
use super::look::{Change, Connection, Look};
use super::mounts::Mounts;
use super::node_look::Looks;
use super::stack::Stack;
use super::wait::{Wait, WaitKind};
use crate::fact::live_rank::RankFault;
use crate::fact::{Bytes, Facts, Gap, Percent, Seconds, Why, limit};
use crate::probe::Ask;
use crate::source::{Errno, Refusal};

/// How much a rank did between the two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Its main thread did not run at all, and neither did it compute nor move data.
    Still,
    /// It ran now and then.
    Light,
    /// It used CPU time, or moved data.
    Busy,
}

impl Pace {
    fn from_change(change: Change, window: f64, facts: &Facts) -> Self {
        let is_busy = change.runs
            || share_of_cpu(change, window) >= facts.limit(limit::RANK_CPU)
            || Bytes(change.bytes) >= facts.limit(limit::RANK_DATA);
        match change.slices {
            _ if is_busy => Pace::Busy,
            0 => Pace::Still,
            _ => Pace::Light,
        }
    }
}

/// Places of Python programs that are told.
const PLACES: usize = 3;

/// Where a rank waits whose GPU runs a kernel that waits.
const ON_GPU: &str = "a GPU that spins";

/// The share of a CPU in a window of so many nanoseconds.
fn share_of_cpu(change: Change, window: f64) -> Percent {
    Percent((change.cpu as f64 / window.max(1.0) * 1000.0).round() / 10.0)
}

/// A rank, of which two looks are put together.
pub(super) struct Rank {
    pub(super) name: String,
    pub(super) number: Option<u64>,
    pub(super) pid: u32,
    /// All its processes.
    pub(super) pids: Vec<u32>,
    /// The node, where several are looked at.
    pub(super) host: Option<Arc<str>>,
    /// Its node's place among the parts of the job.
    pub(super) part: usize,
    /// What its GPU did in both looks, and in words.
    pub(super) gpu: Option<(GpuPace, String)>,
    pub(super) fault: RankFault,
    pub(super) cpu: Option<Percent>,
    /// What it waits for, in words.
    pub(super) waits: String,
    pub(super) detail: Option<String>,
    /// The connection whose peer acknowledges nothing.
    pub(super) connections: Result<Option<Connection>, Gap>,
    /// Why it could not be looked at.
    pub(super) gap: Option<Gap>,
    /// Where its Python program stands, where a person asked for that.
    pub(super) stack: Result<Option<Stack>, Gap>,
    /// How the server of the mount stands that it waits for.
    pub(super) server: Option<String>,
    /// Pages of its memory that were read from the disk meanwhile, in a second.
    pub(super) faults: u64,
    /// What of its memory is swapped out; `None` where that is not known.
    pub(super) swapped: Option<Bytes>,
    /// For how much of the time it waited for the disk.
    pub(super) disk: Percent,
    withheld: Vec<String>,
    sockets: Vec<Connection>,
    pace: Pace,
    wait: Wait,
    /// What it did in the first look, and whether it waited for the same.
    first: Option<Wait>,
    waits_alike: bool,
    /// What processes below it wait for, where that tells something.
    below: Vec<BelowRank>,
    /// Its threads by their names, but for the main one.
    threads: BTreeMap<Arc<str>, ThreadPace>,
    /// Why processes below it could not be looked at.
    open_below: Vec<Gap>,
    /// In place of what the others do: what a thread of theirs does.
    their_thread: Option<String>,
}

/// What a thread did between the two looks.
struct ThreadPace {
    pace: Pace,
    wait: Wait,
}

/// A process below a rank.
struct BelowRank {
    pid: u32,
    state: Arc<str>,
    wait: Wait,
}

impl Rank {
    /// Puts the looks of one rank together.
    pub(super) fn from_looks(
        found: &FoundRank,
        [before, after]: [&Looks; 2],
        facts: &Facts,
    ) -> Self {
        let pid = found.pid;
        let [began, ended] = [before, after].map(|looks| looks.at.get(&pid).copied().unwrap_or(0));
        let window = ended.saturating_sub(began) as f64 * 1e3;
        let mut rank = Rank::unseen(found);
        let [first, second] = [before, after].map(|looks| looks.threads.get(&pid));
        let (first, second) = match (first, second) {
            (Some(Ok(first)), Some(Ok(second))) => (first, second),
            (Some(Ok(_)), Some(Err(gap))) if is_gone(gap) => {
                rank.fault = RankFault::Ended;
                return rank;
            }
            (first, second) => {
                let gaps = [first, second].into_iter().flatten();
                let gap = gaps.filter_map(|look| look.as_ref().err()).next();
                rank.gap = Some(
                    gap.cloned()
                        .unwrap_or_else(|| Gap::missing("a second look")),
                );
                return rank;
            }
        };
        rank.withheld = second.withheld.iter().cloned().collect();
        rank.wait = Wait::read(second);
        let began = Wait::read(first);
        rank.waits_alike = began == rank.wait;
        rank.first = Some(began);
        let mut change = first.change(second);
        for below in found.all_pids().skip(1) {
            let looks = [before, after].map(|looks| looks.threads.get(&below));
            let gaps = looks
                .into_iter()
                .flatten()
                .filter_map(|look| look.as_ref().err());
            let unexplained = gaps.filter(|gap| !is_gone(gap));
            rank.open_below.extend(unexplained.cloned());
            if let [Some(Ok(first)), Some(Ok(second))] = looks {
                let own = first.change(second);
                change.cpu += own.cpu;
                change.bytes += own.bytes;
                change.runs |= own.runs;
                change.faults += own.faults;
                rank.add_below(below, [first, second]);
            } else if let [None | Some(Err(_)), Some(Ok(_))] = looks {
                // Somebody starts processes.
                change.slices += 1;
            }
        }
        rank.cpu = Some(share_of_cpu(change, window));
        let seconds = (window / 1e9).max(1e-3);
        rank.faults = (change.faults as f64 / seconds).round() as u64;
        rank.swapped = second.swapped_kib.map(|kib| Bytes(kib << 10));
        // A tick of proc_pid_stat(5) is 10 ms on each architecture that has RDMA (`USER_HZ`).
        rank.disk = Percent((change.disk_ticks as f64 / seconds * 10.0).round() / 10.0);
        rank.pace = Pace::from_change(change, window, facts);
        for (thread, change) in first.census(second) {
            let pace = Pace::from_change(change, window, facts);
            let wait = Wait::of_thread(thread);
            rank.threads
                .insert(Arc::clone(&thread.name), ThreadPace { pace, wait });
        }
        if !first.is_counted() || !second.is_counted() {
            rank.gap = Some(Gap::missing(
                "how often its threads ran (/proc/PID/schedstat)",
            ));
        }
        rank.read_connections(before, after);
        let is_frozen = [before, after]
            .iter()
            .all(|looks| looks.frozen.get(&pid) == Some(&true));
        let is_frozen = is_frozen || Wait::read(first).is_frozen() && rank.wait.is_frozen();
        rank.fault = own_fault([&first.state, &second.state], is_frozen);
        if rank.fault == RankFault::None && rank.pace == Pace::Still && rank.waits_alike {
            rank.fault = match rank.wait.kind {
                WaitKind::Files => RankFault::Blocked,
                WaitKind::Flush => RankFault::Flushes,
                _ => RankFault::None,
            };
        }
        rank
    }

    /// A rank of which nothing is known but its processes.
    fn unseen(found: &FoundRank) -> Self {
        Rank {
            name: found.name(None),
            number: found.number,
            pid: found.pid,
            pids: found.all_pids().collect(),
            host: None,
            part: 0,
            gpu: None,
            fault: RankFault::None,
            cpu: None,
            waits: String::new(),
            detail: None,
            connections: Ok(None),
            gap: None,
            stack: Ok(None),
            server: None,
            faults: 0,
            swapped: None,
            disk: Percent(0.0),
            withheld: Vec::new(),
            sockets: Vec::new(),
            pace: Pace::Light,
            wait: Wait::plain(WaitKind::Unknown, ""),
            first: None,
            waits_alike: false,
            below: Vec::new(),
            threads: BTreeMap::new(),
            open_below: Vec::new(),
            their_thread: None,
        }
    }

    fn add_below(&mut self, pid: u32, [first, second]: [&Look; 2]) {
        let wait = Wait::read(second);
        let is_stopped = is_stopped(&first.state) && is_stopped(&second.state);
        let waits_for_file = matches!(wait.kind, WaitKind::Files | WaitKind::Pipe)
            && Wait::read(first) == wait
            && first.change(second).slices == 0;
        if is_stopped || waits_for_file {
            let state = Arc::clone(&second.state);
            self.below.push(BelowRank { pid, state, wait });
        }
    }

    /// The connection that is sent again and again in both looks.
    fn read_connections(&mut self, before: &Looks, after: &Looks) {
        let [first, second] = [before, after].map(|looks| looks.sockets.get(&self.pid));
        match (first, second) {
            (Some(Ok(first)), Some(Ok(second))) => {
                let was_waiting = |one: &&Connection| {
                    let earlier = first.sockets.iter().find(|other| other.inode == one.inode);
                    earlier.is_some_and(|other| other.unacknowledged > 0)
                };
                let again = second
                    .sockets
                    .iter()
                    .filter(|one| one.timer == 1 && one.unacknowledged > 0);
                let worst = again.filter(was_waiting).max_by_key(|one| one.retransmits);
                self.connections = Ok(worst.cloned());
                self.sockets = second.sockets.clone();
            }
            (Some(Err(gap)), _) | (_, Some(Err(gap))) => self.connections = Err(gap.clone()),
            _ => {}
        }
    }

    /// The processes of which the mounts are wanted.
    pub(super) fn pids_at_files(&self) -> impl Iterator<Item = u32> + '_ {
        let is_at_files = |wait: &Wait| matches!(wait.kind, WaitKind::Files | WaitKind::Flush);
        let own = Some(self.pid).filter(|_| is_at_files(&self.wait));
        let below = self.below.iter().filter(move |one| is_at_files(&one.wait));
        own.into_iter().chain(below.map(|one| one.pid))
    }

    /// Puts into words what it waits for.
    pub(super) fn describe(&mut self, ask: &Ask<'_>, mounts: &Mounts) {
        self.waits = self.wait.in_words(&self.sockets, mounts, self.pid);
        self.detail = self.below.first().map(|one| match is_stopped(&one.state) {
            true => format!("its process {} is stopped (state T)", one.pid),
            false => {
                let waits = one.wait.in_words(&[], mounts, one.pid);
                format!("its process {} {waits}", one.pid)
            }
        });
        if self.wait.kind == WaitKind::Files && self.waits_alike {
            let mount = mounts.of(self.pid, &self.wait);
            self.server = mount.and_then(|mount| mount.server(ask, self.pid));
        }
    }

    fn is_still(&self) -> bool {
        self.pace == Pace::Still
    }

    /// What it did in both looks, where it could be looked at.
    pub(super) fn looks(&self) -> Option<[String; 2]> {
        let first = self.first.as_ref()?;
        Some([first.in_short(), self.wait.in_short()])
    }

    /// Where its Python program stands, unless that is what it is said to wait in.
    pub(super) fn stack_in_words(&self) -> Option<String> {
        let stack = self.stack.as_ref().ok()?.as_ref()?.to_string();
        (!self.waits.contains(&stack)).then_some(stack)
    }

    /// What its GPU did.
    fn gpu_pace(&self) -> Option<GpuPace> {
        self.gpu.as_ref().map(|(pace, _)| *pace)
    }

    fn is_same(&self, other: &Rank) -> bool {
        self.pid == other.pid && self.host == other.host
    }

    /// What tells ranks apart that wait.
    fn class(&self) -> (WaitKind, &str) {
        (self.wait.kind, &self.wait.place)
    }

    /// Whether it waits for what no other rank can give.
    fn waits_for_own(&self) -> bool {
        self.wait.kind.is_own() || !self.below.is_empty()
    }

    /// Whether it takes part: it could be looked at, and nothing of its own keeps it.
    fn takes_part(&self) -> bool {
        self.fault == RankFault::None && self.gap.is_none()
    }
}

fn is_gone(gap: &Gap) -> bool {
    let gone = [Errno::ESRCH, Errno::ENOENT];
    matches!(gap.why, Why::Refused(Refusal::Errno(errno)) if gone.contains(&errno))
}

fn is_stopped(state: &str) -> bool {
    matches!(state, "T" | "t")
}

fn own_fault(states: [&Arc<str>; 2], is_frozen: bool) -> RankFault {
    match states.map(|state| &**state) {
        [_, "Z" | "X"] => RankFault::Zombie,
        ["T", "T"] => RankFault::Stopped,
        ["t", "t"] => RankFault::Traced,
        _ if is_frozen => RankFault::Frozen,
        _ => RankFault::None,
    }
}

/// All ranks of a job on the node.
pub(super) struct Standing {
    pub(super) ranks: Vec<Rank>,
    pub(super) looked: Seconds,
    /// How many times as much of a CPU as each other one a rank uses that these wait for.
    alone_from: u64,
}

impl Standing {
    /// Puts all ranks beside each other.
    pub(super) fn compare(
        ranks: Vec<Rank>,
        looked: Seconds,
        data_moves: bool,
        facts: &Facts,
    ) -> Self {
        let mut standing = Standing {
            ranks,
            looked,
            alone_from: facts.limit(limit::RANK_ALONE),
        };
        // What a kernel that waits does not show: whether its peers get their data, slowly.
        if !data_moves && standing.compare_gpus() {
            return standing;
        }
        let odd = standing.find_outliers();
        for (at, rank) in standing.ranks.iter_mut().enumerate() {
            if let Some((_, fault)) = odd.iter().find(|(odd, _)| *odd == at) {
                rank.fault = *fault;
            }
        }
        if odd.is_empty() {
            standing.compare_threads();
            standing.compare_stacks();
        }
        standing
    }

    /// Compares what GPUs do, where those of most ranks spin in a kernel that waits: whether that tells how the ranks stand. A
    /// process that waits for its GPU may use all of a CPU, so that its threads tell nothing.
    fn compare_gpus(&mut self) -> bool {
        let all = self.ranks.len();
        // A rank that is stopped or gone is at fault whatever its GPU does.
        let is_known = |rank: &Rank| rank.fault == RankFault::None && rank.gpu.is_some();
        let spins: Vec<usize> = self.with_gpu(|pace| pace == GpuPace::Spins);
        if spins.len() * 2 <= all || !self.ranks.iter().all(is_known) {
            return false;
        }
        let of_one = self.ranks[spins[0]].gpu.as_ref();
        let load = of_one.map_or(String::new(), |(_, load)| load.clone());
        let others = match spins.len() {
            1 => format!("the GPU of {} spins ({load})", self.ranks[spins[0]].name),
            many => format!("the GPUs of the other {many} spin ({load})"),
        };
        let fewer = |pace| self.with_gpu(|one| one == pace);
        let (idle, working) = (fewer(GpuPace::Idle), fewer(GpuPace::Works));
        for at in &spins {
            let rank = &mut self.ranks[*at];
            rank.pace = Pace::Still;
            rank.waits = format!("waits for its GPU, which spins ({load})");
            ON_GPU.clone_into(&mut rank.wait.place);
        }
        for at in idle {
            let rank = &mut self.ranks[at];
            // Who works for all, as in a checkpoint, launches nothing meanwhile.
            let (fault, does) = match rank.pace {
                Pace::Busy => (RankFault::ComputesAlone, "its process works".to_owned()),
                _ => (RankFault::Differs, format!("its process {}", rank.waits)),
            };
            rank.fault = fault;
            rank.waits = format!("has launched nothing on its GPU, which is idle; {does}");
            rank.their_thread = Some(others.clone());
        }
        for at in working {
            let rank = &mut self.ranks[at];
            let load = rank.gpu.as_ref().map_or("", |(_, load)| load);
            rank.waits = format!("computes on its GPU ({load})");
            rank.pace = Pace::Busy;
            rank.fault = RankFault::ComputesAlone;
            rank.their_thread = Some(others.clone());
        }
        true
    }

    /// The ranks whose GPUs do this, by their places.
    fn with_gpu(&self, does: impl Fn(GpuPace) -> bool) -> Vec<usize> {
        let ranks = self.ranks.iter().enumerate();
        let those = ranks.filter(|(_, rank)| rank.gpu_pace().is_some_and(&does));
        those.map(place).collect()
    }

    /// `ranks 0, 1 and 3 have one`
    pub(super) fn present(&self) -> String {
        let numbers: Vec<String> = self
            .ranks
            .iter()
            .filter_map(|rank| rank.number)
            .map(|number| format!("rank {number}"))
            .collect();
        match numbers.as_slice() {
            [one] => format!("{one} has one"),
            few if few.len() <= 16 => format!("{} have one", listed(few)),
            many => format!("{} ranks have one", many.len()),
        }
    }

    /// Finds ranks of which a thread does nothing that runs in most others: one that moves data for
    /// the rank.
    fn compare_threads(&mut self) {
        let all = self.ranks.iter().filter(|rank| rank.takes_part()).count();
        let mut names: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for rank in self.ranks.iter().filter(|rank| rank.takes_part()) {
            let busy = rank
                .threads
                .iter()
                .filter(|(_, thread)| thread.pace == Pace::Busy);
            for (name, _) in busy {
                *names.entry(Arc::clone(name)).or_default() += 1;
            }
        }
        for (name, busy) in names {
            let mut waiting = Vec::new();
            for (at, rank) in self.ranks.iter().enumerate() {
                let thread = rank
                    .threads
                    .get(&name)
                    .filter(|_| rank.takes_part() && rank.is_still());
                if thread.is_some_and(|thread| thread.pace == Pace::Still) {
                    waiting.push(at);
                }
            }
            if busy * 2 <= all || busy + waiting.len() != all {
                continue;
            }
            for at in waiting {
                let rank = &mut self.ranks[at];
                let place = rank
                    .threads
                    .get(&name)
                    .map(|thread| thread.wait.place.clone());
                rank.fault = RankFault::Differs;
                rank.waits = format!(
                    "has a thread {name} that waits in {}",
                    place.unwrap_or_default()
                );
                rank.their_thread = Some(format!("that of the other {busy} uses CPU time"));
            }
        }
    }

    /// Finds ranks whose Python programs wait at another place than those of most, where all wait.
    fn compare_stacks(&mut self) {
        if self.has_moved() || !self.ranks.iter().all(Rank::takes_part) {
            return;
        }
        let Some(places) = self.stacks() else {
            return;
        };
        let Some((most, count)) = places
            .first()
            .filter(|(_, count)| count * 2 > self.ranks.len())
        else {
            return;
        };
        let others = match count {
            1 => format!("the other one in {most}"),
            many => format!("the other {many} in {most}"),
        };
        let most = most.clone();
        for rank in &mut self.ranks {
            if let Ok(Some(stack)) = &rank.stack
                && *stack != most
            {
                rank.waits = format!("waits in {stack}");
                rank.fault = RankFault::Differs;
                rank.their_thread = Some(others.clone());
            }
        }
    }

    /// Where the Python programs of all ranks stand, with how many ranks, the most common place first; `None` where that of a rank is not known.
    fn stacks(&self) -> Option<Vec<(Stack, usize)>> {
        let mut places: BTreeMap<&Stack, usize> = BTreeMap::new();
        for rank in &self.ranks {
            let stack = rank.stack.as_ref().ok()?.as_ref()?;
            *places.entry(stack).or_default() += 1;
        }
        let mut places: Vec<(Stack, usize)> = places
            .into_iter()
            .map(|(stack, count)| (stack.clone(), count))
            .collect();
        places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Some(places)
    }

    /// `3 in all_reduce, called by step (train.py:88), 1 in load (data.py:7)`
    pub(super) fn stacks_in_words(&self) -> Option<String> {
        let places = self.stacks()?;
        let said = places.iter().take(PLACES);
        let said: Vec<String> = said
            .map(|(stack, count)| format!("{count} in {stack}"))
            .collect();
        let more = places.len().saturating_sub(PLACES);
        let more = if more > 0 {
            format!(" and at {more} more places")
        } else {
            String::new()
        };
        Some(format!("{}{more}", said.join(", ")))
    }

    /// The ranks that differ from the others, by their places.
    fn find_outliers(&self) -> Vec<(usize, RankFault)> {
        let part = || {
            self.ranks
                .iter()
                .enumerate()
                .filter(|(_, rank)| rank.takes_part())
        };
        let busy: Vec<usize> = part()
            .filter(|(_, rank)| rank.pace == Pace::Busy)
            .map(place)
            .collect();
        let idle = || part().filter(|(_, rank)| rank.pace != Pace::Busy);
        let own: Vec<usize> = idle()
            .filter(|(_, rank)| rank.waits_for_own())
            .map(place)
            .collect();
        let waiting = || idle().filter(|(_, rank)| !rank.waits_for_own());
        let are_still = waiting().all(|(_, rank)| rank.is_still());
        if !busy.is_empty() {
            if !own.is_empty() && own.len() <= busy.len() {
                // Where others work now and then, one that does so too is late, and left nothing.
                let do_all_others_work = busy.len() + own.len() == part().count();
                let is_stuck = own.iter().all(|at| self.ranks[*at].is_still());
                return if is_stuck || do_all_others_work {
                    with(own, RankFault::Differs)
                } else {
                    self.late(own)
                };
            }
            let waiting = waiting().count();
            if own.is_empty() && busy.len() < waiting && (are_still || self.work_most(&busy)) {
                return with(busy, RankFault::BusyAlone);
            }
            return self.late(own);
        }
        if waiting().count() > 0 && !own.is_empty() {
            return if are_still {
                with(own, RankFault::Differs)
            } else {
                self.late(own)
            };
        }
        let running: Vec<usize> = part()
            .filter(|(_, rank)| !rank.is_still())
            .map(place)
            .collect();
        if !running.is_empty() {
            // All others wait for what these few do, and they do next to nothing.
            let few = running.len() * 2 < part().count();
            return if few {
                with(running, RankFault::Differs)
            } else {
                Vec::new()
            };
        }
        let mut classes: BTreeMap<(WaitKind, &str), Vec<usize>> = BTreeMap::new();
        for (at, rank) in part() {
            classes.entry(rank.class()).or_default().push(at);
        }
        let most = classes.values().map(Vec::len).max().unwrap_or(0);
        let all = part().count();
        let odd = classes
            .into_values()
            .filter(|ranks| ranks.len() < most && most * 2 > all);
        with(odd.flatten().collect(), RankFault::Differs)
    }

    /// Those of a job that goes on which waited in both looks for the same thing of their own, if these are few: the others wait for them each time.
    fn late(&self, own: Vec<usize>) -> Vec<(usize, RankFault)> {
        let are_few = own.len() * 2 < self.ranks.len();
        let alike = own
            .into_iter()
            .filter(|at| are_few && self.ranks[*at].waits_alike);
        with(alike.collect(), RankFault::Late)
    }

    /// Whether these ranks used many times as much of a CPU as each other one.
    fn work_most(&self, busy: &[usize]) -> bool {
        let share = |at: usize| self.ranks[at].cpu.map_or(0.0, |cpu| cpu.0);
        let least = busy
            .iter()
            .map(|at| share(*at))
            .fold(f64::INFINITY, f64::min);
        let others = (0..self.ranks.len()).filter(|at| !busy.contains(at));
        let most = others.map(share).fold(0.0, f64::max);
        least > most * self.alone_from as f64
    }

    /// Why it is not known whether the job moves.
    pub(super) fn gap(&self) -> Option<Gap> {
        if self.has_moved() {
            return None;
        }
        self.ranks.iter().find_map(|rank| rank.gap.clone())
    }

    fn has_moved(&self) -> bool {
        let taking_part = self.ranks.iter().filter(|rank| rank.gap.is_none());
        let mut moving = taking_part.filter(|rank| rank.pace != Pace::Still);
        let by_right = [
            RankFault::None,
            RankFault::BusyAlone,
            RankFault::ComputesAlone,
            RankFault::Late,
        ];
        moving.any(|rank| by_right.contains(&rank.fault))
    }

    /// Whether a rank works.
    pub(super) fn moves(&self) -> bool {
        self.has_moved()
    }

    /// Whether all stand still in the same way.
    pub(super) fn stands_still(&self) -> bool {
        let is_still = |rank: &Rank| rank.takes_part() && rank.is_still();
        !self.ranks.is_empty() && self.ranks.iter().all(is_still)
    }

    /// `4 ranks wait in recv`
    pub(super) fn waits(&self) -> String {
        let all: Vec<&Rank> = self.ranks.iter().collect();
        match all.as_slice() {
            [one] => format!("{} {}", one.name, one.waits),
            [first, ..] if first.wait.place == ON_GPU => {
                let load = first.gpu.as_ref().map_or("", |(_, load)| load);
                format!("the GPUs of its {} spin ({load})", ranks(all.len()))
            }
            all => in_classes(all),
        }
    }

    /// `the other 3 wait in recv and did not move`
    pub(super) fn describe_others(&self, rank: &Rank) -> Option<String> {
        if rank.their_thread.is_some() {
            return rank.their_thread.clone();
        }
        let is_other = |other: &&Rank| !other.is_same(rank) && other.takes_part();
        let others: Vec<&Rank> = self.ranks.iter().filter(is_other).collect();
        if others.is_empty() {
            return None;
        }
        let busy = others
            .iter()
            .filter(|other| other.pace == Pace::Busy)
            .count();
        let who = match others.as_slice() {
            [one] => one.name.clone(),
            many => format!("the other {}", many.len()),
        };
        let one = others.len() == 1;
        if busy == others.len() {
            let verb = if one { "uses" } else { "use" };
            return Some(format!("{who} {verb} CPU time"));
        }
        let how = match others.as_slice() {
            [one] => one.waits.clone(),
            many if busy == 0 => alike(many),
            many => format!("partly use CPU time ({busy} of {})", many.len()),
        };
        let are_still = others.iter().all(|other| other.is_still());
        let still = if are_still { " and did not move" } else { "" };
        Some(format!("{who} {how}{still}"))
    }

    /// What could not be looked at.
    pub(super) fn withheld(&self) -> Vec<String> {
        let mut said = Vec::new();
        for rank in &self.ranks {
            let connections = rank.connections.as_ref().err();
            let gaps = connections.into_iter().chain(&rank.open_below);
            said.extend(gaps.map(|gap| format!("{}: {}", rank.name, gap.why)));
            if let Err(gap) = &rank.stack {
                said.push(format!("{}: its Python program: {}", rank.name, gap.why));
            }
            if let Some(gap) = &rank.gap {
                said.push(format!("{}: {}", rank.name, gap.why));
            } else if rank.wait.kind == WaitKind::Unknown && !rank.withheld.is_empty() {
                let files = rank.withheld.join(", ");
                said.push(format!(
                    "{}: {files} may not be read (run as root)",
                    rank.name
                ));
            }
        }
        said
    }

    /// `10.0.0.2:29500 (rank 1 (pid 77))`
    pub(super) fn peer(&self, connection: &Connection) -> String {
        let has_end = |rank: &&Rank| {
            let mut sockets = rank.sockets.iter();
            sockets.any(|one| one.local == connection.peer && one.peer == connection.local)
        };
        match self.ranks.iter().find(has_end) {
            Some(rank) => format!("{} ({})", connection.peer, rank.name),
            None => connection.peer.to_string(),
        }
    }

    /// What was seen, in a sentence.
    pub(super) fn summary(&self) -> String {
        let count = ranks(self.ranks.len());
        if !self.moves() {
            return format!("{count} did not move in {}", self.looked);
        }
        let shares = self
            .ranks
            .iter()
            .filter_map(|rank| rank.cpu.map(|cpu| cpu.0));
        let least = shares.clone().fold(f64::INFINITY, f64::min);
        let most = shares.fold(0.0, f64::max);
        let shares = if self.ranks.len() == 1 {
            format!("it used {} of a CPU", Percent(most))
        } else {
            format!(
                "they used {} to {} of a CPU each",
                Percent(least),
                Percent(most)
            )
        };
        let looked = self.looked;
        let waited_for = [
            RankFault::BusyAlone,
            RankFault::ComputesAlone,
            RankFault::Late,
        ];
        let is_alone = |rank: &&Rank| waited_for.contains(&rank.fault);
        let alone = self.ranks.iter().find(is_alone);
        let waited_for = alone.map_or(String::new(), |rank| {
            format!("; the others wait for {}", rank.name)
        });
        format!("working: {count}; in {looked} {shares}{waited_for}")
    }
}

fn place((at, _): (usize, &Rank)) -> usize {
    at
}

fn with(places: Vec<usize>, fault: RankFault) -> Vec<(usize, RankFault)> {
    places.into_iter().map(|at| (at, fault)).collect()
}

/// `wait in recv`, or in each of several ways.
fn alike(ranks: &[&Rank]) -> String {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for rank in ranks {
        *places.entry(&rank.wait.place).or_default() += 1;
    }
    let mut said: Vec<(usize, &str)> = places
        .into_iter()
        .map(|(place, count)| (count, place))
        .collect();
    said.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let places: Vec<&str> = said.iter().map(|(_, place)| *place).take(3).collect();
    format!("wait in {}", places.join(", "))
}

/// `4 ranks wait in recv`, `3 ranks wait in recv, 1 in futex`
fn in_classes(all: &[&Rank]) -> String {
    format!("{} {}", ranks(all.len()), alike(all))
}

/// `1 rank`, `4 ranks`
fn ranks(count: usize) -> String {
    match count {
        1 => "1 rank".to_owned(),
        many => format!("{many} ranks"),
    }
}

/// `rank 2`, `rank 2 and rank 3`
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
