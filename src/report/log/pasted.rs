//! What tools printed into a log, a sentence each.

use std::collections::BTreeMap;

use crate::fact::benchmark::{self, BenchmarkTool};
use crate::fact::port::PortState;
use crate::fact::{Facts, Id, Subject, gpu_nic, gpu_pair, node, port};
use crate::report::{plural, some};

/// One sentence for each benchmark, and for each node of which tools printed something.
pub(super) fn pasted_sentences(facts: &Facts) -> Vec<String> {
    let benchmarks = facts.all(Subject::Benchmark).map(|id| results(facts, id));
    let pasted = |id: &Id| facts.known(*id, node::PASTED) == Some(true);
    let nodes = facts.all(Subject::Node).filter(pasted);
    benchmarks
        .chain(nodes.filter_map(|id| printed(facts, id)))
        .collect()
}

/// `nccl-tests at job.log:12: 24 sizes up to 8 GiB, 3352 Gb/s (419 GB/s) bus bandwidth at best, …`
fn results(facts: &Facts, id: Id) -> String {
    let mut parts = Vec::new();
    let test = facts.known(id, benchmark::TEST);
    parts.extend(test.map(|test| test.to_string()));
    let tool = facts.known(id, benchmark::TOOL);
    if let (Some(ranks), Some(hosts)) = (
        facts.known(id, benchmark::RANKS),
        facts.known(id, benchmark::HOSTS),
    ) {
        let gpus = facts.known(id, benchmark::GPUS);
        let gpus = gpus.map_or(String::new(), |gpus| format!(" ({gpus})"));
        let (ranks, hosts) = (plural(ranks, "rank"), plural(hosts, "host"));
        parts.push(format!("{ranks} on {hosts}{gpus}"));
    }
    let what = match tool {
        Some(BenchmarkTool::Perftest) => "bandwidth",
        _ => "bus bandwidth",
    };
    if let Some(rows) = facts.known(id, benchmark::ROWS).filter(|rows| *rows > 0) {
        let to = facts.known(id, benchmark::LARGEST);
        let to = to.map_or(String::new(), |size| format!(" up to {size}"));
        parts.push(format!("{}{to}", plural(rows, "row")));
    }
    let gigabytes = |rate: crate::fact::BitRate| format!("{:.2} GB/s", rate.0 as f64 / 8e9);
    if let Some(rate) = facts.known(id, benchmark::BANDWIDTH) {
        parts.push(format!("{} {what} at best ({rate})", gigabytes(rate)));
    }
    if let Some(rate) = facts.known(id, benchmark::MEAN_BANDWIDTH) {
        parts.push(format!("{} mean", gigabytes(rate)));
    }
    if let Some(latency) = facts.known(id, benchmark::LATENCY) {
        parts.push(format!("{:.2} us", latency.0 * 1e6));
    }
    match (facts.known(id, benchmark::WRONG), tool) {
        (Some(0), _) => parts.push("all values right".into()),
        (Some(wrong), _) => parts.push(format!("{wrong} values wrong")),
        (None, Some(BenchmarkTool::NcclTests)) => parts.push("values not known to be right".into()),
        _ => {}
    }
    if facts.known(id, benchmark::COMPLETE) == Some(false) {
        parts.push("ends early".into());
    }
    let of = [
        facts.known(id, benchmark::DEVICE),
        facts.known(id, benchmark::LINK_LAYER),
    ];
    parts.extend(of.into_iter().flatten().map(|text| text.to_string()));
    let index = facts.known(id, benchmark::GID_INDEX);
    parts.extend(index.map(|index| format!("GID index {index}")));
    if let Some(status) = facts.known(id, benchmark::STATUS) {
        parts.push(format!("failed with status {status}"));
    }
    match parts.is_empty() {
        true => format!("{}: no row of results", facts.name(id)),
        false => format!("{}: {}", facts.name(id), parts.join(", ")),
    }
}

/// Ports by their states, and where GPUs have their adapters.
fn printed(facts: &Facts, id: Id) -> Option<String> {
    let mut parts = Vec::new();
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    for port in facts.below(id, Subject::Port) {
        let state = facts
            .known(port, port::STATE)
            .map_or("of unknown state", PortState::word);
        *states.entry(state).or_default() += 1;
    }
    let gids = facts.below(id, Subject::Gid).count() as u64;
    for (state, count) in states {
        parts.push(format!("{} {state}", plural(count, "port")));
    }
    if gids > 0 {
        parts.push(plural(gids, "GID"));
    }
    let events = facts.below(id, Subject::KernelEvent).count() as u64;
    if events > 0 {
        parts.push(format!("{} in the kernel's log", plural(events, "event")));
    }
    let gpus: Vec<Id> = facts.below(id, Subject::Gpu).collect();
    if !gpus.is_empty() {
        parts.push(plural(gpus.len() as u64, "GPU"));
        let pairs: Vec<Id> = facts.below(id, Subject::GpuPair).collect();
        let over = |pair: &&Id| facts.known(**pair, gpu_pair::NVLINK) == Some(true);
        let nvlinks = pairs.iter().filter(over).count();
        if nvlinks > 0 {
            parts.push(format!(
                "{nvlinks} of {} over NVLink",
                plural(pairs.len() as u64, "pair")
            ));
        }
        let mut near = Vec::new();
        let mut any = false;
        for gpu in &gpus {
            let nics = facts.below(*gpu, Subject::GpuNic).filter(|nic| {
                any = true;
                facts
                    .known(*nic, gpu_nic::DISTANCE)
                    .is_some_and(|d| d.is_near())
            });
            let names: Vec<String> = nics
                .filter_map(|nic| Some(facts.known(nic, gpu_nic::NIC)?.to_string()))
                .collect();
            if !names.is_empty() {
                near.push(format!("{} near {}", facts.name(*gpu), names.join(" and ")));
            }
        }
        match (any, near.is_empty()) {
            (true, true) => parts.push("no adapter near a GPU (PIX, PXB)".into()),
            (true, false) => parts.push(some(&near)),
            _ => {}
        }
    }
    (!parts.is_empty()).then(|| format!("{}: {}", facts.name(id), parts.join(", ")))
}
