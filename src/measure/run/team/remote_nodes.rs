//! The other nodes of one run, as this node's ranks reach them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{SLACK, Team};
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::live::clock;
use crate::measure::run::ranks::RemoteRanks;

/// The other nodes in one run.
pub(super) struct RemoteNodes {
    session: Arc<Session>,
    name: String,
    /// How many ranks each node has that has some, by its rank in the session.
    counts: Vec<(u64, usize)>,
    /// All members, those without ranks among them.
    members: Vec<u64>,
    ends: Instant,
}

impl RemoteNodes {
    pub(super) fn new(team: &Team, name: &str, counts: &[usize], deadline: Duration) -> Self {
        RemoteNodes {
            session: Arc::clone(&team.session),
            name: format!("{}{name}", team.prefix),
            counts: team
                .members
                .iter()
                .copied()
                .zip(counts.iter().copied())
                .filter(|(_, count)| *count > 0)
                .collect(),
            members: team.members.clone(),
            ends: clock::now() + deadline,
        }
    }

    pub(super) fn watched(&self) -> String {
        format!("{} watch", self.name)
    }

    fn left(&self) -> Duration {
        self.ends.saturating_duration_since(clock::now()) + SLACK
    }
}

impl RemoteRanks for RemoteNodes {
    fn all_gather(&self, number: u64, own: Vec<Value>) -> Result<Vec<Value>, String> {
        let step = format!("{} {number}", self.name);
        let value = Value::Array(own);
        // Nodes without a rank in this run have nothing to give.
        let members: Vec<u64> = self.counts.iter().map(|(rank, _)| *rank).collect();
        let all =
            (self.session).exchange(&step, &members, StepAudience::Everyone, self.left(), value);
        let mut all = all.map_err(|error| error.to_string())?;
        if let Some((rank, why)) = all.missing.iter().next() {
            return Err(format!("{}: {why}", self.session.name(*rank)));
        }
        let mut values = Vec::new();
        for (rank, count) in &self.counts {
            match all.values.remove(rank) {
                Some(Value::Array(of_node)) if of_node.len() == *count => values.extend(of_node),
                _ => {
                    return Err(format!(
                        "{}: it gave something else",
                        self.session.name(*rank)
                    ));
                }
            }
        }
        Ok(values)
    }

    fn wait_for_failure(&self) -> Option<String> {
        let watched = self.watched();
        match (self.session).watch(&watched, &self.members, self.left()) {
            Err(error) => Some(error.to_string()),
            Ok(all) => {
                let gone = all.missing.iter().next();
                let told = all.values.values().find_map(Value::as_str);
                gone.map(|(rank, why)| format!("{}: {why}", self.session.name(*rank)))
                    .or_else(|| told.map(str::to_owned))
            }
        }
    }

    fn report_failure(&self, why: &str) {
        let own = self.session.name(self.session.rank());
        let why = json!(format!("{why} (on {own})"));
        self.session.end(&self.watched(), &self.members, why);
    }
}
