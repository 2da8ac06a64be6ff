//! The baseline: what it reached and used, and how noisy it is.

use std::sync::Arc;

use super::honour::honour;
use super::transport_used::OF_MEASUREMENT;
use crate::fact::arm::{ArmApplied, Outcome};
use crate::fact::arms::{Arms, Figures, Unit};
use crate::fact::{BitRate, Fact, Facts, Gap, Id, Percent, Seconds, limit, measurement};
use crate::measure::plan::ablation::{Effect, Thresholds};
use crate::measure::plan::statistics::{median, upper_quartile};

/// How noisy a measurement is.
pub(super) struct Noise {
    /// How far the rounds of the baseline lie apart, in percent.
    pub(super) percent: f64,
    /// Whether that lets arms be compared.
    pub(super) quiet: bool,
    /// Which run is missing that may have shown more of it.
    pub(super) gap: Option<Gap>,
    /// From where on a difference is a change.
    pub(super) thresholds: Thresholds,
}

impl Noise {
    /// What a change did.
    pub(super) fn outcome(&self, effect: &Effect) -> Outcome {
        effect.outcome(self.quiet, &self.thresholds)
    }
}

impl Arms {
    /// The facts of the measurement as a whole; gives how noisy it is.
    pub(super) fn whole(&self, facts: &mut Facts, id: Id) -> Noise {
        let arms = self.know(self.figures.len() as u64);
        facts.set(id, measurement::ARMS, arms);
        let rounds = self.figures.iter().map(|arm| arm.rounds.len()).max();
        let all = || (0..self.figures.len()).filter_map(|at| self.runs_of(at));
        let gap = all().find_map(|seen| seen.gap.as_ref());
        let rounds = self.unless(gap, rounds.unwrap_or(0) as u64);
        facts.set(id, measurement::ROUNDS, rounds);
        let baseline = self.baseline();
        let figure = baseline.and_then(|at| self.figure(at));
        let figure: Fact<Arc<str>> = self.some(figure.map(Into::into), "a valid baseline");
        facts.set(id, measurement::FIGURE, figure);
        let figures = baseline.and_then(|at| self.figures.get(at));
        if let (Unit::Busbw, Some(figure)) = (&self.unit, figures.and_then(Figures::figure)) {
            facts.set(id, measurement::BUSBW, self.know(BitRate(figure as u64)));
        }
        if matches!(self.unit, Unit::Busbw) {
            let time = baseline
                .and_then(|at| self.runs_of(at))
                .and_then(|seen| seen.time);
            let time = self.some(time.map(Seconds), "a valid baseline");
            facts.set(id, measurement::TIME, time);
        }
        let trials = baseline
            .and_then(|at| self.runs_of(at))
            .and_then(|seen| seen.trials_apart);
        let apart = match figures {
            Some(arm) if arm.rounds.len() > 1 => arm.apart(),
            // Of one round its trials are all that there is; what somebody wrote down once tells
            // nothing of noise.
            _ => trials,
        };
        // A run that nobody knows may have been the baseline once more, and noisy.
        let open = all().find_map(|seen| seen.gap.as_ref().or(seen.log_gap.as_ref()));
        let open = open.filter(|_| self.figures.len() > 1);
        let apart = match self.again(baseline) {
            Some(again) => Some(apart.map_or(again, |apart| apart.max(again))),
            None => apart,
        };
        let drift = figures.and_then(Figures::drift);
        let spread = self.unless_open(open, apart.map(Percent), "a second round");
        facts.set(id, measurement::SPREAD, spread);
        facts.set(
            id,
            measurement::DRIFT,
            self.some(drift.map(Percent), "a third round"),
        );
        let (most, most_drift) = (
            facts.limit(limit::BASELINE_SPREAD).0,
            facts.limit(limit::BASELINE_DRIFT).0,
        );
        let quiet =
            apart.map(|apart| apart <= most && drift.is_none_or(|drift| drift <= most_drift));
        let is_quiet = self.unless_open(open, quiet, "a second round");
        facts.set(id, measurement::QUIET, is_quiet);
        let used = baseline.and_then(|at| self.runs_of(at));
        self.transport(facts, id, used, &OF_MEASUREMENT);
        if let Some(seen) = baseline.and_then(|at| self.runs_of(at)) {
            let none = figures.is_none_or(|arm| arm.rounds.is_empty());
            let gap = seen.gap.as_ref();
            facts.set(id, measurement::BASELINE_FAILED, self.unless(gap, none));
            let wrong = self.seen_or(gap, seen.wrong > 0, true, false);
            facts.set(id, measurement::BASELINE_WRONG, wrong);
        }
        if self.runs.is_none() {
            let reported = baseline.and_then(|at| self.reported_failures.get(at));
            let failed = reported.is_some_and(Option::is_some);
            facts.set(id, measurement::BASELINE_FAILED, self.know(failed));
        }
        // Few rounds of one arm may lie together by chance: three of four arms say how noisy all
        // are, and one that is odd does not.
        let others: Vec<f64> = self.figures.iter().filter_map(Figures::apart).collect();
        Noise {
            percent: apart
                .into_iter()
                .chain(upper_quartile(&others))
                .fold(0.0, f64::max),
            quiet: quiet.unwrap_or(gap.is_none()),
            gap: open.cloned(),
            thresholds: Thresholds::new(facts.limits()),
        }
    }

    /// How far runs of the baseline lie from those of arms that had nothing to take away: these are
    /// the baseline once more, and tell how noisy it is.
    fn again(&self, baseline: Option<usize>) -> Option<f64> {
        let baseline = baseline?;
        let before = self.runs_of(baseline)?;
        let is_same = |at: &usize| {
            let seen = self.runs_of(*at).filter(|seen| seen.log_gap.is_none());
            let set = self.figures.get(*at).map(|own| &own.set);
            set.zip(seen).is_some_and(|(set, seen)| {
                honour(set, &before.proof, &seen.proof).0 == ArmApplied::Nothing
            })
        };
        let others = (0..self.figures.len()).filter(|at| *at != baseline);
        let same: Vec<f64> = others
            .filter(is_same)
            .filter_map(|at| self.figures.get(at)?.figure())
            .chain(self.figures.get(baseline)?.figure())
            .collect();
        let median = median(&same).filter(|middle| *middle > 0.0 && same.len() > 1)?;
        let (least, most) = (
            same.iter().copied().reduce(f64::min)?,
            same.iter().copied().reduce(f64::max)?,
        );
        Some(100.0 * (most - least) / median)
    }
}
