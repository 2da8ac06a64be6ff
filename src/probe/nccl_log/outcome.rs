//! What came of failures: whether the process or the run went on after one, or had ended before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::communicator::{Mention, State};
use super::line::Line;
use super::{Log, View};
use crate::fact::event::{EventOutcome, LogClass};
use crate::fact::run::RunOutcome;
use crate::fact::{LogLine, Origin};
use crate::nccl_log::pasted::Tool;
use crate::nccl_log::prefix::Level;
use crate::nccl_log::sign::{Sign, SignKind};

/// A GPU's thread of a process: what NCCL does for one rank.
type Thread<'d> = (&'d str, u64, Option<u64>);

/// A line by its file and its first and last number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) file: usize,
    pub(super) first: u64,
    pub(super) last: u64,
}

impl At {
    pub(super) fn of(line: &Line<'_>) -> Self {
        At {
            file: line.file,
            first: line.kept.line,
            last: line.kept.last,
        }
    }

    /// Whether all of it comes after all of the other.
    fn follows(self, other: At) -> bool {
        self.file == other.file && self.first > other.last
    }
}

/// An event, as far as its outcome depends on it.
pub(super) struct Failure<'d> {
    pub(super) at: At,
    pub(super) class: LogClass,
    pub(super) thread: Option<Thread<'d>>,
    pub(super) processes: u64,
}

/// The outcome of an event, and the line that shows it.
pub(super) type Shown = Option<(EventOutcome, String)>;

/// What a process says of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Started,
    Complete,
    Destroyed,
    Aborted,
}

/// What the lines of a run show of how it goes.
pub(super) struct Course<'l, 'd> {
    view: &'l View<'l, 'd>,
    signs: Vec<(At, &'l Sign)>,
    /// Rows of benchmarks: each the work of all ranks.
    rows: Vec<At>,
    /// Where the output of a benchmark begins.
    benchmarks: Vec<At>,
    /// What each thread says of its communicators, in the order of the log.
    steps: BTreeMap<Thread<'d>, Vec<(At, &'d str, Step)>>,
    /// Lines of threads that connected all of their channels, and of single channels.
    connected: BTreeMap<Thread<'d>, Vec<At>>,
    channels: BTreeMap<Thread<'d>, Vec<At>>,
}

impl<'l, 'd> Course<'l, 'd> {
    pub(super) fn of(view: &'l View<'l, 'd>) -> Self {
        let mut course = Course {
            view,
            signs: Vec::new(),
            rows: Vec::new(),
            benchmarks: Vec::new(),
            steps: BTreeMap::new(),
            connected: BTreeMap::new(),
            channels: BTreeMap::new(),
        };
        for (file, (_, digest)) in view.log.files.iter().enumerate() {
            let of_run = |line: u64| view.log.run_at(file, line) == Some(view.run);
            for sign in digest.signs.iter().filter(|sign| of_run(sign.line)) {
                let at = At {
                    file,
                    first: sign.line,
                    last: sign.last,
                };
                course.signs.push((at, sign));
            }
            let tests = digest.pasted.iter().filter(|p| p.tool == Tool::NcclTests);
            for (place, (number, text)) in tests.flat_map(|p| p.lines.iter().enumerate()) {
                let at = At {
                    file,
                    first: *number,
                    last: *number,
                };
                if !of_run(*number) {
                    continue;
                }
                if place == 0 {
                    course.benchmarks.push(at);
                } else if text.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
                    course.rows.push(at);
                }
            }
        }
        for (line, host) in view.lines() {
            let Some(writer) = line.writer.filter(|_| line.level == Some(Level::Info)) else {
                continue;
            };
            let thread = (host, writer.pid, writer.device);
            let at = At::of(line);
            if line.message.starts_with("Connected all ") {
                course.connected.entry(thread).or_default().push(at);
            } else if line.message.starts_with("Channel ") {
                course.channels.entry(thread).or_default().push(at);
            } else if let Some(mention) = Mention::read(line.message) {
                let step = match mention.state {
                    State::Started => Step::Started,
                    State::Complete => Step::Complete,
                    State::Destroyed => Step::Destroyed,
                    State::Aborted => Step::Aborted,
                    State::Said if line.message.contains("Abort START") => Step::Aborted,
                    State::Said => continue,
                };
                let steps = course.steps.entry(thread).or_default();
                steps.push((at, mention.comm, step));
            }
        }
        course
    }

    /// What came of the event. `others` are all events of the run.
    pub(super) fn outcome(&self, event: &Failure<'d>, others: &[Failure<'d>]) -> Shown {
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
        let done = self.signs.iter().find(|(at, sign)| {
            sign.kind == SignKind::Done && at.file == event.at.file && at.first > event.at.first
        });
        if let Some((at, sign)) = done {
            return recovered(self.told(*at, &sign.text));
        }
        // What the dying program still prints was computed before.
        let dying = others
            .iter()
            .filter(|other| ends_process(other.class) && other.at.follows(event.at))
            .map(|other| other.at.first)
            .min();
        let alive = |at: At| at.follows(event.at) && dying.is_none_or(|end| at.last < end);
        let steps = self
            .signs
            .iter()
            .find(|(at, sign)| goes_on(sign) && alive(*at));
        if let Some((at, sign)) = steps {
            return recovered(self.told(*at, &sign.text));
        }
        // The first row after it may have been measured before.
        let mut rows = self.rows.iter().filter(|at| alive(**at));
        if let (Some(_), Some(row)) = (rows.next(), rows.next()) {
            return recovered(self.told(*row, "a further row of the benchmark"));
        }
        if let Some((at, text)) = self.thread_went_on(event, others) {
            return recovered(self.told(at, text));
        }
        self.ended_well(event.at, others).and_then(recovered)
    }

    /// How the run ended. `open` says whether a failure is left of which nothing shows that the run went on.
    pub(super) fn of_run(&self, open: bool, others: &[Failure<'d>]) -> (RunOutcome, Option<At>) {
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
        let start = At {
            file: usize::MAX,
            first: 0,
            last: 0,
        };
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
    pub(super) fn sign(&self, at: At) -> Option<Origin> {
        let (_, sign) = self.signs.iter().find(|(of, _)| *of == at)?;
        let (name, _) = self.view.log.files.get(at.file)?;
        Some(Origin::Logged(Arc::new(LogLine {
            file: Arc::clone(name),
            line: at.first,
            text: sign.text.as_str().into(),
        })))
    }

    fn told(&self, at: At, text: &str) -> String {
        let name = self
            .view
            .log
            .files
            .get(at.file)
            .map_or("", |(name, _)| name);
        let text: String = text.chars().take(120).collect();
        format!("{name}:{}: {text}", at.first)
    }

    /// The end of the work, where it comes before this and nothing begins between.
    fn ended_before(&self, event: At) -> Option<String> {
        let mut done = self.signs.iter().rev().filter(|(at, sign)| {
            sign.kind == SignKind::Done && at.file == event.file && at.last < event.first
        });
        let (end, sign) = done.next()?;
        let between = |at: &At| at.file == end.file && at.last > end.last && at.first < event.first;
        (!self.begins(between)).then(|| self.told(*end, &sign.text))
    }

    fn begins_after(&self, end: At) -> bool {
        self.begins(|at: &At| at.follows(end))
    }

    /// Whether work begins in a stretch of the log.
    fn begins(&self, inside: impl Fn(&At) -> bool) -> bool {
        let work = |sign: &Sign| sign.kind == SignKind::Start || goes_on(sign);
        self.signs.iter().any(|(at, sign)| work(sign) && inside(at))
            || self.benchmarks.iter().any(&inside)
            || self
                .steps
                .values()
                .flatten()
                .any(|(at, _, step)| *step == Step::Started && inside(at))
    }

    /// The line by which the event's own thread left its last communicator before the event.
    fn left_before(&self, event: &Failure<'d>) -> Option<String> {
        let (host, pid, device) = event.thread?;
        let mut open: BTreeSet<&str> = BTreeSet::new();
        let mut left: Option<(At, Step)> = None;
        let of_process = self.steps.iter().filter(|((of, number, on), _)| {
            *of == host && *number == pid && (device.is_none() || on.is_none() || *on == device)
        });
        let mut all: Vec<_> = of_process.flat_map(|(_, steps)| steps).collect();
        all.sort_by_key(|(at, ..)| (at.file, at.first));
        for (at, comm, step) in all {
            if at.file != event.at.file || at.first > event.at.first {
                continue;
            }
            match step {
                Step::Started | Step::Complete => {
                    open.insert(comm);
                }
                Step::Destroyed | Step::Aborted => {
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
        (step == Step::Destroyed || of_abort)
            .then(|| self.told(at, "the communicator was destroyed or aborted"))
    }

    /// Whether the threads that wrote the event initialised a communicator after it, or connected their channels.
    fn thread_went_on(
        &self,
        event: &Failure<'d>,
        others: &[Failure<'d>],
    ) -> Option<(At, &'static str)> {
        let own = event.thread?;
        let fits = |thread: &Thread<'d>| {
            thread.0 == own.0
                && thread.1 == own.1
                && (own.2.is_none() || thread.2.is_none() || thread.2 == own.2)
        };
        // A rank that was initialised before shows it by a communicator that is new, else by the one at which it failed.
        let complete = |thread: &Thread<'d>| {
            let steps = self.steps.get(thread)?;
            let before = steps
                .iter()
                .any(|(at, _, step)| *step == Step::Complete && at.first < event.at.last);
            steps.iter().find_map(|(at, comm, step)| {
                let new = || {
                    steps.iter().any(|(start, of, step)| {
                        *step == Step::Started && of == comm && start.follows(event.at)
                    })
                };
                (*step == Step::Complete && at.follows(event.at) && (!before || new()))
                    .then_some((*at, "Init COMPLETE"))
            })
        };
        // After lines that say that a failure passed, channels that are connected say nothing of it.
        let passed = others.iter().filter(|other| {
            matches!(other.class, LogClass::Unwinding | LogClass::Abort)
                && other.thread.is_some_and(|t| t.0 == own.0 && t.1 == own.1)
                && !event.at.follows(other.at)
        });
        let passed = passed.map(|other| other.at.last).max().unwrap_or(0);
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
            found.map(|at| (*at, "channels were connected"))
        };
        let shows = |thread: &Thread<'d>| complete(thread).or_else(|| connects(thread));
        let threads = || self.steps.keys().chain(self.channels.keys());
        let first = threads().filter(|t| fits(t)).find_map(shows)?;
        // Of lines that several processes wrote, each must have gone on.
        let of_host: BTreeSet<&Thread<'d>> = threads()
            .filter(|t| t.0 == own.0 && shows(t).is_some())
            .collect();
        (of_host.len() as u64 >= event.processes).then_some(first)
    }

    /// The line that shows that all processes of the run ended well after this, or that the run succeeded in another file.
    fn ended_well(&self, event: At, others: &[Failure<'d>]) -> Option<String> {
        let failed = self
            .signs
            .iter()
            .any(|(_, sign)| sign.kind == SignKind::Failed)
            || others.iter().any(|other| {
                matches!(
                    other.class,
                    LogClass::ProcessEnded | LogClass::BusError | LogClass::OutOfMemory
                )
            });
        if failed {
            return None;
        }
        let elsewhere = self.signs.iter().rev().find(|(at, sign)| {
            sign.kind == SignKind::Done && at.file != event.file && !self.begins_after(*at)
        });
        if let Some((at, sign)) = elsewhere {
            return Some(self.told(*at, &sign.text));
        }
        let mut processes: Vec<_> = self.view.processes();
        processes.dedup();
        let hosts = self.view.hosts.len() as u64;
        let needed = [
            (SignKind::ProcessExited, processes.len() as u64),
            (SignKind::LauncherExited, hosts),
        ];
        needed.into_iter().find_map(|(kind, needed)| {
            let after = |at: &At| at.file != event.file || at.first > event.last;
            let signs = || {
                let of_kind = self.signs.iter().filter(|(_, sign)| sign.kind == kind);
                of_kind.filter(|(at, _)| after(at))
            };
            let count: u64 = signs().map(|(_, sign)| sign.count).sum();
            let (at, sign) = signs().next()?;
            (count >= needed).then(|| self.told(*at, &sign.text))
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

impl Log<'_> {
    /// The run of a line that names no process; `None` where several runs write at the same time.
    fn run_at(&self, file: usize, line: u64) -> Option<usize> {
        let extents = self.extents.get(file).map_or(&[][..], Vec::as_slice);
        let mut began: Vec<_> = extents
            .iter()
            .filter(|(_, first, _)| *first <= line)
            .collect();
        began.sort_by_key(|(_, first, _)| *first);
        match began.split_last() {
            Some(((run, first, _), earlier)) => earlier
                .iter()
                .all(|(.., last)| last < first)
                .then_some(*run),
            None => match extents {
                [(run, ..)] => Some(*run),
                [] => (self.count() <= 1).then_some(0),
                _ => None,
            },
        }
    }
}
