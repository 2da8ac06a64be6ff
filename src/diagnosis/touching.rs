//! Failures of instances whose facts are here: which of them touch each other.

use std::collections::{BTreeMap, HashMap};

use super::{FailedCheck, Relations};
use crate::check::{Outcome, Verdict};
use crate::fact::{Facts, Id, Percent, Subject, factor};

/// The failures among verdicts, and the instance of each.
pub fn failures_of(facts: &Facts, verdicts: &[Verdict]) -> (Vec<FailedCheck>, Vec<Id>) {
    let failed = verdicts
        .iter()
        .filter(|verdict| matches!(verdict.outcome, Outcome::Fails | Outcome::FailsIf));
    let failure = |verdict: &Verdict| {
        let failure = FailedCheck {
            check: verdict.check,
            presumed: matches!(verdict.outcome, Outcome::FailsIf),
            effect: effect(facts, verdict.subject),
        };
        (failure, verdict.subject)
    };
    failed.map(failure).unzip()
}

/// The effect of a change that was measured, in percent.
fn effect(facts: &Facts, id: Id) -> f64 {
    if facts.subject(id) != Subject::Factor {
        return 0.0;
    }
    let size = |key| {
        let known = facts.known(id, key);
        known.map_or(0.0, |percent: Percent| percent.0.abs())
    };
    size(factor::LEAST).max(size(factor::MOST))
}

/// The relations of failures by what facts say of their instances ([`Facts::touches`]).
pub struct FactRelations<'f> {
    facts: &'f Facts,
    subjects: &'f [Id],
    of_check: BTreeMap<usize, FailureIndex>,
}

impl<'f> FactRelations<'f> {
    /// Those of these failures, each of an instance.
    pub fn new(facts: &'f Facts, failures: &[FailedCheck], subjects: &'f [Id]) -> Self {
        let mut of_check: BTreeMap<usize, FailureIndex> = BTreeMap::new();
        for (at, (failure, subject)) in failures.iter().zip(subjects).enumerate() {
            let index = of_check.entry(failure.check).or_default();
            index.add(facts, *subject, at);
        }
        FactRelations {
            facts,
            subjects,
            of_check,
        }
    }
}

impl Relations for FactRelations<'_> {
    fn touches(&self, cause: usize, effect: usize) -> bool {
        let [cause, effect] = [cause, effect].map(|at| self.subjects[at]);
        self.facts.touches(cause, effect)
    }

    fn is_touched(&self, effect: usize, check: usize) -> bool {
        let index = self.of_check.get(&check);
        index.is_some_and(|index| index.any(self.facts, self.subjects[effect]))
    }

    fn take_touched(&mut self, cause: usize, check: usize) -> Vec<usize> {
        let mut found = Vec::new();
        if let Some(index) = self.of_check.get_mut(&check) {
            index.take(self.facts, self.subjects[cause], &mut found);
        }
        found
    }
}

/// The failures of a check by what they touch, so that thousands are not held against thousands.
#[derive(Default)]
struct FailureIndex {
    /// By the instance for which the check fails.
    own: FailuresByInstance,
    /// By those that belong to that one.
    related: FailuresByInstance,
}

/// Failures by instances.
#[derive(Default)]
struct FailuresByInstance {
    at: HashMap<Id, Vec<usize>>,
    /// By the instance and by its ancestors.
    inside: HashMap<Id, Vec<usize>>,
}

impl FailuresByInstance {
    fn add(&mut self, facts: &Facts, id: Id, failure: usize) {
        self.at.entry(id).or_default().push(failure);
        for id in facts.lineage(id) {
            self.inside.entry(id).or_default().push(failure);
        }
    }

    /// Whether one is inside the instance, or the instance inside one.
    fn any(&self, facts: &Facts, id: Id) -> bool {
        self.inside.contains_key(&id) || facts.lineage(id).any(|id| self.at.contains_key(&id))
    }

    /// Takes these out.
    fn take(&mut self, facts: &Facts, id: Id, found: &mut Vec<usize>) {
        found.extend(self.inside.remove(&id).into_iter().flatten());
        for id in facts.lineage(id) {
            found.extend(self.at.remove(&id).into_iter().flatten());
        }
    }
}

impl FailureIndex {
    fn add(&mut self, facts: &Facts, subject: Id, failure: usize) {
        let subject = facts.stands_for(subject);
        self.own.add(facts, subject, failure);
        for id in facts.related(subject) {
            self.related.add(facts, *id, failure);
        }
    }

    fn any(&self, facts: &Facts, subject: Id) -> bool {
        let subject = facts.stands_for(subject);
        let mut related = facts.related(subject).iter();
        self.own.any(facts, subject)
            || self.related.any(facts, subject)
            || related.any(|id| self.own.any(facts, *id))
    }

    fn take(&mut self, facts: &Facts, subject: Id, found: &mut Vec<usize>) {
        let subject = facts.stands_for(subject);
        self.own.take(facts, subject, found);
        self.related.take(facts, subject, found);
        for id in facts.related(subject) {
            self.own.take(facts, *id, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_a_failure_is_found_without_looking_at_each() {
        let mut facts = Facts::new();
        let mut ids = vec![Facts::CLUSTER];
        for name in ["a", "b"] {
            let node = facts.new_node(name);
            let device = facts.instance(Subject::Device, node, "d");
            let port = facts.instance(Subject::Port, device, "d/1");
            let netdev = facts.instance(Subject::Netdev, node, "eth0");
            let gid = facts.instance(Subject::Gid, port, "0");
            facts.relate(port, netdev);
            let run = facts.instance(Subject::Run, Facts::CLUSTER, name);
            let host = facts.instance(Subject::Host, run, name);
            let event = facts.instance(Subject::Event, host, "cuda");
            facts.relate(event, run);
            facts.relate(host, node);
            ids.extend([node, device, port, netdev, gid, run, host, event]);
        }
        for one in &ids {
            let mut touched = FailureIndex::default();
            touched.add(&facts, *one, 7);
            for other in &ids {
                let touches = facts.touches(*one, *other);
                let names = || (facts.name(*one), facts.name(*other));
                assert_eq!(touched.any(&facts, *other), touches, "{:?}", names());
            }
            let mut found = Vec::new();
            touched.take(&facts, *one, &mut found);
            assert!(found.contains(&7));
        }
    }
}
