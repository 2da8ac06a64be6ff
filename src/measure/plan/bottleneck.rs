//! What binds a collective over several nodes: of all that is abnormal between them, that by which
//! the measured figure is predicted.
//!
//! A ring sends the same bytes over each of its links, so that it is as fast as the slowest of them:
//! what is slow and is predicted to be faster or slower than the ring was is beside the cause.

use super::pairs::outlier_attribution::Blame;
use super::pairs::verdict::{Suspect, usual};
use super::pairs::{PairDirection, Results};
use super::scope::Scopes;
use crate::fact::suspect::SuspectProblem;
use crate::fact::{Limits, limit};
use crate::measure::plan::run::Backend;
use crate::sentence::Sentence;

/// What is abnormal between the nodes, by its part in the measured figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bottleneck {
    /// What keeps some of the nodes from taking part at all.
    pub stops: Vec<Sentence>,
    /// What predicts the figure: the cause, and those whose predictions are as close.
    pub binds: Vec<Sentence>,
    /// What is abnormal and does not bind.
    pub also: Vec<Sentence>,
}

impl Bottleneck {
    /// What these suspects of the pairs have to do with what all nodes reached together.
    pub fn of(results: &Results, suspects: &[Suspect], scopes: &Scopes, limits: &Limits) -> Self {
        let ring = Ring::of(results, scopes);
        let measured = scopes.whole.as_ref().map(|whole| whole.busbw as f64);
        let equals = scopes.pairs.map_or(f64::INFINITY, |pairs| pairs as f64);
        let near = limits.get(limit::EXPLAINS).0 / 100.0;
        let together = 1.0 + limits.get(limit::BINDS_TOGETHER).0 / 100.0;
        let noticeable = 1.0 - limits.get(limit::PAIR_SLOW_LEAST).0 / 100.0;
        let fits =
            |predicted: &f64| measured.is_some_and(|rate| (predicted / rate - 1.0).abs() <= near);
        // A loss that costs nothing is beside the cause, and so is all that is as fast as usual.
        let slows = |suspect: &Suspect, rate: f64| {
            suspect.problem == SuspectProblem::FasterNetwork || rate < noticeable * equals
        };
        let predicted = suspects.iter().map(|suspect| {
            let rate = ring.predicted(suspect)?;
            Some(rate).filter(fits).filter(|rate| slows(suspect, *rate))
        });
        let figures: Vec<Option<f64>> = predicted.collect();
        let least = figures
            .iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min);
        let mut found = Bottleneck::default();
        for (suspect, predicted) in suspects.iter().zip(figures) {
            if follows_from_mtu(results, suspect, suspects) {
                continue;
            }
            let place = match predicted {
                Some(rate) if rate <= together * least => &mut found.binds,
                _ if stops(suspect) => &mut found.stops,
                _ if is_note(suspect) => continue,
                _ => &mut found.also,
            };
            place.push(suspect.what.clone());
        }
        found
    }
}

/// Whether connections open, and no data passes because its packets are too large.
fn follows_from_mtu(results: &Results, suspect: &Suspect, all: &[Suspect]) -> bool {
    let opens = |way: &PairDirection| results.reached(*way).is_some_and(|reach| reach.tcp.is_ok());
    let mut short = all
        .iter()
        .filter(|one| one.problem == SuspectProblem::PacketShort);
    suspect.problem == SuspectProblem::Unreachable
        && suspect.ways.iter().all(opens)
        && short.any(|one| suspect.ways.iter().all(|way| one.ways.contains(way)))
}

/// Whether a job cannot run with what is accused.
fn stops(suspect: &Suspect) -> bool {
    let problems = [
        SuspectProblem::Silent,
        SuspectProblem::Unreachable,
        SuspectProblem::PacketShort,
        SuspectProblem::RdmaFails,
    ];
    problems.contains(&suspect.problem)
}

/// Whether it is no fault.
fn is_note(suspect: &Suspect) -> bool {
    [SuspectProblem::Late, SuspectProblem::RailsApart].contains(&suspect.problem)
}

/// The ways of the ring on which the nodes were measured together.
struct Ring<'r> {
    results: &'r Results,
    /// The nodes in the ring's order.
    nodes: Vec<usize>,
    /// How many rails carry the ring at once.
    rails: usize,
    /// Whether the order of the nodes is known: NCCL chooses its own.
    has_order: bool,
}

impl<'r> Ring<'r> {
    fn of(results: &'r Results, scopes: &Scopes) -> Self {
        let nodes = results.plan.nodes.iter().enumerate();
        let left = nodes.filter(|(_, node)| !scopes.left_out.contains(&node.host));
        let is_nccl = scopes.backend == Some(Backend::Nccl);
        Ring {
            results,
            nodes: left.map(|(at, _)| at).collect(),
            rails: if is_nccl {
                results.plan.rails().max(1)
            } else {
                1
            },
            has_order: !is_nccl,
        }
    }

    fn has(&self, way: &PairDirection) -> bool {
        let place = |node: usize| self.nodes.iter().position(|other| *other == node);
        let (Some(from), Some(to)) = (place(way.from.0), place(way.to.0)) else {
            return false;
        };
        !self.has_order || (from + 1) % self.nodes.len() == to
    }

    /// What the ring would reach if nothing but this suspect held it up; `None` if it does not cross
    /// what is accused, or nobody knows what that carries.
    fn predicted(&self, suspect: &Suspect) -> Option<f64> {
        let one = match suspect.problem {
            SuspectProblem::CutSlow => self.through_cut(suspect),
            // What else is slow may hold up one of its ways: the fastest tells what it lets through.
            SuspectProblem::Slow | SuspectProblem::Loss => {
                let is_crossed = suspect.ways.iter().any(|way| self.has(way));
                let ways = suspect.ways.iter().filter(|_| is_crossed);
                let rates = ways.filter_map(|way| self.results.flow(*way)?.rate());
                rates.max_by(f64::total_cmp)
            }
            // All of the nodes use the slower network.
            SuspectProblem::FasterNetwork => usual(self.results),
            _ => None,
        };
        one.map(|rate| rate * self.rails as f64)
    }

    /// What a cut carries in one direction is shared by the ways of the ring that cross it so.
    fn through_cut(&self, suspect: &Suspect) -> Option<f64> {
        let Some(Blame::Cut(side)) = suspect.blame else {
            return None;
        };
        let crossing = suspect.ways.iter().filter(|way| self.has(way));
        let (forth, back): (Vec<&PairDirection>, Vec<&PairDirection>) =
            crossing.partition(|way| side.has(way.from.0));
        let crossings = forth.len().max(back.len()).max(1);
        Some(self.results.capacity(&suspect.ways) / crossings as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::{Flow, Member, OtherNetwork, Plan, Rail, Silent, verdict};
    use super::super::scope::Scope;
    use super::*;

    /// Four nodes whose ways carry so many Mb/s, with how many of 10,000 segments are sent again.
    fn results(carry: impl Fn(usize, usize) -> (u64, u64)) -> Results {
        let member = |node: usize| Member {
            host: format!("n{}", node + 1),
            rails: vec![Rail {
                interface: "eth0".into(),
                address: format!("10.0.0.{}", node + 1),
                mtu: 1500,
                ..Rail::default()
            }],
        };
        let mut results = Results::new(Plan::of((0..4).map(member).collect(), 300));
        for way in results.ways() {
            let (megabits, again) = carry(way.from.0, way.to.0);
            let flow = Flow {
                bytes: megabits * 125_000,
                micros: 1_000_000,
                segments: Some(10_000),
                again: Some(again),
                ..Flow::default()
            };
            results.first.insert(way, flow);
        }
        results
    }

    /// What binds the nodes that reached so many Mb/s together.
    fn bottleneck(results: &Results, reached: u64) -> Bottleneck {
        let limits = Limits::default();
        let scopes = Scopes {
            whole: Some(Scope {
                host: None,
                ranks: 8,
                nodes: 4,
                bytes: 1 << 20,
                busbw: reached * 1_000_000,
                waiting: None,
            }),
            pairs: verdict::usual(results).map(|rate| rate as u64),
            backend: Some(Backend::Tcp),
            ..Scopes::default()
        };
        let suspects = verdict::suspects(results, &limits);
        Bottleneck::of(results, &suspects, &scopes, &limits)
    }

    fn begin(said: &[Sentence]) -> Vec<String> {
        let words = |said: &Sentence| {
            let text = said.to_string();
            text.split(&[':', ';'][..])
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        said.iter().map(words).collect()
    }

    #[test]
    fn what_predicts_the_figure_binds_and_the_rest_is_beside_it() {
        let of = |slow: usize, lossy: usize| {
            results(move |from, to| match (from, to) {
                (a, b) if a == lossy && b == slow => (62, 400),
                (a, b) if a == slow || b == slow => (62, 0),
                (a, _) if a == lossy => (150, 400),
                _ => (200, 0),
            })
        };
        let found = bottleneck(&of(2, 1), 60);
        assert_eq!(begin(&found.binds), ["n3"]);
        assert_eq!(begin(&found.also), ["n2 loses packets that it sends"]);
        // The nodes together reach what the lossy one carries: n3 is in no ring then.
        let found = bottleneck(&of(9, 1), 148);
        assert_eq!(begin(&found.binds), ["n2 loses packets that it sends"]);
        // Neither predicts it.
        let found = bottleneck(&of(2, 1), 20);
        assert_eq!(begin(&found.binds), [""; 0]);
        assert_eq!(found.also.len(), 2);
    }

    #[test]
    fn two_nodes_that_are_as_slow_bind_together() {
        let slow = [1, 2];
        let both = results(
            |from, to| match slow.contains(&from) || slow.contains(&to) {
                true => (80, 0),
                false => (200, 0),
            },
        );
        assert_eq!(begin(&bottleneck(&both, 76).binds), ["n2", "n3"]);
    }

    #[test]
    fn a_slow_path_that_no_ring_takes_binds_nothing() {
        let across = results(|from, to| match (from, to) {
            (0, 2) => (50, 0),
            _ => (200, 0),
        });
        let found = bottleneck(&across, 190);
        assert_eq!((found.binds.len(), found.also.len()), (0, 1));
        let in_ring = results(|from, to| match (from, to) {
            (1, 2) => (50, 0),
            _ => (200, 0),
        });
        assert_eq!(begin(&bottleneck(&in_ring, 48).binds), ["n2 to n3"]);
    }

    #[test]
    fn a_cut_carries_what_its_pairs_carry_together() {
        // Two pairs at once share 60 Mb/s, and the ring crosses it once each way.
        let cut = results(|from, to| match (from < 2) == (to < 2) {
            true => (200, 0),
            false => (30, 0),
        });
        let found = bottleneck(&cut, 57);
        assert_eq!(
            found.binds[0].to_string(),
            "the network between n[1-2] and n[3-4] is slow: it carries 60 Mb/s one way, where pairs on one side carry 200 Mb/s"
        );
        let one_way = results(|from, to| match from < 2 && to >= 2 {
            true => (30, 0),
            false => (200, 0),
        });
        let said = bottleneck(&one_way, 57).binds[0].to_string();
        assert!(
            said.starts_with("the network from n[1-2] to n[3-4] is slow"),
            "{said}"
        );
    }

    #[test]
    fn a_quarter_is_a_difference_among_equals_that_are_alike() {
        let slow = |percent: u64, noise: u64| {
            results(move |from, to| match from == 2 || to == 2 {
                true => (2 * percent, 0),
                false => (200 - noise * (from as u64), 0),
            })
        };
        assert_eq!(begin(&bottleneck(&slow(75, 0), 145).binds), ["n3"]);
        assert_eq!(begin(&bottleneck(&slow(75, 1), 145).binds), ["n3"]);
        // Within what is usual, and where equals lie as far apart.
        assert_eq!(bottleneck(&slow(93, 0), 180), Bottleneck::default());
        assert_eq!(bottleneck(&slow(75, 15), 145), Bottleneck::default());
    }

    #[test]
    fn a_faster_network_that_is_idle_explains_the_slow_one() {
        let mut slow = results(|_, _| (20, 0));
        let other = |rate| OtherNetwork {
            interfaces: vec!["eth1".into()],
            rate,
        };
        slow.plan.others = vec![other(200_000_000)];
        assert_eq!(
            begin(&bottleneck(&slow, 19).binds),
            ["eth1 carries 200 Mb/s between the nodes"]
        );
        slow.plan.others = vec![other(22_000_000)];
        assert_eq!(bottleneck(&slow, 19), Bottleneck::default());
    }

    #[test]
    fn a_node_that_is_gone_stops_the_job() {
        let mut gone = results(|_, _| (200, 0));
        let (host, why) = ("n3".to_owned(), "its connection closed".to_owned());
        gone.plan.silent = vec![Silent { host, why }];
        assert_eq!(begin(&bottleneck(&gone, 190).stops), ["n3 did not respond"]);
    }
}
