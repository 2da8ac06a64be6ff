//! Findings that the site accepts for a time.

use serde::Serialize;

use crate::sentence::Sentence;

/// A finding that a waiver accepts.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaivedFinding {
    /// The check.
    pub check: String,
    /// `error`, `warning` or `note`: what it would be.
    pub severity: &'static str,
    /// All for which it fails.
    pub subjects: Vec<String>,
    /// The nodes on which it was found, if several are judged together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Observed and expected values for the first subject.
    pub sentence: Sentence,
    /// The id or pattern of the waiver; another than the check's if it waives what explains this.
    pub by: String,
    /// Why it is accepted.
    pub reason: String,
    /// The person or team that answers for it.
    pub owner: String,
    /// The last day, in UTC.
    pub until: String,
}

impl WaivedFinding {
    /// Until when it is accepted, by whom, and why.
    pub fn terms(&self) -> String {
        format!("until {}, {}: {}", self.until, self.owner, self.reason)
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let subjects = self
            .subjects
            .iter()
            .map(|name| size_of::<String>() + name.len());
        size_of::<Self>() + self.sentence.letters() + subjects.sum::<usize>()
    }

    /// Whether the other is the same check, accepted by the same waiver.
    pub fn is_like(&self, other: &Self) -> bool {
        self.check == other.check && self.by == other.by && self.terms() == other.terms()
    }
}
