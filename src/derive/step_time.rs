//! How long a training step communicates, and whether the network explains that it is slow.
//!
//! Plain numbers in, plain numbers out. What it leaves out is said by [`Training::assumptions`].

use crate::fact::value::written;
use crate::measure::plan::alpha_beta::AlphaBeta;
use crate::measure::plan::collective::Collective;

written! {
    /// How a training divides its state over the ranks that hold the same part of the data's model.
    pub enum Parallel {
        /// Each rank holds all; gradients are all-reduced.
        Ddp = "ddp",
        /// The optimizer's state is divided (ZeRO-1): gradients are reduced, and parameters
        /// gathered.
        Zero1 = "zero1",
        /// Gradients are divided too (ZeRO-2).
        Zero2 = "zero2",
        /// Parameters are divided too (ZeRO-3, FSDP): gathered for the forward pass and again for
        /// the backward pass, gradients reduced.
        Zero3 = "zero3",
    }
}

impl Parallel {
    /// How often each parameter, or its gradient, passes (n-1)/n of the ranks in a step: a gather
    /// and a reduction are one each.
    pub fn passes(self) -> u64 {
        match self {
            // An all-reduce is a reduction and a gather.
            Parallel::Ddp | Parallel::Zero1 | Parallel::Zero2 => 2,
            Parallel::Zero3 => 3,
        }
    }

    /// What it does in a step, in words.
    pub fn collectives(self) -> &'static str {
        match self {
            Parallel::Ddp => "one all-reduce of the gradients",
            Parallel::Zero1 | Parallel::Zero2 => {
                "one reduce-scatter of the gradients and one all-gather of the parameters"
            }
            Parallel::Zero3 => {
                "two all-gathers of the parameters and one reduce-scatter of the gradients"
            }
        }
    }
}

/// What is trained, and on what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// Parameters.
    pub parameters: f64,
    /// Bytes of a parameter, and of its gradient, as they are sent.
    pub bytes: f64,
    /// How the state is divided.
    pub parallel: Parallel,
    /// GPUs of one node that share each layer (tensor parallelism); 1 for none.
    pub tensor_parallel: u64,
    /// Nodes.
    pub nodes: u64,
    /// GPUs of each.
    pub gpus_per_node: u64,
    /// How many bytes one collective has; `None` for all in one.
    pub bucket: Option<f64>,
    /// How the layers are divided into stages; `None` where each GPU, or group of tensor
    /// parallelism, has all of them.
    pub pipeline: Option<Pipeline>,
}

/// Layers in stages, one behind the other (pipeline parallelism).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipeline {
    /// Stages.
    pub stages: u64,
    /// Micro-batches of a step.
    pub micro_batches: u64,
    /// Bytes that one of them hands from a stage to the next: its tokens times the hidden size, and
    /// as much of gradients back.
    pub activations: f64,
}

impl Pipeline {
    /// The part of a step in which a stage waits for the others to fill and to drain, whatever the
    /// network.
    pub fn bubble(&self) -> f64 {
        let others = self.stages.saturating_sub(1) as f64;
        others / (self.micro_batches as f64 + others)
    }
}

impl Training {
    /// All GPUs.
    pub fn gpus(&self) -> u64 {
        self.nodes.saturating_mul(self.gpus_per_node)
    }

    /// The ranks that hold the same part of each layer, among which the state is divided or
    /// reduced.
    pub fn data_ranks(&self) -> u64 {
        self.gpus() / (self.tensor_parallel.max(1) * self.stages())
    }

    /// Stages of the pipeline; 1 for none.
    pub fn stages(&self) -> u64 {
        self.pipeline.map_or(1, |pipeline| pipeline.stages.max(1))
    }

    /// What each GPU holds of the model, in bytes.
    pub fn part(&self) -> f64 {
        self.model_bytes() / (self.tensor_parallel.max(1) * self.stages()) as f64
    }

    /// What each GPU of a stage in the middle sends to the stages before and behind it in a step,
    /// in bytes: GPUs that share a layer divide it.
    pub fn sent_to_stages(&self) -> f64 {
        let each = |one: Pipeline| 2.0 * one.micro_batches as f64 * one.activations;
        let pipeline = self.pipeline.filter(|pipeline| pipeline.stages > 1);
        pipeline.map_or(0.0, each) / self.tensor_parallel.max(1) as f64
    }

    /// How long that takes at this busbw: between nodes all GPUs of a node send over the same
    /// adapters.
    pub fn between_stages(&self, busbw: f64) -> f64 {
        let senders = match self.nodes {
            0 | 1 => 1,
            _ => self.gpus_per_node,
        };
        senders as f64 * self.sent_to_stages() / (busbw * 1e9)
    }

    /// Parameters, or gradients, of the whole model in bytes.
    pub fn model_bytes(&self) -> f64 {
        self.parameters * self.bytes
    }

    /// What each GPU sends in a step, in bytes: its part of the model, as often as it passes.
    pub fn sent_by_each(&self) -> f64 {
        let passes = self.parallel.passes() as f64;
        self.part() * passes * Collective::AllGather.bus_factor(self.data_ranks())
    }

    /// How many collectives a step has.
    pub fn collectives(&self) -> f64 {
        let kinds = match self.parallel {
            Parallel::Ddp => 1.0,
            Parallel::Zero1 | Parallel::Zero2 => 2.0,
            Parallel::Zero3 => 3.0,
        };
        let each = match self.bucket {
            Some(bucket) => (self.part() / bucket).ceil(),
            None => 1.0,
        };
        kinds * each.max(1.0)
    }

    /// How long the collectives of a step take, in seconds, at a busbw of this many GB/s between
    /// all GPUs, with this latency of one collective.
    ///
    /// `t = B * passes * (n-1)/n / busbw`: of a busbw that counts 2(n-1)/n for an all-reduce and
    /// (n-1)/n for each of the others. Over several nodes the groups of tensor parallelism share
    /// the adapters, so that all of the model goes over what a busbw of the whole node measures; on
    /// one node each GPU has its own links, and sends its part.
    pub fn communication(&self, busbw: f64, latency: f64) -> f64 {
        let shares = match self.nodes {
            0 | 1 => self.tensor_parallel.max(1) as f64,
            _ => 1.0,
        };
        let passes =
            self.parallel.passes() as f64 * Collective::AllGather.bus_factor(self.data_ranks());
        let bytes = self.model_bytes() / self.stages() as f64 / shares * passes;
        if bytes == 0.0 {
            return 0.0;
        }
        bytes / (busbw * 1e9) + self.collectives() * latency
    }

    /// What the numbers rest on, a sentence each.
    pub fn assumptions(&self) -> Vec<String> {
        let mut said = vec![
            format!(
                "each step has {}, once: with gradient accumulation what is gathered for each micro-step counts as often",
                self.parallel.collectives()
            ),
            "parameters and gradients are sent in the same type, and all of them".to_owned(),
            "all ranks start each collective together: a rank that is late looks like a slow network, and is none"
                .to_owned(),
        ];
        match self.tensor_parallel {
            0 | 1 => {}
            n => said.push(format!(
                "groups of {n} GPUs inside a node share each layer; the activations that they exchange go over NVLink and are not counted"
            )),
        }
        if self.pipeline.is_some() {
            said.push(
                "neighbouring stages are on different nodes, and the ranks of a node in one stage; GPUs that share a layer divide what they hand on, and latency between stages is not counted"
                    .to_owned(),
            );
        }
        match self.bucket {
            None => said.push(
                "collectives are large: those of less than 256 MiB reach less than this bandwidth (--bucket with --latency counts that)"
                    .to_owned(),
            ),
            Some(bucket) => said.push(format!(
                "each collective has {:.1} MB, one after the other",
                bucket / 1e6
            )),
        }
        said
    }
}

/// What was measured, as far as it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// busbw of an all-reduce, in GB/s.
    pub busbw: f64,
    /// Its buffer, in bytes; `None` for one large enough that latency makes no difference.
    pub size: Option<f64>,
    /// How long a small one takes, in seconds.
    pub latency: Option<f64>,
    /// On how many nodes.
    pub nodes: u64,
    /// With how many ranks in all.
    pub ranks: u64,
}

written! {
    /// How latency grows with the ranks.
    pub enum Growth {
        /// A ring: each of 2(n-1) steps waits for the one before.
        Ring = "ring",
        /// A tree: as many steps as it is high, twice.
        Tree = "tree",
    }
}

impl Growth {
    /// The part of a ring's bandwidth that it reaches (NCCL's own factor for trees,
    /// src/graph/tuning.cc).
    pub fn bandwidth(self) -> f64 {
        match self {
            Growth::Ring => 1.0,
            Growth::Tree => 0.92,
        }
    }

    /// How many times as many steps there are with `to` ranks as with `from`.
    pub fn factor(self, from: u64, to: u64) -> f64 {
        let steps = |ranks: u64| match self {
            Growth::Ring => ranks.saturating_sub(1) as f64,
            Growth::Tree => (ranks.max(1) as f64).log2(),
        };
        match steps(from) {
            0.0 => 1.0,
            before => steps(to) / before,
        }
    }
}

impl AlphaBeta {
    /// What a measurement says: without a latency α is zero, and β what was measured. `None` where
    /// the latency alone would take longer than what was measured.
    pub fn of(measured: &Measured) -> Option<Self> {
        let alpha = measured.latency.unwrap_or(0.0);
        let beta = match (measured.size, measured.latency) {
            (Some(size), Some(latency)) => {
                let sent = size * Collective::AllReduce.bus_factor(measured.ranks);
                let took = sent / (measured.busbw * 1e9);
                if took <= latency {
                    return None;
                }
                sent / (took - latency) / 1e9
            }
            _ => measured.busbw,
        };
        Some(AlphaBeta {
            alpha,
            beta,
            ranks: measured.ranks,
        })
    }

    /// The same hardware with more ranks: latency grows; bandwidth stays over a ring, and is a
    /// little lower over a tree.
    pub fn with_ranks(self, ranks: u64, growth: Growth) -> Self {
        AlphaBeta {
            alpha: self.alpha * growth.factor(self.ranks, ranks),
            beta: self.beta * growth.bandwidth(),
            ranks,
        }
    }
}

written! {
    /// Whether the network of a node is enough for ZeRO-3 on 64 GPUs and more.
    ///
    /// Experience with V100: 100 Gb/s for each node are not enough, 200 to 400 acceptable, 800 to
    /// 1000 ideal; A100 and H100 compute faster and need more. Between two of these the lower one
    /// is taken.
    pub enum Class {
        /// Below 200 Gb/s.
        NotEnough = "not enough",
        /// From 200 Gb/s.
        Acceptable = "acceptable",
        /// From 800 Gb/s.
        Ideal = "ideal",
    }
}

impl Class {
    /// The class of a network of this many Gb/s for each node; `None` where the classes say
    /// nothing: not ZeRO-3, or fewer than 64 GPUs.
    pub fn of(training: &Training, gigabits: f64) -> Option<Self> {
        if training.parallel != Parallel::Zero3 || training.gpus() < 64 {
            return None;
        }
        Some(match gigabits {
            g if g < 200.0 => Class::NotEnough,
            g if g < 800.0 => Class::Acceptable,
            _ => Class::Ideal,
        })
    }
}

/// How a measured step divides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// How long it takes, in seconds.
    pub whole: f64,
    /// How long it communicates.
    pub communication: f64,
    /// How long it computes; `None` where nobody says.
    pub compute: Option<f64>,
}

impl Step {
    /// How much of the communication is seen: what computation does not hide. Without a time of
    /// computation, all of it at most.
    pub fn exposed_at_most(self) -> f64 {
        match self.compute {
            Some(compute) => (self.whole - compute).clamp(0.0, self.communication),
            None => self.communication.min(self.whole),
        }
    }
}

written! {
    /// What of it a slow network explains.
    pub enum Blame {
        /// There is nothing to explain: the step is no longer than on one node.
        Nothing = "nothing",
        /// The network explains it: at least seven tenths of the excess are communication that
        /// nothing hides.
        Network = "network",
        /// The network may explain it, if computation hides none of it: how much it hides is not
        /// known.
        NetworkPossible = "network-possible",
        /// It lies elsewhere: all communication together is less than seven tenths of the excess.
        Elsewhere = "elsewhere",
    }
}

/// The part of the excess from which the network explains it.
pub const EXPLAINS: f64 = 0.7;

impl Blame {
    /// What explains that a step takes longer than on one node (`single` seconds), and what part of
    /// the excess is communication that is seen, at most.
    pub fn of(step: Step, single: f64) -> (Self, f64) {
        let excess = step.whole - single;
        if excess <= 0.0 {
            return (Blame::Nothing, 0.0);
        }
        let share = step.exposed_at_most() / excess;
        let blame = match step.compute {
            _ if share < EXPLAINS => Blame::Elsewhere,
            Some(_) => Blame::Network,
            None => Blame::NetworkPossible,
        };
        (blame, share)
    }
}

#[cfg(test)]
mod tests;
