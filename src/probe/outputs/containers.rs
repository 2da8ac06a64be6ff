//! What a container may use, as `docker inspect` and `kubectl describe` print it.

use serde_json::Value;

use super::{Output, OutputLine};
use crate::fact::node::SharedMemory;
use crate::fact::{Bytes, Facts, Id, node as of_node};

/// `docker inspect`: locked memory, shared memory, capabilities and devices of the first container.
pub(super) fn docker(output: &Output, facts: &mut Facts, node: Id) {
    let json: Option<Value> = serde_json::from_str(&output.text()).ok();
    // Of the container, of its part that a format chose, or of several.
    let places = ["/0/HostConfig", "/HostConfig", "/0", ""];
    let mut chosen = places.iter().filter_map(|at| json.as_ref()?.pointer(at));
    let Some(host) = chosen.find(|host| host.get("ShmSize").is_some()) else {
        return picked(output, facts, node);
    };
    let quoted = |key: &str| format!("\"{key}\"");
    let line_of = |key: &str| output.lines().find(|line| line.text.contains(&quoted(key)));
    // What is said of a key, and where.
    let of = |key: &'static str| host.get(key).zip(line_of(key));
    let has = |list: &Value, names: &[&str]| {
        names
            .iter()
            .any(|name| list.to_string().contains(&quoted(name)))
    };
    if let Some((limits, line)) = of("Ulimits")
        && let Some(limits) = limits.as_array()
        && let Some(memlock) = limits.iter().find(|limit| has(limit, &["memlock"]))
    {
        // -1 is no limit.
        let soft = memlock.get("Soft").and_then(Value::as_i64);
        let bytes = soft.map(|soft| Bytes(u64::try_from(soft).unwrap_or(u64::MAX)));
        facts.set(node, of_node::MEMLOCK, line.read(bytes));
    }
    if let Some((size, line)) = of("ShmSize")
        && of("IpcMode").is_some_and(|(mode, _)| mode != "host")
    {
        facts.set(node, of_node::SHM_SIZE, line.read(size.as_u64().map(Bytes)));
        // The engine mounts one of this size.
        facts.set(node, of_node::SHM, line.known(SharedMemory::Usable));
    }
    // 0 is no limit.
    if let Some((memory, line)) = of("Memory")
        && let Some(memory) = memory.as_u64().filter(|memory| *memory > 0)
    {
        facts.set(node, of_node::MEMORY_LIMIT, line.known(Bytes(memory)));
    }
    if let (Some((privileged, _)), Some((caps, line))) = (of("Privileged"), of("CapAdd")) {
        let may = privileged == true || has(caps, &["IPC_LOCK", "CAP_IPC_LOCK", "ALL"]);
        facts.set(node, of_node::IPC_LOCK, line.known(may));
        // A device can come by a mount or a plugin, too: that it is not there is said where nothing names it.
        if privileged == false && !output.text().to_lowercase().contains("infiniband") {
            facts.set(node, of_node::DEV_INFINIBAND, line.known(false));
        }
    }
}

/// `"ShmSize": 67108864,` of lines that somebody picked, unless another one says that it is the host's.
fn picked(output: &Output, facts: &mut Facts, node: Id) {
    if output
        .lines()
        .any(|line| line.text.contains("\"IpcMode\": \"host\""))
    {
        return;
    }
    for line in output.lines() {
        if let Some(rest) = line.text.trim().strip_prefix("\"ShmSize\": ") {
            let size: Option<u64> = rest.trim_end_matches(',').parse().ok();
            facts.set(node, of_node::SHM_SIZE, line.read(size.map(Bytes)));
            facts.set(node, of_node::SHM, line.known(SharedMemory::Usable));
        }
    }
}

/// `kubectl describe pod`: the memory of its only container, and the size of the volume that is shared memory.
pub(super) fn kubectl(output: &Output, facts: &mut Facts, node: Id) {
    let mut limits = output
        .lines()
        .skip_while(|line| line.text.trim() != "Limits:");
    let below = limits
        .by_ref()
        .skip(1)
        .take_while(|line| !line.text.trim().ends_with(':'));
    let memory: Option<(Option<Bytes>, OutputLine<'_>)> = below
        .filter_map(|line| {
            let (_, size) = line.text.split_once("memory:")?;
            Some((Bytes::parse(&format!("{}B", size.trim())).ok(), line))
        })
        .last();
    if let Some((memory, line)) =
        memory.filter(|_| limits.all(|line| line.text.trim() != "Limits:"))
    {
        facts.set(node, of_node::MEMORY_LIMIT, line.read(memory));
    }
    let after = |line: &OutputLine<'_>, key: &str| {
        line.text
            .trim()
            .strip_prefix(key)
            .map(|rest| rest.trim().to_owned())
    };
    let Some(volume) = output
        .lines()
        .find_map(|line| after(&line, "/dev/shm from "))
    else {
        return;
    };
    let heading = format!("{}:", volume.split(' ').next().unwrap_or(""));
    let mut below = output
        .lines()
        .skip_while(|line| line.text.trim() != heading);
    if let Some((size, line)) = below.find_map(|line| Some((after(&line, "SizeLimit:")?, line))) {
        facts.set(
            node,
            of_node::SHM_SIZE,
            line.read(Bytes::parse(&format!("{size}B")).ok()),
        );
    }
}
