//! The cluster's facts.

use super::schema::subject;

subject! {
    /// All nodes that are judged together.
    Cluster = "cluster" from "derive";
    /// How many nodes are judged together.
    NODES: u64 = "nodes" from "derive";
}
