//! Verdicts in words: findings, what is waived, what passed.

use super::WaivedFinding;
use super::finding::{Consequence, Finding, Pass, evidence_line};
use super::remedy::{SUBJECTS, for_each_subject};
use crate::check::{Catalogue, Outcome, PremiseWords, Verdict};
use crate::diagnosis::Cause;
use crate::fact::{Facts, Id, Subject};
use crate::sentence::{Sentence, Span};
use crate::small_sort;

/// Writes what is said of verdicts.
pub(super) struct Writer<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) facts: &'a Facts,
    /// Whether each name has its node before it.
    pub(super) several: bool,
}

impl Writer<'_> {
    pub(super) fn name(&self, id: Id) -> String {
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

    pub(super) fn finding(&self, cause: &Cause) -> Finding {
        let check = &self.catalogue.checks[cause.check];
        // A cause has one subject at least.
        let first = cause.subjects[0];
        let said = |id: Id| {
            if cause.presumes(cause.check, id) {
                self.presuming(cause.check, id)
            } else {
                self.sentence(cause.check, id)
            }
        };
        let premise = cause
            .presumes(cause.check, first)
            .then(|| self.words_before(cause.check, first))
            .flatten();
        let mut consequences = cause.consequences.clone();
        small_sort::by(&mut consequences, |a, b| {
            let order = |of: &(usize, Id)| (&self.catalogue.checks[of.0].id, of.1);
            order(a).cmp(&order(b))
        });
        let consequences: Vec<Consequence> = consequences
            .into_iter()
            .map(|(check, id)| Consequence {
                check: self.catalogue.checks[check].id.to_string(),
                severity: if cause.presumes(check, id) {
                    self.catalogue.checks[check].presumed_severity().word()
                } else {
                    self.catalogue.checks[check].severity.word()
                },
                subject: self.name(id),
                // Beneath a cause with the same premise it is said already.
                sentence: if premise.is_none() && cause.presumes(check, id) {
                    self.presuming(check, id)
                } else {
                    self.sentence(check, id)
                },
            })
            .collect();
        let advice = check.advice();
        Finding {
            check: check.id.to_string(),
            place: cause.check,
            severity: cause.severity(self.catalogue).word(),
            subject: self.name(first),
            subjects: cause.subjects.iter().map(|id| self.name(*id)).collect(),
            nodes: Vec::new(),
            sentence: said(first),
            premise,
            further: cause.subjects[1..].iter().map(|id| said(*id)).collect(),
            why: advice.why.clone(),
            fix: for_each_subject(
                cause
                    .subjects
                    .iter()
                    .take(SUBJECTS)
                    .flat_map(|id| advice.fix.render_each(self.facts, *id, &check.limits)),
            ),
            see: advice.see.iter().map(|s| s.to_string()).collect(),
            evidence: check
                .evidence(self.facts, first)
                .into_iter()
                .map(evidence_line)
                .collect(),
            consequences,
        }
    }

    /// What waivers accept: one line for a check and a waiver.
    pub(super) fn waived(&self, verdicts: &[Verdict]) -> Vec<WaivedFinding> {
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

    pub(super) fn passes(&self, verdicts: &[Verdict]) -> Vec<Pass> {
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
