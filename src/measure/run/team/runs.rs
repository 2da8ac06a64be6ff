//! Runs on all nodes: each starts its own ranks, and rank 0 gathers the replies.

use std::sync::Arc;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use super::remote_nodes::RemoteNodes;
use super::{NEXT, SLACK, Team};
use crate::cluster::session_steps::StepAudience;
use crate::measure::plan::reply::{Ended, RankReply};
use crate::measure::plan::run::{NAME, Plan, Run};
use crate::measure::run::progress::measuring;
use crate::measure::run::ranks::{self, LocalRanks, RankProcess, RemoteRanks};
use crate::nccl_log::digest::Digest;
use crate::source::wire::{self, Line};

impl Team {
    /// Carries out the runs of a plan with the ranks of all nodes; gives all lines to rank 0, and
    /// `None` to the others.
    pub(super) fn make(
        &self,
        how: &RankProcess<'_>,
        plan: &Plan,
        scope: &str,
    ) -> anyhow::Result<Option<Vec<Line>>> {
        let mut all = Vec::new();
        for (number, run) in plan.runs.iter().enumerate() {
            let name = format!("{scope} {number}");
            let came = self.one(how, plan, *run, &name, |step| {
                (self.show)(measuring(scope, step, None));
            })?;
            all.extend(came.into_iter().flatten());
        }
        Ok(self.leads().then_some(all))
    }

    /// Carries out one run.
    fn one(
        &self,
        how: &RankProcess<'_>,
        plan: &Plan,
        run: Run,
        name: &str,
        mut progress: impl FnMut(&str),
    ) -> anyhow::Result<Option<Vec<Line>>> {
        let mut counts = vec![0; self.members.len()];
        for place in &plan.ranks {
            let node = usize::try_from(place.node).ok();
            if let Some(count) = node.and_then(|node| counts.get_mut(node)) {
                *count += 1;
            }
        }
        // All begin together: the time of a run is counted from here.
        self.unable(&format!("{name} begin"), None)?;
        let remote = Arc::new(RemoteNodes::new(self, name, &counts, how.deadline));
        let share = LocalRanks {
            numbers: self.range(&counts),
            remote: Arc::clone(&remote) as Arc<dyn RemoteRanks>,
        };
        let lines = if share.numbers.is_empty() {
            // The run is of others.
            Vec::new()
        } else {
            ranks::run_part(how, plan, run, Some(&share), |rank, step| {
                if rank == 0 && self.leads() {
                    progress(step);
                }
            })
        };
        let came = self.gather(how, name, (plan, run), &counts, &lines)?;
        // All that watch have heard what there was to hear.
        self.session
            .end(&remote.watched(), &self.members, Value::Null);
        Ok(came)
    }

    /// Carries out a run of a plan that rank 0 alone has: the others follow.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub(in crate::measure::run) fn lead(
        &self,
        how: &RankProcess<'_>,
        plan: &Plan,
        run: Run,
        progress: impl FnMut(&str),
    ) -> anyhow::Result<Vec<Line>> {
        let number = self.number();
        let told = json!({ "plan": plan, "run": run });
        self.next(number, told)?;
        let name = format!("led {number}");
        let lines = self.one(how, plan, run, &name, progress)?;
        lines.context("rank 0 leads")
    }

    /// Says that no further run comes.
    ///
    /// # Errors
    ///
    /// The session is over.
    pub fn over(&self) -> anyhow::Result<()> {
        self.next(self.number(), Value::Null).map(|_| ())
    }

    /// Carries out the runs that rank 0 leads, until there are no more.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn follow_runs(&self, how: &RankProcess<'_>) -> anyhow::Result<()> {
        loop {
            let number = self.number();
            let mut told = self.next(number, Value::Null)?;
            if told.is_null() {
                return Ok(());
            }
            let plan = Plan::from_value(&told["plan"]);
            let plan = plan.map_err(|what| anyhow::anyhow!("rank 0's plan: {what}"))?;
            let run: Run = serde_json::from_value(told["run"].take())?;
            let name = format!("led {number}");
            self.one(how, &plan, run, &name, |_| {})?;
        }
    }

    fn number(&self) -> u64 {
        self.runs.replace(self.runs.get() + 1)
    }

    fn next(&self, number: u64, value: Value) -> anyhow::Result<Value> {
        Ok(self.of_rank_0(&format!("next {number}"), NEXT, value)?)
    }

    /// The lines of a run of all nodes, at rank 0.
    fn gather(
        &self,
        how: &RankProcess<'_>,
        name: &str,
        (plan, run): (&Plan, Run),
        counts: &[usize],
        lines: &[Line],
    ) -> anyhow::Result<Option<Vec<Line>>> {
        let own: Vec<String> = lines.iter().filter_map(wire::write_line).collect();
        let step = format!("{name} replies");
        let wait = how.deadline + SLACK;
        let all = self.exchange(&step, StepAudience::Rank0, wait, json!(own))?;
        if self.session.rank() != 0 {
            return Ok(None);
        }
        let mut whole = Vec::new();
        let mut log: Option<Digest> = None;
        let mut at = 0;
        let mut first = 0;
        for (node, rank) in self.members.iter().enumerate() {
            let count = counts.get(node).copied().unwrap_or(0);
            let texts = all.values.get(rank).and_then(Value::as_array);
            let texts = texts.into_iter().flatten().filter_map(Value::as_str);
            let came: Vec<Line> = texts
                .filter_map(|text| wire::parse_line(text).ok())
                .collect();
            for number in first..first + count {
                let question = plan.question_of(run, number);
                let is = |line: &&Line| matches!(line, Line::Reply { question: q, .. } if *q == question);
                let line = came.iter().find(is).cloned();
                whole.push(line.unwrap_or_else(|| {
                    let why = all
                        .missing
                        .get(rank)
                        .map_or("nothing came of it", String::as_str);
                    let why = format!("{}: {why}", self.name(node));
                    let reply = RankReply {
                        ended: Ended::Stopped { why },
                        ..RankReply::default()
                    };
                    Line::of(NAME, question, &reply, at)
                }));
            }
            for line in &came {
                let Line::Reply {
                    question, reply, ..
                } = line
                else {
                    continue;
                };
                at = at.max(reply.at);
                if *question == plan.log_of(run)
                    && let Some(Ok(digest)) = line.value().map(Digest::deserialize)
                {
                    match &mut log {
                        None => log = Some(digest),
                        Some(log) => log.join(digest),
                    }
                }
            }
            first += count;
        }
        whole.push(Line::of(
            NAME,
            plan.log_of(run),
            &log.unwrap_or_default(),
            at,
        ));
        Ok(Some(whole))
    }
}
