//! The CPUs near a GPU: memory that the host takes for copies lies on the NUMA node of the CPU that asks for it.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Moves this thread, and no other, to the CPUs of a PCI function's NUMA node. Gives the CPUs, `None` if the kernel does not say them, or
/// none of them is allowed.
pub(super) fn near(pci: &str) -> Option<String> {
    let path = format!("/sys/bus/pci/devices/{pci}/local_cpulist");
    #[expect(
        clippy::disallowed_methods,
        reason = "where the GPU is, is part of the machine"
    )]
    let list = std::fs::read_to_string(path).ok()?;
    let list = list.trim();
    let mut set = CpuSet::new();
    for cpu in cpus(list)? {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).ok()?;
    Some(list.to_owned())
}

/// `0-3,8` as single numbers; `None` for what is no list, or too long a one.
fn cpus(list: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last >= CpuSet::MAX_CPU {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpus("0-3,8").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(cpus("5").unwrap(), [5]);
        for bad in ["", "x", "0-", "0-999999999"] {
            assert_eq!(cpus(bad), None, "{bad:?}");
        }
    }
}
