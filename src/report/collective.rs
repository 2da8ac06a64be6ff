//! What collectives measured: a row for each operation and size, and the ranks that did not end well.

pub mod nccl_tests;
pub mod text;

use serde::Serialize;

use crate::fact::{Facts, Id, Percent, limit};
use crate::measure::plan::reply::{Carried, Ended, GpuMemory, RankReply};
use crate::measure::plan::results::{Results, Row};
use crate::measure::plan::run::Backend;
use crate::measure::plan::scope::Scopes;
use crate::measure::plan::statistics;
use crate::sentence::Sentence;

/// Version of the JSON form: `major.minor`. Fields are added in a minor version; a major one changes or removes some.
pub const SCHEMA: &str = "rdma-doctor-collective/1.1";

/// The measurements of a node. Quantities are numbers in their base unit: bytes, bits per second, seconds.
#[derive(Debug, Default, Serialize)]
pub struct Collectives {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The node's name.
    pub node: String,
    /// The backend that moved the data: "nccl", "verbs", "tcp".
    pub backend: &'static str,
    /// The library that was loaded, and its version as it says itself.
    pub library: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The ranks, in their order.
    pub ranks: Vec<Rank>,
    /// Each operation and size.
    pub rows: Vec<MeasuredPoint>,
    /// The ranks that did not end well: first those that ended by themselves.
    pub troubles: Vec<FailedRank>,
    /// Files in shared memory that killed ranks left, and that were removed.
    pub removed: Vec<String>,
    /// The same operation in parts of a job of several nodes; `null` if it has none.
    pub scopes: Option<Scopes>,
    /// The meaning of that: how much slower several nodes are than one, and what to expect.
    pub against_one_node: Option<String>,
    /// What RDMA writes from GPU to GPU reach against the same ones in the host's memory; `null` where not both were measured.
    pub against_host_memory: Option<String>,
    /// Which nodes are the bottleneck, or the link between them; `null` if not measured.
    pub what_is_slow: Option<Sentence>,
    /// Why nothing was measured; `null` where something was.
    pub nothing: Option<String>,
}

/// A rank.
#[derive(Debug, Serialize)]
pub struct Rank {
    /// Its GPU, by its PCI address.
    pub gpu: Option<String>,
    /// The device that it used, in the backend's words.
    pub device: Option<String>,
    /// The host's name.
    pub host: Option<String>,
    /// What its port carried meanwhile, if the backend uses a port that counts.
    pub carried: Option<Carried>,
    /// How its adapter accessed the GPU's memory, or why it could not, if RDMA writes went from GPU to GPU.
    pub gpu_memory: Option<GpuMemory>,
}

/// An operation of one size.
#[derive(Debug, Serialize)]
pub struct MeasuredPoint {
    /// The operation.
    pub collective: &'static str,
    /// Its size in bytes, as nccl-tests counts it.
    pub size: u64,
    /// Its size in elements, as nccl-tests counts them: of a rank's part where each rank has one.
    pub count: u64,
    /// The type of an element.
    pub dtype: &'static str,
    /// How elements are put together; "none" if they are only moved.
    pub op: &'static str,
    /// Whether the result replaced what was sent.
    pub in_place: bool,
    /// Where the data was: "host", "gpu".
    pub memory: &'static str,
    /// Operations that were timed together.
    pub iterations: u64,
    /// Trials that came first and did not count.
    pub warmups: u64,
    /// Trials that were timed, of all ranks.
    pub trials: u64,
    /// How long an operation took: the mean over the ranks, the median of the trials.
    pub time: Option<f64>,
    /// The mean of the trials, as nccl-tests has it.
    pub time_mean: Option<f64>,
    /// The standard deviation of the trials, in percent of their mean, as nccl-tests has it.
    pub variation: Option<f64>,
    /// The interquartile range of the trials, in percent of the median.
    pub spread: Option<f64>,
    /// Whether the trials agree enough for the median to count.
    pub steady: Option<bool>,
    /// Size by time.
    pub algbw: Option<u64>,
    /// The traffic of the hardware in one direction.
    pub busbw: Option<u64>,
    /// The mean of the bus bandwidths of the trials, as all_reduce_bench has it.
    pub busbw_mean: Option<u64>,
    /// Elements whose value was looked at, on all ranks.
    pub checked: u64,
    /// How many of these are wrong.
    pub wrong: u64,
    /// The first rank that has a wrong one, and its place there.
    pub first_wrong: Option<(usize, u64)>,
}

/// A rank that failed.
#[derive(Debug, Serialize)]
pub struct FailedRank {
    /// Its number.
    pub rank: usize,
    /// Its outcome: "failed", "hung", "slow", "died", "stopped".
    pub ended: &'static str,
    /// The last step that it reached.
    pub step: String,
    /// Why it failed.
    pub why: String,
}

impl FailedRank {
    fn of(rank: usize, reply: &RankReply) -> Option<Self> {
        let (ended, why) = match &reply.ended {
            Ended::Well => return None,
            Ended::Failed {
                function,
                code,
                error,
            } => (
                "failed",
                match code {
                    Some(code) => format!("{function}: {error} ({code})"),
                    None => format!("{function}: {error}"),
                },
            ),
            Ended::Hung => ("hung", "no end by the deadline".into()),
            Ended::Slow { .. } => ("slow", reply.ended.progress().unwrap_or_default()),
            Ended::Died { how } => ("died", how.clone()),
            Ended::Stopped { why } => ("stopped", why.clone()),
        };
        Some(FailedRank {
            rank,
            ended,
            step: reply.step.clone(),
            why,
        })
    }
}

impl MeasuredPoint {
    fn of(row: &Row, ranks: u64, backend: Backend, most: Percent) -> Self {
        let point = &row.point;
        let time = row.time();
        let elements = point.bytes / point.dtype.size() as u64;
        let shape = point
            .collective
            .shape(elements as usize, ranks.max(1) as usize);
        let collective = point.collective;
        let rates: Vec<f64> = row.seconds.iter().map(|seconds| 1.0 / seconds).collect();
        MeasuredPoint {
            collective: collective.word(),
            size: point.bytes,
            count: shape.send.min(shape.receive) as u64,
            dtype: point.dtype.word(),
            op: match collective.reduces() {
                true => point.op.word(),
                false => "none",
            },
            in_place: point.in_place,
            memory: match backend == Backend::Nccl || point.gpu_memory {
                true => "gpu",
                false => "host",
            },
            iterations: point.iterations,
            warmups: row.warmups,
            trials: row.seconds.len() as u64,
            time,
            time_mean: statistics::mean(&row.seconds),
            variation: statistics::variation(&row.seconds),
            spread: row.spread(),
            steady: row.spread().map(|spread| spread <= most.0),
            algbw: time.and_then(|t| Some(collective.algbw(point.bytes, t)?.0)),
            busbw: time.and_then(|t| Some(collective.busbw(point.bytes, t, ranks)?.0)),
            // The mean of rates is the rate of the harmonic mean of times.
            busbw_mean: statistics::mean(&rates)
                .and_then(|rate| Some(collective.busbw(point.bytes, 1.0 / rate, ranks)?.0)),
            checked: row.checked,
            wrong: row.wrong,
            first_wrong: row.first_wrong,
        }
    }
}

/// The bandwidth of the largest operation on GPUs, as a share of that in the host's memory.
fn against_host_memory(rows: &[MeasuredPoint]) -> Option<String> {
    let gpu = rows
        .last()
        .filter(|row| row.memory == "gpu" && row.wrong == 0)?;
    let same = |row: &&MeasuredPoint| {
        row.memory == "host"
            && row.wrong == 0
            && (row.collective, row.size, row.dtype) == (gpu.collective, gpu.size, gpu.dtype)
    };
    let host = rows.iter().find(same)?;
    let (own, of_host) = (gpu.busbw?, host.busbw.filter(|rate| *rate > 0)?);
    let digits = |rate: u64| text::digits(text::gigabytes(rate));
    Some(format!(
        "from GPU to GPU {} GB/s, in the host's memory {} GB/s: {:.0} %",
        digits(own),
        digits(of_host),
        100.0 * own as f64 / of_host as f64
    ))
}

impl Collectives {
    /// The results of the baseline.
    pub fn of(facts: &Facts, node: Id, results: &Results) -> Self {
        let plan = &results.plan;
        let replies = || {
            let of_rank = |rank: usize| {
                results
                    .of(0)
                    .find_map(move |run| run.ranks.get(rank)?.as_ref().ok())
            };
            (0..plan.ranks.len()).map(of_rank)
        };
        let ranks = plan.ranks.iter().zip(replies()).map(|(place, reply)| Rank {
            gpu: place.gpu.clone(),
            device: reply.and_then(|reply| reply.device.clone()),
            host: reply.and_then(|reply| reply.host.clone()),
            carried: reply.and_then(|reply| reply.carried),
            gpu_memory: reply.and_then(|reply| reply.gpu_memory.clone()),
        });
        let library = |of: fn(&RankReply) -> Option<String>| replies().flatten().find_map(of);
        let count = plan.ranks.len() as u64;
        let most = facts.limit(limit::COLLECTIVE_SPREAD);
        let rows = results.rows(0);
        let of_runs = || results.of(0).flat_map(|run| run.troubles());
        let removed = results
            .of(0)
            .flat_map(|run| run.ranks.iter().flatten())
            .flat_map(|reply| reply.removed.iter().cloned());
        let rows: Vec<MeasuredPoint> = rows
            .iter()
            .map(|row| MeasuredPoint::of(row, count, plan.backend, most))
            .collect();
        Collectives {
            schema: SCHEMA,
            node: facts.name(node).to_owned(),
            backend: plan.backend.word(),
            library: library(|reply| reply.library.clone()).or_else(|| plan.library.clone()),
            version: library(|reply| reply.version.clone()),
            ranks: ranks.collect(),
            against_host_memory: against_host_memory(&rows),
            rows,
            troubles: of_runs()
                .filter_map(|(rank, reply)| FailedRank::of(rank, reply))
                .collect(),
            removed: removed.collect(),
            ..Collectives::default()
        }
    }

    /// Nothing was measured, for this reason.
    pub fn nothing(facts: &Facts, node: Id, why: String) -> Self {
        Collectives {
            schema: SCHEMA,
            node: facts.name(node).to_owned(),
            backend: Backend::Tcp.word(),
            nothing: Some(why),
            ..Collectives::default()
        }
    }

    /// Whether a rank was started.
    pub fn is_measured(&self) -> bool {
        self.nothing.is_none()
    }

    /// Whether ranks did not end well, or values are wrong.
    pub fn went_badly(&self) -> bool {
        !self.troubles.is_empty() || self.rows.iter().any(|row| row.wrong > 0)
    }
}
