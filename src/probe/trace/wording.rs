//! Ranks and collectives in words.

use std::collections::{BTreeMap, BTreeSet};

use crate::trace::Members;

/// Ranks that are named in a sentence with their hosts, at most.
const NAMED: usize = 3;

/// The host of each rank, as far as it is known.
#[derive(Default)]
pub(super) struct Hosts(pub(super) BTreeMap<u32, String>);

impl Hosts {
    fn name(&self, rank: u32) -> String {
        match self.0.get(&rank) {
            Some(host) => format!("{rank} ({host})"),
            None => rank.to_string(),
        }
    }

    /// `rank 5 (n2)`, `ranks 10 and 15`, `ranks 8-15`
    pub(super) fn list(&self, ranks: &BTreeSet<u32>) -> String {
        let names: Vec<String> = ranks
            .iter()
            .take(NAMED)
            .map(|rank| self.name(*rank))
            .collect();
        match names.as_slice() {
            [one] => format!("rank {one}"),
            [first, second] => format!("ranks {first} and {second}"),
            [first, second, third] if ranks.len() == NAMED => {
                format!("ranks {first}, {second} and {third}")
            }
            _ => format!("ranks {}", Members::of(ranks.iter().copied())),
        }
    }

    /// `rank 3`, `7 ranks`
    pub(super) fn count_or_name(&self, ranks: &BTreeSet<u32>) -> String {
        match ranks.first() {
            Some(one) if ranks.len() == 1 => format!("rank {}", self.name(*one)),
            _ => format!("{} ranks", ranks.len()),
        }
    }
}

/// `nccl:_all_gather_base` is `all-gather`.
pub(super) fn operation(name: &str) -> String {
    let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
    let name = name.trim_start_matches('_').trim_end_matches("_base");
    name.replace('_', "-").to_lowercase()
}
