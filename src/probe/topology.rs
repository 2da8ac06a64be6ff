//! Where this process may run: its CPUs, its memory, its GPUs.

pub mod file;
mod launch;
mod parse;
#[cfg(test)]
mod tests;
mod xml;

use std::sync::Arc;

use self::parse::Set;
pub(super) use self::parse::status_line;
use super::{Ask, Probe, is_numbered};
use crate::fact::{Fact, Facts, Id, known, node};
use crate::source::Question;

/// The probe.
pub const PROBE: Probe = Probe::new("topology", run);

const NODES: &str = "/sys/devices/system/node";
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
    let numa_cpus = numa_cpus(ask, &nodes);
    let cpu_nodes_forbidden = forbidden_cpus(&cpus, &numa_cpus);
    facts.set(node, node::CPU_NODES_FORBIDDEN, cpu_nodes_forbidden);
    let lists = numa_cpus.map(|all| {
        let list = all
            .iter()
            .map(|one| format!("{}: {}", one.number, one.list).into());
        list.collect::<Texts>()
    });
    facts.set(node, node::NUMA_CPUS, lists);
    facts.set(node, node::CPUS_ALLOWED, cpus);
    let with_memory = ask.parse(format!("{NODES}/has_memory"), Set::read);
    let memory_nodes_forbidden = forbidden_memory(&memory, &nodes, &with_memory);
    facts.set(node, node::MEMORY_NODES_FORBIDDEN, memory_nodes_forbidden);

    let mut wanted = vec![VISIBLE];
    wanted.extend(TASKS);
    let environment = ask.value(Question::env(&wanted));
    let list = environment.clone().map(|all| {
        let text = all.get(VISIBLE).and_then(serde_json::Value::as_str);
        text.map(Arc::<str>::from)
    });
    facts.set(node, node::LAUNCHED_TASKS, launched(&environment));
    facts.set(node, node::GPUS_VISIBLE, visible(ask, list));
    facts.set(node, node::LAUNCH, launch::launch(ask));
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

/// The CPUs of a NUMA node, as a set and as the kernel lists them.
#[derive(Clone)]
struct NumaCpus {
    number: u64,
    set: Set,
    list: String,
}

fn numa_cpus(ask: &Ask<'_>, nodes: &Fact<Arc<[u64]>>) -> Fact<Vec<NumaCpus>> {
    let numbers = known!(nodes);
    let mut cpus = Vec::with_capacity(numbers.len());
    for &number in numbers.iter() {
        let read = |text: &str| {
            let (set, list) = (Set::read(text)?, text.trim().to_owned());
            Ok::<_, String>(NumaCpus { number, set, list })
        };
        let one = ask.parse(format!("{NODES}/node{number}/cpulist"), read);
        cpus.push(known!(one));
    }
    nodes.clone().map(|_| cpus)
}

/// The NUMA nodes that have CPUs, none of which is allowed.
fn forbidden_cpus(allowed: &Fact<Arc<str>>, cpus: &Fact<Vec<NumaCpus>>) -> Fact<Texts> {
    let cpus = known!(cpus);
    allowed.clone().and_then(|text| {
        let allowed = Set::read(&text)?;
        let far = |one: &&NumaCpus| !one.set.is_empty() && !one.set.meets(&allowed);
        Ok(texts(cpus.iter().filter(far).map(|one| one.number)))
    })
}

/// The NUMA nodes that have memory, none of which is allowed.
fn forbidden_memory(
    allowed: &Fact<Arc<str>>,
    nodes: &Fact<Arc<[u64]>>,
    with_memory: &Fact<Set>,
) -> Fact<Texts> {
    let (numbers, with_memory) = (known!(nodes), known!(with_memory));
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
    let all = known!(environment);
    let said = TASKS.iter().filter_map(|name| {
        let tasks = parse::tasks(all.get(*name)?.as_str()?)?;
        Some((tasks, *name))
    });
    // The question names every variable there is; the evidence is the one that decides.
    match said.max() {
        Some((tasks, name)) => Fact::derived(tasks, format!("environment {name}")),
        None => Fact::derived(1, "environment without LOCAL_WORLD_SIZE and the like"),
    }
}

/// How many GPUs this process uses.
fn visible(ask: &Ask<'_>, variable: Fact<Option<Arc<str>>>) -> Fact<u64> {
    let files = ask.names("/dev").map(|names| {
        let gpus = names.iter().filter(|name| is_numbered(name, "nvidia"));
        gpus.count() as u64
    });
    match variable {
        Fact::Known(Some(list), _) => {
            let entries = list.split(',').filter(|entry| !entry.trim().is_empty());
            Fact::derived(entries.count() as u64, format!("environment {VISIBLE}"))
        }
        Fact::Known(None, _) => files,
        Fact::Unknown(gap) => Fact::Unknown(gap),
    }
}
