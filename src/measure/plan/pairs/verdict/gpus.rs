//! What is said of GPUs' memory: adapters that do not get it, ways on which it does not go though
//! the host's does, and ways on which it is much slower.

use std::collections::{BTreeMap, BTreeSet};

use super::wording::{self, rate};
use super::{Direction, Suspect, SuspectProblem, Thresholds, tried, with_weak};
use crate::measure::plan::pairs::outlier_attribution::Blame;
use crate::measure::plan::pairs::schedule::End;
use crate::measure::plan::pairs::{Flow, Gpu, Memory, PairDirection, Results};
use crate::sentence::sentence;

/// All that is accused for GPUs' memory; `silent` nodes are accused of that.
pub(super) fn suspects(
    results: &Results,
    silent: &BTreeSet<usize>,
    thresholds: &Thresholds,
) -> Vec<Suspect> {
    if !results.plan.memory.contains(&Memory::Gpu) {
        return Vec::new();
    }
    let mut found = without(results, silent);
    let mut ways = results.ways_on_gpus();
    ways.retain(|way| !silent.contains(&way.from.0) && !silent.contains(&way.to.0));
    // What fails in the host's memory has nothing to do with GPUs.
    let host = |way: PairDirection| results.flow(way).filter(|flow| flow.failed.is_none());
    let on_gpus = |way: PairDirection| results.flow_on_gpus(way);
    let fails = |way: &PairDirection| {
        let broken = |flow: &Flow| flow.failed.is_some() && flow.arrived == Some(false);
        host(*way).is_some() && on_gpus(*way).is_some_and(broken)
    };
    let is_tried = |way: &PairDirection| {
        let is = |flow: &Flow| flow.failed.is_none() || flow.arrived.is_some();
        host(*way).is_some() && on_gpus(*way).is_some_and(is)
    };
    let bad: BTreeSet<PairDirection> = ways.iter().copied().filter(fails).collect();
    let problem = SuspectProblem::GpuFails;
    found.extend(accused(results, problem, &ways, &bad, is_tried));
    let share = |way: &PairDirection| Some(on_gpus(*way)?.rate()? / host(*way)?.rate()?);
    let is_slow = |way: &PairDirection, is_beside: bool| {
        share(way).is_some_and(|share| share < thresholds.slow_on_gpus.value(is_beside))
    };
    let bad = with_weak(&ways, is_slow).all;
    let (problem, is_measured) = (SuspectProblem::GpuSlow, |way: &_| share(way).is_some());
    found.extend(accused(results, problem, &ways, &bad, is_measured));
    found
}

/// The fewest that explain these ways.
fn accused(
    results: &Results,
    problem: SuspectProblem,
    ways: &[PairDirection],
    bad: &BTreeSet<PairDirection>,
    is_known: impl Fn(&PairDirection) -> bool,
) -> Vec<Suspect> {
    let tried = tried(ways, bad, |way| is_known(way) || is_known(&way.back()));
    let one = |blame: Blame| {
        let accusing = bad.iter().filter(|way| blame.covers(way.ends()));
        suspect(results, problem, blame, accusing.copied().collect())
    };
    let blamed = super::accused(results, &tried);
    blamed.into_iter().map(one).collect()
}

fn suspect(
    results: &Results,
    problem: SuspectProblem,
    blame: Blame,
    ways: Vec<PairDirection>,
) -> Suspect {
    let direction = wording::direction(blame, &ways);
    let name = wording::name(results, blame, direction);
    let others = wording::others(results, blame, &ways);
    let gpus = match blame {
        Blame::Adapter(end) => match gpu(results, end).and_then(|gpu| gpu.pci.clone()) {
            Some(pci) => format!(" (GPU {pci})"),
            None => String::new(),
        },
        _ => String::new(),
    };
    let between = match (blame, direction) {
        (Blame::Pair(..) | Blame::Everything | Blame::Rail(_) | Blame::Cut(_), _) => String::new(),
        (_, Direction::Out) => format!(" to {others}"),
        (_, Direction::In) => format!(" from {others}"),
        (_, Direction::Both) => format!(" with {others}"),
    };
    let flows = || ways.iter().filter_map(|way| results.flow_on_gpus(*way));
    let what = match problem {
        SuspectProblem::GpuFails => {
            let why = flows().find_map(|flow| flow.failed.clone());
            let why = why.unwrap_or_default();
            sentence!(
                "{name}{gpus}: RDMA writes from GPU to GPU{between} fail",
                " ({why})",
                ", those in the host's memory arrive"
            )
        }
        _ => {
            let most = |rates: Vec<f64>| rate(rates.into_iter().fold(0.0, f64::max));
            let own = most(flows().filter_map(Flow::rate).collect());
            let host = ways.iter().filter_map(|way| results.flow(*way)?.rate());
            let host = most(host.collect());
            sentence!(
                "{name}{gpus} is slow from GPU to GPU: {own} at most{between}",
                ", where the same ports carry {host} in the host's memory"
            )
        }
    };
    Suspect {
        direction,
        ..Suspect::of(problem, Some(blame), name, what, ways)
    }
}

fn gpu(results: &Results, end: End) -> Option<&Gpu> {
    results.plan.rail(end)?.gpu.as_ref()
}

/// The adapters that reached the memory of no GPU; a reason that all adapters of a node share is
/// said once.
fn without(results: &Results, silent: &BTreeSet<usize>) -> Vec<Suspect> {
    let plan = &results.plan;
    let mut found = Vec::new();
    for (node, member) in plan.nodes.iter().enumerate() {
        if silent.contains(&node) {
            continue;
        }
        // By the obstacle, and by whether the node says that there is none.
        let mut obstacles: BTreeMap<(String, Option<String>), Vec<usize>> = BTreeMap::new();
        for (at, rail) in member.rails.iter().enumerate().take(plan.rails()) {
            let (why, by_facts) = match &rail.gpu {
                Some(gpu) if gpu.way.is_some() => continue,
                Some(gpu) => (gpu.why.clone(), gpu.by_facts.clone()),
                None => (Some("nobody asked for one there".to_owned()), None),
            };
            let by_facts = by_facts.filter(|way| way != "none");
            let key = (why.unwrap_or_default(), by_facts);
            obstacles.entry(key).or_default().push(at);
        }
        let rails = plan.rails();
        for ((why, by_facts), at) in obstacles {
            let blame = match at.as_slice() {
                [rail] if rails > 1 => Blame::Adapter((node, *rail)),
                _ => Blame::Node(node),
            };
            let told = |at: &usize| {
                let rail = member.rails.get(*at);
                let label = rail.map_or("?", |rail| rail.label(plan.backend));
                let pci = rail.and_then(|rail| rail.gpu.as_ref()?.pci.clone());
                match pci {
                    Some(pci) => format!("{label} (GPU {pci})"),
                    None => label.to_owned(),
                }
            };
            let labels: Vec<String> = at.iter().map(told).collect();
            let host = &member.host;
            let labels = labels.join(", ");
            let own = sentence!("{host}: {labels} cannot register GPU memory");
            let (problem, what) = match by_facts {
                Some(way) => (
                    SuspectProblem::GpuFails,
                    own.then_optionally(format!(", though the node has GPUDirect RDMA by {way}"))
                        .then_optionally(format!(": {why}")),
                ),
                None => (
                    SuspectProblem::GpuNone,
                    own.then_optionally(format!(": {why}")),
                ),
            };
            let name = match blame {
                Blame::Adapter(end) => plan.name(end),
                _ => host.clone(),
            };
            let is_own = |end: End| end.0 == node && at.contains(&end.1);
            let mut ways = results.ways();
            ways.retain(|way| is_own(way.from) || is_own(way.to));
            found.push(Suspect::of(problem, Some(blame), name, what, ways));
        }
    }
    found
}
