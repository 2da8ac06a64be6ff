//! The judging of what others wrote, in a child with limits of time and memory: a copy of this
//! process, made by fork(2), that says on a pipe which input it is
//! at. Where the child goes beyond a limit or crashes, another one judges the other inputs.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, setrlimit};

use crate::exit::Exit;
use crate::live::clock;

/// How often the child's memory is looked at. The kernel's own limit counts what the allocator
/// keeps in reserve, so it comes late.
const TICK: Duration = Duration::from_millis(20);
/// How long the child may take between two inputs: to read the checks, to compare nodes, to write
/// the report.
const BETWEEN: Duration = Duration::from_secs(120);
/// How many inputs are left out: who sends more of these is no accident.
const MOST_LEFT_OUT: usize = 16;
/// The longest name that is written at once, so that the names of several threads do not mix
/// (`PIPE_BUF`, pipe(7)).
const NAME: usize = 2048;

/// What a child may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes, in addition to what the parent has.
    pub memory: u64,
    /// Time for one input.
    pub time: Duration,
}

/// How the judging ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// A child judged what could be judged, and ended so.
    With(Exit),
    /// No child could judge: why.
    Failed(String),
    /// No child can be made here.
    Impossible,
}

/// What a child knows of the ones before it, and its way to the parent.
struct Child {
    parent: Mutex<File>,
    left_out: BTreeMap<String, String>,
    /// Inputs of which one ended an earlier child: each is judged while no other is.
    suspects: BTreeSet<String>,
    turn: RwLock<()>,
}

static CHILD: OnceLock<Child> = OnceLock::new();

/// What the judging left for this process.
static NOTE: Mutex<String> = Mutex::new(String::new());

thread_local! {
    /// Whether this thread is at an input: what belongs to it is none of its own.
    static AT_INPUT: Cell<bool> = const { Cell::new(false) };
}

/// Whether this process is a child.
pub fn is_child() -> bool {
    CHILD.get().is_some()
}

/// Leaves a line for the process that waits for the judging.
pub fn note(line: &str) {
    match CHILD.get() {
        Some(child) => child.say(b'=', &line.replace('\n', " ")),
        None => line.clone_into(&mut NOTE.lock().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// The line that the judging left; empty if it left none.
pub fn noted() -> String {
    NOTE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Reads or judges one input, which has the limits of one. The name tells it from the others, and
/// from run to run.
///
/// # Errors
///
/// It ended an earlier child: how.
pub fn input<T>(name: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    timed(b'+', name, work)
}

/// The same for what may last: a log of any length, or one that is still written.
///
/// # Errors
///
/// It ended an earlier child: how.
pub fn endless_input<T>(name: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    timed(b'~', name, work)
}

/// The same for what can be read once, as a pipe, and lasts as long as its writer takes.
///
/// # Errors
///
/// It ended an earlier child: how; or an earlier child read it, and was ended by another input.
pub fn pipe_input<T>(name: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    let is_first = |child: &Child| child.left_out.is_empty() && child.suspects.is_empty();
    if CHILD.get().is_some_and(|child| !is_first(child)) {
        return Err("it can be read once only, and another input ended its judging".into());
    }
    timed(b'~', name, work)
}

fn timed<T>(kind: u8, name: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    let child = CHILD.get().filter(|_| !AT_INPUT.get());
    let Some(child) = child else {
        return Ok(work());
    };
    let name: String = name.chars().filter(|c| *c != '\n').take(NAME / 4).collect();
    if let Some(why) = child.left_out.get(&name) {
        return Err(why.clone());
    }
    let alone = (child.suspects.contains(&name))
        .then(|| child.turn.write().unwrap_or_else(PoisonError::into_inner));
    let together =
        (alone.is_none()).then(|| child.turn.read().unwrap_or_else(PoisonError::into_inner));
    child.say(kind, &name);
    AT_INPUT.set(true);
    let done = work();
    AT_INPUT.set(false);
    child.say(b'-', &name);
    drop((alone, together));
    Ok(done)
}

impl Child {
    fn say(&self, kind: u8, name: &str) {
        let line = [&[kind], name.as_bytes(), b"\n"].concat();
        let mut parent = self.parent.lock().unwrap_or_else(PoisonError::into_inner);
        // A parent that is gone ends this process.
        let _ = parent.write_all(&line);
    }
}

/// Judges in a child, and where that ends before its time in another one, which leaves out the
/// input that it was at.
pub fn supervised(limits: Limits, work: impl Fn() -> Exit) -> Ended {
    let mut left_out = BTreeMap::new();
    let mut suspects = BTreeSet::new();
    loop {
        let Ok((reader, writer)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else {
            return Ended::Impossible;
        };
        let pid = match fork() {
            None => return Ended::Impossible,
            Some(Fork::Child) => {
                drop(reader);
                serve(limits, writer, left_out, suspects, &work)
            }
            Some(Fork::Parent(pid)) => pid,
        };
        drop(writer);
        let mut inputs = Inputs::default();
        let over = inputs.follow(reader, pid, limits);
        if over.is_some() {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let status = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        let status = status.ok().flatten().map(|(_, status)| status);
        let code = status.and_then(|status| status.exit_status());
        let exit = code
            .and_then(|code| u64::try_from(code).ok())
            .map(Exit::from_code);
        let why = match (&over, exit) {
            (Some(over), _) => over.limit.clone(),
            (None, Some(exit)) if exit != Exit::Internal || inputs.begun.is_empty() => {
                return Ended::With(exit);
            }
            (None, Some(_)) => "ended in a bug".to_owned(),
            (None, None) => match status.and_then(|status| status.terminating_signal()) {
                Some(signal) => format!("ended with signal {signal}"),
                None => "ended".to_owned(),
            },
        };
        let blamed = match over.and_then(|over| over.input) {
            Some(name) => vec![name],
            None => inputs.begun.into_keys().collect(),
        };
        match blamed.as_slice() {
            [] => return Ended::Failed(why),
            [one] => {
                left_out.insert(one.clone(), format!("its judging {why}"));
            }
            several => suspects.extend(several.iter().cloned()),
        }
        if left_out.len() > MOST_LEFT_OUT {
            return Ended::Failed(format!("{why}, and so for {MOST_LEFT_OUT} inputs before"));
        }
    }
}

/// The limit that a child went beyond, and the input of which that is known.
struct Over {
    limit: String,
    input: Option<String>,
}

/// The inputs that a child has begun and not ended.
#[derive(Default)]
struct Inputs {
    /// Since when; `None` for one that may last.
    begun: BTreeMap<String, Option<Instant>>,
    unread: Vec<u8>,
}

impl Inputs {
    /// Reads what the child says until it ends, or goes beyond a limit.
    fn follow(&mut self, mut from: OwnedFd, pid: Pid, limits: Limits) -> Option<Over> {
        let before = memory_of(pid);
        let mut idle = clock::now();
        let mut looked = idle;
        loop {
            let now = clock::now();
            if let Some(over) = self.late(now, idle, limits.time) {
                return Some(over);
            }
            if now.saturating_duration_since(looked) >= TICK {
                looked = now;
                if memory_of(pid).saturating_sub(before) > limits.memory {
                    let megabytes = limits.memory / 1_000_000;
                    let limit = format!("took more than {megabytes} MB of memory");
                    return Some(Over { limit, input: None });
                }
            }
            let wait = Timespec {
                tv_sec: 0,
                tv_nsec: TICK.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&wait)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) if self.read(&mut from) > 0 => idle = clock::now(),
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// The limit of time that the child is beyond.
    fn late(&self, now: Instant, idle: Instant, time: Duration) -> Option<Over> {
        let is_beyond = |since: Instant, time| now.saturating_duration_since(since) > time;
        let over = |time: Duration, input| {
            let limit = format!("took more than {} s", time.as_secs_f64());
            Some(Over { limit, input })
        };
        if self.begun.is_empty() {
            return over(BETWEEN, None).filter(|_| is_beyond(idle, BETWEEN));
        }
        let is_late = |since: &Option<Instant>| since.is_some_and(|since| is_beyond(since, time));
        let (name, _) = self.begun.iter().find(|(_, since)| is_late(since))?;
        over(time, Some(name.clone()))
    }

    fn read(&mut self, from: &mut OwnedFd) -> usize {
        let mut part = [0; 4096];
        let length = rustix::io::read(from.as_fd(), &mut part).unwrap_or(0);
        self.unread.extend_from_slice(&part[..length]);
        while let Some(end) = memchr::memchr(b'\n', &self.unread) {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let name = String::from_utf8_lossy(line.get(1..end).unwrap_or_default()).into_owned();
            match line.first() {
                Some(b'+') => {
                    self.begun.insert(name, Some(clock::now()));
                }
                Some(b'~') => {
                    self.begun.insert(name, None);
                }
                Some(b'=') => note(&name),
                _ => {
                    self.begun.remove(&name);
                }
            }
        }
        length
    }
}

/// The child: judges, and ends.
fn serve(
    limits: Limits,
    parent: OwnedFd,
    left_out: BTreeMap<String, String>,
    suspects: BTreeSet<String>,
    work: &impl Fn() -> Exit,
) -> ! {
    // The parent may be gone already: then nobody waits for a report.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    set_limit(Resource::Core, 1);
    set_limit(Resource::Data, data_size().saturating_add(limits.memory));
    let _ = CHILD.set(Child {
        parent: Mutex::new(parent.into()),
        left_out,
        suspects,
        turn: RwLock::new(()),
    });
    let exit = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Exit::Internal);
    std::process::exit(exit.code().into())
}

/// Lowers a limit of this process.
fn set_limit(resource: Resource, most: u64) {
    let limit = getrlimit(resource);
    let most = limit.current.map_or(most, |current| current.min(most));
    let lowered = Rlimit {
        current: Some(most),
        ..limit
    };
    // Without it the limit of time holds.
    let _ = setrlimit(resource, lowered);
}

/// A process's resident memory in bytes; 0 where /proc does not say.
fn memory_of(pid: Pid) -> u64 {
    status(&format!("/proc/{}/status", pid.as_raw_nonzero()), "VmRSS:")
}

/// What `RLIMIT_DATA` counts of this process.
fn data_size() -> u64 {
    status("/proc/self/status", "VmData:")
}

/// A line of proc_pid_status(5), in bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "what processes of this program take"
)]
fn status(path: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kibibytes.map_or(0, |number| number.parse().unwrap_or(0)) << 10
}

enum Fork {
    Parent(Pid),
    Child,
}

/// This process twice; `None` where the system has no room for another.
#[expect(
    unsafe_code,
    reason = "rustix has no fork(2) for programs with a C library"
)]
fn fork() -> Option<Fork> {
    // SAFETY: in the child this thread alone goes on. Where the parent has others, they wait for
    // connections and hold no lock; a child that waits for one
    // that is held for ever is ended by its limit of time.
    match unsafe { libc::fork() } {
        0 => Some(Fork::Child),
        pid if pid > 0 => Pid::from_raw(pid).map(Fork::Parent),
        _ => None,
    }
}
