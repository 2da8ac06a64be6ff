//! What a triage does, step by step, and how long each step takes.

use std::io::{self, Write};

use super::{TriageArgs, budget};
use crate::cli::output;
use crate::cli::together::{Role, TogetherArgs, role};

/// Above so many nodes halves are measured in place of all pairs: their number grows with the logarithm.
pub(super) const PAIRS_AT_MOST: u64 = 16;
/// How long a round of pairs takes, and a run of an all-reduce, in seconds.
const ROUND: u64 = 1;
const RUN: u64 = 8;
/// How long an operation of few bytes takes to measure, in seconds, and how many arms there are on one rail.
const LATENCY: u64 = 3;
const ARMS: u64 = 6;

/// How many nodes would take part.
pub(super) fn nodes(together: &TogetherArgs) -> anyhow::Result<u64> {
    Ok(match role(together, true)? {
        Some(Role::Node(place)) => place.nodes,
        Some(Role::Idle) | None => 1,
    })
}

/// Says the plan to a person before anything is measured.
pub(super) fn say(args: &TriageArgs, nodes: u64) {
    for line in lines(args, nodes) {
        output::say(&line);
    }
}

/// Writes the plan alone.
///
/// # Errors
///
/// The output's.
pub(super) fn write(out: &mut dyn Write, args: &TriageArgs, nodes: u64) -> io::Result<()> {
    lines(args, nodes)
        .iter()
        .try_for_each(|line| writeln!(out, "{line}"))
}

fn lines(args: &TriageArgs, nodes: u64) -> Vec<String> {
    let most = budget(args).as_secs();
    let who = match nodes {
        1 => "this node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    let mut steps = vec![format!("examine {who}: 5 to 20 s")];
    if args.full {
        steps.push("copies between GPUs, if there are any: 10 to 60 s".into());
    }
    let rest = most.saturating_sub(20);
    steps.push(format!(
        "an all-reduce with NCCL, then without each of its paths, if there are GPUs: {rest} s at most"
    ));
    if nodes == 1 {
        steps.push(format!(
            "else an all-reduce with RDMA, then with other connections, sizes and rails, if a port is active: {RUN} to {rest} s; else nothing: one node has no network to measure (--hosts NODE,NODE)"
        ));
    } else {
        steps.push(format!(
            "else an all-reduce with RDMA or TCP: {RUN} s; then one node and all: {} s",
            2 * RUN
        ));
        if does_pairs(args, nodes) {
            let rounds = nodes - 1 + nodes % 2;
            steps.push(format!("pairs of nodes: {} s", 3 + rounds * ROUND));
        }
        if nodes > 2 {
            let halves = u64::from(nodes.ilog2()) * 2 * RUN;
            steps.push(format!(
                "halves of the nodes, if they are slow and nothing else tells why: {halves} s"
            ));
        }
        steps.push(format!(
            "latency, if nothing tells why yet: {LATENCY} s; then with RDMA or TCP other connections, packets and messages, one rail after the other, TCP in place of RDMA: {} s",
            ARMS * 2 * RUN
        ));
    }
    let numbered = steps.iter().zip(1..);
    let numbered = numbered.map(|(step, number)| format!("  {number}. {step}"));
    let head = format!("plan for {who}; no step begins after {most} s (--time-budget):");
    [head].into_iter().chain(numbered).collect()
}

/// Whether all pairs of so many nodes are measured.
pub(super) fn does_pairs(args: &TriageArgs, nodes: u64) -> bool {
    nodes <= PAIRS_AT_MOST || args.full
}
