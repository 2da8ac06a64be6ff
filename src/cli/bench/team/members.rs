//! What each node has for a measurement, put together.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{Team, Verdict};
use crate::cli::bench::measuring::{self, Chosen, MeasureArgs};
use crate::cli::bench::pairs::rails;
use crate::cli::input;
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::fact::{Facts, Id};
use crate::measure::plan::run::{Backend, RankPlace};
use crate::source::recording::Recording;

/// How long a node may take to record itself before it says what it has.
const CARDS: Duration = Duration::from_secs(60);

/// What a node has for the measurement.
#[derive(Serialize, Deserialize)]
struct Card {
    /// Why it has nothing.
    #[serde(default)]
    unable: Option<String>,
    backend: Option<Backend>,
    library: Option<String>,
    #[serde(default)]
    ranks: Vec<RankPlace>,
}

/// What this node has for the measurement.
pub(super) fn own(
    recording: &Recording,
    wishes: impl FnOnce(&Facts, Id) -> Result<MeasureArgs, String>,
    session: &Session,
) -> anyhow::Result<Result<Chosen, String>> {
    let (facts, nodes) = input::facts(std::slice::from_ref(recording));
    let Some(node) = nodes.first().map(|node| node.id) else {
        return Ok(Err("the node says nothing of itself".into()));
    };
    let who = match wishes(&facts, node) {
        Ok(who) => who,
        Err(why) => return Ok(Err(why)),
    };
    let mut chosen = match measuring::choose(&facts, node, &who)? {
        Ok(chosen) => chosen,
        Err(why) => return Ok(Err(why)),
    };
    drop(facts);
    if chosen.backend == Backend::Tcp {
        // Sockets have addresses, which a person names by their interfaces.
        let is_address = |name: &String| name.parse::<std::net::IpAddr>().is_ok();
        let addresses = match who.device.iter().all(is_address) && !who.device.is_empty() {
            true => who.device.clone(),
            false => match rails::choose(recording, &who.device, session.address()) {
                Ok(rails) => rails.into_iter().map(|rail| rail.address).collect(),
                Err(why) => return Ok(Err(why)),
            },
        };
        for (rank, place) in chosen.ranks.iter_mut().enumerate() {
            place.device = addresses.get(rank % addresses.len().max(1)).cloned();
        }
    }
    Ok(Ok(chosen))
}

impl Team {
    /// Puts together what all nodes have: the nodes, all ranks, and this node's. Why they cannot measure together, where they cannot.
    pub(super) fn of(
        session: &Arc<Session>,
        verdict: &Verdict,
        own: Result<Chosen, String>,
    ) -> anyhow::Result<Result<(Self, Chosen, Chosen), String>> {
        let card = match own {
            Ok(chosen) => Card {
                unable: None,
                backend: Some(chosen.backend),
                library: chosen.library,
                ranks: chosen.ranks,
            },
            Err(why) => Card {
                unable: Some(why),
                backend: None,
                library: None,
                ranks: Vec::new(),
            },
        };
        let value = serde_json::to_value(&card)?;
        let all = session.exchange("chosen", &[], StepAudience::Everyone, CARDS, value)?;
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
            verdict: verdict.clone(),
        };
        let mut whole: Option<Chosen> = None;
        let mut mine = None;
        for (node, (rank, value)) in all.values.into_iter().enumerate() {
            let card: Card = serde_json::from_value(value).context("what a node has")?;
            if let Some(why) = card.unable {
                return Ok(Err(format!("{}: {why}", name(rank))));
            }
            let backend = card.backend.context("a node without a backend")?;
            let at = |place: RankPlace| RankPlace {
                node: node as u64,
                ..place
            };
            let ranks: Vec<RankPlace> = card.ranks.into_iter().map(at).collect();
            if rank == session.rank() {
                team.own = node;
                mine = Some(Chosen {
                    backend,
                    library: card.library.clone(),
                    ranks: ranks.clone(),
                });
            }
            team.members.push(rank);
            team.counts.push(ranks.len());
            match &mut whole {
                None => {
                    whole = Some(Chosen {
                        backend,
                        library: card.library,
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
        let (Some(whole), Some(mine)) = (whole, mine) else {
            return Ok(Err("this node takes no part".into()));
        };
        Ok(Ok((team, whole, mine)))
    }
}
