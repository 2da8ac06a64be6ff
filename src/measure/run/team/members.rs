//! How a team assembles from what each node has for the measurement.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::Team;
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::run::RankPlacement;
use crate::measure::run::progress::ShowProgress;

/// How long a node may take to record itself before it says what it has.
const OFFERS: Duration = Duration::from_secs(60);

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
    /// Assembles the nodes of a session; `own` is what this node has, or why it has nothing. The
    /// inner error says why they cannot measure together.
    ///
    /// # Errors
    ///
    /// The session is lost.
    pub fn assemble(
        session: &Arc<Session>,
        own: Result<ChosenRanks, String>,
        show: ShowProgress,
    ) -> anyhow::Result<Result<Assembled, String>> {
        let value = serde_json::to_value(&own)?;
        let all = session.exchange("chosen", &[], StepAudience::Everyone, OFFERS, value)?;
        if let Some((rank, why)) = all.missing.iter().next() {
            return Ok(Err(format!("{}: {why}", session.name(*rank))));
        }
        let mut team = Team {
            session: Arc::clone(session),
            members: Vec::new(),
            counts: Vec::new(),
            own: 0,
            runs: Cell::new(0),
            prefix: String::new(),
            lost: RefCell::new(BTreeMap::new()),
            show,
        };
        let mut whole: Option<ChosenRanks> = None;
        let mut mine = None;
        for (node, (rank, value)) in all.values.into_iter().enumerate() {
            let offer: Result<ChosenRanks, String> =
                serde_json::from_value(value).context("what a node has")?;
            let mut chosen = match offer {
                Ok(chosen) => chosen,
                Err(why) => return Ok(Err(format!("{}: {why}", session.name(rank)))),
            };
            for place in &mut chosen.ranks {
                place.node = node as u64;
            }
            team.members.push(rank);
            team.counts.push(chosen.ranks.len());
            if rank == session.rank() {
                team.own = node;
                mine = Some(chosen.clone());
            }
            match &mut whole {
                None => whole = Some(chosen),
                Some(whole) if whole.backend != chosen.backend => {
                    return Ok(Err(format!(
                        "{} measures with {}, {} with {}: name one with --backend",
                        session.name(0),
                        whole.backend.word(),
                        session.name(rank),
                        chosen.backend.word()
                    )));
                }
                Some(whole) => whole.ranks.extend(chosen.ranks),
            }
        }
        let (Some(all), Some(own)) = (whole, mine) else {
            return Ok(Err("this node takes no part".into()));
        };
        Ok(Ok(Assembled { team, all, own }))
    }
}

impl Assembled {
    /// The same without these nodes, by their ranks in the session; `None` if this node is one of
    /// them, or if what is left cannot measure: one node alone, or nodes without rank 0, which
    /// leads.
    pub fn without(&self, left_out: &BTreeSet<u64>) -> Option<Assembled> {
        let team = &self.team;
        let is_left = |node: &usize| !left_out.contains(&team.members[*node]);
        let left: Vec<usize> = (0..team.members.len()).filter(is_left).collect();
        let own = left.iter().position(|node| *node == team.own)?;
        if left.len() < 2 || !left.iter().any(|node| team.members[*node] == 0) {
            return None;
        }
        let narrowed = Team {
            session: Arc::clone(&team.session),
            members: left.iter().map(|node| team.members[*node]).collect(),
            counts: left.iter().map(|node| team.counts[*node]).collect(),
            own,
            runs: Cell::new(0),
            prefix: format!("{}fewer ", team.prefix),
            lost: RefCell::new(BTreeMap::new()),
            show: team.show,
        };
        Some(Assembled {
            team: narrowed,
            all: renumbered(&self.all, &left),
            own: renumbered(&self.own, &left),
        })
    }
}

/// The ranks on these nodes, with new numbers from 0.
fn renumbered(chosen: &ChosenRanks, nodes: &[usize]) -> ChosenRanks {
    let renumber = |place: &RankPlacement| {
        let node = (nodes.iter()).position(|node| place.node == *node as u64)?;
        Some(RankPlacement {
            node: node as u64,
            ..place.clone()
        })
    };
    ChosenRanks {
        ranks: chosen.ranks.iter().filter_map(renumber).collect(),
        ..chosen.clone()
    }
}
