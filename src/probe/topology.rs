//! Where this process may run, and where NCCL takes the machine's topology from.

mod file;
mod parse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::file::Topology;
use self::parse::Set;
use super::{Ask, BUDGET, Probe};
use crate::fact::node::{self, TopoFile};
use crate::fact::{Fact, Facts, Gap, Id, Origin, Why};
use crate::source::{Errno, Question, Refusal};

/// The probe.
pub const PROBE: Probe = Probe {
    name: "topology",
    about: "where this process may run, and where NCCL takes the topology from",
    budget: BUDGET,
    run,
};

const NODES: &str = "/sys/devices/system/node";
/// Where NCCL looks by itself: NVIDIA's daemon for virtual machines writes it.
const VIRTUAL_TOPOLOGY: &str = "/var/run/nvidia-topologyd/virtualTopology.xml";
/// The variable that names a topology file, and NCCL's configuration file with the variable that names another one.
const TOPO_FILE: &str = "NCCL_TOPO_FILE";
const CONF_FILE: &str = "NCCL_CONF_FILE";
const SYSTEM_CONF: &str = "/etc/nccl.conf";
/// In which launchers (torchrun, Open MPI, MPICH, Slurm) say how many tasks they started on this node.
const TASKS: [&str; 4] = [
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_TASKS_PER_NODE",
];
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

type Texts = Arc<[Arc<str>]>;

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let status = ask.text("/proc/self/status");
    let cpus = status
        .clone()
        .and_then(|text| parse::status_line(&text, "Cpus_allowed_list"));
    let memory = status.and_then(|text| parse::status_line(&text, "Mems_allowed_list"));
    let nodes = numa_nodes(ask);
    facts.set(
        node,
        node::CPU_NODES_FORBIDDEN,
        forbidden_cpus(ask, &cpus, &nodes),
    );
    facts.set(node, node::CPUS_ALLOWED, cpus);
    let with_memory = ask.parse(format!("{NODES}/has_memory"), Set::read);
    facts.set(
        node,
        node::MEMORY_NODES_FORBIDDEN,
        forbidden_memory(&memory, &nodes, &with_memory),
    );

    let mut wanted = vec![TOPO_FILE, CONF_FILE, VISIBLE];
    wanted.extend(TASKS);
    let environment = ask.value(Question::env(&wanted));
    let variable = |name: &str| {
        environment.clone().map(|all| {
            let text = all.get(name).and_then(serde_json::Value::as_str);
            text.map(Arc::<str>::from)
        })
    };
    facts.set(node, node::LAUNCHED_TASKS, launched(&environment));
    facts.set(node, node::GPUS_VISIBLE, visible(ask, variable(VISIBLE)));
    topology_file(ask, facts, node, variable(TOPO_FILE), variable(CONF_FILE));
}

/// The numbers of the NUMA nodes; a kernel without NUMA has none.
fn numa_nodes(ask: &Ask<'_>) -> Fact<Arc<[u64]>> {
    ask.names_if_any(NODES)
        .or_absent(Arc::default())
        .map(|names| {
            let number = |name: &Arc<str>| name.strip_prefix("node")?.parse().ok();
            let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
            numbers.sort_unstable();
            numbers.into()
        })
}

fn texts(numbers: impl Iterator<Item = u64>) -> Texts {
    numbers.map(|n| Arc::from(n.to_string())).collect()
}

/// The NUMA nodes that have CPUs, none of which is allowed.
fn forbidden_cpus(
    ask: &Ask<'_>,
    allowed: &Fact<Arc<str>>,
    nodes: &Fact<Arc<[u64]>>,
) -> Fact<Texts> {
    let numbers = match nodes {
        Fact::Known(numbers, _) => numbers,
        Fact::Unknown(gap) => return Fact::Unknown(gap.clone()),
    };
    let mut cpus = Vec::with_capacity(numbers.len());
    for number in numbers.iter() {
        match ask.parse(format!("{NODES}/node{number}/cpulist"), Set::read) {
            Fact::Known(set, _) => cpus.push((*number, set)),
            Fact::Unknown(gap) => return Fact::Unknown(gap),
        }
    }
    allowed.clone().and_then(|text| {
        let allowed = Set::read(&text)?;
        let far = |(_, cpus): &&(u64, Set)| !cpus.is_empty() && !cpus.meets(&allowed);
        Ok(texts(cpus.iter().filter(far).map(|(number, _)| *number)))
    })
}

/// The NUMA nodes that have memory, none of which is allowed.
fn forbidden_memory(
    allowed: &Fact<Arc<str>>,
    nodes: &Fact<Arc<[u64]>>,
    with_memory: &Fact<Set>,
) -> Fact<Texts> {
    let (numbers, with_memory) = match (nodes, with_memory) {
        (Fact::Known(numbers, _), Fact::Known(set, _)) => (numbers, set),
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => return Fact::Unknown(gap.clone()),
    };
    allowed.clone().and_then(|text| {
        let allowed = Set::read(&text)?;
        let numbers = numbers.iter().copied();
        Ok(texts(
            numbers.filter(|n| with_memory.has(*n) && !allowed.has(*n)),
        ))
    })
}

/// How many tasks the launcher started here: the most that one of its variables says.
fn launched(environment: &Fact<Arc<serde_json::Value>>) -> Fact<u64> {
    environment.clone().map(|all| {
        let said = TASKS.iter().filter_map(|name| all.get(*name)?.as_str());
        said.filter_map(parse::tasks).max().unwrap_or(1)
    })
}

/// How many GPUs this process is to use.
fn visible(ask: &Ask<'_>, variable: Fact<Option<Arc<str>>>) -> Fact<u64> {
    let files = ask.names("/dev").map(|names| {
        let is_gpu = |name: &&Arc<str>| {
            name.strip_prefix("nvidia")
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        };
        names.iter().filter(is_gpu).count() as u64
    });
    match variable {
        Fact::Known(Some(list), origin) => {
            let entries = list.split(',').filter(|entry| !entry.trim().is_empty());
            Fact::Known(entries.count() as u64, origin)
        }
        Fact::Known(None, _) => files,
        Fact::Unknown(gap) => Fact::Unknown(gap),
    }
}

/// Which file NCCL reads the topology from, and what it finds there.
fn topology_file(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    variable: Fact<Option<Arc<str>>>,
    conf: Fact<Option<Arc<str>>>,
) {
    let named = match variable {
        Fact::Known(Some(path), origin) => Fact::Known(Some(path), origin),
        Fact::Known(None, _) => of_configuration(ask, conf),
        Fact::Unknown(gap) => Fact::Unknown(gap),
    };
    let (path, origin, by_itself) = match named {
        Fact::Known(Some(path), origin) => (path, origin, false),
        Fact::Known(None, origin) => (VIRTUAL_TOPOLOGY.into(), origin, true),
        Fact::Unknown(gap) => {
            facts.set(node, node::TOPO_FILE, Fact::Unknown(gap.clone()));
            facts.set(node, node::TOPO_FILE_STATE, Fact::Unknown(gap.clone()));
            say(facts, node, Err(gap));
            return;
        }
    };
    let question = Question::read(Arc::clone(&path));
    let at = || Origin::Asked(question.clone());
    // NCCL opens the file as this does: what cannot be opened is as good as not there, whatever its folder says.
    let (state, says) = match ask.text(Arc::clone(&path)) {
        Fact::Known(text, _) => match file::read(&text) {
            Ok(topology) => (Fact::Known(TopoFile::Read, at()), Ok((topology, None))),
            Err(problem) => (
                Fact::Known(TopoFile::Invalid, at()),
                Ok((Topology::default(), Some(problem))),
            ),
        },
        Fact::Unknown(gap) => match &gap.why {
            Why::Refused(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)) => {
                let state = if by_itself {
                    TopoFile::None
                } else {
                    TopoFile::Absent
                };
                (Fact::Known(state, at()), Ok(Default::default()))
            }
            Why::Refused(Refusal::Errno(Errno::EACCES)) => {
                (Fact::Known(TopoFile::Denied, at()), Ok(Default::default()))
            }
            _ => (Fact::Unknown(gap.clone()), Err(gap)),
        },
    };
    let name = match &state {
        Fact::Known(TopoFile::None, _) => "none".into(),
        _ => path,
    };
    let name = match (&state, by_itself) {
        // Whether NCCL has a file is open while nobody knows whether it is there.
        (Fact::Unknown(gap), true) => Fact::Unknown(gap.clone()),
        _ => Fact::Known(name, origin),
    };
    facts.set(node, node::TOPO_FILE, name);
    facts.set(node, node::TOPO_FILE_STATE, state);
    say(facts, node, says.map(|says| (says, at())));
}

/// Several things as one text.
fn list(all: &[String]) -> Arc<str> {
    match all {
        [] => "none".into(),
        all => all.join(", ").into(),
    }
}

/// States what a topology file says, or why nobody knows.
fn say(facts: &mut Facts, node: Id, says: Result<((Topology, Option<String>), Origin), Gap>) {
    let texts = |names: Vec<String>| -> Texts { names.into_iter().map(Arc::from).collect() };
    let (problem, names, slow) = match says {
        Ok(((topology, problem), origin)) => {
            let problem: Arc<str> = problem.map_or("none".into(), Arc::from);
            (
                Fact::Known(problem, origin.clone()),
                Fact::Known(texts(topology.names.into_iter().collect()), origin.clone()),
                Fact::Known(list(&topology.slow_links), origin),
            )
        }
        Err(gap) => (
            Fact::Unknown(gap.clone()),
            Fact::Unknown(gap.clone()),
            Fact::Unknown(gap),
        ),
    };
    facts.set(node, node::TOPO_FILE_PROBLEM, problem);
    facts.set(node, node::TOPO_FILE_NAMES, names);
    facts.set(node, node::TOPO_FILE_SLOW_LINKS, slow);
}

/// The topology file that NCCL's configuration files name: the one of NCCL_CONF_FILE, then the machine's.
fn of_configuration(ask: &Ask<'_>, conf: Fact<Option<Arc<str>>>) -> Fact<Option<Arc<str>>> {
    let own = match conf {
        Fact::Known(own, _) => own,
        Fact::Unknown(gap) => return Fact::Unknown(gap),
    };
    let mut last = Origin::Asked(Question::read(SYSTEM_CONF));
    for path in own.into_iter().chain([Arc::from(SYSTEM_CONF)]) {
        match ask.text(path) {
            Fact::Known(text, origin) => match parse::setting(&text, TOPO_FILE) {
                Some(file) => return Fact::Known(Some(file), origin),
                None => last = origin,
            },
            Fact::Unknown(gap) => match &gap.why {
                Why::Refused(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES)) => {
                    last = gap.origin;
                }
                _ => return Fact::Unknown(gap),
            },
        }
    }
    Fact::Known(None, last)
}
