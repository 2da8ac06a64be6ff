//! What a benchmark's result is worth: how much of it the adapters of its hosts carry, by a
//! recording, by ports that the same text shows, or by what the text says of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::derive::arms::figure;
use crate::derive::bandwidth_model;
use crate::fact::benchmark::{self, BenchmarkTool};
use crate::fact::port::PortState;
use crate::fact::{
    BitRate, Facts, Id, Percent, Subject, device, gpu, host, limit, netdev, path, port, run,
};

/// A ceiling, and what it is of.
struct Bound {
    rate: BitRate,
    of: Arc<str>,
    /// Whether it counts what joins the GPUs of a host.
    is_whole: bool,
}

/// States what each result of a collective is compared with.
pub(super) fn derive(facts: &mut Facts) {
    for id in facts.all(Subject::Benchmark).collect::<Vec<_>>() {
        let tool = facts.known(id, benchmark::TOOL);
        match tool {
            Some(BenchmarkTool::Perftest) => {
                of_link(facts, id);
                continue;
            }
            Some(BenchmarkTool::Iperf3) => {
                of_interfaces(facts, id);
                continue;
            }
            _ => {}
        }
        let how = "the table, and what stands beside it";
        let hosts = hosts(facts, id);
        if let Some(hosts) = hosts {
            facts.derive(id, benchmark::HOSTS, hosts, how);
        }
        if let Some(size) = facts.known(id, benchmark::LARGEST) {
            let is_many = hosts.is_some_and(|hosts| hosts >= facts.limit(limit::MANY_NODES));
            let least = if is_many {
                facts.limit(limit::SMALL_OF_MANY)
            } else {
                facts.limit(limit::SMALL)
            };
            facts.derive(id, benchmark::SMALL, size < least, how);
        }
        let nvlink = facts.known(id, benchmark::GPUS).and_then(|m| nvlink(&m));
        facts.derive(id, benchmark::NVLINK, nvlink.is_some(), "the GPUs' model");
        let reached = facts.known(id, benchmark::BANDWIDTH);
        if let Some(rate) = reached {
            let figure = figure::bandwidth(rate).into();
            facts.derive(id, benchmark::FIGURE, figure, "the best row");
        }
        let found = hosts.and_then(|hosts| bound(facts, id, hosts, nvlink));
        facts.derive(id, benchmark::COMPARED, found.is_some(), how);
        let Some(Bound { rate, of, is_whole }) = found else {
            continue;
        };
        facts.derive(id, benchmark::CEILING, rate, of.to_string());
        facts.derive(id, benchmark::CEILING_WHOLE, is_whole, of.to_string());
        if let Some(reached) = reached {
            facts.derive(
                id,
                benchmark::OF_CEILING,
                share(reached, rate),
                of.to_string(),
            );
        }
        facts.derive(id, benchmark::CEILING_BOUND, of, how);
    }
}

/// Compares what a test between two ports reached with the slowest active port, or else interface,
/// that the same text shows.
fn of_link(facts: &mut Facts, id: Id) {
    let is_active = |port: &Id| facts.known(*port, port::STATE) != Some(PortState::Down);
    let rate = |port| facts.known(port, port::RATE);
    let ports = facts
        .all(Subject::Port)
        .filter(is_active)
        .filter_map(rate)
        .min();
    let interfaces = facts.all(Subject::Netdev);
    let speeds = interfaces
        .filter_map(|netdev| facts.known(netdev, netdev::SPEED))
        .min();
    let (Some(link), Some(reached)) = (ports.or(speeds), facts.known(id, benchmark::BANDWIDTH))
    else {
        return;
    };
    let how = "the slowest link that the same text shows";
    let figure = figure::bandwidth(reached).into();
    facts.derive(id, benchmark::FIGURE, figure, "the best row");
    facts.derive(id, benchmark::CEILING, link, how);
    facts.derive(id, benchmark::OF_CEILING, share(reached, link), how);
}

/// Compares what TCP reached with the fastest interface that the same text shows, and names the one that it fills: packets may take another
/// way than whoever measures believes.
fn of_interfaces(facts: &mut Facts, id: Id) {
    let Some(reached) = facts.known(id, benchmark::BANDWIDTH) else {
        return;
    };
    let mut interfaces: Vec<Interface> = Vec::new();
    for netdev in facts.all(Subject::Netdev) {
        if let Some(speed) = facts.known(netdev, netdev::SPEED) {
            let name = facts.shared_name(netdev);
            interfaces.push(Interface { name, speed });
        }
    }
    let Some(fastest) = interfaces.iter().max_by_key(|one| one.speed.0) else {
        return;
    };
    let (name, speed) = (Arc::clone(&fastest.name), fastest.speed);
    let filled = interfaces.iter().find(|one| {
        let share = share(reached, one.speed);
        one.speed.0 < speed.0 && share >= facts.limit(limit::FILLS_INTERFACE) && share.0 <= 100.0
    });
    let filled = filled.map(|one| Arc::clone(&one.name));
    let how = "the interfaces that the same text shows";
    let figure = figure::bandwidth(reached).into();
    facts.derive(id, benchmark::FIGURE, figure, "the best row");
    facts.derive(id, benchmark::CEILING, speed, how);
    facts.derive(id, benchmark::CEILING_BOUND, name, how);
    facts.derive(id, benchmark::OF_CEILING, share(reached, speed), how);
    if let Some(filled) = filled {
        facts.derive(id, benchmark::FILLED, filled, how);
    }
}

/// An interface and what it carries.
struct Interface {
    name: Arc<str>,
    speed: BitRate,
}

/// How much of a ceiling was reached.
fn share(reached: BitRate, ceiling: BitRate) -> Percent {
    let share = reached.0 as f64 / ceiling.0.max(1) as f64;
    Percent((share * 1000.0).round() / 10.0)
}

/// On how many hosts its ranks were: as it says, as NCCL says of the only run, or as many as hold
/// its ranks if each has as many GPUs as a host beside it.
fn hosts(facts: &Facts, id: Id) -> Option<u64> {
    let of_run = || {
        let mut runs = facts.all(Subject::Run);
        let only = runs.next().filter(|_| runs.next().is_none())?;
        facts.known(only, run::NODES)
    };
    let of_gpus = || {
        let ranks = facts.known(id, benchmark::RANKS)?;
        let nvidia = |gpu: &Id| facts.known(*gpu, gpu::NVIDIA) == Some(true);
        let count = |node| facts.below(node, Subject::Gpu).filter(nvidia).count() as u64;
        let each = facts.all(Subject::Node).map(count).max();
        Some(ranks.div_ceil(each.filter(|each| *each > 0)?))
    };
    let said = facts.known(id, benchmark::HOSTS);
    // Of ranks that joined no other nobody knows which printed the table.
    let joined = facts.known(id, benchmark::JOBS).is_none_or(|jobs| jobs < 2);
    said.or_else(|| joined.then(|| of_run().or_else(of_gpus)).flatten())
}

/// What it can reach at most. A tree over two hosts passes what the adapters carry: the ceiling is
/// that of a ring.
fn bound(facts: &Facts, id: Id, hosts: u64, nvlink: Option<BitRate>) -> Option<Bound> {
    if facts.known(id, benchmark::REDUCES) != Some(true) {
        return None;
    }
    let test = facts.known(id, benchmark::TEST);
    let is_all_reduce = test.is_none_or(|test| test.starts_with("all_reduce"));
    let name = match hosts {
        1 if is_all_reduce => "all-reduce-intra",
        1 => return None,
        _ => "all-reduce-inter-many",
    };
    let nodes = || facts.all(Subject::Node);
    let recorded = nodes().filter_map(|node| {
        let path = facts.find(Subject::Path, node, name)?;
        let by = facts.known(path, path::BOUND_BY)?.word();
        let at = facts.known(path, path::BOUND_WHERE)?;
        Some(Bound {
            rate: facts.known(path, path::BANDWIDTH)?,
            of: format!("{by} at {at} of {}", facts.name(node)).into(),
            is_whole: true,
        })
    });
    if let Some(found) = recorded.min_by_key(|bound| bound.rate) {
        return Some(found);
    }
    if hosts < 2 {
        return None;
    }
    let used = used_devices(facts);
    let shown = nodes().filter_map(|node| ports(facts, node, &used));
    let adapters = shown.min_by_key(|bound| bound.rate).or_else(|| {
        Some(Bound {
            rate: facts.known(id, benchmark::STATED_RATE)?,
            of: facts.known(id, benchmark::STATED_PORTS)?,
            is_whole: false,
        })
    })?;
    let has_one_rank = facts.known(id, benchmark::RANKS) == Some(hosts);
    Some(match nvlink {
        _ if has_one_rank => Bound {
            is_whole: true,
            ..adapters
        },
        Some(rate) if rate < adapters.rate => Bound {
            rate,
            of: format!("NVLink of {}", facts.known(id, benchmark::GPUS)?).into(),
            is_whole: true,
        },
        known => Bound {
            is_whole: known.is_some(),
            ..adapters
        },
    })
}

/// The devices that NCCL uses, as far as the log names them.
fn used_devices(facts: &Facts) -> BTreeSet<Arc<str>> {
    let hosts = facts.all(Subject::Host);
    let named = hosts.filter_map(|id| facts.known(id, host::HCAS));
    named.flat_map(|names| names.to_vec()).collect()
}

/// The fastest ports of a node that are active, together: a slower one carries storage or the
/// management.
fn ports(facts: &Facts, node: Id, used: &BTreeSet<Arc<str>>) -> Option<Bound> {
    let counts = |id: &Id| {
        let device = facts.ancestor(*id, Subject::Device);
        let is_soft = |id| facts.known(id, device::SOFTWARE) == Some(true);
        let is_used = |id| used.is_empty() || used.contains(facts.name(id));
        facts.known(*id, port::STATE) == Some(PortState::Active)
            && device.is_some_and(|device| !is_soft(device) && is_used(device))
    };
    let ports = facts.below(node, Subject::Port).filter(counts);
    let rates: Vec<u64> = ports
        .filter_map(|id| Some(facts.known(id, port::RATE)?.0))
        .collect();
    let most = *rates.iter().max()?;
    let count = rates.iter().filter(|rate| **rate == most).count();
    let ports = if count == 1 { "port" } else { "ports" };
    let of = format!(
        "{count} {ports} of {} on {}",
        BitRate(most),
        facts.name(node)
    );
    Some(Bound {
        rate: BitRate(most.saturating_mul(count as u64)),
        of: of.into(),
        is_whole: false,
    })
}

/// What a ring over the NVLinks of this model carries, by the part of its name that only boards
/// with NVLink between all GPUs have.
fn nvlink(model: &str) -> Option<BitRate> {
    // Version, links, and GB/s of one (NVIDIA's data sheets).
    const MODELS: [(&str, u64, f64, f64); 10] = [
        ("P100-SXM", 1, 4.0, 20.0),
        ("V100-SXM", 2, 6.0, 25.0),
        ("A100-SXM", 3, 12.0, 25.0),
        ("A800-SXM", 3, 8.0, 25.0),
        ("H800", 4, 8.0, 25.0),
        ("H100", 4, 18.0, 25.0),
        ("H200", 4, 18.0, 25.0),
        ("H20", 4, 18.0, 25.0),
        ("B200", 5, 18.0, 50.0),
        ("B300", 5, 18.0, 50.0),
    ];
    // Cards with a bridge, hosts with one GPU, and several models.
    let upper = model.to_uppercase();
    if ["PCI", " NVL", "GH200", ","]
        .iter()
        .any(|no| upper.contains(no))
    {
        return None;
    }
    let (_, version, links, speed) = MODELS.iter().find(|(name, ..)| upper.contains(name))?;
    let each = bandwidth_model::nvlink(*version, *speed)?;
    Some(bandwidth_model::rate(each * links))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_nvlink_joins() {
        let of = |model| nvlink(model).map(bandwidth_model::gigabytes);
        for (model, carries) in [
            ("Tesla V100-SXM2-32GB", Some(132.0)),
            ("NVIDIA A100-SXM4-80GB", Some(240.0)),
            ("NVIDIA H100 80GB HBM3", Some(370.8)),
            ("NVIDIA H20", Some(370.8)),
            ("NVIDIA GB200", Some(721.8)),
            ("NVIDIA H100 PCIe", None),
            ("NVIDIA H100 NVL", None),
            ("NVIDIA A100-PCIE-40GB", None),
            ("NVIDIA GH200 480GB", None),
            ("NVIDIA H100 80GB HBM3, NVIDIA A100-SXM4-80GB", None),
            ("NVIDIA L40S", None),
            ("AMD Instinct MI300X", None),
        ] {
            assert_eq!(of(model), carries, "{model}");
        }
    }
}
