//! Which GPU goes with which adapter, and where several GPUs have to share one though an equal one
//! has none.

/// What each GPU gets, and what nobody gets.
pub(super) struct Pairing {
    /// The adapter of each GPU, an index; `None` for a GPU that has no adapter to choose from.
    pub(super) of_gpu: Vec<Option<usize>>,
    /// GPUs that cannot all have an adapter of their own: more of them share adapters than there
    /// are.
    pub(super) crowded: Vec<bool>,
    /// Adapters that are the nearest of no GPU.
    pub(super) idle: Vec<bool>,
}

/// Pairs GPUs with adapters: `near[g]` are the adapters that are equally near to GPU `g`, and
/// nearer than all others.
///
/// Each GPU gets one of its nearest, as many different ones as can be (a maximum matching); GPUs
/// that are left over share the least loaded of theirs, as NCCL does (src/graph/topo.cc,
/// ncclTopoGetLocalNet spreads the GPUs over the adapters that are equally near).
pub(super) fn pair(near: &[Vec<usize>], adapters: usize) -> Pairing {
    let mut holder: Vec<Option<usize>> = vec![None; adapters];
    let mut crowded = vec![false; near.len()];
    let mut left = Vec::new();
    for gpu in 0..near.len() {
        let mut seen = vec![false; adapters];
        if !augment(near, gpu, &mut seen, &mut holder) {
            left.push((gpu, seen));
        }
    }
    let mut load = vec![0usize; adapters];
    let mut of_gpu = vec![None; near.len()];
    for (adapter, gpu) in holder.iter().enumerate() {
        if let Some(gpu) = gpu {
            of_gpu[*gpu] = Some(adapter);
            load[adapter] = 1;
        }
    }
    for (gpu, seen) in left {
        // What the search for an adapter passed through is what these GPUs have between them: too
        // few.
        for (adapter, _) in seen.iter().enumerate().filter(|(_, seen)| **seen) {
            if let Some(rival) = holder[adapter] {
                crowded[rival] = true;
            }
        }
        crowded[gpu] = !near[gpu].is_empty();
        let least = near[gpu].iter().copied().min_by_key(|n| (load[*n], *n));
        if let Some(adapter) = least {
            load[adapter] += 1;
            of_gpu[gpu] = Some(adapter);
        }
    }
    let mut idle = vec![true; adapters];
    for adapter in near.iter().flatten() {
        idle[*adapter] = false;
    }
    Pairing {
        of_gpu,
        crowded,
        idle,
    }
}

/// Finds an adapter for a GPU, moving others to their other choices where that helps.
fn augment(
    near: &[Vec<usize>],
    gpu: usize,
    seen: &mut [bool],
    holder: &mut [Option<usize>],
) -> bool {
    // What is free is taken first, so that equals are paired in their order.
    let free = |adapter: &&usize| holder[**adapter].is_none();
    if let Some(&adapter) = near[gpu].iter().find(free) {
        seen[adapter] = true;
        holder[adapter] = Some(gpu);
        return true;
    }
    for &adapter in &near[gpu] {
        if std::mem::replace(&mut seen[adapter], true) {
            continue;
        }
        let free = match holder[adapter] {
            None => true,
            Some(other) => augment(near, other, seen, holder),
        };
        if free {
            holder[adapter] = Some(gpu);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_gpus_and_two_adapters_on_each_switch() {
        let near: Vec<Vec<usize>> = (0..8).map(|g| vec![g / 2 * 2, g / 2 * 2 + 1]).collect();
        let pairing = pair(&near, 8);
        let got: Vec<usize> = pairing.of_gpu.iter().copied().flatten().collect();
        assert_eq!(got, (0..8).collect::<Vec<_>>());
        assert!(!pairing.crowded.contains(&true) && !pairing.idle.contains(&true));
    }

    #[test]
    fn one_adapter_for_two_gpus_by_design() {
        let near: Vec<Vec<usize>> = (0..8).map(|g| vec![g / 2]).collect();
        let pairing = pair(&near, 4);
        assert_eq!(pairing.of_gpu, [0, 0, 1, 1, 2, 2, 3, 3].map(Some).to_vec());
        assert!(!pairing.idle.contains(&true));
    }

    #[test]
    fn two_gpus_claim_one_and_another_has_none() {
        // NVIDIA/nccl#820: one level of bridges too many puts adapter 1 further from GPU 1 than
        // adapter 0.
        let near = vec![vec![0], vec![0], vec![2], vec![3]];
        let pairing = pair(&near, 4);
        assert_eq!(pairing.crowded, [true, true, false, false]);
        assert_eq!(pairing.idle, [false, true, false, false]);
        assert_eq!(pairing.of_gpu, [0, 0, 2, 3].map(Some).to_vec());
    }

    #[test]
    fn a_gpu_moves_over_where_it_can() {
        let pairing = pair(&[vec![0, 1], vec![0]], 2);
        assert_eq!(pairing.of_gpu, [Some(1), Some(0)]);
        assert!(!pairing.crowded.contains(&true));
        let none = pair(&[vec![], vec![0]], 1);
        assert_eq!(none.of_gpu, [None, Some(0)]);
        assert_eq!(none.crowded, [false, false]);
    }
}
