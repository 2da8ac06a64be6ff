//! Runs in which all nodes take part: each starts its own ranks, and rank 0 gathers what became of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use super::link::Link;
use super::{NEXT, SLACK, Team};
use crate::cli::output;
use crate::cluster::session_steps::StepAudience;
use crate::exit::Exit;
use crate::live::worker::Progress;
use crate::measure::plan::reply::{Ended, RankReply};
use crate::measure::plan::run::{NAME, Plan, Run};
use crate::measure::run::ranks::{self, LocalRanks, RankProcess, RemoteRanks};
use crate::nccl_log::digest::Digest;
use crate::source::Answer;
use crate::source::recording::Recording;
use crate::source::wire::{self, Line};

impl Team {
    /// Makes the runs of a plan whose ranks are all nodes' in their order; gives all lines to rank 0, and `None` to the others.
    pub(super) fn make(
        &self,
        recording: &Recording,
        plan: &Plan,
        scope: &str,
        deadline: Duration,
    ) -> anyhow::Result<Option<Vec<Line>>> {
        let mut all = Vec::new();
        for (number, run) in plan.runs.iter().enumerate() {
            let name = format!("{scope} {number}");
            let came = self.one(recording, plan, *run, &name, deadline, |step| {
                output::progress(Progress::Waiting(&[&format!("{scope}: {step}")]));
            })?;
            all.extend(came.into_iter().flatten());
        }
        Ok(self.leads().then_some(all))
    }

    /// Makes one run.
    pub(super) fn one(
        &self,
        recording: &Recording,
        plan: &Plan,
        run: Run,
        name: &str,
        deadline: Duration,
        mut progress: impl FnMut(&str),
    ) -> anyhow::Result<Option<Vec<Line>>> {
        let mut counts = vec![0; self.members.len()];
        for place in &plan.ranks {
            let node = usize::try_from(place.node).ok();
            if let Some(count) = node.and_then(|node| counts.get_mut(node)) {
                *count += 1;
            }
        }
        let how = RankProcess {
            started_ns: recording.header.boottime_ns,
            deadline,
            base: &[],
            program: None,
        };
        // All begin together: the time of a run is counted from here.
        self.unable(&format!("{name} begin"), None)?;
        let link = Arc::new(Link::new(self, name, &counts, deadline));
        let part = LocalRanks {
            numbers: self.range(&counts),
            remote: Arc::clone(&link) as Arc<dyn RemoteRanks>,
        };
        let lines = match part.numbers.is_empty() {
            // The run is of others.
            true => Vec::new(),
            false => ranks::run_part(&how, plan, run, Some(&part), |rank, step| {
                if rank == 0 && self.leads() {
                    progress(step);
                }
            }),
        };
        let came = self.gather(name, plan, run, &counts, &lines, deadline)?;
        // All that watch have heard what there was to hear.
        self.session.end(&link.watched(), Value::Null);
        Ok(came)
    }

    /// Makes a run of a plan that rank 0 alone has: the others follow.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn lead(
        &self,
        recording: &Recording,
        plan: &Plan,
        run: Run,
        deadline: Duration,
        progress: impl FnMut(&str),
    ) -> anyhow::Result<Vec<Line>> {
        let number = self.number();
        let told = json!({ "plan": plan, "run": run });
        self.next(number, told)?;
        let name = format!("led {number}");
        let lines = self.one(recording, plan, run, &name, deadline, progress)?;
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

    /// Makes the runs that rank 0 says, until there are no more, and waits for its verdict: how this process ends.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn follow(&self, recording: &Recording, deadline: Duration) -> anyhow::Result<Exit> {
        self.follow_runs(recording, deadline)?;
        Ok(self.verdict.hear())
    }

    /// Makes the runs that rank 0 says, until there are no more.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub(super) fn follow_runs(
        &self,
        recording: &Recording,
        deadline: Duration,
    ) -> anyhow::Result<()> {
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
            self.one(recording, &plan, run, &name, deadline, |_| {})?;
        }
    }

    fn number(&self) -> u64 {
        self.runs.replace(self.runs.get() + 1)
    }

    fn next(&self, number: u64, value: Value) -> anyhow::Result<Value> {
        let step = format!("next {number}");
        let mut all = (self.session).exchange(&step, &[], StepAudience::Rank0, NEXT, value)?;
        Ok(all.values.remove(&0).unwrap_or(Value::Null))
    }

    /// The lines of a run of all nodes, at rank 0.
    pub(super) fn gather(
        &self,
        name: &str,
        plan: &Plan,
        run: Run,
        counts: &[usize],
        lines: &[Line],
        deadline: Duration,
    ) -> anyhow::Result<Option<Vec<Line>>> {
        let own: Vec<String> = lines.iter().filter_map(wire::write_line).collect();
        let step = format!("{name} replies");
        let wait = deadline + SLACK;
        let all = (self.session).exchange(&step, &[], StepAudience::Rank0, wait, json!(own))?;
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
                    Line::of(NAME, question, &stopped(why), at)
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
                    && let Ok(Answer::Value(value)) = &reply.said
                    && let Ok(digest) = Digest::deserialize(&**value)
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

fn stopped(why: String) -> RankReply {
    RankReply {
        ended: Ended::Stopped { why },
        step: String::new(),
        points: Vec::new(),
        library: None,
        version: None,
        device: None,
        host: None,
        removed: Vec::new(),
        carried: None,
        gpu_memory: None,
    }
}
