//! The one sentence of a triage: how much slower several nodes are than one, what was expected, and because of what.

use serde::Serialize;

use super::{Finding, Report};
use crate::fact::Percent;
use crate::measure::plan::scope::Scopes;
use crate::sentence::shell::Command;
use crate::sentence::{Sentence, Span};

/// The check whose cause is looked for.
const BELOW_EXPECTED: &str = "bench/nodes-below-expected";

/// What to do where pairs of nodes were not measured.
fn pairs() -> Sentence {
    Span::Command(Command::of_words(["rdma-doctor", "bench", "pairs"])).into()
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Answer {
    /// All of it in one sentence.
    pub sentence: Sentence,
    /// How much slower all nodes are than one; `null` where no node was measured alone.
    pub slower: Option<f64>,
    /// How much slower they were expected to be.
    pub expected: Option<f64>,
    /// What slows them; `null` where they are as fast as expected, and where it was not found.
    pub because: Option<Sentence>,
    /// What pairs of nodes have against them though they are as fast as expected.
    pub beside: Option<Sentence>,
    /// What to do next where it was not found.
    pub next: Option<Sentence>,
    /// Whether nobody measured what the nodes should reach.
    #[serde(skip)]
    pub is_open: bool,
}

impl Answer {
    /// What the measurements of several nodes say, by a report of them; `None` where nothing was compared.
    pub fn of(report: &Report, scopes: &Scopes, slow_below: Percent) -> Option<Self> {
        let said = scopes.against_one(slow_below)?;
        let mut answer = Answer {
            sentence: said,
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
        if of_expected.0 >= slow_below.0 {
            let of_nodes = |cause: &&Finding| cause.check.starts_with("pairs/");
            if let Some(cause) = report.causes.iter().find(of_nodes) {
                // It is about all nodes, not only about the one that recorded it.
                let beside = cause.sentence.without_nodes();
                answer.say("; yet ", beside.clone());
                answer.beside = Some(beside);
            }
            return Some(answer);
        }
        let explains = |cause: &&Finding| {
            let mut below = cause.consequences.iter();
            below.any(|one| one.check == BELOW_EXPECTED)
        };
        match report.causes.iter().find(explains) {
            Some(cause) => {
                let because = cause.sentence.without_nodes();
                answer.say("; because ", because.clone());
                answer.because = Some(because);
            }
            None => {
                let (tried, next) = cause_not_found(scopes, slow_below);
                let tried = tried.join(", ");
                answer.say("; not found in ", tried);
                answer.say("; next: ", next.clone());
                answer.next = Some(next);
            }
        }
        Some(answer)
    }

    /// Adds what can be left out of the sentence.
    fn say(&mut self, leads: &'static str, what: impl Into<Sentence>) {
        self.sentence = self.sentence.then_optionally(leads).then(what);
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
