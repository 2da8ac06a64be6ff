//! What the GPUs of one node exchange: over NVLink, over PCIe, through the host's memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::term::{Term, least};
use super::{does, is_nvidia};
use crate::derive::bandwidth_model;
use crate::fact::gpu_pair::{P2p, P2pPath};
use crate::fact::hop::IdleReduction;
use crate::fact::kleene::Several;
use crate::fact::nccl_version::Version;
use crate::fact::node::CpuVendor;
use crate::fact::path::BoundBy;
use crate::fact::variable::VariableEffect;
use crate::fact::{BitRate, Facts, Gap, Id, Subject, bridge, gpu, gpu_pair, hop, node, nvlink};

/// The node's GPUs that NCCL can use.
pub(super) fn gpus(facts: &Facts, node: Id) -> Result<Vec<Id>, Gap> {
    facts.incomplete(node, Subject::Gpu).map_or(Ok(()), Err)?;
    let mut found = Vec::new();
    for id in facts.below(node, Subject::Gpu) {
        if is_nvidia(facts, id)? {
            found.push(id);
        }
    }
    Ok(found)
}

/// Whether one of them has NVLinks.
fn has_nvlink(facts: &Facts, gpus: &[Id]) -> Result<bool, Gap> {
    let links = gpus.iter().map(|id| facts.get(*id, gpu::NVLINKS));
    links.collect::<Several<u64>>().any(|links| *links > 0)
}

/// The pairs of these GPUs.
fn pairs(facts: &Facts, node: Id, gpus: &[Id]) -> Result<Vec<(Id, usize, usize)>, Gap> {
    facts
        .incomplete(node, Subject::GpuPair)
        .map_or(Ok(()), Err)?;
    let place = |name: Arc<str>| gpus.iter().position(|gpu| *facts.name(*gpu) == *name);
    let mut found = Vec::new();
    for id in facts.below(node, Subject::GpuPair) {
        let first = place(facts.value(id, gpu_pair::FIRST)?);
        let second = place(facts.value(id, gpu_pair::SECOND)?);
        if let (Some(first), Some(second)) = (first, second) {
            found.push((id, first, second));
        }
    }
    Ok(found)
}

/// What joins two GPUs, without the host's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    /// NVLink.
    Nvlink,
    /// NVLink, or PCIe as far as NCCL goes by it.
    Any,
}

/// Which GPUs are joined, directly or over others of them: the first of its group for each.
fn groups(facts: &Facts, node: Id, gpus: &[Id], by: Join) -> Result<Vec<usize>, Gap> {
    let mut group: Vec<usize> = (0..gpus.len()).collect();
    let mut open = None;
    if by == Join::Nvlink && !has_nvlink(facts, gpus)? {
        return Ok(group);
    }
    for (id, first, second) in pairs(facts, node, gpus)? {
        let joins = match (facts.value(id, gpu_pair::WAY), by) {
            (Ok(P2pPath::Nvlink | P2pPath::Nvswitch), _) => Ok(true),
            (Ok(P2pPath::PcieSwitch | P2pPath::Host), Join::Nvlink) => Ok(false),
            (Ok(P2pPath::PcieSwitch | P2pPath::Host), Join::Any) => reach(facts, node, gpus, id),
            (Err(gap), _) => Err(gap),
        };
        match joins {
            Ok(true) => {
                let (from, to) = match (group.get(first), group.get(second)) {
                    (Some(a), Some(b)) => (*a.max(b), *a.min(b)),
                    _ => continue,
                };
                for one in group.iter_mut().filter(|one| **one == from) {
                    *one = to;
                }
            }
            Ok(false) => {}
            Err(gap) => open = open.or(Some(gap)),
        }
    }
    match open {
        // A pair of which it is not known how it is joined adds nothing where all are.
        Some(gap) if group.iter().any(|one| *one != 0) => Err(gap),
        _ => Ok(group),
    }
}

/// Whether NVLinks join all GPUs.
pub(super) fn joined(facts: &Facts, node: Id, gpus: &[Id]) -> Result<bool, Gap> {
    Ok(is_one(&groups(facts, node, gpus, Join::Nvlink)?))
}

fn is_one(groups: &[usize]) -> bool {
    groups.iter().all(|one| *one == 0)
}

/// A ring over NVLinks: what those of the GPU that has least carry.
pub(super) fn nvlink(facts: &Facts, node: Id, gpus: &[Id]) -> Result<Term, Gap> {
    if !joined(facts, node, gpus)? {
        return Err(Gap::missing("an NVLink between all GPUs"));
    }
    let each = gpus.iter().map(|id| {
        let (carries, count) = links(facts, *id)?;
        Ok(Term {
            carries,
            by: BoundBy::Nvlink,
            at: format!("{count} NVLinks of GPU {}", facts.name(*id)).into(),
        })
    });
    let each = each.collect::<Result<Vec<Term>, Gap>>()?;
    least(&each).ok_or_else(|| Gap::missing("a GPU"))
}

/// What the active NVLinks of a GPU carry, and how many they are.
fn links(facts: &Facts, gpu: Id) -> Result<(f64, usize), Gap> {
    facts.members(Subject::Nvlink, gpu)?;
    let (mut sum, mut count) = (0.0, 0);
    for id in facts.below(gpu, Subject::Nvlink) {
        if !facts.value(id, nvlink::ACTIVE)? {
            continue;
        }
        let version = facts.value(id, nvlink::VERSION)?;
        let speed = bandwidth_model::gigabytes(facts.value(id, nvlink::SPEED)?);
        let link = bandwidth_model::nvlink(version, speed)
            .ok_or_else(|| Gap::missing(format!("what NVLink {version} carries")))?;
        sum += link;
        count += 1;
    }
    Ok((sum, count))
}

/// Whether switches of NVLink add for NCCL (NVLS): GPUs and fabric can, and NCCL is not told to
/// leave it.
pub(super) fn switches_add(facts: &Facts, node: Id, gpus: &[Id]) -> Result<bool, Gap> {
    // Two GPUs gain nothing by it, and without NVLinks to switches nothing adds.
    if gpus.len() < 3 || !has_nvlink(facts, gpus)? {
        return Ok(false);
    }
    let disabled = does(facts, node, VariableEffect::NvlsDisabled);
    let each = gpus.iter().flat_map(|id| {
        let links = facts.value(*id, gpu::NVLINKS_TO_SWITCH);
        [links.map(|n| n > 0), facts.value(*id, gpu::MULTICAST)]
    });
    let needs: Several<bool> = each.chain([disabled.map(|is| !is)]).collect();
    needs.all(|is| *is)
}

/// What a PCIe link carries of data, one that rests at its best.
pub(super) fn of_hop(facts: &Facts, hop: Id) -> Result<f64, Gap> {
    let key = match facts.value(hop, hop::REST)? {
        IdleReduction::Nothing => hop::BANDWIDTH,
        IdleReduction::Speed | IdleReduction::SpeedAndWidth => hop::POSSIBLE_BANDWIDTH,
    };
    let raw: BitRate = facts.value(hop, key)?;
    Ok(bandwidth_model::pcie(bandwidth_model::gigabytes(raw)))
}

/// The PCIe links of the path of a GPU or an adapter, from the root down.
pub(super) fn hops(facts: &Facts, endpoint: Id) -> Vec<Id> {
    let mut found: Vec<Id> = Vec::new();
    for id in facts.related(endpoint) {
        if facts.subject(*id) == Subject::Hop && !found.contains(id) {
            found.push(*id);
        }
    }
    found
}

/// The PCIe links above these GPUs, each with the GPUs below it, as places in the list.
fn above(facts: &Facts, node: Id, gpus: &[Id]) -> Result<Vec<(Id, Vec<usize>)>, Gap> {
    facts.members(Subject::Hop, node)?;
    let mut found: Vec<(Id, Vec<usize>)> = Vec::new();
    for (at, gpu) in gpus.iter().enumerate() {
        if facts.known(*gpu, gpu::COHERENT) == Some(true) {
            return Err(Gap::missing("what the coherent link to the CPU carries"));
        }
        let own = hops(facts, *gpu);
        if own.is_empty() {
            let name = facts.name(*gpu);
            return Err(Gap::missing(format!("a PCIe link of GPU {name}")));
        }
        for hop in own {
            match found.iter_mut().find(|(id, _)| *id == hop) {
                Some((_, below)) => below.push(at),
                None => found.push((hop, vec![at])),
            }
        }
    }
    Ok(found)
}

/// A ring over PCIe from GPU to GPU: it enters and leaves each switch once, so each link that it
/// crosses carries it once.
pub(super) fn pcie(facts: &Facts, node: Id, gpus: &[Id]) -> Result<Term, Gap> {
    let mut terms = Vec::new();
    for (hop, below) in above(facts, node, gpus)? {
        // What is above all GPUs the ring does not cross.
        if below.len() < gpus.len() {
            terms.push(Term {
                carries: of_hop(facts, hop)?,
                by: BoundBy::PcieHop,
                at: facts.name(hop).into(),
            });
        }
    }
    least(&terms).ok_or_else(|| Gap::missing("a PCIe link between the GPUs"))
}

/// A ring through the host's memory: what writes to it and what reads from it, for each group of
/// GPUs that reach each other without, and for each GPU where none do. A link carries as many of
/// these as are below it.
pub(super) fn shm(facts: &Facts, node: Id, gpus: &[Id]) -> Result<Term, Gap> {
    let each = || (0..gpus.len()).collect();
    let groups: Vec<usize> = if does(facts, node, VariableEffect::P2pDisabled)? {
        each()
    } else {
        match groups(facts, node, gpus, Join::Any)? {
            // Where all reach each other and it is used for all that, it is for all of them.
            one if is_one(&one) => each(),
            several => several,
        }
    };
    let mut terms = Vec::new();
    for (hop, below) in above(facts, node, gpus)? {
        let flows = below.iter().filter_map(|at| groups.get(*at));
        let flows: BTreeSet<&usize> = flows.collect();
        let by = match flows.len() {
            1 => BoundBy::PcieHop,
            _ => BoundBy::SharedHop,
        };
        terms.push(Term {
            carries: of_hop(facts, hop)? / flows.len().max(1) as f64,
            by,
            at: facts.name(hop).into(),
        });
    }
    least(&terms).ok_or_else(|| Gap::missing("a PCIe link of the GPUs"))
}

/// From GPU to GPU: over NVLink where it joins all, else over PCIe.
pub(super) fn p2p(facts: &Facts, node: Id, gpus: &[Id]) -> Result<Term, Gap> {
    if joined(facts, node, gpus)? {
        nvlink(facts, node, gpus)
    } else {
        pcie(facts, node, gpus)
    }
}

/// What NCCL will choose inside the node.
pub(super) fn chosen(facts: &Facts, node: Id, gpus: &[Id]) -> Result<Term, Gap> {
    if does(facts, node, VariableEffect::P2pDisabled)? {
        return if does(facts, node, VariableEffect::ShmDisabled)? {
            Err(Gap::missing("what adapters carry between GPUs of one node"))
        } else {
            shm(facts, node, gpus)
        };
    }
    if joined(facts, node, gpus)? {
        return nvlink(facts, node, gpus);
    }
    if is_one(&groups(facts, node, gpus, Join::Any)?) {
        pcie(facts, node, gpus)
    } else {
        shm(facts, node, gpus)
    }
}

/// Whether NCCL goes from GPU to GPU over PCIe between these two: NVML says that they can, and NCCL
/// does it at their distance.
fn reach(facts: &Facts, node: Id, gpus: &[Id], pair: Id) -> Result<bool, Gap> {
    let statuses = [
        gpu_pair::P2P_READ,
        gpu_pair::P2P_READ_BACK,
        gpu_pair::P2P_WRITE,
        gpu_pair::P2P_WRITE_BACK,
    ];
    let statuses = statuses.map(|key| facts.value(pair, key).map(|status| status == P2p::Ok));
    let near = match facts.value(pair, gpu_pair::DISTANCE) {
        Ok(distance) if distance.is_near() => Ok(true),
        Ok(_) => crosses_host(facts, node, gpus),
        Err(gap) => Err(gap),
    };
    let needs: Several<bool> = statuses.into_iter().chain([near]).collect();
    needs.all(|is| *is)
}

/// Whether NCCL goes from GPU to GPU through the host bridge by itself. Since 2.23.4 only on AMD's
/// CPUs with at most two GPUs; before, everywhere but on ARM and Intel (src/graph/paths.cc,
/// `ncclTopoCheckP2p`).
fn crosses_host(facts: &Facts, node: Id, gpus: &[Id]) -> Result<bool, Gap> {
    // NCCL_P2P_LEVEL says otherwise, whatever it says.
    let level = facts.find(Subject::Variable, node, "NCCL_P2P_LEVEL");
    if level.is_some() {
        return Err(Gap::missing("how far NCCL_P2P_LEVEL lets GPUs reach"));
    }
    facts.members(Subject::Variable, node)?;
    let version = facts.get(node, node::NCCL_VERSION);
    let version = version.and_then(|text| Version::parse(&text));
    let version = version.into_result()?;
    let vendor = facts.value(node, node::CPU_VENDOR)?;
    let since = Version(2, 23, 4);
    Ok(match vendor {
        CpuVendor::Amd => version < since || gpus.len() <= 2,
        CpuVendor::Intel | CpuVendor::Arm => false,
        CpuVendor::Other if version >= since => false,
        CpuVendor::Other => return Err(Gap::missing("what NCCL makes of this CPU")),
    })
}

/// Whether a switch between an adapter and a GPU sends their traffic up to the root complex (ACS).
pub(super) fn redirects(facts: &Facts, node: Id, ports: [&str; 2]) -> Result<bool, Gap> {
    let redirects = ports.map(|port| match facts.find(Subject::Bridge, node, port) {
        Some(id) => facts.value(id, bridge::ACS_REDIRECT),
        None => Err(Gap::missing(format!("PCIe bridge {port}"))),
    });
    let redirects: Several<bool> = redirects.into_iter().collect();
    redirects.any(|is| *is)
}
