//! The outcome of failures: whether the process or the run went on after one, or had ended before it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::RunView;
use super::communicator::{CommunicatorStep, Mention, ProcessKey};
use super::line::Line;
use crate::fact::Origin;
use crate::fact::event::{EventOutcome, LogClass};
use crate::fact::run::RunOutcome;
use crate::nccl_log::prefix::LogLevel;
use crate::nccl_log::sign::{Sign, SignKind};

/// A GPU's thread of a process: what NCCL does for one rank.
type Thread<'d> = (&'d str, u64, Option<u64>);

/// A line by its file and its first and last number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinePosition {
    pub(super) file: usize,
    pub(super) first: u64,
    pub(super) last: u64,
}

impl LinePosition {
    pub(super) fn new(file: usize, first: u64, last: u64) -> Self {
        LinePosition { file, first, last }
    }

    pub(super) fn of(line: &Line<'_>) -> Self {
        LinePosition::new(line.file, line.kept.line, line.kept.last)
    }

    /// Whether all of it comes after all of the other.
    fn follows(self, other: LinePosition) -> bool {
        self.file == other.file && self.first > other.last
    }
}

/// An event, as far as its outcome depends on it.
pub(super) struct Failure<'d> {
    pub(super) at: LinePosition,
    pub(super) class: LogClass,
    pub(super) thread: Option<Thread<'d>>,
    pub(super) processes: u64,
}

/// Events of a run that decide the outcome of others.
pub(super) struct RunEndings<'d> {
    /// For each file the lines by which a process ends, in their order.
    ends: HashMap<usize, Vec<u64>>,
    /// For each process the lines that say that a failure passed.
    passed: HashMap<(&'d str, u64), Vec<LinePosition>>,
    /// Whether a process was killed, or ended with a failure.
    killed: bool,
    /// For each file the line by which the scheduler ended the job.
    cancelled: HashMap<usize, u64>,
}

impl<'d> RunEndings<'d> {
    pub(super) fn of(all: &[Failure<'d>]) -> Self {
        use LogClass as C;
        let mut ends: HashMap<usize, Vec<u64>> = HashMap::new();
        let mut passed: HashMap<(&str, u64), Vec<LinePosition>> = HashMap::new();
        let mut killed = false;
        let mut cancelled: HashMap<usize, u64> = HashMap::new();
        for Failure {
            at, class, thread, ..
        } in all
        {
            if ends_process(*class) {
                ends.entry(at.file).or_default().push(at.first);
            }
            if let (C::Unwinding | C::Abort, Some((host, pid, _))) = (class, thread) {
                passed.entry((host, *pid)).or_default().push(*at);
            }
            killed |= matches!(
                class,
                C::ProcessEnded | C::NodeFailed | C::BusError | C::OutOfMemory
            );
            if matches!(class, C::JobCancelled | C::NodeFailed) {
                let line = cancelled.entry(at.file).or_insert(at.first);
                *line = at.first.min(*line);
            }
        }
        ends.values_mut().for_each(|lines| lines.sort_unstable());
        RunEndings {
            ends,
            passed,
            killed,
            cancelled,
        }
    }

    /// The line by which the scheduler had ended the job, where the event is what that causes.
    fn cancelled_before(&self, event: &Failure<'d>) -> Option<u64> {
        use LogClass as C;
        let is_effect = matches!(
            event.class,
            C::PeerClosed
                | C::SocketFailed
                | C::ProxyFailed
                | C::Completion
                | C::ProcessEnded
                | C::TorchTeardown
                | C::TorchHeartbeat
                | C::TorchNccl
                | C::TorchStore
                | C::Unwinding
                | C::Abort
        );
        let line = *self.cancelled.get(&event.at.file)?;
        (is_effect && event.at.first > line).then_some(line)
    }

    /// The first line after the event by which a process ends.
    fn end_after(&self, event: LinePosition) -> Option<u64> {
        let lines = self.ends.get(&event.file)?;
        let after = lines.partition_point(|line| *line <= event.last);
        lines.get(after).copied()
    }
}

/// The outcome of an event, and the line that shows it.
pub(super) type OutcomeWithProof = Option<(EventOutcome, String)>;

/// The progress of a run, as its lines show it.
pub(super) struct RunCourse<'l, 'd> {
    view: &'l RunView<'l, 'd>,
    signs: Vec<(LinePosition, &'l Sign)>,
    /// For each file its signs.
    of_file: HashMap<usize, Range<usize>>,
    /// Signs of the end of the work, after which none begins.
    ends: Vec<(LinePosition, &'l Sign)>,
    /// Rows of benchmarks, in their order: each the work of all ranks.
    rows: Vec<LinePosition>,
    /// The first line of a benchmark's header in each file.
    headers: HashMap<usize, u64>,
    /// For each file where work begins: its first line, and the furthest last line up to there.
    begun: HashMap<usize, Vec<(u64, u64)>>,
    /// Each thread's steps with its communicators, in the order of the log.
    steps: BTreeMap<Thread<'d>, Vec<(LinePosition, &'d str, CommunicatorStep)>>,
    /// Lines of threads that connected all of their channels, and of those that chose a network or connected one channel.
    connected: BTreeMap<Thread<'d>, Vec<LinePosition>>,
    channels: BTreeMap<Thread<'d>, Vec<LinePosition>>,
}

impl<'l, 'd> RunCourse<'l, 'd> {
    pub(super) fn of(view: &'l RunView<'l, 'd>) -> Self {
        let mut course = RunCourse {
            view,
            signs: Vec::new(),
            of_file: HashMap::new(),
            ends: Vec::new(),
            rows: Vec::new(),
            headers: HashMap::new(),
            begun: HashMap::new(),
            steps: BTreeMap::new(),
            connected: BTreeMap::new(),
            channels: BTreeMap::new(),
        };
        let mut begins: Vec<LinePosition> = Vec::new();
        for (file, sign) in view.log.signs.get(view.run).into_iter().flatten() {
            let at = LinePosition::new(*file, sign.line, sign.last);
            if sign.kind == SignKind::Start || goes_on(sign) {
                begins.push(at);
            }
            let place = course.signs.len();
            course.of_file.entry(*file).or_insert(place..place).end = place + 1;
            course.signs.push((at, sign));
        }
        for (file, number, is_row) in view.log.tests.get(view.run).into_iter().flatten() {
            let at = LinePosition::new(*file, *number, *number);
            match is_row {
                true => course.rows.push(at),
                false => {
                    course.headers.entry(*file).or_insert(*number);
                    begins.push(at);
                }
            }
        }
        course.rows.sort_unstable_by_key(|at| (at.file, at.first));
        for (line, host) in view.lines() {
            let Some(writer) = line.writer.filter(|_| line.level == Some(LogLevel::Info)) else {
                continue;
            };
            let thread = (host, writer.pid, writer.device);
            let at = LinePosition::of(line);
            if line.message.starts_with("Connected all ") {
                course.connected.entry(thread).or_default().push(at);
            } else if line.message.starts_with("Channel ")
                || line.message.starts_with("Using network ")
            {
                course.channels.entry(thread).or_default().push(at);
            } else if let Some(mention) = Mention::read(line.message) {
                let Some(step) = mention.step else {
                    continue;
                };
                let steps = course.steps.entry(thread).or_default();
                steps.push((at, mention.comm, step));
                if step == CommunicatorStep::Started {
                    begins.push(at);
                }
            }
        }
        begins.sort_unstable_by_key(|at| (at.file, at.first));
        for at in begins {
            let begun = course.begun.entry(at.file).or_default();
            let before = begun.last().map_or(0, |(_, last)| *last);
            begun.push((at.first, before.max(at.last)));
        }
        let done = course
            .signs
            .iter()
            .filter(|(at, sign)| sign.kind == SignKind::Done && !course.begins_after(*at));
        course.ends = done.copied().collect();
        course
    }

    /// The signs of a file, in their order.
    fn signs_in(&self, file: usize) -> &[(LinePosition, &'l Sign)] {
        let range = self.of_file.get(&file).cloned();
        range.map_or(&[], |range| &self.signs[range])
    }

    /// Whether a collective between ranks had finished before this: a step or a row of a benchmark
    /// shows it, and a benchmark without a row that none had.
    pub(super) fn had_worked(&self, event: LinePosition) -> Option<bool> {
        let is_before = |at: &LinePosition| at.file == event.file && at.first < event.first;
        let signs = self.signs_in(event.file).iter();
        let mut steps =
            signs.filter(|(_, sign)| matches!(sign.kind, SignKind::Step | SignKind::Done));
        if steps.any(|(at, _)| is_before(at)) || self.rows.iter().any(is_before) {
            return Some(true);
        }
        let header = self.headers.get(&event.file)?;
        (*header < event.first).then_some(false)
    }

    /// Whether the process tells that it began to initialise a communicator.
    pub(super) fn has_begun(&self, (host, pid): ProcessKey<'d>) -> bool {
        let threads = threads_of_process(&self.steps, host, pid);
        let mut steps = threads.flat_map(|thread| thread.1);
        steps.any(|(.., step)| *step == CommunicatorStep::Started)
    }

    /// The outcome of the event.
    pub(super) fn outcome(&self, event: &Failure<'d>, others: &RunEndings<'d>) -> OutcomeWithProof {
        // A wrong result stays wrong, whatever was computed later.
        if event.class == LogClass::ResultWrong {
            return None;
        }
        let shutdown = |text| Some((EventOutcome::Shutdown, text));
        let recovered = |text| Some((EventOutcome::Recovered, text));
        if let Some(text) = self.ended_before(event.at) {
            return shutdown(text);
        }
        if let Some(text) = self.left_before(event) {
            return shutdown(text);
        }
        if let Some(line) = others.cancelled_before(event) {
            let at = LinePosition::new(event.at.file, line, line);
            return shutdown(self.proof_sentence(at, "the scheduler ended the job"));
        }
        let signs = self.signs_in(event.at.file);
        let done = |(at, sign): &&(LinePosition, &Sign)| {
            sign.kind == SignKind::Done && at.first > event.at.first
        };
        if let Some((at, sign)) = signs.iter().find(done) {
            return recovered(self.proof_sentence(*at, &sign.text));
        }
        // What the dying program still prints was computed before.
        let dying = others.end_after(event.at);
        let alive =
            |at: LinePosition| at.follows(event.at) && dying.is_none_or(|end| at.last < end);
        let steps = |(at, sign): &&(LinePosition, &Sign)| goes_on(sign) && alive(*at);
        if let Some((at, sign)) = signs.iter().find(steps) {
            return recovered(self.proof_sentence(*at, &sign.text));
        }
        // The first row after it may have been measured before.
        let before = |at: &LinePosition| (at.file, at.first) <= (event.at.file, event.at.last);
        let second = self.rows.get(self.rows.partition_point(before) + 1);
        if let Some(row) = second.filter(|row| alive(**row)) {
            return recovered(self.proof_sentence(*row, "a further row of the benchmark"));
        }
        if let Some((at, text)) = self.thread_went_on(event, others) {
            return recovered(self.proof_sentence(at, text));
        }
        self.ended_well(event.at, others).and_then(recovered)
    }

    /// How the run ended. `open` says whether a failure is left of which nothing shows that the run went on.
    pub(super) fn of_run(
        &self,
        open: bool,
        others: &RunEndings<'d>,
    ) -> (RunOutcome, Option<LinePosition>) {
        if open {
            return (RunOutcome::Failed, None);
        }
        let last = |kind: SignKind| {
            let mut signs = self.signs.iter().rev();
            signs.find(|(_, sign)| sign.kind == kind)
        };
        if let Some((at, _)) = last(SignKind::Done).filter(|(at, _)| !self.begins_after(*at)) {
            return (RunOutcome::Succeeded, Some(*at));
        }
        if let Some((at, _)) = last(SignKind::Failed) {
            return (RunOutcome::Failed, Some(*at));
        }
        let start = LinePosition::new(usize::MAX, 0, 0);
        if self.ended_well(start, others).is_some() {
            return (RunOutcome::Succeeded, None);
        }
        if let Some((at, _)) = self.signs.iter().rev().find(|(_, sign)| goes_on(sign)) {
            return (RunOutcome::WentOn, Some(*at));
        }
        match self.rows.as_slice() {
            [.., row, _] => (RunOutcome::WentOn, Some(*row)),
            _ => (RunOutcome::Unknown, None),
        }
    }

    /// The sign at this place, as the origin of a fact.
    pub(super) fn sign(&self, at: LinePosition) -> Option<Origin> {
        let (_, sign) = self.signs.iter().find(|(of, _)| *of == at)?;
        let (name, _) = self.view.log.files.get(at.file)?;
        Some(Origin::logged(name, at.first, &sign.text))
    }

    fn proof_sentence(&self, at: LinePosition, text: &str) -> String {
        let name = self
            .view
            .log
            .files
            .get(at.file)
            .map_or("", |(name, _)| name);
        let text: String = text.chars().take(120).collect();
        format!("{}: {text}", super::place(name, at.first))
    }

    /// The end of the work, if it comes before this and nothing begins between.
    fn ended_before(&self, event: LinePosition) -> Option<String> {
        let done = |(at, sign): &&(LinePosition, &Sign)| {
            sign.kind == SignKind::Done && at.last < event.first
        };
        let (end, sign) = self.signs_in(event.file).iter().rev().find(done)?;
        let begun = self.begun.get(&event.file).map_or(&[][..], Vec::as_slice);
        let before = begun.partition_point(|(first, _)| *first < event.first);
        let furthest = before.checked_sub(1).and_then(|at| begun.get(at));
        let between = furthest.is_some_and(|(_, last)| *last > end.last);
        (!between).then(|| self.proof_sentence(*end, &sign.text))
    }

    /// Whether work begins after this.
    fn begins_after(&self, end: LinePosition) -> bool {
        let begun = self.begun.get(&end.file).and_then(|begun| begun.last());
        begun.is_some_and(|(first, _)| *first > end.last)
    }

    /// The line by which the event's own thread left its last communicator before the event.
    fn left_before(&self, event: &Failure<'d>) -> Option<String> {
        let (host, pid, device) = event.thread?;
        let mut open: BTreeSet<&str> = BTreeSet::new();
        let mut left: Option<(LinePosition, CommunicatorStep)> = None;
        let of_process = threads_of_process(&self.steps, host, pid)
            .filter(|((.., on), _)| device.is_none() || on.is_none() || *on == device);
        let mut all: Vec<_> = of_process.flat_map(|(_, steps)| steps).collect();
        all.sort_by_key(|(at, ..)| (at.file, at.first));
        for (at, comm, step) in all {
            if at.file != event.at.file || at.first > event.at.first {
                continue;
            }
            match step {
                CommunicatorStep::Started | CommunicatorStep::Complete => {
                    open.insert(comm);
                }
                CommunicatorStep::Destroyed | CommunicatorStep::Aborted => {
                    open.remove(comm);
                    left = Some((*at, *step));
                }
            }
        }
        let (at, step) = left.filter(|_| open.is_empty())?;
        // After an abort only what an abort causes is noise.
        let of_abort = matches!(
            event.class,
            LogClass::Unwinding
                | LogClass::PeerClosed
                | LogClass::SocketFailed
                | LogClass::ProxyFailed
                | LogClass::Abort
        );
        (step == CommunicatorStep::Destroyed || of_abort)
            .then(|| self.proof_sentence(at, "the communicator was destroyed or aborted"))
    }

    /// Whether the threads that wrote the event initialised a communicator after it, or connected their channels.
    fn thread_went_on(
        &self,
        event: &Failure<'d>,
        others: &RunEndings<'d>,
    ) -> Option<(LinePosition, &'static str)> {
        let own = event.thread?;
        let fits = |thread: &Thread<'d>| own.2.is_none() || thread.2.is_none() || thread.2 == own.2;
        // A rank that was initialised before shows it by a communicator that is new, else by the one at which it failed.
        let complete = |thread: &Thread<'d>| {
            let steps = self.steps.get(thread)?;
            let before = steps.iter().any(|(at, _, step)| {
                *step == CommunicatorStep::Complete && at.first < event.at.last
            });
            steps.iter().find_map(|(at, comm, step)| {
                let new = || {
                    steps.iter().any(|(start, of, step)| {
                        *step == CommunicatorStep::Started && of == comm && start.follows(event.at)
                    })
                };
                (*step == CommunicatorStep::Complete && at.follows(event.at) && (!before || new()))
                    .then_some((*at, "Init COMPLETE"))
            })
        };
        // After lines that say that a failure passed, channels that are connected say nothing about it.
        let passed = others.passed.get(&(own.0, own.1)).into_iter().flatten();
        let passed = passed.filter(|other| !event.at.follows(**other));
        let passed = passed.map(|other| other.last).max().unwrap_or(0);
        let connects = |thread: &Thread<'d>| {
            let told = match event.class {
                LogClass::Unwinding => &self.channels,
                _ => &self.connected,
            };
            let lines = [told.get(thread), self.connected.get(thread)];
            let found = lines
                .into_iter()
                .flatten()
                .flatten()
                .find(|at| at.follows(event.at) && at.first > passed);
            found.map(|at| (*at, "the initialisation went on"))
        };
        let shows = |thread: &Thread<'d>| complete(thread).or_else(|| connects(thread));
        let (host, pid, _) = own;
        let steps = threads_of_process(&self.steps, host, pid).map(|(thread, _)| thread);
        let channels = threads_of_process(&self.channels, host, pid).map(|(thread, _)| thread);
        let mut own = steps.chain(channels).filter(|thread| fits(thread));
        let first = own.find_map(shows)?;
        if event.processes <= 1 {
            return Some(first);
        }
        // Of lines that several processes wrote, each must have gone on.
        let steps = threads_of_host(&self.steps, host).map(|(thread, _)| thread);
        let channels = threads_of_host(&self.channels, host).map(|(thread, _)| thread);
        let mut on: BTreeSet<&Thread<'d>> = BTreeSet::new();
        for thread in steps.chain(channels) {
            if shows(thread).is_some() && on.insert(thread) && on.len() as u64 >= event.processes {
                return Some(first);
            }
        }
        None
    }

    /// The line that shows that all processes of the run ended well after this, or that the run succeeded in another file.
    fn ended_well(&self, event: LinePosition, others: &RunEndings<'d>) -> Option<String> {
        let of_kind = |kind: SignKind| {
            let signs = self.signs.iter();
            signs.filter(move |(_, sign)| sign.kind == kind)
        };
        if others.killed || of_kind(SignKind::Failed).next().is_some() {
            return None;
        }
        let mut ends = self.ends.iter().rev();
        let elsewhere = ends.find(|(at, _)| at.file != event.file);
        if let Some((at, sign)) = elsewhere {
            return Some(self.proof_sentence(*at, &sign.text));
        }
        let processes = self.view.processes.len() as u64;
        let hosts = self.view.hosts.len() as u64;
        let needed = [
            (SignKind::ProcessExited, processes),
            (SignKind::LauncherExited, hosts),
        ];
        needed.into_iter().find_map(|(kind, needed)| {
            let after = |at: &LinePosition| at.file != event.file || at.first > event.last;
            let signs = || of_kind(kind).filter(|(at, _)| after(at));
            let count: u64 = signs().map(|(_, sign)| sign.count).sum();
            let (at, sign) = signs().next()?;
            (count >= needed).then(|| self.proof_sentence(*at, &sign.text))
        })
    }
}

/// Whether a sign shows that collectives are carried out. A step that was under way may still be printed: a second one is not.
fn goes_on(sign: &Sign) -> bool {
    sign.kind == SignKind::Step && sign.steps > 1
}

/// Whether a process that says so ends: what is printed later was held back.
fn ends_process(class: LogClass) -> bool {
    use LogClass as C;
    matches!(
        class,
        C::Exception
            | C::TorchTeardown
            | C::TorchNccl
            | C::ProcessEnded
            | C::BusError
            | C::OutOfMemory
            | C::Abort
    )
}

/// The steps of the threads of a process.
fn threads_of_process<'m, 'd, T>(
    all: &'m BTreeMap<Thread<'d>, T>,
    host: &'d str,
    pid: u64,
) -> impl Iterator<Item = (&'m Thread<'d>, &'m T)> {
    all.range((host, pid, None)..=(host, pid, Some(u64::MAX)))
}

/// The steps of the threads of a host.
fn threads_of_host<'m, 'd, T>(
    all: &'m BTreeMap<Thread<'d>, T>,
    host: &'d str,
) -> impl Iterator<Item = (&'m Thread<'d>, &'m T)> {
    all.range((host, 0, None)..=(host, u64::MAX, Some(u64::MAX)))
}

/// For each file its runs, in their order: when each began, the last line of all up to there, and which it is.
pub(super) struct RunExtents(Vec<Vec<(u64, u64, usize)>>);

impl RunExtents {
    /// Of the runs of each file, each with its first and its last line.
    pub(super) fn new(mut files: Vec<Vec<(usize, u64, u64)>>) -> Self {
        let of_file = |runs: &mut Vec<(usize, u64, u64)>| {
            runs.sort_by_key(|(_, first, _)| *first);
            let mut furthest = 0;
            let runs = runs.iter().map(|(run, first, last)| {
                furthest = furthest.max(*last);
                (*first, furthest, *run)
            });
            runs.collect()
        };
        RunExtents(files.iter_mut().map(of_file).collect())
    }

    /// The run of a line that names no process; `None` if several runs write at the same time.
    pub(super) fn run_at(&self, file: usize, line: u64, runs: usize) -> Option<usize> {
        let began = self.0.get(file).map_or(&[][..], Vec::as_slice);
        let before = began.partition_point(|(first, ..)| *first <= line);
        match (before.checked_sub(1), began) {
            (Some(0), [(.., run), ..]) | (None, [(.., run)]) => Some(*run),
            (Some(at), _) => {
                let (first, _, run) = began.get(at)?;
                let (_, furthest, _) = began.get(at - 1)?;
                (furthest < first).then_some(*run)
            }
            (None, []) => (runs <= 1).then_some(0),
            (None, _) => None,
        }
    }
}
