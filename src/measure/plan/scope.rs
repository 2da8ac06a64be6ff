//! The same operation in parts of a job: inside each node, with one rank of each node, and in the
//! whole job. What is slow in the whole is slow in a part, or where the parts meet.

use serde::{Deserialize, Serialize};

use super::bandwidth_words::rate;
use super::bisection::Bisection;
use super::reply::RankReply;
use super::results::Results;
use super::run::Backend;
use crate::fact::Percent;
use crate::sentence::{Sentence, sentence};
use crate::source::{Answer, Question, Source};

/// The name of the question: `{"bench":"scopes"}`.
const NAME: &str = "scopes";

/// The member of a plan that says that the whole was compared with its parts, and something follows
/// from them.
pub const COMPARED: &str = "compared";

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
    /// The rank that waited longest for a CPU; absent where the kernel does not count that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<CpuWait>,
}

/// The rank that waited longest for a CPU, beside the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuWait {
    /// Its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its number.
    pub rank: u64,
    /// Which part of its trials it waited, in percent.
    pub percent: f64,
    /// Which part the middle one of all ranks waited.
    pub usual: f64,
}

impl CpuWait {
    /// Of the last operation of these results.
    fn of(results: &Results) -> Option<Self> {
        let run = results.of(0).last()?;
        let replies: Vec<_> = run.ranks.iter().flatten().collect();
        let waited = |reply: &&RankReply| reply.points.last()?.waited;
        let mut all: Vec<f64> = replies.iter().filter_map(waited).collect();
        if all.len() < run.ranks.len().max(2) {
            return None;
        }
        all.sort_by(f64::total_cmp);
        let usual = *all.get((all.len() - 1) / 2)?;
        let longest = replies.iter().enumerate();
        let longest = longest.filter_map(|(rank, reply)| Some((rank, *reply, waited(reply)?)));
        let (rank, reply, percent) = longest.max_by(|a, b| a.2.total_cmp(&b.2))?;
        Some(CpuWait {
            host: reply.host.clone(),
            rank: rank as u64,
            percent,
            usual,
        })
    }

    /// In words: `rank 4 on n3 waits 87 % of the time for a CPU; the others wait 1 %`.
    pub fn words(&self) -> Sentence {
        let on = self
            .host
            .as_ref()
            .map_or(String::new(), |host| format!(" on {host}"));
        let Self {
            rank,
            percent,
            usual,
            ..
        } = self;
        sentence!(
            "rank {rank}{on} waits {percent:.0} % of the time for a CPU",
            "; most others wait {usual:.0} %"
        )
    }
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
    /// What nodes that are equals carry to each other over all rails of one, one way and alone, in
    /// bits per second; absent where pairs were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u64>,
    /// What the links between these nodes carry by the word of their hardware, in bits per second:
    /// over sockets no more than CPUs are expected to move; absent where nobody knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<u64>,
    /// Parts of the nodes that were measured to find what makes the whole slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bisection: Option<Bisection>,
    /// Whether the connections were changed to find it: these runs are arms of the whole's plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arms: bool,
    /// How long each step of an operation of few bytes takes from one rank to the next, in
    /// nanoseconds; absent where that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ns: Option<u64>,
    /// Nodes that the whole is without: they cannot be reached, or were lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// What moved the data; absent in recordings of versions that did not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
}

impl Scope {
    /// What the last operation of these results reached; `None` where it is not valid.
    pub fn of(results: &Results, host: Option<String>) -> Option<Self> {
        let row = results.rows(0).pop()?;
        let ranks = results.plan.ranks.len() as u64;
        let mut runs = results.of(0);
        let valid = row.wrong == 0 && runs.all(|run| run.troubles().is_empty());
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
            waiting: CpuWait::of(results),
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

    /// A node alone, as most of them are: the upper one of two in the middle.
    pub fn usual_inside(&self) -> Option<&Scope> {
        let mut all: Vec<&Scope> = self.inside.iter().collect();
        all.sort_by_key(|scope| scope.busbw);
        all.get(all.len() / 2).copied()
    }

    /// By how much the whole job is slower than a node alone.
    pub fn slowdown(&self) -> Option<f64> {
        let (inside, whole) = (self.usual_inside()?, self.whole.as_ref()?);
        (whole.busbw > 0).then(|| inside.busbw as f64 / whole.busbw as f64)
    }

    /// By how much it would be, if it reached what the network between the nodes carries, or what a
    /// node reaches where that is less.
    pub fn expected(&self) -> Option<f64> {
        let (inside, binding) = (self.usual_inside()?, self.binding()?);
        Some(inside.busbw as f64 / binding as f64)
    }

    /// What the network between the nodes was seen to carry: what equal pairs carry, else what the
    /// fastest part of the nodes reaches. One rank of each node is no measure of it: a slow node
    /// slows these ranks as much as all of them.
    fn network(&self) -> Option<u64> {
        let parts = self.bisection.iter().flat_map(|all| &all.parts);
        let several = parts.filter(|part| part.nodes.len() > 1);
        self.pairs
            .or_else(|| several.filter_map(|part| part.busbw).max())
    }

    /// What the whole should reach: what the network between the nodes carries, by its links where
    /// these are known, or what a node reaches where that is less.
    fn binding(&self) -> Option<u64> {
        let network = self.network().max(self.links)?;
        let inside = self.usual_inside().map_or(network, |scope| scope.busbw);
        Some(network.min(inside)).filter(|rate| *rate > 0)
    }

    /// What the whole reaches of what it should.
    pub fn of_expected(&self) -> Option<Percent> {
        let whole = self.whole.as_ref()?.busbw as f64;
        Some(Percent(
            (1000.0 * whole / self.binding()? as f64).round() / 10.0,
        ))
    }

    /// Nodes that alone reach less than this share of what is usual, and less than the network
    /// carries where that was measured, each with what it reaches.
    pub fn slow_alone(&self, share: Percent) -> Vec<(&str, u64)> {
        let usual = self.usual_inside().map_or(0, |scope| scope.busbw) as f64;
        let slow = self.inside.iter();
        let binding = self.binding();
        let slow = slow.filter(|scope| {
            binding.is_none_or(|binding| scope.busbw < binding)
                && (scope.busbw as f64) < share.0 / 100.0 * usual
        });
        slow.filter_map(|scope| Some((scope.host.as_deref()?, scope.busbw)))
            .collect()
    }

    /// The same nodes in words: `n3 reaches 0.20 GB/s by itself, where 2.10 GB/s are usual`.
    pub fn slow_alone_in_words(&self, share: Percent) -> Option<Sentence> {
        let slow = self.slow_alone(share);
        let all: Vec<String> = slow
            .iter()
            .map(|(host, busbw)| format!("{host} reaches {}", rate(*busbw)))
            .collect();
        let usual = rate(self.usual_inside()?.busbw);
        let all = all.join(", ");
        let said = sentence!("{all} by itself", ", where {usual} are usual");
        (!slow.is_empty()).then_some(said)
    }

    /// How the whole job does against a node and against what was expected:
    /// `an all-reduce over 3 nodes takes 12 times as long as on one; 2.1× expected`; without a
    /// cause, which may be known already. Where nobody measured what the network carries it says so.
    pub fn against_one(&self, slow_below: Percent, is_bound: bool) -> Option<Sentence> {
        let whole = self.whole.as_ref().filter(|whole| whole.nodes > 1)?;
        let what = format!("an all-reduce over {} nodes", whole.nodes);
        let is_as_fast = self.slowdown().is_some_and(|slower| slower < 1.05);
        let head = Sentence::from(match self.slowdown() {
            None => format!("{what} reaches {}", rate(whole.busbw)),
            Some(_) if is_as_fast => format!("{what} is as fast as on one"),
            Some(slower) => format!("{what} takes {} times as long as on one", factor(slower)),
        });
        let (Some(of_expected), Some(binding)) = (self.of_expected(), self.binding()) else {
            return Some(head.then_optionally("; what two of them carry was not measured"));
        };
        let seen = match (self.pairs, self.network()) {
            (Some(pairs), _) => format!("two nodes carry {} to each other", rate(pairs)),
            (None, Some(part)) => format!("the fastest part of them reaches {}", rate(part)),
            (None, None) => "what two of them carry was not measured".to_owned(),
        };
        let links = self
            .links
            .map(|links| format!("their links {}", rate(links)));
        let expected = self.expected().map_or_else(|| rate(binding), times);
        let is_slow = is_bound || of_expected.0 < slow_below.0;
        Some(match (is_slow, links) {
            (true, Some(links)) if self.are_links_idle(slow_below) => {
                let expected = sentence!("; {expected} expected", ": {seen}, {links}");
                head.then_optionally(expected)
            }
            (true, _) => head.then_optionally(format!("; {expected} expected")),
            (false, _) if !self.has_expectation() => {
                let unknown = "; what their links should carry is not known: --link 100G says it";
                head.then_optionally(format!(": {seen}")).then(unknown)
            }
            (false, links) => {
                let as_expected = if is_as_fast { "" } else { ", as expected" };
                let links = links.map_or(String::new(), |links| format!("; {links}"));
                head.then(as_expected)
                    .then_optionally(format!(": {seen}"))
                    .then_optionally(links)
            }
        })
    }

    /// Whether it is known what the nodes should reach, beyond what they do: of GPUs it is.
    pub fn has_expectation(&self) -> bool {
        self.links.is_some() || !matches!(self.backend, Some(Backend::Tcp | Backend::Verbs))
    }

    /// Whether all of the network is slow, and what pairs carry explains what all nodes reach.
    pub fn are_links_bound(&self, slow_below: Percent, explains: Percent) -> bool {
        let reached = self.whole.as_ref().zip(self.network());
        let is_near = reached.is_some_and(|(whole, network)| {
            let share = network as f64 / whole.busbw as f64;
            (share - 1.0).abs() <= explains.0 / 100.0
        });
        is_near && self.are_links_idle(slow_below)
    }

    /// All of the network is slow: `every link carries 1.25 MB/s of 25.0 MB/s, …`.
    pub fn slow_links(&self) -> Sentence {
        let seen = rate(self.network().unwrap_or(0));
        let links = rate(self.links.unwrap_or(0));
        sentence!(
            "every link carries {seen} of {links}",
            ": check the rate that switch ports, virtual switches or the provider allow each node"
        )
    }

    /// Whether pairs of nodes carry much less than their links: all of the network is slow.
    pub fn are_links_idle(&self, slow_below: Percent) -> bool {
        let share = self.network().zip(self.links);
        share.is_some_and(|(seen, links)| (seen as f64) < slow_below.0 / 100.0 * links as f64)
    }

    /// The sentence:
    /// `multi-node is 9.1× slower than single-node: one rank a node carries 10.0 GB/s between the nodes`.
    pub fn sentence(&self) -> Option<String> {
        let slowdown = self.slowdown()?;
        let head = match slowdown {
            s if s >= 1.05 => format!("multi-node is {} slower than single-node", times(s)),
            s if s <= 0.95 => format!("multi-node is {} faster than single-node", times(1.0 / s)),
            _ => "multi-node is as fast as single-node".to_owned(),
        };
        Some(match &self.between {
            Some(between) => format!(
                "{head}: one rank a node carries {} between the nodes",
                rate(between.busbw)
            ),
            None => head,
        })
    }
}

fn factor(factor: f64) -> String {
    let decimals = usize::from(factor < 10.0);
    format!("{factor:.decimals$}")
}

fn times(slower: f64) -> String {
    format!("{}×", factor(slower))
}

#[cfg(test)]
mod tests {
    use super::super::bisection::Measured;
    use super::*;

    fn scope(busbw: u64) -> Scope {
        Scope {
            host: None,
            ranks: 2,
            nodes: 1,
            bytes: 1 << 28,
            busbw: busbw * 8_000_000_000,
            waiting: None,
        }
    }

    #[test]
    fn the_whole_is_told_against_its_parts() {
        let mut scopes = Scopes {
            inside: vec![scope(90), scope(80)],
            between: Some(scope(10)),
            whole: Some(scope(8)),
            ..Scopes::default()
        };
        assert_eq!(
            scopes.sentence().unwrap(),
            "multi-node is 11× slower than single-node: one rank a node carries 10.0 GB/s between the nodes"
        );
        scopes.between = None;
        assert_eq!(
            scopes.sentence().unwrap(),
            "multi-node is 11× slower than single-node"
        );
        scopes.between = Some(scope(100));
        scopes.whole = Some(scope(88));
        assert_eq!(
            scopes.sentence().unwrap(),
            "multi-node is as fast as single-node: one rank a node carries 100 GB/s between the nodes"
        );
        scopes.inside.clear();
        assert_eq!(scopes.sentence(), None);
    }

    #[test]
    fn the_whole_is_slow_beside_what_equal_pairs_carry() {
        let slow_below = Percent(60.0);
        let of = |host: &str, busbw| Scope {
            host: Some(host.into()),
            ..scope(busbw)
        };
        let mut scopes = Scopes {
            inside: vec![of("n1", 90), of("n2", 88), of("n3", 5)],
            between: Some(scope(4)),
            whole: Some(Scope {
                nodes: 3,
                ..scope(4)
            }),
            pairs: Some(10 * 8_000_000_000),
            ..Scopes::default()
        };
        assert_eq!(scopes.of_expected(), Some(Percent(40.0)));
        assert_eq!(
            scopes.against_one(slow_below, false).unwrap(),
            "an all-reduce over 3 nodes takes 22 times as long as on one; 8.8× expected"
        );
        assert_eq!(
            scopes.slow_alone_in_words(slow_below).unwrap(),
            "n3 reaches 5.00 GB/s by itself, where 88.0 GB/s are usual"
        );
        // One rank a node is as slow as the whole, and no measure of what the network carries.
        scopes.pairs = None;
        assert_eq!(scopes.of_expected(), None);
        assert_eq!(
            scopes.against_one(slow_below, false).unwrap(),
            "an all-reduce over 3 nodes takes 22 times as long as on one; what two of them carry was not measured"
        );
        // A part of them is.
        let part = |nodes: &[usize], busbw: u64| Measured {
            nodes: nodes.to_vec(),
            busbw: Some(busbw * 8_000_000_000),
        };
        scopes.bisection = Some(Bisection {
            parts: vec![part(&[0, 1], 11), part(&[2], 90), part(&[0, 2], 4)],
            ..Bisection::default()
        });
        assert_eq!(
            scopes.against_one(slow_below, false).unwrap(),
            "an all-reduce over 3 nodes takes 22 times as long as on one; 8.0× expected"
        );
        scopes.whole.as_mut().unwrap().busbw = 10 * 8_000_000_000;
        assert_eq!(
            scopes.against_one(slow_below, false).unwrap(),
            "an all-reduce over 3 nodes takes 8.8 times as long as on one, as expected: the fastest part of them reaches 11.0 GB/s"
        );
        scopes.whole.as_mut().unwrap().busbw = 4 * 8_000_000_000;
        scopes.bisection = None;
        // All pairs are equal, and their links carry far more.
        let reaches_pairs = |links| Scopes {
            pairs: Some(4 * 8_000_000_000),
            links: Some(links),
            ..scopes.clone()
        };
        let slow = reaches_pairs(50 * 8_000_000_000);
        assert_eq!(slow.of_expected(), Some(Percent(8.0)));
        assert_eq!(
            slow.against_one(slow_below, false).unwrap(),
            "an all-reduce over 3 nodes takes 22 times as long as on one; 1.8× expected: two nodes carry 4.00 GB/s to each other, their links 50.0 GB/s"
        );
        let well = reaches_pairs(5 * 8_000_000_000);
        assert_eq!(
            well.against_one(slow_below, false).unwrap(),
            "an all-reduce over 3 nodes takes 22 times as long as on one, as expected: two nodes carry 4.00 GB/s to each other; their links 5.00 GB/s"
        );
        // Of one rank on each node nobody knows what a node reaches alone.
        scopes.pairs = Some(10 * 8_000_000_000);
        scopes.inside.clear();
        assert_eq!(
            scopes.against_one(slow_below, false).unwrap(),
            "an all-reduce over 3 nodes reaches 4.00 GB/s; 10.0 GB/s expected"
        );
        assert_eq!(scopes.slow_alone_in_words(slow_below), None);
    }
}
