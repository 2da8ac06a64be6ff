//! The limits within which is judged what others wrote: recordings, texts, archives, other nodes.

use std::path::Path;
use std::time::Duration;

use super::input::BadInput;
use super::many::ClusterMemory;
use super::output;
use crate::exit::Exit;
use crate::live::judging_child::{self, Ended, Limits};
use crate::live::{deadline, environment, files};
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
pub fn foreign(foreign: &Foreign, work: impl Fn() -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    if let Some(deadline) = foreign.deadline {
        deadline::end_after(deadline);
    }
    bounded(foreign.together, work)
}

/// Judges in a child, which one input ends and not this process: the others are judged all the
/// same. `together` is the memory for several.
///
/// # Errors
///
/// What could not be judged at all; where no child can be made, those of `work`.
pub fn bounded(
    together: Option<ClusterMemory>,
    work: impl Fn() -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    if judging_child::is_child() {
        return work();
    }
    match judging_child::supervised(limits(together), || super::ended(work())) {
        Ended::With(exit) => Ok(exit),
        Ended::Failed(why) => Err(BadInput(format!("cannot be judged: the judging {why}")).into()),
        Ended::Impossible => {
            output::say("no child process can be made: memory and time have no limit");
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
