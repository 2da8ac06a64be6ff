//! The same operation in parts of a job: inside each node, with one rank of each node, and in the whole job. What is slow in the whole is slow in a part,
//! or where the parts meet.

use serde::{Deserialize, Serialize};

use super::bandwidth_words::rate;
use super::bisection::Bisection;
use super::results::Results;
use crate::source::{Answer, Question, Source};

/// The name of the question: `{"bench":"scopes"}`.
const NAME: &str = "scopes";

/// What a part of a job reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// The node, of a part inside one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How many ranks.
    pub ranks: u64,
    /// How many nodes.
    pub nodes: u64,
    /// The size of the operation in bytes.
    pub bytes: u64,
    /// Its bus bandwidth in bits per second.
    pub busbw: u64,
}

/// All parts that were measured, and the whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scopes {
    /// Inside each node that has several ranks.
    #[serde(default)]
    pub inside: Vec<Scope>,
    /// One rank of each node.
    #[serde(default)]
    pub between: Option<Scope>,
    /// The whole job.
    #[serde(default)]
    pub whole: Option<Scope>,
    /// Parts of the nodes that were measured to find what makes the whole slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bisection: Option<Bisection>,
}

impl Scope {
    /// What the last operation of these results reached; `None` where it is not valid.
    pub fn of(results: &Results, host: Option<String>) -> Option<Self> {
        let row = results.rows(0).pop()?;
        let ranks = results.plan.ranks.len() as u64;
        let valid = row.wrong == 0 && results.runs.iter().all(|run| run.troubles().is_empty());
        let busbw = row
            .point
            .collective
            .busbw(row.point.bytes, row.time()?, ranks)?;
        valid.then(|| Scope {
            host,
            ranks,
            nodes: results.plan.nodes(),
            bytes: row.point.bytes,
            busbw: busbw.0,
        })
    }
}

impl Scopes {
    /// The question to which they are the answer.
    pub fn question() -> Question {
        Question::bench(NAME, [])
    }

    /// What a recording has of them; `None` where it has none.
    pub fn read(source: &dyn Source) -> Option<Self> {
        match source.ask(&Self::question()).said {
            Ok(Answer::Value(value)) => Scopes::deserialize(&*value).ok(),
            _ => None,
        }
    }

    /// The slowest node alone.
    pub fn slowest_inside(&self) -> Option<&Scope> {
        self.inside.iter().min_by_key(|scope| scope.busbw)
    }

    /// By how much the whole job is slower than the slowest node alone.
    pub fn slowdown(&self) -> Option<f64> {
        let (inside, whole) = (self.slowest_inside()?, self.whole.as_ref()?);
        (whole.busbw > 0).then(|| inside.busbw as f64 / whole.busbw as f64)
    }

    /// By how much it would be, if it reached what one rank a node reaches, or what a node reaches where that is less.
    pub fn expected(&self) -> Option<f64> {
        let (inside, between) = (self.slowest_inside()?, self.between.as_ref()?);
        let binding = inside.busbw.min(between.busbw);
        (binding > 0).then(|| inside.busbw as f64 / binding as f64)
    }

    /// The sentence: `multi-node is 9.1× slower than single-node: expected 8.8×, because …`.
    pub fn sentence(&self) -> Option<String> {
        let slowdown = self.slowdown()?;
        let head = match slowdown {
            s if s >= 1.05 => format!("multi-node is {} slower than single-node", times(s)),
            s if s <= 0.95 => format!("multi-node is {} faster than single-node", times(1.0 / s)),
            _ => "multi-node is as fast as single-node".to_owned(),
        };
        let (Some(expected), Some(between)) = (self.expected(), self.between.as_ref()) else {
            return Some(head);
        };
        let because = match expected >= 1.05 {
            true => format!(
                "expected {}, because one rank a node carries {} between the nodes",
                times(expected),
                rate(between.busbw)
            ),
            false => format!(
                "expected as fast, because one rank a node carries {} between the nodes",
                rate(between.busbw)
            ),
        };
        Some(format!("{head}: {because}"))
    }
}

fn times(factor: f64) -> String {
    let decimals = usize::from(factor < 10.0);
    format!("{factor:.decimals$}×")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(busbw: u64) -> Scope {
        Scope {
            host: None,
            ranks: 2,
            nodes: 1,
            bytes: 1 << 28,
            busbw: busbw * 8_000_000_000,
        }
    }

    #[test]
    fn the_whole_is_told_against_its_parts() {
        let mut scopes = Scopes {
            inside: vec![scope(90), scope(80)],
            between: Some(scope(10)),
            whole: Some(scope(8)),
            bisection: None,
        };
        assert_eq!(
            scopes.sentence().unwrap(),
            "multi-node is 10× slower than single-node: expected 8.0×, because one rank a node carries 10.0 GB/s between the nodes"
        );
        scopes.between = None;
        assert_eq!(
            scopes.sentence().unwrap(),
            "multi-node is 10× slower than single-node"
        );
        scopes.between = Some(scope(100));
        scopes.whole = Some(scope(80));
        assert_eq!(
            scopes.sentence().unwrap(),
            "multi-node is as fast as single-node: expected as fast, because one rank a node carries 100 GB/s between the nodes"
        );
        scopes.inside.clear();
        assert_eq!(scopes.sentence(), None);
    }
}
