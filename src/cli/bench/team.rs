//! Measurements of collectives over several nodes: what each node has is put together, each starts its own ranks, and rank 0 gathers what became of them.

mod bisect;
mod link;
mod members;
mod parts;
mod runs;
mod verdict;

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use self::parts::{busbw, ended_well};
pub use self::verdict::{Made, Verdict};
use super::measuring::{self, Chosen, MeasureArgs};
use crate::cli::together::TogetherArgs;
use crate::cli::together::session::{self, Joined};
use crate::cli::{input, output, record};
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::exit::Exit;
use crate::fact::{Facts, Id};
use crate::live::worker::Progress;
use crate::measure::plan::bisection::BISECTED;
use crate::measure::plan::results::Results;
use crate::measure::plan::run::{NAME, Plan, Point};
use crate::measure::plan::scope::{Scope, Scopes};
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// How long nodes wait for what rank 0 does next: it may measure by itself, or judge. Where it is gone they know at once.
const NEXT: Duration = Duration::from_secs(3600);
/// How long nodes wait for each other where nothing is to be done, beyond the time that a run may take.
const SLACK: Duration = Duration::from_secs(20);

/// The nodes that measure together.
pub struct Team {
    session: Arc<Session>,
    /// Their ranks in the session, in order.
    members: Vec<u64>,
    /// How many ranks of the measurement each has.
    counts: Vec<usize>,
    /// This node's place among them.
    own: usize,
    /// How many runs were led, or followed.
    runs: Cell<u64>,
    /// How the verdict comes to all.
    pub verdict: Verdict,
}

/// How a measurement begins.
pub enum Start {
    /// The node is alone.
    Alone,
    /// It is over for this process: another one of its node acts, or the nodes cannot measure together.
    Over(Made),
    /// They can.
    Ready(Box<Ready>),
}

/// In which parts of a job its last operation is measured too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// Inside each node, and with one rank of each.
    pub inside: bool,
    /// In halves of the nodes, and halves of those, for so long, to find what makes the whole slow.
    pub bisect: Option<Duration>,
}

/// What there is before the first run.
pub struct Ready {
    /// The recording of this node.
    pub recording: Recording,
    /// The nodes.
    pub team: Team,
    /// All ranks.
    pub chosen: Chosen,
    /// This node's ranks.
    pub own: Chosen,
    /// Who was expected and did not come, and why.
    pub silent: Vec<(String, String)>,
}

/// Comes together with the nodes of the launch, where there are several. `wishes` are those of who started this, by the node's facts; or why nothing can be
/// measured here.
///
/// # Errors
///
/// The launch is not understood, nodes do not come together, or wishes do not.
pub fn start(
    who: &MeasureArgs,
    together: &TogetherArgs,
    wishes: impl FnOnce(&Facts, Id) -> Result<MeasureArgs, String>,
) -> anyhow::Result<Start> {
    let joined = match session::part(together)? {
        session::Part::Alone => return Ok(Start::Alone),
        session::Part::Idle => return Ok(Start::Over(Made::Elsewhere(Exit::Healthy))),
        session::Part::Joined(joined) => *joined,
    };
    let Joined { session, silent } = joined;
    let session = Arc::new(session);
    for silent in &silent {
        if session.rank() == 0 {
            measuring::say(&format!("{} takes no part: {}", silent.host, silent.why));
        }
    }
    let recording = measuring::node_recording(who)?;
    let own = members::own(&recording, wishes, &session)?;
    let verdict = Verdict {
        session: Some(Arc::clone(&session)),
        exit_on: together.exit_on,
    };
    Ok(match Team::of(&session, &verdict, own)? {
        Ok((team, chosen, own)) => Start::Ready(Box::new(Ready {
            recording,
            team,
            chosen,
            own,
            silent: silent.into_iter().map(|one| (one.host, one.why)).collect(),
        })),
        Err(why) => Start::Over(verdict.made(recording, Some(why))),
    })
}

/// What this recording has; where there is none, what is measured.
///
/// # Errors
///
/// The recording cannot be read, or nothing be measured.
pub fn read_or_measured(
    recording: Option<&Path>,
    measured: impl FnOnce() -> anyhow::Result<Made>,
) -> anyhow::Result<Made> {
    match recording {
        Some(path) => Ok(Verdict::alone().made(input::open(&[path])?.remove(0), None)),
        None => measured(),
    }
}

/// Records this node and measures, with the nodes of the launch where there are several. `points` says which operations, by who takes part;
/// `parts` whether the last of them is measured in parts too.
///
/// # Errors
///
/// The launch is not understood, nodes do not come together, or wishes do not.
pub fn measured(
    who: &MeasureArgs,
    together: &TogetherArgs,
    deadline: Duration,
    parts: Parts,
    points: impl Fn(&Chosen) -> anyhow::Result<Vec<Point>>,
) -> anyhow::Result<Made> {
    let ready = match start(who, together, |_, _| Ok(who.clone()))? {
        Start::Over(made) => return Ok(made),
        Start::Ready(ready) => *ready,
        Start::Alone => {
            let (recording, why) = measuring::measured(who, |recording, chosen| {
                let points = points(&chosen)?;
                if let Err(why) = measuring::hold(&chosen, &points) {
                    return Ok(Some(why));
                }
                measuring::make(recording, &chosen.plan(points, 1), deadline);
                Ok(None)
            })?;
            return Ok(Verdict::alone().made(recording, why));
        }
    };
    let Ready {
        mut recording,
        team,
        chosen,
        own,
        silent: _,
    } = ready;
    let session = Arc::clone(&team.session);
    let points = points(&chosen)?;
    let unable = measuring::hold(&own, &points).err();
    if let Some(why) = team.unable("ready", unable)? {
        return Ok(team.verdict.made(recording, Some(why)));
    }
    let last = points.last().cloned();
    let plan = team.same("plan", &chosen.clone().plan(points, 1))?;
    let lines = team.make(&recording, &plan, "whole", deadline)?;
    let mut scopes = Scopes::default();
    // What did not end well in the whole has no parts to compare.
    let well = lines.as_ref().is_some_and(|lines| ended_well(lines));
    let all = session.exchange(
        "well",
        &[],
        StepAudience::Rank0,
        SLACK,
        json!(well && parts.inside),
    )?;
    let well = all.values.get(&0) == Some(&Value::Bool(true));
    if let Some(point) = last.filter(|_| well) {
        let point = Point {
            trials: point.trials.min(3),
            ..point
        };
        scopes = team.scopes(&recording, &plan, &own, &point, deadline)?;
        if let Some(within) = parts.bisect {
            let whole = lines.as_deref().and_then(|lines| busbw(&plan, lines));
            let times = (within, deadline);
            scopes.bisection = team.bisect(&recording, (&plan, &chosen), &point, whole, times)?;
        }
    }
    output::progress(Progress::Done);
    let mut told = plan.to_value();
    if scopes.bisection.is_some() {
        told[BISECTED] = Value::Bool(true);
    }
    recording.replace(NAME, Plan::question(), told);
    for line in lines.into_iter().flatten() {
        recording.add(line);
    }
    if parts.inside {
        scopes.whole = Results::read(&recording.of(NAME))
            .ok()
            .and_then(|results| Scope::of(&results, None));
        let at = recording.duration();
        recording.add(Line::of(NAME, Scopes::question(), &scopes, at));
    }
    recording.end();
    Ok(team.verdict.made(recording, None))
}

impl Team {
    pub(super) fn name(&self, node: usize) -> String {
        let rank = self.members.get(node).copied().unwrap_or(0);
        let name = self.session.names().get(&rank).cloned();
        name.unwrap_or_else(|| format!("rank {rank}"))
    }

    /// Whether one of the nodes cannot go on, and why.
    pub(super) fn unable(&self, step: &str, own: Option<String>) -> anyhow::Result<Option<String>> {
        let all = (self.session).exchange(step, &[], StepAudience::Everyone, SLACK, json!(own))?;
        let name = |rank: &u64| self.session.names().get(rank).cloned().unwrap_or_default();
        let gone = all.missing.iter().next();
        let unable = all
            .values
            .iter()
            .find_map(|(rank, why)| Some((rank, why.as_str()?)));
        Ok(match (gone, unable) {
            (Some((rank, why)), _) => Some(format!("{}: {why}", name(rank))),
            (None, Some((rank, why))) => Some(format!("{}: {why}", name(rank))),
            (None, None) => None,
        })
    }

    /// The plan of rank 0: what the buffers hold follows from its seed.
    pub(super) fn same(&self, step: &str, plan: &Plan) -> anyhow::Result<Plan> {
        let all =
            (self.session).exchange(step, &[], StepAudience::Rank0, SLACK, plan.to_value())?;
        let value = all.values.get(&0).context("rank 0's plan")?;
        Plan::from_value(value).map_err(|what| anyhow::anyhow!("rank 0's plan: {what}"))
    }

    /// The numbers of this node's ranks, where each node has so many.
    pub(super) fn range(&self, counts: &[usize]) -> Range<usize> {
        let first: usize = counts.iter().take(self.own).sum();
        first..first + counts.get(self.own).copied().unwrap_or(0)
    }

    /// Those of these ranks that are on this node.
    pub fn own_of(&self, chosen: &Chosen) -> Chosen {
        let own = self.own as u64;
        let ranks = chosen.ranks.iter().filter(|place| place.node == own);
        Chosen {
            ranks: ranks.cloned().collect(),
            ..chosen.clone()
        }
    }

    /// Whether this is rank 0, which says what is done.
    pub fn leads(&self) -> bool {
        self.session.rank() == 0
    }

    /// The recordings of all other nodes as text, by their names, at rank 0.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn recordings(&self, own: &Recording) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let text = match self.leads() {
            true => String::new(),
            false => record::to_text(own, None),
        };
        let all =
            (self.session).exchange("recordings", &[], StepAudience::Rank0, NEXT, json!(text))?;
        let mut given = Vec::new();
        for (rank, value) in all.values.into_iter().filter(|(rank, _)| *rank != 0) {
            if let (Some(name), Value::String(text)) = (self.session.names().get(&rank), value) {
                given.push((name.clone(), text.into_bytes()));
            }
        }
        Ok(given)
    }
}
