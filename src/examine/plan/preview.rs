//! What a triage does, step by step, and how long each step takes.

use super::TriagePlan;

/// Above so many nodes halves are measured in place of all pairs: their number grows with the
/// logarithm.
const PAIRS_AT_MOST: u64 = 16;
/// How long a round of pairs takes, and a run of an all-reduce, in seconds.
const ROUND: u64 = 1;
const RUN: u64 = 8;
/// How long an operation of few bytes takes to measure, in seconds, and how many arms there are on
/// one rail.
const LATENCY: u64 = 3;
const ARMS: u64 = 6;

/// The steps in lines, for so many nodes.
pub fn lines(plan: &TriagePlan, nodes: u64) -> Vec<String> {
    let most = plan.budget.as_secs();
    let who = match nodes {
        1 => "this node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    let mut steps = vec![format!("examine {who}: 5 to 20 s")];
    if plan.full {
        steps.push("copies between GPUs, if there are any: 10 to 60 s".into());
    }
    let rest = most.saturating_sub(20);
    let with_gpus =
        format!("with NCCL, then without each of its paths, if there are GPUs: {rest} s at most");
    if nodes == 1 {
        steps.push(format!("an all-reduce {with_gpus}"));
        steps.push(format!(
            "else an all-reduce with RDMA, then with other connections, sizes and rails, if a port is active: {RUN} to {rest} s; else nothing: one node has no network to measure (--hosts NODE,NODE)"
        ));
    } else {
        if does_pairs(plan, nodes) {
            let rounds = nodes - 1 + nodes % 2;
            steps.push(format!(
                "who reaches whom, and what pairs of nodes carry: {} s; nodes that cannot be reached take no part in what follows",
                3 + rounds * ROUND
            ));
            steps.push("other networks between the nodes, if there are any: 1 s each".into());
        }
        steps.push(format!("an all-reduce {with_gpus}"));
        steps.push(format!(
            "else an all-reduce with RDMA or TCP: {RUN} s; then one node and all: {} s",
            2 * RUN
        ));
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
pub(super) fn does_pairs(plan: &TriagePlan, nodes: u64) -> bool {
    nodes <= PAIRS_AT_MOST || plan.full
}
