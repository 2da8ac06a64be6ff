//! Which nodes make a job slow: its operation on halves of them, and on halves of what is slow.

use std::time::{Duration, Instant};

use super::Team;
use super::parts::busbw;
use crate::cli::bench::measuring::Chosen;
use crate::cli::{input, output};
use crate::fact::{Percent, limit};
use crate::live::worker::Progress;
use crate::measure::plan::bisection::{self, Bisection, Measured, Step};
use crate::measure::plan::run::{Plan, Point, RankPlace};
use crate::source::recording::Recording;

impl Team {
    /// Measures parts of the nodes until it is found what makes the whole slow, which reached so much, or until the time is up; at rank 0, which leads.
    pub(super) fn bisect(
        &self,
        recording: &Recording,
        (plan, chosen): (&Plan, &Chosen),
        point: &Point,
        whole: Option<u64>,
        (within, deadline): (Duration, Duration),
    ) -> anyhow::Result<Option<Bisection>> {
        if !self.leads() {
            self.follow_runs(recording, deadline)?;
            return Ok(None);
        }
        let nodes = self.counts.len();
        let mut bisection = Bisection {
            host: (0..nodes).map(|node| self.name(node)).collect(),
            whole: whole.unwrap_or(0),
            ..Bisection::default()
        };
        bisection.ended = match whole {
            None => Some("what the whole job reached is not valid".into()),
            Some(whole) => {
                let part =
                    |nodes: &[usize]| self.part(recording, (plan, chosen), point, nodes, deadline);
                let slow_below = input::site_catalogue()?.limits.get(limit::SLOW_BESIDE_PART);
                measure(&mut bisection, whole, (within, slow_below), part)
            }
        };
        self.over()?;
        Ok(Some(bisection))
    }

    /// The same operation on these nodes: what it reaches, or nothing where that is not valid.
    fn part(
        &self,
        recording: &Recording,
        (plan, chosen): (&Plan, &Chosen),
        point: &Point,
        nodes: &[usize],
        deadline: Duration,
    ) -> anyhow::Result<Option<u64>> {
        let is_of = |place: &&RankPlace| {
            let node = usize::try_from(place.node);
            node.is_ok_and(|node| nodes.contains(&node))
        };
        let of_part = Chosen {
            ranks: plan.ranks.iter().filter(is_of).cloned().collect(),
            ..chosen.clone()
        };
        let point = Point {
            bytes: point.dtype.whole(point.bytes, of_part.ranks.len() as u64),
            ..point.clone()
        };
        let plan = of_part.plan(vec![point], 1);
        let mut lines = Vec::new();
        for run in plan.runs.clone() {
            lines.extend(self.lead(recording, &plan, run, deadline, |_| {})?);
        }
        Ok(busbw(&plan, &lines))
    }
}

/// Measures parts until it is found; why not, where it is not.
#[expect(clippy::disallowed_methods, reason = "keeps its own time")]
fn measure(
    bisection: &mut Bisection,
    whole: u64,
    (within, slow_below): (Duration, Percent),
    part: impl Fn(&[usize]) -> anyhow::Result<Option<u64>>,
) -> Option<String> {
    let begun = Instant::now();
    while let Step::Measure(parts) =
        bisection::next(bisection.host.len(), whole, &bisection.parts, slow_below)
    {
        for nodes in parts {
            if begun.elapsed() >= within {
                let seconds = within.as_secs();
                return Some(format!("its time was up ({seconds} s, --bisect-for)"));
            }
            let about = format!(
                "part {}: {}",
                bisection.parts.len() + 1,
                bisection.names(&nodes)
            );
            output::progress(Progress::Waiting(&[&about]));
            match part(&nodes) {
                Ok(busbw) => bisection.parts.push(Measured { nodes, busbw }),
                Err(error) => return Some(error.to_string()),
            }
        }
    }
    None
}
