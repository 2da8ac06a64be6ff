//! The CPUs near a GPU: memory that the host takes for copies lies on the NUMA node of the CPU that asks for it.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::cpu_list;

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
    for cpu in cpu_list::numbers(list).ok()? {
        let cpu = usize::try_from(cpu).ok();
        set.set(cpu.filter(|cpu| *cpu < CpuSet::MAX_CPU)?);
    }
    sched_setaffinity(None, &set).ok()?;
    Some(list.to_owned())
}
