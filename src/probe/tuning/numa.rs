//! The memory of the NUMA nodes.

use std::sync::Arc;

use super::{all, parse};
use crate::fact::{Bytes, Fact, Facts, Id, Percent, node};
use crate::probe::Ask;

const NODES: &str = "/sys/devices/system/node";
/// Machines have one node a socket, eight at most where each socket is cut into four.
const LARGEST: usize = 32;

/// States which nodes lack memory, and how even it is spread. Nodes without CPUs are the memory of GPUs or of expanders.
pub(super) fn establish(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let with_cpu = ask.parse(format!("{NODES}/has_cpu"), parse::ranges);
    let with_memory = ask.parse(format!("{NODES}/has_memory"), parse::ranges);
    let (with_cpu, with_memory, origin) = match (with_cpu, with_memory) {
        (Fact::Known(cpu, _), Fact::Known(memory, origin)) => (cpu, memory, origin),
        (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => {
            facts.set(node, node::NUMA_WITHOUT_MEMORY, Fact::Unknown(gap.clone()));
            facts.set(node, node::NUMA_MEMORY_EVEN, Fact::Unknown(gap.clone()));
            facts.set(node, node::NUMA_MEMORY, Fact::Unknown(gap));
            return;
        }
    };
    let without = with_cpu.iter().filter(|n| !with_memory.contains(n));
    let without: Vec<String> = without.map(|n| format!("node{n}")).collect();
    facts.set(
        node,
        node::NUMA_WITHOUT_MEMORY,
        Fact::Known(parse::joined(&without), origin),
    );
    let both: Vec<u64> = with_cpu
        .into_iter()
        .filter(|n| with_memory.contains(n))
        .take(LARGEST)
        .collect();
    let sizes = all(both.iter().map(|n| {
        let size = ask.parse(format!("{NODES}/node{n}/meminfo"), parse::node_memory);
        size.map(|size| (*n, size))
    }));
    let even = sizes.clone().map(|sizes| {
        let size = || sizes.iter().map(|(_, size)| size.0 as f64);
        match size().fold(0.0, f64::max) {
            0.0 => Percent(100.0),
            most => Percent(size().fold(most, f64::min) * 100.0 / most),
        }
    });
    facts.set(node, node::NUMA_MEMORY_EVEN, even);
    let text = sizes.map(|sizes| {
        let text = |(n, size): &(u64, Bytes)| format!("node{n} {size}");
        Arc::from(sizes.iter().map(text).collect::<Vec<_>>().join(", "))
    });
    facts.set(node, node::NUMA_MEMORY, text);
}
