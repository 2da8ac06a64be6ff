//! Which nodes slow a job down: its operation on halves of them, and on halves of the slow ones.

use super::scopes::busbw;
use super::{BisectionLimits, Team, Whole};
use crate::live::clock;
use crate::measure::plan::bisection::{self, Bisection, Measured, Step};
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::run::{Plan, Point, RankPlacement};
use crate::measure::run::progress::{ShowProgress, measuring};
use crate::measure::run::ranks::RankProcess;

impl Team {
    /// Measures parts of the nodes until the cause is found or the time is up. Rank 0 leads, and
    /// gets the result.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn bisect(
        &self,
        how: &RankProcess<'_>,
        Whole { plan, point, scope }: &Whole,
        chosen: &ChosenRanks,
        limits: BisectionLimits,
    ) -> anyhow::Result<Option<Bisection>> {
        if !self.leads() {
            self.follow_runs(how)?;
            return Ok(None);
        }
        let (nodes, whole) = (self.counts.len(), scope.as_ref().map(|scope| scope.busbw));
        let mut bisection = Bisection {
            host: (0..nodes).map(|node| self.name(node)).collect(),
            whole: whole.unwrap_or(0),
            ..Bisection::default()
        };
        bisection.ended = match whole {
            None => Some("what the whole job reached is not valid".into()),
            Some(whole) => {
                let part = |nodes: &[usize]| self.part(how, (plan, chosen), point, nodes);
                measure_parts(&mut bisection, whole, limits, part, self.show)
            }
        };
        self.over()?;
        Ok(Some(bisection))
    }

    /// What the same operation reaches on these nodes; `None` if that is not valid.
    fn part(
        &self,
        how: &RankProcess<'_>,
        (plan, chosen): (&Plan, &ChosenRanks),
        point: &Point,
        nodes: &[usize],
    ) -> anyhow::Result<Option<u64>> {
        let is_of = |place: &&RankPlacement| {
            let node = usize::try_from(place.node);
            node.is_ok_and(|node| nodes.contains(&node))
        };
        let of_part = ChosenRanks {
            ranks: plan.ranks.iter().filter(is_of).cloned().collect(),
            ..chosen.clone()
        };
        let point = Point {
            bytes: point.dtype.whole(point.bytes, of_part.ranks.len() as u64),
            ..point.clone()
        };
        let plan = of_part.plan(vec![point], 1, clock::boottime_ns());
        let mut lines = Vec::new();
        for run in plan.runs.clone() {
            lines.extend(self.lead(how, &plan, run, |_| {})?);
        }
        Ok(busbw(&plan, &lines))
    }
}

/// Measures parts until the cause is found; else says why it is not.
fn measure_parts(
    bisection: &mut Bisection,
    whole: u64,
    BisectionLimits { within, slow_below }: BisectionLimits,
    part: impl Fn(&[usize]) -> anyhow::Result<Option<u64>>,
    show: ShowProgress,
) -> Option<String> {
    let begun = clock::now();
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
            show(measuring(&about, "", begun.checked_add(within)));
            match part(&nodes) {
                Ok(busbw) => bisection.parts.push(Measured { nodes, busbw }),
                Err(error) => return Some(error.to_string()),
            }
        }
    }
    None
}
