//! Pairs of nodes: who reaches whom, which packets get through, and what each pair carries.
//!
//! ```text
//! {"bench":"ablation"}                                    {"pairs": the plan: nodes, their rails, who is silent}
//! {"bench":"pairs","reach":1}                             what node 1 reaches of the others
//! {"bench":"pairs","from":0,"to":1,"rail":0,…,"pass":1}   what a pair carried, one way; with "memory":"gpu" from GPU to GPU
//! {"bench":"pairs","counters":1}                          what node 1's interfaces and ports counted meanwhile
//! ```
//!
//! The plan stands where each recording says whether something was measured beside collectives
//! ([`ablation_table::question`]): one that says no says so of pairs too.
//!
//! A first pass measures all pairs of adapters of the same rail, several at a time, and none of
//! them twice at once ([`crate::measure::plan::pairs::schedule`]); a second one those that were
//! bad, alone. Adapters of different rails are measured on request, and nobody is accused for what
//! they carry: rails may have networks of their own.

pub mod backend_choice;
pub mod counted;
pub mod outlier_attribution;
pub mod participants;
pub mod rail_choice;
pub mod schedule;
pub mod second_pass;
pub mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reply;
use crate::fact::value::written;
use crate::measure::plan::ablation_table;
use crate::measure::plan::pairs::schedule::End;
use crate::measure::plan::run::Backend;
use crate::nodeset;
use crate::source::wire::Line;
use crate::source::{Answer, Question, Refusal, Source};

/// The name of the benchmark, and of the probe that reads it.
pub const NAME: &str = "pairs";

/// What was measured, and between whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The backend that moved the data.
    pub backend: Backend,
    /// Why it was that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// Which pairs of nodes.
    #[serde(default, skip_serializing_if = "Extent::is_all")]
    pub extent: Extent,
    /// Whether adapters of different rails were measured too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub across: bool,
    /// Where the data was: what was measured in the first of these is what pairs are compared by.
    #[serde(default = "host_only", skip_serializing_if = "is_host_only")]
    pub memory: Vec<Memory>,
    /// The nodes that took part, in their order.
    pub nodes: Vec<Member>,
    /// Those that were expected and did not come, or went away, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<Silent>,
    /// Those that could not take part from the beginning, and why, where that is no fault of
    /// theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unable: Vec<Silent>,
    /// How long data flows one way, in milliseconds.
    pub flow_ms: u64,
    /// What was measured a second time, alone: the ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<(End, End)>,
    /// The other networks that all nodes have, which were tried for a moment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherNetwork>,
}

/// Which pairs of nodes are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// All, and what they carry is compared.
    #[default]
    All,
    /// Each node with the next one in a ring and with one far away: whether data gets there whole,
    /// and not how fast.
    Neighbours,
}

impl Extent {
    fn is_all(&self) -> bool {
        *self == Extent::All
    }

    /// The pairs of adapters of the same rail in rounds, all rails of two nodes at once.
    pub fn rounds(self, nodes: usize, rails: usize) -> Vec<Vec<(End, End)>> {
        match self {
            Extent::All => schedule::along_rails(nodes, rails),
            Extent::Neighbours => schedule::neighbours_along_rails(nodes, rails),
        }
    }
}

/// A network between all nodes that these pairs did not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherNetwork {
    /// The interfaces that lead to it, each name once.
    pub interfaces: Vec<String>,
    /// What the slowest of a few pairs carries over it one way, in bits per second.
    pub rate: u64,
}

written! {
    /// The memory that RDMA writes come from and go to, at both ends.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Memory {
        /// The host's.
        #[default]
        Host = "host",
        /// That of the GPU nearest to the port: GPUDirect RDMA.
        Gpu = "gpu",
    }
}

/// What a recording says by saying nothing of it.
pub fn host_only() -> Vec<Memory> {
    vec![Memory::Host]
}

#[cfg(test)]
impl Plan {
    /// Flows over TCP between these nodes, this many milliseconds each.
    pub(crate) fn of(nodes: Vec<Member>, flow_ms: u64) -> Self {
        Plan {
            backend: Backend::Tcp,
            why: None,
            extent: Extent::All,
            across: false,
            memory: host_only(),
            nodes,
            silent: Vec::new(),
            unable: Vec::new(),
            flow_ms,
            again: Vec::new(),
            others: Vec::new(),
        }
    }
}

fn is_host_only(memory: &[Memory]) -> bool {
    memory == [Memory::Host]
}

/// Why a backend moved the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It was asked for.
    AskedFor,
    /// Each node has an RDMA port that works.
    AllCan,
    /// This node has none that works, and why.
    Without(Silent),
}

impl Why {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Why::AskedFor => "asked for".to_owned(),
            Why::AllCan => "each node has an RDMA port that works".to_owned(),
            Why::Without(node) => {
                format!("{} has no RDMA port that works: {}", node.host, node.why)
            }
        }
    }
}

/// A node that takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub host: String,
    /// Its adapters, in the order of the rails.
    pub rails: Vec<Rail>,
}

/// An adapter of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rail {
    /// The network interface; empty where a port has none, as one of InfiniBand need not.
    pub interface: String,
    /// Its address; empty where it has none, and TCP cannot be tried.
    pub address: String,
    /// Its MTU in bytes.
    pub mtu: u64,
    /// What its link carries by its own word, in bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<u64>,
    /// What its hardware carries, in bits per second; absent where nobody knows it, and where
    /// software is the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<u64>,
    /// The RDMA device and port on it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// What RDMA writes use of it: `mlx5_0/1 GID 3 MTU 4096`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The GID of these writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<String>,
    /// The GPU whose memory it reads and writes; absent where nobody asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
}

/// A GPU whose memory an adapter is to read and write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its PCI address; absent where the node has none for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// How the adapter comes to its memory; absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<reply::GpuMemoryAccess>,
    /// Why it does not, or why not by DMA-BUF, which is tried first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The way that the node's own facts speak for, or `none`; absent where they leave it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_facts: Option<String>,
}

impl Gpu {
    /// None, and why.
    pub fn none(pci: Option<String>, why: impl Into<String>) -> Self {
        Gpu {
            pci,
            why: Some(why.into()),
            ..Gpu::default()
        }
    }
}

impl Rail {
    /// What the adapter is called where this backend moves the data.
    pub fn label(&self, backend: Backend) -> &str {
        match (backend, &self.device) {
            (Backend::Verbs, Some(device)) => device,
            _ => &self.interface,
        }
    }
}

/// A node of which something is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silent {
    /// Its name, or its rank.
    pub host: String,
    /// Why.
    pub why: String,
}

/// What an adapter reaches of another node's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The other node, by its place in the plan.
    pub to: usize,
    /// The rail.
    pub rail: usize,
    /// How long a connection took to open and to be answered, in microseconds; why it did not,
    /// where it did not.
    pub tcp: Result<u64, String>,
    /// The largest packet that was answered with fragmentation forbidden, headers of IP and UDP
    /// counted, in bytes; absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet: Option<u64>,
}

/// What went from one adapter to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// What arrived, in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// In how long, in microseconds: by the receiver's clock, or by the sender's until the last
    /// acknowledgement of an RDMA write.
    #[serde(default)]
    pub micros: u64,
    /// Segments with data that the sender sent, those that it sent again counted
    /// (`tcpi_data_segs_out`); of RDMA the packets that carried what arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<u64>,
    /// Segments that it sent again (`tcpi_total_retrans`); of RDMA how often its port had to begin
    /// again ([`counted::again`]), where it counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<u64>,
    /// The least time of a byte, or of a small RDMA write, there and back, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// Why it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Of RDMA that failed: whether this way was the one that works, so that the way back is to
    /// blame. Absent where it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<bool>,
    /// What the sender's port and interface counted meanwhile, of what is no traffic.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sender: Counted,
    /// What the receiver's did.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub receiver: Counted,
}

impl Flow {
    /// One that was not measured.
    pub fn failed(why: impl Into<String>) -> Self {
        Flow {
            failed: Some(why.into()),
            ..Flow::default()
        }
    }

    /// Bits per second.
    pub fn rate(&self) -> Option<f64> {
        let measured = self.failed.is_none() && self.micros > 0;
        measured.then(|| self.bytes as f64 * 8e6 / self.micros as f64)
    }

    /// Of the segments that were sent those that were retransmitted, in percent.
    pub fn loss(&self) -> Option<f64> {
        let (segments, again) = (self.segments?, self.again?);
        (segments > 0).then(|| again as f64 * 100.0 / segments as f64)
    }
}

/// What an interface, or a port, counted that is no traffic, by the counter's name; only what rose.
pub type Counted = BTreeMap<String, u64>;

/// One direction of two adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PairDirection {
    /// The adapter that sends.
    pub from: End,
    /// The adapter that receives.
    pub to: End,
}

impl PairDirection {
    /// Both ends.
    pub fn ends(self) -> (End, End) {
        (self.from, self.to)
    }

    /// The way back.
    pub fn back(self) -> PairDirection {
        PairDirection {
            from: self.to,
            to: self.from,
        }
    }
}

fn both_ways((from, to): (End, End)) -> [PairDirection; 2] {
    let way = PairDirection { from, to };
    [way, way.back()]
}

impl Plan {
    /// The question to which the plan is the answer, as its member [`NAME`].
    pub fn question() -> Question {
        ablation_table::question()
    }

    /// The question what a node reaches.
    pub fn reach_of(node: usize) -> Question {
        Question::bench(NAME, [("reach", (node as u64).into())])
    }

    /// The question what a node's interfaces and ports counted: a list of [`Counted`], one for each
    /// rail.
    pub fn counters_of(node: usize) -> Question {
        Question::bench(NAME, [("counters", (node as u64).into())])
    }

    /// The question what went one way, from and to this memory: the answer is a [`Flow`].
    pub fn flow_of(way: PairDirection, pass: u64, memory: Memory) -> Question {
        let n = |number: usize| (number as u64).into();
        let mut of = vec![
            ("from", n(way.from.0)),
            ("rail", n(way.from.1)),
            ("to", n(way.to.0)),
            ("to_rail", n(way.to.1)),
            ("pass", pass.into()),
        ];
        if memory != Memory::Host {
            of.push(("memory", memory.word().into()));
        }
        Question::bench(NAME, of)
    }

    /// The memory by which pairs are compared.
    pub fn leading(&self) -> Memory {
        self.memory.first().copied().unwrap_or_default()
    }

    /// Whether pairs were measured from GPU to GPU beside the host's memory.
    pub fn has_both(&self) -> bool {
        self.memory.len() > 1
    }

    /// How many rails all nodes have.
    pub fn rails(&self) -> usize {
        let rails = self.nodes.iter().map(|node| node.rails.len());
        rails.min().unwrap_or(0)
    }

    /// The pairs of adapters of the same rail, in the rounds in which they are measured.
    pub fn rounds(&self) -> Vec<Vec<(End, End)>> {
        self.extent.rounds(self.nodes.len(), self.rails())
    }

    /// The adapter of this place.
    pub fn rail(&self, end: End) -> Option<&Rail> {
        self.nodes.get(end.0)?.rails.get(end.1)
    }

    /// How many nodes were expected: those that took part, and those of which nothing was heard.
    pub fn expected(&self) -> u64 {
        let is_here = |silent: &&Silent| self.nodes.iter().any(|node| node.host == silent.host);
        let absent = self.silent.iter().filter(|silent| !is_here(silent)).count();
        (self.nodes.len() + absent) as u64
    }

    /// The names of nodes, as a list.
    pub fn names(&self, nodes: &[usize]) -> String {
        let nodes = nodes.iter().filter_map(|node| self.nodes.get(*node));
        let names: Vec<&str> = nodes.map(|node| node.host.as_str()).collect();
        match nodeset::fold(&names) {
            folded if folded.is_empty() => names.join(","),
            folded => folded,
        }
    }

    /// The adapter's name: the node's, and its interface's, or its RDMA port's where that was
    /// measured, where it has several.
    pub fn name(&self, end: End) -> String {
        let host = self.nodes.get(end.0).map_or("?", |node| &node.host);
        match self.rail(end) {
            Some(rail) if self.rails() > 1 => format!("{host}/{}", rail.label(self.backend)),
            _ => host.to_owned(),
        }
    }
}

/// All that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The plan.
    pub plan: Plan,
    /// What each node reached; absent where it did not say.
    pub reach: BTreeMap<usize, Vec<Reach>>,
    /// What went each way in the first pass.
    pub first: BTreeMap<PairDirection, Flow>,
    /// What went each way that was measured a second time.
    pub second: BTreeMap<PairDirection, Flow>,
    /// What went each way between adapters of different rails.
    pub across: BTreeMap<PairDirection, Flow>,
    /// What went each way from GPU to GPU, where both memories were measured.
    pub on_gpus: BTreeMap<PairDirection, Flow>,
    /// The same of what was measured a second time.
    pub on_gpus_again: BTreeMap<PairDirection, Flow>,
    /// What each node's interfaces and ports counted, by rail.
    pub counters: BTreeMap<usize, Vec<Counted>>,
    /// The ways of which a reply is missing: of them nothing is said but what other replies prove.
    pub missing: BTreeSet<PairDirection>,
}

impl Results {
    /// Nothing yet.
    pub fn new(plan: Plan) -> Self {
        Results {
            plan,
            reach: BTreeMap::new(),
            first: BTreeMap::new(),
            second: BTreeMap::new(),
            across: BTreeMap::new(),
            on_gpus: BTreeMap::new(),
            on_gpus_again: BTreeMap::new(),
            counters: BTreeMap::new(),
            missing: BTreeSet::new(),
        }
    }

    /// What is valid of a way: the second measurement where there is one, since then nothing else
    /// was under way.
    pub fn flow(&self, way: PairDirection) -> Option<&Flow> {
        self.second.get(&way).or_else(|| self.first.get(&way))
    }

    /// The same from GPU to GPU, where both memories were measured.
    pub fn flow_on_gpus(&self, way: PairDirection) -> Option<&Flow> {
        let again = self.on_gpus_again.get(&way);
        again.or_else(|| self.on_gpus.get(&way))
    }

    /// What an adapter reaches of another.
    pub fn reached(&self, way: PairDirection) -> Option<&Reach> {
        let all = self.reach.get(&way.from.0)?;
        let is = |reach: &&Reach| reach.to == way.to.0 && reach.rail == way.from.1;
        all.iter().find(is).filter(|_| way.from.1 == way.to.1)
    }

    /// The ways between adapters of the same rail, both directions, rail by rail.
    pub fn ways(&self) -> Vec<PairDirection> {
        let rounds = self.plan.rounds().into_iter();
        let mut ways: Vec<PairDirection> = rounds.flatten().flat_map(both_ways).collect();
        ways.sort_unstable_by_key(|way| (way.from.1, *way));
        ways
    }

    /// The ways between adapters of different rails that were measured, both directions.
    pub fn ways_across(&self) -> Vec<PairDirection> {
        if !self.plan.across {
            return Vec::new();
        }
        let pairs = schedule::across_rails(self.plan.nodes.len(), self.plan.rails());
        let mut ways: Vec<PairDirection> =
            pairs.into_iter().flatten().flat_map(both_ways).collect();
        ways.sort_unstable();
        ways
    }

    /// The ways that were measured from GPU to GPU beside the host's memory, both directions.
    pub fn ways_on_gpus(&self) -> Vec<PairDirection> {
        if self.plan.has_both() {
            self.ways()
        } else {
            Vec::new()
        }
    }

    /// The ways that were measured a second time, both directions.
    fn ways_again(&self) -> Vec<PairDirection> {
        self.plan
            .again
            .iter()
            .copied()
            .flat_map(both_ways)
            .collect()
    }

    /// The lines of a recording that say all this.
    pub fn lines(&self, at: u64) -> Vec<Line> {
        let plan = serde_json::json!({ NAME: self.plan });
        let mut lines = vec![Line::of(NAME, Plan::question(), &plan, at)];
        let reach = self.reach.iter();
        lines.extend(reach.map(|(node, reach)| Line::of(NAME, Plan::reach_of(*node), reach, at)));
        let leading = self.plan.leading();
        for (pass, memory, flows) in [
            (1, leading, &self.first),
            (2, leading, &self.second),
            (1, leading, &self.across),
            (1, Memory::Gpu, &self.on_gpus),
            (2, Memory::Gpu, &self.on_gpus_again),
        ] {
            let line = |(way, flow): (&PairDirection, &Flow)| {
                Line::of(NAME, Plan::flow_of(*way, pass, memory), flow, at)
            };
            lines.extend(flows.iter().map(line));
        }
        let counters = self.counters.iter();
        lines.extend(counters.map(|(node, all)| Line::of(NAME, Plan::counters_of(*node), all, at)));
        lines
    }

    /// Asks for all of it.
    ///
    /// # Errors
    ///
    /// The refusal of the plan: nothing was measured; or what of the plan is not understood; or a
    /// reply that the plan has and the recording does not.
    pub fn read(source: &dyn Source) -> Result<Self, Refusal> {
        match Self::read_known(source)? {
            (results, None) => Ok(results),
            (_, Some(refusal)) => Err(refusal),
        }
    }

    /// Asks for all of it; what is there, and the refusal of the first reply that is missing.
    ///
    /// # Errors
    ///
    /// The refusal of the plan: nothing was measured; or what of the plan is not understood.
    pub fn read_known(source: &dyn Source) -> Result<(Self, Option<Refusal>), Refusal> {
        fn value<T: for<'d> Deserialize<'d>>(
            source: &dyn Source,
            question: &Question,
        ) -> Result<T, Refusal> {
            match source.ask(question).said? {
                Answer::Value(value) => T::deserialize(&*value)
                    .map_err(|what| Refusal::Crash(format!("{question}: {what}").into())),
                _ => Err(Refusal::Crash(format!("{question}: no value").into())),
            }
        }
        let plan: Value = value(source, &Plan::question())?;
        let Some(plan) = plan.get(NAME) else {
            return Err(Refusal::NotAsked("another measurement was made".into()));
        };
        let plan = Plan::deserialize(plan)
            .map_err(|what| Refusal::Crash(format!("no plan: {what}").into()))?;
        let mut results = Results::new(plan);
        let mut refused: Option<Refusal> = None;
        let ways = results.ways();
        let of_node = |node: usize| ways.iter().filter(move |way| way.from.0 == node);
        for node in 0..results.plan.nodes.len() {
            match value(source, &Plan::reach_of(node)) {
                Ok(reach) => {
                    results.reach.insert(node, reach);
                }
                Err(refusal) => {
                    refused.get_or_insert(refusal);
                    results.missing.extend(of_node(node));
                }
            }
        }
        for (way, pass, memory) in results.all_ways() {
            match value::<Flow>(source, &Plan::flow_of(way, pass, memory)) {
                Ok(flow) => {
                    results.flows(way, pass, memory).insert(way, flow);
                }
                Err(refusal) => {
                    refused.get_or_insert(refusal);
                    results.missing.insert(way);
                }
            }
        }
        for node in 0..results.plan.nodes.len() {
            match value(source, &Plan::counters_of(node)) {
                Ok(counters) => {
                    results.counters.insert(node, counters);
                }
                // They tell more of what is accused, and accuse nobody.
                Err(refusal) => {
                    refused.get_or_insert(refusal);
                }
            }
        }
        // Of two measurements of a way the second is valid: without it nothing is.
        for way in &results.missing {
            results.first.remove(way);
            results.second.remove(way);
            results.on_gpus.remove(way);
            results.on_gpus_again.remove(way);
        }
        Ok((results, refused))
    }

    /// All ways that were measured, each with its pass and its memory.
    fn all_ways(&self) -> Vec<(PairDirection, u64, Memory)> {
        let leading = self.plan.leading();
        let (again, both) = (self.ways_again(), self.plan.has_both());
        let on_gpus_again = if both { again.clone() } else { Vec::new() };
        let all = [
            (self.ways(), 1, leading),
            (self.ways_across(), 1, leading),
            (self.ways_on_gpus(), 1, Memory::Gpu),
            (again, 2, leading),
            (on_gpus_again, 2, Memory::Gpu),
        ];
        let each = |(ways, pass, memory): (Vec<PairDirection>, _, _)| {
            ways.into_iter().map(move |way| (way, pass, memory))
        };
        all.into_iter().flat_map(each).collect()
    }

    /// Where the flows of a way, a pass and a memory are kept.
    fn flows(
        &mut self,
        way: PairDirection,
        pass: u64,
        memory: Memory,
    ) -> &mut BTreeMap<PairDirection, Flow> {
        match (pass, memory == self.plan.leading()) {
            (1, true) if way.from.1 != way.to.1 => &mut self.across,
            (1, true) => &mut self.first,
            (_, true) => &mut self.second,
            (1, false) => &mut self.on_gpus,
            (_, false) => &mut self.on_gpus_again,
        }
    }

    /// What these ways carry together, in bits per second: the most that those of one round, which
    /// were measured at once, carried in one direction.
    pub fn capacity(&self, ways: &[PairDirection]) -> f64 {
        let rounds = self.plan.rounds();
        let together = |of: fn(&(End, End)) -> PairDirection| {
            let carried = rounds.iter().map(move |round| {
                let ways = round.iter().map(of).filter(|way| ways.contains(way));
                let flows = ways.filter_map(|way| self.first.get(&way)?.rate());
                flows.sum::<f64>()
            });
            carried.fold(0.0, f64::max)
        };
        let forth = together(|(a, b)| PairDirection { from: *a, to: *b });
        let back = together(|(a, b)| PairDirection { from: *b, to: *a });
        let alone = ways.iter().filter_map(|way| self.flow(*way)?.rate());
        alone.fold(forth.max(back), f64::max)
    }

    /// Has a reply to each question of the plan: what did not come is said so.
    pub fn complete(&mut self) {
        for node in 0..self.plan.nodes.len() {
            self.reach.entry(node).or_default();
            self.counters.entry(node).or_default();
        }
        for (way, pass, memory) in self.all_ways() {
            let flows = self.flows(way, pass, memory);
            flows
                .entry(way)
                .or_insert_with(|| Flow::failed("nothing came of it"));
        }
    }
}
