//! An ablation of the user's own job, which runs once for each arm and round.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::Write;
use std::time::Duration;

use regex_lite::Regex;

use super::spent_after;
use crate::live::clock;
use crate::live::worker::Progress;
use crate::measure::plan::ablation_rounds::{carry_out_rounds, round_in_words};
use crate::measure::plan::ablation_table;
use crate::measure::plan::job::JobPlan;
use crate::measure::plan::run::{NAME, Run};
use crate::measure::run::job::{self, JobOptions};
use crate::measure::run::progress::{ShowProgress, measuring};
use crate::measure::run::record_runs::record_runs;
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// How the runs of a job are read, and for how long they go on.
pub struct JobRuns<'r> {
    /// Finds the figure of merit in a line of output; without it the time counts.
    pub metric: Option<&'r Regex>,
    /// Rounds at least.
    pub rounds: u64,
    /// When no further run begins.
    pub budget: Duration,
    /// How long a run may take.
    pub deadline: Duration,
    /// Looks at the processes of a run that did not end in time.
    pub look: &'r dyn Fn(Vec<u32>) -> Vec<Line>,
}

/// Runs the job of a plan, whose runs it adds, and records all. The job's output goes to `output`.
pub fn measure_job(
    recording: &mut Recording,
    mut plan: JobPlan,
    runs: &JobRuns<'_>,
    output: &mut dyn Write,
    show: ShowProgress,
) {
    let figure = |line: &str| last_match(runs.metric?, line);
    let has_looked = Cell::new(false);
    // One look tells what they wait for; a second one has no place in the recording.
    let look = |pids: Vec<u32>| {
        if pids.is_empty() || has_looked.replace(true) {
            return Vec::new();
        }
        (runs.look)(pids)
    };
    let how = JobOptions {
        look: &look,
        started_ns: recording.header.boottime_ns,
        deadline: runs.deadline,
        figure: &figure,
    };
    let mut all: Vec<Line> = Vec::new();
    let arms = Cell::new(plan.arms.len());
    let until = clock::now().checked_add(runs.budget);
    let Ok(_) = carry_out_rounds(
        runs.rounds,
        spent_after(runs.budget),
        &arms,
        |arm, round| {
            let run = Run { arm, round };
            plan.runs.push(run);
            let name = plan.arms.get(arm).map_or("", |arm| &arm.name);
            let what = format!("{}: {name}", round_in_words(round, runs.rounds));
            show(measuring(&what, "", until));
            let (reply, lines) = job::run(&how, &plan, run, |bytes| {
                show(Progress::Waiting(&[]));
                // The report does not depend on the job's output.
                let _ = output.write_all(bytes);
                // A line that is not complete is not written over.
                if bytes.ends_with(b"\n") {
                    show(measuring(&what, "", until));
                }
            });
            all.extend(lines);
            Ok::<_, Infallible>(reply.reached(&plan))
        },
    );
    show(Progress::Done);
    let question = ablation_table::question();
    record_runs(recording, (NAME, question), plan.to_value(), all);
}

/// The last match of an expression: its first group, if it has one.
fn last_match(metric: &Regex, line: &str) -> Option<String> {
    let found = metric.captures_iter(line).last()?;
    let text = found.get(1).or(found.get(0))?.as_str();
    // The figure is a number: no sentence of the output gets into the recording.
    let number: String = text
        .trim()
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | ':' | 'e' | 'E' | '+' | '-'))
        .collect();
    (!number.is_empty()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_match_counts() {
        let find = |metric: &str, line: &str| last_match(&Regex::new(metric).unwrap(), line);
        for (metric, line, found) in [
            (
                r"samples/s: ([0-9.]+)",
                "samples/s: 1.0 samples/s: 1.089",
                Some("1.089"),
            ),
            (r"[0-9.]+ it/s", "12 it/s", Some("12")),
            (r"loss=(\S+)", "nothing", None),
            (r"loss=(\S+)", "loss=abc", None),
            (r"(\d+)", "a 7 b 42", Some("42")),
        ] {
            assert_eq!(find(metric, line).as_deref(), found, "{metric} in {line}");
        }
    }
}
