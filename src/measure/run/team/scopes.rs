//! The same operation inside each node, and between the nodes.

use serde_json::Value;

use super::{SLACK, Team, Whole};
use crate::cluster::session_steps::StepAudience;
use crate::live::clock;
use crate::measure::plan::bisection::BISECTED;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::results::Results;
use crate::measure::plan::run::{NAME, Plan, Point, RankPlacement};
use crate::measure::plan::scope::{COMPARED, Scope, Scopes};
use crate::measure::run::ranks::{self, RankProcess};
use crate::measure::run::record_runs::{read_runs, record_runs};
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// Bytes of an operation whose time is that of its steps.
const FEW: u64 = 8;

impl Team {
    /// What the operation reaches inside each node, and with one rank of each node.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn scopes(
        &self,
        how: &RankProcess<'_>,
        Whole { plan, point, .. }: &Whole,
        own: &ChosenRanks,
    ) -> anyhow::Result<Scopes> {
        let mut scopes = Scopes::default();
        let fit = |ranks: usize| Point {
            bytes: point.dtype.whole(point.bytes, ranks as u64),
            ..point.clone()
        };
        if self.counts.iter().any(|count| *count > 1) {
            let alone = RankPlacement::default().node;
            let inside = ChosenRanks {
                ranks: (own.ranks.iter().cloned())
                    .map(|place| RankPlacement {
                        node: alone,
                        ..place
                    })
                    .collect(),
                ..own.clone()
            };
            let inside = inside.plan(vec![fit(own.ranks.len())], 1, clock::boottime_ns());
            self.unable("inside begin", None)?;
            let scope = self.inside(how, &inside);
            let value = serde_json::to_value(&scope)?;
            let wait = how.deadline + SLACK;
            let all = self.exchange("inside", StepAudience::Rank0, wait, value)?;
            for value in all.values.into_values() {
                scopes.inside.extend(
                    serde_json::from_value::<Option<Scope>>(value)
                        .ok()
                        .flatten(),
                );
            }
            // One rank of each node has the network for itself.
            let mut ranks: Vec<RankPlacement> = Vec::new();
            for place in &plan.ranks {
                if ranks.last().is_none_or(|last| last.node != place.node) {
                    ranks.push(place.clone());
                }
            }
            let point = fit(ranks.len());
            let between = self.together(how, "between", (own, ranks), point)?;
            scopes.between = between.and_then(|results| Scope::of(&results, None));
        }
        Ok(scopes)
    }

    /// How long each step of an operation of few bytes takes with all ranks, in nanoseconds. Rank 0
    /// has it.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn step_time(
        &self,
        how: &RankProcess<'_>,
        Whole { plan, .. }: &Whole,
        own: &ChosenRanks,
    ) -> anyhow::Result<Option<u64>> {
        let ranks = plan.ranks.len() as u64;
        let few = Point {
            trials: 3,
            ..Point::all_reduce(FEW, ranks)
        };
        let steps = 2 * ranks.saturating_sub(1).max(1);
        let results = self.together(how, "latency", (own, plan.ranks.clone()), few)?;
        let scope = results
            .as_ref()
            .filter(|all| Scope::of(all, None).is_some());
        let seconds = scope.and_then(|results| results.rows(0).pop()?.time());
        Ok(seconds.map(|seconds| (seconds * 1e9 / steps as f64) as u64))
    }

    /// What these ranks of all nodes measure together, at rank 0.
    fn together(
        &self,
        how: &RankProcess<'_>,
        name: &str,
        (chosen, ranks): (&ChosenRanks, Vec<RankPlacement>),
        point: Point,
    ) -> anyhow::Result<Option<Results>> {
        let chosen = ChosenRanks {
            ranks,
            ..chosen.clone()
        };
        let plan = chosen.plan(vec![point], 1, clock::boottime_ns());
        let plan = self.agree_on_plan(&format!("{name} plan"), &plan)?;
        let lines = self.make(how, &plan, name)?;
        Ok(lines.and_then(|lines| read_runs(&plan, lines)))
    }

    /// What this node's ranks reach alone.
    fn inside(&self, how: &RankProcess<'_>, plan: &Plan) -> Option<Scope> {
        if plan.ranks.len() < 2 {
            return None;
        }
        let run = *plan.runs.first()?;
        let lines = ranks::run(how, plan, run, |_, _| {});
        let results = read_runs(plan, lines)?;
        Scope::of(&results, Some(self.name(self.own)))
    }
}

/// Records what parts of the whole reached. `compared` says that facts follow from that beside
/// those of a bisection.
pub fn record_parts(recording: &mut Recording, mut scopes: Scopes, compared: bool) {
    let Ok(results) = Results::read(&recording.of(NAME)) else {
        return;
    };
    scopes.whole = Scope::of(&results, None);
    let mut plan = results.plan.to_value();
    for (key, is) in [(BISECTED, scopes.bisection.is_some()), (COMPARED, compared)] {
        if is {
            plan[key] = Value::Bool(true);
        }
    }
    let line = Line::of(NAME, Scopes::question(), &scopes, recording.duration());
    record_runs(recording, (NAME, Plan::question()), plan, vec![line]);
}

/// The bus bandwidth of the last operation of these lines in bits per second, where it is valid.
pub(super) fn busbw(plan: &Plan, lines: &[Line]) -> Option<u64> {
    let results = read_runs(plan, lines.to_vec())?;
    Some(Scope::of(&results, None)?.busbw)
}
