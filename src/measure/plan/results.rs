//! The runs of collectives as they were made: what each rank measured, and what the ranks of an arm
//! measured together.

use super::reply::{Ended, PointReply, RankReply};
use super::statistics;
use crate::measure::plan::run::{Plan, Point, Run};
use crate::source::{Answer, Micros, Refusal, Source};

/// A benchmark as it was run.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// What was measured, and how.
    pub plan: Plan,
    /// Each run of the plan.
    pub runs: Vec<RunResult>,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// The run.
    pub run: Run,
    /// What became of each rank, in their order; why it is not known, where it is not.
    pub ranks: Vec<Result<RankReply, String>>,
    /// When each of them ended.
    pub at: Vec<Micros>,
}

/// What the ranks of an arm measured at a point, all its runs together.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The point.
    pub point: Point,
    /// How long one operation took in each trial, in seconds: the mean over the ranks. Empty where
    /// a rank did not measure it.
    pub seconds: Vec<f64>,
    /// Trials that came first and did not count, in the run that had most of them.
    pub warmups: u64,
    /// Elements that were looked at.
    pub checked: u64,
    /// How many of these are wrong.
    pub wrong: u64,
    /// The first rank that found one, and where in its buffer.
    pub first_wrong: Option<(usize, u64)>,
}

impl Row {
    /// How long an operation took: the median of the trials.
    pub fn time(&self) -> Option<f64> {
        statistics::median(&self.seconds)
    }

    /// How far the trials lie apart, in percent of their median.
    pub fn spread(&self) -> Option<f64> {
        statistics::spread(&self.seconds)
    }
}

impl Results {
    /// Asks for the plan and for what became of each rank.
    ///
    /// # Errors
    ///
    /// The refusal of the plan: nothing was measured; or what of the plan is not understood.
    pub fn read(source: &dyn Source) -> Result<Self, Refusal> {
        let plan = match source.ask(&Plan::question()).said? {
            Answer::Value(value) => Plan::from_value(&value)
                .map_err(|what| Refusal::NotAsked(format!("no plan: {what}").into()))?,
            _ => return Err(Refusal::NotAsked("no plan".into())),
        };
        let ask = |run: Run, rank: usize| {
            let reply = source.ask(&plan.question_of(run, rank));
            let said = match reply.said {
                Ok(Answer::Value(value)) => {
                    serde::Deserialize::deserialize(&*value).map_err(|e| format!("no reply: {e}"))
                }
                Ok(_) => Err("no reply".into()),
                Err(refusal) => Err(refusal.to_string()),
            };
            (said, reply.at)
        };
        let runs = plan.runs.iter().map(|run| {
            let (ranks, at) = (0..plan.ranks.len()).map(|rank| ask(*run, rank)).unzip();
            RunResult {
                run: *run,
                ranks,
                at,
            }
        });
        Ok(Results {
            runs: runs.collect(),
            plan: plan.clone(),
        })
    }

    /// The runs of an arm.
    pub fn of(&self, arm: usize) -> impl Iterator<Item = &RunResult> {
        self.runs.iter().filter(move |run| run.run.arm == arm)
    }

    /// What the ranks of an arm measured at each point, in the order of the plan.
    pub fn rows(&self, arm: usize) -> Vec<Row> {
        let points = self.plan.points_of(arm);
        points
            .iter()
            .enumerate()
            .map(|(at, point)| self.row(arm, at, point))
            .collect()
    }

    fn row(&self, arm: usize, at: usize, point: &Point) -> Row {
        let mut row = Row {
            point: point.clone(),
            seconds: Vec::new(),
            warmups: 0,
            checked: 0,
            wrong: 0,
            first_wrong: None,
        };
        for run in self.of(arm) {
            let replies: Vec<_> = run
                .ranks
                .iter()
                .map(|rank| rank.as_ref().ok().and_then(|reply| reply.points.get(at)))
                .collect();
            for (rank, reply) in replies.iter().enumerate() {
                let Some(reply) = reply else { continue };
                row.warmups = row.warmups.max(reply.point.warmups.unwrap_or_default());
                row.checked += reply.checked;
                row.wrong += reply.wrong;
                if let (Some(place), None) = (reply.first_wrong, row.first_wrong) {
                    row.first_wrong = Some((rank, place));
                }
            }
            // An operation ends when it does on all ranks: one that has no time has no mean.
            let Some(replies) = replies.into_iter().collect::<Option<Vec<_>>>() else {
                continue;
            };
            row.seconds
                .extend(trial_seconds(&replies, point.iterations));
        }
        row
    }
}

/// How long an operation took in each trial: the mean over the ranks, as nccl-tests has it.
/// `replies` has one of each rank.
pub fn trial_seconds(replies: &[&PointReply], iterations: u64) -> Vec<f64> {
    let trials = replies.iter().map(|reply| reply.ms.len()).min();
    (0..trials.unwrap_or(0))
        .map(|trial| {
            let all: f64 = replies.iter().filter_map(|reply| reply.ms.get(trial)).sum();
            all / replies.len() as f64 / 1e3 / iterations.max(1) as f64
        })
        .filter(|seconds| *seconds > 0.0 && seconds.is_finite())
        .collect()
}

impl RunResult {
    /// The ranks that did not end well, those first that ended by themselves, the earliest first:
    /// the others ended because of them.
    pub fn troubles(&self) -> Vec<(usize, &RankReply)> {
        let mut troubles: Vec<(usize, &RankReply)> = self
            .ranks
            .iter()
            .enumerate()
            .filter_map(|(rank, reply)| Some((rank, reply.as_ref().ok()?)))
            .filter(|(_, reply)| reply.ended != Ended::Well)
            .collect();
        let class = |reply: &RankReply| match reply.ended {
            Ended::Died { .. } => 0,
            Ended::Failed { .. } => 1,
            Ended::Hung => 2,
            Ended::Slow { .. } => 3,
            Ended::Stopped { .. } | Ended::Well => 4,
        };
        troubles.sort_by_key(|(rank, reply)| (class(reply), self.at.get(*rank).copied()));
        troubles
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::collective::{Collective, DataType, Reduction};
    use crate::measure::plan::reply::PointReply;
    use crate::measure::plan::run::{Arm, Backend, RankPlacement};

    fn point() -> Point {
        Point {
            collective: Collective::AllReduce,
            bytes: 1000,
            dtype: DataType::Float32,
            op: Reduction::Sum,
            in_place: false,
            iterations: 10,
            awaited: false,
            adaptive: false,
            gpu_memory: false,
            warmups: Some(1),
            trials: 3,
        }
    }

    fn reply(ended: Ended, points: Vec<PointReply>) -> Result<RankReply, String> {
        Ok(RankReply {
            ended,
            step: String::new(),
            points,
            library: None,
            version: None,
            device: None,
            host: None,
            carried: None,
            gpu_memory: None,
            removed: Vec::new(),
        })
    }

    fn measured(ms: [f64; 3], wrong: u64) -> PointReply {
        PointReply {
            point: point(),
            ms: ms.into(),
            waited: None,
            checked: 250,
            wrong,
            first_wrong: (wrong > 0).then_some(7),
        }
    }

    fn results(runs: Vec<Vec<Result<RankReply, String>>>) -> Results {
        let run = |(round, ranks): (usize, Vec<Result<RankReply, String>>)| RunResult {
            run: Run {
                arm: 0,
                round: round as u64,
            },
            at: vec![0; ranks.len()],
            ranks,
        };
        let runs: Vec<RunResult> = runs.into_iter().enumerate().map(run).collect();
        Results {
            plan: Plan {
                backend: Backend::Tcp,
                library: None,
                ranks: vec![RankPlacement::default(); 2],
                points: vec![point()],
                baseline_points: Vec::new(),
                arms: vec![Arm::baseline()],
                runs: runs.iter().map(|run| run.run).collect(),
                seed: 0,
            },
            runs,
        }
    }

    #[test]
    fn a_time_is_the_mean_of_the_ranks_and_the_median_of_all_trials() {
        let well = |ms| reply(Ended::Well, vec![measured(ms, 0)]);
        let results = results(vec![
            vec![well([10.0, 30.0, 20.0]), well([30.0, 50.0, 40.0])],
            vec![well([30.0, 30.0, 30.0]), well([30.0, 30.0, 30.0])],
        ]);
        let row = &results.rows(0)[0];
        assert_eq!(row.seconds, [0.002, 0.004, 0.003, 0.003, 0.003, 0.003]);
        assert_eq!((row.time(), row.checked), (Some(0.003), 1000));
        assert_eq!((row.wrong, row.first_wrong), (0, None));
        assert!(results.runs[0].troubles().is_empty());
    }

    #[test]
    fn what_a_rank_did_not_measure_has_no_time_but_its_wrong_values_count() {
        let died = Ended::Died {
            how: "killed by signal 9".into(),
        };
        let stopped = Ended::Stopped {
            why: "rank 1".into(),
        };
        let results = results(vec![vec![
            reply(stopped, vec![measured([1.0; 3], 4)]),
            reply(died, Vec::new()),
        ]]);
        let row = &results.rows(0)[0];
        assert_eq!(row.time(), None);
        assert_eq!((row.wrong, row.first_wrong), (4, Some((0, 7))));
        let troubles = results.runs[0].troubles();
        assert_eq!(
            troubles.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(),
            [1, 0]
        );
    }
}
