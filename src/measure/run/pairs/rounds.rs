//! The rounds in which nodes measure in pairs: which pairs, and when.

mod gathering;
mod pair;
mod reach;

use crate::fact::Limits;
use crate::live::random;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::gathering::Gathering;
use self::reach::{AT_ONCE, KNOCK};
use super::backend_decision::BackendDecision;
use super::port_process::PortProcess;
use super::{Responder, Token, rdma_pair};
use crate::cluster::session::Session;
use crate::cluster::session_steps::StepAudience;
use crate::measure::plan::pairs::schedule::{self, End};
use crate::measure::plan::pairs::second_pass::{SecondPass, bad_pairs, keep_faster};
use crate::measure::plan::pairs::verdict::hopeless::{Hopeless, hopeless, hopeless_on_gpus};
use crate::measure::plan::pairs::{
    Counted, Extent, Flow, Member, Memory, PairDirection, Plan, Rail, Results, Silent, Why, counted,
};
use crate::measure::plan::run::Backend;
use crate::measure::run::pairs;
use crate::measure::run::progress::{ShowProgress, measuring};

/// How long a node may take to record itself before it says how it is reached.
const CONTACTS: Duration = Duration::from_secs(60);
/// How long the two ends of a pair wait for each other, beyond the time in which data flows.
const PAIR: Duration = Duration::from_secs(20);
/// With how many others a node is in a pair at most where it is tried with neighbours.
const NEIGHBOURS: usize = 4;
/// How long rank 0 may take to judge.
const JUDGING: Duration = Duration::from_secs(60);

/// How to reach a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct NodeContact {
    rails: Vec<Rail>,
    /// The ports of its posts, for connections and for packets, one for each rail.
    ports: Vec<(u16, u16)>,
    token: Token,
    /// Why it cannot take part.
    #[serde(default)]
    unable: Option<String>,
}

/// A node of the measurement, as this one sees it.
struct PairNode {
    rank: u64,
    contact: NodeContact,
}

struct PairRounds<'s> {
    session: &'s Session,
    /// The nodes, in the order of their ranks.
    nodes: Vec<PairNode>,
    /// This node's place among them.
    own: usize,
    times: &'s PairTimes<'s>,
    show: ShowProgress,
    backend: Backend,
    why: Why,
    /// Where the data is, in turn.
    memory: Vec<Memory>,
    rails: usize,
    /// The processes that have this node's ports, one for each rail, where RDMA writes are
    /// measured. A rail is in one pair at a time.
    stations: Vec<Mutex<PortProcess>>,
}

/// How long data flows, between which adapters, and what is measured again.
pub struct PairTimes<'l> {
    /// By which pairs are bad, and measured again.
    pub limits: &'l Limits,
    /// For how long data flows each way.
    pub flow: Duration,
    /// Which pairs of nodes.
    pub extent: Extent,
    /// Whether adapters of different rails are measured too.
    pub across: bool,
    /// Whether each node is in one pair only, and nothing is measured again: enough to tell networks
    /// apart.
    pub once: bool,
    /// What the names of its steps begin with, where pairs are measured several times in a run.
    pub prefix: &'l str,
}

/// A direction, and what it carried.
type Carried = (PairDirection, Flow);

/// Measures; gives the results to rank 0.
///
/// # Errors
///
/// Rank 0 is gone, or this node has no address to be measured by.
pub fn measure_pairs(
    session: &Session,
    decided: BackendDecision,
    silent: &[Silent],
    times: &PairTimes<'_>,
    show: ShowProgress,
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
    let contact = NodeContact {
        rails,
        ports: posts.iter().map(port).collect(),
        token,
        unable,
    };
    let value = serde_json::to_value(&contact)?;
    let step = format!("{}cards", times.prefix);
    // Who only tries ways has recorded itself before.
    let is_trial = times.extent == Extent::Neighbours;
    let wait = if is_trial { CONTACTS / 3 } else { CONTACTS };
    let all = session.exchange(&step, &[], StepAudience::Everyone, wait, value)?;
    let mut gone: BTreeMap<u64, String> = all.missing;
    let mut nodes = Vec::new();
    // Who only tries need not be able to.
    let mut excused = Vec::new();
    for (rank, value) in all.values {
        match serde_json::from_value::<NodeContact>(value) {
            Ok(NodeContact {
                unable: Some(why), ..
            }) => {
                if is_trial {
                    let host = session.name(rank);
                    let why = why.clone();
                    excused.push(Silent { host, why });
                }
                gone.insert(rank, why);
            }
            Ok(contact) => nodes.push(PairNode { rank, contact }),
            Err(error) => {
                gone.insert(rank, format!("what it says is not understood: {error}"));
            }
        }
    }
    let Some(own) = nodes.iter().position(|node| node.rank == session.rank()) else {
        let why = gone.remove(&session.rank()).unwrap_or_default();
        anyhow::bail!("this node takes no part: {why}");
    };
    if nodes.first().is_none_or(|first| first.rank != 0) {
        anyhow::bail!("rank 0 takes no part");
    }
    let rails = nodes.iter().map(|node| node.contact.rails.len()).min();
    let rounds = PairRounds {
        session,
        nodes,
        own,
        times,
        show,
        backend: decided.backend,
        why: decided.why,
        memory: decided.memory,
        rails: rails.unwrap_or(0),
        stations: decided.stations.into_iter().map(Mutex::new).collect(),
    };
    if is_trial {
        let is_excused = |rank: &u64| excused.iter().any(|node| node.host == session.name(*rank));
        gone.retain(|rank, _| !is_excused(rank));
    }
    let results = rounds.run(silent, gone)?;
    Ok(results.map(|mut results| {
        results.plan.unable = excused;
        results
    }))
}

impl PairRounds<'_> {
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
        let others = match self.times.extent {
            Extent::All => self.nodes.len() * self.rails.max(1),
            Extent::Neighbours => NEIGHBOURS * self.rails.max(1),
        };
        // Each of as many as are tried at once may take its time, and the search for what packets
        // get through some more.
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
        let reached = |way: PairDirection| match unreached.get(&way.to) {
            Some(_) => Err("not reached".to_owned()),
            None => Ok(()),
        };
        let mut rounds = self.times.extent.rounds(self.nodes.len(), self.rails);
        if self.times.once {
            rounds.truncate(1);
        }
        let all = rounds.len();
        // What this node's pairs did not carry.
        let mut broken: BTreeSet<PairDirection> = BTreeSet::new();
        for (number, round) in rounds.iter().enumerate() {
            self.say(&format!("round {} of {all}", number + 1));
            let name = format!("1.{number}");
            let hopeless = match self.backend {
                Backend::Verbs => self.told_hopeless(&name, &gathering, hopeless)?,
                _ => Hopeless::default(),
            };
            let may = |way: PairDirection| reached(way).and_then(|()| hopeless.allows(way));
            let (own, flows) = self.carried(&name, leading, round, &may, &mut gathering)?;
            let failed = own.iter().filter(|(_, flow)| flow.failed.is_some());
            broken.extend(failed.map(|(way, _)| *way));
            gathering.results.first.extend(flows);
        }
        let rounds = if gathering.results.plan.has_both() {
            rounds
        } else {
            Vec::new()
        };
        for (number, round) in rounds.iter().enumerate() {
            self.say(&format!("from GPU to GPU, round {} of {all}", number + 1));
            let name = format!("4.{number}");
            let hopeless = self.told_hopeless(&name, &gathering, hopeless_on_gpus)?;
            let may = |way: PairDirection| {
                if broken.contains(&way) {
                    Err("not tried: it fails in the host's memory".to_owned())
                } else {
                    reached(way).and_then(|()| hopeless.allows(way))
                }
            };
            let (_, flows) = self.carried(&name, Memory::Gpu, round, &may, &mut gathering)?;
            gathering.results.on_gpus.extend(flows);
        }
        if self.times.across {
            let rounds = schedule::across_rails(self.nodes.len(), self.rails);
            let all = rounds.len();
            for (number, round) in rounds.iter().enumerate() {
                self.say(&format!("across rails, round {} of {all}", number + 1));
                let name = format!("3.{number}");
                let hopeless = self.told_hopeless(&name, &gathering, hopeless)?;
                let may = |way: PairDirection| hopeless.allows(way);
                let (_, flows) = self.carried(&name, leading, round, &may, &mut gathering)?;
                gathering.results.across.extend(flows);
            }
        }
        gathering.note_gone(self);
        if self.times.once {
            return Ok(gathering.hears.then_some(gathering.results));
        }
        let again = self.measure_again(leading, &mut gathering)?;
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
        results.plan.again = again.into_iter().collect();
        let mut all_silent = silent.to_vec();
        all_silent.append(&mut results.plan.silent);
        results.plan.silent = all_silent;
        results.complete();
        Ok(gathering.hears.then_some(results))
    }

    /// Measures the bad pairs alone, all of them before the first of them again: what holds up one
    /// flow holds up the next one too. Returns them.
    fn measure_again(
        &self,
        leading: Memory,
        gathering: &mut Gathering,
    ) -> anyhow::Result<BTreeSet<(End, End)>> {
        let mut all = BTreeSet::new();
        // What this node's pairs did not carry.
        let mut broken: BTreeSet<PairDirection> = BTreeSet::new();
        let mut attempts = SecondPass::default();
        loop {
            let mut bad = Vec::new();
            if gathering.hears {
                bad = attempts.next(bad_pairs(&gathering.results, self.times.limits));
            }
            let number = attempts.begun;
            let value = serde_json::to_value(&bad)?;
            let told = self.of_rank_0(&format!("again {number}"), value)?;
            let bad: Vec<Vec<(End, End)>> =
                serde_json::from_value(told).context("what is measured again")?;
            if bad.is_empty() {
                return Ok(all);
            }
            attempts.begun += 1;
            for (at, round) in bad.iter().enumerate() {
                let rounds = bad.len();
                self.say(&format!(
                    "bad pairs alone, attempt {}, round {} of {rounds}",
                    attempts.begun,
                    at + 1
                ));
                let may = |way: PairDirection| {
                    if broken.contains(&way) {
                        Err("not tried again: it failed".to_owned())
                    } else {
                        Ok(())
                    }
                };
                let name = format!("2.{at}.{number}");
                let (own, flows) = self.carried(&name, leading, round, &may, gathering)?;
                let failed = own.iter().filter(|(_, flow)| flow.failed.is_some());
                broken.extend(failed.map(|(way, _)| *way));
                for (way, flow) in flows {
                    keep_faster(&mut gathering.results.second, way, flow);
                }
                // What is on GPUs is measured once: all nodes know what was.
                let is_first = round.iter().any(|pair| !all.contains(pair));
                if gathering.results.plan.has_both() && is_first {
                    let name = format!("5.{at}.{number}");
                    let may = |_| Ok(());
                    let (_, flows) = self.carried(&name, Memory::Gpu, round, &may, gathering)?;
                    gathering.results.on_gpus_again.extend(flows);
                }
            }
            all.extend(bad.into_iter().flatten());
        }
    }

    fn plan(&self) -> Plan {
        let member = |node: &PairNode| Member {
            host: self.session.name(node.rank),
            rails: node.contact.rails.clone(),
        };
        Plan {
            backend: self.backend,
            why: Some(self.why.clone()),
            extent: self.times.extent,
            across: self.times.across,
            memory: self.memory.clone(),
            nodes: self.nodes.iter().map(member).collect(),
            silent: Vec::new(),
            unable: Vec::new(),
            flow_ms: u64::try_from(self.times.flow.as_millis()).unwrap_or(u64::MAX),
            again: Vec::new(),
            others: Vec::new(),
        }
    }

    fn step(&self, name: &str) -> String {
        format!("{}{name}", self.times.prefix)
    }

    /// The ranks of the nodes that take part.
    fn members(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.rank).collect()
    }

    /// What rank 0 says to those that take part; null if it said nothing.
    fn of_rank_0(&self, step: &str, own: Value) -> anyhow::Result<Value> {
        let (step, members) = (self.step(step), self.members());
        let hears = StepAudience::Rank0;
        let mut all = (self.session).exchange(&step, &members, hears, JUDGING, own)?;
        Ok(all.values.remove(&0).unwrap_or_default())
    }

    /// One speaks for all.
    fn say(&self, what: &str) {
        if self.session.rank() == 0 {
            (self.show)(measuring(&format!("pairs: {what}"), "", None));
        }
    }

    fn counters(&self) -> Vec<Counted> {
        let rails = &self.nodes[self.own].contact.rails;
        rails.iter().map(counters).collect()
    }

    /// Rank 0 says what is not worth trying any more.
    fn told_hopeless(
        &self,
        name: &str,
        gathering: &Gathering,
        judge: fn(&Results) -> Hopeless,
    ) -> anyhow::Result<Hopeless> {
        let own = if gathering.hears {
            judge(&gathering.results)
        } else {
            Hopeless::default()
        };
        let value = serde_json::to_value(&own)?;
        let told = self.of_rank_0(&format!("hopeless {name}"), value)?;
        serde_json::from_value(told).context("what is not tried any more")
    }

    /// Measures a round with the data in this memory, and gives it to rank 0; what this node has,
    /// and what rank 0 got.
    fn carried(
        &self,
        name: &str,
        memory: Memory,
        round: &[(End, End)],
        may: &(dyn Fn(PairDirection) -> Result<(), String> + Sync),
        gathering: &mut Gathering,
    ) -> anyhow::Result<(Vec<Carried>, Vec<Carried>)> {
        let has = |way: PairDirection| match memory {
            Memory::Host => Ok(()),
            Memory::Gpu => self.on_gpu(way.from).and_then(|()| self.on_gpu(way.to)),
        };
        let may = |way: PairDirection| has(way).and_then(|()| may(way));
        let carried = self.round(&self.step(name), memory, round, &may);
        let wait = match self.backend {
            Backend::Verbs => 4 * self.times.flow + 4 * rdma_pair::PAIR,
            _ => 4 * self.times.flow + 2 * PAIR,
        };
        let came = self.give(&format!("carried {name}"), &carried, wait, gathering)?;
        let came = came.into_iter().flat_map(|(_, flows)| flows).collect();
        Ok((carried, came))
    }

    /// Whether an adapter has the memory of a GPU; else why not.
    fn on_gpu(&self, end: End) -> Result<(), String> {
        let node = self.nodes.get(end.0);
        let gpu = node
            .and_then(|node| node.contact.rails.get(end.1))
            .and_then(|rail| rail.gpu.as_ref());
        match gpu {
            Some(gpu) if gpu.way.is_some() => Ok(()),
            _ => Err(format!(
                "not tried: {} has the memory of no GPU",
                self.plan().name(end)
            )),
        }
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
