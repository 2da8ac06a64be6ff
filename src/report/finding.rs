//! What a report states of failing checks.

use serde::Serialize;

use crate::check::{Catalogue, Check, Severity};
use crate::sentence::{self, Sentence};
use crate::whole::{EvidenceLine, Failure};

/// A root cause, with what it explains.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// The check.
    pub check: String,
    /// The area to which the check belongs.
    pub area: String,
    /// Its place in the catalogue.
    #[serde(skip)]
    pub(super) place: usize,
    /// Whether further sentences are of other cases of the check.
    #[serde(skip)]
    pub(super) is_shown_in_several_ways: bool,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// Whether it is a note on which nobody acts: text lists it with `--notes` only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// For what the check fails; the first if there are several.
    pub subject: String,
    /// All for which it fails.
    pub subjects: Vec<String>,
    /// The nodes that it concerns, if several are judged together: those on which it was found, or that are odd among the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Observed and expected values for the first subject; behind its premise if that is not known to be met.
    #[serde(flatten, serialize_with = "sentence::flattened")]
    #[cfg_attr(test, schemars(with = "sentence::SaidJson"))]
    pub sentence: Sentence,
    /// The premise with which the sentence begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub premise: Option<&'static str>,
    /// The sentences for the further subjects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Sentence>,
    /// Why it matters.
    pub why: Sentence,
    /// What to do, the least disruptive first.
    pub fix: Sentence,
    /// Where to read more.
    pub see: Vec<String>,
    /// The facts that decided, for the first subject.
    pub evidence: Vec<EvidenceLine>,
    /// What fails because of it.
    pub consequences: Vec<Consequence>,
}

/// The name of the checks whose notes nobody acts on.
const BACKGROUND: &str = "background";

impl Finding {
    /// Makes it as severe as this, if it is less.
    pub(super) fn raise_to(&mut self, severity: &'static str) {
        if Severity::from_word(severity) < Severity::from_word(self.severity) {
            self.severity = severity;
            self.background = false;
        }
    }

    /// Whether only `--notes` lists it: what somebody acts on never hides beneath it.
    pub(super) fn is_background(&self) -> bool {
        let is_note = |one: &Consequence| one.severity == Severity::Note.word();
        self.background && self.consequences.iter().all(is_note)
    }
}

/// A finding that another explains.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Consequence {
    /// The check.
    pub check: String,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// For what it fails.
    pub subject: String,
    /// Observed and expected values.
    #[serde(flatten, serialize_with = "sentence::flattened")]
    #[cfg_attr(test, schemars(with = "sentence::SaidJson"))]
    pub sentence: Sentence,
}

/// Whether it is a note on which nobody acts.
fn is_background(check: &Check) -> bool {
    check.severity == Severity::Note && check.is_named(BACKGROUND)
}

/// The findings of these failures, which follow what explains them. `several` says whether each
/// name has its node before it.
pub(super) fn findings(
    catalogue: &Catalogue,
    failures: Vec<Failure>,
    several: bool,
) -> Vec<Finding> {
    let name = |failure: &Failure| {
        if several {
            failure.subject.with_node()
        } else {
            failure.subject.name.to_string()
        }
    };
    let mut findings: Vec<Finding> = Vec::new();
    for failure in failures {
        let subject = name(&failure);
        let check = &catalogue.checks[failure.check];
        // What a cause explains follows it.
        match findings.last_mut() {
            Some(cause) if failure.is_consequence => {
                // What makes an error is one, or a report of an error would list none.
                cause.raise_to(failure.severity.word());
                cause.consequences.push(Consequence {
                    check: check.id.to_string(),
                    severity: failure.severity.word(),
                    subject,
                    sentence: failure.sentence,
                });
            }
            Some(cause) if *cause.check == *check.id => {
                if !failure.presumed && check.severity.word() == Severity::Error.word() {
                    cause.severity = check.severity.word();
                }
                // One subject can show a problem in several ways.
                if cause.place == failure.check || !cause.subjects.contains(&subject) {
                    cause.subjects.push(subject);
                }
                cause.is_shown_in_several_ways |= cause.place != failure.check;
                cause.background &= is_background(check);
                cause.further.push(failure.sentence);
            }
            _ => findings.push(leading(catalogue, failure, subject)),
        }
    }
    findings
}

/// The finding that a failure leads.
fn leading(catalogue: &Catalogue, failure: Failure, subject: String) -> Finding {
    let check = &catalogue.checks[failure.check];
    let advice = check.advice();
    Finding {
        check: check.id.to_string(),
        area: check.area.to_string(),
        place: failure.check,
        is_shown_in_several_ways: false,
        severity: failure.severity.word(),
        background: is_background(check),
        subject: subject.clone(),
        subjects: vec![subject],
        nodes: Vec::new(),
        sentence: failure.sentence,
        premise: failure.premise,
        further: Vec::new(),
        why: advice.why.clone(),
        fix: failure.remedy,
        see: advice.see.iter().map(|s| s.to_string()).collect(),
        evidence: failure.evidence,
        consequences: Vec::new(),
    }
}
