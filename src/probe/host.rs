//! The machine, and what limits a process on it.

pub(super) mod cgroup;
mod hypervisor;
mod login_limits;
pub(super) mod parse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(super) use self::parse::soft_limit;
use super::{Ask, Probe};
use crate::fact::node::{self, Container, SharedMemory};
use crate::fact::{Bytes, Fact, Facts, Id, Presence, Why, known};
use crate::source::{Errno, Question, Refusal};

/// The probe.
pub const PROBE: Probe = Probe::new("host", run);

/// The inode numbers of the kernel's first namespaces (`include/linux/proc_ns.h`).
pub(super) const FIRST_USER: &str = "user:[4026531837]";
const FIRST_PID: &str = "pid:[4026531836]";
/// tmpfs, and devtmpfs (`include/uapi/linux/magic.h`).
const TMPFS: u64 = 0x0102_1994;
/// CAP_IPC_LOCK (`include/uapi/linux/capability.h`).
const IPC_LOCK: u32 = 14;

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let kernel = ask.text("/proc/sys/kernel/osrelease");
    facts.set(node, node::KERNEL, kernel.and_then(super::filled));
    facts.set(node, node::OS, os(ask));
    facts.set(node, node::UPTIME, ask.parse("/proc/uptime", parse::uptime));
    facts.set(node, node::VIRTUAL, hypervisor::is_guest(ask));
    let memory = ask.parse("/proc/meminfo", parse::memory);
    facts.set(node, node::MEMORY, memory);
    let nodes = ask.parse("/sys/devices/system/node/online", parse::count_of_ranges);
    facts.set(node, node::NUMA_NODES, nodes);

    let boot = ask.text("/proc/sys/kernel/random/boot_id");
    facts.set(node, node::BOOT_ID, boot.and_then(super::filled));

    let cgroup = ask.text_if_any("/proc/self/cgroup");
    facts.set(node, node::CONTAINER, container(ask, &cgroup));
    limits(ask, facts, node);
    login_limits::state(ask, facts, node);
    shared_memory(ask, facts, node);

    let limits = cgroup::rdma_limits(ask, cgroup);
    let open = limits.known().and_then(|limits| limits.open.clone());
    let read = limits.clone().map(|_| true).unless(open);
    facts.set(node, node::RDMA_LIMITS_READ, read);
    let (limited, limits) = cgroup::in_words(limits);
    facts.set(node, node::RDMA_LIMITED, limited);
    facts.set(node, node::RDMA_LIMITS, limits);
}

fn os(ask: &Ask<'_>) -> Fact<Arc<str>> {
    match ask.parse("/etc/os-release", parse::pretty_name) {
        Fact::Unknown(gap) if matches!(gap.why, Why::Refused(_)) => {
            // The other place that os-release(5) names.
            Fact::Unknown(gap).or_else(|| ask.parse("/usr/lib/os-release", parse::pretty_name))
        }
        fact => fact,
    }
}

/// Whether this process is in the namespace that the kernel started with.
fn is_in_first_namespace(ask: &Ask<'_>, which: &str, first: &str) -> Fact<bool> {
    ask.link_name(format!("/proc/self/ns/{which}"))
        .or_gap(Why::NotUnderstood(
            "the kernel has no such namespaces".into(),
        ))
        .and_then(|name| match name.starts_with(which) {
            true => Ok(&*name == first),
            false => Err(format!("{name:?} is not a namespace")),
        })
}

/// What kind of container this is. The initial PID namespace says that it is none; else marks of the known ones decide.
fn container(ask: &Ask<'_>, cgroup: &Presence<Arc<str>>) -> Fact<Container> {
    let (is_first, origin) = known!(is_in_first_namespace(ask, "pid", FIRST_PID), with origin);
    if is_first {
        return Fact::Known(Container::None, origin);
    }
    // Kubernetes first: its pods bear the marks of the runtime below it too. A mark that cannot be looked for leaves the kind open,
    // since it would have decided before those that follow.
    let (groups, asked) = known!(cgroup.clone().if_any(), with origin);
    let by_cgroup = groups.and_then(|text| Some((parse::container_of_cgroup(&text)?, asked)));
    if let Some((Container::Kubernetes, origin)) = by_cgroup {
        return Fact::Known(Container::Kubernetes, origin);
    }
    let services = Question::env(&["KUBERNETES_SERVICE_"]);
    let (services, asked) = known!(ask.value(services), with origin);
    if services.as_object().is_some_and(|vars| !vars.is_empty()) {
        return Fact::Known(Container::Kubernetes, asked);
    }
    for (mark, kind) in [
        ("/run/secrets/kubernetes.io", Container::Kubernetes),
        ("/run/.containerenv", Container::Podman),
        ("/.dockerenv", Container::Docker),
    ] {
        if let (true, origin) = known!(ask.exists(mark), with origin) {
            return Fact::Known(kind, origin);
        }
    }
    if let Some((kind, origin)) = by_cgroup {
        return Fact::Known(kind, origin);
    }
    // systemd writes down what it was started in.
    let by_manager = ask.text_if_any("/run/systemd/container").if_any();
    let (manager, asked) = known!(by_manager, with origin);
    match manager.and_then(|text| parse::container_of_manager(&text)) {
        Some(kind) => Fact::Known(kind, asked),
        None => Fact::Known(Container::Other, origin),
    }
}

fn limits(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let limits = ask.text("/proc/self/limits");
    let memlock = limits
        .clone()
        .and_then(|text| parse::soft_limit(&text, "Max locked memory"));
    facts.set(node, node::MEMLOCK, memlock.map(Bytes));
    let stack = limits
        .clone()
        .and_then(|text| parse::soft_limit(&text, "Max stack size"));
    facts.set(node, node::STACK, stack.map(Bytes));
    let nofile = limits.and_then(|text| parse::soft_limit(&text, "Max open files"));
    facts.set(node, node::NOFILE, nofile);

    let first_user = is_in_first_namespace(ask, "user", FIRST_USER);
    let capabilities = ask.parse("/proc/self/status", parse::effective_capabilities);
    facts.set(node, node::IPC_LOCK, may_lock(capabilities, first_user));
}

/// Whether a process with these capabilities may lock memory beyond its limit.
pub(super) fn may_lock(capabilities: Fact<u64>, in_first_user: Fact<bool>) -> Fact<bool> {
    let capable = capabilities.map(|set| set >> IPC_LOCK & 1 == 1);
    match (capable, in_first_user) {
        // The kernel asks for the capability in its first user namespace: one in another does not count.
        (Fact::Known(true, origin), Fact::Known(first, _)) => Fact::Known(first, origin),
        (Fact::Known(true, _), Fact::Unknown(gap)) => Fact::Unknown(gap),
        (fact, _) => fact,
    }
}

fn shared_memory(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let value = ask.value(Question::statvfs("/dev/shm"));
    let kind = match value.clone() {
        Fact::Unknown(gap) if gap.why == Why::Refused(Refusal::Errno(Errno::ENOENT)) => {
            match ask.exists("/dev/shm") {
                Fact::Known(false, origin) => Fact::Known(SharedMemory::Absent, origin),
                _ => Fact::Unknown(gap),
            }
        }
        value => value.and_then(|value| {
            let read_only = value.get("read_only").and_then(serde_json::Value::as_bool);
            let magic = value.get("magic").and_then(serde_json::Value::as_str);
            match (magic.map(super::whole_number), read_only) {
                (Some(Ok(TMPFS)), Some(true)) => Ok(SharedMemory::ReadOnly),
                (Some(Ok(TMPFS)), Some(false)) => Ok(SharedMemory::Usable),
                (Some(Ok(_)), _) => Ok(SharedMemory::NotTmpfs),
                _ => Err("the reply names no file system".to_owned()),
            }
        }),
    };
    facts.set(node, node::SHM, kind);
    for (key, field) in [(node::SHM_SIZE, "size"), (node::SHM_FREE, "free")] {
        let bytes = value.clone().and_then(|value| super::member(&value, field));
        facts.set(node, key, bytes.map(Bytes));
    }
}
