//! CPUs and NUMA nodes, as lscpu(1) and `numactl -H` print them.

use std::sync::Arc;

use super::{Output, OutputLine, named};
use crate::cpu_list;
use crate::fact::node::CpuVendor;
use crate::fact::{Facts, Id, node as of_node};
use crate::probe::joined;
use crate::probe::tuning::ranges;

type Lists<'o> = Vec<(u64, String, OutputLine<'o>)>;

/// States the NUMA nodes that are listed, each with its CPUs.
fn nodes(output: &Output, facts: &mut Facts, node: Id, lists: &Lists<'_>) {
    if let Some((.., line)) = lists.first().filter(|_| !output.is_cut) {
        let named = lists
            .iter()
            .map(|(number, cpus, _)| Arc::from(format!("{number}: {cpus}")));
        let named: Arc<[Arc<str>]> = named.collect();
        facts.set(node, of_node::NUMA_CPUS, line.known(named));
        facts.set(node, of_node::NUMA_NODES, line.known(lists.len() as u64));
    }
}

/// `On-line CPU(s) list: 0-11`, `NUMA node0 CPU(s): 0-5`.
pub(super) fn lscpu(output: &Output, facts: &mut Facts, node: Id) {
    let mut lists: Lists<'_> = Vec::new();
    for line in output.lines() {
        let Some((key, value)) = line.text.trim().split_once(':') else {
            continue;
        };
        let value = value.trim();
        let count = || cpu_list::numbers(value).ok().map(|all| all.len() as u64);
        match key {
            "On-line CPU(s) list" => {
                facts.set(node, of_node::CPUS_ONLINE, line.read(count()));
            }
            "Off-line CPU(s) list" => {
                facts.set(node, of_node::CPUS_OFFLINE, line.read(count()));
            }
            "Architecture" if value == "aarch64" => {
                facts.set(node, of_node::CPU_VENDOR, line.known(CpuVendor::Arm));
            }
            "Hypervisor vendor" => facts.set(node, of_node::VIRTUAL, line.known(true)),
            key => {
                let number = key
                    .strip_prefix("NUMA node")
                    .and_then(|k| k.strip_suffix(" CPU(s)"));
                if let Some(Ok(number)) = number.map(str::parse) {
                    lists.push((number, value.to_owned(), line));
                }
                named::state(facts, node, named::NODE, (key, value), &line);
            }
        }
    }
    nodes(output, facts, node, &lists);
}

/// `node 0 cpus: 0 1 2 3`, `node 0 size: 257000 MB`.
pub(super) fn numactl(output: &Output, facts: &mut Facts, node: Id) {
    let mut lists: Lists<'_> = Vec::new();
    let mut without: Vec<String> = Vec::new();
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        match words.as_slice() {
            ["node", number, "cpus:", cpus @ ..] => {
                let numbers: Result<Vec<u64>, _> = cpus.iter().map(|cpu| cpu.parse()).collect();
                if let (Ok(number), Ok(cpus)) = (number.parse(), numbers) {
                    lists.push((number, ranges(&cpus), line));
                }
            }
            // A node of memory alone has no CPUs by design.
            ["node", number, "size:", "0", ..]
                if lists.last().is_some_and(|(_, cpus, _)| !cpus.is_empty()) =>
            {
                without.push(format!("node{number}"));
            }
            _ => {}
        }
    }
    // What is listed without memory is so, whatever was cut off.
    let may_tell = !output.is_cut || !without.is_empty();
    if let Some((.., line)) = lists.first().filter(|_| may_tell) {
        let names = line.known(joined(&without, ", "));
        facts.set(node, of_node::NUMA_WITHOUT_MEMORY, names);
    }
    nodes(output, facts, node, &lists);
}
