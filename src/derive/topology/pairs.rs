//! The pairs of a node: each GPU with each adapter, and each two GPUs.

use std::sync::Arc;

use super::Nic;
use super::distance::{self, PciLocation};
use crate::fact::gpu_nic::Distance;
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, Subject, gpu, gpu_nic, gpu_pair, node,
};
use crate::small_sort;

pub(super) fn place_of_gpu(facts: &Facts, gpu: Id) -> PciLocation {
    PciLocation {
        path: facts.get(gpu, gpu::PATH),
        numa_node: facts.get(gpu, gpu::NUMA_NODE),
    }
}

fn membership(gap: Option<Gap>, from: &'static str) -> Membership {
    Membership::known_unless(gap, Origin::derived(from))
}

/// Makes the pairs of GPUs and functions; gives for each GPU the distance to each function.
pub(super) fn gpu_nics(
    facts: &mut Facts,
    node: Id,
    gpus: &[Id],
    nics: &[Nic],
) -> Vec<Vec<Fact<Distance>>> {
    let numa_nodes = facts.get(node, node::NUMA_NODES);
    let all = facts.incomplete(node, Subject::Function);
    let mut distances = Vec::with_capacity(gpus.len());
    for &gpu in gpus {
        let place = place_of_gpu(facts, gpu);
        let row: Vec<Fact<Distance>> = nics
            .iter()
            .map(|nic| distance::distance(&place, &nic.place, &numa_nodes))
            .collect();
        let members = membership(all.clone(), "each RDMA function");
        facts.set_members(Subject::GpuNic, gpu, members);
        // A virtual GPU is where its physical one is.
        let is_virtual = facts.known(gpu, gpu::VIRTUAL_FUNCTION) == Some(true);
        for (nic, distance) in nics.iter().zip(&row).filter(|_| !is_virtual) {
            let name = [facts.name(gpu), " - ", facts.name(nic.function)].concat();
            let pair = facts.instance(Subject::GpuNic, gpu, &name);
            facts.relate(pair, nic.function);
            let how = "the function's RDMA device";
            facts.derive(pair, gpu_nic::NIC, Arc::clone(&nic.name), how);
            facts.set(pair, gpu_nic::DISTANCE, distance.clone());
        }
        distances.push(row);
    }
    distances
}

pub(super) fn gpu_pairs(facts: &mut Facts, node: Id, gpus: &[Id]) {
    let numa_nodes = facts.get(node, node::NUMA_NODES);
    let members = membership(facts.incomplete(node, Subject::Gpu), "each two GPUs");
    facts.set_members(Subject::GpuPair, node, members);
    let mut physical: Vec<(Id, PciLocation)> = gpus
        .iter()
        .filter(|gpu| facts.known(**gpu, gpu::VIRTUAL_FUNCTION) != Some(true))
        .map(|gpu| (*gpu, place_of_gpu(facts, *gpu)))
        .collect();
    // Libraries find GPUs in another order than the bus, and a pair has one name.
    small_sort::by(&mut physical, |(a, _), (b, _)| {
        facts.name(*a).cmp(facts.name(*b))
    });
    for (at, (first, here)) in physical.iter().enumerate() {
        for (second, there) in physical.iter().skip(at + 1) {
            let (a, b) = (facts.shared_name(*first), facts.shared_name(*second));
            let pair = facts.instance(Subject::GpuPair, node, &[&*a, " - ", &*b].concat());
            facts.relate(pair, *first);
            facts.relate(pair, *second);
            facts.derive(pair, gpu_pair::FIRST, a, "the lower address");
            facts.derive(pair, gpu_pair::SECOND, b, "the higher address");
            let distance = distance::distance(here, there, &numa_nodes);
            facts.set(pair, gpu_pair::DISTANCE, distance);
        }
    }
}
