//! What rank 0 gathers of a measurement of pairs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::PairRounds;
use crate::cluster::session_steps::StepAudience;
use crate::measure::plan::pairs::{Results, Silent};

/// What rank 0 has until now.
pub(super) struct Gathering {
    pub(super) results: Results,
    /// The nodes that are gone, and why.
    pub(super) gone: BTreeMap<u64, String>,
    /// Whether this is rank 0.
    pub(super) hears: bool,
}

impl Gathering {
    /// Lists the nodes that are gone among the silent ones.
    pub(super) fn note_gone(&mut self, rounds: &PairRounds<'_>) {
        let silent = self.gone.iter().map(|(rank, why)| Silent {
            host: rounds.session.name(*rank),
            why: why.clone(),
        });
        self.results.plan.silent = silent.collect();
    }
}

impl PairRounds<'_> {
    /// Gives what this node has to rank 0, which gets what each node has.
    pub(super) fn give<T: Serialize + for<'d> Deserialize<'d>>(
        &self,
        step: &str,
        value: &T,
        wait: Duration,
        gathering: &mut Gathering,
    ) -> anyhow::Result<Vec<(usize, T)>> {
        let value = serde_json::to_value(value)?;
        let step = self.step(step);
        let members = self.members();
        let all = (self.session).exchange(&step, &members, StepAudience::Rank0, wait, value)?;
        for (rank, why) in all.missing {
            gathering.gone.entry(rank).or_insert(why);
        }
        if !gathering.hears {
            return Ok(Vec::new());
        }
        let mut came = Vec::new();
        for (rank, value) in all.values {
            let Some(node) = self.nodes.iter().position(|node| node.rank == rank) else {
                continue;
            };
            match serde_json::from_value(value) {
                Ok(value) => came.push((node, value)),
                Err(error) => {
                    let why = format!("what it says is not understood: {error}");
                    gathering.gone.entry(rank).or_insert(why);
                }
            }
        }
        Ok(came)
    }
}
