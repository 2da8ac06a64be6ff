//! Settings of CPU, memory and kernel.

pub(super) mod cgroup;
mod cpus;
mod frequency;
mod idle;
pub(super) mod parse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(super) use self::cpus::ranges;
use super::{Ask, Probe, joined, whole_number};
use crate::cpu_list;
use crate::fact::{Fact, Facts, Id, Origin, Presence, known, node};

/// The probe.
pub const PROBE: Probe = Probe::new("tuning", run);

const CPU: &str = "/sys/devices/system/cpu";

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    frequency::establish(ask, facts, node);
    facts.set(node, node::IDLE_LATENCY, idle::latency(ask));
    // Each is asked once, for several facts.
    let online = ask.text(format!("{CPU}/online"));
    let status = ask.text("/proc/self/status");
    let cgroup = ask.text_if_any("/proc/self/cgroup");
    facts.set(node, node::CPUS_OFFLINE, offline(ask, online.clone()));
    facts.set(node, node::NUMA_WITHOUT_MEMORY, without_memory(ask));
    let quotas = cgroup::quotas(ask, &cgroup);
    let least = cgroup::least(&quotas);
    let online = cpus::establish(ask, facts, node, online, status.clone(), least);
    cgroup::establish(ask, facts, node, &cgroup, &quotas, online);
    for (key, file) in [
        (node::NUMA_BALANCING, "/proc/sys/kernel/numa_balancing"),
        (node::ZONE_RECLAIM_MODE, "/proc/sys/vm/zone_reclaim_mode"),
    ] {
        facts.set(node, key, number_if_any(ask, file));
    }

    let clock = "/sys/devices/system/clocksource/clocksource0";
    let current = ask.parse(format!("{clock}/current_clocksource"), parse::word);
    facts.set(node, node::CLOCKSOURCE, current);
    let available = ask.parse(format!("{clock}/available_clocksource"), parse::list);
    facts.set(node, node::CLOCKSOURCES, available);

    let limits = ask.text("/proc/self/limits");
    let limit = limits.and_then(|text| super::host::soft_limit(&text, "Max processes"));
    facts.set(node, node::NPROC, processes(status, limit));
    let parameters = ask.parse("/proc/cmdline", |text| Ok(parse::limiting(text)));
    facts.set(node, node::LIMITING_PARAMETERS, parameters);
}

/// The limit of processes. The kernel does not hold root to it (kernel/fork.c, `copy_process`).
pub(super) fn processes(status: Fact<Arc<str>>, limit: Fact<u64>) -> Fact<u64> {
    match status.and_then(|text| parse::user(&text)) {
        Fact::Known(0, origin) => Fact::Known(u64::MAX, origin),
        Fact::Known(..) => limit,
        Fact::Unknown(gap) => Fact::Unknown(gap),
    }
}

/// A number of a setting that a kernel without the feature does not have; 0 there.
fn number_if_any(ask: &Ask<'_>, file: &str) -> Fact<u64> {
    ask.text_if_any(file).parse(0, whole_number)
}

/// CPUs that are present and not online, less those that SMT control has taken.
fn offline(ask: &Ask<'_>, online: Fact<Arc<str>>) -> Fact<u64> {
    let present = ask.parse(format!("{CPU}/present"), cpu_list::numbers);
    let online = online.and_then(|text| cpu_list::numbers(&text));
    let smt = ask.text_if_any(format!("{CPU}/smt/control"));
    let ((online, present), origin) = known!(online.zip(present), with origin);
    let missing = present.iter().filter(|cpu| !online.contains(cpu)).count() as u64;
    let online = online.len() as u64;
    match smt {
        _ if missing == 0 => Fact::Known(0, origin),
        // One thread of each core is left: as many are gone as stay, for each further thread of a core.
        Presence::Present(control, _) if matches!(&*control, "off" | "forceoff") => {
            Fact::Known(missing % online, origin)
        }
        Presence::Present(..) | Presence::Absent(_) => Fact::Known(missing, origin),
        Presence::Unknown(gap) => Fact::Unknown(gap),
    }
}

/// The NUMA nodes that have CPUs and no memory. Nodes without CPUs are the memory of GPUs or of expanders.
fn without_memory(ask: &Ask<'_>) -> Fact<Arc<str>> {
    const NODES: &str = "/sys/devices/system/node";
    let with_cpu = ask.parse(format!("{NODES}/has_cpu"), cpu_list::numbers);
    let with_memory = ask.parse(format!("{NODES}/has_memory"), cpu_list::numbers);
    with_memory.zip(with_cpu).map(|(memory, cpu)| {
        let without = cpu.iter().filter(|n| !memory.contains(n));
        let names: Vec<String> = without.map(|n| format!("node{n}")).collect();
        joined(&names, ", ")
    })
}

/// All of several values that were asked for one by one; unknown as soon as one is.
fn all<T>(values: impl Iterator<Item = Fact<T>>) -> Fact<Vec<T>> {
    let mut found = Vec::new();
    let mut last = None;
    for value in values {
        let (value, origin) = known!(value, with origin);
        found.push(value);
        last.get_or_insert(origin);
    }
    Fact::Known(found, last.unwrap_or(Origin::derived("none asked for")))
}

/// The different texts among several, sorted.
fn distinct(mut texts: Vec<Arc<str>>) -> Arc<[Arc<str>]> {
    texts.sort();
    texts.dedup();
    texts.into()
}
