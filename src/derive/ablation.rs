//! What a measurement reached of what the hardware carries, and which parts of the node took part
//! in it.

use super::Derivation;
use crate::derive::bandwidth_model::Shape;
use crate::fact::arm::{GpuDirectUse, InterNodeTransport};
use crate::fact::measurement::{self, MeasurementBackend};
use crate::fact::{Fact, Facts, Gap, Id, Subject, gpu};
use crate::measure::plan::collective::Collective;

use super::ceiling::{Network, Transport, Use, ceiling_of};

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new(
    "ablation",
    &[
        "gpu.nvidia",
        "gpu_nic",
        "gpu_nic.distance",
        "gpu_pair",
        "gpu_pair.first",
        "gpu_pair.second",
        "gpu_pair.way",
        "hop.bandwidth",
        "hop.possible_bandwidth",
        "hop.rest",
        "measurement.between",
        "measurement.busbw",
        "measurement.direct",
        "measurement.nvls",
        "measurement.pairs_net",
        "measurement.pairs_shm",
        "node.fabric_of_nodes",
        "selection",
        "selection.hcas",
        "selection.interfaces",
    ],
    derive,
);

/// Works out the facts of a node's measurements.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    for id in facts.below(node, Subject::Measurement).collect::<Vec<_>>() {
        ceiling(facts, node, id);
        took_part(facts, node, id);
    }
}

/// What the baseline reached of what the paths that it used carry.
fn ceiling(facts: &mut Facts, node: Id, id: Id) {
    let used = used(facts, id);
    let found = used.map_or_else(Fact::Unknown, |used| ceiling_of(facts, node, used));
    let busbw = found.clone().map(|ceiling| ceiling.busbw);
    facts.set(id, measurement::CEILING, busbw);
    let bound = found.clone().map(|ceiling| {
        let (by, place) = (ceiling.bound_by.word(), ceiling.bound_where);
        format!("{by} at {place}").into()
    });
    facts.set(id, measurement::CEILING_BOUND, bound);
    let share = found
        .zip(facts.get(id, measurement::BUSBW))
        .map(|(ceiling, busbw)| ceiling.share(busbw));
    facts.set(id, measurement::OF_CEILING, share);
}

/// What the baseline of a measurement used, by NCCL's log.
fn used(facts: &Facts, id: Id) -> Result<Use, Gap> {
    if facts.value(id, measurement::MEANS)? != MeasurementBackend::Nccl {
        return Err(Gap::missing("a measurement by NCCL"));
    }
    let operation = facts.value(id, measurement::OPERATION)?;
    let collective = Collective::from_word(&operation)
        .ok_or_else(|| Gap::missing("a collective of that name"))?;
    let shape = Shape {
        nodes: facts.value(id, measurement::NODES)?,
        ranks_per_node: facts.value(id, measurement::RANKS_PER_NODE)?,
    };
    // A ring is as fast as its slowest step: the slowest of the paths counts.
    let inside = if facts.value(id, measurement::PAIRS_NET)? > 0 {
        Transport::Net
    } else if facts.value(id, measurement::PAIRS_SHM)? > 0 {
        Transport::Shm
    } else {
        Transport::P2p
    };
    let between = match facts.value(id, measurement::BETWEEN)? {
        InterNodeTransport::Rdma => Some(Network::Rdma {
            gdr: matches!(
                facts.value(id, measurement::DIRECT)?,
                GpuDirectUse::All | GpuDirectUse::Some
            ),
        }),
        InterNodeTransport::Socket => Some(Network::Socket),
        InterNodeTransport::None => None,
        InterNodeTransport::Other | InterNodeTransport::NotLogged => {
            return Err(Gap::missing("what carried the traffic between nodes"));
        }
    };
    Ok(Use {
        collective,
        shape,
        inside,
        between,
        nvls: facts.known(id, measurement::NVLS),
    })
}

/// Relates a measurement, its arms and changes with what of the node took part: the whole node, or
/// the GPUs that were chosen, and all adapters.
fn took_part(facts: &mut Facts, node: Id, id: Id) {
    let chosen: Vec<Id> = facts
        .related(id)
        .iter()
        .copied()
        .filter(|other| facts.subject(*other) == Subject::Gpu)
        .collect();
    let all = facts.below(node, Subject::Gpu).count();
    let parts = if chosen.is_empty() || chosen.len() == all {
        vec![node]
    } else {
        let devices = facts.below(node, Subject::Device).collect::<Vec<_>>();
        let ways = chosen.iter().flat_map(|gpu| way_of(facts, node, *gpu));
        let ways = ways.collect::<Vec<_>>();
        chosen.into_iter().chain(devices).chain(ways).collect()
    };
    let mut own = vec![id];
    for subject in [Subject::Arm, Subject::Factor, Subject::Effect] {
        own.extend(facts.below(id, subject));
    }
    for one in own {
        for part in &parts {
            facts.relate(one, *part);
        }
        if one != id {
            // What a change does is felt by each arm.
            facts.relate(one, id);
        }
    }
}

/// What of PCIe a GPU's data crosses: the bridges above it, and the links between them.
fn way_of(facts: &Facts, node: Id, gpu: Id) -> Vec<Id> {
    let path = facts.texts(gpu, gpu::PATH);
    let bridges = path.filter_map(|pci| facts.find(Subject::Bridge, node, &pci));
    let related = facts.related(gpu).iter().copied();
    let hops = related.filter(|id| facts.subject(*id) == Subject::Hop);
    bridges.chain(hops).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{node, port, stated};
    use super::*;
    use crate::fact::port::PortState;
    use crate::fact::{Membership, Origin};

    #[test]
    fn what_took_part_touches_what_was_measured() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let p = port(&mut facts, n, "mlx5_0", PortState::Active, 400);
        let gpus = ["0000:1b:00.0", "0000:43:00.0"].map(|pci| facts.instance(Subject::Gpu, n, pci));
        let some = facts.instance(Subject::Measurement, n, "all-reduce 1 GiB");
        facts.set_members(Subject::Arm, some, Membership::Known(Origin::Stated));
        let arm = facts.instance(Subject::Arm, some, "baseline");
        let factor = facts.instance(Subject::Factor, some, "NCCL_IB_DISABLE=1");
        facts.relate(some, gpus[0]);
        let whole = facts.instance(Subject::Measurement, n, "all-reduce 2 GiB");
        derive(&mut facts, n);
        assert!(facts.touches(arm, gpus[0]) && facts.touches(arm, p));
        assert!(!facts.touches(arm, gpus[1]) && facts.touches(arm, factor));
        assert!(facts.touches(whole, gpus[1]));
    }

    #[test]
    fn without_a_log_there_is_no_ceiling() {
        let mut facts = Facts::new();
        let n = node(&mut facts);
        let id = facts.instance(Subject::Measurement, n, "all-reduce 1 GiB");
        facts.set(id, measurement::MEANS, stated(MeasurementBackend::Nccl));
        facts.set(id, measurement::OPERATION, stated("all-reduce".into()));
        facts.set(id, measurement::NODES, stated(2));
        facts.set(id, measurement::RANKS_PER_NODE, stated(8));
        facts.set(
            id,
            measurement::BETWEEN,
            stated(InterNodeTransport::NotLogged),
        );
        derive(&mut facts, n);
        assert_eq!(facts.known(id, measurement::CEILING), None);
        assert_eq!(facts.known(id, measurement::OF_CEILING), None);
    }
}
