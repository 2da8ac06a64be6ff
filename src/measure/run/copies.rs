//! Copies between GPUs, and with the host: what carries out a plan of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use super::progress::{ShowProgress, measuring};
use super::record_runs::record_runs;
use crate::live::worker::Progress;
use crate::live::worker::measure::{Measuring, measure};
use crate::measure::plan::p2p::{Cell, End, NAME, Outcome, Plan};
use crate::source::recording::Recording;
use crate::source::wire::Line;
use crate::source::{Question, Reply};

/// Measures each copy of a plan, and records it in the place where the recording says that nothing
/// was measured.
pub fn measure_copies(
    recording: &mut Recording,
    plan: &Plan,
    deadline: Duration,
    show: ShowProgress,
) {
    let lines = run_plan(plan, recording.header.boottime_ns, deadline, show);
    record_runs(recording, (NAME, Plan::question()), plan.to_value(), lines);
}

/// Measures each cell of the plan. If copies between a GPU and the host fail, the GPU is not tried
/// further; if a copy between two GPUs fails, both directions at once are not tried.
fn run_plan(plan: &Plan, started_ns: u64, deadline: Duration, show: ShowProgress) -> Vec<Line> {
    let cells: HashMap<Question, Cell> = plan
        .cells()
        .into_iter()
        .map(|cell| (plan.question_of(&cell), cell))
        .collect();
    let questions: Vec<Question> = plan
        .cells()
        .iter()
        .map(|cell| plan.question_of(cell))
        .collect();
    let total = questions.len();
    let bad: RefCell<Vec<(Cell, &'static str)>> = RefCell::default();
    let mut done = 0;
    let note = |question: &Question, reply: &Reply| {
        done += 1;
        let Some(cell) = cells.get(question) else {
            return;
        };
        let progress = format!("{cell} ({done} of {total} measured)");
        show(measuring("", &progress, None));
        let outcome = Outcome::of(reply, cell.both);
        let ended_well = matches!(outcome, Outcome::Verified(_) | Outcome::Corrupt(_));
        if let (false, true, Some((word, _))) = (ended_well, outcome.was_tried(), outcome.trouble())
        {
            bad.borrow_mut().push((cell.clone(), word));
        }
    };
    let skip = |question: &Question| {
        let cell = cells.get(question)?;
        let bad = bad.borrow();
        let stops = |(other, _): &&(Cell, &str)| {
            let with_host = other.from == End::Host || other.to == End::Host;
            let gpu = if other.from == End::Host {
                &other.to
            } else {
                &other.from
            };
            let same = (cell.from == other.from && cell.to == other.to)
                || (cell.from == other.to && cell.to == other.from);
            (with_host && (cell.from == *gpu || cell.to == *gpu)) || (same && cell.both)
        };
        bad.iter()
            .find(stops)
            .map(|(other, word)| format!("{other} {word}"))
    };
    let how = Measuring {
        probe: NAME,
        started_ns,
        deadline,
    };
    let lines = measure(&how, questions, note, skip);
    show(Progress::Done);
    lines
}
