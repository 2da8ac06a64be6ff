//! Whether the nodes of a run reach each other, as far as it was tried.

use crate::measure::plan::pairs::Results;

/// The ways between nodes that were tried: over the interface by which they meet, and over their
/// RDMA ports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TriedWays {
    /// What came of each kind of way.
    pub parts: Vec<Results>,
    /// What was not tried, and why.
    pub left_out: Vec<String>,
}
