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
    /// Nodes that did not reach the one at which all of them meet.
    pub unreached: Vec<Unreached>,
}

/// A node that did not reach the one at which all of them meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// The node.
    pub host: String,
    /// The one at which they meet.
    pub leader: String,
    /// Where it tried, and what the kernel said.
    pub why: String,
}
