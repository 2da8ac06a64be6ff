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

impl Term {
    /// What switches that add make of a ring over NVLinks.
    pub(super) fn nvls(&self, ranks: u64) -> Option<Term> {
        if self.by != BoundBy::Nvlink {
            return None;
        }
        Some(Term {
            carries: bandwidth_model::nvls(self.carries, ranks)?,
            by: BoundBy::Nvls,
            at: Arc::clone(&self.at),
        })
    }
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
    let least = terms.iter().min_by(|a, b| a.carries.total_cmp(&b.carries));
    least.cloned()
}
