//! Driver stacks and GPUDirect modules.

pub(super) mod fabric;
pub(super) mod parse;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{Ask, Probe, whole_number};
use crate::fact::{Fact, Facts, Gap, Id, Origin, Presence, node};
use crate::source::{Answer, Errno, Question, Refusal};

/// The probe.
pub const PROBE: Probe = Probe::new("driver", run);

const NVIDIA: &str = "/sys/bus/pci/drivers/nvidia";
/// `3D controller`: a GPU without a display.
const COMPUTE: u64 = 0x0302;
/// Where NVIDIA's library is kept, 64-bit: by the container that brings the driver to a Kubernetes node, else by distributions,
/// the architecture's own place first.
const LIBRARIES: &[&str] = &[
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/nvidia/driver/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];
/// The modules that hand GPU memory to the RDMA core.
const PEER_MODULES: &[&str] = &["nvidia_peermem", "nv_peer_mem"];

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let (compute_gpus, least) = compute_gpus(ask);
    facts.set_at_least(node, node::COMPUTE_GPUS, compute_gpus, least);
    let version = ask.text_if_any("/proc/driver/nvidia/version");
    let text = version.if_any();
    let driver = (text.clone())
        .and_then(|text| text.map_or(Ok("none".into()), |text| parse::driver_version(&text)));
    let open = text.and_then(|text| text.map_or(Ok(false), |text| parse::is_open(&text)));
    fabric::run(ask, facts, node, &driver);
    facts.set(node, node::NVIDIA_DRIVER, driver);
    facts.set(node, node::NVIDIA_OPEN, open);
    facts.set(node, node::NVIDIA_LIBRARY, library(ask));
    facts.set(node, node::OFED, ofed(ask));
    let modules = ask.answers(Question::stat("/etc/infiniband/openib.conf"));
    facts.set(node, node::OFED_MODULES, modules);

    let peers = ask
        .names_if_any("/sys/kernel/mm/memory_peers")
        .or_absent(Arc::default());
    facts.set(node, node::PEERMEM_REGISTERED, registered(ask, &peers));
    facts.set(node, node::MEMORY_PEERS, peers);
    let gdrdrv_device = ask.answers(Question::stat("/dev/gdrdrv"));
    facts.set(node, node::GDRDRV_DEVICE, gdrdrv_device);
}

/// How many functions of NVIDIA's driver are GPUs without a display, and how many are known to be.
fn compute_gpus(ask: &Ask<'_>) -> (Fact<u64>, u64) {
    let (names, origin) = match ask.names_if_any(NVIDIA) {
        Presence::Present(names, origin) => (names, origin),
        Presence::Absent(origin) => return (Fact::Known(0, origin), 0),
        Presence::Unknown(gap) => return (Fact::Unknown(gap), 0),
    };
    let mut count = 0;
    let mut missing = None;
    // Beside the functions there are `bind`, `module`, `new_id`, …
    for name in names.iter().filter(|name| name.contains(':')) {
        let class = ask.parse(format!("/sys/bus/pci/devices/{name}/class"), whole_number);
        let class = class.or_open(&mut missing);
        count += u64::from(class.is_some_and(|class| class >> 8 == COMPUTE));
    }
    (Fact::Known(count, origin).unless(missing), count)
}

/// The version that the link `libnvidia-ml.so.1` leads to. A directory of libraries has thousands of names, so it is not listed:
/// what is on no path that is asked for is not there.
fn library(ask: &Ask<'_>) -> Fact<Arc<str>> {
    let mut absent = None;
    for dir in LIBRARIES {
        let question = Question::link(format!("{dir}/libnvidia-ml.so.1"));
        match ask.raw(&question).said {
            Ok(Answer::Text(target)) => {
                return Fact::Known(target, Origin::Asked(question))
                    .and_then(|target| parse::library(&target));
            }
            Ok(_) => return Fact::Unknown(Gap::not_understood(&question, "it leads to nowhere")),
            Err(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR)) => absent = Some(question),
            Err(refusal) => return Fact::Unknown(Gap::refused(&question, refusal)),
        }
    }
    match absent {
        Some(question) => Fact::Known("none".into(), Origin::Asked(question)),
        None => Fact::Unknown(Gap::missing("where libraries are kept")),
    }
}

/// The release that the script `ofed_info` was installed with.
fn ofed(ask: &Ask<'_>) -> Fact<Arc<str>> {
    ask.command_if_any(&["ofed_info", "-s"], parse::ofed)
}

/// Whether a peer memory module is known to the RDMA core: the core keeps its clients' names in sysfs, or the module holds what it
/// registers with. In NVIDIA's stack that is ib_core, in Ubuntu's kernels ib_uverbs.
fn registered(ask: &Ask<'_>, peers: &Fact<Arc<[Arc<str>]>>) -> Fact<bool> {
    let mut missing = None;
    let mut absent = None;
    match peers {
        Fact::Known(names, origin) if names.iter().any(|n| n.starts_with("nv")) => {
            return Fact::Known(true, origin.clone());
        }
        Fact::Known(_, origin) => absent = Some(origin.clone()),
        Fact::Unknown(gap) => missing = Some(gap.clone()),
    }
    for core in ["ib_core", "ib_uverbs"] {
        match ask.names_if_any(format!("/sys/module/{core}/holders")) {
            Presence::Present(names, origin)
                if names.iter().any(|n| PEER_MODULES.contains(&&**n)) =>
            {
                return Fact::Known(true, origin);
            }
            Presence::Present(_, origin) | Presence::Absent(origin) => absent = Some(origin),
            Presence::Unknown(gap) => missing = Some(gap),
        }
    }
    match (missing, absent) {
        (Some(gap), _) => Fact::Unknown(gap),
        (None, Some(origin)) => Fact::Known(false, origin),
        (None, None) => Fact::Unknown(Gap::missing("the holders of ib_core")),
    }
}
