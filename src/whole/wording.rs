//! Verdicts in words: what failed, what is waived, what passed.

use std::sync::Arc;

use super::evidence::{Pass, evidence_line};
use super::failure::{Failure, Key};
use super::peers;
use super::remedy::{SUBJECTS, for_each_subject, with_steps_of};
use super::waived_finding::WaivedFinding;
use crate::check::{Catalogue, Outcome, PremiseWords, Verdict};
use crate::diagnosis::{self, FactRelations, FailedCheck};
use crate::fact::{Facts, Id, Subject};
use crate::sentence::{Sentence, Span};
use crate::small_sort;

/// Writes what is said of verdicts.
pub struct Writer<'a> {
    /// The checks.
    pub catalogue: &'a Catalogue,
    /// What is known.
    pub facts: &'a Facts,
    /// Whether each name has its node before it.
    pub several: bool,
}

impl Writer<'_> {
    /// The name of an instance, behind that of its node or host.
    pub fn name(&self, id: Id) -> String {
        let node = self.facts.ancestor(id, Subject::Node);
        let host = self.facts.ancestor(id, Subject::Host);
        match node.filter(|_| self.several).or(host) {
            Some(within) if within != id => {
                format!("{}: {}", self.facts.name(within), self.facts.name(id))
            }
            _ => self.facts.name(id).to_owned(),
        }
    }

    fn sentence(&self, check: usize, id: Id) -> Sentence {
        let check = &self.catalogue.checks[check];
        let said = check.finding().render(self.facts, id, &check.limits);
        match self.facts.ancestor(id, Subject::Node) {
            Some(node) if self.several => {
                Sentence::from(Span::On(self.facts.shared_name(node))).then(said)
            }
            _ => said,
        }
    }

    /// The sentence with those premises of its check that are not known to hold: what it holds for
    /// stands before it, what would excuse it behind.
    fn presuming(&self, check: usize, id: Id) -> Sentence {
        let open = self.catalogue.checks[check].open_premises(self.facts, id);
        let mut said = self.sentence(check, id);
        let mut excuses: Vec<&str> = Vec::new();
        for premise in open {
            match premise.words() {
                PremiseWords::Before(words) => said = Sentence::from(words).then(said),
                PremiseWords::Behind(words) => excuses.push(words),
            }
        }
        if excuses.is_empty() {
            return said;
        }
        let words = format!(", unless {} (not recorded)", excuses.join(" or "));
        said.then(Sentence::from(words))
    }

    /// The words before the sentence, if a premise that is open has some.
    fn words_before(&self, check: usize, id: Id) -> Option<&'static str> {
        let open = self.catalogue.checks[check].open_premises(self.facts, id);
        let mut before = open.filter_map(|premise| match premise.words() {
            PremiseWords::Before(words) => Some(words),
            PremiseWords::Behind(_) => None,
        });
        before.next()
    }

    /// What failed: each cause with its instance, followed by further failures of its check and by
    /// what it explains. Those that stand alone (`is_apart`) are causes of their own.
    pub fn causes(
        &self,
        verdicts: &[Verdict],
        is_apart: impl Fn(Id) -> bool,
    ) -> Vec<(Id, Vec<Failure>)> {
        let (mut failed, subjects) = diagnosis::failures_of(self.facts, verdicts);
        let mut relations = FactRelations::new(self.facts, &failed, &subjects);
        let found = diagnosis::diagnose(self.catalogue, &mut failed, &mut relations);
        let mut causes = Vec::with_capacity(found.len());
        for mut cause in found {
            let ids: Vec<Id> = cause.failures.iter().map(|at| subjects[*at]).collect();
            if ids.len() > 1 && ids.iter().any(|id| is_apart(*id)) {
                for (at, id) in cause.failures.iter().zip(ids) {
                    let mut failure = self.failure(&failed[*at], id, false);
                    self.advise(&mut failure, &[failed[*at].check], &[id]);
                    causes.push((id, vec![failure]));
                }
                continue;
            }
            let own = cause.failures.iter();
            let own = own.map(|at| self.failure(&failed[*at], subjects[*at], false));
            let mut failures: Vec<Failure> = own.collect();
            let own: Vec<usize> = cause.failures.iter().map(|at| failed[*at].check).collect();
            self.advise(&mut failures[0], &own, &ids);
            let is_said = failures[0].presumed;
            small_sort::by_key(&mut cause.consequences, |at| {
                let id = &self.catalogue.checks[failed[*at].check].id;
                (Arc::clone(id), subjects[*at])
            });
            failures.extend(cause.consequences.iter().map(|at| Failure {
                is_consequence: true,
                ..self.failure(&failed[*at], subjects[*at], is_said)
            }));
            causes.push((ids[0], failures));
        }
        causes
    }

    /// A failure in words. Beneath a cause with the same premise that `is_said` already.
    fn failure(&self, failed: &FailedCheck, id: Id, is_said: bool) -> Failure {
        let sentence = if failed.presumed && !is_said {
            self.presuming(failed.check, id)
        } else {
            self.sentence(failed.check, id)
        };
        Failure {
            check: failed.check,
            subject: self.key(id),
            touches: peers::touched(self.facts, id),
            severity: failed.severity(self.catalogue),
            presumed: failed.presumed,
            premise: failed
                .presumed
                .then(|| self.words_before(failed.check, id))
                .flatten(),
            sentence,
            is_consequence: false,
            evidence: Vec::new(),
            remedy: Sentence::default(),
        }
    }

    /// Adds to the first failure of a cause what decided it, and what to do about all of them:
    /// failures of these cases, each for the subject at its place.
    fn advise(&self, leader: &mut Failure, checks: &[usize], ids: &[Id]) {
        let mut of_cases: Vec<(usize, Vec<Sentence>)> = Vec::new();
        for (case, id) in checks.iter().zip(ids).take(SUBJECTS) {
            let check = &self.catalogue.checks[*case];
            let rendered = check
                .advice()
                .fix
                .render_each(self.facts, *id, &check.limits);
            match of_cases.iter_mut().find(|(of, _)| of == case) {
                Some((_, known)) => known.extend(rendered),
                None => of_cases.push((*case, rendered.into_iter().collect())),
            }
        }
        let each = of_cases.into_iter();
        let remedies = each.map(|(_, rendered)| for_each_subject(rendered.into_iter()));
        let remedy = remedies.reduce(|known, more| with_steps_of(&known, &more));
        leader.remedy = remedy.unwrap_or_default();
        let check = &self.catalogue.checks[leader.check];
        let evidence = check.evidence(self.facts, ids[0]).into_iter();
        leader.evidence = evidence.map(evidence_line).collect();
    }

    fn key(&self, id: Id) -> Key {
        let facts = self.facts;
        let node = facts.ancestor(id, Subject::Node);
        let host = facts.ancestor(id, Subject::Host);
        Key {
            node: node.map(|node| facts.shared_name(node)),
            subject: facts.subject(id),
            name: match host.filter(|host| *host != id) {
                Some(host) => format!("{}: {}", facts.name(host), facts.name(id)).into(),
                None => facts.shared_name(id),
            },
        }
    }

    /// What waivers accept: one line for a check and a waiver.
    pub fn waived(&self, verdicts: &[Verdict]) -> Vec<WaivedFinding> {
        let mut all: Vec<WaivedFinding> = Vec::new();
        for verdict in verdicts {
            let Outcome::Waived(number) = verdict.outcome else {
                continue;
            };
            // A number comes from the catalogue's own waivers.
            let Some(waiver) = self.catalogue.waivers.get(number) else {
                continue;
            };
            let check = &self.catalogue.checks[verdict.check];
            let one = WaivedFinding {
                check: check.id.to_string(),
                severity: check.severity.word(),
                subjects: vec![self.name(verdict.subject)],
                nodes: Vec::new(),
                sentence: self.sentence(verdict.check, verdict.subject),
                by: waiver.check.to_string(),
                reason: waiver.reason.to_string(),
                owner: waiver.owner.to_string(),
                until: waiver.until.to_string(),
            };
            match all.iter_mut().find(|known| known.is_like(&one)) {
                Some(known) => known.subjects.extend(one.subjects),
                None => all.push(one),
            }
        }
        all
    }

    /// What passed.
    pub fn passes(&self, verdicts: &[Verdict]) -> Vec<Pass> {
        verdicts
            .iter()
            .filter(|v| matches!(v.outcome, Outcome::Passes(_)))
            .map(|v| {
                let check = &self.catalogue.checks[v.check];
                Pass {
                    check: check.id.to_string(),
                    subject: self.name(v.subject),
                    evidence: check
                        .evidence(self.facts, v.subject)
                        .into_iter()
                        .map(evidence_line)
                        .collect(),
                }
            })
            .collect()
    }
}
