//! What the pairs say: the fewest nodes, adapters, rails or pairs that explain all that is wrong,
//! and one sentence.

mod gpus;
pub mod hopeless;
mod mtu_commands;
mod rails;
mod thresholds;
mod wording;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

pub use self::mtu_commands::mtu_commands;
pub use self::thresholds::Thresholds;
use self::wording::{rate, suspect};
use super::{Extent, Flow, Memory, PairDirection, Plan, Results};
use crate::fact::Limits;
use crate::fact::suspect::SuspectProblem;
use crate::measure::plan::pairs::outlier_attribution::{Blame, Tried, blame, cut};
use crate::measure::plan::pairs::schedule::End;
use crate::measure::plan::run::Backend;
use crate::sentence::{Sentence, sentence};

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
    pub problem: SuspectProblem,
    /// The part that is to blame.
    pub blame: Option<Blame>,
    /// Its name.
    pub name: String,
    /// Which direction; of a pair from the first to the second.
    pub direction: Direction,
    /// What was seen, in a sentence.
    pub what: Sentence,
    /// Of a loss: which part of what these ways sent was sent again, in percent.
    pub loss: Option<f64>,
    /// Of a loss: whether these ways carry much less than their equals.
    pub slowed: bool,
    /// The ways that accuse it.
    pub ways: Vec<PairDirection>,
    /// The counters of ports and interfaces that rose meanwhile, at which end and in which
    /// direction: `n2/eth1 rx_dropped +77`; empty where none did.
    pub counted: Vec<String>,
}

impl Suspect {
    /// What accuses both directions, and says all in its sentence.
    fn of(
        problem: SuspectProblem,
        blame: Option<Blame>,
        name: String,
        what: Sentence,
        ways: Vec<PairDirection>,
    ) -> Self {
        Suspect {
            problem,
            blame,
            name,
            direction: Direction::Both,
            what,
            loss: None,
            slowed: false,
            ways,
            counted: Vec::new(),
        }
    }
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

/// All that is accused; what explains most comes first. Which pairs are outliers is a matter of
/// limits.
pub fn suspects(results: &Results, limits: &Limits) -> Vec<Suspect> {
    let plan = &results.plan;
    let thresholds = &Thresholds::new(limits, plan.backend);
    let mut found: Vec<Suspect> = plan
        .silent
        .iter()
        .map(|silent| {
            let (host, why) = (&silent.host, &silent.why);
            let what = sentence!("{host} did not respond", ": {why}");
            let name = silent.host.clone();
            Suspect::of(SuspectProblem::Silent, None, name, what, Vec::new())
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
    for problem in problems(plan) {
        let whole = ways.iter().filter(|way| !results.missing.contains(way));
        let whole: Vec<PairDirection> = whole.copied().collect();
        let Bad { strong, all: bad } = bad(results, &whole, problem, &reference, thresholds);
        let tried = tried(&ways, &bad, |way| is_known(results, *way, problem));
        let mut told: BTreeSet<PairDirection> = BTreeSet::new();
        // Slow pairs that form a cut are the cut, and no nodes.
        let cut = match problem {
            SuspectProblem::Slow if results.missing.is_empty() => cut(&tried),
            _ => None,
        };
        let accused = match cut {
            Some(side) => vec![Blame::Cut(side)],
            None => accused(results, &tried),
        };
        let problem = match cut {
            Some(_) => SuspectProblem::CutSlow,
            None => problem,
        };
        for blame in accused {
            let of_blame = |way: &&PairDirection| blame.covers(way.ends());
            // A weak sign tells how far a problem reaches. By itself it is none: a busy processor
            // gives as much.
            if !strong.iter().any(|way| blame.covers(way.ends())) {
                continue;
            }
            // Where every pair is slow there are no equals: a shaper's credit carried the first.
            if problem == SuspectProblem::Slow && blame == Blame::Everything {
                continue;
            }
            let accusing: Vec<PairDirection> = bad.iter().filter(of_blame).copied().collect();
            // That equals are alike tells of a node with all its pairs, and not of one pair: what
            // holds up a flow for a moment is as much.
            if problem == SuspectProblem::Slow
                && matches!(blame, Blame::Pair(..))
                && !(accusing.iter()).any(|way| reference.is_far_below(results, *way, thresholds))
            {
                continue;
            }
            told.extend(&accusing);
            let measure = (&reference, thresholds);
            found.push(suspect(results, problem, blame, accusing, measure));
        }
        if problem != SuspectProblem::PacketShort {
            // Each fault is reported once: loss makes a pair slow. Packets that are too large
            // explain why a connection opens and nothing passes.
            let mut settled = told;
            if problem == SuspectProblem::Unreachable {
                settled.retain(|way| !has_short_packets(results, *way));
            }
            ways.retain(|way| !settled.contains(way) && !settled.contains(&way.back()));
        }
    }
    if plan.extent == Extent::Neighbours {
        return found;
    }
    found.extend(faster_network(results, thresholds));
    let silent: BTreeSet<usize> = (0..plan.nodes.len()).filter(|n| is_silent(*n)).collect();
    found.extend(gpus::suspects(results, &silent, thresholds));
    let along = results.ways();
    let works = |end: End| {
        let is_own = |way: &PairDirection| way.from == end || way.to == end;
        let mut own = along.iter().filter(|way| is_own(way));
        !is_silent(end.0) && own.any(|way| results.flow(*way).is_some_and(|f| f.failed.is_none()))
    };
    if results.missing.is_empty()
        && let Some(apart) = rails::apart(results, works)
    {
        found.push(apart);
    }
    found
}

/// What pairs are judged by, what explains more of it first. Where each node has only a few, and
/// data flows for a moment, their rates tell nothing; and that sockets do not reach a port whose
/// RDMA writes do is no fault: NCCL's sockets are on another interface.
fn problems(plan: &Plan) -> Vec<SuspectProblem> {
    use SuspectProblem::{Late, Loss, PacketShort, RdmaFails, Slow, Unreachable};
    match (plan.extent, plan.backend) {
        (Extent::All, _) => vec![Unreachable, PacketShort, RdmaFails, Loss, Slow, Late],
        (Extent::Neighbours, Backend::Verbs) => vec![PacketShort, RdmaFails, Loss],
        (Extent::Neighbours, _) => vec![Unreachable, PacketShort, Loss],
    }
}

/// Whether connections open that way, and its large packets do not get through.
pub fn has_short_packets(results: &Results, way: PairDirection) -> bool {
    let reach = results.reached(way);
    reach.is_some_and(|reach| reach.tcp.is_ok()) && short(results, way).is_some()
}

/// The fastest of the networks that the pairs did not use, if it is much faster than theirs.
fn faster_network(results: &Results, thresholds: &Thresholds) -> Option<Suspect> {
    let plan = &results.plan;
    let other = plan.others.iter().max_by_key(|other| other.rate)?;
    let used = usual(results)?;
    if (other.rate as f64) < thresholds.faster_times * used {
        return None;
    }
    let name = other.interfaces.join(",");
    let own = plan
        .rail((0, 0))
        .map_or("", |rail| rail.label(plan.backend));
    let (fast, slow) = (rate(other.rate as f64), rate(used));
    let what = sentence!(
        "{name} carries {fast} between the nodes",
        "; {own}, which they use, carries {slow}",
        "; NCCL_SOCKET_IFNAME={name} uses it"
    );
    let problem = SuspectProblem::FasterNetwork;
    Some(Suspect::of(problem, None, name, what, Vec::new()))
}

/// The pairs of these ways of which something is known, and whether they are bad.
fn tried(
    ways: &[PairDirection],
    bad: &BTreeSet<PairDirection>,
    is_known: impl Fn(&PairDirection) -> bool,
) -> Vec<Tried> {
    let pairs = ways.iter().filter(|way| way.from < way.to && is_known(way));
    let tried = pairs.map(|way| Tried {
        ends: (way.from, way.to),
        bad: bad.contains(way) || bad.contains(&way.back()),
    });
    tried.collect()
}

/// The fewest that explain the bad pairs, whatever became of the pairs of which a reply is missing:
/// what is accused only if they are well, or only if they are bad, is not accused, and its bad
/// pairs are by themselves.
fn accused(results: &Results, tried: &[Tried]) -> Vec<Blame> {
    let way = |from, to| PairDirection { from, to };
    let is_missing = |(from, to): (End, End)| {
        [way(from, to), way(to, from)]
            .iter()
            .any(|way| results.missing.contains(way))
    };
    let (known, open): (Vec<Tried>, Vec<Tried>) = tried
        .iter()
        .cloned()
        .partition(|tried| tried.bad || !is_missing(tried.ends));
    // Ways of which nothing is known were not tried.
    let of_rail = results.missing.iter().filter(|way| way.from.1 == way.to.1);
    let pairs = of_rail.map(|way| (way.from.min(way.to), way.from.max(way.to)));
    let open: BTreeSet<(End, End)> = open.iter().map(|tried| tried.ends).chain(pairs).collect();
    let open = open
        .into_iter()
        .filter(|ends| known.iter().all(|tried| tried.ends != *ends));
    let open: Vec<(End, End)> = open.collect();
    if open.is_empty() {
        return blame(tried);
    }
    let among = |bad: bool| {
        let open = open.iter().map(|ends| Tried { ends: *ends, bad });
        blame(&known.iter().cloned().chain(open).collect::<Vec<_>>())
    };
    let (well, bad) = (among(false), among(true));
    let mut certain: Vec<Blame> = well.into_iter().filter(|one| bad.contains(one)).collect();
    let alone = known
        .iter()
        .filter(|tried| tried.bad)
        .filter(|tried| !certain.iter().any(|blame| blame.covers(tried.ends)));
    let alone: Vec<Blame> = alone
        .map(|tried| Blame::Pair(tried.ends.0, tried.ends.1))
        .collect();
    certain.extend(alone);
    certain
}

/// Whether a pair says anything of this problem: one that was not tried is none that is well.
fn is_known(results: &Results, way: PairDirection, problem: SuspectProblem) -> bool {
    let flow = |way: PairDirection| results.flow(way);
    let both = [way, way.back()];
    match problem {
        SuspectProblem::RdmaFails => both
            .into_iter()
            .filter_map(flow)
            .any(|flow| flow.failed.is_none() || flow.arrived.is_some()),
        SuspectProblem::Loss | SuspectProblem::Slow | SuspectProblem::Late => {
            let mut flows = both.into_iter().filter_map(flow);
            flows.any(|flow| flow.failed.is_none())
        }
        _ => true,
    }
}

/// What all ways carry that were measured.
pub fn range(results: &Results) -> Option<Range> {
    range_of(results, |way| results.flow(way))
}

/// What equals carry one way.
pub fn usual(results: &Results) -> Option<f64> {
    let ways = results.ways().into_iter();
    capacity_of_equals(ways.filter_map(|way| Some((way, results.flow(way)?.rate()?))))
}

/// What three quarters of all ends do not exceed on the fastest of their ways: two bad nodes of four
/// are in five of six pairs.
fn capacity_of_equals(carried: impl Iterator<Item = (PairDirection, f64)>) -> Option<f64> {
    let mut ends: BTreeMap<End, f64> = BTreeMap::new();
    for (way, rate) in carried {
        for end in [way.from, way.to] {
            let most = ends.entry(end).or_default();
            *most = most.max(rate);
        }
    }
    let mut rates: Vec<f64> = ends.into_values().collect();
    rates.sort_unstable_by(f64::total_cmp);
    part(&rates, 0.75)
}

/// What the links of such ways carry by the word of their hardware; `None` where nobody knows it.
pub fn links(results: &Results) -> Option<f64> {
    let link = |end: End| results.plan.rail(end)?.link;
    usual_of(results, |way| {
        Some(link(way.from)?.min(link(way.to)?) as f64)
    })
}

fn usual_of(results: &Results, rate: impl Fn(PairDirection) -> Option<f64>) -> Option<f64> {
    let mut rates: Vec<f64> = results.ways().into_iter().filter_map(rate).collect();
    rates.sort_unstable_by(f64::total_cmp);
    part(&rates, 0.75)
}

/// The same from GPU to GPU, where both memories were measured.
pub fn range_on_gpus(results: &Results) -> Option<Range> {
    range_of(results, |way| results.flow_on_gpus(way))
}

fn range_of<'r>(
    results: &Results,
    flow: impl Fn(PairDirection) -> Option<&'r Flow>,
) -> Option<Range> {
    let ways = results.ways();
    let rates = ways.iter().filter_map(|way| flow(*way)?.rate());
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_unstable_by(f64::total_cmp);
    Some(Range {
        least: *rates.first()?,
        median: part(&rates, 0.5)?,
        most: *rates.last()?,
    })
}

/// Which of the suspects the one sentence is about.
pub fn leading(suspects: &[Suspect]) -> Option<usize> {
    // How the network is made is no finding that leads.
    let is_finding = |suspect: &Suspect| suspect.problem != SuspectProblem::RailsApart;
    suspects.iter().position(is_finding)
}

/// The one sentence.
pub fn sentence(results: &Results, suspects: &[Suspect]) -> Sentence {
    let plan = &results.plan;
    let (nodes, rails) = (plan.nodes.len(), plan.rails());
    if let Some(first) = leading(suspects) {
        let what = &suspects[first].what;
        let is_finding = |suspect: &&Suspect| suspect.problem != SuspectProblem::RailsApart;
        return match suspects.iter().filter(is_finding).count() {
            ..=1 => what.clone(),
            2 => what.then_optionally("; and one more finding"),
            all => what.then_optionally(format!("; and {} more findings", all - 1)),
        };
    }
    let over = match rails {
        1 => String::new(),
        rails => format!(" over {rails} rails"),
    };
    let carried = |range: Range| {
        format!(
            "{} one way ({} to {})",
            rate(range.median),
            rate(range.least),
            rate(range.most)
        )
    };
    match range(results) {
        Some(range) => {
            let to_gpus = match plan.leading() {
                Memory::Host => "",
                Memory::Gpu => " from GPU to GPU",
            };
            let said =
                sentence!("all {nodes} nodes reach each other{over}{to_gpus}, without an outlier")
                    .then_optionally(format!(": {}", carried(range)));
            match range_on_gpus(results) {
                Some(range) => {
                    said.then_optionally(format!("; from GPU to GPU {}", carried(range)))
                }
                None => said,
            }
        }
        None => sentence!("nothing was measured between {nodes} nodes{over}"),
    }
}

/// What equals reach.
struct Reference {
    /// What equals carry over ways of a kind.
    rate: BTreeMap<u64, f64>,
    /// The spread of the faster half, as a part of the fastest; absent where there are few ways.
    spread: BTreeMap<u64, f64>,
    /// The lower quarter of what they lose, in percent.
    loss: f64,
    /// The lower quarter of the least times there and back, in nanoseconds.
    round_trip: f64,
}

impl Reference {
    /// Whether a way carries less than equals do however far apart they are.
    fn is_far_below(&self, results: &Results, way: PairDirection, limits: &Thresholds) -> bool {
        let usual = self.rate.get(&kind(results, way));
        let rate = results.flow(way).and_then(|flow| flow.rate());
        let part = limits.slow.value(false);
        matches!((rate, usual), (Some(rate), Some(usual)) if rate < part * usual)
    }

    fn of(results: &Results, ways: &[PairDirection]) -> Self {
        let mut rates: BTreeMap<u64, Vec<(PairDirection, f64)>> = BTreeMap::new();
        let (mut losses, mut trips) = (Vec::new(), Vec::new());
        for way in ways {
            if results.missing.contains(way) {
                // It may be as bad as can be, so that what is bad beside it is no worse than usual.
                let own = rates.entry(kind(results, *way)).or_default();
                own.push((*way, 0.0));
                losses.push(f64::INFINITY);
                trips.push(f64::INFINITY);
            }
            let Some(flow) = results.first.get(way) else {
                continue;
            };
            if let Some(rate) = flow.rate() {
                let own = rates.entry(kind(results, *way)).or_default();
                own.push((*way, rate));
            }
            losses.extend(flow.loss());
            trips.extend(flow.round_trip_ns.map(|ns| ns as f64));
        }
        let (mut rate, mut spread) = (BTreeMap::new(), BTreeMap::new());
        for (kind, ways) in rates {
            let mut all: Vec<f64> = ways.iter().map(|(_, rate)| *rate).collect();
            all.sort_unstable_by(f64::total_cmp);
            spread.extend(upper_spread(&all).map(|spread| (kind, spread)));
            rate.extend(capacity_of_equals(ways.into_iter()).map(|rate| (kind, rate)));
        }
        losses.sort_unstable_by(f64::total_cmp);
        trips.sort_unstable_by(f64::total_cmp);
        Reference {
            rate,
            spread,
            loss: part(&losses, 0.25).unwrap_or(0.0),
            round_trip: part(&trips, 0.25).unwrap_or(f64::INFINITY),
        }
    }
}

/// The spread of the faster half of these rates, as a part of the fastest. Two nodes have too few
/// pairs for it.
fn upper_spread(sorted: &[f64]) -> Option<f64> {
    const ENOUGH: usize = 6;
    let most = sorted.last().filter(|most| **most > 0.0)?;
    let middle = part(sorted, 0.5)?;
    (sorted.len() >= ENOUGH).then_some((most - middle) / most)
}

/// Ways are equals where the slower of their links has the same speed.
fn kind(results: &Results, way: PairDirection) -> u64 {
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

/// The ways that have a problem.
struct Bad {
    /// Those that show it clearly.
    strong: BTreeSet<PairDirection>,
    /// These, and those that share an end with one of them and show it less.
    all: BTreeSet<PairDirection>,
}

/// The ways that have this problem.
fn bad(
    results: &Results,
    ways: &[PairDirection],
    problem: SuspectProblem,
    reference: &Reference,
    thresholds: &Thresholds,
) -> Bad {
    let by_rdma = results.plan.backend == Backend::Verbs;
    let is = |way: &PairDirection, weakly: bool| -> bool {
        let flow = results.flow(*way);
        match problem {
            // Of several ways together, or of a node alone.
            SuspectProblem::Silent
            | SuspectProblem::RailsApart
            | SuspectProblem::CutSlow
            | SuspectProblem::FasterNetwork
            | SuspectProblem::GpuFails
            | SuspectProblem::GpuNone
            | SuspectProblem::GpuSlow => false,
            SuspectProblem::RdmaFails => {
                flow.is_some_and(|flow| flow.failed.is_some() && flow.arrived == Some(false))
            }
            SuspectProblem::Unreachable => {
                // A connection that came about later is one.
                let later = results.second.get(way).is_some_and(|f| f.failed.is_none());
                let reached = results.reached(*way).map(|reach| reach.tcp.is_ok());
                match reached {
                    Some(false) => !later,
                    Some(true) => !by_rdma && flow.is_some_and(|flow| flow.failed.is_some()),
                    None => false,
                }
            }
            SuspectProblem::PacketShort => short(results, *way).is_some(),
            SuspectProblem::Loss => {
                let least = thresholds.loss.value(weakly);
                flow.is_some_and(|flow| {
                    let enough =
                        flow.again >= Some(if weakly { 1 } else { thresholds.lost_packets });
                    let loss = flow.loss().unwrap_or(0.0);
                    let is_unusual = weakly || loss >= thresholds.loss_times * reference.loss;
                    enough && loss >= least && is_unusual
                })
            }
            SuspectProblem::Slow => {
                let kind = kind(results, *way);
                let usual = reference.rate.get(&kind);
                let spread = reference.spread.get(&kind).copied();
                let part = thresholds.slow_part(spread, weakly);
                let rate = flow.and_then(|flow| flow.rate());
                matches!((rate, usual), (Some(rate), Some(usual)) if rate < part * usual)
            }
            SuspectProblem::Late => {
                let usual = reference.round_trip;
                let limit = (thresholds.late_times * usual).max(usual + thresholds.late_by_ns);
                let trip = flow.and_then(|flow| flow.round_trip_ns);
                trip.is_some_and(|ns| ns as f64 > limit)
            }
        }
    };
    with_weak(ways, is)
}

/// The ways that show a problem clearly, and those that share an end with one of them and show it
/// weakly.
fn with_weak(ways: &[PairDirection], is: impl Fn(&PairDirection, bool) -> bool) -> Bad {
    let strong: BTreeSet<PairDirection> =
        ways.iter().filter(|way| is(way, false)).copied().collect();
    let senders: BTreeSet<End> = strong.iter().map(|way| way.from).collect();
    let receivers: BTreeSet<End> = strong.iter().map(|way| way.to).collect();
    // The other paths of an end that has a bad path weigh less.
    let weak = ways
        .iter()
        .filter(|way| senders.contains(&way.from) || receivers.contains(&way.to))
        .filter(|way| is(way, true));
    let all = strong.iter().chain(weak).copied().collect();
    Bad { strong, all }
}

/// The largest packet that gets through, and the sender's MTU, where that is larger.
fn short(results: &Results, way: PairDirection) -> Option<(u64, u64)> {
    let packet = results.reached(way)?.packet?;
    let mtu = results.plan.rail(way.from)?.mtu.min(65_535);
    (packet < mtu).then_some((packet, mtu))
}

#[cfg(test)]
mod tests;
