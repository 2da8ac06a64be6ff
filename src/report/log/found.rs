//! What tools printed into a log, a sentence each.

use crate::fact::benchmark::{self, BenchmarkTool};
use crate::fact::{Facts, Id, Subject, cluster, live_job, node, trace};
use crate::report::plural;
use crate::sentence::Sentence;
use crate::whole::is_figure_alone;

/// One sentence for each benchmark, and one for the outputs of other tools: with their key values
/// where
/// they are of one node.
pub(super) fn sentences(facts: &Facts) -> Vec<Sentence> {
    let benchmarks = facts.all(Subject::Benchmark).map(|id| results(facts, id));
    let tools = facts.known(Facts::CLUSTER, cluster::LOGS_OUTPUTS);
    let tools = tools.map(|tools| match valued(facts) {
        Some(values) => values.into(),
        None => format!("outputs of {}", tools.join(", ")).into(),
    });
    let mut all: Vec<Sentence> = benchmarks.chain(tools).collect();
    for id in facts.all(Subject::LiveJob) {
        let summary = facts.known(id, live_job::SUMMARY);
        all.extend(summary.map(|summary| summary.to_string().into()));
    }
    for id in facts.all(Subject::Trace) {
        let summary = facts.known(id, trace::SUMMARY).unwrap_or_default();
        if !summary.is_empty() {
            all.push(summary.to_string().into());
        }
    }
    all
}

/// Why nothing is said of a running job.
pub(super) fn withheld(facts: &Facts) -> impl Iterator<Item = String> + '_ {
    let jobs = facts.all(Subject::LiveJob);
    let untold = jobs.filter(|id| facts.known(*id, live_job::SUMMARY).is_none());
    untold.filter_map(|id| Some(facts.known(id, live_job::WITHHELD)?.to_string()))
}

/// `ibstat: 8 ports, 7 active, mlx5_5/1 down; …`
fn valued(facts: &Facts) -> Option<String> {
    let nodes: Vec<Id> = facts.all(Subject::Node).collect();
    let [node] = nodes.as_slice() else {
        return None;
    };
    let outputs = facts.known(*node, node::OUTPUTS)?;
    Some(outputs.join("; "))
}

/// `nccl-tests at job.log:12: 24 sizes up to 8 GiB, 3352 Gb/s (419 GB/s) bus bandwidth at best, …`
fn results(facts: &Facts, id: Id) -> Sentence {
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
    if let (Some(share), Some(ceiling), Some(of)) = (
        facts.known(id, benchmark::OF_CEILING),
        facts.known(id, benchmark::CEILING),
        facts.known(id, benchmark::CEILING_BOUND),
    ) && facts.known(id, benchmark::SMALL) == Some(false)
    {
        parts.push(format!("{share} of {ceiling} ({of})"));
    }
    if facts.known(id, benchmark::SMALL) == Some(true) {
        parts.push("too small to judge the bandwidth".into());
    }
    if is_figure_alone(facts, id) {
        parts.push("nothing says what the adapters carry".into());
    }
    if let Some(latency) = facts.known(id, benchmark::LATENCY) {
        let size = facts.known(id, benchmark::SMALLEST);
        let size = size.map_or(String::new(), |size| format!("{size} in "));
        parts.push(format!("{size}{:.2} us", latency.0 * 1e6));
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
    let name = Sentence::from(format!("{}: ", facts.name(id)));
    if parts.is_empty() {
        name.then("no row of results")
    } else {
        name.then(Sentence::joined(
            parts.into_iter().map(Sentence::from),
            ", ",
        ))
    }
}
