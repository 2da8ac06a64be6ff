//! Runs the ranks of a collective: one child process for each on this node, until each has ended or
//! is killed.
//!
//! The children report their steps, exchange addresses through this process, and write their log,
//! all of which is read continuously, so that no child blocks on a pipe. When a child fails, the
//! others get a moment to report what they saw; then their process groups are killed. A child that
//! makes no step for much longer than its steps before took is hung, and its last step is known;
//! one that has not ended at the deadline and still makes steps is slow. If this process ends, in
//! whatever way, the children see their stdin close and exit.

use crate::live::clock;
use crate::live::environment;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::nccl_logging::{LOG_LIMITS, NCCL_LOG_VARIABLES, micros_since};
use crate::live::trusted;
use crate::live::worker::child::{self, how_it_ended, kill_group, wait_a_moment, wait_until};
use crate::measure::plan::reply::{Carried, Ended, PointReply, RankReply};
use crate::measure::plan::run::{Arm, Backend, NAME, Plan, Point, Run};
use crate::measure::run::collective::backend::Identity;
use crate::measure::run::collective::cpu_wait::CpuTime;
use crate::measure::run::collective::rank::ARGUMENT;
use crate::measure::run::collective::rank_cleanup::{self, ProcessState};
use crate::measure::run::collective::rank_messages::{RankCommand, RankJob, RankMessage};
use crate::nccl_log::Reader;
use crate::source::Micros;
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// How the ranks of a run are started.
#[derive(Clone, Debug)]
pub struct RankProcess<'r> {
    /// When the recording began, in nanoseconds of `CLOCK_BOOTTIME`.
    pub started_ns: u64,
    /// How long a whole run may take.
    pub deadline: Duration,
    /// Changes to this process's environment for all ranks; `None` removes a variable. An arm's
    /// variables take precedence.
    pub base: &'r [(String, Option<String>)],
    /// The program to run as rank, if it is not this one.
    pub program: Option<PathBuf>,
}

impl RankProcess<'_> {
    /// Runs of this recording, by this program.
    pub fn of(recording: &Recording, deadline: Duration) -> Self {
        RankProcess {
            started_ns: recording.header.boottime_ns,
            deadline,
            base: &[],
            program: None,
        }
    }
}

/// The ranks on other nodes, as a node's ranks reach them.
pub trait RemoteRanks: Send + Sync {
    /// Contributes the values of this node's ranks to all-gather `number`; returns those of all
    /// ranks of all nodes, in rank order.
    ///
    /// # Errors
    ///
    /// Why the all-gather cannot complete.
    fn all_gather(&self, number: u64, own: Vec<Value>) -> Result<Vec<Value>, String>;

    /// Waits until the run fails on another node, and returns why; `None` if it ended well
    /// everywhere.
    fn wait_for_failure(&self) -> Option<String>;

    /// Reports to the other nodes that the run failed here.
    fn report_failure(&self, why: &str);
}

/// The ranks of a run on this node, and the connection to the others.
#[derive(Clone)]
pub struct LocalRanks {
    /// This node's rank numbers.
    pub numbers: Range<usize>,
    /// The ranks on other nodes.
    pub remote: Arc<dyn RemoteRanks>,
}

/// How many times as long as the longest operation before a rank may take over one, and how long at
/// least, until it is hung.
const STALL_TIMES: u32 = 10;
const STALL_LEAST: Duration = Duration::from_secs(20);
/// The same for a rank that got on until the deadline.
const GETS_ON_TIMES: u32 = 3;
const GETS_ON_LEAST: Duration = Duration::from_secs(1);
/// For how long ranks are watched to see whether one works: on a slow network TCP may wait for
/// seconds until it sends again what was lost.
const WORK_SAMPLE: Duration = Duration::from_secs(5);
/// How often they are looked at in that time.
const WORK_POLL: Duration = Duration::from_millis(50);
/// How long the other ranks may take to report after a rank failed.
const GRACE: Duration = Duration::from_secs(2);
/// How long killed processes may take to exit: the driver first frees a GPU's memory. One that
/// takes longer is abandoned.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long reading the rest of a log may take after its process has exited.
const LOG_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest message of a rank, in bytes.
const MAX_LINE: u64 = 16 << 20;
/// Would redirect NCCL's log from stdout to a file, so it is removed.
const NCCL_DEBUG_FILE: &str = "NCCL_DEBUG_FILE";

/// Starts the ranks of a run and waits for them. `progress` gets each step with its rank.
///
/// Returns one recorded line for each rank, whatever its outcome, and one for the log.
pub fn run(
    how: &RankProcess<'_>,
    plan: &Plan,
    run: Run,
    progress: impl FnMut(usize, &str),
) -> Vec<Line> {
    run_part(how, plan, run, None, progress)
}

/// The same for a run on several nodes: `part` names the ranks of this node, and only these get a
/// line.
pub fn run_part(
    how: &RankProcess<'_>,
    plan: &Plan,
    run: Run,
    part: Option<&LocalRanks>,
    mut progress: impl FnMut(usize, &str),
) -> Vec<Line> {
    let own = part.map_or(0..plan.ranks.len(), |part| part.numbers.clone());
    let ends = clock::now() + how.deadline;
    let before = rank_cleanup::shared_files();
    let (events, inbox) = mpsc::sync_channel(256);
    let mut away = part.map(|part| RemoteExchange::new(part, &events));
    let started = own.clone().map(|number| {
        start(how, plan, run, (number, number - own.start), &events)
            .unwrap_or_else(|error| Rank::not_started(&error, now(how)))
    });
    let mut ranks: Vec<Rank> = started.collect();
    drop(events);
    let mut log = Reader::new(LOG_LIMITS);
    // Until when the other ranks may report after one has failed.
    let mut grace: Option<Instant> = None;
    while ranks.iter().any(Rank::runs) {
        let mut bad = ranks.iter().any(Rank::ended_badly);
        if let (true, Some(away)) = (bad, &mut away) {
            away.report_failure(&ranks, own.start);
        }
        bad |= away.as_ref().is_some_and(|away| away.failure.is_some());
        let moment = clock::now();
        if bad && grace.is_none() {
            grace = Some((moment + GRACE).min(ends));
        }
        // A rank in an all-gather waits forever if another rank has failed.
        let waiting = bad && ranks.iter().filter(|r| r.runs()).all(|r| r.given.is_some());
        let stalls = stalls(&ranks).filter(|_| !bad);
        if stalls.is_some_and(|stalls| moment >= stalls && stalls < ends)
            && one_works(ranks.iter().filter(|rank| rank.waits_for_no_rank()))
        {
            // What still moves data is no stall.
            restart_stall_timers(&mut ranks);
            continue;
        }
        let limit = grace.unwrap_or_else(|| stalls.map_or(ends, |stalls| stalls.min(ends)));
        if waiting || moment >= limit {
            let why = away.as_ref().and_then(|away| away.failure.as_deref());
            let left = ends.saturating_duration_since(moment);
            let ran = how.deadline.saturating_sub(left);
            end_running(&mut ranks, own.start, (bad, why), (ran, now(how)));
            if let Some(away) = &mut away {
                away.report_failure(&ranks, own.start);
            }
            break;
        }
        match inbox.recv_timeout(limit - moment) {
            Ok(RankEvent::Message(number, said)) => {
                if let Some(rank) = ranks.get_mut(number) {
                    if let RankMessage::Step(step) = &said {
                        progress(number, step);
                    }
                    rank.handle_message(said, now(how));
                }
                match &mut away {
                    None => all_gather(&mut ranks, None),
                    Some(away) => away.send_gathered(&ranks),
                }
            }
            Ok(RankEvent::Remote(all)) => {
                if let Some(away) = &mut away {
                    away.gathering = false;
                }
                all_gather(&mut ranks, Some(all));
            }
            Ok(RankEvent::RemoteFailure(why)) => {
                if let Some(away) = &mut away {
                    away.failure.get_or_insert(why);
                }
            }
            Ok(RankEvent::Closed(number)) => {
                if let Some(rank) = ranks.get_mut(number) {
                    rank.handle_eof(now(how));
                }
            }
            Ok(RankEvent::Log(bytes)) => log.feed(&bytes),
            Err(RecvTimeoutError::Timeout) => {}
            // All pipes are closed, and each end was handled.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    reap(&mut ranks);
    drain_log(&inbox, &mut log);
    remove_leftovers(&mut ranks, &before);
    let log_line = Line::of(NAME, plan.log_of(run), &log.finish(None), now(how));
    let mut lines: Vec<Line> = Vec::with_capacity(ranks.len() + 1);
    for (number, rank) in own.zip(ranks) {
        let at = rank.at;
        let question = plan.question_of(run, number);
        lines.push(Line::of(NAME, question, &rank.reply(), at));
    }
    lines.push(log_line);
    lines
}

fn restart_stall_timers(ranks: &mut [Rank]) {
    for rank in ranks.iter_mut().filter(|rank| rank.waits_for_no_rank()) {
        rank.seen = Some(clock::now());
    }
}

/// Reads what is left of the log after its processes have exited.
fn drain_log(inbox: &mpsc::Receiver<RankEvent>, log: &mut Reader) {
    let until = clock::now() + LOG_DRAIN_TIMEOUT;
    while let Ok(event) = inbox.recv_timeout(until.saturating_duration_since(clock::now())) {
        if let RankEvent::Log(bytes) = event {
            log.feed(&bytes);
        }
    }
}

fn now(how: &RankProcess<'_>) -> Micros {
    micros_since(how.started_ns)
}

enum RankEvent {
    Message(usize, RankMessage),
    /// A rank closed its output.
    Closed(usize),
    /// Complete lines of a log.
    Log(Vec<u8>),
    /// The values of all ranks of all nodes.
    Remote(Vec<Value>),
    /// The run failed on another node.
    RemoteFailure(String),
}

/// Exchanges values and failures with the other nodes.
struct RemoteExchange {
    abroad: Arc<dyn RemoteRanks>,
    /// To the thread that contributes this node's values.
    outlet: Sender<Vec<Value>>,
    /// Whether an all-gather is in progress.
    gathering: bool,
    /// Why the run failed on another node.
    failure: Option<String>,
    reported: bool,
}

impl RemoteExchange {
    fn new(part: &LocalRanks, events: &SyncSender<RankEvent>) -> Self {
        let (outlet, given) = mpsc::channel::<Vec<Value>>();
        let (abroad, sender) = (Arc::clone(&part.remote), events.clone());
        std::thread::spawn(move || {
            for (number, own) in given.into_iter().enumerate() {
                let event = match abroad.all_gather(number as u64, own) {
                    Ok(all) => RankEvent::Remote(all),
                    Err(why) => RankEvent::RemoteFailure(why),
                };
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        let (abroad, sender) = (Arc::clone(&part.remote), events.clone());
        std::thread::spawn(move || {
            if let Some(why) = abroad.wait_for_failure() {
                let _ = sender.send(RankEvent::RemoteFailure(why));
            }
        });
        RemoteExchange {
            abroad: Arc::clone(&part.remote),
            outlet,
            gathering: false,
            failure: None,
            reported: false,
        }
    }

    /// Contributes this node's values once all of its ranks gave theirs.
    fn send_gathered(&mut self, ranks: &[Rank]) {
        if self.gathering || ranks.iter().any(|rank| rank.given.is_none()) {
            return;
        }
        self.gathering = true;
        let own = ranks.iter().filter_map(|rank| rank.given.clone());
        let _ = self.outlet.send(own.collect());
    }

    /// Reports the first failed rank of this node to the others, once.
    fn report_failure(&mut self, ranks: &[Rank], first: usize) {
        if !self.reported
            && self.failure.is_none()
            && let Some(why) = first_failure(ranks, first)
        {
            self.reported = true;
            self.abroad.report_failure(&why);
        }
    }
}

/// A rank's process as its parent sees it.
#[derive(Default)]
struct Rank {
    child: Option<Child>,
    /// Commands go through a writer thread: a stopped process does not read.
    commands: Option<Sender<Vec<u8>>>,
    given: Option<Value>,
    step: String,
    /// How many steps it began, of how many.
    steps: u64,
    of: u64,
    /// When it began its step, or was last seen to work.
    seen: Option<Instant>,
    /// The longest operation of this point: what the next one may take is learnt from it.
    longest: Option<Duration>,
    /// Whether it sleeps while data is under way, so that only work takes a CPU.
    sleeps: bool,
    points: Vec<PointReply>,
    identity: Identity,
    ended: Option<Ended>,
    at: Micros,
    killed: bool,
    /// NCCL's shared-memory files that it used when it was killed.
    files: BTreeSet<String>,
    removed: Vec<String>,
    carried: Option<Carried>,
}

impl Rank {
    fn runs(&self) -> bool {
        self.ended.is_none()
    }

    fn ended_badly(&self) -> bool {
        self.ended
            .as_ref()
            .is_some_and(|ended| *ended != Ended::Well)
    }

    fn not_started(error: &std::io::Error, at: Micros) -> Self {
        let why = format!("its process did not start: {error}");
        let mut rank = Self::default();
        rank.end(Ended::Stopped { why }, at);
        rank
    }

    fn end(&mut self, ended: Ended, at: Micros) {
        self.ended = Some(ended);
        self.at = at;
        self.given = None;
    }

    fn begin(&mut self, step: String) {
        let moment = clock::now();
        let took = self.seen.map(|seen| moment - seen);
        if is_local(&step) {
            // Another point, of another size.
            self.longest = None;
        } else if is_operation(&self.step) {
            self.longest = self.longest.max(took);
        }
        (self.step, self.seen) = (step, Some(moment));
        self.steps += 1;
    }

    fn waits_for_no_rank(&self) -> bool {
        self.runs() && self.given.is_none()
    }

    /// How long it may take over its step; `None` if nothing was learnt of that.
    fn patience(&self) -> Option<Duration> {
        let longest = self.longest.filter(|_| is_operation(&self.step))?;
        Some((STALL_TIMES * longest).max(STALL_LEAST))
    }

    /// How long it was on a CPU, where that means that it gets on: a backend that polls uses one
    /// while it hangs, too.
    fn worked(&self) -> Option<Duration> {
        let pid = self.child.as_ref().map(Child::id);
        let pid = pid.filter(|_| self.sleeps || is_local(&self.step))?;
        CpuTime::of_process(pid).map(|time| time.ran)
    }

    /// Whether its operation takes no longer than those before it took.
    fn is_in_time(&self) -> bool {
        let since = self.seen.map_or(Duration::MAX, |seen| seen.elapsed());
        let usual = self.longest.filter(|_| is_operation(&self.step));
        usual.is_some_and(|longest| since <= (GETS_ON_TIMES * longest).max(GETS_ON_LEAST))
    }

    fn handle_message(&mut self, said: RankMessage, at: Micros) {
        match said {
            RankMessage::Step(step) => self.begin(step),
            RankMessage::Give(value) => self.given = Some(value),
            RankMessage::Identity(identity) => self.identity = identity,
            RankMessage::Point(point) => self.points.push(*point),
            RankMessage::Carried(carried) => self.carried = Some(carried),
            RankMessage::Ended(ended) => self.end(ended, at),
        }
    }

    /// The rank closed its output. If it reported no end, its exit status tells.
    fn handle_eof(&mut self, at: Micros) {
        if !self.runs() {
            return;
        }
        let status = self.child.as_mut().and_then(|child| {
            let status = wait_a_moment(child);
            if status.is_none() {
                kill_group(child);
            }
            status
        });
        let how = match status {
            Some(status) => how_it_ended(status),
            None => "it closed its output without reporting an end, and was killed".into(),
        };
        self.end(Ended::Died { how }, at);
    }

    fn send(&self, told: &RankCommand) {
        if let (Some(sender), Ok(mut line)) = (&self.commands, serde_json::to_vec(told)) {
            line.push(b'\n');
            // A rank that is gone is noticed when its output closes.
            let _ = sender.send(line);
        }
    }

    fn reply(self) -> RankReply {
        RankReply {
            ended: self.ended.unwrap_or_default(),
            step: self.step,
            points: self.points,
            library: self.identity.library,
            version: self.identity.version,
            device: self.identity.device,
            host: Some(environment::node_name()),
            removed: self.removed,
            carried: self.carried,
            gpu_memory: self.identity.gpu_memory,
        }
    }
}

/// Whether a step is an operation of all ranks, of which the next one should take as long.
fn is_operation(step: &str) -> bool {
    step.contains(": warm-up ") || step.contains(": trial ")
}

/// Whether a rank does a step by itself: what it takes depends on its memory and its processor.
fn is_local(step: &str) -> bool {
    step.ends_with(": preparing")
}

/// Whether one of the ranks gets on by its work: they are watched until one does, for
/// [`WORK_SAMPLE`] at most.
fn one_works<'r>(ranks: impl Iterator<Item = &'r Rank>) -> bool {
    let before: Vec<(&Rank, Duration)> = ranks
        .filter_map(|rank| Some((rank, rank.worked()?)))
        .collect();
    let until = clock::now() + WORK_SAMPLE;
    while !before.is_empty() && clock::now() < until {
        std::thread::sleep(WORK_POLL);
        let mut all = before.iter();
        if all.any(|(rank, before)| rank.worked().is_some_and(|now| now > *before)) {
            return true;
        }
    }
    false
}

/// When ranks that wait for no other one of this node have made no step for too long; `None` if
/// nothing was learnt of one of them.
fn stalls(ranks: &[Rank]) -> Option<Instant> {
    let open = ranks.iter().filter(|rank| rank.waits_for_no_rank());
    let ends: Option<Vec<Instant>> = open
        .map(|rank| Some(rank.seen? + rank.patience()?))
        .collect();
    ends?.into_iter().max()
}

/// Once all ranks contributed, sends each the values of all, including those of other nodes.
fn all_gather(ranks: &mut [Rank], all: Option<Vec<Value>>) {
    if !ranks.iter().all(|rank| rank.given.is_some()) {
        return;
    }
    let own: Vec<Value> = ranks
        .iter_mut()
        .filter_map(|rank| rank.given.take())
        .collect();
    let told = RankCommand::All(all.unwrap_or(own));
    for rank in ranks {
        rank.send(&told);
    }
}

/// The first rank that failed, and how.
fn first_failure(ranks: &[Rank], first: usize) -> Option<String> {
    ranks.iter().zip(first..).find_map(|(rank, number)| {
        let ended = rank.ended.as_ref()?;
        let how = match ended {
            Ended::Well => return None,
            Ended::Died { how } => how.clone(),
            Ended::Failed {
                function, error, ..
            } => format!("{function}: {error}"),
            Ended::Hung => "hung".into(),
            Ended::Slow { .. } => format!("slow: {}", ended.progress().unwrap_or_default()),
            Ended::Stopped { why } => why.clone(),
        };
        Some(format!("rank {number}: {how}"))
    })
}

/// Records an end for the ranks that still run: they hang, or wait for one that failed, maybe on
/// another node.
fn end_running(
    ranks: &mut [Rank],
    first: usize,
    (bad, away): (bool, Option<&str>),
    (ran, at): (Duration, Micros),
) {
    let why = first_failure(ranks, first).or_else(|| away.map(str::to_owned));
    // One that gets on keeps all others waiting, and nothing hangs.
    let open = || ranks.iter().filter(|rank| rank.waits_for_no_rank());
    let is_slow = !bad && (open().any(Rank::is_in_time) || one_works(open()));
    // Ranks in an all-gather hang because of those that are not in it.
    let missing: Vec<String> = ranks
        .iter()
        .zip(first..)
        .filter(|(rank, _)| rank.runs() && rank.given.is_none())
        .map(|(_, number)| number.to_string())
        .collect();
    let did = if is_slow { "is slow" } else { "hung" };
    let missing = match missing.as_slice() {
        [] => None,
        [one] => Some(format!("waited for rank {one}, which {did}")),
        several => Some(format!(
            "waited for ranks {}, which {}",
            several.join(", "),
            if is_slow { "are slow" } else { "hung" }
        )),
    };
    for rank in ranks.iter_mut().filter(|rank| rank.runs()) {
        let pid = rank.child.as_ref().map(Child::id);
        match pid.and_then(rank_cleanup::process_state) {
            Some(ProcessState::Stopped) => rank.step.push_str(" (its process is stopped)"),
            Some(ProcessState::Uninterruptible) => rank
                .step
                .push_str(" (its process is in uninterruptible sleep)"),
            Some(ProcessState::Gone) | None => {}
        }
        let ended = match (&why, bad, &missing) {
            (Some(why), true, _) => Ended::Stopped { why: why.clone() },
            (_, false, Some(why)) if rank.given.is_some() => Ended::Stopped { why: why.clone() },
            _ if is_slow => Ended::Slow {
                done: rank.steps.saturating_sub(1),
                of: rank.of.max(rank.steps),
                seconds: ran.as_secs(),
            },
            _ => Ended::Hung,
        };
        rank.end(ended, at);
        rank.killed = true;
        rank.files = pid.map(rank_cleanup::files_used_by).unwrap_or_default();
    }
}

/// Kills all processes that remain, with their process groups, and reaps them. One in
/// uninterruptible sleep is abandoned.
fn reap(ranks: &mut [Rank]) {
    // Ranks that reported their end exit by themselves.
    let closed = clock::now() + GRACE;
    for rank in ranks.iter_mut() {
        let Some(child) = &mut rank.child else {
            continue;
        };
        if rank.killed || wait_until(child, closed).is_none() {
            rank.killed = true;
            rank.files.extend(rank_cleanup::files_used_by(child.id()));
            kill_group(child);
        }
    }
    let until = clock::now() + KILL_TIMEOUT;
    for rank in ranks.iter_mut() {
        rank.commands = None;
        let Some(child) = &mut rank.child else {
            continue;
        };
        if wait_until(child, until).is_none() {
            let pid = child.id();
            rank.step
                .push_str(&format!(" (process {pid} did not exit after SIGKILL)"));
        }
        // Kills anything that it forked.
        kill_group(child);
    }
}

/// Removes what killed ranks left in shared memory: the files that they used, and new files of
/// ranks that died before they could be examined. Files in use stay.
fn remove_leftovers(ranks: &mut [Rank], before: &BTreeSet<String>) {
    if !ranks.iter().any(|rank| rank.killed || rank.ended_badly()) {
        return;
    }
    let mut files: BTreeSet<String> = rank_cleanup::shared_files()
        .difference(before)
        .cloned()
        .collect();
    files.extend(ranks.iter().flat_map(|rank| rank.files.iter().cloned()));
    let mut removed = rank_cleanup::remove_unused(files);
    for rank in ranks.iter_mut() {
        let own = |file: &mut String| rank.files.contains(file);
        rank.removed = removed.extract_if(.., own).collect();
    }
    // The new files are attributed to the rank that died.
    if let Some(rank) = ranks.iter_mut().find(|rank| rank.ended_badly()) {
        rank.removed.extend(removed);
    }
}

fn start(
    how: &RankProcess<'_>,
    plan: &Plan,
    run: Run,
    (number, local): (usize, usize),
    events: &SyncSender<RankEvent>,
) -> std::io::Result<Rank> {
    let nothing = Arm::baseline();
    let arm = plan.arms.get(run.arm).unwrap_or(&nothing);
    let (backend, place) = plan.placed(run, number);
    let environment = environment(backend, how.base, &arm.set);
    let with = |command: &mut Command| {
        trusted::keep_plugins(command);
        for (name, value) in &environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    };
    let mut child = child::start(how.program.as_ref(), ARGUMENT, Stdio::piped, with)?;
    if let Some(pipe) = child.stdout.take() {
        let events = events.clone();
        std::thread::Builder::new().spawn(move || read_messages(local, pipe, &events))?;
    }
    if let Some(pipe) = child.stderr.take() {
        let events = events.clone();
        std::thread::Builder::new().spawn(move || read_log(pipe, &events))?;
    }
    let job = RankJob {
        rank: number,
        ranks: plan.ranks.len(),
        place,
        backend,
        library: plan.library.clone(),
        points: plan.points_of(run.arm),
        seconds: how.deadline.as_secs_f64(),
        seed: plan.seed,
    };
    let mut rank = Rank {
        step: "starting".into(),
        // Connecting, waiting for the others, closing.
        of: 3 + job.points.iter().map(Point::steps).sum::<u64>(),
        sleeps: backend == Backend::Tcp,
        ..Rank::default()
    };
    if let Some(pipe) = child.stdin.take() {
        let (sender, lines) = mpsc::channel();
        std::thread::Builder::new().spawn(move || write_commands(pipe, &lines))?;
        rank.commands = Some(sender);
    }
    rank.child = Some(child);
    rank.send(&RankCommand::Job(Box::new(job)));
    Ok(rank)
}

/// The variables to set or remove; an arm's take precedence.
fn environment<'e>(
    backend: Backend,
    base: &'e [(String, Option<String>)],
    arm: &'e BTreeMap<String, String>,
) -> BTreeMap<&'e str, Option<&'e str>> {
    let mut all: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    all.extend(base.iter().map(|(n, v)| (n.as_str(), v.as_deref())));
    if backend == Backend::Nccl {
        all.extend(NCCL_LOG_VARIABLES.map(|(name, value)| (name, Some(value))));
        all.insert(NCCL_DEBUG_FILE, None);
    }
    all.extend(arm.iter().map(|(n, v)| (n.as_str(), Some(v.as_str()))));
    all
}

/// Writes a rank's commands. The pipe closes when all senders are dropped.
fn write_commands(mut pipe: ChildStdin, lines: &mpsc::Receiver<Vec<u8>>) {
    for line in lines {
        if pipe.write_all(&line).is_err() {
            return;
        }
    }
}

/// Reads a rank's messages.
fn read_messages(number: usize, pipe: impl Read, events: &SyncSender<RankEvent>) {
    let mut reader = BufReader::with_capacity(1 << 16, pipe);
    let mut text = String::new();
    while matches!((&mut reader).take(MAX_LINE).read_line(&mut text), Ok(n) if n > 0) {
        // After an invalid message nothing more is read.
        let Ok(said) = serde_json::from_str(&text) else {
            break;
        };
        if events.send(RankEvent::Message(number, said)).is_err() {
            return;
        }
        text.clear();
    }
    let _ = events.send(RankEvent::Closed(number));
}

/// Reads a rank's log and forwards complete lines, because the lines of several ranks are merged.
fn read_log(mut pipe: impl Read, events: &SyncSender<RankEvent>) {
    const ROOM: usize = 64 << 10;
    let mut buffer = vec![0; ROOM];
    let mut open: Vec<u8> = Vec::new();
    loop {
        let bytes = match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => buffer.get(..bytes).unwrap_or_default(),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        open.extend_from_slice(bytes);
        let end = match memchr::memrchr(b'\n', &open) {
            Some(end) => end + 1,
            // A longer line is split.
            None if open.len() >= 4 * ROOM => open.len(),
            None => continue,
        };
        let rest = open.split_off(end);
        let lines = std::mem::replace(&mut open, rest);
        if events.send(RankEvent::Log(lines)).is_err() {
            return;
        }
    }
    if !open.is_empty() {
        open.push(b'\n');
        let _ = events.send(RankEvent::Log(open));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arms_variables_go_before_all_others() {
        let base = [
            ("NCCL_DEBUG".to_owned(), Some("WARN".to_owned())),
            ("NCCL_IB_DISABLE".to_owned(), None),
            ("LD_LIBRARY_PATH".to_owned(), Some("/x".to_owned())),
        ];
        let arm: BTreeMap<_, _> = [("NCCL_IB_DISABLE".to_owned(), "1".to_owned())].into();
        let of = |backend, arm| -> Vec<(&str, Option<&str>)> {
            environment(backend, &base, arm).into_iter().collect()
        };
        assert_eq!(
            of(Backend::Nccl, &arm),
            [
                ("LD_LIBRARY_PATH", Some("/x")),
                ("NCCL_DEBUG", Some("INFO")),
                ("NCCL_DEBUG_FILE", None),
                ("NCCL_DEBUG_SUBSYS", Some("INIT,ENV,NET,GRAPH,TUNING")),
                ("NCCL_IB_DISABLE", Some("1")),
            ]
        );
        let none = BTreeMap::new();
        assert_eq!(
            of(Backend::Tcp, &none),
            [
                ("LD_LIBRARY_PATH", Some("/x")),
                ("NCCL_DEBUG", Some("WARN")),
                ("NCCL_IB_DISABLE", None),
            ]
        );
        let quiet: BTreeMap<_, _> = [("NCCL_DEBUG".to_owned(), "VERSION".to_owned())].into();
        let list = of(Backend::Nccl, &quiet);
        assert!(list.contains(&("NCCL_DEBUG", Some("VERSION"))), "{list:?}");
    }

    #[test]
    fn patience_is_learnt_from_the_operations_of_a_point() {
        let mut rank = Rank::default();
        rank.begin("connecting".into());
        assert!(rank.patience().is_none() && !rank.is_in_time());
        rank.begin("all-reduce of 4 MiB: preparing".into());
        rank.begin("all-reduce of 4 MiB: warm-up 1 of 2".into());
        assert_eq!(stalls(std::slice::from_ref(&rank)), None);
        rank.begin("all-reduce of 4 MiB: warm-up 2 of 2".into());
        assert_eq!(rank.patience(), Some(STALL_LEAST));
        rank.longest = Some(Duration::from_secs(7));
        assert_eq!(rank.patience(), Some(Duration::from_secs(70)));
        assert!(rank.is_in_time());
        // Its operations took 7 s, and this one 22 s.
        rank.seen = clock::now().checked_sub(Duration::from_secs(22));
        assert!(!rank.is_in_time());
        // The next point is of another size.
        rank.begin("all-reduce of 8 MiB: preparing".into());
        assert_eq!((rank.patience(), rank.steps), (None, 5));
    }

    #[test]
    fn a_log_is_passed_on_in_whole_lines() {
        let (events, inbox) = mpsc::sync_channel(8);
        let text = b"one\ntwo\nthr".to_vec();
        read_log(&*text, &events);
        drop(events);
        let pieces: Vec<Vec<u8>> = inbox
            .iter()
            .map(|event| match event {
                RankEvent::Log(bytes) => bytes,
                _ => panic!(),
            })
            .collect();
        assert_eq!(pieces, [b"one\ntwo\n".to_vec(), b"thr\n".to_vec()]);
    }
}
