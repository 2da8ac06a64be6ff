//! What a report states: failing checks with their evidence, and what passed.

use serde::Serialize;

use crate::check::Evidence;
use crate::sentence::{self, Sentence};

/// A root cause, with what it explains.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// The check.
    pub check: String,
    /// Its place in the catalogue.
    #[serde(skip)]
    pub(super) place: usize,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
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

/// A fact that decided.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EvidenceLine {
    /// The fact, as conditions name it.
    pub fact: String,
    /// Its value in words, or why it is unknown.
    pub value: String,
    /// Where it comes from.
    pub origin: String,
    /// Whether the condition that fails names it, and not only what the check applies to.
    #[serde(skip)]
    pub decides: bool,
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

/// A check that passed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pass {
    /// The check.
    pub check: String,
    /// For what.
    pub subject: String,
    /// The facts that decided.
    pub evidence: Vec<EvidenceLine>,
}

/// A fact as a line of evidence.
pub(super) fn evidence_line(evidence: Evidence) -> EvidenceLine {
    let decides = evidence.decides;
    match evidence.value {
        Ok(value) => EvidenceLine {
            fact: evidence.fact,
            value: value.to_string(),
            origin: evidence.origin.map_or(String::new(), |o| o.to_string()),
            decides,
        },
        Err(gap) => EvidenceLine {
            fact: evidence.fact,
            value: gap.why.to_string(),
            origin: gap.origin.to_string(),
            decides,
        },
    }
}
