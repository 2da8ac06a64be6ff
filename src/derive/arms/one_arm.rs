//! What an arm reached, by itself and against the baseline.

use std::sync::Arc;

use super::baseline::Noise;
use crate::fact::arms::{Arms, Figures, Unit};
use crate::fact::{BitRate, Fact, Facts, Gap, Id, Key, Percent, Subject, arm};
use crate::measure::plan::ablation::{self, Effect, size, variables};
use crate::measure::plan::statistics::median;

impl Arms {
    pub(super) fn arm(&self, facts: &mut Facts, measurement: Id, at: usize, noise: &Noise) {
        let Some(own) = self.figures.get(at) else {
            return;
        };
        let id = facts.instance(Subject::Arm, measurement, &own.name);
        let text = |text: String| -> Fact<Arc<str>> { self.know(text.into()) };
        facts.set(id, arm::NAME, text(own.name.clone()));
        let set = if own.set.is_empty() {
            "none".into()
        } else {
            variables(&own.set)
        };
        facts.set(id, arm::VARIABLES, text(set));
        facts.set(id, arm::IS_BASELINE, self.know(own.set.is_empty()));
        let figure = self.figure(at);
        let figure = self.some(figure.map(Into::into), "a valid run");
        facts.set(id, arm::FIGURE, figure);
        facts.set(id, arm::RUNS, self.know(own.rounds.len() as u64));
        let spread = self.some(own.apart().map(Percent), "a valid run");
        facts.set(id, arm::SPREAD, spread);
        if self.unit == Unit::Busbw {
            self.busbw(facts, id, own, noise);
        }
        self.against_baseline(facts, id, own, noise);
        self.used(facts, id, at);
    }

    fn busbw(&self, facts: &mut Facts, id: Id, own: &Figures, noise: &Noise) {
        let values = own.values();
        let ends = ablation::ends_of(&values, noise.percent);
        let figure = median(&values);
        let open = noise.gap.as_ref();
        let rates: [(Key<BitRate>, Option<f64>, Option<&Gap>); 3] = [
            (arm::BUSBW, figure, None),
            (arm::LOWER, ends.map(|(low, _)| low), open),
            (arm::UPPER, ends.map(|(_, high)| high), open),
        ];
        for (key, value, gap) in rates {
            let rate = value.map(|value| BitRate(value.max(0.0) as u64));
            facts.set(id, key, self.unless_open(gap, rate, "a valid run"));
        }
    }

    /// The effect of the whole arm against the one that sets nothing.
    fn against_baseline(&self, facts: &mut Facts, id: Id, own: &Figures, noise: &Noise) {
        let baseline = self.baseline().and_then(|at| self.figures.get(at));
        let effect = baseline.and_then(|other| Effect::of(other, own, noise.percent));
        let what = "a valid run of it and of the baseline";
        let open = noise.gap.as_ref();
        let percent = |of: fn(&Effect) -> f64, gap| {
            self.unless_open(gap, effect.as_ref().map(of).map(Percent), what)
        };
        facts.set(id, arm::EFFECT, percent(|e| e.effect, None));
        facts.set(id, arm::EFFECT_LOWER, percent(|e| e.lower, open));
        facts.set(id, arm::EFFECT_UPPER, percent(|e| e.upper, open));
        let outcome = effect.as_ref().map(|e| noise.outcome(e));
        facts.set(id, arm::OUTCOME, self.unless_open(open, outcome, what));
        let words = effect.as_ref().map(|e| size(e.effect).into());
        facts.set(id, arm::CHANGE, self.some(words, what));
    }
}
