//! The rounds of `rdma-doctor bench pairs`: who measures with whom, and when.

use crate::live::random;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::backend::Decided;
use super::rdma::{self, Ends};
use crate::cli::output;
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::fact::Limits;
use crate::live::worker::Progress;
use crate::measure::plan::pairs::schedule::{self, End};
use crate::measure::plan::pairs::verdict::hopeless::{Hopeless, hopeless, hopeless_on_gpus};
use crate::measure::plan::pairs::verdict::{self, Problem};
use crate::measure::plan::pairs::{
    Counted, Flow, Member, Memory, Plan, Rail, Reach, Results, Silent, Way, Why, counted,
};
use crate::measure::plan::run::Backend;
use crate::measure::run::pairs::port_process::PortProcess;
use crate::measure::run::pairs::{self, Responder, Token};

/// How long a node may take to record itself before it says how it is reached.
const CARDS: Duration = Duration::from_secs(60);
/// How long a connection may take to open and to be answered.
const KNOCK: Duration = Duration::from_secs(2);
/// How many others a node tries at once.
const AT_ONCE: usize = 32;
/// How many of those that did not answer are tried once more.
const AGAIN_AT_ONCE: usize = 256;
/// How long the two ends of a pair wait for each other, beyond the time in which data flows.
const PAIR: Duration = Duration::from_secs(20);
/// How long rank 0 may take to judge.
const JUDGING: Duration = Duration::from_secs(60);
/// The most rounds of the second pass.
const AGAIN: usize = 16;
/// How often a bad pair is measured alone; the fastest flow counts. What holds up a flow once, a processor that is busy, seldom does it each time.
const ATTEMPTS: usize = 3;

/// How a node is reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Card {
    rails: Vec<Rail>,
    /// The ports of its posts, for connections and for packets, one for each rail.
    ports: Vec<(u16, u16)>,
    token: Token,
    /// Why it cannot take part.
    #[serde(default)]
    unable: Option<String>,
}

/// A node of the measurement, as this one sees it.
struct Other {
    rank: u64,
    card: Card,
}

struct Field<'s> {
    session: &'s Session,
    /// The nodes, in the order of their ranks.
    nodes: Vec<Other>,
    /// This node's place among them.
    own: usize,
    wish: &'s Measure<'s>,
    backend: Backend,
    why: Why,
    /// Where the data is, in turn.
    memory: Vec<Memory>,
    rails: usize,
    /// The processes that have this node's ports, one for each rail, where RDMA writes are measured. A rail is in one pair at a time.
    stations: Vec<Mutex<PortProcess>>,
}

/// What is asked for.
pub(super) struct Measure<'l> {
    /// By which pairs are bad, and measured again.
    pub(super) limits: &'l Limits,
    /// For how long data flows each way.
    pub(super) flow: Duration,
    /// Whether adapters of different rails are measured too.
    pub(super) across: bool,
}

/// One way, and what it carried.
type Carried = (Way, Flow);

/// Measures; gives the results to rank 0.
///
/// # Errors
///
/// Rank 0 is gone, or this node has no address to be measured by.
pub(super) fn measure(
    session: &Session,
    decided: Decided,
    silent: &[Silent],
    wish: &Measure<'_>,
) -> anyhow::Result<Option<Results>> {
    let token: Token = random::random_bytes().context("no random token")?;
    let (rails, mut unable) = match decided.rails {
        Ok(rails) => (rails, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let mut posts = Vec::new();
    for rail in &rails {
        // A port of InfiniBand need not have one: TCP is not tried over it then.
        let Ok(address) = rail.address.parse::<IpAddr>() else {
            posts.push(None);
            continue;
        };
        match Responder::open(address, token) {
            Ok(post) => posts.push(Some(post)),
            Err(error) => unable = Some(format!("{address}: {error}")),
        }
    }
    let port = |post: &Option<Responder>| post.as_ref().map_or((0, 0), |post| (post.tcp, post.udp));
    let card = Card {
        rails,
        ports: posts.iter().map(port).collect(),
        token,
        unable,
    };
    let value = serde_json::to_value(&card)?;
    let all = session.exchange("cards", &[], StepAudience::Everyone, CARDS, value)?;
    let mut gone: BTreeMap<u64, String> = all.missing;
    let mut nodes = Vec::new();
    for (rank, value) in all.values {
        match serde_json::from_value::<Card>(value) {
            Ok(Card {
                unable: Some(why), ..
            }) => {
                gone.insert(rank, why);
            }
            Ok(card) => nodes.push(Other { rank, card }),
            Err(error) => {
                gone.insert(rank, format!("what it says is not understood: {error}"));
            }
        }
    }
    let Some(own) = nodes.iter().position(|node| node.rank == session.rank()) else {
        let why = gone.remove(&session.rank()).unwrap_or_default();
        anyhow::bail!("this node takes no part: {why}");
    };
    let rails = nodes.iter().map(|node| node.card.rails.len()).min();
    let field = Field {
        session,
        nodes,
        own,
        wish,
        backend: decided.backend,
        why: decided.why,
        memory: decided.memory,
        rails: rails.unwrap_or(0),
        stations: decided.stations.into_iter().map(Mutex::new).collect(),
    };
    field.run(silent, gone)
}

/// Rank 0 says its verdict, the others hear it.
///
/// # Errors
///
/// Rank 0 is gone.
pub(super) fn verdict(session: &Session, own: Option<Value>) -> anyhow::Result<Value> {
    let value = own.unwrap_or(Value::Null);
    let all = session.exchange("verdict", &[], StepAudience::Rank0, JUDGING, value)?;
    Ok(all.values.get(&0).cloned().unwrap_or(Value::Null))
}

/// Keeps the flow in which a way carried most, with the segments of all: chance spares the fastest its losses. One that failed is kept where no other
/// carried anything.
fn keep_faster(flows: &mut BTreeMap<Way, Flow>, way: Way, flow: Flow) {
    let Some(kept) = flows.get_mut(&way) else {
        flows.insert(way, flow);
        return;
    };
    let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
    let (segments, again) = match (&kept.failed, &flow.failed) {
        (_, Some(_)) => return,
        (Some(_), None) => (flow.segments, flow.again),
        (None, None) => (
            sum(kept.segments, flow.segments),
            sum(kept.again, flow.again),
        ),
    };
    if flow.rate() > kept.rate() {
        *kept = flow;
    }
    (kept.segments, kept.again) = (segments, again);
}

impl Field<'_> {
    fn run(
        &self,
        silent: &[Silent],
        gone: BTreeMap<u64, String>,
    ) -> anyhow::Result<Option<Results>> {
        let before = self.counters();
        let mut gathering = Gathering {
            results: Results::new(self.plan()),
            gone,
            hears: self.session.rank() == 0,
        };
        self.say("who reaches whom");
        let reach = self.reach();
        let others = self.nodes.len() * self.rails.max(1);
        // Each of as many as are tried at once may take its time, and the search for what packets get through some more.
        let wait = (others.div_ceil(AT_ONCE) as u32) * 12 * KNOCK + PAIR;
        let came = self.give("reach", &reach, wait, &mut gathering)?;
        for (node, reach) in came {
            gathering.results.reach.insert(node, reach);
        }
        let unreached: BTreeMap<(usize, usize), String> = reach
            .into_iter()
            .filter_map(|reach| Some(((reach.to, reach.rail), reach.tcp.err()?)))
            .collect();
        let leading = self.plan().leading();
        let reached = |way: Way| match unreached.get(&way.to) {
            Some(_) => Err("not reached".to_owned()),
            None => Ok(()),
        };
        let rounds = schedule::along_rails(self.nodes.len(), self.rails);
        let all = rounds.len();
        // What this node's pairs did not carry.
        let mut broken: BTreeSet<Way> = BTreeSet::new();
        for (number, round) in rounds.iter().enumerate() {
            self.say(&format!("round {} of {all}", number + 1));
            let name = format!("1.{number}");
            let hopeless = match self.backend {
                Backend::Verbs => self.told_hopeless(&name, &gathering, hopeless)?,
                _ => Hopeless::default(),
            };
            let may = |way: Way| reached(way).and_then(|()| hopeless.allows(way));
            let (own, flows) = self.carried(&name, leading, round, &may, &mut gathering)?;
            let failed = own.iter().filter(|(_, flow)| flow.failed.is_some());
            broken.extend(failed.map(|(way, _)| *way));
            gathering.results.first.extend(flows);
        }
        let rounds = match gathering.results.plan.has_both() {
            true => rounds,
            false => Vec::new(),
        };
        for (number, round) in rounds.iter().enumerate() {
            self.say(&format!("from GPU to GPU, round {} of {all}", number + 1));
            let name = format!("4.{number}");
            let hopeless = self.told_hopeless(&name, &gathering, hopeless_on_gpus)?;
            let may = |way: Way| match broken.contains(&way) {
                true => Err("not tried: it fails in the host's memory".to_owned()),
                false => reached(way).and_then(|()| hopeless.allows(way)),
            };
            let (_, flows) = self.carried(&name, Memory::Gpu, round, &may, &mut gathering)?;
            gathering.results.on_gpus.extend(flows);
        }
        if self.wish.across {
            let rounds = schedule::across_rails(self.nodes.len(), self.rails);
            let all = rounds.len();
            for (number, round) in rounds.iter().enumerate() {
                self.say(&format!("across rails, round {} of {all}", number + 1));
                let name = format!("3.{number}");
                let hopeless = self.told_hopeless(&name, &gathering, hopeless)?;
                let may = |way: Way| hopeless.allows(way);
                let (_, flows) = self.carried(&name, leading, round, &may, &mut gathering)?;
                gathering.results.across.extend(flows);
            }
        }
        gathering.note_gone(self);
        let mut again = Vec::new();
        if gathering.hears {
            again = bad_pairs(&gathering.results, self.wish.limits);
        }
        let value = serde_json::to_value(&again)?;
        let told = (self.session).exchange("again", &[], StepAudience::Rank0, JUDGING, value)?;
        let told = told.values.get(&0).cloned().unwrap_or_default();
        let again: Vec<Vec<(End, End)>> =
            serde_json::from_value(told).context("what is measured again")?;
        let all = again.len();
        for (number, round) in again.iter().enumerate() {
            self.say(&format!("bad pairs alone, round {} of {all}", number + 1));
            let mut broken: BTreeSet<Way> = BTreeSet::new();
            for attempt in 0..ATTEMPTS {
                let name = format!("2.{number}.{attempt}");
                let may = |way: Way| match broken.contains(&way) {
                    true => Err("not tried again: it failed".to_owned()),
                    false => Ok(()),
                };
                let (own, flows) = self.carried(&name, leading, round, &may, &mut gathering)?;
                let failed = own.iter().filter(|(_, flow)| flow.failed.is_some());
                broken.extend(failed.map(|(way, _)| *way));
                for (way, flow) in flows {
                    keep_faster(&mut gathering.results.second, way, flow);
                }
            }
            if gathering.results.plan.has_both() {
                let name = format!("5.{number}");
                let may = |_| Ok(());
                let (_, flows) = self.carried(&name, Memory::Gpu, round, &may, &mut gathering)?;
                gathering.results.on_gpus_again.extend(flows);
            }
        }
        let after = self.counters();
        let risen: Vec<_> = before
            .iter()
            .zip(&after)
            .map(|(before, after)| pairs::risen(before, after))
            .collect();
        let came = self.give("counters", &risen, JUDGING, &mut gathering)?;
        gathering.results.counters.extend(came);
        gathering.note_gone(self);
        let mut results = gathering.results;
        results.plan.again = again.into_iter().flatten().collect();
        let mut all_silent = silent.to_vec();
        all_silent.append(&mut results.plan.silent);
        results.plan.silent = all_silent;
        results.complete();
        Ok(gathering.hears.then_some(results))
    }

    fn plan(&self) -> Plan {
        let names = self.session.names();
        let member = |node: &Other| Member {
            host: names.get(&node.rank).cloned().unwrap_or_default(),
            rails: node.card.rails.clone(),
        };
        Plan {
            backend: self.backend,
            why: Some(self.why.clone()),
            across: self.wish.across,
            memory: self.memory.clone(),
            nodes: self.nodes.iter().map(member).collect(),
            silent: Vec::new(),
            flow_ms: u64::try_from(self.wish.flow.as_millis()).unwrap_or(u64::MAX),
            again: Vec::new(),
        }
    }

    /// One speaks for all.
    fn say(&self, what: &str) {
        if self.session.rank() == 0 {
            output::progress(Progress::Waiting(&[what]));
        }
    }

    fn counters(&self) -> Vec<Counted> {
        let rails = &self.nodes[self.own].card.rails;
        rails.iter().map(counters).collect()
    }

    /// Rank 0 says what is not worth trying any more.
    fn told_hopeless(
        &self,
        name: &str,
        gathering: &Gathering,
        judge: fn(&Results) -> Hopeless,
    ) -> anyhow::Result<Hopeless> {
        let own = match gathering.hears {
            true => judge(&gathering.results),
            false => Hopeless::default(),
        };
        let step = format!("hopeless {name}");
        let value = serde_json::to_value(&own)?;
        let told = (self.session).exchange(&step, &[], StepAudience::Rank0, JUDGING, value)?;
        let told = told.values.get(&0).cloned().unwrap_or_default();
        serde_json::from_value(told).context("what is not tried any more")
    }

    /// Measures a round with the data in this memory, and gives it to rank 0; what this node has, and what rank 0 got.
    fn carried(
        &self,
        name: &str,
        memory: Memory,
        round: &[(End, End)],
        may: &(dyn Fn(Way) -> Result<(), String> + Sync),
        gathering: &mut Gathering,
    ) -> anyhow::Result<(Vec<Carried>, Vec<Carried>)> {
        let has = |way: Way| match memory {
            Memory::Host => Ok(()),
            Memory::Gpu => self.on_gpu(way.from).and_then(|()| self.on_gpu(way.to)),
        };
        let may = |way: Way| has(way).and_then(|()| may(way));
        let carried = self.round(name, memory, round, &may);
        let wait = match self.backend {
            Backend::Verbs => 4 * self.wish.flow + 4 * rdma::PAIR,
            _ => 4 * self.wish.flow + 2 * PAIR,
        };
        let came = self.give(&format!("carried {name}"), &carried, wait, gathering)?;
        let came = came.into_iter().flat_map(|(_, flows)| flows).collect();
        Ok((carried, came))
    }

    /// Whether an adapter has the memory of a GPU; else why not.
    fn on_gpu(&self, end: End) -> Result<(), String> {
        let node = self.nodes.get(end.0);
        let gpu = node
            .and_then(|node| node.card.rails.get(end.1))
            .and_then(|rail| rail.gpu.as_ref());
        match gpu {
            Some(gpu) if gpu.way.is_some() => Ok(()),
            _ => Err(format!(
                "not tried: {} has the memory of no GPU",
                self.plan().name(end)
            )),
        }
    }

    /// Gives what this node has to rank 0, which gets what each node has.
    fn give<T: Serialize + for<'d> Deserialize<'d>>(
        &self,
        step: &str,
        value: &T,
        wait: Duration,
        gathering: &mut Gathering,
    ) -> anyhow::Result<Vec<(usize, T)>> {
        let value = serde_json::to_value(value)?;
        let all = self
            .session
            .exchange(step, &[], StepAudience::Rank0, wait, value)?;
        for (rank, why) in all.missing {
            gathering.gone.entry(rank).or_insert(why);
        }
        if !gathering.hears {
            return Ok(Vec::new());
        }
        let mut came = Vec::new();
        for (rank, value) in all.values {
            let Some(node) = self.nodes.iter().position(|node| node.rank == rank) else {
                continue;
            };
            match serde_json::from_value(value) {
                Ok(value) => came.push((node, value)),
                Err(error) => {
                    let why = format!("what it says is not understood: {error}");
                    gathering.gone.entry(rank).or_insert(why);
                }
            }
        }
        Ok(came)
    }

    /// Where an adapter is reached, and from which address of this node's.
    fn post(&self, from: End, end: End) -> Option<(IpAddr, SocketAddr, SocketAddr)> {
        let own = &self.nodes[self.own].card.rails.get(from.1)?.address;
        let card = &self.nodes.get(end.0)?.card;
        let to: IpAddr = card.rails.get(end.1)?.address.parse().ok()?;
        let (tcp, udp) = *card.ports.get(end.1)?;
        Some((
            own.parse().ok()?,
            SocketAddr::new(to, tcp),
            SocketAddr::new(to, udp),
        ))
    }

    /// What this node reaches of all others.
    fn reach(&self) -> Vec<Reach> {
        let mut ends = Vec::new();
        for rail in 0..self.rails {
            // Each begins with its next, so that not all knock at one.
            let count = self.nodes.len();
            ends.extend((1..count).map(|by| ((self.own + by) % count, rail)));
        }
        // Over a port without an address nothing can be tried.
        ends.retain(|end| self.post((self.own, end.1), *end).is_some());
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..ends.len().min(AT_ONCE) {
                scope.spawn(|| {
                    while let Some(end) = ends.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let reach = self.reach_of(*end);
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.push(reach);
                    }
                });
            }
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|reach| (reach.rail, reach.to));
        // What a busy machine did not answer in time it may answer now, when nobody else knocks.
        std::thread::scope(|scope| {
            let failed = found.iter_mut().filter(|reach| reach.tcp.is_err());
            for reach in failed.take(AGAIN_AT_ONCE) {
                scope.spawn(|| reach.tcp = self.knock((reach.to, reach.rail)));
            }
        });
        found
    }

    /// How long a post took to answer a connection, in microseconds.
    fn knock(&self, end: End) -> Result<u64, String> {
        let Some((from, tcp, _)) = self.post((self.own, end.1), end) else {
            return Err("it has no address".into());
        };
        let time = pairs::ping(from, tcp, &self.nodes[end.0].card.token, KNOCK)?;
        Ok(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }

    fn reach_of(&self, end: End) -> Reach {
        let token = &self.nodes[end.0].card.token;
        let mtu = self.nodes[self.own]
            .card
            .rails
            .get(end.1)
            .map(|rail| rail.mtu);
        let packet = match (self.post((self.own, end.1), end), mtu) {
            (Some((from, _, udp)), Some(mtu)) => pairs::largest_packet(from, udp, token, mtu).ok(),
            _ => None,
        };
        Reach {
            to: end.0,
            rail: end.1,
            tcp: self.knock(end),
            packet: packet.flatten(),
        }
    }

    /// Measures this node's pairs of a round: all its rails at once, the first end's sending first.
    fn round(
        &self,
        name: &str,
        memory: Memory,
        round: &[(End, End)],
        may: &(dyn Fn(Way) -> Result<(), String> + Sync),
    ) -> Vec<Carried> {
        let own = round
            .iter()
            .filter(|(a, b)| a.0 == self.own || b.0 == self.own);
        std::thread::scope(|scope| {
            let pairs: Vec<_> = own
                .map(|pair| scope.spawn(move || self.pair(name, memory, *pair, may)))
                .collect();
            let done = pairs.into_iter().filter_map(|pair| pair.join().ok());
            done.collect()
        })
    }

    fn pair(
        &self,
        name: &str,
        memory: Memory,
        (a, b): (End, End),
        may: &(dyn Fn(Way) -> Result<(), String> + Sync),
    ) -> Carried {
        let is_first = a.0 == self.own;
        let way = match is_first {
            true => Way { from: a, to: b },
            false => Way { from: b, to: a },
        };
        let name = format!("{name} {}/{} {}/{}", a.0, a.1, b.0, b.1);
        let flow = match self.backend {
            Backend::Verbs => self.by_rdma(name, memory, (way, is_first), may(way)),
            _ => self.by_sockets(&name, way, is_first, may(way)),
        };
        (way, flow)
    }

    fn by_rdma(
        &self,
        name: String,
        memory: Memory,
        (way, is_first): (Way, bool),
        may: Result<(), String>,
    ) -> Flow {
        let members = [way.from, way.to].map(|end| self.nodes[end.0].rank);
        let ends = Ends {
            session: self.session,
            members,
            other: members[1],
            name,
            is_first,
            flow: self.wish.flow,
            memory,
        };
        let station = self.stations.get(way.from.1);
        let mut station = station.map(|s| s.lock().unwrap_or_else(PoisonError::into_inner));
        let rail = self.nodes[self.own].card.rails.get(way.from.1);
        let count = || rail.map(counters).unwrap_or_default();
        ends.measure(station.as_deref_mut(), may, &count)
    }

    fn by_sockets(&self, name: &str, way: Way, is_first: bool, may: Result<(), String>) -> Flow {
        let members = [way.from, way.to].map(|end| self.nodes[end.0].rank);
        // The other end is told when its turn is; where it is gone, the flow says so.
        let meet = |half: &str| {
            let step = format!("{name} {half}");
            let wait = 2 * self.wish.flow + PAIR;
            let _ =
                (self.session).exchange(&step, &members, StepAudience::Everyone, wait, Value::Null);
        };
        meet("begin");
        if !is_first {
            meet("turn");
        }
        let flow = match (self.post(way.from, way.to), may) {
            (Some((from, tcp, _)), Ok(())) => {
                let token = &self.nodes[way.to.0].card.token;
                pairs::measure_flow(from, tcp, token, self.wish.flow)
            }
            (Some(_), Err(why)) => Flow::failed(why),
            (None, _) => Flow::failed("it has no address"),
        };
        if is_first {
            meet("turn");
        }
        flow
    }
}

/// What an adapter's interface, and its RDMA port where it has one, have counted until now.
fn counters(rail: &Rail) -> Counted {
    let mut all = pairs::counters(&rail.interface);
    if let Some(device) = &rail.device {
        all.extend(pairs::port_counters(device, counted::is_wanted));
    }
    all
}

/// What rank 0 has until now.
struct Gathering {
    results: Results,
    /// Who is gone, and why.
    gone: BTreeMap<u64, String>,
    /// Whether this is rank 0.
    hears: bool,
}

impl Gathering {
    /// Has those that are gone among the silent.
    fn note_gone(&mut self, field: &Field<'_>) {
        let names = field.session.names();
        let silent = self.gone.iter().map(|(rank, why)| Silent {
            host: names
                .get(rank)
                .cloned()
                .unwrap_or_else(|| format!("rank {rank}")),
            why: why.clone(),
        });
        self.results.plan.silent = silent.collect();
    }
}

/// The pairs that were bad, in rounds in which no node has two: alone, as far as that is possible.
fn bad_pairs(results: &Results, limits: &Limits) -> Vec<Vec<(End, End)>> {
    let suspects = verdict::suspects(results, limits);
    let bad: BTreeSet<(End, End)> = suspects
        .iter()
        .filter(|suspect| {
            // What RDMA did not carry was sent seven times.
            let not = [
                Problem::Silent,
                Problem::PacketShort,
                Problem::RdmaFails,
                Problem::GpuFails,
                Problem::GpuNone,
                Problem::RailsApart,
            ];
            !not.contains(&suspect.problem)
        })
        .flat_map(|suspect| &suspect.ways)
        // Who did not answer was asked twice already.
        .filter(|way| results.reached(**way).is_none_or(|reach| reach.tcp.is_ok()))
        .map(|way| (way.from.min(way.to), way.from.max(way.to)))
        .collect();
    let mut rounds: Vec<Vec<(End, End)>> = Vec::new();
    for (a, b) in bad {
        let is_free = |round: &Vec<(End, End)>| {
            let busy = [a.0, b.0];
            !(round.iter()).any(|(c, d)| busy.contains(&c.0) || busy.contains(&d.0))
        };
        match rounds.iter().position(is_free) {
            Some(at) => rounds[at].push((a, b)),
            None if rounds.len() < AGAIN => rounds.push(vec![(a, b)]),
            None => {}
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_attempts_the_fastest_counts_with_the_losses_of_all() {
        let way = Way {
            from: (0, 0),
            to: (1, 0),
        };
        let flow = |bytes, again| Flow {
            bytes,
            micros: 1000,
            segments: Some(100),
            again: Some(again),
            ..Flow::default()
        };
        let mut flows = BTreeMap::new();
        for one in [
            flow(5, 3),
            flow(9, 0),
            Flow::failed("not tried again"),
            flow(7, 2),
        ] {
            keep_faster(&mut flows, way, one);
        }
        let kept = &flows[&way];
        assert_eq!((kept.bytes, kept.failed.as_deref()), (9, None));
        assert_eq!((kept.segments, kept.again), (Some(300), Some(5)));
        let mut flows = BTreeMap::new();
        keep_faster(&mut flows, way, Flow::failed("refused"));
        keep_faster(&mut flows, way, Flow::failed("not tried again"));
        assert_eq!(flows[&way].failed.as_deref(), Some("refused"));
    }
}
