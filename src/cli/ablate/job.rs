//! The user's own job, once for each arm and round.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use regex_lite::Regex;

use super::rounds::{self, Came, Rounds};
use super::{AblateArgs, arms};
use crate::cli::bench::measuring;
use crate::cli::input::{BadInput, BadUsage};
use crate::cli::output;
use crate::live::worker::Progress;
use crate::measure::plan::ablation_table;
use crate::measure::plan::job::JobPlan;
use crate::measure::plan::run::Run;
use crate::measure::run::job::{self, JobOptions};
use crate::probe::collective;
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// How long a run may take.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Records the node, then runs the job.
#[expect(
    clippy::disallowed_methods,
    reason = "the file is the user's, for the output of his job"
)]
pub(super) fn measured(args: &AblateArgs) -> anyhow::Result<Recording> {
    let metric = match &args.metric {
        Some(text) => {
            Some(Regex::new(text).map_err(|e| BadUsage(format!("--metric {text}: {e}")))?)
        }
        None => None,
    };
    let mut file = match &args.output {
        Some(path) => {
            let file = File::create(path);
            Some(file.map_err(|e| BadInput(format!("{}: {e}", path.display())))?)
        }
        None => None,
    };
    let mut recording = measuring::node_recording(&args.who)?;
    let mut plan = JobPlan {
        command: args.job.clone(),
        metric: args.metric.clone(),
        lower_is_better: args.lower_is_better,
        arms: arms::all(!args.only, &args.with, &args.arms),
        runs: Vec::new(),
    };
    let figure = |line: &str| last_match(metric.as_ref()?, line);
    let how = JobOptions {
        started_ns: recording.header.boottime_ns,
        deadline: args.deadline.unwrap_or(DEADLINE),
        figure: &figure,
    };
    let budget = Rounds {
        rounds: args.rounds,
        budget: args.time_budget.unwrap_or(Duration::MAX),
    };
    let mut all: Vec<Line> = Vec::new();
    rounds::make(&budget, &Cell::new(plan.arms.len()), |arm, round| {
        let run = Run { arm, round };
        plan.runs.push(run);
        let name = plan.arms.get(arm).map_or("", |arm| &arm.name);
        let what = format!("round {} of {}: {name}", round + 1, args.rounds);
        output::progress(Progress::Waiting(&[&what]));
        let (reply, lines) = job::run(&how, &plan, run, |bytes| {
            // Who does not take the job's output misses nothing of the report.
            let _ = match &mut file {
                Some(file) => file.write_all(bytes),
                None => std::io::stderr().write_all(bytes),
            };
        });
        all.extend(lines);
        Ok(match reply.reached(&plan) {
            Some(figure) => Came::Well(figure),
            None => Came::Badly,
        })
    })?;
    output::progress(Progress::Done);
    let probe = collective::PROBE.name;
    recording.replace(probe, ablation_table::question(), plan.to_value());
    for line in all {
        recording.add(line);
    }
    recording.end();
    Ok(recording)
}

/// What the expression finds last: its first group, where it has one.
fn last_match(metric: &Regex, line: &str) -> Option<String> {
    let found = metric.captures_iter(line).last()?;
    let text = found.get(1).or(found.get(0))?.as_str();
    // The figure is a number: of a sentence nothing is kept.
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
