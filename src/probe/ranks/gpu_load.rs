//! What the GPUs of ranks do, looked at twice: a kernel that only waits for its peers keeps a GPU
//! busy, moves nothing in its memory and draws little power.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::found::FoundJob;
use super::rails::is_not_recorded;
use crate::fact::{Facts, Gap, Percent, Why, limit};
use crate::probe::{Ask, member};
use crate::source::{Question, Refusal};

/// What a GPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GpuPace {
    /// No kernel runs on it.
    Idle,
    /// A kernel runs, reads and writes nothing, and draws little power: it waits for others.
    Spins,
    /// It computes, or moves data.
    Works,
}

/// What NVML says of a GPU at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    /// The share of time in which a kernel ran.
    kernel: Percent,
    /// The share of time in which memory was read or written.
    memory: Percent,
    watts: f64,
    watts_limit: f64,
}

/// A GPU in both looks.
#[derive(Clone, Debug)]
pub(super) struct GpuLoad {
    samples: [Sample; 2],
    /// The processes that use it, and those above them.
    users: BTreeSet<u64>,
}

/// The GPUs of a node in both looks.
#[derive(Clone, Debug, Default)]
pub(super) struct GpuLoads {
    all: Vec<GpuLoad>,
    /// Why GPUs did not answer.
    pub(super) gaps: Vec<Gap>,
    /// False of a recording that does not hold the first question about them.
    pub(super) was_asked: bool,
}

/// The first look.
pub(super) struct Look {
    indexes: Vec<u64>,
    first: Vec<Option<Sample>>,
    gaps: Vec<Gap>,
    was_asked: bool,
}

/// A process of a GPU.
#[derive(Deserialize)]
struct User {
    pid: u64,
    #[serde(default)]
    ancestors: Vec<u64>,
}

impl Look {
    /// Asks NVML, where NVIDIA's driver is loaded and somebody computes.
    pub(super) fn ask(ask: &Ask<'_>, jobs: &[FoundJob]) -> Self {
        let mut look = Look {
            indexes: Vec::new(),
            first: Vec::new(),
            gaps: Vec::new(),
            was_asked: true,
        };
        if jobs.is_empty() {
            return look;
        }
        let system = ask.value(Question::call("nvml_system", []));
        let count = system.and_then(|said| member::<u64>(&said, "nvmlDeviceGetCount_v2"));
        match count.into_result() {
            Ok(count) => look.indexes = (0..count.min(super::GPUS)).collect(),
            Err(gap) if is_without_driver(&gap) => {}
            Err(gap) => {
                look.was_asked = !is_not_recorded(&gap);
                look.gaps.push(gap);
            }
        }
        for index in &look.indexes {
            let (sample, _) = of_gpu(ask, *index, &mut look.gaps);
            look.first.push(sample);
        }
        look
    }

    /// Asks again.
    pub(super) fn look_again(self, ask: &Ask<'_>) -> GpuLoads {
        let mut loads = GpuLoads {
            all: Vec::new(),
            gaps: self.gaps,
            was_asked: self.was_asked,
        };
        for (index, first) in self.indexes.into_iter().zip(self.first) {
            let (second, users) = of_gpu(ask, index, &mut loads.gaps);
            if let (Some(first), Some(second)) = (first, second) {
                let samples = [first, second];
                loads.all.push(GpuLoad { samples, users });
            }
        }
        loads
    }
}

/// Whether there is no driver, so that no GPU of NVIDIA's computes.
fn is_without_driver(gap: &Gap) -> bool {
    matches!(gap.why, Why::Refused(Refusal::NotAsked(_)))
}

/// What a GPU does, and for whom. A function that the GPU does not support says nothing, and is no
/// gap: a GPU in MIG mode has no utilisation.
fn of_gpu(ask: &Ask<'_>, index: u64, gaps: &mut Vec<Gap>) -> (Option<Sample>, BTreeSet<u64>) {
    let question = Question::call("nvml_load", [("index", index.into())]);
    let said = match ask.value(question.clone()).into_result() {
        Ok(said) => said,
        Err(gap) => {
            gaps.push(gap);
            return (None, BTreeSet::new());
        }
    };
    let users = said.get("nvmlDeviceGetComputeRunningProcesses");
    let users = users.and_then(|users| Vec::<User>::deserialize(users).ok());
    let all = users.unwrap_or_default().into_iter();
    let users = all.flat_map(|user| user.ancestors.into_iter().chain([user.pid]));
    (sample(&said), users.collect())
}

fn sample(said: &Value) -> Option<Sample> {
    let rates = said.get("nvmlDeviceGetUtilizationRates")?;
    let percent = |name: &str| Some(Percent(rates.get(name)?.as_u64()? as f64));
    // NVML counts in milliwatts.
    let watts = |name: &str| Some(said.get(name)?.as_u64()? as f64 / 1e3);
    Some(Sample {
        kernel: percent("gpu")?,
        memory: percent("memory")?,
        watts: watts("nvmlDeviceGetPowerUsage")?,
        watts_limit: watts("nvmlDeviceGetEnforcedPowerLimit")?,
    })
}

impl Sample {
    fn pace(&self, facts: &Facts) -> GpuPace {
        let share = Percent(100.0 * self.watts / self.watts_limit.max(1.0));
        if self.kernel < facts.limit(limit::GPU_IDLE_BELOW) {
            GpuPace::Idle
        } else if self.kernel >= facts.limit(limit::GPU_SPINS_FROM)
            && self.memory <= facts.limit(limit::GPU_SPINS_MEMORY)
            && share < facts.limit(limit::GPU_SPINS_POWER)
        {
            GpuPace::Spins
        } else {
            GpuPace::Works
        }
    }
}

impl GpuLoads {
    /// Whether the node has GPUs that answered.
    pub(super) fn are_there(&self) -> bool {
        !self.all.is_empty()
    }

    /// What the GPUs of these processes did in both looks; `None` where they use none that is known.
    pub(super) fn of_processes(&self, pids: &[u32], facts: &Facts) -> Option<(GpuPace, String)> {
        let is_used = |gpu: &&GpuLoad| pids.iter().any(|pid| gpu.users.contains(&u64::from(*pid)));
        let used: Vec<&GpuLoad> = self.all.iter().filter(is_used).collect();
        let paces: Vec<GpuPace> = used.iter().map(|gpu| gpu.pace(facts)).collect();
        let most = paces.iter().max()?;
        // Of several GPUs, of which some are idle, nobody knows which the rank needs.
        let pace = if paces.iter().all(|one| one == most) {
            *most
        } else {
            GpuPace::Works
        };
        Some((pace, in_words(used.first()?)))
    }
}

impl GpuLoad {
    fn pace(&self, facts: &Facts) -> GpuPace {
        let [first, second] = self.samples.map(|sample| sample.pace(facts));
        if first == second {
            first
        } else {
            GpuPace::Works
        }
    }
}

/// `100 % busy, memory 0 %, 118 W of 700 W`
fn in_words(gpu: &GpuLoad) -> String {
    let [_, last] = gpu.samples;
    format!(
        "{} busy, memory {}, {:.0} W of {:.0} W",
        last.kernel, last.memory, last.watts, last.watts_limit
    )
}
