//! Whether a network is fast enough for a training: the data it sends, how long that takes, and the assumptions.

pub mod text;

use serde::Serialize;

use super::plural;
use crate::derive::bandwidth_model;
use crate::derive::step_time::{
    Blame, Class, EXPLAINS, Growth, Measured, Parallel, Step, Training,
};
use crate::measure::plan::alpha_beta::AlphaBeta;

/// Version of the JSON form: `major.minor`. Fields are added in a minor version; a major one changes or removes some.
pub const SCHEMA: &str = "rdma-doctor-advice/1.1";

/// Where a bandwidth comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The command line.
    Given,
    /// A measurement in a recording: which.
    Recorded(String),
    /// Nothing was measured: a ceiling of the node, with what binds it.
    Ceiling(String),
}

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The training, and the machines.
    pub training: Training,
    /// The type of parameters, as it was named.
    pub dtype: &'static str,
    /// The bandwidth, with what is known of how it was measured.
    pub measured: Measured,
    /// Its source.
    pub source: Source,
    /// The total bandwidth of a node's adapters in Gb/s, if the node is known.
    pub network: Option<f64>,
    /// How long a step takes, in seconds.
    pub step: Option<f64>,
    /// How long it computes.
    pub compute: Option<f64>,
    /// How long a step takes on one node, with as much work for each GPU.
    pub single_node: Option<f64>,
}

/// The answer. Quantities are numbers in their base unit: bytes, bits per second, seconds; parts are in percent.
#[derive(Debug, Serialize)]
pub struct Advice {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The training.
    pub training: TrainedModel,
    /// The bandwidth that is reckoned with.
    pub bandwidth: Bandwidth,
    /// The communication of a step.
    pub communication: Communication,
    /// Whether the network of a node is enough; `null` where experience says nothing: not ZeRO-3, or fewer than 64 GPUs.
    pub class: Option<NetworkClass>,
    /// The communication that must overlap with computation; `null` if the time of computation is not given.
    pub hide: Option<OverlapNeed>,
    /// How the measured step divides; `null` if it is not given.
    pub step: Option<StepDivision>,
    /// What explains that the step is slower than on one node; `null` if that is not given.
    pub slowdown: Option<Slowdown>,
    /// The same on as many nodes as are asked for, over each algorithm.
    pub growth: Vec<ScaledCommunication>,
    /// The assumptions.
    pub assumptions: Vec<String>,
}

/// The training, and the machines.
#[derive(Debug, Serialize)]
pub struct TrainedModel {
    /// Parameters.
    pub parameters: f64,
    /// Their type.
    pub dtype: &'static str,
    /// Bytes of one.
    pub bytes: f64,
    /// How the state is divided: "ddp", "zero1", "zero2", "zero3".
    pub parallel: &'static str,
    /// Nodes.
    pub nodes: u64,
    /// GPUs of each.
    pub gpus_per_node: u64,
    /// GPUs that share each layer.
    pub tensor_parallel: u64,
    /// Stages of the pipeline; 1 for none.
    pub pipeline_parallel: u64,
    /// Ranks that hold the same part of each layer.
    pub data_ranks: u64,
    /// Bytes of one collective; `null` for all in one.
    pub bucket: Option<f64>,
}

/// The bandwidth that is reckoned with.
#[derive(Debug, Serialize)]
pub struct Bandwidth {
    /// busbw of an all-reduce, bits per second.
    pub busbw: u64,
    /// Whether it was measured; else it is a ceiling.
    pub measured: bool,
    /// Its source.
    pub source: String,
    /// On how many nodes it holds.
    pub nodes: u64,
    /// How long a small all-reduce takes there.
    pub latency: Option<f64>,
    /// The size in bytes at which latency and bandwidth take as long, there.
    pub knee: Option<f64>,
}

/// The communication of a step.
#[derive(Debug, Serialize)]
pub struct Communication {
    /// Its parts.
    pub collectives: &'static str,
    /// How many collectives, with the bucket's size.
    pub count: f64,
    /// The data that each GPU sends.
    pub sent_by_each: f64,
    /// How long it takes, with what stages send to each other.
    pub seconds: f64,
    /// What stages send to each other; `null` without a pipeline.
    pub pipeline: Option<StageTraffic>,
    /// Over which algorithm that is, if it makes a difference: "ring" or "tree".
    pub algorithm: Option<&'static str>,
}

/// What the stages of a pipeline send to each other in a step.
#[derive(Debug, Serialize)]
pub struct StageTraffic {
    /// Micro-batches.
    pub micro_batches: u64,
    /// Bytes that one of them hands from a stage to the next.
    pub activations: f64,
    /// The data that each GPU sends to other stages.
    pub sent_by_each: f64,
    /// How long it takes.
    pub seconds: f64,
    /// The part of a step in which a stage waits for others, whatever the network.
    pub bubble: f64,
}

/// Whether the network of a node is enough.
#[derive(Debug, Serialize)]
pub struct NetworkClass {
    /// The bandwidth assumed for a node's network.
    pub network: u64,
    /// What that is: the adapters, or the busbw.
    pub from: &'static str,
    /// "not enough", "acceptable", "ideal".
    pub class: &'static str,
}

/// The communication that must overlap with computation.
#[derive(Debug, Serialize)]
pub struct OverlapNeed {
    /// How long a step computes.
    pub compute: f64,
    /// The part of the computation beside which something has to be sent, for all communication to be hidden.
    pub share: f64,
}

/// How a measured step divides.
#[derive(Debug, Serialize)]
pub struct StepDivision {
    /// How long it takes.
    pub seconds: f64,
    /// The part of it that is communication, seen or hidden.
    pub communication_share: f64,
    /// How much of the communication is seen, at most.
    pub exposed: f64,
    /// How much is hidden; `null` if the time of computation is not given.
    pub hidden: Option<f64>,
    /// Whether the communication alone would take longer than the step: then a number that was given is wrong.
    pub contradicts: bool,
}

/// What explains that a step is slower than on one node.
#[derive(Debug, Serialize)]
pub struct Slowdown {
    /// How long a step takes on one node.
    pub single_node: f64,
    /// How much longer it takes.
    pub excess: f64,
    /// The part of the excess that is communication which nothing hides, at most.
    pub share: f64,
    /// From which part on the network explains it.
    pub explains_from: f64,
    /// "network", "network-possible" (if computation hides none of it), "elsewhere", "nothing".
    pub explained_by: &'static str,
}

/// The same on as many nodes as are asked for.
#[derive(Debug, Serialize)]
pub struct ScaledCommunication {
    /// "ring" or "tree".
    pub algorithm: &'static str,
    /// Ranks.
    pub ranks: u64,
    /// How long a small all-reduce takes; `null` if no latency is given.
    pub latency: Option<f64>,
    /// busbw of a collective of the bucket's size, bits per second.
    pub busbw: u64,
    /// How long the communication of a step takes.
    pub communication: f64,
}

/// An impossible input.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum InputError {
    /// The latency is longer than all of the measured collective.
    #[error("a latency of {0} s is longer than a whole all-reduce of this size at this bandwidth")]
    Latency(f64),
    /// One node and several have different bandwidths.
    #[error(
        "a bandwidth measured on {} does not apply to {}: links inside a node differ from links between nodes",
        plural(*measured, "node"),
        plural(*asked, "node")
    )]
    OtherNetwork {
        /// Where it was measured.
        measured: u64,
        /// The question.
        asked: u64,
    },
    /// A step that is shorter than its computation.
    #[error("a step of {step} s cannot compute for {compute} s")]
    Compute {
        /// The step.
        step: f64,
        /// Its computation.
        compute: f64,
    },
}

impl Advice {
    /// The answer.
    ///
    /// # Errors
    ///
    /// Numbers that contradict each other.
    pub fn of(question: &Question) -> Result<Self, InputError> {
        let Question {
            training,
            measured,
            step,
            compute,
            ..
        } = question;
        if (measured.nodes > 1) != (training.nodes > 1) {
            return Err(InputError::OtherNetwork {
                measured: measured.nodes,
                asked: training.nodes,
            });
        }
        if let (Some(step), Some(compute)) = (*step, *compute)
            && compute > step
        {
            return Err(InputError::Compute { step, compute });
        }
        let fitted = AlphaBeta::of(measured)
            .ok_or(InputError::Latency(measured.latency.unwrap_or_default()))?;
        let growth = grown(question, fitted);
        let stages = training.between_stages(fitted.beta);
        let best = growth
            .iter()
            .min_by(|a, b| a.communication.total_cmp(&b.communication));
        let (seconds, algorithm) = match best {
            Some(best) => (best.communication, Some(best.algorithm)),
            None => (stages + communication(training, fitted), None),
        };
        let pipeline = training.pipeline.map(|pipeline| StageTraffic {
            micro_batches: pipeline.micro_batches,
            activations: pipeline.activations,
            sent_by_each: training.sent_to_stages(),
            seconds: stages,
            bubble: percent(pipeline.bubble(), 1.0),
        });
        let mut assumptions = training.assumptions();
        assumptions.extend(rests_on(question));
        Ok(Advice {
            schema: SCHEMA,
            training: trained(question),
            bandwidth: Bandwidth {
                busbw: bandwidth_model::rate(measured.busbw).0,
                measured: !matches!(question.source, Source::Ceiling(_)),
                source: match &question.source {
                    Source::Given => "--busbw".to_owned(),
                    Source::Recorded(what) | Source::Ceiling(what) => what.clone(),
                },
                nodes: measured.nodes,
                latency: measured.latency,
                knee: fitted.knee(),
            },
            communication: Communication {
                collectives: training.parallel.collectives(),
                count: training.collectives(),
                sent_by_each: training.sent_by_each(),
                seconds,
                pipeline,
                algorithm,
            },
            class: classed(question),
            hide: compute.map(|compute| OverlapNeed {
                compute,
                share: percent(seconds, compute),
            }),
            step: step.map(|whole| divided(whole, seconds, *compute)),
            slowdown: match (*step, question.single_node) {
                (Some(whole), Some(single)) => Some(slowdown(whole, seconds, *compute, single)),
                _ => None,
            },
            growth,
            assumptions,
        })
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    (1000.0 * part / whole).round() / 10.0
}

fn trained(question: &Question) -> TrainedModel {
    let training = &question.training;
    TrainedModel {
        parameters: training.parameters,
        dtype: question.dtype,
        bytes: training.bytes,
        parallel: training.parallel.word(),
        nodes: training.nodes,
        gpus_per_node: training.gpus_per_node,
        tensor_parallel: training.tensor_parallel,
        pipeline_parallel: training.stages(),
        data_ranks: training.data_ranks(),
        bucket: training.bucket,
    }
}

/// How long the collectives of a step take. An all-reduce is a reduction and a gather, so each of these alone has half of its latency.
fn communication(training: &Training, fitted: AlphaBeta) -> f64 {
    let latency = match training.parallel {
        Parallel::Ddp => fitted.alpha,
        Parallel::Zero1 | Parallel::Zero2 | Parallel::Zero3 => fitted.alpha / 2.0,
    };
    training.communication(fitted.beta, latency)
}

/// The same on as many ranks as are asked for; nothing if these are as many as were measured.
fn grown(question: &Question, fitted: AlphaBeta) -> Vec<ScaledCommunication> {
    let Question {
        training, measured, ..
    } = question;
    let ranks = training.gpus();
    if ranks == measured.ranks || matches!(question.source, Source::Ceiling(_)) {
        return Vec::new();
    }
    // Gathers and scatters have no tree.
    let algorithms: &[Growth] = match training.parallel {
        Parallel::Ddp => &[Growth::Ring, Growth::Tree],
        _ => &[Growth::Ring],
    };
    let size = training.bucket.unwrap_or(training.part());
    let stages = training.between_stages(fitted.beta);
    let grow = |algorithm: &Growth| {
        let fitted = fitted.with_ranks(ranks, *algorithm);
        ScaledCommunication {
            algorithm: algorithm.word(),
            ranks,
            latency: measured.latency.map(|_| fitted.alpha),
            busbw: bandwidth_model::rate(fitted.busbw(size)).0,
            communication: stages + communication(training, fitted),
        }
    };
    algorithms.iter().map(grow).collect()
}

fn classed(question: &Question) -> Option<NetworkClass> {
    let (network, from) = match question.network {
        Some(network) => (network, "the node's adapters together"),
        None => (question.measured.busbw * 8.0, "the busbw"),
    };
    let class = Class::of(&question.training, network)?;
    Some(NetworkClass {
        network: bandwidth_model::rate(network / 8.0).0,
        from,
        class: class.word(),
    })
}

fn divided(whole: f64, communication: f64, compute: Option<f64>) -> StepDivision {
    let step = Step {
        whole,
        communication,
        compute,
    };
    let exposed = step.exposed_at_most();
    StepDivision {
        seconds: whole,
        communication_share: percent(communication, whole),
        exposed,
        hidden: compute.map(|_| communication - exposed),
        contradicts: communication > whole,
    }
}

fn slowdown(whole: f64, communication: f64, compute: Option<f64>, single: f64) -> Slowdown {
    let step = Step {
        whole,
        communication,
        compute,
    };
    let (blame, share) = Blame::of(step, single);
    Slowdown {
        single_node: single,
        excess: (whole - single).max(0.0),
        share: percent(share, 1.0),
        explains_from: percent(EXPLAINS, 1.0),
        explained_by: blame.word(),
    }
}

/// The source of the bandwidth.
fn rests_on(question: &Question) -> Vec<String> {
    let Question {
        training, measured, ..
    } = question;
    let mut said = Vec::new();
    match &question.source {
        Source::Ceiling(_) => said.push(
            "nothing was measured: the bandwidth is this node's hardware limit; the real one is lower (`rdma-doctor bench all-reduce` measures it)"
                .to_owned(),
        ),
        Source::Given | Source::Recorded(_) if training.gpus() != measured.ranks => {
            said.push(
                "more nodes are assumed to have the measured bandwidth: no oversubscribed uplink, no colliding routes"
                    .to_owned(),
            );
            if measured.nodes == 2 {
                said.push(
                    "by a tree two nodes can reach nearly twice the rate of their adapters; more nodes cannot: measure on three or more, or with NCCL_ALGO=Ring"
                        .to_owned(),
                );
            }
        }
        Source::Given | Source::Recorded(_) => {}
    }
    if measured.latency.is_none()
        && (training.bucket.is_some() || training.gpus() != measured.ranks)
    {
        said.push(
            "latency is not counted: give the time of a small all-reduce with --latency".to_owned(),
        );
    }
    if training.parallel != Parallel::Ddp && training.nodes == 2 && measured.nodes == 2 {
        said.push(
            "all-gather and reduce-scatter reach the rate of the adapters at most; an all-reduce on two nodes can exceed it, so a higher busbw does not apply"
                .to_owned(),
        );
    }
    said
}

#[cfg(test)]
mod tests;
