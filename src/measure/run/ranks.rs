//! The ranks of a collective: one child for each, all at once, until each has ended or is ended.
//!
//! The children say what they do, exchange what they must know of each other through this process, and write their log; all of it is read all the time, so
//! that none of them waits for a reader. A child that ends badly leaves the others a moment to say what they saw of it; then they are killed, with their
//! process groups. One that does not end by the deadline is hung, and the last step that it reached is known. Where this process goes, however it does,
//! the children read the end of their standard input and end too.

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
use crate::live::worker::child::{self, how_it_ended, kill_group, wait_a_moment, wait_until};
use crate::measure::plan::reply::{Carried, Ended, PointReply, RankReply};
use crate::measure::plan::run::{Arm, Backend, NAME, Plan, Run};
use crate::measure::run::collective::backend::Identity;
use crate::measure::run::collective::rank::ARGUMENT;
use crate::measure::run::collective::rank_cleanup::{self, ProcessState};
use crate::measure::run::collective::rank_messages::{RankCommand, RankJob, RankMessage};
use crate::nccl_log::Reader;
use crate::source::Micros;
use crate::source::wire::Line;

/// How the ranks of a run are started.
#[derive(Clone, Debug)]
pub struct RankProcess<'r> {
    /// When the recording began, in nanoseconds of `CLOCK_BOOTTIME`.
    pub started_ns: u64,
    /// How long a whole run may take.
    pub deadline: Duration,
    /// What the environment of all ranks has besides this process's own; what is `None` is taken out. An arm's variables go before.
    pub base: &'r [(String, Option<String>)],
    /// The program that the ranks are, where it is not this one.
    pub program: Option<PathBuf>,
}

/// The ranks of other nodes: how they are reached.
pub trait RemoteRanks: Send + Sync {
    /// Gives what all ranks of this node give, for the time of this number, and returns what all ranks of all nodes gave, in their order.
    ///
    /// # Errors
    ///
    /// Why they do not come together any more.
    fn all_gather(&self, number: u64, own: Vec<Value>) -> Result<Vec<Value>, String>;

    /// Waits until the run is over on another node that did not end well; why it did not. `None` where it ended well everywhere.
    fn wait_for_failure(&self) -> Option<String>;

    /// Tells the other nodes that the run is over here, which did not end well.
    fn report_failure(&self, why: &str);
}

/// Which ranks of a run are on this node, and the way to the others.
#[derive(Clone)]
pub struct LocalRanks {
    /// The numbers of this node's ranks.
    pub numbers: Range<usize>,
    /// The way to the others.
    pub remote: Arc<dyn RemoteRanks>,
}

/// How long the others may take to say what they saw of a rank that ended badly.
const GRACE: Duration = Duration::from_secs(2);
/// How long killed processes may take to go: the driver gives the memory of a GPU back first. One that takes longer is left.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the last words of a log may take, once its process has ended.
const LOG_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest line that a rank may say.
const MAX_LINE: u64 = 16 << 20;
/// Where NCCL would write it, in place of standard output.
const NCCL_DEBUG_FILE: &str = "NCCL_DEBUG_FILE";

/// Starts the ranks of a run, and waits for them. `progress` is told each step: of which rank, and what.
///
/// One line for each rank, whatever became of it, and one for the log.
pub fn run(
    how: &RankProcess<'_>,
    plan: &Plan,
    run: Run,
    progress: impl FnMut(usize, &str),
) -> Vec<Line> {
    run_part(how, plan, run, None, progress)
}

/// The same where the ranks are on several nodes: `part` says which are here, and there is a line for each of these.
#[expect(
    clippy::disallowed_methods,
    reason = "the parent keeps the children's time"
)]
pub fn run_part(
    how: &RankProcess<'_>,
    plan: &Plan,
    run: Run,
    part: Option<&LocalRanks>,
    mut progress: impl FnMut(usize, &str),
) -> Vec<Line> {
    let own = part.map_or(0..plan.ranks.len(), |part| part.numbers.clone());
    let ends = Instant::now() + how.deadline;
    let before = rank_cleanup::shared_files();
    let (events, inbox) = mpsc::sync_channel(256);
    let mut ranks: Vec<Rank> = Vec::with_capacity(own.len());
    let mut away = part.map(|part| RemoteExchange::new(part, &events));
    for number in own.clone() {
        ranks.push(
            match start(how, plan, run, (number, number - own.start), &events) {
                Ok(rank) => rank,
                Err(error) => {
                    let why = format!("its process did not start: {error}");
                    let mut rank = Rank::default();
                    rank.end(Ended::Stopped { why }, now(how));
                    rank
                }
            },
        );
    }
    drop(events);
    let mut log = Reader::new(LOG_LIMITS);
    // Until when the others may speak, once one has ended badly.
    let mut grace: Option<Instant> = None;
    while ranks.iter().any(Rank::runs) {
        let mut bad = ranks.iter().any(Rank::ended_badly);
        if let (true, Some(away)) = (bad, &mut away) {
            away.report_failure(&ranks, own.start);
        }
        bad |= away.as_ref().is_some_and(|away| away.failure.is_some());
        let moment = Instant::now();
        if bad && grace.is_none() {
            grace = Some((moment + GRACE).min(ends));
        }
        // Who waits for others waits for ever, where one of them is gone.
        let waiting = bad && ranks.iter().filter(|r| r.runs()).all(|r| r.given.is_some());
        let limit = grace.unwrap_or(ends);
        if waiting || moment >= limit {
            let why = away.as_ref().and_then(|away| away.failure.as_deref());
            end_running(&mut ranks, own.start, bad, why, now(how));
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
            // All pipes are closed; each was told before.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    reap(&mut ranks);
    let until = Instant::now() + LOG_DRAIN_TIMEOUT;
    while let Ok(event) = inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if let RankEvent::Log(bytes) = event {
            log.feed(&bytes);
        }
    }
    remove_leftovers(&mut ranks, &before);
    let log = log.finish(None);
    let last = now(how);
    let mut lines: Vec<Line> = Vec::with_capacity(ranks.len() + 1);
    for (number, rank) in own.zip(ranks) {
        let at = rank.at;
        lines.push(Line::of(
            NAME,
            plan.question_of(run, number),
            &rank.reply(),
            at,
        ));
    }
    lines.push(Line::of(NAME, plan.log_of(run), &log, last));
    lines
}

fn now(how: &RankProcess<'_>) -> Micros {
    micros_since(how.started_ns)
}

enum RankEvent {
    Message(usize, RankMessage),
    /// A rank's protocol came to its end.
    Closed(usize),
    /// Whole lines of a log.
    Log(Vec<u8>),
    /// What all ranks of all nodes gave.
    Remote(Vec<Value>),
    /// The run did not end well on another node.
    RemoteFailure(String),
}

/// What passes between this node and the others.
struct RemoteExchange {
    abroad: Arc<dyn RemoteRanks>,
    /// What this node's ranks give, for the one who passes it on.
    outlet: Sender<Vec<Value>>,
    /// Whether what they gave is under way.
    gathering: bool,
    /// Why the run is over elsewhere.
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

    /// Gives what this node's ranks gave, once all of them did.
    fn send_gathered(&mut self, ranks: &[Rank]) {
        if self.gathering || ranks.iter().any(|rank| rank.given.is_none()) {
            return;
        }
        self.gathering = true;
        let own = ranks.iter().filter_map(|rank| rank.given.clone());
        let _ = self.outlet.send(own.collect());
    }

    /// Tells the other nodes, once, that a rank of this one did not end well.
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

/// A rank as its parent sees it.
#[derive(Default)]
struct Rank {
    child: Option<Child>,
    /// What is written to it, by a thread of its own: a process that is stopped reads nothing.
    commands: Option<Sender<Vec<u8>>>,
    given: Option<Value>,
    step: String,
    points: Vec<PointReply>,
    identity: Identity,
    ended: Option<Ended>,
    at: Micros,
    killed: bool,
    /// NCCL's files that it used when it was killed.
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

    fn end(&mut self, ended: Ended, at: Micros) {
        self.ended = Some(ended);
        self.at = at;
        self.given = None;
    }

    fn handle_message(&mut self, said: RankMessage, at: Micros) {
        match said {
            RankMessage::Step(step) => self.step = step,
            RankMessage::Give(value) => self.given = Some(value),
            RankMessage::Identity(identity) => self.identity = identity,
            RankMessage::Point(point) => self.points.push(*point),
            RankMessage::Carried(carried) => self.carried = Some(carried),
            RankMessage::Ended(ended) => self.end(ended, at),
        }
    }

    /// The rank says no more. Where it did not say how it ended, its process does.
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
            None => "it said no more, and was killed".into(),
        };
        self.end(Ended::Died { how }, at);
    }

    fn send(&self, told: &RankCommand) {
        if let (Some(sender), Ok(mut line)) = (&self.commands, serde_json::to_vec(told)) {
            line.push(b'\n');
            // One who is gone is noticed by the end of what he says.
            let _ = sender.send(line);
        }
    }

    fn reply(self) -> RankReply {
        RankReply {
            ended: self.ended.unwrap_or(Ended::Hung),
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

/// Where all ranks have given, each is told what all gave, those of other nodes too where there are some.
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

/// The first rank that did not end well, and how it ended.
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
            Ended::Stopped { why } => why.clone(),
        };
        Some(format!("rank {number}: {how}"))
    })
}

/// Ends the ranks that run: they hang, or wait for one that ended badly, which may be on another node.
fn end_running(ranks: &mut [Rank], first: usize, bad: bool, away: Option<&str>, at: Micros) {
    let why = first_failure(ranks, first).or_else(|| away.map(str::to_owned));
    // Who waits for all to come hangs because of those that do not.
    let missing: Vec<String> = ranks
        .iter()
        .zip(first..)
        .filter(|(rank, _)| rank.runs() && rank.given.is_none())
        .map(|(_, number)| number.to_string())
        .collect();
    let missing = match missing.as_slice() {
        [] => None,
        [one] => Some(format!("waited for rank {one}, which hung")),
        several => Some(format!(
            "waited for ranks {}, which hung",
            several.join(", ")
        )),
    };
    for rank in ranks.iter_mut().filter(|rank| rank.runs()) {
        let pid = rank.child.as_ref().map(Child::id);
        match pid.and_then(rank_cleanup::process_state) {
            Some(ProcessState::Stopped) => rank.step.push_str(" (its process is stopped)"),
            Some(ProcessState::Uninterruptible) => {
                rank.step.push_str(" (its process waits in the kernel)")
            }
            Some(ProcessState::Gone) | None => {}
        }
        let ended = match (&why, bad, &missing) {
            (Some(why), true, _) => Ended::Stopped { why: why.clone() },
            (_, false, Some(why)) if rank.given.is_some() => Ended::Stopped { why: why.clone() },
            _ => Ended::Hung,
        };
        rank.end(ended, at);
        rank.killed = true;
        rank.files = pid.map(rank_cleanup::files_used_by).unwrap_or_default();
    }
}

/// Sees that all processes are gone, and what they left behind in their groups. One in uninterruptible sleep is left, never waited for.
#[expect(
    clippy::disallowed_methods,
    reason = "the parent keeps the children's time"
)]
fn reap(ranks: &mut [Rank]) {
    // Those that said how they ended close by themselves.
    let closed = Instant::now() + GRACE;
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
    let until = Instant::now() + KILL_TIMEOUT;
    for rank in ranks.iter_mut() {
        rank.commands = None;
        let Some(child) = &mut rank.child else {
            continue;
        };
        if wait_until(child, until).is_none() {
            let pid = child.id();
            rank.step
                .push_str(&format!(" (process {pid} does not go, and was left)"));
        }
        // What it forked ends with its group.
        kill_group(child);
    }
}

/// Removes what killed ranks left in shared memory: the files that they used, and those that are new, of ranks that died before they could be looked at.
/// What any process uses stays.
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
    // Those of a rank that died.
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
    let environment = environment(plan.backend, how.base, &arm.set);
    let with = |command: &mut Command| {
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
        std::thread::spawn(move || read_messages(local, pipe, &events));
    }
    if let Some(pipe) = child.stderr.take() {
        let events = events.clone();
        std::thread::spawn(move || read_log(pipe, &events));
    }
    let mut points = plan.points.clone();
    if arm.name == Arm::BASELINE {
        points.extend_from_slice(&plan.baseline_points);
    }
    let job = RankJob {
        rank: number,
        ranks: plan.ranks.len(),
        place: plan.ranks.get(number).cloned().unwrap_or_default(),
        backend: plan.backend,
        library: plan.library.clone(),
        points,
        seed: plan.seed,
    };
    let mut rank = Rank {
        step: "starting".into(),
        ..Rank::default()
    };
    if let Some(pipe) = child.stdin.take() {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || write_commands(pipe, &lines));
        rank.commands = Some(sender);
    }
    rank.child = Some(child);
    rank.send(&RankCommand::Job(Box::new(job)));
    Ok(rank)
}

/// The variables that are set, or taken out: an arm's before all others.
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

/// Writes what a rank is told. The pipe closes when no more can come.
fn write_commands(mut pipe: ChildStdin, lines: &mpsc::Receiver<Vec<u8>>) {
    for line in lines {
        if pipe.write_all(&line).is_err() {
            return;
        }
    }
}

/// Reads what a rank says.
fn read_messages(number: usize, pipe: impl Read, events: &SyncSender<RankEvent>) {
    let mut reader = BufReader::with_capacity(1 << 16, pipe);
    let mut text = String::new();
    while matches!((&mut reader).take(MAX_LINE).read_line(&mut text), Ok(n) if n > 0) {
        // One that says what is no word of the protocol is not heard further.
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

/// Reads a rank's log, and passes on whole lines: those of several ranks are put together.
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
            // No line is that long.
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
