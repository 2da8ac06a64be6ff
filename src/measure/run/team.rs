//! Nodes that measure collectives together: each starts its own ranks, and rank 0 gathers the replies.

mod bisection;
mod members;
mod remote_nodes;
mod runs;
mod scopes;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

pub use self::members::Assembled;
use self::scopes::{busbw, ended_well};
use super::buffer_memory::check_buffers;
use super::progress::ShowProgress;
use super::ranks::RankProcess;
use super::record_runs::record_runs;
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::fact::Percent;
use crate::live::clock;
use crate::live::worker::Progress;
use crate::measure::plan::bisection::BISECTED;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::results::Results;
use crate::measure::plan::run::{NAME, Plan, Point};
use crate::measure::plan::scope::{Scope, Scopes};
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// How long nodes wait for rank 0's next step: it may measure alone, or judge. If it is gone they know at once.
pub const NEXT: Duration = Duration::from_secs(3600);
/// How long nodes wait for each other if there is nothing to do, beyond the time that a run may take.
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

impl Team {
    /// Measures these operations with all ranks, then the last of them in parts of the job, and records all at rank 0. Says why nothing was measured.
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
        let last = points.last().cloned();
        let plan = all.clone().plan(points, 1, clock::boottime_ns());
        let plan = self.agree_on("plan", &plan)?;
        let how = RankProcess::of(recording, deadline);
        let lines = self.make(&how, &plan, "whole")?;
        let mut scopes = Scopes::default();
        // If the whole fails there is nothing to compare its parts with.
        let well = lines.as_ref().is_some_and(|lines| ended_well(lines)) && parts.inside;
        let told = (self.session).exchange("well", &[], StepAudience::Rank0, SLACK, json!(well))?;
        let well = told.values.get(&0) == Some(&Value::Bool(true));
        if let Some(point) = last.filter(|_| well) {
            let point = Point {
                trials: point.trials.min(3),
                ..point
            };
            scopes = self.scopes(&how, &plan, own, &point)?;
            if let Some(limits) = parts.bisect {
                let whole = lines.as_deref().and_then(|lines| busbw(&plan, lines));
                scopes.bisection = self.bisect(&how, (&plan, all), &point, whole, limits)?;
            }
        }
        (self.show)(Progress::Done);
        let mut value = plan.to_value();
        if scopes.bisection.is_some() {
            value[BISECTED] = Value::Bool(true);
        }
        record_runs(recording, value, lines.unwrap_or_default());
        if parts.inside {
            scopes.whole = Results::read(&recording.of(NAME))
                .ok()
                .and_then(|results| Scope::of(&results, None));
            let at = recording.duration();
            recording.add(Line::of(NAME, Scopes::question(), &scopes, at));
        }
        recording.end();
        Ok(None)
    }

    /// The name of the node at this place.
    fn name(&self, node: usize) -> String {
        let rank = self.members.get(node).copied().unwrap_or(0);
        let name = self.session.names().get(&rank).cloned();
        name.unwrap_or_else(|| format!("rank {rank}"))
    }

    /// Why one of the nodes cannot go on; `None` if all can.
    fn unable(&self, step: &str, own: Option<String>) -> anyhow::Result<Option<String>> {
        let all = (self.session).exchange(step, &[], StepAudience::Everyone, SLACK, json!(own))?;
        let name = |rank: &u64| self.session.names().get(rank).cloned().unwrap_or_default();
        let gone = all.missing.iter().next();
        let unable = all
            .values
            .iter()
            .find_map(|(rank, why)| Some((rank, why.as_str()?)));
        Ok(match (gone, unable) {
            (Some((rank, why)), _) => Some(format!("{}: {why}", name(rank))),
            (None, Some((rank, why))) => Some(format!("{}: {why}", name(rank))),
            (None, None) => None,
        })
    }

    /// The plan of rank 0, which all nodes take: the buffers hold what follows from its seed.
    fn agree_on(&self, step: &str, plan: &Plan) -> anyhow::Result<Plan> {
        let all =
            (self.session).exchange(step, &[], StepAudience::Rank0, SLACK, plan.to_value())?;
        let value = all.values.get(&0).context("rank 0's plan")?;
        Plan::from_value(value).map_err(|what| anyhow::anyhow!("rank 0's plan: {what}"))
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
        let all =
            (self.session).exchange("recordings", &[], StepAudience::Rank0, NEXT, json!(own))?;
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
