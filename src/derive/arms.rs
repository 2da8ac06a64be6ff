//! The arms of a measurement side by side: what each reached, and what each change does.

mod baseline;
mod changes;
mod ends;
pub(super) mod figure;
mod honour;
mod one_arm;
mod outlier;
mod transport;
mod transport_used;

#[cfg(test)]
mod power_tests;

use self::baseline::Noise;
use self::outlier::{Outlier, outlier};
use super::Derivation;
use crate::fact::arms::{ArmRuns, Arms, Set};
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, Percent, Subject, kleene, known, limit, measurement,
};
use crate::measure::plan::ablation::{Pair, pairs};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("arms", &[], derive);

/// Works out the facts of a node's measurements that compare arms.
pub(crate) fn derive(facts: &mut Facts, node: Id) {
    for id in facts.below(node, Subject::Measurement).collect::<Vec<_>>() {
        if let Some(arms) = facts.arms(id) {
            arms.state(facts, id);
            if let Some(host) = arms.in_host {
                against_host_memory(facts, id, host);
            }
        }
    }
}

/// What a measurement in the memory of GPUs reached of the same one in the host's.
fn against_host_memory(facts: &mut Facts, id: Id, host: Id) {
    facts.set(id, measurement::OF_HOST, share(facts, id, host));
    let figure = facts.get(host, measurement::FIGURE);
    facts.set(id, measurement::HOST_FIGURE, figure);
}

fn share(facts: &Facts, id: Id, host: Id) -> Fact<Percent> {
    for one in [id, host] {
        let spread = known!(facts.get(one, measurement::SPREAD));
        if spread > facts.limit(limit::COLLECTIVE_SPREAD) {
            return Fact::Unknown(Gap::missing("steady trials"));
        }
    }
    match (
        facts.get(id, measurement::BUSBW),
        facts.get(host, measurement::BUSBW),
    ) {
        (Fact::Known(own, origin), Fact::Known(host, _)) if host.0 > 0 => {
            Fact::Known(Percent(100.0 * own.0 as f64 / host.0 as f64), origin)
        }
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Fact::Unknown(gap),
        _ => Fact::Unknown(Gap::missing("a bandwidth in the host's memory")),
    }
}

impl Arms {
    /// States the facts of the measurement, its arms, and their differences.
    fn state(&self, facts: &mut Facts, id: Id) {
        let known = Origin::clone(&self.origin);
        for subject in [Subject::Arm, Subject::Factor] {
            facts.set_members(subject, id, Membership::Known(known.clone()));
        }
        let noise = self.whole(facts, id);
        for at in 0..self.figures.len() {
            self.arm(facts, id, at, &noise);
        }
        let mut pairs = pairs(&self.figures);
        let odd = match noise.gap {
            None if noise.quiet => outlier(&self.figures, &pairs, &noise.thresholds),
            _ => None,
        };
        self.odd(facts, id, odd.as_ref(), &noise);
        if let Some(odd) = &odd {
            pairs.retain(|pair| !odd.spoils(pair));
        }
        let mut changes: Vec<&Set> = Vec::new();
        for pair in &pairs {
            if !changes.contains(&&pair.change) {
                changes.push(&pair.change);
            }
        }
        for change in &changes {
            let of: Vec<&Pair> = pairs.iter().filter(|p| p.change == **change).collect();
            self.factor(facts, id, change, &of, &noise);
        }
    }

    /// The arm that contradicts the others: it is left out of the pairs.
    fn odd(&self, facts: &mut Facts, id: Id, odd: Option<&Outlier>, noise: &Noise) {
        let gap = noise.gap.as_ref();
        let has_outlier = self.unless(gap, odd.is_some());
        facts.set(id, measurement::HAS_OUTLIER, has_outlier);
        let Some(odd) = odd else { return };
        let arm = |at: &usize| {
            let name = &self.figures.get(*at)?.name;
            Some(format!("{name} ({})", self.figure(*at)?))
        };
        let names: Vec<String> = odd.arms.iter().filter_map(arm).collect();
        let outlier = self.know(names.join(" or ").into());
        facts.set(id, measurement::OUTLIER, outlier);
        facts.set(id, measurement::OUTLIER_BY, self.know(Percent(odd.percent)));
    }

    fn runs_of(&self, at: usize) -> Option<&ArmRuns> {
        self.runs.as_ref()?.get(at)
    }

    fn figure(&self, at: usize) -> Option<String> {
        match self.written.get(at) {
            Some(Some((text, _))) => Some(text.clone()),
            _ => Some(self.unit.show(self.figures.get(at)?.figure()?)),
        }
    }

    /// The arm that sets nothing.
    fn baseline(&self) -> Option<usize> {
        self.figures.iter().position(|arm| arm.set.is_empty())
    }

    /// The value, unless something of it is missing.
    fn unless<T>(&self, gap: Option<&Gap>, value: T) -> Fact<T> {
        self.know(value).unless(gap.cloned())
    }

    /// What was seen of a rank, where it was: it holds whatever became of the others. Else `none`,
    /// unless a reply is missing.
    fn seen_or<T>(&self, gap: Option<&Gap>, is_seen: bool, seen: T, none: T) -> Fact<T> {
        match kleene::proven(is_seen, gap) {
            Ok(true) => self.know(seen),
            Ok(false) => self.know(none),
            Err(gap) => Fact::Unknown(gap),
        }
    }

    fn know<T>(&self, value: T) -> Fact<T> {
        Fact::Known(value, self.origin.clone())
    }

    /// The value, unless something of it is missing, or all.
    fn unless_open<T>(&self, gap: Option<&Gap>, value: Option<T>, what: &str) -> Fact<T> {
        self.some(value, what).unless(gap.cloned())
    }

    fn some<T>(&self, value: Option<T>, what: &str) -> Fact<T> {
        match value {
            Some(value) => self.know(value),
            None => Fact::Unknown(Gap::missing(what.to_owned())),
        }
    }
}
