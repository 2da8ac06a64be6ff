//! The processes that use a GPU, and memory in use without a process.

use std::sync::Arc;

use serde::Deserialize;

use super::reply::{NvmlReply, is_unsupported};
use crate::fact::gpu::GpuMode;
use crate::fact::{Bytes, Fact, Facts, Gap, Id, gpu, known};
use crate::small_sort;

/// NVIDIA's own services, by the beginnings of the names that the kernel keeps fifteen letters of: MPS's server, DCGM's engine.
const SERVICES: [&str; 2] = ["nvidia-cuda-mps", "nv-hostengine"];

/// A process that uses a GPU.
#[derive(Deserialize)]
struct User {
    pid: u64,
    memory: Option<u64>,
    #[serde(rename = "process")]
    name: Option<Arc<str>>,
    #[serde(default)]
    ancestors: Vec<u64>,
}

impl User {
    fn is_foreign(&self, job: u64) -> bool {
        let name = self.name.as_deref().unwrap_or("");
        if SERVICES.iter().any(|service| name.starts_with(service)) {
            return false;
        }
        job == 0 || self.pid != job && !self.ancestors.contains(&job)
    }

    fn describe(&self) -> Arc<str> {
        let mut out = self.pid.to_string();
        if let Some(name) = &self.name {
            out = format!("{out} {name}");
        }
        if let Some(memory) = self.memory {
            out = format!("{out} ({})", Bytes(memory));
        }
        out.into()
    }
}

/// The processes that a function gives. One that the library does not have gives none.
fn users(said: &NvmlReply, function: &str) -> Result<Vec<User>, Gap> {
    let list = said.all().list(function)?;
    let user = |value| User::deserialize(value);
    list.iter()
        .map(user)
        .collect::<Result<_, _>>()
        .map_err(|error| Gap::not_understood(&said.question, error.to_string()))
}

/// States which processes use a GPU.
pub(super) fn state(
    facts: &mut Facts,
    id: Id,
    said: &NvmlReply,
    all_seen: &Fact<bool>,
    job: &Fact<u64>,
) {
    let compute = users(said, "nvmlDeviceGetComputeRunningProcesses").and_then(|mut compute| {
        const SHARED: &str = "nvmlDeviceGetMPSComputeRunningProcesses";
        // Those that compute through MPS are in a list of their own, if the driver has one.
        match users(said, SHARED) {
            Ok(shared) => compute.extend(shared),
            Err(_) if is_unsupported(said.error(SHARED)) => {}
            Err(gap) => return Err(gap),
        }
        small_sort::by_key(&mut compute, |user| user.pid);
        compute.dedup_by_key(|user| user.pid);
        Ok(compute)
    });
    let leaked = leaked(facts, id, said, compute.as_ref().map(Vec::len), all_seen);
    facts.set(id, gpu::MEMORY_LEAKED, leaked);
    let foreign = compute.and_then(|compute| {
        let job = match job {
            Fact::Known(job, _) => *job,
            // Without processes none is foreign, whatever user is named.
            Fact::Unknown(_) if compute.is_empty() => 0,
            Fact::Unknown(gap) => return Err(gap.clone()),
        };
        let foreign = compute.iter().filter(|user| user.is_foreign(job));
        Ok(foreign.map(User::describe).collect::<Arc<[Arc<str>]>>())
    });
    let foreign = Fact::from_result(foreign, &said.origin());
    let count = foreign.clone().map(|foreign| foreign.len() as u64);
    facts.set(id, gpu::FOREIGN_PROCESSES, count);
    facts.set(id, gpu::FOREIGN_PROCESS_LIST, foreign);
}

fn leaked(
    facts: &Facts,
    id: Id,
    said: &NvmlReply,
    compute: Result<usize, &Gap>,
    all_seen: &Fact<bool>,
) -> Fact<Bytes> {
    let compute = known!(ok compute);
    let graphics = known!(ok users(said, "nvmlDeviceGetGraphicsRunningProcesses")).len();
    if known!(facts.get(id, gpu::MIG)) == GpuMode::On {
        return Fact::Unknown(Gap::missing("the memory of each instance"));
    }
    if compute + graphics > 0 {
        return Fact::Known(Bytes(0), said.origin());
    }
    match all_seen {
        Fact::Known(true, _) => facts.get(id, gpu::MEMORY_USED),
        Fact::Known(false, _) => Fact::Unknown(Gap::missing(
            "whether processes outside of this container use it",
        )),
        Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
    }
}
