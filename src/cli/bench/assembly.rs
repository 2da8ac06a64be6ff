//! How the nodes of a launch come together to measure, and measure collectives.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::measuring::{self, MeasureArgs};
use super::shared_verdict::{MeasurementEnd, SharedVerdict};
use crate::cli::together::{Part, TogetherArgs, part};
use crate::cli::{input, output};
use crate::cluster::session::Session;
use crate::examine::launch::session::Joined;
use crate::examine::one::own_facts;
use crate::exit::Exit;
use crate::fact::{Facts, Id};
use crate::measure::plan::pairs::Silent;
use crate::measure::plan::rank_choice::{ChosenRanks, assign_addresses};
use crate::measure::plan::run::Point;
use crate::measure::run::plan_runs::measure_points;
use crate::measure::run::ranks::RankProcess;
use crate::measure::run::team::{Assembled, PartRequest, Team};
use crate::source::recording::Recording;

/// How a measurement begins.
pub enum Start {
    /// The node is alone.
    Alone,
    /// It is over for this process: another process of its node acts, or the nodes cannot measure together.
    Over(MeasurementEnd),
    /// The nodes can measure together.
    Ready(Box<Ready>),
}

/// What there is before the first run.
pub struct Ready {
    /// The recording of this node.
    pub recording: Recording,
    /// The nodes and their ranks.
    pub assembled: Assembled,
    /// The expected nodes that did not connect, and why.
    pub silent: Vec<Silent>,
    /// Brings the verdict to all.
    pub verdict: SharedVerdict,
}

impl Ready {
    /// Takes part in the runs that rank 0 leads, and waits for its verdict: the exit status.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn follow(&self, deadline: Duration) -> anyhow::Result<Exit> {
        let how = RankProcess::of(&self.recording, deadline);
        self.assembled.team.follow_runs(&how)?;
        Ok(self.verdict.hear())
    }
}

/// Comes together with the other nodes of the launch, if there are any. `request` adapts the options to the node's facts, or says why nothing can be measured.
///
/// # Errors
///
/// The launch is not understood, nodes do not come together, or options contradict each other.
pub fn start(
    who: &MeasureArgs,
    together: &TogetherArgs,
    request: impl FnOnce(&Facts, Id) -> Result<MeasureArgs, String>,
) -> anyhow::Result<Start> {
    let Joined { session, silent } = match part(together)? {
        Part::Alone => return Ok(Start::Alone),
        Part::Idle => return Ok(Start::Over(MeasurementEnd::Elsewhere(Exit::Healthy))),
        Part::Joined(joined) => *joined,
    };
    let session = Arc::new(session);
    for silent in &silent {
        if session.rank() == 0 {
            output::say(&format!("{} takes no part: {}", silent.host, silent.why));
        }
    }
    let recording = measuring::node_recording(who)?;
    let own = choose_own(&recording, request, &session)?;
    let verdict = SharedVerdict {
        session: Some(Arc::clone(&session)),
        exit_on: together.exit_on,
    };
    if let ([first, ..], ..2) = (silent.as_slice(), session.names().len()) {
        let why = format!("no other node connected: {}", first.why);
        return Ok(Start::Over(verdict.end(recording, Some(why))));
    }
    Ok(match Team::assemble(&session, own, output::progress)? {
        Ok(assembled) => Start::Ready(Box::new(Ready {
            recording,
            assembled,
            silent,
            verdict,
        })),
        Err(why) => Start::Over(verdict.end(recording, Some(why))),
    })
}

/// This node's ranks in a session, or why it has none.
fn choose_own(
    recording: &Recording,
    request: impl FnOnce(&Facts, Id) -> Result<MeasureArgs, String>,
    session: &Session,
) -> anyhow::Result<Result<ChosenRanks, String>> {
    let (facts, node) = own_facts(recording);
    let who = match request(&facts, node) {
        Ok(who) => who,
        Err(why) => return Ok(Err(why)),
    };
    let chosen = measuring::choose(&facts, node, &who)?;
    Ok(chosen
        .and_then(|ranks| assign_addresses(&facts, node, &who.device, session.address(), ranks)))
}

/// Reads this recording; without one, measures.
///
/// # Errors
///
/// The recording cannot be read, or nothing be measured.
pub fn read_or_measure(
    recording: Option<&Path>,
    measure: impl FnOnce() -> anyhow::Result<MeasurementEnd>,
) -> anyhow::Result<MeasurementEnd> {
    match recording {
        Some(path) => Ok(SharedVerdict::alone().end(input::open(&[path])?.remove(0), None)),
        None => measure(),
    }
}

/// Records this node and measures, with the other nodes of the launch if there are any. `points` gives the operations for the chosen ranks.
///
/// # Errors
///
/// The launch is not understood, nodes do not come together, or options contradict each other.
pub fn measure(
    who: &MeasureArgs,
    together: &TogetherArgs,
    deadline: Duration,
    parts: PartRequest,
    points: impl Fn(&ChosenRanks) -> anyhow::Result<Vec<Point>>,
) -> anyhow::Result<MeasurementEnd> {
    let ready = match start(who, together, |_, _| Ok(who.clone()))? {
        Start::Over(end) => return Ok(end),
        Start::Ready(ready) => *ready,
        Start::Alone => {
            let choose = |facts: &Facts, node| measuring::choose(facts, node, who);
            let (recording, why) = measuring::measured(who, choose, |recording, ranks| {
                let points = points(&ranks)?;
                measure_points(recording, ranks, points, deadline, output::progress)
            })?;
            return Ok(SharedVerdict::alone().end(recording, why));
        }
    };
    let Ready {
        mut recording,
        assembled: Assembled { team, all, own },
        verdict,
        ..
    } = ready;
    let why = team.measure(&mut recording, (&all, &own), points(&all)?, parts, deadline)?;
    Ok(verdict.end(recording, why))
}
