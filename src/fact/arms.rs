//! The arms of a measurement as they were run: figures, ends and proofs, which no fact of the schema can hold. The facts of arms, changes and effects are
//! derived from them.

use std::collections::{BTreeMap, BTreeSet};

use super::arm::InterNodeTransport;
use super::{Gap, Id, Origin};

/// The variables that a run sets, with their values.
pub type Set = BTreeMap<String, String>;

/// What an arm reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The arm's name.
    pub name: String,
    /// What it sets.
    pub set: Set,
    /// What each round reached; more is better.
    pub rounds: BTreeMap<u64, f64>,
    /// How exact such a figure is: half of its last digit, where somebody wrote it down.
    pub resolution: f64,
    /// How long it took, where somebody wrote it down.
    pub seconds: Option<f64>,
}

/// What the runs of an arm used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransportProof {
    /// Whether the log tells of connected channels.
    pub channels: bool,
    /// How many nodes take part, by NCCL's count.
    pub nodes: Option<u64>,
    /// What carried the traffic between nodes; `None` where the log does not say.
    pub between: Option<InterNodeTransport>,
    /// What each pair of ranks used, in NCCL's words: `P2P/CUMEM`, `SHM`, `NET/IB/GDRDMA`; and whether both are on one node.
    pub pairs: BTreeMap<(u64, u64), BTreeSet<PairPath>>,
    /// Where there is no NCCL: how ranks were connected, and by which devices, as they say it.
    pub devices: BTreeMap<String, BTreeSet<String>>,
    /// Whether channels over NVLink SHARP were set up.
    pub nvls: Option<bool>,
    /// Whether NCCL says which variables it read.
    pub env_logged: bool,
    /// The variables that it read, with their values.
    pub read: BTreeMap<String, String>,
}

/// What carries channels of a pair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairPath {
    /// In NCCL's words.
    pub word: String,
    /// What kind of transport that is.
    pub kind: PathKind,
    /// Whether both ranks are on one node; `None` where nobody knows.
    pub inside: Option<bool>,
}

/// Kinds of transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathKind {
    /// From GPU to GPU.
    P2p,
    /// The host's shared memory.
    Shm,
    /// A network: whether it is RDMA, where that is known, and whether it reaches the GPU's memory.
    Net(Option<bool>, bool),
}

/// What figures are.
#[derive(Clone, Debug, PartialEq)]
pub enum Unit {
    /// Bus bandwidth, in bits per second.
    Busbw,
    /// A throughput with this unit.
    Number(String),
    /// The inverse of a figure of which less is better: what is shown is the figure.
    Lower,
    /// Runs per second: what is shown is the time.
    Time,
}

/// What was seen of the runs of an arm.
#[derive(Clone, Debug, Default)]
pub struct ArmRuns {
    /// How many runs there were.
    pub started: u64,
    /// The ranks that did not end by the deadline, each with the last step that it reached.
    pub hung: Vec<(String, String)>,
    /// How far a run came that went on until its deadline: the steps of the rank that came least far, and in words.
    pub unfinished: Option<(u64, String)>,
    /// What failed: the first of each kind.
    pub failures: Vec<String>,
    /// Elements with a wrong value, in all runs.
    pub wrong: u64,
    /// The first of them.
    pub wrong_where: Option<String>,
    /// How long one operation took, in seconds: the median of all trials.
    pub time: Option<f64>,
    /// The slowest rank, and how much longer than the median of the ranks it took, in percent.
    pub slowest: Option<(String, f64)>,
    /// How far the trials of a run lie apart, of their median, in percent: the median of the runs.
    pub trials_apart: Option<f64>,
    /// What was really used.
    pub proof: TransportProof,
    /// Why the log of a run is missing, where one is.
    pub log_gap: Option<Gap>,
    /// Why it is not known what became of all runs, where it is not.
    pub gap: Option<Gap>,
}

/// A measurement's arms, as they were run.
#[derive(Clone, Debug)]
pub struct Arms {
    /// What each arm reached; the baseline first where there is one.
    pub figures: Vec<Figures>,
    /// What the figures are.
    pub unit: Unit,
    /// What somebody wrote of each arm: the figure, and time and figure together.
    pub written: Vec<Option<(String, Option<String>)>>,
    /// How each arm ended that somebody wrote down without a figure: `hung`, `failed`; empty where the runs were seen.
    pub reported_failures: Vec<Option<&'static str>>,
    /// What was seen of each arm's runs; `None` where somebody else made them.
    pub runs: Option<Vec<ArmRuns>>,
    /// Where the figures come from.
    pub origin: Origin,
    /// Of a measurement in the memory of GPUs, the same one in the host's, which came before it.
    pub in_host: Option<Id>,
}
