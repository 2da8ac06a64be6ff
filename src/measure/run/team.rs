//! Nodes that measure collectives together: each starts its own ranks, and rank 0 gathers the
//! replies.

mod bisection;
mod members;
mod remote_nodes;
mod runs;
mod scopes;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::members::Assembled;
pub use self::scopes::record_parts;
use super::buffer_memory::check_buffers;
use super::progress::ShowProgress;
use super::ranks::RankProcess;
use super::record_runs::record_runs;
use crate::cluster::session::{Session, SessionError};
use crate::cluster::session_steps::{StepAudience, StepResult};
use crate::fact::Percent;
use crate::live::clock;
use crate::live::worker::Progress;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::reply::measured_points;
use crate::measure::plan::results::Results;
use crate::measure::plan::run::{NAME, Plan, Point};
use crate::measure::plan::scope::{Scope, Scopes};
use crate::source::recording::Recording;

/// How long nodes wait for rank 0's next step: it may measure alone, or judge. If it is gone they
/// know at once.
pub const NEXT: Duration = Duration::from_secs(3600);
/// How long nodes wait for each other if there is nothing to do, beyond the time that a run may
/// take.
pub const SLACK: Duration = Duration::from_secs(20);

/// The nodes that measure together.
pub struct Team {
    session: Arc<Session>,
    /// Their ranks in the session, in order.
    members: Vec<u64>,
    /// How many ranks of the measurement each has.
    counts: Vec<usize>,
    /// This node's place among them.
    own: usize,
    /// How many runs were led, or followed.
    runs: Cell<u64>,
    /// What the names of its steps begin with: those of fewer nodes are steps of their own.
    prefix: String,
    /// The members that were lost, and why, as far as this node knows.
    lost: RefCell<BTreeMap<u64, String>>,
    show: ShowProgress,
}

/// When the search for what makes the nodes slow ends, and what is slow.
#[derive(Clone, Copy, Debug)]
pub struct BisectionLimits {
    /// How long it may take.
    pub within: Duration,
    /// All nodes are slow below this share of what a part of them reaches.
    pub slow_below: Percent,
}

/// The parts of a job in which its last operation is measured too.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartRequest {
    /// Inside each node, and with one rank of each.
    pub inside: bool,
    /// Halves of the nodes, and halves of the slow ones, for so long, to find what slows the whole.
    pub bisect: Option<BisectionLimits>,
}

/// What all nodes reached together, before its parts are measured.
pub struct Whole {
    plan: Plan,
    /// The operation whose parts are measured.
    point: Point,
    /// What they reached, at rank 0.
    pub scope: Option<Scope>,
}

impl Whole {
    /// The plan by which they measured it, for arms beside it: with the operation as its parts have
    /// it.
    pub fn for_arms(&self) -> Plan {
        let last = self.plan.points.len().saturating_sub(1);
        let mut plan = self.plan.clone();
        for point in plan.points.iter_mut().skip(last) {
            *point = Point {
                warmups: Some(1),
                ..self.point.clone()
            };
        }
        plan
    }
}

impl Team {
    /// Measures these operations with all ranks, then the last of them in parts of the job, and
    /// records all at rank 0. Says why nothing was measured.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn measure(
        &self,
        recording: &mut Recording,
        (all, own): (&ChosenRanks, &ChosenRanks),
        points: Vec<Point>,
        parts: PartRequest,
        deadline: Duration,
    ) -> anyhow::Result<Option<String>> {
        if let Some(why) = self.unable("ready", check_buffers(own, &points).err())? {
            return Ok(Some(why));
        }
        let plan = all.clone().plan(points, 1, clock::boottime_ns());
        let mut plan = self.agree_on_plan("plan", &plan)?;
        let how = RankProcess::of(recording, deadline);
        let lines = self.make(&how, &plan, "whole")?.unwrap_or_default();
        plan.adopt(&measured_points(&lines));
        let question = (NAME, Plan::question());
        record_runs(recording, question, plan.to_value(), lines);
        if parts.inside {
            let mut scopes = Scopes::default();
            if let Some(whole) = self.whole(recording)? {
                scopes = self.scopes(&how, &whole, own)?;
                if let Some(limits) = parts.bisect {
                    scopes.bisection = self.bisect(&how, &whole, all, limits)?;
                }
            }
            record_parts(recording, scopes, false);
        }
        (self.show)(Progress::Done);
        Ok(None)
    }

    /// What rank 0 recorded of all ranks together, for all nodes; `None` if it is not valid: there
    /// is nothing to compare its parts with.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn whole(&self, recording: &Recording) -> anyhow::Result<Option<Whole>> {
        let results = Results::read(&recording.of(NAME)).ok();
        let results = results.filter(|_| self.leads());
        let scope = results
            .as_ref()
            .and_then(|results| Scope::of(results, None));
        let plan = results
            .filter(|_| scope.is_some())
            .map(|results| results.plan);
        let value = plan.map_or(Value::Null, |plan| plan.to_value());
        let told = self.of_rank_0("whole", NEXT, value)?;
        let Ok(plan) = Plan::from_value(&told) else {
            return Ok(None);
        };
        let point = plan.points.last().cloned();
        Ok(point.map(|point| Whole {
            point: Point {
                trials: point.trials.min(3),
                ..point
            },
            plan,
            scope,
        }))
    }

    /// What each member contributes to a step; remembers which of them are lost.
    fn exchange(
        &self,
        step: &str,
        audience: StepAudience,
        wait: Duration,
        value: Value,
    ) -> Result<StepResult, SessionError> {
        let step = format!("{}{step}", self.prefix);
        let all = (self.session).exchange(&step, &self.members, audience, wait, value)?;
        let mut lost = self.lost.borrow_mut();
        for (rank, why) in &all.missing {
            lost.entry(*rank).or_insert_with(|| why.clone());
        }
        Ok(all)
    }

    /// What rank 0 gives to a step of all members; null if it gave nothing.
    fn of_rank_0(&self, step: &str, wait: Duration, own: Value) -> Result<Value, SessionError> {
        let mut all = self.exchange(step, StepAudience::Rank0, wait, own)?;
        Ok(all.values.remove(&0).unwrap_or_default())
    }

    /// The members that were lost until now, and why, as rank 0 knows it: the same on all nodes.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn agree_on_lost(&self, step: &str) -> anyhow::Result<BTreeMap<u64, String>> {
        let own = self.lost.borrow().clone();
        self.agree_on(step, &own)
    }

    /// What rank 0 decides: all nodes go on alike.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn agree_on<T>(&self, step: &str, own: &T) -> anyhow::Result<T>
    where
        T: Serialize + for<'d> Deserialize<'d>,
    {
        let told = self.of_rank_0(step, NEXT, serde_json::to_value(own)?)?;
        Ok(serde_json::from_value(told)?)
    }

    /// How many nodes take part.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// What rank 0 says to a question: all nodes go on alike.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn agree(&self, step: &str, own: bool) -> anyhow::Result<bool> {
        Ok(self.of_rank_0(step, NEXT, json!(own))? == Value::Bool(true))
    }

    /// The session of its nodes.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The name of the node at this place.
    fn name(&self, node: usize) -> String {
        let rank = self.members.get(node).copied().unwrap_or(0);
        self.session.name(rank)
    }

    /// Why one of the nodes cannot go on; `None` if all can.
    fn unable(&self, step: &str, own: Option<String>) -> anyhow::Result<Option<String>> {
        let all = self.exchange(step, StepAudience::Everyone, SLACK, json!(own))?;
        let gone = all.missing.iter().map(|(rank, why)| (rank, why.as_str()));
        let unable = (all.values.iter()).filter_map(|(rank, why)| Some((rank, why.as_str()?)));
        let first = gone.chain(unable).next();
        Ok(first.map(|(rank, why)| format!("{}: {why}", self.session.name(*rank))))
    }

    /// The plan of rank 0, which all nodes take: the buffers hold what follows from its seed.
    fn agree_on_plan(&self, step: &str, plan: &Plan) -> anyhow::Result<Plan> {
        let told = self.of_rank_0(step, SLACK, plan.to_value())?;
        Plan::from_value(&told).map_err(|what| anyhow::anyhow!("rank 0's plan: {what}"))
    }

    /// The numbers of this node's ranks, if each node has so many.
    fn range(&self, counts: &[usize]) -> Range<usize> {
        let first: usize = counts.iter().take(self.own).sum();
        first..first + counts.get(self.own).copied().unwrap_or(0)
    }

    /// Those of these ranks that are on this node.
    pub fn own_of(&self, chosen: &ChosenRanks) -> ChosenRanks {
        let own = self.own as u64;
        let ranks = chosen.ranks.iter().filter(|place| place.node == own);
        ChosenRanks {
            ranks: ranks.cloned().collect(),
            ..chosen.clone()
        }
    }

    /// Whether this is rank 0, which says what is done.
    pub fn leads(&self) -> bool {
        self.session.rank() == 0
    }

    /// The texts of all other nodes, by their names, at rank 0.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn gather_texts(&self, own: String) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let all = self.exchange("recordings", StepAudience::Rank0, NEXT, json!(own))?;
        let others = all.values.into_iter().filter(|(rank, _)| *rank != 0);
        let named = others.filter_map(|(rank, value)| match value {
            Value::String(text) => {
                Some((self.session.names().get(&rank)?.clone(), text.into_bytes()))
            }
            _ => None,
        });
        Ok(named.collect())
    }
}
