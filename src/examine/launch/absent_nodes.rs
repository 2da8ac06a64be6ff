//! The expected nodes that did not connect to rank 0, by the best names that they have.

use std::collections::BTreeSet;

use crate::cluster::rendezvous::Gathered;
use crate::examine::given::NodePlacement;
use crate::measure::plan::pairs::Silent;

/// What is known of an absent node.
pub(super) enum AbsentNode<'a> {
    Named(&'a str),
    Rank(u64),
    /// The engine names no node, and which of a node's processes acts for it is unknown.
    Unnamed,
}

impl AbsentNode<'_> {
    /// Whether the absent node is the one of this rank or name.
    pub(super) fn matches(&self, rank: u64, name: &str) -> bool {
        match self {
            AbsentNode::Named(own) => short(own) == short(name),
            AbsentNode::Rank(own) => *own == rank,
            AbsentNode::Unnamed => false,
        }
    }
}

/// The name without its domain, which not all sources of a name have.
fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// The names of the absent nodes, and why each is absent.
pub(super) fn absent_nodes(
    placement: &NodePlacement,
    gathered: &Gathered,
    why: impl Fn(&AbsentNode<'_>) -> String,
) -> Vec<Silent> {
    let missing = (placement.nodes).saturating_sub(gathered.nodes.len() as u64 + 1);
    if missing == 0 {
        return Vec::new();
    }
    let came = gathered.nodes.values().map(|came| &came.name);
    let here: BTreeSet<&str> = came
        .chain([&placement.own.name])
        .map(|name| short(name))
        .collect();
    let absent = |host: String, node: AbsentNode<'_>| Silent {
        host,
        why: why(&node),
    };
    if placement.names.len() as u64 == placement.nodes {
        let names = placement
            .names
            .iter()
            .filter(|name| !here.contains(short(name)));
        names
            .map(|name| absent(name.clone(), AbsentNode::Named(name)))
            .collect()
    } else if placement.own.ranks == placement.nodes {
        let ranks = (1..placement.nodes).filter(|rank| !gathered.nodes.contains_key(rank));
        ranks
            .map(|rank| absent(format!("rank {rank}"), AbsentNode::Rank(rank)))
            .collect()
    } else {
        let numbers = 1..=missing;
        let name = |n| format!("unnamed node {n} of {missing}");
        numbers
            .map(|n| absent(name(n), AbsentNode::Unnamed))
            .collect()
    }
}
