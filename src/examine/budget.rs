//! The limits within which is judged what others wrote: recordings, texts, archives, other nodes.

use std::path::Path;
use std::time::Duration;

use super::given::Given;
use super::sink::Sink;
use super::unusable::{BadInput, ended};
use crate::exit::Exit;
use crate::live::judging_child::{self, Ended, Limits};
use crate::live::{deadline, environment, files};
use crate::source::recording::{Recording, RecordingBudget};
use crate::terminal;

/// What one input may take.
const ONE: Limits = Limits {
    memory: 1_000_000_000,
    time: Duration::from_secs(120),
};
/// Lowers these limits, for tests: megabytes and seconds, as `64,2`.
const VARIABLE: &str = "RDMA_DOCTOR_JUDGING";

/// What may pass between the end of reading and the report, before there is none.
pub const REPORTING: Duration = Duration::from_secs(10);

/// The least memory with which a recording is read: the largest real one takes a tenth of it.
const OF_ONE: u64 = 128 << 20;
/// The least that a node may send, packed: ten times what the largest real recording has.
const LEAST_MESSAGE: u64 = 4 << 20;
/// The most that a node may send.
const MOST_MESSAGE: u64 = 64 << 20;

/// Memory for the recordings of all nodes together.
#[derive(Clone, Copy, Debug)]
pub struct ClusterMemory(pub u64);

impl Default for ClusterMemory {
    fn default() -> Self {
        ClusterMemory(4 << 30)
    }
}

impl ClusterMemory {
    /// How many recordings are judged at once.
    pub fn threads(self) -> usize {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        threads.clamp(1, usize::try_from(self.0 / OF_ONE).unwrap_or(1).max(1))
    }

    /// What those take that are judged at once.
    pub fn at_once(self) -> u64 {
        OF_ONE * self.threads() as u64
    }

    /// What each of those may take.
    pub fn of_each(self) -> RecordingBudget {
        RecordingBudget::of((self.0 / self.threads() as u64).max(OF_ONE))
    }

    /// The longest message of one of these nodes, which rank 0 keeps until all have sent theirs.
    pub fn message(self, nodes: u64) -> u64 {
        (self.0 / nodes.max(1)).clamp(LEAST_MESSAGE, MOST_MESSAGE)
    }
}

/// What is judged that others wrote.
#[derive(Clone, Copy, Debug, Default)]
pub struct Foreign {
    /// Memory for several inputs together.
    pub together: Option<ClusterMemory>,
    /// When the program ends without a report.
    pub deadline: Option<Duration>,
}

impl Foreign {
    /// Several inputs, with this memory.
    pub fn of_several(memory: ClusterMemory) -> Self {
        Foreign {
            together: Some(memory),
            deadline: None,
        }
    }
}

/// Reads and judges what others wrote by its deadline.
///
/// # Errors
///
/// Those of [`bounded`].
pub fn foreign(
    foreign: &Foreign,
    sink: &dyn Sink,
    work: impl Fn() -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    if let Some(deadline) = foreign.deadline {
        deadline::end_after(deadline);
    }
    bounded(foreign.together, sink, work)
}

/// Judges in a child, which one input ends and not this process: the others are judged all the
/// same. `together` is the memory for several.
///
/// # Errors
///
/// What could not be judged at all; where no child can be made, those of `work`.
pub fn bounded(
    together: Option<ClusterMemory>,
    sink: &dyn Sink,
    work: impl Fn() -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    if judging_child::is_child() {
        return work();
    }
    match judging_child::supervised(limits(together), || ended(work(), sink)) {
        Ended::With(exit) => Ok(exit),
        Ended::Failed(why) => Err(BadInput(format!("cannot be judged: the judging {why}")).into()),
        Ended::Impossible => {
            sink.say("no child process can be made: memory and time have no limit");
            work()
        }
    }
}

/// Reads or judges what a file or a directory holds within the limits of one input. What comes out
/// of a pipe lasts as long as its writer takes.
///
/// # Errors
///
/// It went beyond the limits: which.
pub fn file<T>(path: &Path, work: impl FnOnce() -> T) -> Result<T, String> {
    let name = terminal::path(path);
    match files::is_file_or_directory(path) {
        true => judging_child::input(&name, work),
        false => judging_child::pipe_input(&name, work),
    }
}

/// What is at a path. What does not say it within the limits is a text that does not either.
pub fn given_at(path: &Path) -> Given {
    file(path, || Given::of_path(path)).unwrap_or_else(|_| Given::Text(path.to_owned()))
}

/// Reads these recordings, and texts with outputs of tools in their place.
///
/// # Errors
///
/// [`BadInput`] where one is unreadable or invalid.
pub fn open(paths: &[impl AsRef<Path>], sink: &dyn Sink) -> anyhow::Result<Vec<Recording>> {
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        all.extend(read(&given_at(path.as_ref()), sink)?);
    }
    Ok(all)
}

/// Reads or asks what was given, within the limits of one input where others wrote it.
///
/// # Errors
///
/// Those of [`Given::recordings`]; it went beyond the limits.
pub fn read(given: &Given, sink: &dyn Sink) -> anyhow::Result<Vec<Recording>> {
    match given.path().filter(|_| !given.is_asked()) {
        Some(path) => {
            file(path, || given.recordings(sink)).map_err(|why| BadInput::of(path, why))?
        }
        None => given.recordings(sink),
    }
}

fn limits(together: Option<ClusterMemory>) -> Limits {
    let said = environment::variable(VARIABLE);
    let said = said.as_deref().and_then(|said| said.split_once(','));
    let lowered = said.and_then(|(megabytes, seconds)| {
        let memory = megabytes.parse::<u64>().ok()?.checked_mul(1_000_000)?;
        let time = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
        Some(Limits {
            memory: memory.min(ONE.memory),
            time: time.min(ONE.time),
        })
    });
    let together = together.map_or(0, ClusterMemory::at_once);
    lowered.unwrap_or(Limits {
        memory: ONE.memory.saturating_add(together),
        ..ONE
    })
}
