//! The one sentence of a triage: how much slower several nodes are than one, what was expected, and because of what.

use serde::Serialize;

use super::{Finding, Report};
use crate::fact::Percent;
use crate::measure::plan::scope::Scopes;

/// The check whose cause is looked for.
const BELOW_EXPECTED: &str = "bench/nodes-below-expected";

/// What to do where pairs of nodes were not measured.
const PAIRS: &str = "`rdma-doctor bench pairs`";

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Answer {
    /// All of it in one sentence.
    pub sentence: String,
    /// How much slower all nodes are than one; `null` where no node was measured alone.
    pub slower: Option<f64>,
    /// How much slower they were expected to be.
    pub expected: Option<f64>,
    /// What slows them; `null` where they are as fast as expected, and where it was not found.
    pub because: Option<String>,
    /// What pairs of nodes have against them though they are as fast as expected.
    pub beside: Option<String>,
    /// What to do next where it was not found.
    pub next: Option<String>,
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
            answer.sentence = format!("{}; next: {PAIRS}", answer.sentence);
            answer.next = Some(PAIRS.to_owned());
            answer.is_open = true;
            return Some(answer);
        };
        if of_expected.0 >= slow_below.0 {
            let of_nodes = |cause: &&Finding| cause.check.starts_with("pairs/");
            if let Some(cause) = report.causes.iter().find(of_nodes) {
                let beside = unprefixed(cause);
                answer.sentence = format!("{}; yet {beside}", answer.sentence);
                answer.beside = Some(beside.to_owned());
            }
            return Some(answer);
        }
        let explains = |cause: &&Finding| {
            let mut below = cause.consequences.iter();
            below.any(|one| one.check == BELOW_EXPECTED)
        };
        match report.causes.iter().find(explains) {
            Some(cause) => {
                let because = unprefixed(cause).to_owned();
                answer.sentence = format!("{}; because {because}", answer.sentence);
                answer.because = Some(because);
            }
            None => {
                let (tried, next) = cause_not_found(scopes, slow_below);
                let tried = tried.join(", ");
                let said = &answer.sentence;
                answer.sentence = format!("{said}; not found in {tried}; next: {next}");
                answer.next = Some(next.to_owned());
            }
        }
        Some(answer)
    }

    /// Whether something is wrong between the nodes.
    pub fn has_finding(&self) -> bool {
        self.because.is_some() || self.beside.is_some() || self.next.is_some()
    }
}

/// The sentence without the node that recorded it: it is about all nodes.
fn unprefixed(cause: &Finding) -> &str {
    let sentence = cause.sentence.as_str();
    let prefix = |node: &String| sentence.strip_prefix(node.as_str())?.strip_prefix(": ");
    cause.nodes.iter().find_map(prefix).unwrap_or(sentence)
}

/// What was tried in vain, and what to try next.
fn cause_not_found(scopes: &Scopes, slow_below: Percent) -> (Vec<&'static str>, &'static str) {
    let mut tried = vec!["ranks", "single nodes"];
    let nodes = scopes.whole.as_ref().map_or(0, |whole| whole.nodes);
    if scopes.pairs.is_none() {
        return (tried, PAIRS);
    }
    tried.push("pairs of nodes");
    if scopes.bisection.is_none() && nodes > 2 {
        return (tried, "`rdma-doctor bench all-reduce --bisect`");
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
    let next = match scopes.are_links_idle(slow_below) {
        true => {
            "the rate that switch ports, virtual switches or the provider allow each node, and `rdma-doctor check --sample 10` on all nodes while the job runs"
        }
        false => {
            "`rdma-doctor check --sample 10` on all nodes while the job runs, and the counters of the links between switches"
        }
    };
    (tried, next)
}
