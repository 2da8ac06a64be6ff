//! What is measured: the ranks, the operations, the arms, and the runs in the order in which they
//! were made.
//!
//! A *run* is one start of all ranks, in fresh processes, since NCCL reads its environment once. An
//! *arm* is what a run changes of the environment; the first one, the baseline, changes nothing. A
//! *point* is one operation of one size. A *trial* is one timed repetition within a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::collective::{Collective, DataType, Reduction};
use super::host_arms::{self, placed};
use crate::fact::value::written;
use crate::source::Question;
use crate::source::question::Argument;

/// The name of the benchmark: `{"bench":"collective"}`.
pub const NAME: &str = "collective";

written! {
    /// The backend that moves the data.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Backend {
        /// NCCL, between GPUs.
        Nccl = "nccl",
        /// RDMA writes in a ring of reliable connections: the fabric without NCCL.
        Verbs = "verbs",
        /// Sockets in a ring: what there is without RDMA.
        Tcp = "tcp",
    }
}

/// A rank: where it runs and what it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlacement {
    /// The node, by its place among those that take part.
    pub node: u64,
    /// The GPU, by its PCI address; absent where the data is in the host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// The RDMA device and port (`mlx5_0/1`), or the interface's address for sockets; absent where
    /// the backend chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The row of the port's GID table; absent where it is the one that NCCL would choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u64>,
    /// Connections to each other rank, over which RDMA writes take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_pairs: Option<u64>,
    /// Bytes of an RDMA write at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// Bytes of an RDMA packet at most; absent where the ports decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u64>,
    /// Connections between two ranks that use sockets; absent where the CPUs decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u64>,
    /// What `device` can be on this node, in the order of the rails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<String>,
    /// The address for sockets in place of RDMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// One operation of one size.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The operation.
    pub collective: Collective,
    /// Its size in bytes, as nccl-tests counts it.
    pub bytes: u64,
    /// The type of an element.
    pub dtype: DataType,
    /// How elements are put together; without meaning where the operation only moves them.
    pub op: Reduction,
    /// Whether the result replaces what was sent.
    pub in_place: bool,
    /// Operations that are timed together: small ones are timed many in a row.
    pub iterations: u64,
    /// Whether the process waits for each of them before it begins the next, as one that looks at
    /// the result does; else a device may have several to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaited: bool,
    /// Whether a smaller size is measured where this one takes too long: nobody asked for this
    /// size.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adaptive: bool,
    /// Whether RDMA writes go from GPU to GPU, where the backend has the choice (verbs): else the
    /// data is in the host's memory. NCCL's is always on GPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gpu_memory: bool,
    /// Trials that come first and do not count; absent where they go on until they are steady. A
    /// reply has how many there were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmups: Option<u64>,
    /// Trials that count.
    pub trials: u64,
}

impl Point {
    /// What a rank does of it: trials, those of a warm-up that is soon steady among them, and to
    /// prepare and verify.
    pub fn steps(&self) -> u64 {
        self.warmups.unwrap_or(STEADY) + self.trials + 2
    }

    /// A sum of single-precision numbers over all ranks, out of place, in whole elements of each
    /// rank.
    pub fn all_reduce(bytes: u64, ranks: u64) -> Self {
        Self::single_precision(Collective::AllReduce, bytes, ranks)
    }

    /// Single-precision numbers from each rank to the next.
    pub fn send_recv(bytes: u64, ranks: u64) -> Self {
        Self::single_precision(Collective::SendRecv, bytes, ranks)
    }

    fn single_precision(collective: Collective, bytes: u64, ranks: u64) -> Self {
        let dtype = DataType::Float32;
        Point {
            collective,
            bytes: dtype.whole(bytes, ranks),
            dtype,
            op: Reduction::Sum,
            in_place: false,
            iterations: iterations(bytes),
            awaited: false,
            adaptive: false,
            gpu_memory: false,
            warmups: Some(2),
            trials: 5,
        }
    }
}

/// So many warm-up trials in a row that take as long as each other are steady.
pub const STEADY: u64 = 3;

/// Operations of this size that are timed together: small ones take less than a clock and a barrier
/// tell.
pub fn iterations(bytes: u64) -> u64 {
    match bytes {
        0..0x10_0000 => 100,
        0x10_0000..0x400_0000 => 10,
        _ => 1,
    }
}

/// What a run changes of the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Its name: `baseline`, `ib-off`, `ib-off+shm-off`.
    pub name: String,
    /// The variables that it sets.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

impl Arm {
    /// The name of the arm that changes nothing.
    pub const BASELINE: &str = "baseline";

    /// The arm that changes nothing.
    pub fn baseline() -> Self {
        Arm {
            name: Self::BASELINE.into(),
            set: BTreeMap::new(),
        }
    }
}

/// A start of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The arm, by its place in the plan.
    pub arm: usize,
    /// Which start of this arm it is, from 0.
    pub round: u64,
}

impl Run {
    /// The question about this run to this benchmark, with what else it names.
    pub(super) fn question<'n>(
        self,
        bench: &str,
        arms: &[Arm],
        further: impl IntoIterator<Item = (&'n str, Argument)>,
    ) -> Question {
        let arm = arms.get(self.arm).map_or("", |arm| arm.name.as_str());
        let own = [("arm", arm.into()), ("round", self.round.into())];
        Question::bench(bench, own.into_iter().chain(further))
    }
}

/// What was measured, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The backend that moves the data.
    pub backend: Backend,
    /// The library that was named, or found; its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The ranks, in their order.
    pub ranks: Vec<RankPlacement>,
    /// The operations of each run, in their order. The last one is what arms are compared by.
    pub points: Vec<Point>,
    /// Operations that runs of the baseline have besides, after those of `points`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baseline_points: Vec<Point>,
    /// The arms; the first is the baseline.
    pub arms: Vec<Arm>,
    /// The runs, in the order in which they were made.
    pub runs: Vec<Run>,
    /// Seeds what the buffers hold.
    pub seed: u64,
}

impl Plan {
    /// The question to which the plan is the answer.
    pub fn question() -> Question {
        Question::bench(NAME, [])
    }

    /// The question what became of a rank in a run: the answer is a [`super::reply::RankReply`].
    pub fn question_of(&self, run: Run, rank: usize) -> Question {
        run.question(NAME, &self.arms, [("rank", (rank as u64).into())])
    }

    /// The question what the ranks of a run wrote: the answer is a [`crate::nccl_log::Digest`].
    pub fn log_of(&self, run: Run) -> Question {
        run.question(NAME, &self.arms, [("log", 1.into())])
    }

    /// What moves the data of a rank in a run, and where the rank is.
    pub fn placed(&self, run: Run, rank: usize) -> (Backend, RankPlacement) {
        let place = self.ranks.get(rank).cloned().unwrap_or_default();
        match self.arms.get(run.arm) {
            Some(arm) => placed(&arm.set, self.backend, place),
            None => (self.backend, place),
        }
    }

    /// The operations of an arm's runs, in their order, with their data where the arm has it.
    pub fn points_of(&self, arm: usize) -> Vec<Point> {
        let further = match arm {
            0 => self.baseline_points.as_slice(),
            _ => &[],
        };
        let points = self.points.iter().chain(further).cloned();
        let is_on_gpus = |set| host_arms::is_on_gpus(set, self.backend);
        let on_gpus = self.arms.get(arm).is_none_or(|arm| is_on_gpus(&arm.set));
        points
            .map(|point| Point {
                gpu_memory: point.gpu_memory && on_gpus,
                ..point
            })
            .collect()
    }

    /// Takes the sizes and repetitions that ranks have settled on, so that all further runs have
    /// the same.
    pub fn adopt(&mut self, measured: &[Point]) {
        let own = self.points.iter_mut().chain(&mut self.baseline_points);
        for (own, measured) in own.zip(measured) {
            own.bytes = measured.bytes;
            own.iterations = measured.iterations;
            own.adaptive = false;
        }
    }

    /// How many nodes take part.
    pub fn nodes(&self) -> u64 {
        let mut nodes: Vec<u64> = self.ranks.iter().map(|rank| rank.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len() as u64
    }

    /// The plan as a reply.
    pub fn to_value(&self) -> Value {
        // Names and numbers only: there is nothing that JSON cannot hold.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The plan of a reply.
    ///
    /// # Errors
    ///
    /// What is not understood.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        let plan: Plan = Deserialize::deserialize(value).map_err(|e| e.to_string())?;
        if plan.runs.iter().any(|run| run.arm >= plan.arms.len()) {
            return Err("a run of an arm that is not there".into());
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::ablation_arms::gdr_off;

    #[test]
    fn a_plan_is_a_reply_and_its_runs_are_questions() {
        let point = Point {
            collective: Collective::AllReduce,
            bytes: 1 << 28,
            dtype: DataType::Float32,
            op: Reduction::Sum,
            in_place: false,
            iterations: 1,
            awaited: false,
            adaptive: false,
            gpu_memory: false,
            warmups: Some(2),
            trials: 5,
        };
        let off = Arm {
            name: "ib-off".into(),
            set: [("NCCL_IB_DISABLE".to_owned(), "1".to_owned())].into(),
        };
        let mut plan = Plan {
            backend: Backend::Tcp,
            library: None,
            ranks: vec![RankPlacement::default(), RankPlacement::default()],
            points: vec![point],
            baseline_points: Vec::new(),
            arms: vec![Arm::baseline(), off],
            runs: vec![Run { arm: 1, round: 2 }],
            seed: 1,
        };
        assert_eq!(Plan::from_value(&plan.to_value()).unwrap(), plan);
        assert_eq!(plan.nodes(), 1);
        let question = plan.question_of(plan.runs[0], 3);
        assert_eq!(
            serde_json::to_string(&question).unwrap(),
            r#"{"bench":"collective","arm":"ib-off","rank":3,"round":2}"#
        );
        let question = plan.log_of(plan.runs[0]);
        assert_eq!(
            serde_json::to_string(&question).unwrap(),
            r#"{"bench":"collective","arm":"ib-off","log":1,"round":2}"#
        );
        plan.points[0].gpu_memory = true;
        plan.baseline_points = plan.points.clone();
        let gdr_off = Arm {
            name: "gdr-off".into(),
            set: gdr_off(),
        };
        plan.arms.push(gdr_off);
        let on_gpus = |plan: &Plan, arm| -> Vec<bool> {
            let points = plan.points_of(arm).into_iter();
            points.map(|point| point.gpu_memory).collect()
        };
        for backend in [Backend::Tcp, Backend::Verbs] {
            plan.backend = backend;
            assert_eq!(on_gpus(&plan, 0), [true, true]);
            assert_eq!(on_gpus(&plan, 1), [false]);
            assert_eq!(on_gpus(&plan, 2), [false]);
        }
        plan.arms.pop();
        plan.runs[0].arm = 2;
        assert!(Plan::from_value(&plan.to_value()).is_err());
    }
}
