//! An ablation: the same all-reduce with one path after the other disabled, in rounds.

pub mod job;

use std::cell::Cell;
use std::time::Duration;

use serde::Deserialize;

use super::buffer_memory::check_buffers;
use super::plan_runs::run_once;
use super::progress::{ShowProgress, measuring};
use super::ranks::RankProcess;
use super::record_runs::{read_runs, record_runs};
use super::team::Team;
use crate::live::clock;
use crate::live::worker::Progress;
use crate::measure::plan::ablation_arms::{ArmRequest, arms, gdr_off};
use crate::measure::plan::ablation_rounds::{carry_out_rounds, round_in_words};
use crate::measure::plan::host_arms::host_arms;
use crate::measure::plan::memory_request::MemoryRequest;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::reply::measured_points;
use crate::measure::plan::run::{Arm, Backend, NAME, Plan, Point, RankPlacement, Run};
use crate::nccl_log::Digest;
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// The size by which arms are compared, with NCCL.
const SIZE: u64 = 1 << 30;
/// The size in the host's memory.
const SIZE_IN_HOST_MEMORY: u64 = 64 << 20;
/// The size of the reference benchmark, which the baseline has besides.
const REFERENCE: u64 = 4_000_000_000;

/// Which arms an ablation compares, and for how long.
#[derive(Clone)]
pub struct AblationRequest {
    /// The arms.
    pub arms: ArmRequest,
    /// The size by which they are compared; without it the reference size is measured too.
    pub size: Option<u64>,
    /// Rounds at least.
    pub rounds: u64,
    /// When no further run begins.
    pub budget: Duration,
    /// How long a run may take.
    pub deadline: Duration,
    /// The plan to which arms are added; where its baseline was measured already, the rounds go on
    /// from there.
    pub begun: Option<Plan>,
    /// Says by NCCL's log whether GPUDirect RDMA is used between nodes: an arm without it is added
    /// then. `None` adds none.
    pub uses_gdr: Option<fn(Digest) -> bool>,
}

/// Measures the arms of a request, and records them; or says why nothing was measured.
///
/// # Errors
///
/// A node is gone.
pub fn measure_arms(
    recording: &mut Recording,
    ranks: ChosenRanks,
    request: &AblationRequest,
    team: Option<&Team>,
    show: ShowProgress,
) -> anyhow::Result<Option<String>> {
    let on_gpus = ranks.backend == Backend::Nccl;
    let size = request
        .size
        .unwrap_or(if on_gpus { SIZE } else { SIZE_IN_HOST_MEMORY });
    let count = ranks.ranks.len() as u64;
    let has_gpu = |rank: &RankPlacement| rank.gpu.is_some();
    let in_gpu_memory = ranks.backend == Backend::Verbs && ranks.ranks.iter().all(has_gpu);
    let begun = request.begun.clone();
    let points = match &begun {
        Some(begun) => begun.points.clone(),
        // The processor cannot add up what is on GPUs.
        None if in_gpu_memory => MemoryRequest::Gpu.place(vec![Point::send_recv(size, count)]),
        None => vec![Point::all_reduce(size, count)],
    };
    let own = team.map(|team| team.own_of(&ranks));
    if let Err(why) = check_buffers(own.as_ref().unwrap_or(&ranks), &points) {
        return Ok(Some(why));
    }
    let also = on_gpus && request.size.is_none();
    let largest = also.then(|| Point::all_reduce(REFERENCE, count));
    let mut asked = request.arms.clone();
    if !on_gpus {
        if std::mem::take(&mut asked.switches) {
            asked.variables.splice(0..0, host_arms(&ranks));
        }
        // What NCCL alone reads changes nothing here.
        asked.families.clear();
        if in_gpu_memory {
            asked.variables.push(gdr_off());
        }
    }
    let arms = arms(&asked);
    let plan = match begun {
        Some(begun) => Plan { arms, ..begun },
        None => Plan {
            arms,
            baseline_points: largest.into_iter().collect(),
            ..ranks.plan(points, 0, clock::boottime_ns())
        },
    };
    run_rounds(recording, plan, request, team, show)?;
    Ok(None)
}

/// Says when the time of a budget is spent.
fn spent_after(budget: Duration) -> impl Fn() -> bool {
    let begun = clock::now();
    move || begun.elapsed() >= budget
}

/// Carries out the runs of the plan, which grows by them, and records all.
fn run_rounds(
    recording: &mut Recording,
    mut plan: Plan,
    request: &AblationRequest,
    team: Option<&Team>,
    show: ShowProgress,
) -> anyhow::Result<()> {
    let how = RankProcess::of(recording, request.deadline);
    let arms = Cell::new(plan.arms.len());
    let until = clock::now().checked_add(request.budget);
    let mut all: Vec<Line> = Vec::new();
    let begun = plan.runs.iter().map(|run| run.round + 1).max().unwrap_or(0);
    carry_out_rounds(
        request.rounds,
        spent_after(request.budget),
        &arms,
        |arm, round| {
            let run = Run {
                arm,
                round: begun + round,
            };
            plan.runs.push(run);
            let name = plan.arms.get(arm).map_or("", |arm| &arm.name);
            let lines = run_once(&how, &plan, run, team, |step| {
                let run = format!("{}: {name}", round_in_words(round, request.rounds));
                show(measuring(&run, step, until));
            })?;
            plan.adopt(&measured_points(&lines));
            let figure = figure(&plan, run, &lines);
            if let (0, 0, Some(uses_gdr)) = (arm, round, request.uses_gdr)
                && digest(&plan, run, &lines).is_some_and(uses_gdr)
            {
                add_arm_without_gdr(&mut plan);
                arms.set(plan.arms.len());
            }
            all.extend(lines);
            anyhow::Ok(figure)
        },
    )?;
    show(Progress::Done);
    record_runs(recording, (NAME, Plan::question()), plan.to_value(), all);
    Ok(())
}

fn add_arm_without_gdr(plan: &mut Plan) {
    let further = self::arms(&ArmRequest {
        variables: vec![gdr_off()],
        ..ArmRequest::default()
    });
    for arm in further.into_iter().skip(1) {
        if plan.arms.iter().all(|other: &Arm| other.set != arm.set) {
            plan.arms.push(arm);
        }
    }
}

/// The figure of a run, if it is valid.
fn figure(plan: &Plan, run: Run, lines: &[Line]) -> Option<f64> {
    let plan = Plan {
        runs: vec![run],
        ..plan.clone()
    };
    let results = read_runs(&plan, lines.to_vec())?;
    let result = results.runs.first()?;
    let well = result.ranks.iter().all(Result::is_ok) && result.troubles().is_empty();
    // Arms are compared by the last of their points.
    let rows = results.rows(run.arm);
    let row = rows.get(plan.points.len().saturating_sub(1))?;
    let time = row
        .time()
        .filter(|time| well && row.wrong == 0 && *time > 0.0);
    time.map(|time| 1.0 / time)
}

/// What NCCL wrote in a run.
fn digest(plan: &Plan, run: Run, lines: &[Line]) -> Option<Digest> {
    let is_log = |line: &&Line| matches!(line, Line::Reply { question, .. } if *question == plan.log_of(run));
    Digest::deserialize(lines.iter().find(is_log)?.value()?).ok()
}
