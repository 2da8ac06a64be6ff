//! What the pairs say: the fewest nodes, adapters, rails or pairs that explain all that is wrong, and one sentence.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Results, Way};
use crate::cluster::blame::{Blame, Tried, blame};
use crate::cluster::schedule::End;
use crate::fact::BitRate;

/// Below this part of what its equals carry a pair is slow, and one whose end has a slow pair already, below the second.
const SLOW: (f64, f64) = (0.7, 0.8);
/// Of the segments so many percent sent again are a loss that a link has, and a queue that overflows seldom; and where an end loses already.
const LOSS: (f64, f64) = (0.5, 0.1);
/// So many segments at least.
const SEGMENTS: u64 = 4;
/// So many times what its equals lose.
const OF_LOSS: f64 = 4.0;
/// A way there and back takes so many times what its equals' does, and so many nanoseconds more.
const LATE: (f64, f64) = (3.0, 50_000.0);

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The node did not come, or went away.
    Silent,
    /// No connection, or nothing passes over it.
    Unreachable,
    /// Packets of the interface's own MTU do not get through.
    PacketShort,
    /// What is sent has to be sent again.
    Loss,
    /// It carries much less than its equals.
    Slow,
    /// A way there and back takes much longer than its equals'.
    Late,
}

/// Which direction of what is accused is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What it sends.
    Out,
    /// What it receives.
    In,
    /// Both.
    Both,
}

/// What is accused, and of what.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspect {
    /// What is wrong.
    pub problem: Problem,
    /// Who is to blame.
    pub blame: Option<Blame>,
    /// Its name.
    pub name: String,
    /// Which direction; of a pair from the first to the second.
    pub direction: Direction,
    /// What was seen, in a sentence.
    pub what: String,
    /// The ways that accuse it.
    pub ways: Vec<Way>,
    /// The interfaces' counters that rose meanwhile: `n2/eth1 rx_dropped +77`; empty where none did.
    pub counted: Vec<String>,
}

/// What pairs of one kind carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Range {
    /// The least, in bits per second.
    pub least: f64,
    /// The middle.
    pub median: f64,
    /// The most.
    pub most: f64,
}

/// All that is accused; what explains most comes first.
pub fn suspects(results: &Results) -> Vec<Suspect> {
    let plan = &results.plan;
    let mut found: Vec<Suspect> = plan
        .silent
        .iter()
        .map(|silent| Suspect {
            problem: Problem::Silent,
            blame: None,
            name: silent.host.clone(),
            direction: Direction::Both,
            what: format!("{} is silent: {}", silent.host, silent.why),
            ways: Vec::new(),
            counted: Vec::new(),
        })
        .collect();
    let is_silent = |node: usize| {
        let host = plan.nodes.get(node).map(|node| &node.host);
        plan.silent.iter().any(|silent| Some(&silent.host) == host)
    };
    let mut ways = results.ways();
    // Of who went away nothing more is said.
    ways.retain(|way| !is_silent(way.from.0) && !is_silent(way.to.0));
    let reference = Reference::of(results, &ways);
    for problem in [
        Problem::Unreachable,
        Problem::PacketShort,
        Problem::Loss,
        Problem::Slow,
        Problem::Late,
    ] {
        let bad = bad(results, &ways, problem, &reference);
        let tried: Vec<Tried> = ways
            .iter()
            .filter(|way| way.from < way.to)
            .map(|way| Tried {
                ends: (way.from, way.to),
                bad: bad.contains(way) || bad.contains(&way.back()),
            })
            .collect();
        for blame in blame(&tried) {
            let of_blame = |way: &&Way| covers(blame, **way);
            let accusing: Vec<Way> = bad.iter().filter(of_blame).copied().collect();
            found.push(suspect(results, problem, blame, accusing, &reference));
        }
        if problem != Problem::PacketShort {
            // What is wrong is told once: who loses packets is slow by that.
            ways.retain(|way| !bad.contains(way) && !bad.contains(&way.back()));
        }
    }
    found
}

/// What all ways carry that were measured.
pub fn range(results: &Results) -> Option<Range> {
    let ways = results.ways();
    let rates = ways.iter().filter_map(|way| results.flow(*way)?.rate());
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_unstable_by(f64::total_cmp);
    Some(Range {
        least: *rates.first()?,
        median: part(&rates, 0.5)?,
        most: *rates.last()?,
    })
}

/// The one sentence.
pub fn sentence(results: &Results, suspects: &[Suspect]) -> String {
    let plan = &results.plan;
    let (nodes, rails) = (plan.nodes.len(), plan.rails());
    if let Some(first) = suspects.first() {
        return match suspects.len() - 1 {
            0 => first.what.clone(),
            1 => format!("{}; and one more finding", first.what),
            more => format!("{}; and {more} more findings", first.what),
        };
    }
    let over = match rails {
        1 => String::new(),
        rails => format!(" over {rails} rails"),
    };
    match range(results) {
        Some(range) => format!(
            "each of {nodes} nodes reaches each other{over}, and none stands out: {} one way ({} to {})",
            rate(range.median),
            rate(range.least),
            rate(range.most)
        ),
        None => format!("nothing was measured between {nodes} nodes{over}"),
    }
}

/// What equals reach.
struct Reference {
    /// The upper quarter of what ways of a kind carry: one bad node of three is in most pairs.
    rate: BTreeMap<u64, f64>,
    /// The lower quarter of what they lose, in percent.
    loss: f64,
    /// The lower quarter of the least times there and back, in nanoseconds.
    round_trip: f64,
}

impl Reference {
    fn of(results: &Results, ways: &[Way]) -> Self {
        let mut rates: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let (mut losses, mut trips) = (Vec::new(), Vec::new());
        for way in ways {
            let Some(flow) = results.first.get(way) else {
                continue;
            };
            if let Some(rate) = flow.rate() {
                rates.entry(kind(results, *way)).or_default().push(rate);
            }
            losses.extend(flow.loss());
            trips.extend(flow.round_trip_ns.map(|ns| ns as f64));
        }
        let mut rate = BTreeMap::new();
        for (kind, mut all) in rates {
            all.sort_unstable_by(f64::total_cmp);
            rate.extend(part(&all, 0.75).map(|rate| (kind, rate)));
        }
        losses.sort_unstable_by(f64::total_cmp);
        trips.sort_unstable_by(f64::total_cmp);
        Reference {
            rate,
            loss: part(&losses, 0.25).unwrap_or(0.0),
            round_trip: part(&trips, 0.25).unwrap_or(f64::INFINITY),
        }
    }
}

/// Ways are equals where the slower of their links has the same speed.
fn kind(results: &Results, way: Way) -> u64 {
    let speed = |end: End| results.plan.rail(end).and_then(|rail| rail.speed);
    match (speed(way.from), speed(way.to)) {
        (Some(a), Some(b)) => a.min(b),
        (a, b) => a.or(b).unwrap_or(0),
    }
}

/// The value below which this part of all is; of few the upper one.
fn part(sorted: &[f64], part: f64) -> Option<f64> {
    // At most the length, which fits.
    let at = (sorted.len() as f64 * part) as usize;
    sorted.get(at.min(sorted.len().checked_sub(1)?)).copied()
}

/// The ways that have this problem.
fn bad(results: &Results, ways: &[Way], problem: Problem, reference: &Reference) -> BTreeSet<Way> {
    let is = |way: &Way, weakly: bool| -> bool {
        let flow = results.flow(*way);
        match problem {
            Problem::Silent => false,
            Problem::Unreachable => {
                // A connection that came about later is one.
                let later = results.second.get(way).is_some_and(|f| f.failed.is_none());
                let reached = results.reached(*way).map(|reach| reach.tcp.is_ok());
                match reached {
                    Some(false) => !later,
                    Some(true) => flow.is_some_and(|flow| flow.failed.is_some()),
                    None => false,
                }
            }
            Problem::PacketShort => short(results, *way).is_some(),
            Problem::Loss => {
                let of = if weakly { LOSS.1 } else { LOSS.0 };
                flow.is_some_and(|flow| {
                    let enough = weakly || flow.again >= Some(SEGMENTS);
                    let loss = flow.loss().unwrap_or(0.0);
                    enough && loss >= of && (weakly || loss >= OF_LOSS * reference.loss)
                })
            }
            Problem::Slow => {
                let of = if weakly { SLOW.1 } else { SLOW.0 };
                let usual = reference.rate.get(&kind(results, *way));
                let rate = flow.and_then(|flow| flow.rate());
                matches!((rate, usual), (Some(rate), Some(usual)) if rate < of * usual)
            }
            Problem::Late => {
                let (times, more) = LATE;
                let limit = (times * reference.round_trip).max(reference.round_trip + more);
                let trip = flow.and_then(|flow| flow.round_trip_ns);
                trip.is_some_and(|ns| ns as f64 > limit)
            }
        }
    };
    let strong: BTreeSet<Way> = ways.iter().filter(|way| is(way, false)).copied().collect();
    let senders: BTreeSet<End> = strong.iter().map(|way| way.from).collect();
    let receivers: BTreeSet<End> = strong.iter().map(|way| way.to).collect();
    // Who has a bad way already, is believed less of the others.
    let weak = ways
        .iter()
        .filter(|way| senders.contains(&way.from) || receivers.contains(&way.to))
        .filter(|way| is(way, true));
    let weak: Vec<Way> = weak.copied().collect();
    strong.into_iter().chain(weak).collect()
}

/// The largest packet that gets through, and the sender's MTU, where that is larger.
fn short(results: &Results, way: Way) -> Option<(u64, u64)> {
    let packet = results.reached(way)?.packet?;
    let mtu = results.plan.rail(way.from)?.mtu.min(65_535);
    (packet < mtu).then_some((packet, mtu))
}

fn covers(blame: Blame, way: Way) -> bool {
    let ends = [way.from, way.to];
    match blame {
        Blame::Everything => true,
        Blame::Node(node) => ends.iter().any(|end| end.0 == node),
        Blame::Rail(rail) => ends.iter().any(|end| end.1 == rail),
        Blame::Adapter(adapter) => ends.contains(&adapter),
        Blame::Pair(a, b) => ends == [a, b] || ends == [b, a],
    }
}

fn suspect(
    results: &Results,
    problem: Problem,
    blame: Blame,
    ways: Vec<Way>,
    reference: &Reference,
) -> Suspect {
    let plan = &results.plan;
    let sends = |way: &Way| match blame {
        Blame::Node(node) => way.from.0 == node,
        Blame::Adapter(end) => way.from == end,
        Blame::Pair(a, _) => way.from == a,
        Blame::Everything | Blame::Rail(_) => way.from < way.to,
    };
    let direction = match (ways.iter().any(&sends), ways.iter().all(&sends)) {
        (_, true) => Direction::Out,
        (false, _) => Direction::In,
        _ => Direction::Both,
    };
    let name = match blame {
        Blame::Everything => "every pair".to_owned(),
        Blame::Node(node) => plan
            .nodes
            .get(node)
            .map_or_else(String::new, |node| node.host.clone()),
        Blame::Rail(rail) => {
            let interface = plan.rail((0, rail)).map_or("", |rail| &rail.interface);
            format!("rail {rail} ({interface})")
        }
        Blame::Adapter(end) => plan.name(end),
        Blame::Pair(a, b) => match direction {
            Direction::Out => format!("{} to {}", plan.name(a), plan.name(b)),
            Direction::In => format!("{} to {}", plan.name(b), plan.name(a)),
            Direction::Both => format!("{} and {}", plan.name(a), plan.name(b)),
        },
    };
    let others = others(results, blame, &ways);
    let flows = || ways.iter().filter_map(|way| results.flow(*way));
    let is_pair = matches!(blame, Blame::Pair(..) | Blame::Everything | Blame::Rail(_));
    let what = match problem {
        Problem::Silent => String::new(),
        Problem::Unreachable => {
            let why = ways.iter().find_map(|way| match results.reached(*way) {
                Some(reach) if reach.tcp.is_err() => reach.tcp.clone().err(),
                _ => results.flow(*way)?.failed.clone(),
            });
            let why = why.unwrap_or_default();
            match (is_pair, direction, blame) {
                (true, Direction::Both, Blame::Pair(..)) => {
                    format!("{name} do not reach each other: {why}")
                }
                (true, _, Blame::Pair(..)) => {
                    format!("{name}: no connection ({why}), the other way round there is one")
                }
                (true, ..) => format!("{name}: no node reaches another ({why})"),
                (_, Direction::In, _) => format!(
                    "{name} is not reached by {others} ({why}), and reaches {} itself",
                    them(&ways)
                ),
                (_, Direction::Out, _) => format!(
                    "{name} does not reach {others} ({why}), and is reached by {}",
                    them(&ways)
                ),
                (_, Direction::Both, _) => {
                    format!("{name} is cut off: neither way between it and {others} ({why})")
                }
            }
        }
        Problem::PacketShort => {
            let shorts: Vec<(u64, u64)> = ways.iter().filter_map(|w| short(results, *w)).collect();
            let packet = shorts.iter().map(|(packet, _)| *packet).min().unwrap_or(0);
            let mtu = shorts.iter().map(|(_, mtu)| *mtu).max().unwrap_or(0);
            // The kernel takes a few bytes more than its MTU, as a tag may have them.
            let own = ways
                .iter()
                .filter_map(|way| plan.rail(way.to))
                .map(|rail| rail.mtu);
            let own = own.min().filter(|own| *own < mtu);
            let own = own.map_or(String::new(), |own| format!("; its own MTU is {own}"));
            match (is_pair, direction) {
                (false, Direction::In) => format!(
                    "{name} receives packets of {packet} bytes at most, of the {mtu} that {others} send{own}"
                ),
                (false, Direction::Out) => format!(
                    "of what {name} sends to {others}, packets of {packet} bytes at most get through; its MTU is {mtu}"
                ),
                _ => format!(
                    "{name}: packets of {packet} bytes at most get through, and the MTU is {mtu}"
                ),
            }
        }
        Problem::Loss => {
            let (segments, again) = flows().fold((0, 0), |(s, a), flow| {
                (s + flow.segments.unwrap_or(0), a + flow.again.unwrap_or(0))
            });
            let loss = again as f64 * 100.0 / segments.max(1) as f64;
            let of = format!("{loss:.1} % of the segments ({again} of {segments})");
            match (is_pair, direction) {
                (false, Direction::Out) => {
                    format!("{name} loses what it sends: {of} to {others} were sent again")
                }
                (false, Direction::In) => {
                    format!("{name} loses what it receives: {of} from {others} were sent again")
                }
                _ => format!("{name}: packets are lost, {of} were sent again"),
            }
        }
        Problem::Slow => {
            let rates: Vec<f64> = flows().filter_map(|flow| flow.rate()).collect();
            let most = rates.iter().copied().fold(0.0, f64::max);
            let usual = ways
                .iter()
                .filter_map(|way| reference.rate.get(&kind(results, *way)))
                .copied()
                .fold(0.0, f64::max);
            let (most, usual) = (rate(most), rate(usual));
            match (is_pair, direction) {
                (false, Direction::Out) => {
                    format!("{name} is slow: {most} at most to {others}, where equals send {usual}")
                }
                (false, Direction::In) => format!(
                    "{name} is slow: {most} at most from {others}, where equals receive {usual}"
                ),
                _ => format!("{name}: {most} at most, where equals carry {usual}"),
            }
        }
        Problem::Late => {
            let trips = flows().filter_map(|flow| flow.round_trip_ns);
            let trip = trips.min().unwrap_or(0) as f64 / 1e3;
            let usual = reference.round_trip / 1e3;
            match is_pair {
                false => format!(
                    "{name} is far: {trip:.0} µs at least to {others} and back, where equals take {usual:.0} µs"
                ),
                true => format!(
                    "{name}: {trip:.0} µs at least there and back, where equals take {usual:.0} µs"
                ),
            }
        }
    };
    Suspect {
        problem,
        blame: Some(blame),
        name,
        direction,
        what,
        counted: counted(results, blame, &ways),
        ways,
    }
}

fn them(ways: &[Way]) -> &'static str {
    match ways.len() {
        1 => "it",
        _ => "them",
    }
}

/// The nodes with which the accused has bad ways.
fn others(results: &Results, blame: Blame, ways: &[Way]) -> String {
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

/// The counters that rose at the accused ends, or of a pair at both.
fn counted(results: &Results, blame: Blame, ways: &[Way]) -> Vec<String> {
    let is_own = |end: &End| match blame {
        Blame::Node(node) => end.0 == node,
        Blame::Adapter(adapter) => *end == adapter,
        Blame::Rail(_) | Blame::Everything | Blame::Pair(..) => true,
    };
    let ends: BTreeSet<End> = ways
        .iter()
        .flat_map(|way| [way.from, way.to])
        .filter(is_own)
        .collect();
    let mut told = Vec::new();
    for end in ends {
        let rails = results.counters.get(&end.0);
        for (name, by) in rails
            .and_then(|rails| rails.get(end.1))
            .into_iter()
            .flatten()
        {
            told.push(format!("{} {name} +{by}", results.plan.name(end)));
        }
    }
    told
}

/// A rate as people read it: three digits.
fn rate(bits: f64) -> String {
    let unit = 10f64.powf(bits.max(1.0).log10().floor() - 2.0);
    // Below what any link carries, which fits.
    BitRate(((bits / unit).round() * unit).round() as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::{Flow, Member, Plan, Rail, Reach, Silent};
    use super::*;
    use crate::bench::plan::Backend;

    fn results(nodes: usize, rails: usize) -> Results {
        let rail = |node: usize, rail: usize| Rail {
            interface: format!("eth{rail}"),
            address: format!("10.0.{rail}.{}", node + 1),
            mtu: 9000,
            speed: None,
            device: None,
        };
        let member = |node: usize| Member {
            host: format!("n{}", node + 1),
            rails: (0..rails).map(|r| rail(node, r)).collect(),
        };
        let mut results = Results::new(Plan {
            backend: Backend::Tcp,
            nodes: (0..nodes).map(member).collect(),
            silent: Vec::new(),
            flow_ms: 200,
            again: Vec::new(),
        });
        for way in results.ways() {
            let flow = Flow {
                bytes: 2_500_000_000 + way.from.0 as u64 * 10_000_000,
                micros: 200_000,
                segments: Some(10_000),
                again: Some(3),
                round_trip_ns: Some(20_000 + way.to.0 as u64 * 500),
                failed: None,
            };
            results.first.insert(way, flow);
            results.reach.entry(way.from.0).or_default().push(Reach {
                to: way.to.0,
                rail: way.from.1,
                tcp: Ok(90),
                packet: Some(9000),
            });
        }
        for node in 0..nodes {
            results
                .counters
                .insert(node, vec![Default::default(); rails]);
        }
        results
    }

    fn reach(results: &mut Results, way: Way) -> &mut Reach {
        let all = results.reach.get_mut(&way.from.0).unwrap();
        let is = |reach: &&mut Reach| reach.to == way.to.0 && reach.rail == way.from.1;
        all.iter_mut().find(is).unwrap()
    }

    fn said(results: &Results) -> Vec<String> {
        suspects(results).into_iter().map(|s| s.what).collect()
    }

    #[test]
    fn where_all_are_equal_nobody_is_accused() {
        let results = results(4, 2);
        assert_eq!(said(&results), [""; 0]);
        assert_eq!(
            sentence(&results, &[]),
            "each of 4 nodes reaches each other over 2 rails, and none stands out: 101 Gb/s one way (100 Gb/s to 101 Gb/s)"
        );
    }

    #[test]
    fn an_adapter_that_loses_what_it_sends_is_named_with_its_direction() {
        let mut results = results(4, 2);
        for way in results.ways().into_iter().filter(|w| w.from == (1, 1)) {
            let flow = results.first.get_mut(&way).unwrap();
            // One of its ways loses less than the limit by chance.
            flow.again = Some(if way.to.0 == 2 { 20 } else { 230 });
            flow.bytes /= 10;
        }
        let counters = results.counters.get_mut(&1).unwrap();
        counters[1].insert("tx_dropped".into(), 480);
        let found = suspects(&results);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].what,
            "n2/eth1 loses what it sends: 1.6 % of the segments (480 of 30000) to n1, n3 and n4 were sent again"
        );
        assert_eq!(found[0].counted, ["n2/eth1 tx_dropped +480"]);
        assert_eq!(found[0].blame, Some(Blame::Adapter((1, 1))));
    }

    #[test]
    fn a_slow_node_a_short_packet_and_a_filter_are_told_apart() {
        let mut results = results(5, 1);
        for way in results.ways() {
            let flow = results.first.get_mut(&way).unwrap();
            if way.from.0 == 3 {
                flow.bytes /= 8;
            }
            if way.to.0 == 2 {
                reach(&mut results, way).packet = Some(1500);
            }
            if way.to.0 == 4 {
                reach(&mut results, way).tcp = Err("no answer".into());
                *results.first.get_mut(&way).unwrap() = Flow::failed("not reached");
            }
        }
        results.plan.nodes[2].rails[0].mtu = 1500;
        for reach in results.reach.get_mut(&2).unwrap() {
            reach.packet = Some(1500);
        }
        assert_eq!(
            said(&results),
            [
                "n5 is not reached by n1, n2, n3 and n4 (no answer), and reaches them itself",
                "n3 receives packets of 1500 bytes at most, of the 9000 that n1, n2 and n4 send; its own MTU is 1500",
                "n4 is slow: 12.7 Gb/s at most to n1, n2 and n3, where equals send 102 Gb/s",
            ]
        );
    }

    #[test]
    fn one_pair_one_rail_and_one_far_node() {
        let mut pair = results(4, 2);
        let way = Way {
            from: (0, 1),
            to: (2, 1),
        };
        for way in [way, way.back()] {
            pair.first.get_mut(&way).unwrap().bytes /= 4;
        }
        assert_eq!(
            said(&pair),
            ["n1/eth1 and n3/eth1: 25.2 Gb/s at most, where equals carry 101 Gb/s"]
        );
        let mut rail = results(4, 3);
        for way in rail.ways().into_iter().filter(|way| way.from.1 == 1) {
            rail.first.get_mut(&way).unwrap().bytes /= 4;
        }
        assert_eq!(
            said(&rail),
            ["rail 1 (eth1): 25.3 Gb/s at most, where equals carry 101 Gb/s"]
        );
        let mut far = results(4, 1);
        for way in far.ways() {
            if way.from.0 == 1 || way.to.0 == 1 {
                far.first.get_mut(&way).unwrap().round_trip_ns = Some(900_000);
            }
        }
        assert_eq!(
            said(&far),
            ["n2 is far: 900 µs at least to n1, n3 and n4 and back, where equals take 21 µs"]
        );
    }

    #[test]
    fn the_second_measurement_counts_and_who_went_away_is_named() {
        let mut results = results(3, 1);
        let way = Way {
            from: (0, 0),
            to: (1, 0),
        };
        let good = results.first[&way].clone();
        results.first.get_mut(&way).unwrap().bytes /= 10;
        assert_eq!(suspects(&results).len(), 1);
        results.second.insert(way, good);
        assert_eq!(suspects(&results), []);
        results.plan.silent.push(Silent {
            host: "n3".into(),
            why: "its connection closed".into(),
        });
        for way in results.ways().into_iter().filter(|way| way.to.0 == 2) {
            reach(&mut results, way).tcp = Err("refused".into());
        }
        assert_eq!(said(&results), ["n3 is silent: its connection closed"]);
    }

    #[test]
    fn two_nodes_are_a_pair() {
        let mut results = results(2, 1);
        let way = Way {
            from: (1, 0),
            to: (0, 0),
        };
        reach(&mut results, way).tcp = Err("refused".into());
        assert_eq!(
            said(&results),
            ["n2 to n1: no connection (refused), the other way round there is one"]
        );
    }

    #[test]
    fn all_of_it_replays() {
        use crate::source::recording::Recording;
        use crate::source::wire::Header;
        let mut results = results(3, 2);
        results.plan.again.push(((0, 0), (1, 0)));
        results.complete();
        let mut recording = Recording::new(Header::default());
        for line in results.lines(7) {
            recording.add(line);
        }
        let read = Results::read(&recording.of(super::super::NAME)).unwrap();
        assert_eq!(read, results);
    }
}
