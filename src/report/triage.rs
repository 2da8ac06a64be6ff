//! The one sentence of a triage: how much slower several nodes are than one, what was expected, and because of what.

use serde::Serialize;

use super::{Finding, Report};
use crate::fact::Percent;
use crate::measure::plan::bottleneck::Bottleneck;
use crate::measure::plan::scope::Scopes;
use crate::sentence::shell::Command;
use crate::sentence::{Sentence, Span};

/// The check whose cause is looked for.
const BELOW_EXPECTED: &str = "bench/nodes-below-expected";
/// The checks of runs that did not end well.
const FAILED_RUNS: [&str; 4] = [
    "bench/run-failed",
    "bench/rank-hung",
    "bench/results-wrong",
    "bench/run-slow",
];

/// What to do where pairs of nodes were not measured.
fn pairs() -> Sentence {
    Span::Command(Command::of_words(["rdma-doctor", "bench", "pairs"])).into()
}

/// What was seen between several nodes.
pub struct SeenBetweenNodes {
    /// How many nodes were expected; fewer than two if only one was examined.
    pub nodes: u64,
    /// What all nodes and parts of them reached.
    pub scopes: Scopes,
    /// What pairs of nodes have to do with it.
    pub bottleneck: Bottleneck,
    /// The share of what was expected below which the nodes are slow.
    pub slow_below: Percent,
    /// How far a predicted figure may be from the measured one to explain it.
    pub explains: Percent,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Answer {
    /// All of it in one sentence.
    pub sentence: Sentence,
    /// How many times as long an all-reduce over all nodes takes as on one; `null` where no node
    /// was measured alone.
    pub slower: Option<f64>,
    /// How many times as long it was expected to take.
    pub expected: Option<f64>,
    /// What slows it, or stops it; `null` where it is as fast as expected, and where it was not
    /// found.
    pub because: Option<Sentence>,
    /// What else is wrong between the nodes, and is not the cause.
    pub beside: Option<Sentence>,
    /// What to do next where it was not found.
    pub next: Option<Sentence>,
    /// The first cause, as the report has it.
    #[serde(skip)]
    leading: Option<Sentence>,
    /// Whether nobody knows what the nodes should reach, or what they reach.
    #[serde(skip)]
    pub is_open: bool,
}

impl Answer {
    /// What the measurements of several nodes say, by a report of them; `None` where nothing was
    /// compared.
    pub fn of(report: &Report, seen: &SeenBetweenNodes) -> Option<Self> {
        if seen.nodes < 2 {
            return None;
        }
        if seen.scopes.whole.is_none() || !seen.bottleneck.stops.is_empty() {
            return Self::of_what_stops(report, seen);
        }
        let (scopes, bottleneck) = (&seen.scopes, &seen.bottleneck);
        let is_bound = !bottleneck.binds.is_empty();
        let mut answer = Answer {
            sentence: scopes.against_one(seen.slow_below, is_bound)?,
            slower: scopes.slowdown(),
            expected: scopes.expected(),
            ..Answer::default()
        };
        let Some(of_expected) = scopes.of_expected() else {
            answer.say("; next: ", pairs());
            answer.next = Some(pairs());
            answer.is_open = true;
            return Some(answer);
        };
        if is_bound {
            answer.blame(&bottleneck.binds);
            answer.add("; also ", &bottleneck.also);
        } else if of_expected.0 < seen.slow_below.0 {
            answer.explain(report, seen);
        } else {
            answer.is_open = !scopes.has_expectation() && bottleneck.also.is_empty();
            answer.add("; yet ", &bottleneck.also);
            answer.leading = bottleneck.also.first().cloned();
        }
        Some(answer)
    }

    /// All nodes together could not be measured.
    fn of_what_stops(report: &Report, seen: &SeenBetweenNodes) -> Option<Self> {
        let all = seen.nodes;
        let mut answer = Answer::default();
        let failed = |cause: &&Finding| FAILED_RUNS.contains(&cause.check.as_str());
        let failed = report.causes.iter().find(failed);
        match (seen.bottleneck.stops.split_first(), failed) {
            (Some((first, more)), _) => {
                let head = format!("an all-reduce over {all} nodes cannot run: ");
                answer.sentence = Sentence::from(head).then(first.clone());
                answer.because = Some(first.clone());
                answer.leading = Some(first.clone());
                let beside = [more, &seen.bottleneck.binds, &seen.bottleneck.also].concat();
                answer.add("; also ", &beside);
            }
            (None, Some(run)) => {
                let head = format!("an all-reduce over {all} nodes did not finish: ");
                answer.sentence = Sentence::from(head).then(run.sentence.clone());
                answer.because = Some(run.sentence.clone());
                answer.leading = Some(run.sentence.clone());
                answer.add("; also ", &seen.bottleneck.also);
            }
            (None, None) => {
                let head = format!("an all-reduce over {all} nodes was not measured");
                answer.sentence = head.into();
                answer.add("; yet ", &seen.bottleneck.also);
                answer.is_open = true;
            }
        }
        let rest = seen.scopes.against_one(seen.slow_below, true);
        if let Some(rest) = rest.filter(|_| !seen.scopes.left_out.is_empty()) {
            let without = format!("; without {}, ", seen.scopes.left_out.join(" and "));
            answer.sentence = answer.sentence.then_optionally(without).then(rest);
            answer.slower = seen.scopes.slowdown();
            answer.expected = seen.scopes.expected();
        }
        Some(answer)
    }

    /// The cause of which nothing between pairs tells.
    fn explain(&mut self, report: &Report, seen: &SeenBetweenNodes) {
        let explains = |cause: &&Finding| {
            let mut below = cause.consequences.iter();
            below.any(|one| one.check == BELOW_EXPECTED)
        };
        match report.causes.iter().find(explains) {
            Some(cause) => self.blame(&[cause.sentence.without_nodes()]),
            None if seen.scopes.are_links_bound(seen.slow_below, seen.explains) => {
                self.blame(&[seen.scopes.slow_links()]);
            }
            None => {
                let (tried, next) = cause_not_found(&seen.scopes, seen.slow_below);
                let tried = tried.join(", ");
                self.say("; not found in ", tried);
                self.say("; next: ", next.clone());
                self.next = Some(next);
            }
        }
    }

    /// Says what binds.
    fn blame(&mut self, causes: &[Sentence]) {
        let because = Sentence::joined(causes.iter().cloned(), "; and ");
        self.say("; because ", because.clone());
        self.because = Some(because);
        self.leading = causes.first().cloned();
    }

    /// Says what is wrong besides.
    fn add(&mut self, leads: &'static str, besides: &[Sentence]) {
        const TOLD: usize = 2;
        let told = besides.iter().take(TOLD).cloned();
        let beside = Sentence::joined(told, "; and ");
        if !beside.is_empty() {
            self.say(leads, beside.clone());
            self.beside = Some(beside);
        }
    }

    /// Adds what can be left out of the sentence.
    fn say(&mut self, leads: &'static str, what: impl Into<Sentence>) {
        self.sentence = self.sentence.then_optionally(leads).then(what);
    }

    /// The first cause, as the report has it.
    pub fn leading(&self) -> Option<&Sentence> {
        self.leading.as_ref()
    }

    /// Whether something is wrong between the nodes.
    pub fn has_finding(&self) -> bool {
        self.because.is_some() || self.beside.is_some() || self.next.is_some()
    }
}

/// What was tried in vain, and what to try next.
fn cause_not_found(scopes: &Scopes, slow_below: Percent) -> (Vec<&'static str>, Sentence) {
    let mut tried = vec!["ranks", "single nodes"];
    let nodes = scopes.whole.as_ref().map_or(0, |whole| whole.nodes);
    if scopes.pairs.is_none() {
        return (tried, pairs());
    }
    tried.push("pairs of nodes");
    if scopes.bisection.is_none() && nodes > 2 {
        let bisect = ["rdma-doctor", "bench", "all-reduce", "--bisect"];
        return (tried, Span::Command(Command::of_words(bisect)).into());
    }
    if scopes.bisection.is_some() {
        tried.push("parts of the nodes");
    }
    if scopes.step_ns.is_some() {
        tried.push("latency");
    }
    if scopes.arms {
        tried.push("other connections");
    }
    let sample = Command::of_words(["rdma-doctor", "check", "--sample", "10"]);
    let while_it_runs =
        Sentence::from(Span::Command(sample)).then(" on all nodes while the job runs");
    let next = if scopes.are_links_idle(slow_below) {
        Sentence::from(
            "the rate that switch ports, virtual switches or the provider allow each node, and ",
        )
        .then(while_it_runs)
    } else {
        while_it_runs.then(", and the counters of the links between switches")
    };
    (tried, next)
}
