//! Which GPUs take part.

use std::sync::Arc;

use crate::fact::{Fact, Facts, Id, Subject, device, gpu};
use crate::small_sort;

/// The GPUs that CUDA shows, in its order; with names, those GPUs in the order of the names.
///
/// # Errors
///
/// A name that is that of no GPU, in words.
pub fn choose_gpus(facts: &Facts, node: Id, named: &[String]) -> Result<Vec<Arc<str>>, String> {
    let mut shown: Vec<(u64, Arc<str>)> = facts
        .below(node, Subject::Gpu)
        .filter(|id| facts.known(*id, gpu::IN_CUDA) == Some(true))
        .filter_map(|id| Some((facts.known(id, gpu::CUDA_INDEX)?, facts.name(id).into())))
        .collect();
    small_sort::by(&mut shown, Ord::cmp);
    if named.is_empty() {
        return Ok(shown.into_iter().map(|(_, pci)| pci).collect());
    }
    let mut chosen: Vec<Arc<str>> = Vec::new();
    for name in named {
        let lower = name.to_ascii_lowercase();
        let found = shown.iter().find(|(index, pci)| {
            index.to_string() == lower
                || **pci == *lower
                || pci.strip_prefix("0000:") == Some(&lower)
        });
        let Some((_, pci)) = found else {
            return Err(format!("--gpus {name}: CUDA shows no such GPU"));
        };
        if !chosen.contains(pci) {
            chosen.push(Arc::clone(pci));
        }
    }
    Ok(chosen)
}

/// Why a GPU is occupied, or may be.
pub(super) fn occupied(facts: &Facts, node: Id, pci: &str) -> Option<String> {
    let id = facts.find(Subject::Gpu, node, pci)?;
    match facts.get(id, gpu::FOREIGN_PROCESSES) {
        Fact::Known(0, _) => None,
        Fact::Known(_, _) => {
            let list = facts.known(id, gpu::FOREIGN_PROCESS_LIST);
            let list = list.map_or_else(String::new, |list| format!(": {}", list.join(", ")));
            Some(format!("GPU {pci} is used by other processes{list}"))
        }
        Fact::Unknown(gap) => Some(format!(
            "whether other processes use GPU {pci} is unknown: {gap}"
        )),
    }
}

/// The GPU for each port, of those that CUDA shows: the one whose nearest adapter has the port,
/// else one to which that adapter is as near as any, else one of its NUMA node. If all are far, the
/// ports take the GPUs in turn.
pub(super) fn nearest_gpus(
    facts: &Facts,
    node: Id,
    shown: &[Arc<str>],
    ports: &[&str],
) -> Vec<Option<Arc<str>>> {
    let known: Vec<(Id, &Arc<str>)> = shown
        .iter()
        .filter_map(|pci| Some((facts.find(Subject::Gpu, node, pci)?, pci)))
        .collect();
    let nearest = |(at, port): (usize, &&str)| {
        let name = port.split('/').next().unwrap_or(port);
        let numa = facts
            .find(Subject::Device, node, name)
            .and_then(|device| facts.known(device, device::NUMA_NODE));
        let own = |gpu: Id| facts.known(gpu, gpu::NEAR_NIC).is_some_and(|n| *n == *name);
        let near = |gpu: Id| {
            let all = facts.known(gpu, gpu::NEAR_NICS);
            all.is_some_and(|all| all.iter().any(|one| **one == *name))
        };
        let beside = |gpu: Id| numa.is_some() && facts.known(gpu, gpu::NUMA_NODE) == numa;
        let tests: [&dyn Fn(Id) -> bool; 3] = [&own, &near, &beside];
        let found = tests
            .iter()
            .find_map(|is| known.iter().find(|(id, _)| is(*id)));
        let found = found.map(|(_, pci)| *pci);
        let other = shown.get(at % shown.len().max(1));
        found.or(other).map(Arc::clone)
    };
    ports.iter().enumerate().map(nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Origin;

    fn stated<T>(value: T) -> Fact<T> {
        Fact::Known(value, Origin::Stated)
    }

    #[test]
    fn a_ports_data_is_on_the_nearest_gpu() {
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        for (device, numa) in [("mlx5_0", 0), ("mlx5_1", 0), ("mlx5_2", 1), ("mlx5_3", 7)] {
            let id = facts.instance(Subject::Device, node, device);
            facts.set(id, device::NUMA_NODE, stated(numa));
        }
        let gpus: [(&str, &str, &[&str], u64); 3] = [
            ("0000:1a:00.0", "mlx5_0", &["mlx5_0", "mlx5_1"], 0),
            ("0000:1b:00.0", "mlx5_0", &["mlx5_0"], 0),
            ("0000:9a:00.0", "", &[], 1),
        ];
        for (pci, own, near, numa) in gpus {
            let id = facts.instance(Subject::Gpu, node, pci);
            if !own.is_empty() {
                facts.set(id, gpu::NEAR_NIC, stated(own.into()));
            }
            let near: Arc<[Arc<str>]> = near.iter().map(|name| Arc::from(*name)).collect();
            facts.set(id, gpu::NEAR_NICS, stated(near));
            facts.set(id, gpu::NUMA_NODE, stated(numa));
        }
        let shown: Vec<Arc<str>> = gpus.iter().map(|gpu| Arc::from(gpu.0)).collect();
        let ports = ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1"];
        let of = |shown: &[Arc<str>]| nearest_gpus(&facts, node, shown, &ports);
        let near: Vec<_> = of(&shown).into_iter().flatten().collect();
        let expected = [
            "0000:1a:00.0",
            "0000:1a:00.0",
            "0000:9a:00.0",
            "0000:1a:00.0",
        ];
        assert_eq!(near, expected.map(Arc::from));
        // What CUDA does not show is not taken.
        let one = of(&shown[2..]);
        assert!(one.iter().all(|gpu| gpu.as_deref() == Some("0000:9a:00.0")));
        assert_eq!(of(&[]), [None, None, None, None]);
    }
}
