//! The user's own job: what it reached in each arm, and what NCCL wrote meanwhile.

use serde_json::Value;

use crate::fact::arms::{ArmRuns, Arms, Figures, TransportProof, Unit};
use crate::fact::measurement::{self as fact, MeasurementBackend, NodeSpan};
use crate::fact::{Fact, Facts, Id, Origin, Subject};
use crate::measure::plan::job::{JobEnded, JobPlan, JobReply};
use crate::nccl_log::Digest;
use crate::probe::Ask;

/// States the measurement that runs of a job are.
///
/// # Errors
///
/// What of it is not understood.
pub(super) fn state(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    value: &Value,
    origin: &Origin,
) -> Result<(), String> {
    let plan: JobPlan =
        serde::Deserialize::deserialize(value).map_err(|e: serde_json::Error| e.to_string())?;
    let mut arms: Vec<(Figures, ArmRuns)> = plan
        .arms
        .iter()
        .map(|arm| {
            let figures = Figures {
                name: arm.name.clone(),
                set: arm.set.clone(),
                ..Figures::default()
            };
            (figures, ArmRuns::default())
        })
        .collect();
    let mut written: Vec<Vec<String>> = vec![Vec::new(); plan.arms.len()];
    for run in &plan.runs {
        let found = ask.read::<JobReply>(plan.question_of(*run)).into_result();
        let log = ask.read::<Digest>(plan.log_of(*run)).into_result();
        let (Some((figures, seen)), Some(written)) =
            (arms.get_mut(run.arm), written.get_mut(run.arm))
        else {
            return Err("a run of an arm that is not there".into());
        };
        seen.started += 1;
        match log {
            Ok(digest) => seen
                .proof
                .join(TransportProof::of_log(&figures.name, digest)),
            Err(gap) => {
                seen.log_gap.get_or_insert(gap);
            }
        }
        match found {
            Ok(reply) => {
                ended(&reply, &plan, seen);
                if let Some(reached) = reply.reached(&plan) {
                    figures.rounds.insert(run.round, reached);
                    written.extend(reply.figure);
                }
            }
            Err(gap) => {
                seen.gap.get_or_insert(gap);
            }
        }
    }
    for (figures, seen) in &mut arms {
        if seen.gap.is_some() {
            // Of runs that are not all known nobody says what they reached.
            figures.rounds.clear();
        }
    }
    let name = plan.command.join(" ");
    let short: String = name.chars().take(60).collect();
    let id = facts.instance(Subject::Measurement, node, &short);
    facts.know(id, fact::MEANS, MeasurementBackend::Job, origin);
    facts.know(id, fact::USER_REPORTED, false, origin);
    facts.know(id, fact::OPERATION, name.as_str().into(), origin);
    facts.know(id, fact::COMPARED, true, origin);
    // Steps of a job are of no one size.
    facts.know(id, fact::SMALL, false, origin);
    let nodes = arms.iter().filter_map(|(_, seen)| seen.proof.nodes).max();
    let gap = arms.iter().find_map(|(_, seen)| seen.log_gap.clone());
    let span = match (nodes, gap) {
        (Some(2..), _) => Fact::Known(NodeSpan::Several, origin.clone()),
        (_, Some(gap)) => Fact::Unknown(gap),
        (Some(_), None) => Fact::Known(NodeSpan::One, origin.clone()),
        (None, None) => Fact::Known(NodeSpan::NotLogged, origin.clone()),
    };
    facts.set(id, fact::SPAN, span);
    if let Some(nodes) = nodes {
        facts.know(id, fact::NODES, nodes, origin);
    }
    let unit = match (&plan.metric, plan.lower_is_better) {
        (None, _) => Unit::Time,
        (Some(_), true) => Unit::Lower,
        (Some(_), false) => Unit::Number(String::new()),
    };
    // One figure stands as the job wrote it; of several the median is shown.
    let written = written
        .into_iter()
        .map(|mut all| match all.len() {
            1 => all.pop().map(|figure| (figure, None)),
            _ => None,
        })
        .collect();
    let (figures, seen) = arms.into_iter().unzip();
    let arms = Arms {
        figures,
        unit,
        written,
        reported_failures: Vec::new(),
        runs: Some(seen),
        origin: origin.clone(),
        in_host: None,
    };
    facts.set_arms(id, arms);
    Ok(())
}

/// How a run ended badly.
fn ended(reply: &JobReply, plan: &JobPlan, seen: &mut ArmRuns) {
    let failure = match (&reply.ended, &reply.figure) {
        (JobEnded::Hung, _) => {
            let step = format!("it was killed after {:.0} s", reply.seconds);
            if seen.hung.is_empty() {
                seen.hung.push(("the job".into(), step));
            }
            return;
        }
        (JobEnded::NotStarted(why), _) => format!("it did not start: {why}"),
        (JobEnded::Status(0), None) if plan.metric.is_some() => {
            "its output has no figure of merit".into()
        }
        (JobEnded::Status(0), _) => return,
        (JobEnded::Status(status), _) => format!("it ended with status {status}"),
    };
    if !seen.failures.contains(&failure) {
        seen.failures.push(failure);
    }
}
