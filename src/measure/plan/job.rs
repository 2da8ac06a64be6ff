//! The user's own job, run once for each arm and round: what it is, and what became of its runs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::plan::ablation_table::NAME;
use crate::measure::plan::run::{Arm, Run};
use crate::measure::plan::table_figure::seconds;
use crate::source::Question;

/// A job and its arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobPlan {
    /// The command, word by word.
    pub command: Vec<String>,
    /// What finds the figure of merit in its output; absent where the time that it takes is the
    /// figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Whether less is better.
    #[serde(default)]
    pub lower_is_better: bool,
    /// The arms; the first is the baseline.
    pub arms: Vec<Arm>,
    /// The runs, in the order in which they were made.
    pub runs: Vec<Run>,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobReply {
    /// How it ended.
    pub ended: JobEnded,
    /// The figure of merit, as the job wrote it: the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// How a run of a job ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobEnded {
    /// With this exit status.
    Status(i32),
    /// It did not end by the deadline, and was killed.
    Hung,
    /// It did not start.
    NotStarted(String),
}

impl JobPlan {
    /// The question what became of a run: the answer is a [`JobReply`].
    pub fn question_of(&self, run: Run) -> Question {
        run.question(NAME, &self.arms, [])
    }

    /// The question what NCCL wrote in a run: the answer is a [`crate::nccl_log::Digest`].
    pub fn log_of(&self, run: Run) -> Question {
        run.question(NAME, &self.arms, [("log", 1.into())])
    }

    /// The plan as a reply to [`super::ablation_table::question`].
    pub fn to_value(&self) -> Value {
        serde_json::json!({ "job": self })
    }
}

impl JobReply {
    /// What the run reached, more being better; `None` where it does not count.
    pub fn reached(&self, plan: &JobPlan) -> Option<f64> {
        if self.ended != JobEnded::Status(0) {
            return None;
        }
        let value = match (&plan.metric, &self.figure) {
            (Some(_), Some(figure)) => number(figure)?,
            (Some(_), None) => return None,
            (None, _) => self.seconds,
        };
        let lower = plan.lower_is_better || plan.metric.is_none();
        let reached = if lower { 1.0 / value } else { value };
        (value > 0.0 && reached.is_finite()).then_some(reached)
    }
}

/// The number that a text is: as programs write them, with thousands apart by commas, or a time.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.contains(':') {
        return seconds(text);
    }
    let plain: String = text.chars().filter(|c| *c != ',').collect();
    plain.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(ended: JobEnded, figure: Option<&str>) -> JobReply {
        JobReply {
            ended,
            figure: figure.map(str::to_owned),
            seconds: 4.0,
        }
    }

    #[test]
    fn a_run_counts_where_it_ended_well_and_has_a_figure() {
        let mut plan = JobPlan {
            command: vec!["train.sh".into()],
            metric: Some("samples/s: (.*)".into()),
            lower_is_better: false,
            arms: vec![Arm::baseline()],
            runs: vec![Run { arm: 0, round: 1 }],
        };
        let well = || JobEnded::Status(0);
        for (reply, reached) in [
            (reply(well(), Some("1,089.5")), Some(1089.5)),
            (reply(well(), Some("1:40")), Some(100.0)),
            (reply(well(), Some("1e3")), Some(1000.0)),
            (reply(well(), Some("nan")), None),
            (reply(well(), Some("0")), None),
            (reply(well(), None), None),
            (reply(JobEnded::Status(1), Some("1")), None),
            (reply(JobEnded::Hung, Some("1")), None),
        ] {
            assert_eq!(reply.reached(&plan), reached, "{reply:?}");
        }
        plan.lower_is_better = true;
        assert_eq!(reply(well(), Some("4")).reached(&plan), Some(0.25));
        plan.metric = None;
        assert_eq!(reply(well(), None).reached(&plan), Some(0.25));
        assert_eq!(
            serde_json::to_string(&plan.log_of(plan.runs[0])).unwrap(),
            r#"{"bench":"ablation","arm":"baseline","log":1,"round":1}"#
        );
        let value = plan.to_value();
        let back: JobPlan = serde_json::from_value(value["job"].clone()).unwrap();
        assert_eq!(back, plan);
    }
}
