//! Probes in child processes: only children ask the machine.
//!
//! A hung driver, a crashed vendor library or a read stuck in the kernel costs replies; it cannot hang or kill the doctor.
//! Each child runs in a process group of its own, is killed with it when it was
//! silent for longer than its budget or when the deadline is reached, and ends by itself when the parent is gone.
//!
//! To start a process costs more than most probes do. So a child whose replies left it as it was ([`live::changes_process`]), or whose tree holds
//! nothing else, says [`DONE`] and is told the next probe's name on its standard input; one that called a library or ran a command
//! ends with its probe, and so leaves nothing behind.

pub mod child;
pub mod measure;

use crate::live::places::{self, Places};
use crate::live::{self, clock, environment, own_process, privileges, stuck};
use std::collections::{HashSet, VecDeque};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use child::{how_its_process_ended, kill_group, wait_a_moment};

use crate::live::Live;
use crate::source::recorder::Recorder;
use crate::source::recording::Recording;
use crate::source::wire::{self, Header, Line, ProbeEnd};
use crate::source::{Question, Refusal, Reply, Source};

/// What to record, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A directory to examine in place of the machine.
    pub root: Option<PathBuf>,
    /// Pause between two readings of the counters.
    pub sample: Option<Duration>,
    /// The NCCL library, or its version, that a person named.
    pub nccl: Option<String>,
    /// The process of a running job that is asked about too.
    pub job: Option<u32>,
    /// The processes of a running job's ranks that a person named.
    pub ranks: Vec<u32>,
    /// The py-spy that reads where their Python programs stand, by its path or its name.
    pub py_spy: Option<PathBuf>,
    /// When the recording ends, whatever is still open.
    pub deadline: Duration,
    /// The probes: name, and for how long each may be silent.
    pub probes: Vec<(&'static str, Duration)>,
    /// The program that runs the probes, if it is not this one.
    pub program: Option<PathBuf>,
}

/// What happens while a machine is recorded or measured, for a progress line.
pub enum Progress<'a> {
    /// These probes have been running for half a second or longer.
    Waiting(&'a [&'a str]),
    /// A measurement goes on.
    Measuring {
        /// Which run of it: arm and round, or part.
        run: &'a str,
        /// Its step.
        step: &'a str,
        /// When no further run begins.
        until: Option<Instant>,
    },
    /// So many of those of whom something is expected have done it.
    Counted {
        /// How many have.
        count: u64,
        /// How many there are.
        of: u64,
        /// What they have done: `hosts answered`.
        what: &'a str,
    },
    /// All probes have ended.
    Done,
}

/// The argument by which this program runs a probe.
pub const ARGUMENT: &str = "__probe";
/// The name of the probe that asks nothing: it shows that processes start and end.
pub const CONTROL: &str = "control";
/// What a child writes in place of a recording's line when its probe has ended well and it can run another.
const DONE: &str = "done";
/// What a child writes while another one asks where it has to ask: it is not silent.
const WAITS: &str = "waits";

enum Event {
    Line(usize, Box<Line>),
    Done(usize),
    Waits(usize),
    Closed(usize),
}

struct Running {
    /// The probe that it runs, or ran last.
    name: &'static str,
    child: Option<Child>,
    budget: Duration,
    ends: Instant,
    closed: bool,
    end_said: bool,
    /// Whether its probe restarts in another process: further lines are dropped.
    given_up: bool,
    /// Whether its process hangs in the kernel, where SIGKILL does not end it.
    hangs: bool,
}

/// Kills the processes of those that were silent for too long. One that hangs in the kernel stays; one that only gets no processor, as on a busy node, ends when it does.
fn kill(silent: &mut [&mut Running], program: Option<&PathBuf>, places: Option<&Places>) {
    for running in silent.iter_mut() {
        let Some(child) = &mut running.child else {
            continue;
        };
        kill_group(child);
        if wait_a_moment(child).is_some() {
            release(places, child);
            running.child = None;
        }
    }
    let left = silent.iter_mut().filter(|running| running.child.is_some());
    let mut left: Vec<&mut Running> = left.map(|running| &mut **running).collect();
    let mut children: Vec<&mut Child> = left.iter_mut().filter_map(|r| r.child.as_mut()).collect();
    let hang = stuck::that_hang(program, &mut children);
    for (running, hangs) in left.into_iter().zip(hang) {
        running.hangs = hangs;
        if let Some(child) = running.child.as_ref().filter(|_| !hangs) {
            release(places, child);
        }
    }
}

fn release(places: Option<&Places>, child: &Child) {
    if let Some(places) = places {
        places.release(child.id());
    }
}

/// How long a process may take to say its first word: a binary on a network file system is read while it starts.
const START: Duration = Duration::from_secs(10);
/// How often the children are looked after.
const TICK: Duration = Duration::from_millis(100);

/// Records a machine: starts a child for each probe, and collects the replies.
pub fn record(plan: &Plan, mut progress: impl FnMut(Progress<'_>)) -> Recording {
    let started_ns = clock::boottime_ns();
    let begun = clock::now();
    let mut recording = Recording::new(Header {
        version: wire::VERSION.into(),
        node: if plan.root.is_some() {
            String::new()
        } else {
            environment::node_name()
        },
        utc: clock::utc_now(),
        boottime_ns: started_ns,
        doctor: env!("CARGO_PKG_VERSION").into(),
        tree: plan.root.is_some(),
        ..Header::default()
    });
    let places = plan.root.is_none().then(|| Places::new().ok()).flatten();
    let places = places.as_ref();
    if let Some(places) = places {
        let earlier = stuck::of_earlier_runs(started_ns);
        earlier
            .into_iter()
            .filter_map(|one| one.place)
            .for_each(|place| places.hangs(&place));
    }
    let (events, inbox) = mpsc::channel();
    let mut running: Vec<Running> = Vec::with_capacity(plan.probes.len());
    let mut waiting: VecDeque<(&'static str, Duration)> = plan.probes.iter().copied().collect();
    let mut tried: HashSet<&'static str> = HashSet::new();
    // More at once than there are processors to run them would only make each look hung.
    let at_once = 2 * std::thread::available_parallelism()
        .map_or(2, usize::from)
        .max(2);
    let last = begun + plan.deadline;
    let pause = plan.sample.unwrap_or_default();
    let since = || (clock::boottime_ns().saturating_sub(started_ns)) / 1000;
    let mut shown: Option<Vec<&str>> = None;
    loop {
        while running.iter().filter(|r| !r.closed).count() < at_once {
            let Some((name, budget)) = waiting.pop_front() else {
                break;
            };
            let budget = budget + plan.sample.unwrap_or_default();
            let started = match clock::now() < last {
                true => {
                    let begun = (started_ns, places);
                    start(plan, name, begun, running.len(), &events).map_err(|e| e.to_string())
                }
                false => Err("the deadline was reached".into()),
            };
            let (child, closed) = match started {
                Ok(child) => (Some(child), false),
                Err(why) => {
                    let how = format!("its process did not start: {why}").into();
                    recording.add(Line::Ended(ProbeEnd {
                        probe: Arc::from(name),
                        how,
                        at: since(),
                    }));
                    (None, true)
                }
            };
            let ends = (clock::now() + budget.max(START)).min(last);
            running.push(Running {
                name,
                child,
                budget,
                ends,
                closed,
                end_said: closed,
                given_up: false,
                hangs: false,
            });
        }
        if running.iter().all(|r| r.closed) && waiting.is_empty() {
            break;
        }
        let now = clock::now();
        let silent = running.iter_mut().filter(|r| !r.closed && now >= r.ends);
        let mut silent: Vec<&mut Running> = silent.collect();
        kill(&mut silent, plan.program.as_ref(), places);
        for r in silent {
            // A busy node looks like a hanging one: each probe gets a second try with twice the time.
            // One that cannot be killed would hang again.
            if !r.hangs && !r.end_said && now < last && tried.insert(r.name) {
                (r.closed, r.end_said, r.given_up) = (true, true, true);
                recording.forget(r.name);
                waiting.push_back((r.name, r.budget.saturating_sub(pause) * 2));
                continue;
            }
            stop(r, &mut recording, since(), places);
        }
        // What they said meanwhile is not read yet.
        let looked_after = clock::now().duration_since(now);
        for r in &mut running {
            r.ends = (r.ends + looked_after).min(last);
        }
        if now.duration_since(begun) >= Duration::from_millis(500) {
            let names: Vec<&str> = running
                .iter()
                .filter(|r| !r.closed && !r.end_said)
                .map(|r| r.name)
                .collect();
            // (each of thousands of replies comes by here, and a console may be slow)
            if shown.as_ref() != Some(&names) {
                progress(Progress::Waiting(&names));
                shown = Some(names);
            }
        }
        let next = running
            .iter()
            .filter(|r| !r.closed)
            .map(|r| r.ends)
            .min()
            .unwrap_or(now);
        match inbox.recv_timeout(next.saturating_duration_since(now).min(TICK)) {
            Ok(Event::Line(index, _) | Event::Done(index)) if running[index].given_up => {}
            Ok(Event::Waits(index)) => {
                running[index].ends = (clock::now() + running[index].budget).min(last);
            }
            Ok(Event::Line(index, line)) => {
                // A probe that is answered, if slowly, on a busy machine, is not a hung one: the budget is for silence.
                running[index].ends = (clock::now() + running[index].budget).min(last);
                running[index].end_said |= matches!(*line, Line::Ended(_));
                recording.add(*line);
            }
            Ok(Event::Done(index)) => {
                let now = clock::now();
                let next = waiting.pop_front_if(|_| now < last);
                go_on(&mut running[index], next, &mut waiting, plan.sample);
                running[index].ends = (now + running[index].budget).min(last);
            }
            Ok(Event::Closed(index)) => {
                running[index].closed = true;
                if let Some(child) = &running[index].child {
                    release(places, child);
                }
                reap(&mut running[index], &mut recording, since());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if shown.is_some() {
        progress(Progress::Done);
    }
    recording.end();
    recording
}

/// Tells a child that has ended a probe the next one, or that there is none.
fn go_on(
    running: &mut Running,
    next: Option<(&'static str, Duration)>,
    waiting: &mut VecDeque<(&'static str, Duration)>,
    sample: Option<Duration>,
) {
    running.end_said = true;
    let stdin = running.child.as_mut().and_then(|child| child.stdin.take());
    let (Some((name, budget)), Some(mut stdin)) = (next, stdin) else {
        // Without its lifeline a child that runs nothing ends.
        waiting.extend(next);
        return;
    };
    match writeln!(stdin, "{name}").and_then(|()| stdin.flush()) {
        Ok(()) => {
            running.name = name;
            running.budget = budget + sample.unwrap_or_default();
            running.end_said = false;
            if let Some(child) = &mut running.child {
                child.stdin = Some(stdin);
            }
        }
        // It is gone: another one runs the probe.
        Err(_) => waiting.push_front((name, budget)),
    }
}

fn start(
    plan: &Plan,
    name: &'static str,
    (started_ns, places): (u64, Option<&Places>),
    index: usize,
    events: &Sender<Event>,
) -> std::io::Result<Child> {
    let with = |command: &mut Command| {
        command
            .arg(name)
            .arg("--started")
            .arg(started_ns.to_string());
        if let Some(root) = &plan.root {
            command.arg("--root").arg(root);
        }
        if let Some(sample) = plan.sample {
            command
                .arg("--sample")
                .arg(sample.as_secs_f64().to_string());
        }
        if let Some(nccl) = &plan.nccl {
            command.arg("--nccl").arg(nccl);
        }
        if let Some(job) = plan.job {
            command.arg("--as").arg(job.to_string());
        }
        if !plan.ranks.is_empty() {
            let ranks: Vec<String> = plan.ranks.iter().map(u32::to_string).collect();
            command.arg("--ranks").arg(ranks.join(","));
        }
        if let Some(py_spy) = &plan.py_spy {
            command.arg("--py-spy").arg(py_spy);
        }
        if let Some(path) = places.and_then(Places::path) {
            command.arg("--places").arg(path);
        }
    };
    let mut child = child::start(plan.program.as_ref(), ARGUMENT, Stdio::null, with)?;
    let Some(pipe) = child.stdout.take() else {
        return Ok(child);
    };
    let events = events.clone();
    let read = move || {
        let mut reader = BufReader::with_capacity(1 << 16, pipe);
        let mut text = String::new();
        // After an invalid line nothing more of a child is read: its questions stay unknown.
        while matches!((&mut reader).take(32 << 20).read_line(&mut text), Ok(n) if n > 0) {
            let event = match text.trim_end() {
                DONE => Event::Done(index),
                WAITS => Event::Waits(index),
                text => match wire::parse_line(text) {
                    Ok(line) => Event::Line(index, Box::new(line)),
                    Err(_) => break,
                },
            };
            if events.send(event).is_err() {
                return;
            }
            text.clear();
        }
        let _ = events.send(Event::Closed(index));
    };
    match Builder::new().spawn(read) {
        Ok(_) => Ok(child),
        Err(error) => {
            kill_group(&child);
            wait_a_moment(&mut child);
            Err(error)
        }
    }
}

/// Notes that a probe was killed at its deadline. The question at which it hung gets the reply *timeout*; one at which it hangs still, where.
fn stop(running: &mut Running, recording: &mut Recording, at: u64, places: Option<&Places>) {
    running.closed = true;
    let idle = std::mem::replace(&mut running.end_said, true);
    if idle {
        return;
    }
    let child = running.child.as_ref().filter(|_| running.hangs);
    let place = child.map(|child| {
        let asked = recording.pending(running.name);
        let place = asked.and_then(places::of_question).map(str::to_owned);
        let place = place.or_else(|| stuck::place_of(child.id()));
        if let (Some(places), Some(place)) = (places, &place) {
            places.hangs(place);
        }
        Arc::from(place.unwrap_or_else(|| "an unknown place".into()))
    });
    let how = format!(
        "killed after {}",
        crate::fact::Seconds((at as f64 / 1e6 * 10.0).round() / 10.0)
    );
    end_badly(recording, running.name, &how, at, |_| match place {
        Some(place) => Refusal::Stuck(place),
        None => Refusal::Timeout,
    });
}

/// Records how a probe ended, and a reply to the question at which it did.
fn end_badly(
    recording: &mut Recording,
    probe: &'static str,
    how: &str,
    at: u64,
    refusal: impl FnOnce(&str) -> Refusal,
) {
    let mut how = how.to_owned();
    if let Some(question) = recording.pending(probe).cloned() {
        how = format!("{how} at {question}");
        let repeat = recording.times_asked(probe, &question);
        let said = Err(refusal(&how));
        recording.add(Line::Reply {
            probe: probe.into(),
            question,
            repeat,
            reply: Reply { at, said },
        });
    }
    recording.add(Line::Ended(ProbeEnd {
        probe: probe.into(),
        how: how.into(),
        at,
    }));
}

/// Reaps a child that closed its output. Anything but success is recorded, once.
fn reap(running: &mut Running, recording: &mut Recording, at: u64) {
    let Some(mut child) = running.child.take() else {
        return;
    };
    let status = wait_a_moment(&mut child).or_else(|| {
        kill_group(&child);
        wait_a_moment(&mut child)
    });
    let Some(status) = status else {
        return;
    };
    // Kills anything that the probe forked.
    kill_group(&child);
    if status.success() || running.end_said {
        return;
    }
    let how = how_its_process_ended(status);
    end_badly(recording, running.name, &how, at, |how| {
        Refusal::Crash(how.into())
    });
}

/// The state that a child's asking and watching threads share.
struct ChildOutput {
    out: BufWriter<std::io::Stdout>,
    probe: Arc<str>,
    /// Whether a reply may have left something in this process: foreign code ran in it, or it has children.
    is_changed: bool,
    asking: Option<(Question, Instant)>,
    announced: bool,
}

impl ChildOutput {
    fn new(probe: Arc<str>, buffered: usize) -> Self {
        ChildOutput {
            out: BufWriter::with_capacity(buffered, std::io::stdout()),
            probe,
            is_changed: false,
            asking: None,
            announced: false,
        }
    }

    fn write(&mut self, line: &Line) {
        if let Some(text) = wire::write_line(line) {
            // A parent that is gone needs no lines; the lifeline ends this process.
            let _ = writeln!(self.out, "{text}");
        }
    }
}

/// Notes which question is being asked, so that the watcher can name one that takes long, and waits for its turn where another child asks.
struct WatchedSource<S> {
    source: S,
    places: Option<Arc<Places>>,
    started_ns: u64,
    probe: Arc<str>,
    outlet: Arc<Mutex<ChildOutput>>,
}

impl<S: Source> Source for WatchedSource<S> {
    fn ask(&self, question: &Question) -> Reply {
        let place = self.places.as_ref().zip(places::of_question(question));
        let turn = place.as_ref().map(|(places, place)| {
            places.enter(place, || {
                let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
                // A parent that is gone needs no lines.
                let _ = writeln!(outlet.out, "{WAITS}").and_then(|()| outlet.out.flush());
            })
        });
        if let Some(Err(hangs)) = turn {
            return Reply {
                at: clock::boottime_ns().saturating_sub(self.started_ns) / 1000,
                said: Err(Refusal::Stuck(hangs.into())),
            };
        }
        {
            let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
            // Library calls can crash the process: earlier replies and the question are flushed first.
            let call = matches!(
                question,
                Question::Call(_) | Question::Netlink(_) | Question::Run(_) | Question::Bench(_)
            );
            if call {
                let line = Line::Pending {
                    probe: Arc::clone(&self.probe),
                    question: question.clone(),
                };
                outlet.write(&line);
                let _ = outlet.out.flush();
            }
            outlet.asking = Some((question.clone(), clock::now()));
            outlet.announced = call;
        }
        let reply = self.source.ask(question);
        let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        outlet.asking = None;
        outlet.is_changed |= live::changes_process(question, &reply);
        drop(outlet);
        reply
    }
}

/// The settings that a child gets from its parent.
#[derive(Clone, Debug, Default)]
pub struct ChildSettings {
    /// When the recording began, in nanoseconds of `CLOCK_BOOTTIME`.
    pub at_ns: u64,
    /// A directory to examine in place of the machine.
    pub root: Option<PathBuf>,
    /// Pause between two readings.
    pub sample: Option<Duration>,
    /// The process of a running job that is asked about too.
    pub job: Option<u32>,
    /// The processes of a running job's ranks that a person named.
    pub ranks: Vec<u32>,
    /// The py-spy that reads where their Python programs stand.
    pub py_spy: Option<PathBuf>,
    /// The NCCL library, or its version, that a person named.
    pub nccl: Option<String>,
    /// The table of where the children of a run ask.
    pub places: Option<PathBuf>,
}

/// The child's side: runs a probe's questions over the machine and writes the replies to standard output, then those of the
/// probes that the parent names next.
///
/// `run` is the probe of a name: it asks the source that it is given.
pub fn child(
    first: &str,
    started: &ChildSettings,
    run: impl Fn(&str, &dyn Source),
) -> std::io::Result<()> {
    if first == CONTROL {
        stuck::control();
        return Ok(());
    }
    let places = started
        .places
        .as_deref()
        .and_then(|path| Places::open(path).ok());
    let places = places.map(Arc::new);
    // A kernel that refuses leaves the privileges that were given; the questions are the same.
    let _ = privileges::give_up();
    stuck::mark();
    let mut name: Arc<str> = first.into();
    let outlet = Arc::new(Mutex::new(ChildOutput::new(Arc::clone(&name), 1 << 16)));
    let busy = Arc::new(AtomicBool::new(true));
    let (told, next) = mpsc::channel();
    let of_lifeline = Arc::clone(&busy);
    Builder::new().spawn(move || lifeline(&told, &of_lifeline))?;
    let watched = Arc::clone(&outlet);
    Builder::new().spawn(move || watch(&watched))?;
    loop {
        let _ = privileges::narrow(&name);
        let source = match &started.root {
            Some(root) => Live::tree(started.at_ns, root)?,
            None => Live::machine(started.at_ns, started.sample, started.job),
        }
        .with_nccl(started.nccl.clone())
        .with_ranks(started.ranks.clone(), started.py_spy.clone());
        let sink = Arc::clone(&outlet);
        let recorder = Recorder::new(
            WatchedSource {
                source,
                places: places.clone(),
                started_ns: started.at_ns,
                probe: Arc::clone(&name),
                outlet: Arc::clone(&outlet),
            },
            &name,
            move |line| {
                sink.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .write(&line);
            },
        );
        run(&name, &recorder);
        {
            let mut outlet = outlet.lock().unwrap_or_else(PoisonError::into_inner);
            // In a copied tree there is no library to call and no command to run.
            if outlet.is_changed && started.root.is_none() {
                return outlet.out.flush();
            }
            busy.store(false, Ordering::SeqCst);
            writeln!(outlet.out, "{DONE}")?;
            outlet.out.flush()?;
        }
        let Ok(told) = next.recv() else {
            return Ok(());
        };
        name = told;
        outlet.lock().unwrap_or_else(PoisonError::into_inner).probe = Arc::clone(&name);
    }
}

/// Announces a slow question, so that the parent knows at which one it kills the child.
fn watch(outlet: &Mutex<ChildOutput>) {
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let mut outlet = outlet.lock().unwrap_or_else(PoisonError::into_inner);
        let late = match &outlet.asking {
            Some((question, since))
                if !outlet.announced && since.elapsed() > Duration::from_millis(50) =>
            {
                Some(question.clone())
            }
            _ => None,
        };
        if let Some(question) = late {
            outlet.announced = true;
            let probe = Arc::clone(&outlet.probe);
            outlet.write(&Line::Pending { probe, question });
        }
        let _ = outlet.out.flush();
    }
}

/// Hears the names of further probes, and ends this process, and its group, when the parent's end of the pipe is gone while a
/// probe runs. If none runs, the thread that waits for a name ends the process.
fn lifeline(told: &Sender<Arc<str>>, busy: &AtomicBool) {
    for name in std::io::stdin().lines() {
        let Ok(name) = name else { break };
        // Before the name is passed on: the parent may be gone by then.
        busy.store(true, Ordering::SeqCst);
        if told.send(name.into()).is_err() {
            return;
        }
    }
    if !busy.load(Ordering::SeqCst) {
        return;
    }
    own_process::end_with_group();
}
