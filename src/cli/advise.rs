//! `rdma-doctor advise`: whether the network is enough for a training.

mod quantity;

use clap::{Args, ValueEnum};

use super::input::bad_usage;
use super::{Format, NodeArgs, input, output};
use crate::derive::bandwidth_model;
use crate::derive::step_time::{Measured, Parallel, Pipeline, Training};
use crate::exit::Exit;
use crate::fact::kleene::Several;
use crate::fact::measurement::{self, MeasurementBackend};
use crate::fact::{Facts, Id, Subject, gpu, path};
use crate::measure::plan::collective::Collective;
use crate::report::advice::{Advice, Question, Source, text};

/// Say whether the network is enough for a training: what a step sends, how long that takes, and what has to hide behind computation.
///
/// The bandwidth is that of --busbw, or of a measurement in the recording (`bench all-reduce`); where nothing was measured it is what the node's
/// hardware carries at most, and the answer says so. Each number is worked out by a model whose assumptions are listed.
#[derive(Debug, Args)]
pub struct AdviseArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Parameters of the model, as 7B or 70e9
    #[arg(long, value_name = "NUMBER", value_parser = quantity::parameters)]
    pub params: f64,
    /// The type in which parameters and gradients are sent
    #[arg(long, value_enum, default_value_t = Dtype::Bf16)]
    pub dtype: Dtype,
    /// How the training divides its state
    #[arg(long, value_enum)]
    pub parallel: Parallel,
    /// GPUs of a node that share each layer
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count())]
    pub tensor_parallel: u64,
    /// Stages that the layers are divided into, one behind the other
    #[arg(long, value_name = "N", requires_all = ["micro_batches", "activations"], value_parser = count())]
    pub pipeline_parallel: Option<u64>,
    /// Micro-batches of a step that go through the stages
    #[arg(long, value_name = "N", requires = "pipeline_parallel", value_parser = count())]
    pub micro_batches: Option<u64>,
    /// What one of them hands to the next stage, as 117MB: its tokens times the hidden size times the bytes of a value
    #[arg(long, value_name = "BYTES", requires = "pipeline_parallel", value_parser = quantity::size)]
    pub activations: Option<f64>,
    /// Nodes; 1 where neither this nor --gpus is given
    #[arg(long, value_name = "N", value_parser = count())]
    pub nodes: Option<u64>,
    /// GPUs in all
    #[arg(long, value_name = "N", value_parser = count())]
    pub gpus: Option<u64>,
    /// GPUs of each node; as many as the examined node has where it is not given
    #[arg(long, value_name = "N", value_parser = count())]
    pub gpus_per_node: Option<u64>,
    /// busbw that an all-reduce reaches, as "180 GB/s" or "1440 Gb/s"
    #[arg(long, value_name = "RATE", value_parser = quantity::bandwidth)]
    pub busbw: Option<f64>,
    /// On how many nodes that was; as many as the training has where it is not given
    #[arg(long, value_name = "N", requires = "busbw", value_parser = count())]
    pub measured_nodes: Option<u64>,
    /// The buffer of that all-reduce, as 4GB
    #[arg(long, value_name = "BYTES", requires_all = ["busbw", "latency"], value_parser = quantity::size)]
    pub size: Option<f64>,
    /// How long a small all-reduce takes there, as 40us
    #[arg(long, value_name = "TIME", requires = "busbw", value_parser = quantity::time)]
    pub latency: Option<f64>,
    /// Bytes of one collective of the training, as 25MB: a bucket of DDP, a layer of ZeRO-3
    #[arg(long, value_name = "BYTES", value_parser = quantity::size)]
    pub bucket: Option<f64>,
    /// How long a step takes, as 1.8 or 350ms
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    pub step_time: Option<f64>,
    /// How long a step computes
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    pub compute_time: Option<f64>,
    /// How long a step takes on one node, with as much work for each GPU
    #[arg(long, value_name = "TIME", requires = "step_time", value_parser = quantity::time)]
    pub single_node_step_time: Option<f64>,
    /// The answer's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// A number of nodes or GPUs.
fn count() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1_000_000)
}

/// A type of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    /// 32 bits.
    Fp32,
    /// 16 bits, with the exponent of 32.
    Bf16,
    /// 16 bits.
    Fp16,
    /// 8 bits.
    Fp8,
}

impl Dtype {
    fn bytes(self) -> f64 {
        match self {
            Dtype::Fp32 => 4.0,
            Dtype::Bf16 | Dtype::Fp16 => 2.0,
            Dtype::Fp8 => 1.0,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Dtype::Fp32 => "fp32",
            Dtype::Bf16 => "bf16",
            Dtype::Fp16 => "fp16",
            Dtype::Fp8 => "fp8",
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, numbers that contradict each other, a node of which the bandwidth is not known, an output that cannot be written.
pub fn run(args: &AdviseArgs) -> anyhow::Result<Exit> {
    let is_named = args.node.recording.is_some() || args.node.ask.root.is_some();
    // A machine is asked only where it has to tell something.
    let shape_is_said =
        args.gpus_per_node.is_some() || (args.nodes.is_some() && args.gpus.is_some());
    let asks = is_named || args.busbw.is_none() || !shape_is_said;
    let (facts, node) = match asks {
        true => {
            let (facts, nodes) = input::node(&args.node)?;
            let node = nodes.first().copied();
            (facts, node)
        }
        false => (Facts::new(), None),
    };
    let of_node = node.map(|node| gpus(&facts, node));
    let shape = shape(args, of_node.as_ref()).map_err(bad_usage)?;
    let training = Training {
        parameters: args.params,
        bytes: args.dtype.bytes(),
        parallel: args.parallel,
        tensor_parallel: args.tensor_parallel,
        nodes: shape.0,
        gpus_per_node: shape.1,
        bucket: args.bucket,
        pipeline: (args.pipeline_parallel.zip(args.micro_batches))
            .zip(args.activations)
            .map(|((stages, micro_batches), activations)| Pipeline {
                stages,
                micro_batches,
                activations,
            }),
    };
    if !training
        .gpus_per_node
        .is_multiple_of(training.tensor_parallel)
    {
        return Err(bad_usage(format!(
            "--tensor-parallel {} does not divide the {} GPUs of a node",
            training.tensor_parallel, training.gpus_per_node
        )));
    }
    let sharing = training.tensor_parallel.saturating_mul(training.stages());
    if !training.gpus().is_multiple_of(sharing) {
        return Err(bad_usage(format!(
            "{} stages of {} GPUs do not divide {} GPUs",
            training.stages(),
            training.tensor_parallel,
            training.gpus()
        )));
    }
    let (measured, source) = bandwidth(args, &facts, node, &training)?;
    let network = node
        .and_then(|node| facts.find(Subject::Path, node, "network"))
        .and_then(|network| facts.known(network, path::BANDWIDTH))
        .map(|rate| bandwidth_model::gigabytes(rate) * 8.0);
    let question = Question {
        training,
        dtype: args.dtype.word(),
        measured,
        source,
        network: network.filter(|_| training.nodes > 1),
        step: args.step_time,
        compute: args.compute_time,
        single_node: args.single_node_step_time,
    };
    let advice = Advice::of(&question).map_err(|nonsense| bad_usage(nonsense.to_string()))?;
    output::print(|out| match args.format {
        Format::Text => text::write(out, &advice, output::width()),
        Format::Json => output::write_json(out, &advice),
    })?;
    Ok(Exit::Healthy)
}

/// How many GPUs of NVIDIA the node has.
fn gpus(facts: &Facts, node: Id) -> Result<u64, String> {
    let gpus = Several::of(facts, node, gpu::NVIDIA);
    let count = gpus.count(|(_, is_nvidia)| *is_nvidia);
    count.map_err(|gap| gap.to_string())
}

/// Nodes, and GPUs of each.
fn shape(args: &AdviseArgs, of_node: Option<&Result<u64, String>>) -> Result<(u64, u64), String> {
    let each = match (args.gpus_per_node, args.nodes, args.gpus) {
        (Some(each), ..) => each,
        (None, Some(nodes), Some(all)) if all.is_multiple_of(nodes) => all / nodes,
        (None, Some(nodes), Some(all)) => {
            return Err(format!("{all} GPUs are not divided by {nodes} nodes"));
        }
        (None, ..) => match of_node {
            Some(Ok(count)) if *count > 0 => *count,
            Some(Ok(_)) => {
                return Err("the node has no GPU of NVIDIA: name --gpus-per-node".into());
            }
            Some(Err(why)) => {
                return Err(format!(
                    "how many GPUs the node has is not known ({why}): name --gpus-per-node"
                ));
            }
            None => return Err("name --gpus-per-node".into()),
        },
    };
    let nodes = match (args.nodes, args.gpus) {
        (Some(nodes), Some(all)) if nodes.checked_mul(each) != Some(all) => {
            return Err(format!("{nodes} nodes of {each} GPUs do not make {all}"));
        }
        (Some(nodes), _) => nodes,
        (None, Some(all)) if all <= each => return Ok((1, all)),
        (None, Some(all)) if all.is_multiple_of(each) => all / each,
        (None, Some(all)) => {
            return Err(format!(
                "{all} GPUs do not fill nodes of {each}: name --nodes"
            ));
        }
        (None, None) => 1,
    };
    Ok((nodes, each))
}

/// The bandwidth: as it is given, else as it was measured, else as the hardware can.
fn bandwidth(
    args: &AdviseArgs,
    facts: &Facts,
    node: Option<Id>,
    training: &Training,
) -> anyhow::Result<(Measured, Source)> {
    if let Some(busbw) = args.busbw {
        let nodes = args.measured_nodes.unwrap_or(training.nodes);
        let measured = Measured {
            busbw,
            size: args.size,
            latency: args.latency,
            nodes,
            ranks: match args.measured_nodes {
                Some(nodes) => nodes.saturating_mul(training.gpus_per_node),
                None => training.gpus(),
            },
        };
        return Ok((measured, Source::Given));
    }
    let Some(node) = node else {
        return Err(bad_usage("name --busbw, or a recording"));
    };
    if let Some(found) = recorded(facts, node, training.nodes > 1) {
        return Ok(found);
    }
    ceiling(facts, node, training)
}

/// The all-reduce of the largest size that was measured between GPUs, on several nodes or on one, as is asked.
fn recorded(facts: &Facts, node: Id, several: bool) -> Option<(Measured, Source)> {
    struct Found {
        size: u64,
        busbw: f64,
        nodes: u64,
        ranks: u64,
        quiet: bool,
    }
    let one = |id: Id| {
        let operation = facts.known(id, measurement::OPERATION)?;
        let is_nccl = facts.known(id, measurement::MEANS)? == MeasurementBackend::Nccl;
        let nodes = facts.known(id, measurement::NODES)?;
        if &*operation != "all-reduce" || !is_nccl || (nodes > 1) != several {
            return None;
        }
        // A fast result that is wrong is none.
        if facts.known(id, measurement::BASELINE_WRONG)? {
            return None;
        }
        Some(Found {
            size: facts.known(id, measurement::SIZE)?.0,
            busbw: bandwidth_model::gigabytes(facts.known(id, measurement::BUSBW)?),
            nodes,
            ranks: facts.known(id, measurement::RANKS)?,
            quiet: facts.known(id, measurement::QUIET)?,
        })
    };
    let found: Vec<Found> = facts
        .below(node, Subject::Measurement)
        .filter_map(one)
        .filter(|found| found.busbw > 0.0 && found.ranks > 1)
        .collect();
    let largest = found.iter().max_by_key(|found| found.size)?;
    if !bandwidth_model::judged_by_bandwidth(crate::fact::Bytes(largest.size), 1) {
        // A small message says nothing of the bandwidth.
        return None;
    }
    let alike = found.iter().filter(|one| one.ranks == largest.ranks);
    let smallest = alike.min_by_key(|one| one.size)?;
    // Up to here latency is nearly all of it.
    let latency = (smallest.size <= 64 << 10).then(|| {
        let sent = smallest.size as f64 * Collective::AllReduce.bus_factor(smallest.ranks);
        sent / (smallest.busbw * 1e9)
    });
    let measured = Measured {
        busbw: largest.busbw,
        size: Some(largest.size as f64),
        latency,
        nodes: largest.nodes,
        ranks: largest.ranks,
    };
    let size = crate::fact::Bytes(largest.size);
    let steady = match largest.quiet {
        true => "",
        false => ", whose runs differ too much to be sure",
    };
    let what = format!(
        "the recorded all-reduce of {size} over {} ranks{steady}",
        largest.ranks
    );
    Some((measured, Source::Recorded(what)))
}

/// What the node's hardware can carry, for this many nodes like it.
fn ceiling(facts: &Facts, node: Id, training: &Training) -> anyhow::Result<(Measured, Source)> {
    // Gathers and scatters go over rings, and so do two ranks; only an all-reduce gains by switches that add, and by trees.
    let reduces = training.parallel == Parallel::Ddp && training.data_ranks() > 2;
    let has_nvlink = facts.find(Subject::Path, node, "nvlink").is_some();
    let name = match (training.nodes, reduces) {
        (1, false) if has_nvlink => "nvlink",
        (1, _) => "all-reduce-intra",
        (2, true) => "all-reduce-inter-2",
        _ => "all-reduce-inter-many",
    };
    let unknown = |why: String| {
        bad_usage(format!(
            "nothing was measured, and what this node can carry is not known ({why}): name --busbw"
        ))
    };
    let Some(id) = facts.find(Subject::Path, node, name) else {
        return Err(unknown(match facts.members(Subject::Path, node) {
            Ok(_) => "it has no such path".into(),
            Err(gap) => gap.to_string(),
        }));
    };
    let rate = facts.value(id, path::BANDWIDTH);
    let rate = rate.map_err(|gap| unknown(gap.to_string()))?;
    let by = facts.known(id, path::BOUND_BY).map_or("", |by| by.word());
    let at = facts.known(id, path::BOUND_WHERE);
    let at = at.as_deref().unwrap_or("");
    let measured = Measured {
        busbw: bandwidth_model::gigabytes(rate),
        size: None,
        latency: None,
        nodes: training.nodes,
        ranks: training.gpus(),
    };
    let what = format!("the ceiling of {}, bound by {by} ({at})", facts.name(node));
    Ok((measured, Source::Ceiling(what)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{BitRate, Bytes, Fact, Origin};

    fn measured(
        facts: &mut Facts,
        node: Id,
        name: &str,
        size: u64,
        gigabytes: f64,
        ranks: [u64; 2],
    ) {
        fn stated<T>(value: T) -> Fact<T> {
            Fact::Known(value, Origin::Stated)
        }
        let id = facts.instance(Subject::Measurement, node, name);
        facts.set(id, measurement::OPERATION, stated("all-reduce".into()));
        facts.set(id, measurement::MEANS, stated(MeasurementBackend::Nccl));
        facts.set(id, measurement::SIZE, stated(Bytes(size)));
        let rate = BitRate((gigabytes * 8e9) as u64);
        facts.set(id, measurement::BUSBW, stated(rate));
        facts.set(id, measurement::NODES, stated(ranks[0]));
        facts.set(id, measurement::RANKS, stated(ranks[1]));
        facts.set(id, measurement::BASELINE_WRONG, stated(name == "wrong"));
        facts.set(id, measurement::QUIET, stated(name != "noisy"));
    }

    /// The largest size tells the bandwidth, and a small one the latency: 8 bytes over 16 ranks at 0.375 MB/s are 15 bytes in 40 us.
    #[test]
    fn a_sweep_tells_bandwidth_and_latency() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        measured(&mut facts, node, "8 B", 8, 0.000_375, [2, 16]);
        measured(&mut facts, node, "1 MiB", 1 << 20, 20.0, [2, 16]);
        measured(&mut facts, node, "4 GiB", 4 << 30, 180.0, [2, 16]);
        measured(&mut facts, node, "on one", 8 << 30, 360.0, [1, 8]);
        let (found, source) = recorded(&facts, node, true).unwrap();
        assert_eq!((found.busbw, found.nodes, found.ranks), (180.0, 2, 16));
        assert!((found.latency.unwrap() - 40e-6).abs() < 1e-9);
        assert_eq!(
            source,
            Source::Recorded("the recorded all-reduce of 4 GiB over 16 ranks".into())
        );
        let (found, _) = recorded(&facts, node, false).unwrap();
        assert_eq!((found.busbw, found.latency), (360.0, None));
    }

    #[test]
    fn a_wrong_result_does_not_count_and_a_noisy_one_says_so() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        measured(&mut facts, node, "wrong", 4 << 30, 500.0, [2, 16]);
        assert_eq!(recorded(&facts, node, true), None);
        measured(&mut facts, node, "noisy", 2 << 30, 170.0, [2, 16]);
        let (found, source) = recorded(&facts, node, true).unwrap();
        assert_eq!(found.busbw, 170.0);
        assert!(format!("{source:?}").contains("differ too much"));
    }

    #[test]
    fn a_small_message_tells_no_bandwidth() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        measured(&mut facts, node, "16 MiB", 16 << 20, 60.0, [2, 16]);
        assert_eq!(recorded(&facts, node, true), None);
        assert_eq!(recorded(&facts, node, false), None);
    }
}
