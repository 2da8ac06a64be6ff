//! Parses the kernel's files about a machine and its processes.

use std::sync::Arc;

use crate::cpu_list;
use crate::fact::node::Container;
use crate::fact::{Bytes, Seconds};

/// The number of X86_FEATURE_HYPERVISOR (`arch/x86/include/asm/cpufeatures.h`), as the modalias writes it.
const HYPERVISOR: &str = "009F";

/// PRETTY_NAME of os-release(5), without its quotes.
pub(super) fn pretty_name(text: &str) -> Result<Arc<str>, String> {
    text.lines()
        .find_map(|line| line.trim().strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim().trim_matches(['"', '\'']))
        .filter(|name| !name.is_empty())
        .map(Arc::from)
        .ok_or_else(|| "it has no PRETTY_NAME".to_owned())
}

/// The first number of /proc/uptime.
pub(super) fn uptime(text: &str) -> Result<Seconds, String> {
    text.split_whitespace()
        .next()
        .and_then(|first| first.parse::<f64>().ok())
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .map(Seconds)
        .ok_or_else(|| "it begins with no number of seconds".to_owned())
}

/// `cpu:type:x86,ven0000fam0006mod0055:feature:,0000,0001,…`
pub(super) fn hypervisor_of_modalias(text: &str) -> Result<bool, String> {
    let features = text
        .strip_prefix("cpu:type:x86")
        .and_then(|rest| rest.split_once(":feature:"))
        .ok_or_else(|| "no x86 CPU: it says nothing of a hypervisor".to_owned())?;
    Ok(features.1.split(',').any(|feature| feature == HYPERVISOR))
}

/// The first `flags` line, which other architectures than x86 do not have.
pub(super) fn hypervisor_of_cpuinfo(text: &str) -> Result<bool, String> {
    text.lines()
        .find_map(|line| {
            let (name, flags) = line.split_once(':')?;
            (name.trim() == "flags").then_some(flags)
        })
        .map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
        .ok_or_else(|| "no x86 CPU: it says nothing of a hypervisor".to_owned())
}

/// `MemTotal:       65842796 kB`
pub(super) fn memory(text: &str) -> Result<Bytes, String> {
    text.lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse::<u64>().ok())
        .and_then(|kib| kib.checked_mul(1024))
        .map(Bytes)
        .ok_or_else(|| "it has no MemTotal in kB".to_owned())
}

/// How many numbers a list as `0-1,4` has.
pub(super) fn count_of_ranges(text: &str) -> Result<u64, String> {
    match cpu_list::numbers(text)?.len() {
        0 => Err("it is empty".to_owned()),
        count => Ok(count as u64),
    }
}

/// The soft limit in /proc/self/limits; `u64::MAX` if there is none.
pub(in crate::probe) fn soft_limit(text: &str, name: &str) -> Result<u64, String> {
    let word = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .ok_or_else(|| format!("it has no {name:?}"))?;
    match word {
        "unlimited" => Ok(u64::MAX),
        number => number
            .parse()
            .map_err(|_| format!("{name:?} is {number:?}")),
    }
}

/// `CapEff: 000001ffffffffff`
pub(in crate::probe) fn effective_capabilities(text: &str) -> Result<u64, String> {
    text.lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .ok_or_else(|| "it has no CapEff".to_owned())
}

/// Whose group names these are. Kubernetes' come before those of the runtime inside them.
pub(super) fn container_of_cgroup(text: &str) -> Option<Container> {
    let has = |mark: &str| text.lines().any(|line| line.contains(mark));
    if has("kubepods") {
        Some(Container::Kubernetes)
    } else if has("libpod") {
        Some(Container::Podman)
    } else if has("/docker") {
        Some(Container::Docker)
    } else if has("/lxc") || has("lxc.payload") {
        Some(Container::Lxc)
    } else {
        None
    }
}

/// The word of systemd's container interface (`/run/systemd/container`).
pub(super) fn container_of_manager(text: &str) -> Option<Container> {
    match text {
        "docker" => Some(Container::Docker),
        "podman" => Some(Container::Podman),
        "lxc" | "lxc-libvirt" => Some(Container::Lxc),
        _ => None,
    }
}
