//! What `rdma-doctor bench p2p` measured: which copies came right, which did not, and what they carry.
//!
//! It asks for nothing where no benchmark was asked for: the plan is refused then, and nothing is measured.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::cuda::pair;
use super::{Ask, Probe};
use crate::fact::{
    Fact, Facts, Gap, Id, Origin, Percent, Seconds, Subject, Why, gpu, gpu_pair, limit, node,
};
use crate::measure::plan::p2p::{Cell, End, Numbers, Outcome, Plan, Results};
use crate::source::Refusal;

/// The probe. It runs over recordings only; the questions are asked by [`crate::live::worker::measure`].
pub const PROBE: Probe = Probe::new("p2p", run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let results = Results::read(&ask.source);
    let measured = match &results {
        Ok(_) => Fact::Known(true, Origin::Asked(Plan::question())),
        // No benchmark was asked for: to say so is the answer.
        Err(Refusal::NotAsked(_)) => Fact::Known(false, Origin::Asked(Plan::question())),
        Err(refusal) => Fact::Unknown(Gap::refused(&Plan::question(), refusal.clone())),
    };
    facts.set(node, node::P2P_MEASURED, measured);
    let Ok(results) = results else {
        return;
    };
    let gpus: Vec<(Arc<str>, Id)> = results
        .plan
        .gpus
        .iter()
        .map(|pci| (Arc::clone(pci), facts.instance(Subject::Gpu, node, pci)))
        .collect();
    let spread = facts.limit(limit::COPY_SPREAD);
    for (pci, id) in &gpus {
        let gpu = End::Gpu(Arc::clone(pci));
        let ways = CopyOutcomes::of(&results, &End::Host, &gpu, spread);
        host_copies(facts, *id, &ways);
    }
    for (at, (first, a)) in gpus.iter().enumerate() {
        for (second, b) in gpus.iter().skip(at + 1) {
            let Some((id, turned)) = pair(facts, node, *a, *b) else {
                continue;
            };
            let (first, second) = if turned {
                (second, first)
            } else {
                (first, second)
            };
            let end = |pci: &Arc<str>| End::Gpu(Arc::clone(pci));
            let ways = CopyOutcomes::of(&results, &end(first), &end(second), spread);
            pair_copies(facts, id, &ways, [*a, *b]);
        }
    }
}

/// The three measurements of two ends.
struct CopyOutcomes<'r> {
    forth: (&'r Cell, &'r Outcome),
    back: (&'r Cell, &'r Outcome),
    both: (&'r Cell, &'r Outcome),
    plan: &'r Plan,
    /// How far trials may lie apart for their median to count.
    spread: Percent,
}

impl<'r> CopyOutcomes<'r> {
    fn of(results: &'r Results, a: &End, b: &End, spread: Percent) -> Option<Self> {
        Some(CopyOutcomes {
            forth: results.get(a, b, false)?,
            back: results.get(b, a, false)?,
            both: results.get(a, b, true)?,
            plan: &results.plan,
            spread,
        })
    }

    fn all(&self) -> [(&'r Cell, &'r Outcome); 3] {
        [self.forth, self.back, self.both]
    }

    fn origin(&self) -> Origin {
        Origin::Asked(self.plan.question_of(self.forth.0))
    }

    /// Whether a measurement was tried at all.
    fn measured(&self) -> Fact<bool> {
        let all = self.all();
        if all.iter().any(|(_, outcome)| outcome.was_tried()) {
            return Fact::Known(true, self.origin());
        }
        match all
            .iter()
            .find(|(_, outcome)| **outcome == Outcome::NotRecorded)
        {
            Some((cell, _)) => {
                let question = self.plan.question_of(cell);
                Fact::Unknown(Gap::refused(&question, Refusal::NotRecorded))
            }
            None => Fact::Known(false, self.origin()),
        }
    }

    /// Whether one of them came to this end: known as soon as one did, or all came to another.
    fn any(&self, is: impl Fn(&Outcome) -> bool) -> Fact<bool> {
        if let Some((cell, _)) = self.all().into_iter().find(|(_, outcome)| is(outcome)) {
            return Fact::Known(true, Origin::Asked(self.plan.question_of(cell)));
        }
        Fact::Known(false, self.origin()).unless(self.not_tried())
    }

    fn not_tried(&self) -> Option<Gap> {
        self.all().into_iter().find_map(|(cell, outcome)| {
            let question = self.plan.question_of(cell);
            match outcome {
                Outcome::NotRecorded => Some(Gap::refused(&question, Refusal::NotRecorded)),
                Outcome::NotMeasured(why) => {
                    Some(Gap::refused(&question, Refusal::not_asked(why.as_str())))
                }
                _ => None,
            }
        })
    }

    /// Every byte was right, each way.
    fn verified(&self) -> Fact<bool> {
        let wrong = |outcome: &Outcome| outcome.was_tried() && outcome.numbers().is_none();
        self.any(wrong).map(|wrong| !wrong)
    }

    /// What went wrong, one measurement after the other.
    fn problem(&self) -> Fact<Arc<str>> {
        let told = self
            .all()
            .into_iter()
            .filter_map(|(cell, outcome)| match outcome {
                outcome if !outcome.was_tried() => None,
                outcome => outcome
                    .trouble()
                    .map(|(word, how)| format!("{cell} {word} ({how})")),
            });
        let told: Vec<String> = told.collect();
        match self.not_tried() {
            Some(gap) if told.is_empty() => Fact::Unknown(gap),
            _ if told.is_empty() => Fact::Known("none".into(), self.origin()),
            _ => {
                let others = match told.len() - 1 {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                let first = told.first().map_or("", String::as_str);
                Fact::Known(format!("{first}{others}").into(), self.origin())
            }
        }
    }

    /// The numbers of a measurement, where they count: verified, steady, and nobody else on the GPUs.
    fn numbers(&self, way: (&'r Cell, &'r Outcome), foreign: Option<&Gap>) -> Fact<&'r Numbers> {
        let question = self.plan.question_of(way.0);
        let missing = |why: String| {
            Fact::Unknown(Gap::new(
                Why::Missing(why.into()),
                Origin::Asked(question.clone()),
            ))
        };
        match (way.1, foreign) {
            (Outcome::Verified(_), Some(gap)) => Fact::Unknown(gap.clone()),
            (Outcome::Verified(numbers), None) if numbers.is_steady(self.spread) => {
                Fact::Known(numbers, Origin::Asked(question))
            }
            (Outcome::Verified(numbers), None) => missing(format!(
                "a steady number (trials lie {} apart, more than {})",
                numbers.spread, self.spread
            )),
            (outcome, _) => {
                let (word, how) = outcome.trouble().unwrap_or(("not measured", ""));
                missing(format!("the number of a copy that {word} ({how})"))
            }
        }
    }

    /// The widest spread of the trials of both directions alone.
    fn spread(&self) -> Fact<Percent> {
        let of = |(cell, outcome): (&Cell, &'r Outcome)| match outcome.numbers() {
            Some(numbers) => {
                Fact::Known(numbers.spread, Origin::Asked(self.plan.question_of(cell)))
            }
            None => self
                .numbers((self.forth.0, outcome), None)
                .map(|numbers| numbers.spread),
        };
        two(of(self.forth), of(self.back), |a, b| {
            if a.0 >= b.0 { a } else { b }
        })
    }
}

/// A fact from two: known where both are.
fn two<T, U>(a: Fact<T>, b: Fact<T>, f: impl FnOnce(T, T) -> U) -> Fact<U> {
    a.zip(b).map(|(a, b)| f(a, b))
}

/// A process of somebody else on one of the GPUs makes every number one of a busy machine. What is not known of it counts for nobody.
fn foreign(facts: &Facts, gpus: &[Id]) -> Option<Gap> {
    gpus.iter()
        .find_map(|gpu| match facts.get(*gpu, gpu::FOREIGN_PROCESSES) {
            Fact::Known(count, origin) if count > 0 => Some(Gap::new(
                Why::Missing(
                    format!(
                        "a number of an idle {} ({count} processes compute on it)",
                        facts.name(*gpu)
                    )
                    .into(),
                ),
                origin,
            )),
            _ => None,
        })
}

fn is_corrupt(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Corrupt(_))
}

fn is_hung(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Hung(_))
}

fn is_failure(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Failed(_) | Outcome::Denied(_) | Outcome::Died(_)
    )
}

fn host_copies(facts: &mut Facts, id: Id, ways: &Option<CopyOutcomes<'_>>) {
    let Some(ways) = ways else { return };
    facts.set(id, gpu::HOST_COPY_MEASURED, ways.measured());
    facts.set(id, gpu::HOST_COPY_CORRUPT, ways.any(is_corrupt));
    facts.set(id, gpu::HOST_COPY_FAILED, ways.any(is_failure));
    facts.set(id, gpu::HOST_COPY_HUNG, ways.any(is_hung));
    facts.set(id, gpu::HOST_COPY_PROBLEM, ways.problem());
    let busy = foreign(facts, &[id]);
    let bandwidth = |way| {
        ways.numbers(way, busy.as_ref())
            .map(|numbers| numbers.bandwidth)
    };
    facts.set(id, gpu::H2D_BANDWIDTH, bandwidth(ways.forth));
    facts.set(id, gpu::D2H_BANDWIDTH, bandwidth(ways.back));
    facts.set(id, gpu::HOST_COPY_SPREAD, ways.spread());
}

fn pair_copies(facts: &mut Facts, id: Id, ways: &Option<CopyOutcomes<'_>>, gpus: [Id; 2]) {
    let Some(ways) = ways else { return };
    facts.set(id, gpu_pair::COPY_MEASURED, ways.measured());
    facts.set(id, gpu_pair::COPY_VERIFIED, ways.verified());
    facts.set(id, gpu_pair::COPY_CORRUPT, ways.any(is_corrupt));
    facts.set(id, gpu_pair::COPY_FAILED, ways.any(is_failure));
    facts.set(id, gpu_pair::COPY_HUNG, ways.any(is_hung));
    facts.set(id, gpu_pair::COPY_PROBLEM, ways.problem());
    let busy = foreign(facts, &gpus);
    let numbers = |way| ways.numbers(way, busy.as_ref());
    let (forth, back) = (numbers(ways.forth), numbers(ways.back));
    let direct = |numbers: Fact<&Numbers>| {
        numbers.and_then(|numbers| {
            numbers
                .direct
                .ok_or_else(|| "it does not say whether it is direct".to_owned())
        })
    };
    let copy_direct = two(direct(forth.clone()), direct(back.clone()), |a, b| a && b);
    facts.set(id, gpu_pair::COPY_DIRECT, copy_direct);
    let slower = |a: &Numbers, b: &Numbers| a.bandwidth.min(b.bandwidth);
    let bandwidth = two(forth.clone(), back.clone(), slower);
    facts.set(id, gpu_pair::COPY_BANDWIDTH, bandwidth);
    let balance = |a: &Numbers, b: &Numbers| {
        let (low, high) = (a.bandwidth.min(b.bandwidth), a.bandwidth.max(b.bandwidth));
        Percent(100.0 * low.0 as f64 / (high.0 as f64).max(1.0))
    };
    let balance = two(forth.clone(), back.clone(), balance);
    facts.set(id, gpu_pair::COPY_BALANCE, balance);
    let latency = |numbers: Fact<&Numbers>| {
        numbers.and_then(|numbers| numbers.latency.ok_or_else(|| "no small copies".to_owned()))
    };
    let longer = |a: Seconds, b: Seconds| if a.0 >= b.0 { a } else { b };
    let copy_latency = two(latency(forth), latency(back), longer);
    facts.set(id, gpu_pair::COPY_LATENCY, copy_latency);
    facts.set(id, gpu_pair::COPY_SPREAD, ways.spread());
}
