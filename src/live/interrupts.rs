//! The CPUs that handle the interrupts of RDMA devices: there are many vectors, so that they are counted here instead of recorded one by one.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::files::{self, Root, text};
use crate::cpu_list;
use crate::source::{Answer, Errno, Question, Refusal};

const DEVICES: &str = "/sys/class/infiniband";

/// Answers `{"call":"interrupt_spread"}`: for each RDMA device with MSI vectors how many it has, how many different CPUs serve them, and
/// how many of the vectors are served by a CPU that is local to the device: `{"mlx5_0":{"vectors":64,"cpus":32,"local":64}}`.
///
/// # Errors
///
/// The RDMA devices or /proc/irq cannot be listed.
pub fn spread(root: Option<&Root>) -> Result<Answer, Refusal> {
    let devices = match list(root, DEVICES) {
        // A kernel without RDMA has no such class.
        Err(Refusal::Errno(Errno::ENOENT)) if root.is_none() => Vec::new(),
        other => other?,
    };
    let mut found = Map::new();
    if !devices.is_empty() {
        list(root, "/proc/irq")?;
    }
    for device in devices {
        let dir = format!("{DEVICES}/{device}/device");
        let Ok(vectors) = list(root, &format!("{dir}/msi_irqs")) else {
            continue;
        };
        let local = text(root, &format!("{dir}/local_cpulist"));
        let Some(local) = local.and_then(|text| cpu_list::numbers(&text).ok()) else {
            continue;
        };
        if let Some(one) = device_interrupts(root, &vectors, &local) {
            found.insert(device.to_string(), one);
        }
    }
    Ok(Answer::from(Value::from(found)))
}

fn device_interrupts(root: Option<&Root>, vectors: &[Arc<str>], local: &[u64]) -> Option<Value> {
    let (mut count, mut near) = (0u64, 0u64);
    let mut served: BTreeSet<u64> = BTreeSet::new();
    for vector in vectors {
        // A vector without a handler is unused.
        let place = format!("/proc/irq/{vector}/effective_affinity_list");
        let own = text(root, &place).and_then(|text| cpu_list::numbers(&text).ok())?;
        if own.is_empty() {
            continue;
        }
        count += 1;
        near += u64::from(own.iter().any(|cpu| local.contains(cpu)));
        served.extend(own);
    }
    Some(json!({ "vectors": count, "cpus": served.len(), "local": near }))
}

fn list(root: Option<&Root>, path: &str) -> Result<Vec<Arc<str>>, Refusal> {
    match files::ask(root, &Question::list(path)) {
        Some(Ok(Answer::Names(names))) => Ok(names.to_vec()),
        Some(Err(refusal)) => Err(refusal),
        _ => Err(Refusal::NotRecorded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test makes its own tree")]
    fn vectors_of_a_tree() {
        let dir = std::env::temp_dir().join(format!("rdma-doctor-irq-{}", std::process::id()));
        let file = |path: &str, text: &str| {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("sys/class/infiniband/mlx5_0/device/local_cpulist", "0-3\n");
        file("sys/class/infiniband/rxe0/node_type", "1: CA\n");
        for (vector, cpus) in [("40", "0\n"), ("41", "2\n"), ("42", "5\n"), ("43", "\n")] {
            file(
                &format!("sys/class/infiniband/mlx5_0/device/msi_irqs/{vector}"),
                "msix\n",
            );
            file(&format!("proc/irq/{vector}/effective_affinity_list"), cpus);
        }
        let root = Root::open(&dir).unwrap();
        let Ok(Answer::Value(value)) = spread(Some(&root)) else {
            panic!("no value")
        };
        assert_eq!(
            *value,
            json!({ "mlx5_0": { "vectors": 3, "cpus": 3, "local": 2 } })
        );
        std::fs::remove_dir_all(dir).unwrap();
    }
}
