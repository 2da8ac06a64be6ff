//! The facts that decided, and what passed because of them.

use serde::Serialize;

use crate::check::Evidence;

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

impl EvidenceLine {
    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.fact.len() + self.value.len() + self.origin.len()
    }
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

impl Pass {
    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let evidence = self.evidence.iter().map(EvidenceLine::bytes).sum::<usize>();
        size_of::<Self>() + self.check.len() + self.subject.len() + evidence
    }
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
