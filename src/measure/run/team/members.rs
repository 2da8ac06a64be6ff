//! How a team assembles from what each node has for the measurement.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::Team;
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::run::{Backend, RankPlacement};
use crate::measure::run::progress::ShowProgress;

/// How long a node may take to record itself before it says what it has.
const OFFERS: Duration = Duration::from_secs(60);

/// What a node offers for the measurement.
#[derive(Default, Serialize, Deserialize)]
struct Offer {
    /// Why it has nothing.
    #[serde(default)]
    unable: Option<String>,
    backend: Option<Backend>,
    library: Option<String>,
    #[serde(default)]
    ranks: Vec<RankPlacement>,
}

/// A team, and the ranks of its measurement.
pub struct Assembled {
    /// The nodes.
    pub team: Team,
    /// All ranks.
    pub all: ChosenRanks,
    /// This node's ranks.
    pub own: ChosenRanks,
}

impl Team {
    /// Assembles the nodes of a session; `own` is what this node has, or why it has nothing. The inner error says why they cannot measure together.
    ///
    /// # Errors
    ///
    /// The session is lost.
    pub fn assemble(
        session: &Arc<Session>,
        own: Result<ChosenRanks, String>,
        show: ShowProgress,
    ) -> anyhow::Result<Result<Assembled, String>> {
        let offer = match own {
            Ok(chosen) => Offer {
                backend: Some(chosen.backend),
                library: chosen.library,
                ranks: chosen.ranks,
                ..Offer::default()
            },
            Err(why) => Offer {
                unable: Some(why),
                ..Offer::default()
            },
        };
        let value = serde_json::to_value(&offer)?;
        let all = session.exchange("chosen", &[], StepAudience::Everyone, OFFERS, value)?;
        let name = |rank: u64| {
            let name = session.names().get(&rank).cloned();
            name.unwrap_or_else(|| format!("rank {rank}"))
        };
        if let Some((rank, why)) = all.missing.iter().next() {
            return Ok(Err(format!("{}: {why}", name(*rank))));
        }
        let mut team = Team {
            session: Arc::clone(session),
            members: Vec::new(),
            counts: Vec::new(),
            own: 0,
            runs: Cell::new(0),
            show,
        };
        let mut whole: Option<ChosenRanks> = None;
        let mut mine = None;
        for (node, (rank, value)) in all.values.into_iter().enumerate() {
            let offer: Offer = serde_json::from_value(value).context("what a node has")?;
            if let Some(why) = offer.unable {
                return Ok(Err(format!("{}: {why}", name(rank))));
            }
            let backend = offer.backend.context("a node without a backend")?;
            let at = |place: RankPlacement| RankPlacement {
                node: node as u64,
                ..place
            };
            let ranks: Vec<RankPlacement> = offer.ranks.into_iter().map(at).collect();
            if rank == session.rank() {
                team.own = node;
                mine = Some(ChosenRanks {
                    backend,
                    library: offer.library.clone(),
                    ranks: ranks.clone(),
                });
            }
            team.members.push(rank);
            team.counts.push(ranks.len());
            match &mut whole {
                None => {
                    whole = Some(ChosenRanks {
                        backend,
                        library: offer.library,
                        ranks,
                    });
                }
                Some(whole) if whole.backend != backend => {
                    return Ok(Err(format!(
                        "{} measures with {}, {} with {}: name one with --backend",
                        name(0),
                        whole.backend.name(),
                        name(rank),
                        backend.name()
                    )));
                }
                Some(whole) => whole.ranks.extend(ranks),
            }
        }
        let (Some(all), Some(own)) = (whole, mine) else {
            return Ok(Err("this node takes no part".into()));
        };
        Ok(Ok(Assembled { team, all, own }))
    }
}
