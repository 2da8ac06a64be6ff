//! One thing that a path goes through: what it carries, and where it is.

use std::fmt;
use std::sync::Arc;

use crate::derive::bandwidth_model;
use crate::fact::BitRate;
use crate::fact::path::BoundBy;

/// What something on a path carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// In GB/s, one direction.
    pub carries: f64,
    /// What it is.
    pub by: BoundBy,
    /// Where it is.
    pub at: Arc<str>,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = both(bandwidth_model::rate(self.carries));
        write!(f, "{}: {rate} at {}", self.by.word(), self.at)
    }
}

/// A rate in the units of links and of busbw.
pub(super) fn both(rate: BitRate) -> String {
    format!("{rate} ({:.1} GB/s)", bandwidth_model::gigabytes(rate))
}

/// The least of several; the first of equals.
pub(super) fn least(terms: &[Term]) -> Option<Term> {
    let mut least: Option<&Term> = None;
    for term in terms {
        if least.is_none_or(|old| term.carries < old.carries) {
            least = Some(term);
        }
    }
    least.cloned()
}
