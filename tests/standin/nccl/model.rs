//! What carries data between ranks on the described machine, by the variables that are set, and how long it takes.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::log::{Group, Log};
use super::machine::Machine;

/// What carries a hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Via {
    P2p,
    Shm,
    /// The adapter, and whether it reaches the GPU itself.
    Ib(usize, bool),
    Socket,
}

impl Via {
    /// Its name in descriptions.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Via::P2p => "p2p",
            Via::Shm => "shm",
            Via::Ib(_, true) => "ib",
            Via::Ib(_, false) => "ib_host",
            Via::Socket => "socket",
        }
    }
}

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Algorithm {
    Ring,
    Tree,
    Nvls,
    CollNet,
}

impl Algorithm {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Algorithm::Ring => "RING",
            Algorithm::Tree => "TREE",
            Algorithm::Nvls => "NVLS",
            Algorithm::CollNet => "COLLNET_CHAIN",
        }
    }

    /// Whether NCCL_ALGO allows it: a list of names, or with ^ of those that are not allowed.
    fn allowed(self, list: &str) -> bool {
        let (except, list) = match list.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, list),
        };
        let own = match self {
            Algorithm::Ring => &["ring"][..],
            Algorithm::Tree => &["tree"],
            Algorithm::Nvls => &["nvls", "nvlstree"],
            Algorithm::CollNet => &["collnet", "collnetchain", "collnetdirect"],
        };
        let named = list
            .split(',')
            .any(|word| own.contains(&word.to_lowercase().as_str()));
        named != except
    }
}

/// The networks that NCCL has.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Network {
    Ib,
    Socket,
}

/// What `[system.nccl]` says.
pub(crate) fn said(name: &str) -> Option<&'static Value> {
    Machine::get().system("nccl", name)
}

pub(crate) fn number(value: Option<&Value>) -> Option<f64> {
    let value = value?;
    value
        .as_float()
        .or_else(|| value.as_integer().map(|n| n as f64))
}

fn texts(name: &str) -> Vec<&'static str> {
    let list = said(name).and_then(Value::as_array);
    list.map_or_else(Vec::new, |list| {
        list.iter().filter_map(Value::as_str).collect()
    })
}

/// The adapters, `mlx5_0:1/IB`.
pub(crate) fn adapters() -> Vec<&'static str> {
    texts("hcas")
}

/// A rank's reading of the variables: the first time a variable is read, a line says so.
pub(crate) struct Variables {
    log: Log,
    read: RefCell<BTreeSet<String>>,
}

impl Variables {
    pub(crate) fn new(log: Log) -> Self {
        Variables {
            log,
            read: RefCell::default(),
        }
    }

    /// The value, where it has an effect; `ends` is what NCCL writes after it.
    fn value(&self, name: &str, ends: &str) -> Option<String> {
        if texts("never_reads").contains(&name) {
            return None;
        }
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        if self.read.borrow_mut().insert(name.to_owned()) {
            let text = format!("{name} set by environment to {value}{ends}");
            self.log.info(Group::Env, &text);
        }
        (!texts("ignores").contains(&name)).then_some(value)
    }

    /// A variable that is a number: `NCCL_IB_DISABLE set by environment to 1.`
    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        self.value(name, ".")?.trim().parse().ok()
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.value(name, "")
    }
}

/// The paths of a communicator.
pub(crate) struct Model {
    /// GPUs of the ranks, by their numbers in the description.
    gpus: Vec<usize>,
    pub(crate) nodes: usize,
    pub(crate) network: Network,
    pub(crate) variables: Variables,
    gdr: bool,
    nvls: bool,
    /// From each rank to the next.
    ring: Vec<Via>,
    /// What was worked out before: variables do not change.
    bandwidths: RefCell<BTreeMap<(usize, usize), f64>>,
    best: OnceCell<Option<(Algorithm, f64)>>,
}

impl Model {
    /// Reads what decides, in NCCL's order.
    pub(crate) fn new(gpus: Vec<usize>, network: Network, variables: Variables) -> Self {
        let nodes = number(said("nodes")).map_or(1, |n| n as usize).max(1);
        let mut model = Model {
            gpus,
            nodes,
            network,
            variables,
            gdr: false,
            nvls: false,
            ring: Vec::new(),
            bandwidths: RefCell::default(),
            best: OnceCell::new(),
        };
        let level = model.variables.text("NCCL_NET_GDR_LEVEL");
        let off = level.is_some_and(|level| matches!(&*level, "LOC" | "0"));
        model.gdr = said("gdr").and_then(Value::as_bool).unwrap_or(true) && !off;
        model.nvls = said("nvls").and_then(Value::as_bool).unwrap_or(false)
            && model.variables.integer("NCCL_NVLS_ENABLE") != Some(0);
        model.variables.integer("NCCL_CROSS_NIC");
        let ranks = model.gpus.len();
        model.ring = (0..ranks)
            .map(|rank| model.via(rank, (rank + 1) % ranks))
            .collect();
        model
    }

    pub(crate) fn ranks(&self) -> usize {
        self.gpus.len()
    }

    /// How much longer a rank's part of an operation takes than the others'.
    pub(crate) fn slower(&self, rank: usize) -> f64 {
        let gpu = self.gpus[rank];
        1.0 + number(Machine::get().gpu("nccl", gpu, "slower")).unwrap_or(0.0)
    }

    /// The node of a rank.
    pub(crate) fn node(&self, rank: usize) -> usize {
        rank * self.nodes / self.ranks()
    }

    /// The number of a rank's GPU on its node.
    pub(crate) fn local(&self, rank: usize) -> usize {
        (0..rank)
            .filter(|other| self.node(*other) == self.node(rank))
            .count()
    }

    pub(crate) fn nvls_available(&self) -> bool {
        self.nvls
    }

    pub(crate) fn gdr(&self) -> bool {
        self.gdr
    }

    /// What carries data from one rank to another. As in NCCL, a variable is read where it is to decide: NCCL_SHM_DISABLE where two GPUs of a
    /// node do not reach each other.
    pub(crate) fn via(&self, from: usize, to: usize) -> Via {
        if self.node(from) == self.node(to) {
            let own = Machine::get().pair_of("nccl", self.gpus[from], self.gpus[to], "p2p");
            let can = own
                .and_then(Value::as_bool)
                .or_else(|| said("p2p")?.as_bool())
                .unwrap_or(true);
            let off = self.variables.text("NCCL_P2P_DISABLE").as_deref() == Some("1");
            if from == to || (can && !off) {
                return Via::P2p;
            }
            if self.variables.integer("NCCL_SHM_DISABLE") != Some(1) {
                return Via::Shm;
            }
        }
        match self.network {
            Network::Ib => Via::Ib(self.local(from) % adapters().len().max(1), self.gdr),
            Network::Socket => Via::Socket,
        }
    }

    /// From each rank to the next.
    pub(crate) fn ring(&self) -> &[Via] {
        &self.ring
    }

    /// Gigabytes in a second that a path carries.
    fn bandwidth(&self, from: usize, to: usize) -> f64 {
        let known = self.bandwidths.borrow().get(&(from, to)).copied();
        known.unwrap_or_else(|| {
            let bandwidth = self.bandwidth_of(from, to);
            self.bandwidths.borrow_mut().insert((from, to), bandwidth);
            bandwidth
        })
    }

    fn bandwidth_of(&self, from: usize, to: usize) -> f64 {
        let via = self.via(from, to);
        let across = self.node(from) != self.node(to);
        let table = said("bandwidth").and_then(Value::as_table);
        let of = |name: &str| table.and_then(|table| number(table.get(name)));
        let local = (!across)
            .then(|| of(&format!("{}_local", via.name())))
            .flatten();
        let own = local.or_else(|| of(via.name()));
        let mut bandwidth = own.unwrap_or(match via {
            Via::P2p => 370.0,
            Via::Shm => 9.0,
            Via::Ib(_, true) => 24.0,
            Via::Ib(_, false) => 12.0,
            Via::Socket => 2.0,
        });
        for rank in [from, to] {
            let cap = number(Machine::get().gpu("nccl", self.gpus[rank], "bandwidth"));
            bandwidth = bandwidth.min(cap.unwrap_or(f64::INFINITY));
        }
        bandwidth * self.effects(via.name())
    }

    /// What other variables make of a path.
    fn effects(&self, path: &str) -> f64 {
        let list = said("effect").and_then(Value::as_array);
        let all = list.into_iter().flatten().filter_map(Value::as_table);
        all.filter(|effect| effect.get("path").and_then(Value::as_str) == Some(path))
            .filter(|effect| self.holds(effect))
            .filter_map(|effect| number(effect.get("factor")))
            .product()
    }

    /// Whether the variable that a table names has the value that it names.
    fn holds(&self, table: &Table) -> bool {
        let text = |name: &str| table.get(name).and_then(Value::as_str);
        match (text("variable"), text("value")) {
            (Some(name), Some(value)) => self.variables.text(name).as_deref() == Some(value),
            _ => true,
        }
    }

    /// Whether this rank uses a path of this name.
    pub(crate) fn uses(&self, path: &str) -> bool {
        self.ring.iter().any(|via| via.name() == path)
    }

    /// The algorithm for an all-reduce, and what it carries; `None` where none is allowed.
    pub(crate) fn all_reduce(&self) -> Option<(Algorithm, f64)> {
        *self.best.get_or_init(|| self.choose())
    }

    fn choose(&self) -> Option<(Algorithm, f64)> {
        let ring = self.ring_bandwidth();
        let table = said("bandwidth").and_then(Value::as_table);
        let of = |name: &str| table.and_then(|table| number(table.get(name)));
        let all_p2p = self.ring.iter().all(|via| *via == Via::P2p);
        let over_ib = self.uses("ib");
        let mut candidates = vec![(Algorithm::Ring, ring)];
        if let Some(tree) = of("tree").filter(|_| all_p2p || over_ib) {
            candidates.push((Algorithm::Tree, tree));
        }
        if let Some(nvls) = of("nvls").filter(|_| self.nvls && all_p2p) {
            candidates.push((Algorithm::Nvls, nvls));
        }
        if let Some(collnet) = of("collnet").filter(|_| over_ib) {
            candidates.push((Algorithm::CollNet, collnet));
        }
        let list = self.variables.text("NCCL_ALGO");
        let own = said("chooses").and_then(Value::as_str);
        let list = list.as_deref().or(own);
        candidates
            .into_iter()
            .filter(|(one, _)| list.is_none_or(|list| one.allowed(list)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// What the slowest hop of the ring carries.
    pub(crate) fn ring_bandwidth(&self) -> f64 {
        let ranks = self.ranks();
        (0..ranks)
            .map(|rank| self.bandwidth(rank, (rank + 1) % ranks))
            .fold(f64::INFINITY, f64::min)
    }

    /// Milliseconds of a collective in a ring or otherwise: what crosses the slowest hop, and what each step takes before.
    pub(crate) fn ms(&self, bytes: f64, factor: f64, steps: f64, bandwidth: f64) -> f64 {
        let latency = number(said("latency")).unwrap_or(0.0);
        bytes * factor / (bandwidth * 1e6) + steps * latency / 1e3
    }

    /// Milliseconds until a rank has sent and received what it exchanges with others, and these with theirs. `sends` are what each rank sends to
    /// which, in bytes.
    pub(crate) fn exchange_ms(&self, rank: usize, sends: &[Vec<(usize, f64)>]) -> f64 {
        let latency = number(said("latency")).unwrap_or(0.0) / 1e3;
        let ranks = self.ranks();
        let (mut out, mut back) = (vec![0.0_f64; ranks], vec![0.0_f64; ranks]);
        for (from, all) in sends.iter().enumerate() {
            for (to, bytes) in all.iter().filter(|(to, _)| *to != from) {
                let ms = bytes / (self.bandwidth(from, *to) * 1e6) + latency;
                out[from] += ms;
                back[*to] += ms;
            }
        }
        // A peer that serves several does so at the same time.
        let mut longest = out[rank].max(back[rank]);
        for (from, all) in sends.iter().enumerate() {
            for (to, _) in all {
                if *to == rank {
                    longest = longest.max(out[from]);
                }
                if from == rank {
                    longest = longest.max(back[*to]);
                }
            }
        }
        longest
    }
}

/// A table of what goes wrong (`fail`, `hang`, `wrong`), where it concerns this rank, and the paths and variables are as it says.
pub(crate) fn trouble(name: &str, rank: usize, model: Option<&Model>) -> Option<&'static Table> {
    let table = said(name)?.as_table()?;
    let whose = number(table.get("rank"));
    if whose.is_some_and(|whose| whose as usize != rank) {
        return None;
    }
    if let Some(path) = table.get("path").and_then(Value::as_str)
        && !model.is_some_and(|model| model.uses(path))
    {
        return None;
    }
    model
        .is_none_or(|model| model.holds(table))
        .then_some(table)
}

/// How much longer an operation takes than it should: noise, and drift from run to run.
pub(crate) fn disturbance(run: u64, operation: u64) -> f64 {
    let random = |seed: u64| {
        let mut word = seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(0x1234_5678_9abc_def1);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) as f64 / u64::MAX as f64
    };
    let of = |name: &str| number(said(name)).unwrap_or(0.0);
    let noise = 1.0 + of("noise") * random(run << 32 | (operation + 1));
    let of_run = 1.0 + of("run_noise") * random(run + 1);
    let drift = 1.0 + of("drift") * run as f64;
    noise * of_run * drift
}
