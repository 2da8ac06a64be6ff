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
use crate::source::recording::Recording;
use crate::source::wire::{self, Line};

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
            let all = (self.session).exchange("inside", &[], StepAudience::Rank0, wait, value)?;
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
            let count = ranks.len();
            let between = ChosenRanks {
                ranks,
                ..own.clone()
            };
            let between = self.agree_on(
                "between plan",
                &between.plan(vec![fit(count)], 1, clock::boottime_ns()),
            )?;
            if let Some(lines) = self.make(how, &between, "between")? {
                scopes.between =
                    results(&between, lines).and_then(|results| Scope::of(&results, None));
            }
        }
        Ok(scopes)
    }

    /// What this node's ranks reach alone.
    fn inside(&self, how: &RankProcess<'_>, plan: &Plan) -> Option<Scope> {
        if plan.ranks.len() < 2 {
            return None;
        }
        let run = *plan.runs.first()?;
        let lines = ranks::run(how, plan, run, |_, _| {});
        let results = results(plan, lines)?;
        Scope::of(&results, Some(self.name(self.own)))
    }
}

/// Records what parts of the whole reached. `compared` says that facts follow from that beside those of a bisection.
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
    recording.replace(NAME, Plan::question(), plan);
    let at = recording.duration();
    recording.add(Line::of(NAME, Scopes::question(), &scopes, at));
    recording.end();
}

/// The bus bandwidth of the last operation of these lines in bits per second, where it is valid.
pub(super) fn busbw(plan: &Plan, lines: &[Line]) -> Option<u64> {
    let results = results(plan, lines.to_vec())?;
    Some(Scope::of(&results, None)?.busbw)
}

/// What the lines of a plan's runs say, as a recording of its own.
fn results(plan: &Plan, lines: Vec<Line>) -> Option<Results> {
    let mut recording = Recording::new(wire::Header::default());
    recording.add(Line::of(NAME, Plan::question(), &plan.to_value(), 0));
    for line in lines {
        recording.add(line);
    }
    Results::read(&recording.of(NAME)).ok()
}
