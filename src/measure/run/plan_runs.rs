//! The runs of a plan, on this node or led on all nodes of a team.

use std::time::Duration;

use super::buffer_memory::check_buffers;
use super::progress::{ShowProgress, measuring};
use super::ranks::{self, RankProcess};
use super::record_runs::record_runs;
use super::team::Team;
use crate::live::clock;
use crate::live::worker::Progress;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::reply::measured_points;
use crate::measure::plan::run::{NAME, Plan, Point, Run};
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// Carries out one run; with a team, on all of its nodes. One rank's steps go to `progress`: it
/// speaks for all.
///
/// # Errors
///
/// A node is gone.
pub(super) fn run_once(
    how: &RankProcess<'_>,
    plan: &Plan,
    run: Run,
    team: Option<&Team>,
    mut progress: impl FnMut(&str),
) -> anyhow::Result<Vec<Line>> {
    match team {
        Some(team) => team.lead(how, plan, run, progress),
        None => Ok(ranks::run(how, plan, run, |rank, step| {
            if rank == 0 {
                progress(step);
            }
        })),
    }
}

/// Measures these operations on this node, and records them; or says why nothing was measured.
pub fn measure_points(
    recording: &mut Recording,
    ranks: ChosenRanks,
    points: Vec<Point>,
    deadline: Duration,
    show: ShowProgress,
) -> anyhow::Result<Option<String>> {
    if let Err(why) = check_buffers(&ranks, &points) {
        return Ok(Some(why));
    }
    let mut plan = ranks.plan(points, 1, clock::boottime_ns());
    let how = RankProcess::of(recording, deadline);
    let mut lines = Vec::new();
    for run in &plan.runs {
        lines.extend(run_once(&how, &plan, *run, None, |step| {
            show(measuring("", step, None));
        })?);
    }
    plan.adopt(&measured_points(&lines));
    show(Progress::Done);
    record_runs(recording, (NAME, Plan::question()), plan.to_value(), lines);
    Ok(None)
}
