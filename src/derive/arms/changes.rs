//! What each change does, over all pairs of arms that differ by it alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::baseline::Noise;
use super::honour::{LEADING, honour};
use crate::fact::arm::{ArmApplied, Outcome};
use crate::fact::arms::{ArmRuns, Arms, Set};
use crate::fact::factor::FactorChange;
use crate::fact::{Fact, Facts, Gap, Id, Membership, Percent, Subject, effect, factor};
use crate::measure::plan::ablation::{
    Effect, Interaction, Pair, contradiction, has, interaction, kind, pooled, size, sizes,
    variables,
};
use crate::sentence::shell::Command;

/// Where not all pairs are known, nobody can count those that are alike.
fn set_counts_unknown(facts: &mut Facts, id: Id, gap: &Gap) {
    for key in [
        factor::PAIRS,
        factor::UNCHANGED,
        factor::SLOWER,
        factor::FASTER,
        factor::UNDECIDED,
    ] {
        facts.set(id, key, Fact::Unknown(gap.clone()));
    }
    for key in [factor::CURES, factor::BREAKS, factor::INTERACTS] {
        facts.set(id, key, Fact::Unknown(gap.clone()));
    }
    facts.set(id, factor::OUTCOME, Fact::Unknown(gap.clone()));
}

impl Arms {
    /// States one change over all pairs that differ by it alone; gives whether it makes a
    /// difference.
    pub(super) fn factor(
        &self,
        facts: &mut Facts,
        measurement: Id,
        change: &Set,
        pairs: &[&Pair],
        noise: &Noise,
    ) {
        let id = facts.instance(Subject::Factor, measurement, &variables(change));
        let kind = match change.iter().collect::<Vec<_>>().as_slice() {
            [(name, value)] => kind(name, value),
            _ => FactorChange::Other,
        };
        let mut measured: Vec<(&Pair, Effect)> = Vec::new();
        for pair in pairs {
            let (before, after) = (&self.figures[pair.reference], &self.figures[pair.arm]);
            if let Some(effect) = Effect::of(before, after, noise.percent) {
                self.effect(facts, id, pair, &effect, noise);
                measured.push((pair, effect));
            }
        }
        facts.set(
            id,
            factor::CHANGE,
            self.know(Command::of_text(&variables(change))),
        );
        facts.set(id, factor::KIND, self.know(kind));
        let arms = || pairs.iter().flat_map(|pair| [pair.reference, pair.arm]);
        let missing = |of: fn(&ArmRuns) -> Option<&Gap>| {
            arms()
                .filter_map(|at| self.runs_of(at))
                .filter_map(of)
                .next()
        };
        let honoured = self.unless(missing(|seen| seen.log_gap.as_ref()), self.honoured(pairs));
        facts.set(id, factor::HONOURED, honoured);
        let members = Membership::known_unless(
            missing(|seen| seen.gap.as_ref()).cloned(),
            self.origin.clone(),
        );
        facts.set_members(Subject::Effect, id, members);
        if let Some(gap) = missing(|seen| seen.gap.as_ref()).or(noise.gap.as_ref()) {
            set_counts_unknown(facts, id, gap);
            return;
        }
        facts.set(id, factor::PAIRS, self.know(measured.len() as u64));
        // Where no pair tells by itself, all of them together may.
        let rest = || -> Vec<(&Pair, Effect)> {
            let open = |(_, effect): &&(&Pair, Effect)| {
                matches!(
                    noise.outcome(effect),
                    Outcome::Undecided | Outcome::Unchanged
                )
            };
            measured.iter().filter(open).copied().collect()
        };
        let together = pooled(&self.figures, &measured);
        let together = together.or_else(|| pooled(&self.figures, &rest()));
        let together = together.map(|effect| noise.outcome(&effect));
        let outcome_of = |effect: &Effect| match (noise.outcome(effect), together) {
            (Outcome::Undecided, Some(together)) => together,
            (own, _) => own,
        };
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, effect) in &measured {
            *counts.entry(outcome_of(effect).word()).or_default() += 1;
        }
        for (key, outcome) in [
            (factor::UNCHANGED, Outcome::Unchanged),
            (factor::SLOWER, Outcome::Slower),
            (factor::FASTER, Outcome::Faster),
            (factor::UNDECIDED, Outcome::Undecided),
        ] {
            let count = counts.get(outcome.word()).copied().unwrap_or(0);
            facts.set(id, key, self.know(count));
        }
        self.sizes(facts, id, &measured, noise);
        let all_off = |(pair, effect): &(&Pair, Effect)| {
            has(&pair.held, FactorChange::P2pOff)
                && has(&pair.held, FactorChange::ShmOff)
                && outcome_of(effect) == Outcome::Unchanged
        };
        let all_off = measured.iter().any(all_off);
        let even = if all_off {
            ", not even where P2P and shared memory are off and all traffic takes the network"
        } else {
            ""
        };
        facts.set(id, factor::EVEN, self.know(even.into()));
        self.cures(facts, id, pairs);
    }

    fn sizes(&self, facts: &mut Facts, id: Id, measured: &[(&Pair, Effect)], noise: &Noise) {
        let alone = measured.iter().find(|(pair, _)| pair.held.is_empty());
        let outcome = alone.map(|(_, effect)| noise.outcome(effect));
        let outcome = self.some(outcome, "a valid pair with the baseline");
        facts.set(id, factor::OUTCOME, outcome);
        let alone = alone.map(|(_, effect)| effect.effect);
        let what = "a valid pair of runs";
        facts.set(id, factor::EFFECT, self.some(alone.map(Percent), what));
        let words = alone.map(|effect| size(effect).into());
        facts.set(id, factor::COST, self.some(words, what));
        let effects = || measured.iter().map(|(_, effect)| effect.effect);
        let (least, most) = (effects().reduce(f64::min), effects().reduce(f64::max));
        facts.set(id, factor::LEAST, self.some(least.map(Percent), what));
        facts.set(id, factor::MOST, self.some(most.map(Percent), what));
        let range = least.zip(most).map(|(a, b)| sizes(a, b).into());
        facts.set(id, factor::RANGE, self.some(range, what));
        let change = noise.thresholds.change;
        let found = interaction(measured, change);
        facts.set(id, factor::INTERACTS, self.know(found.is_some()));
        let Some(found) = found else { return };
        let Interaction {
            with,
            beside,
            without,
        } = found;
        let with = format!("{}={}", with.0, with.1);
        facts.set(id, factor::INTERACTS_WITH, self.know(with.into()));
        let beside_words = sizes(beside.0, beside.1);
        facts.set(id, factor::COST_WITH, self.know(beside_words.into()));
        let without_words = sizes(without.0, without.1);
        facts.set(id, factor::COST_WITHOUT, self.know(without_words.into()));
        let only = beside.1 <= -change && without.0 > -change;
        facts.set(id, factor::ONLY_WITH, self.know(only));
    }

    fn effect(&self, facts: &mut Facts, factor: Id, pair: &Pair, found: &Effect, noise: &Noise) {
        let (before, after) = (&self.figures[pair.reference], &self.figures[pair.arm]);
        let name = format!("{} to {}", before.name, after.name);
        let id = facts.instance(Subject::Effect, factor, &name);
        let text = |text: &str| -> Fact<Arc<str>> { self.know(text.into()) };
        facts.set(id, effect::REFERENCE, text(&before.name));
        facts.set(id, effect::ARM, text(&after.name));
        facts.set(id, effect::EFFECT, self.know(Percent(found.effect)));
        let open = noise.gap.as_ref();
        facts.set(id, effect::LOWER, self.unless(open, Percent(found.lower)));
        facts.set(id, effect::UPPER, self.unless(open, Percent(found.upper)));
        facts.set(id, effect::OUTCOME, self.unless(open, noise.outcome(found)));
        let contradiction = Percent(contradiction(before, after));
        facts.set(id, effect::CONTRADICTION, self.know(contradiction));
        let both = |at: usize| self.written.get(at)?.as_ref()?.1.clone();
        let figures = both(pair.reference)
            .zip(both(pair.arm))
            .map(|(a, b)| format!("{a} and {b}").into());
        let figures = self.some(figures, "time and throughput of both");
        facts.set(id, effect::FIGURES, figures);
    }

    /// What a change cured, or broke, where its reference hung, failed or had wrong results.
    fn cures(&self, facts: &mut Facts, id: Id, pairs: &[&Pair]) {
        // One run of several that ended badly may be chance: what never ended well counts.
        let trouble = |at: usize| -> Option<&'static str> {
            if self.runs.is_none() {
                return *self.reported_failures.get(at)?;
            }
            let seen = self.runs_of(at)?;
            if self
                .figures
                .get(at)
                .is_some_and(|arm| !arm.rounds.is_empty())
            {
                None
            } else if !seen.hung.is_empty() {
                Some("hung")
            } else if !seen.failures.is_empty() {
                Some("failed")
            } else if seen.wrong > 0 {
                Some("had wrong results")
            } else {
                None
            }
        };
        let well = |at: usize| {
            let clean = |seen: &ArmRuns| {
                seen.hung.is_empty() && seen.failures.is_empty() && seen.wrong == 0
            };
            (self.runs.is_none() || self.runs_of(at).is_some_and(clean))
                && self
                    .figures
                    .get(at)
                    .is_some_and(|arm| !arm.rounds.is_empty())
        };
        let cured = pairs
            .iter()
            .find_map(|pair| trouble(pair.reference).filter(|_| well(pair.arm)));
        facts.set(id, factor::CURES, self.know(cured.is_some()));
        facts.set(id, factor::CURED, self.know(cured.unwrap_or("none").into()));
        let breaks = pairs
            .iter()
            .any(|pair| trouble(pair.arm).is_some() && well(pair.reference));
        facts.set(id, factor::BREAKS, self.know(breaks));
    }

    /// What is known of all pairs' arms together: what spoils a comparison leads.
    fn honoured(&self, pairs: &[&Pair]) -> ArmApplied {
        let of = |pair: &&Pair| {
            let (before, after) = (self.runs_of(pair.reference)?, self.runs_of(pair.arm)?);
            Some(honour(&pair.change, &before.proof, &after.proof).0)
        };
        let all: Vec<ArmApplied> = pairs.iter().filter_map(of).collect();
        // What spoils a comparison leads; what one pair had to take away was taken away.
        let mut found = LEADING.into_iter().filter(|lead| all.contains(lead));
        found.next().unwrap_or(ArmApplied::NotLogged)
    }
}
