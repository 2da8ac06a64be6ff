//! What is accused, in words: its name, which direction, and what was seen.

use std::collections::{BTreeMap, BTreeSet};

use super::{Direction, Reference, Suspect, SuspectProblem, Thresholds, kind, short};
use crate::fact::BitRate;
use crate::measure::plan::pairs::outlier_attribution::Blame;
use crate::measure::plan::pairs::schedule::End;
use crate::measure::plan::pairs::{Counted, Flow, PairDirection, Results};
use crate::measure::plan::run::Backend;
use crate::sentence::{Sentence, sentence};

pub(super) fn suspect(
    results: &Results,
    problem: SuspectProblem,
    blame: Blame,
    ways: Vec<PairDirection>,
    (reference, thresholds): (&Reference, &Thresholds),
) -> Suspect {
    let direction = direction(blame, &ways);
    let wording = Wording {
        results,
        reference,
        blame,
        ways: &ways,
        direction,
        is_pair: matches!(
            blame,
            Blame::Pair(..) | Blame::Everything | Blame::Rail(_) | Blame::Cut(_)
        ),
        name: name(results, blame, direction),
        others: others(results, blame, &ways),
    };
    let (segments, again) = wording.segments();
    let loss = loss_percent(segments, again);
    let slowed = ways.iter().any(|way| {
        let rate = results.flow(*way).and_then(|flow| flow.rate());
        let usual = reference.rate.get(&kind(results, *way));
        matches!((rate, usual), (Some(rate), Some(usual)) if rate < thresholds.slow.value(true) * usual)
    });
    let what = match problem {
        SuspectProblem::Silent
        | SuspectProblem::RailsApart
        | SuspectProblem::FasterNetwork
        | SuspectProblem::GpuFails
        | SuspectProblem::GpuNone
        | SuspectProblem::GpuSlow => Sentence::default(),
        SuspectProblem::CutSlow => wording.cut_slow(),
        SuspectProblem::RdmaFails => wording.rdma_fails(),
        SuspectProblem::Unreachable => wording.unreachable(),
        SuspectProblem::PacketShort => wording.packet_short(),
        SuspectProblem::Loss => wording.loss(),
        SuspectProblem::Slow => wording.slow(),
        SuspectProblem::Late => wording.late(),
    };
    Suspect {
        problem,
        blame: Some(blame),
        direction,
        what,
        loss: (problem == SuspectProblem::Loss && segments > 0).then_some(loss),
        slowed: problem == SuspectProblem::Loss && slowed,
        counted: counted(results, blame, &ways),
        name: wording.name,
        ways,
    }
}

/// Percent of the segments or packets that were retransmitted.
fn loss_percent(segments: u64, again: u64) -> f64 {
    again as f64 * 100.0 / segments.max(1) as f64
}

/// What sentences about a suspect are made of.
struct Wording<'a> {
    results: &'a Results,
    reference: &'a Reference,
    blame: Blame,
    ways: &'a [PairDirection],
    direction: Direction,
    /// Whether two ends, or all of them, are accused together: no single one is.
    is_pair: bool,
    name: String,
    others: String,
}

impl Wording<'_> {
    fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.ways.iter().filter_map(|way| self.results.flow(*way))
    }

    /// How many segments or packets were sent, and how many of them again.
    fn segments(&self) -> (u64, u64) {
        self.flows().fold((0, 0), |(s, a), flow| {
            (s + flow.segments.unwrap_or(0), a + flow.again.unwrap_or(0))
        })
    }

    fn rdma_fails(&self) -> Sentence {
        let Self { name, others, .. } = self;
        let why = self.flows().find_map(|flow| flow.failed.clone());
        let why = why.unwrap_or_default();
        let over_tcp = self.ways.iter().any(|way| {
            self.results
                .reached(*way)
                .is_some_and(|reach| reach.tcp.is_ok())
        });
        let what = match (self.blame, self.direction) {
            (Blame::Pair(..), Direction::Both) => {
                sentence!("{name} do not reach each other by RDMA", ": {why}")
            }
            (Blame::Pair(..), _) => {
                sentence!(
                    "{name}: RDMA writes do not arrive",
                    " ({why})",
                    ", those the other way round do"
                )
            }
            (Blame::Everything | Blame::Rail(_), _) => {
                sentence!("{name}: no node reaches another by RDMA", " ({why})")
            }
            (_, Direction::In) => sentence!(
                "{name} receives no RDMA writes of {others}",
                " ({why})",
                ", and its own arrive there"
            ),
            (_, Direction::Out) => sentence!(
                "RDMA writes of {name} do not arrive at {others}",
                " ({why})",
                ", and theirs arrive at it"
            ),
            (_, Direction::Both) => {
                sentence!(
                    "{name} and {others} do not reach each other by RDMA",
                    " ({why})"
                )
            }
        };
        if over_tcp {
            what.then_optionally("; over TCP they reach each other")
        } else {
            what
        }
    }

    fn unreachable(&self) -> Sentence {
        let Self { name, others, .. } = self;
        let why = self
            .ways
            .iter()
            .find_map(|way| match self.results.reached(*way) {
                Some(reach) if reach.tcp.is_err() => reach.tcp.clone().err(),
                _ => self.results.flow(*way)?.failed.clone(),
            });
        let why = why.unwrap_or_default();
        let them = them(self.ways);
        match (self.is_pair, self.direction, self.blame) {
            (true, Direction::Both, Blame::Pair(..)) => {
                sentence!("{name} do not reach each other", ": {why}")
            }
            (true, _, Blame::Pair(..)) => {
                sentence!(
                    "{name}: no connection",
                    " ({why})",
                    ", the other way round there is one"
                )
            }
            (true, ..) => sentence!("{name}: no node reaches another", " ({why})"),
            (_, Direction::In, _) => sentence!(
                "{name} cannot be reached from {others}",
                " ({why})",
                "; it can connect to {them}"
            ),
            (_, Direction::Out, _) => sentence!(
                "{name} does not reach {others}",
                " ({why})",
                ", and is reached by {them}"
            ),
            (_, Direction::Both, _) => {
                sentence!(
                    "{name} is cut off: neither way between it and {others}",
                    " ({why})"
                )
            }
        }
    }

    fn packet_short(&self) -> Sentence {
        let Self { name, others, .. } = self;
        let shorts: Vec<(u64, u64)> = self
            .ways
            .iter()
            .filter_map(|w| short(self.results, *w))
            .collect();
        let packet = shorts.iter().map(|(packet, _)| *packet).min().unwrap_or(0);
        let mtu = shorts.iter().map(|(_, mtu)| *mtu).max().unwrap_or(0);
        // The kernel takes a few bytes more than its MTU, as a tag may have them.
        let own = self
            .ways
            .iter()
            .filter_map(|way| self.results.plan.rail(way.to))
            .map(|rail| rail.mtu);
        let own = own.min().filter(|own| *own < mtu);
        match (self.is_pair, self.direction) {
            (false, Direction::In) => {
                let said = sentence!(
                    "{name} receives packets of {packet} bytes at most",
                    ", of the {mtu} that {others} send"
                );
                match own {
                    Some(own) => said.then_optionally(format!("; its own MTU is {own}")),
                    None => said,
                }
            }
            (false, Direction::Out) => sentence!(
                "of what {name} sends to {others}, packets of {packet} bytes at most get through",
                "; its MTU is {mtu}"
            ),
            _ => sentence!(
                "{name}: packets of {packet} bytes at most get through",
                ", and the MTU is {mtu}"
            ),
        }
    }

    fn loss(&self) -> Sentence {
        let Self { name, others, .. } = self;
        let (segments, again) = self.segments();
        let loss = loss_percent(segments, again);
        let of = match self.results.plan.backend {
            Backend::Verbs => {
                format!("{} % of the packets ({again} of {segments})", part(loss))
            }
            _ => format!("{loss:.1} % of the segments ({again} of {segments})"),
        };
        match (self.is_pair, self.direction) {
            (false, Direction::Out) => {
                sentence!(
                    "{name} loses packets that it sends",
                    ": {of} to {others} were retransmitted"
                )
            }
            (false, Direction::In) => {
                sentence!(
                    "{name} loses packets that it receives",
                    ": {of} from {others} were retransmitted"
                )
            }
            _ => sentence!("{name}: packets are lost", ", {of} were retransmitted"),
        }
    }

    fn slow(&self) -> Sentence {
        let Self { name, others, .. } = self;
        let rates: Vec<f64> = self.flows().filter_map(|flow| flow.rate()).collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let usual = self
            .ways
            .iter()
            .filter_map(|way| self.reference.rate.get(&kind(self.results, *way)))
            .copied()
            .fold(0.0, f64::max);
        let (most, usual) = (rate(most), rate(usual));
        match (self.is_pair, self.direction) {
            (false, Direction::Out) => {
                sentence!(
                    "{name} is slow: {most} at most to {others}",
                    ", where equals send {usual}"
                )
            }
            (false, Direction::In) => sentence!(
                "{name} is slow: {most} at most from {others}",
                ", where equals receive {usual}"
            ),
            _ => sentence!("{name}: {most} at most", ", where equals carry {usual}"),
        }
    }

    fn cut_slow(&self) -> Sentence {
        let name = &self.name;
        let capacity = self.results.capacity(self.ways);
        let usual = self.reference.rate.values().copied().fold(0.0, f64::max);
        let (capacity, usual) = (rate(capacity), rate(usual));
        sentence!(
            "{name} is slow: it carries {capacity} one way",
            ", where pairs on one side carry {usual}"
        )
    }

    fn late(&self) -> Sentence {
        let Self { name, others, .. } = self;
        let trips = self.flows().filter_map(|flow| flow.round_trip_ns);
        let trip = trips.min().unwrap_or(0) as f64 / 1e3;
        let usual = self.reference.round_trip / 1e3;
        if self.is_pair {
            sentence!(
                "{name}: {trip:.0} µs at least there and back",
                ", where equals take {usual:.0} µs"
            )
        } else {
            sentence!(
                "{name} is far: {trip:.0} µs at least to {others} and back",
                ", where equals take {usual:.0} µs"
            )
        }
    }
}

/// Which direction of what is accused these ways are.
pub(super) fn direction(blame: Blame, ways: &[PairDirection]) -> Direction {
    let sends = |way: &PairDirection| match blame {
        Blame::Node(node) => way.from.0 == node,
        Blame::Adapter(end) => way.from == end,
        Blame::Pair(a, _) => way.from == a,
        Blame::Cut(side) => side.has(way.from.0),
        Blame::Everything | Blame::Rail(_) => way.from < way.to,
    };
    match (ways.iter().any(&sends), ways.iter().all(&sends)) {
        (_, true) => Direction::Out,
        (false, _) => Direction::In,
        _ => Direction::Both,
    }
}

/// What the accused is called.
pub(super) fn name(results: &Results, blame: Blame, direction: Direction) -> String {
    let plan = &results.plan;
    match blame {
        Blame::Everything => "every pair".to_owned(),
        Blame::Node(node) => plan
            .nodes
            .get(node)
            .map_or_else(String::new, |node| node.host.clone()),
        Blame::Rail(rail) => {
            let label = plan
                .rail((0, rail))
                .map_or("", |rail| rail.label(plan.backend));
            format!("rail {rail} ({label})")
        }
        Blame::Adapter(end) => plan.name(end),
        Blame::Cut(side) => {
            let is_here = |node: &usize| side.has(*node);
            let (here, there): (Vec<usize>, Vec<usize>) = (0..plan.nodes.len()).partition(is_here);
            let (here, there) = (plan.names(&here), plan.names(&there));
            match direction {
                Direction::Out => format!("the network from {here} to {there}"),
                Direction::In => format!("the network from {there} to {here}"),
                Direction::Both => format!("the network between {here} and {there}"),
            }
        }
        Blame::Pair(a, b) => match direction {
            Direction::Out => format!("{} to {}", plan.name(a), plan.name(b)),
            Direction::In => format!("{} to {}", plan.name(b), plan.name(a)),
            Direction::Both => format!("{} and {}", plan.name(a), plan.name(b)),
        },
    }
}

fn them(ways: &[PairDirection]) -> &'static str {
    match ways.len() {
        1 => "it",
        _ => "them",
    }
}

/// The nodes with which the accused has bad ways.
pub(super) fn others(results: &Results, blame: Blame, ways: &[PairDirection]) -> String {
    const TOLD: usize = 4;
    let own = match blame {
        Blame::Node(node) => Some(node),
        Blame::Adapter(end) => Some(end.0),
        _ => None,
    };
    let nodes: BTreeSet<usize> = ways.iter().flat_map(|way| [way.from.0, way.to.0]).collect();
    let names: Vec<&str> = nodes
        .iter()
        .filter(|node| Some(**node) != own)
        .filter_map(|node| results.plan.nodes.get(*node))
        .map(|node| node.host.as_str())
        .collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [some @ .., last] if names.len() <= TOLD => format!("{} and {last}", some.join(", ")),
        all => {
            let more = all.len() - (TOLD - 1);
            let some = all.get(..TOLD - 1).unwrap_or_default();
            format!("{} and {more} more", some.join(", "))
        }
    }
}

/// The counters that rose at the accused ends, or of a pair at both: first those of the ways that
/// accuse it, with what the end did meanwhile, then those that rose at any time.
fn counted(results: &Results, blame: Blame, ways: &[PairDirection]) -> Vec<String> {
    let plan = &results.plan;
    let is_own = |end: &End| match blame {
        Blame::Node(node) => end.0 == node,
        Blame::Adapter(adapter) => *end == adapter,
        Blame::Rail(_) | Blame::Everything | Blame::Pair(..) | Blame::Cut(_) => true,
    };
    // A receiver counts missing packets, a sender counts retransmissions: both ends of a bad path
    // report it.
    let mut of_ways: BTreeMap<(End, bool, &str), u64> = BTreeMap::new();
    for way in ways {
        let Some(flow) = results.flow(*way) else {
            continue;
        };
        for (end, sends, counted) in [
            (way.from, true, &flow.sender),
            (way.to, false, &flow.receiver),
        ] {
            for (name, by) in counted {
                *of_ways.entry((end, sends, name)).or_default() += by;
            }
        }
    }
    let label = |end: End| match (plan.backend, plan.nodes.get(end.0), plan.rail(end)) {
        // The port that counts is named where the node has no other one, too.
        (Backend::Verbs, Some(node), Some(rail)) => {
            format!("{}/{}", node.host, rail.label(plan.backend))
        }
        _ => plan.name(end),
    };
    let told = |((end, sends, name), by): (&(End, bool, &str), &u64)| {
        let what = if *sends { "sending" } else { "receiving" };
        format!("{} {name} +{by} while {what}", label(*end))
    };
    let mut all: Vec<String> = of_ways.iter().map(told).collect();
    let ends: BTreeSet<End> = ways
        .iter()
        .flat_map(|way| [way.from, way.to])
        .filter(is_own)
        .collect();
    let nothing = Counted::new();
    for end in ends {
        let rails = results.counters.get(&end.0);
        let rose = rails.and_then(|rails| rails.get(end.1)).unwrap_or(&nothing);
        for (name, by) in rose {
            let is_told = |sends| of_ways.contains_key(&(end, sends, name.as_str()));
            if !is_told(true) && !is_told(false) {
                all.push(format!("{} {name} +{by}", label(end)));
            }
        }
    }
    all
}

/// A percentage that may be small: two digits that count.
fn part(percent: f64) -> String {
    let decimals = match percent {
        all if all >= 1.0 || all <= 0.0 => 1,
        // Above what 2^64 packets can have.
        some => (-some.log10()).ceil().min(18.0) as usize + 1,
    };
    format!("{percent:.decimals$}")
}

/// A rate as people read it: three digits.
pub(super) fn rate(bits: f64) -> String {
    let unit = 10f64.powf(bits.max(1.0).log10().floor() - 2.0);
    // Below what any link carries, which fits.
    BitRate(((bits / unit).round() * unit).round() as u64).to_string()
}
