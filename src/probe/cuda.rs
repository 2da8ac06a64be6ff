//! CUDA's driver API, without a context: whether it works, the GPUs that it shows, their features, and peer access.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Ask, Probe};
use crate::fact::node::Cuda;
use crate::fact::{Fact, Facts, Gap, Id, Presence, Seconds, Subject, Why, gpu, gpu_pair, node};
use crate::measure::plan::p2p::Plan;
use crate::source::failed_call::failed_call;
use crate::source::{Question, Refusal};

/// The probe. Without persistence `cuInit` wakes each GPU, which takes seconds.
pub const PROBE: Probe = Probe::new("cuda", run).within(Duration::from_secs(15));

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let masked = ask
        .value(Question::env(&["CUDA_VISIBLE_DEVICES"]))
        .map(|variables| variables.get("CUDA_VISIBLE_DEVICES").is_some());
    facts.set(node, node::CUDA_MASKED, masked);

    let state = match ready(ask) {
        Fact::Known(None, _) => begin(ask, facts, node),
        Fact::Known(Some(obstacle), origin) => Fact::Known(obstacle, origin),
        Fact::Unknown(gap) => Fact::Unknown(gap),
    };
    facts.set(node, node::CUDA, state.clone());
    let count = match &state {
        Fact::Known(Cuda::Works, _) => {
            let question = Question::call("cuDeviceGetCount", []);
            ask.value(question).and_then(|said| number(&said, "count"))
        }
        // It was asked and shows none, or there is no driver that could.
        Fact::Known(Cuda::NoDevice | Cuda::NoDriver, origin) => Fact::Known(0, origin.clone()),
        Fact::Known(obstacle, origin) => Fact::Unknown(Gap::new(
            Why::Missing(format!("CUDA, which says \"{}\",", obstacle.word()).into()),
            origin.clone(),
        )),
        Fact::Unknown(gap) => Fact::Unknown(gap.clone()),
    };
    facts.set(node, node::CUDA_DEVICES, count.clone());
    let devices = devices(ask, facts, node, count);
    pairs(ask, facts, node, &devices);
    // A recording says that nothing was measured; `rdma-doctor bench p2p` puts its plan in this place.
    let _ = ask.raw(&Plan::question());
}

/// Whether CUDA may be asked: its library starts what is missing of the driver, modules and device nodes, and the doctor changes nothing.
/// `None` if nothing is missing.
fn ready(ask: &Ask<'_>) -> Fact<Option<Cuda>> {
    match ask.text_if_any("/proc/driver/nvidia/version") {
        Presence::Present(..) => {}
        Presence::Absent(origin) => return Fact::Known(Some(Cuda::NoDriver), origin),
        Presence::Unknown(gap) => return Fact::Unknown(gap),
    }
    ask.names("/dev").map(|names| {
        let has = |wanted: &str| names.iter().any(|name| &**name == wanted);
        (!has("nvidiactl") || !has("nvidia-uvm")).then_some(Cuda::NoControlDevice)
    })
}

/// Asks for the version, and starts CUDA.
fn begin(ask: &Ask<'_>, facts: &mut Facts, node: Id) -> Fact<Cuda> {
    let version = ask
        .value(Question::call("cuDriverGetVersion", []))
        .and_then(|said| number(&said, "version"))
        // 12080 is 12.8.
        .map(|version| format!("{}.{}", version / 1000, version % 1000 / 10).into());
    facts.set(node, node::CUDA_DRIVER, version);
    let question = Question::call("cuInit", []);
    let said = ask.value(question.clone());
    let took = said.clone().and_then(|said| number(&said, "ms"));
    let cuda_init_time = took.map(|ms| Seconds(ms as f64 / 1e3));
    facts.set(node, node::CUDA_INIT_TIME, cuda_init_time);
    let (state, error) = match said {
        Fact::Known(said, origin) => {
            let state = match failed_call(&said) {
                None => (Cuda::Works, "none".into()),
                Some(failure) => (of_code(failure.code), failure.error().into()),
            };
            Fact::Known(state, origin)
        }
        Fact::Unknown(gap) => match gap.why {
            Why::Refused(Refusal::LibraryMissing(words)) => {
                Fact::Known((Cuda::NoLibrary, words), gap.origin)
            }
            // A library without cuInit is none.
            Why::Refused(lacks @ Refusal::SymbolMissing(_)) => {
                Fact::Known((Cuda::Fails, lacks.to_string().into()), gap.origin)
            }
            _ => Fact::Unknown(gap),
        },
    }
    .unzip();
    facts.set(node, node::CUDA_ERROR, error);
    state
}

/// What a `CUresult` of `cuInit` means.
fn of_code(code: u64) -> Cuda {
    match code {
        34 => Cuda::Stub,
        100 => Cuda::NoDevice,
        802 => Cuda::NotReady,
        803 => Cuda::Mismatch,
        804 => Cuda::CompatUnsupported,
        _ => Cuda::Fails,
    }
}

/// A number of a reply; of one that says what failed, that.
fn number(said: &Value, member: &str) -> Result<u64, String> {
    if let Some(failure) = failed_call(said) {
        return Err(format!("{} says {}", failure.function, failure.error()));
    }
    let number = said.get(member).and_then(Value::as_u64);
    number.ok_or_else(|| format!("no {member} in it"))
}

/// A device that CUDA shows: its number, and the GPU.
struct Device {
    number: u64,
    gpu: Option<Id>,
}

/// Asks each device what it can, and finds the GPU of the PCI bus that it is.
fn devices(ask: &Ask<'_>, facts: &mut Facts, node: Id, count: Fact<u64>) -> Vec<Device> {
    let gpus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
    let (count, origin) = match count {
        Fact::Known(count, origin) => (count, origin),
        Fact::Unknown(gap) => {
            for gpu in gpus {
                facts.set(gpu, gpu::IN_CUDA, Fact::Unknown(gap.clone()));
            }
            return Vec::new();
        }
    };
    let mut devices = Vec::new();
    let mut open = None;
    // A driver has at most a few dozen; a recording may say anything.
    for number in 0..count.min(256) {
        let said = ask.value(Question::call(
            "cuDeviceGetAttribute",
            [("device", number.into())],
        ));
        let gpu = match said.clone().and_then(|said| pci(&said)) {
            // A machine without a readable PCI bus has GPUs all the same.
            Fact::Known(place, _) => Some(facts.instance(Subject::Gpu, node, &place)),
            Fact::Unknown(gap) => {
                open = Some(gap);
                None
            }
        };
        if let Some(gpu) = gpu {
            facts.set(gpu, gpu::IN_CUDA, said.clone().map(|_| true));
            facts.set(gpu, gpu::CUDA_INDEX, said.clone().map(|_| number));
            describe(facts, gpu, &said);
        }
        devices.push(Device { number, gpu });
    }
    for gpu in gpus {
        // Of those that are shown it is known already.
        let shown = Fact::Known(false, origin.clone()).unless(open.clone());
        facts.set(gpu, gpu::IN_CUDA, shown);
    }
    devices
}

fn describe(facts: &mut Facts, gpu: Id, said: &Fact<Arc<Value>>) {
    // A driver that does not know the attribute cannot do what it tells.
    let can = |member: &'static str| {
        said.clone().and_then(move |said| match said.get(member) {
            Some(Value::Null) => Ok(false),
            Some(value) => value
                .as_u64()
                .map(|n| n != 0)
                .ok_or_else(|| format!("{member} is not a number")),
            None => Err(format!("no {member} in it")),
        })
    };
    let capability = said
        .clone()
        .and_then(|said| Ok(10 * number(&said, "major")? + number(&said, "minor")?));
    facts.set(gpu, gpu::COMPUTE_CAPABILITY, capability);
    facts.set(gpu, gpu::INTEGRATED, can("integrated"));
    facts.set(gpu, gpu::COHERENT, can("page_tables"));
    facts.set(gpu, gpu::GPUDIRECT_RDMA, can("gpudirect_rdma"));
    facts.set(gpu, gpu::GPUDIRECT_RDMA_MAPPED, can("gpudirect_rdma_vmm"));
    facts.set(gpu, gpu::DMA_BUF, can("dma_buf"));
    facts.set(gpu, gpu::MULTICAST, can("multicast"));
}

/// The PCI address of a device: a GPU is function 0 of its own.
fn pci(said: &Value) -> Result<String, String> {
    let part = |member| number(said, member);
    let (domain, bus, device) = (part("pci_domain")?, part("pci_bus")?, part("pci_device")?);
    Ok(format!("{domain:04x}:{bus:02x}:{device:02x}.0"))
}

/// Asks which device reaches the memory of which.
fn pairs(ask: &Ask<'_>, facts: &mut Facts, node: Id, devices: &[Device]) {
    let access = |device: &Device| {
        let own = [("device", device.number.into())];
        ask.value(Question::call("cuDeviceCanAccessPeer", own))
    };
    let access: Vec<Fact<Arc<Value>>> = devices.iter().map(access).collect();
    let each = || devices.iter().zip(&access);
    for (at, (first, of_first)) in each().enumerate() {
        for (second, of_second) in each().skip(at + 1) {
            let (Some(a), Some(b)) = (first.gpu, second.gpu) else {
                continue;
            };
            // Parts of one GPU (MIG) are no pair.
            if a == b {
                continue;
            }
            let Some((pair, turned)) = pair(facts, node, a, b) else {
                continue;
            };
            let forth = reaches(of_first, second.number);
            let back = reaches(of_second, first.number);
            let (forth, back) = if turned { (back, forth) } else { (forth, back) };
            facts.set(pair, gpu_pair::CUDA_ACCESS, forth);
            facts.set(pair, gpu_pair::CUDA_ACCESS_BACK, back);
        }
    }
}

/// Whether a device reaches the memory of the one with this number.
fn reaches(access: &Fact<Arc<Value>>, to: u64) -> Fact<bool> {
    access.clone().and_then(|said| {
        if let Some(failure) = failed_call(&said) {
            return Err(format!("{} says {}", failure.function, failure.error()));
        }
        let peers = said
            .get("peers")
            .and_then(Value::as_array)
            .ok_or("no peers in it")?;
        let to = usize::try_from(to)
            .ok()
            .and_then(|to| peers.get(to))
            .and_then(Value::as_u64);
        to.map(|can| can != 0)
            .ok_or_else(|| "not all peers in it".to_owned())
    })
}

/// The pair of two GPUs, in the order in which pairs are named, and whether that turns them round.
pub(super) fn pair(facts: &mut Facts, node: Id, a: Id, b: Id) -> Option<(Id, bool)> {
    let (first, second) = (facts.name(a), facts.name(b));
    if first == second || facts.is_left_out(a) || facts.is_left_out(b) {
        return None;
    }
    let turned = first > second;
    let name = format!("{} - {}", first.min(second), first.max(second));
    // What takes part in a pair is named by derive: a pair of GPUs that the PCI bus does not show has only what CUDA reports about it.
    Some((facts.instance(Subject::GpuPair, node, &name), turned))
}
