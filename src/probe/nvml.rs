//! NVML: whether it works, its GPUs, their links, and the P2P capabilities of each pair.
//!
//! Everything is asked first and stated then: which GPU a question was about that NVML did not answer, the other answers tell.

pub(super) mod device;
mod links;
mod pairs;
mod reply;
#[cfg(test)]
mod tests;
mod users;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Ask, Probe};
use crate::fact::node::Nvml;
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, Presence, Subject, SubjectSchema, Why, gpu, known,
    node,
};
use crate::source::{Question, Refusal};
pub(super) use device::anywhere as says;
use reply::NvmlReply;
pub(super) use reply::{is_damage, words};

/// The probe.
// The driver may have to wake GPU after GPU.
pub const PROBE: Probe = Probe::new("nvml", run).within(Duration::from_secs(10));

/// More GPUs than a node has.
const MOST: u64 = 64;

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    let seen = ask
        .link_name("/proc/self/ns/pid")
        .or_absent("".into())
        // The first one has this number on every Linux (PROC_PID_INIT_INO).
        .map(|name| &*name == "pid:[4026531836]");
    let files = device_files(ask);
    let shown = ask
        .names_if_any("/proc/driver/nvidia/gpus")
        .or_absent(Arc::default());

    let System { said, state } = match ready(ask, &files) {
        Ok(()) => begin(ask),
        Err(not) => not,
    };
    let (state, error) = state.unzip();
    facts.set(node, node::NVML, state);
    facts.set(node, node::NVML_ERROR, error);
    let mut machine = Machine {
        job: job(ask),
        seen,
        files,
        shown,
        own_dev: None,
        gap: None,
        devices: Vec::new(),
        links: Vec::new(),
        pairs: None,
        unanswered: Vec::new(),
    };
    match said {
        Ok(said) => {
            versions(facts, node, &said);
            if said.works() {
                machine.query_gpus(ask, &said);
            } else {
                machine.gap = Some(said.gap());
            }
        }
        Err(gap) => machine.gap = Some(gap),
    }
    let shown = machine.shown.known().map_or(0, |shown| shown.len());
    if machine.devices.len() < shown {
        machine.own_dev = own_dev(ask);
    }
    machine.state(facts, node);
    if let Some(gap) = &machine.gap {
        leave_open(facts, node, &node::SCHEMA, gap);
    }
}

/// The device files that matter: of the driver, and of its GPUs by their numbers.
#[derive(Clone)]
struct DeviceFiles {
    control: bool,
    minors: Vec<u64>,
}

fn device_files(ask: &Ask<'_>) -> Fact<DeviceFiles> {
    ask.names("/dev").map(|names| DeviceFiles {
        control: names.iter().any(|name| &**name == "nvidiactl"),
        minors: names
            .iter()
            .filter_map(|name| name.strip_prefix("nvidia")?.parse().ok())
            .collect(),
    })
}

/// The process that was named with --as, 0 for none.
fn job(ask: &Ask<'_>) -> Fact<u64> {
    let named = ask.value(Question::call("job_process", []));
    named.and_then(|pid| pid.as_u64().ok_or_else(|| format!("process {pid}")))
}

/// How NVML begins.
struct System {
    /// Its reply, or why there is none.
    said: Result<NvmlReply, Gap>,
    /// What that means, and the error.
    state: Fact<(Nvml, Arc<str>)>,
}

impl System {
    /// It was asked and answered.
    fn asked(said: NvmlReply) -> Self {
        let state = match said.error(BEGIN) {
            None => (Nvml::Works, "none".into()),
            Some(name) => (fails(|known| known == name), reply::words(name)),
        };
        System {
            state: Fact::Known(state, said.origin()),
            said: Ok(said),
        }
    }

    /// It was not asked, or did not answer: what that means.
    fn not(means: Nvml, origin: Origin, why: impl Into<Arc<str>>) -> Self {
        let why = why.into();
        System {
            said: Err(Gap::not_asked(Arc::clone(&why), origin.clone())),
            state: Fact::Known((means, why), origin),
        }
    }

    fn unknown(gap: Gap) -> Self {
        System {
            said: Err(gap.clone()),
            state: Fact::Unknown(gap),
        }
    }
}

/// The function with which NVML begins.
const BEGIN: &str = "nvmlInitWithFlags";

/// NVML is asked only if the driver is loaded and its control device is there: it would load the one and make the other.
fn ready(ask: &Ask<'_>, files: &Fact<DeviceFiles>) -> Result<(), System> {
    match ask.text_if_any("/proc/driver/nvidia/version") {
        Presence::Present(..) => {}
        Presence::Absent(origin) => {
            let why = "NVIDIA's driver is not loaded";
            return Err(System::not(Nvml::NoDriver, origin, why));
        }
        Presence::Unknown(gap) => return Err(System::unknown(gap)),
    }
    match files.clone() {
        Fact::Known(files, _) if files.control => Ok(()),
        Fact::Known(_, origin) => {
            let why = "/dev/nvidiactl is not there";
            Err(System::not(Nvml::NoControlDevice, origin, why))
        }
        Fact::Unknown(gap) => Err(System::unknown(gap)),
    }
}

fn begin(ask: &Ask<'_>) -> System {
    let question = Question::call("nvml_system", []);
    let origin = Origin::Asked(question.clone());
    let gap = match ask.value_at(&question).1 {
        Ok(value) => return System::asked(NvmlReply { value, question }),
        Err(gap) => gap,
    };
    match &gap.why {
        Why::Refused(Refusal::LibraryMissing(words)) => {
            System::not(Nvml::NoLibrary, origin, Arc::clone(words))
        }
        Why::Refused(hangs @ Refusal::Timeout) => {
            System::not(Nvml::Hangs, origin, hangs.to_string())
        }
        Why::Refused(crashes @ Refusal::Crash(_)) => {
            System::not(Nvml::Crashes, origin, crashes.to_string())
        }
        _ => System::unknown(gap),
    }
}

/// What an error with which NVML does not begin means: `is` tells it by its name.
fn fails(is: impl Fn(&str) -> bool) -> Nvml {
    let known = [
        ("LibRmVersionMismatch", Nvml::Mismatch),
        ("NoPermission", Nvml::NoPermission),
    ];
    let found = known.into_iter().find(|(name, _)| is(name));
    found.map_or(Nvml::Fails, |(_, what)| what)
}

/// The same by its words.
pub(super) fn fails_with(words: &str) -> Nvml {
    fails(|name| *reply::words(name) == *words)
}

impl NvmlReply {
    fn works(&self) -> bool {
        self.error(BEGIN).is_none()
    }

    /// Why nothing follows from a library that did not begin.
    fn gap(&self) -> Gap {
        let name = self.error(BEGIN).unwrap_or("Unknown");
        let why = format!("NVML says: {}", reply::words(name));
        Gap::not_asked(why, self.origin())
    }
}

fn versions(facts: &mut Facts, node: Id, said: &NvmlReply) {
    // "12.550.54.15": CUDA's major version is before the driver's.
    let version = said.text("nvmlSystemGetNVMLVersion").and_then(|text| {
        let (cuda, version) = text
            .split_once('.')
            .ok_or("a version without a dot".to_owned())?;
        // Libraries before CUDA 10 have the driver's version alone.
        Ok(match cuda.parse::<u64>() {
            Ok(major) if major < 64 => version.into(),
            _ => text,
        })
    });
    facts.set(node, node::NVML_VERSION, version);
    if !said.works() {
        return;
    }
    let cuda = said.number("nvmlSystemGetCudaDriverVersion_v2");
    let nvml_cuda = cuda.map(|n| format!("{}.{}", n / 1000, n % 1000 / 10).into());
    facts.set(node, node::NVML_CUDA, nvml_cuda);
    facts.set(node, node::NVML_GPUS, said.number("nvmlDeviceGetCount_v2"));
    let confidential = match said.error("nvmlSystemGetConfComputeState") {
        Some("NotSupported" | "MissingSymbol") => Fact::Known(false, said.origin()),
        _ => said
            .member("nvmlSystemGetConfComputeState")
            .number("ccFeature")
            .map(|feature| feature != 0),
    };
    facts.set(node, node::CONFIDENTIAL, confidential);
}

/// NVML's replies about its GPUs, and facts known without it.
struct Machine {
    /// Why nothing was asked.
    gap: Option<Gap>,
    devices: Vec<Result<NvmlReply, Gap>>,
    links: Vec<Result<NvmlReply, Gap>>,
    pairs: Option<Result<NvmlReply, Gap>>,
    /// Questions without an answer.
    unanswered: Vec<Arc<str>>,
    job: Fact<u64>,
    seen: Fact<bool>,
    files: Fact<DeviceFiles>,
    /// The GPUs that the driver shows.
    shown: Fact<Arc<[Arc<str>]>>,
    /// If /dev is the machine's own: whether no control group can keep this process from a GPU.
    own_dev: Option<Fact<bool>>,
}

impl Machine {
    fn query_gpus(&mut self, ask: &Ask<'_>, system: &NvmlReply) {
        let count = match system.number("nvmlDeviceGetCount_v2") {
            Fact::Known(count, _) => count.min(MOST),
            Fact::Unknown(gap) => {
                self.gap = Some(gap);
                return;
            }
        };
        let mut each = |call| {
            let question = |index: u64| Question::call(call, [("index", index.into())]);
            let all = (0..count).map(|index| self.ask_and_keep(ask, question(index)));
            all.collect()
        };
        (self.devices, self.links) = (each("nvml_device"), each("nvml_links"));
        if count > 1 {
            self.pairs = Some(self.ask_and_keep(ask, Question::call("nvml_p2p", [])));
        }
    }

    fn ask_and_keep(&mut self, ask: &Ask<'_>, question: Question) -> Result<NvmlReply, Gap> {
        let said = ask.value_at(&question).1;
        // One that is not in the recording is not known to have been left open.
        if let Err(gap) = &said
            && let Why::Refused(refusal) = &gap.why
            && *refusal != Refusal::NotRecorded
        {
            let how = format!("{question}: {refusal}");
            self.unanswered.push(how.into());
        }
        said.map(|value| NvmlReply { value, question })
    }

    /// The address of each GPU that NVML gives, by its number: from its own reply, else from that about pairs.
    fn addresses(&self) -> Vec<Option<Arc<str>>> {
        let of_pairs = self.pairs.as_ref().and_then(|said| said.as_ref().ok());
        let of_pairs = of_pairs.and_then(|said| said.value.get("devices")?.as_array());
        let other = |index: usize| of_pairs?.get(index)?.as_str();
        let own = |said: &Result<NvmlReply, Gap>| {
            let said = said.as_ref().ok()?;
            said.value
                .get("nvmlDeviceGetPciInfo_v3")?
                .as_str()
                .map(address)
        };
        let devices = self.devices.iter().enumerate();
        devices
            .map(|(index, said)| own(said).or_else(|| other(index).map(address)))
            .collect()
    }

    fn state(&self, facts: &mut Facts, node: Id) {
        if self.gap.is_none() {
            let origin = Origin::Asked(Question::call("nvml_system", []));
            let unanswered: Arc<[Arc<str>]> = self.unanswered.as_slice().into();
            let count = unanswered.len() as u64;
            facts.know(node, node::NVML_UNANSWERED, count, &origin);
            facts.know(node, node::NVML_UNANSWERED_LIST, unanswered, &origin);
        }
        let bus: Vec<Id> = facts.below(node, Subject::Gpu).collect();
        for id in &bus {
            facts.derive(*id, gpu::ON_PCI, true, "the PCI bus lists it");
        }
        let addresses = self.addresses();
        let ids: Vec<Option<Id>> = addresses
            .iter()
            .map(|address| {
                let address = address.as_ref()?;
                let known = facts.find(Subject::Gpu, node, address);
                Some(known.unwrap_or_else(|| self.only_in_nvml(facts, node, address)))
            })
            .collect();
        for (index, id) in ids.iter().enumerate() {
            let (Some(id), Some(said)) = (id, self.devices.get(index)) else {
                continue;
            };
            let origin = match said {
                Ok(said) => said.origin(),
                Err(gap) => gap.origin.clone(),
            };
            facts.set(*id, gpu::IN_NVML, Fact::Known(true, origin));
            match said {
                Ok(said) => {
                    device::state(facts, *id, said, self.files.as_result());
                    users::state(facts, *id, said, &self.seen, &self.job);
                    device::lost(facts, *id, said);
                }
                Err(gap) => leave_gpu_open(facts, *id, gap),
            }
            if let Some(links) = self.links.get(index) {
                links::state(facts, *id, links);
            }
        }
        let listed: Vec<Id> = ids.iter().flatten().copied().collect();
        self.missing(facts, node, &bus, &listed);
        let by_index: HashMap<u64, Id> = ids
            .iter()
            .enumerate()
            .filter_map(|(index, id)| Some((index as u64, (*id)?)))
            .collect();
        if let Some(pairs) = &self.pairs {
            pairs::state(facts, node, pairs, &by_index);
        }
    }

    /// A GPU that NVML gives and the bus does not show: sysfs is hidden, or the GPU is of a virtual machine's own making.
    fn only_in_nvml(&self, facts: &mut Facts, node: Id, address: &Arc<str>) -> Id {
        let id = facts.instance(Subject::Gpu, node, address);
        facts.derive(id, gpu::PCI, Arc::clone(address), "NVML lists it");
        let on_pci = facts.complete(Subject::Gpu, node).map(|()| false);
        facts.set(id, gpu::ON_PCI, on_pci);
        id
    }

    /// Facts of GPUs on the bus that NVML does not list.
    fn missing(&self, facts: &mut Facts, node: Id, bus: &[Id], listed: &[Id]) {
        let mut open = facts.members(Subject::Gpu, node).err();
        let mut bound = Vec::new();
        for id in bus {
            match driver_supports(facts, *id) {
                Fact::Known(true, _) => bound.push(*id),
                Fact::Known(false, _) => {
                    let origin = Origin::derived("NVIDIA's driver is not bound to it");
                    facts.know(*id, gpu::IN_NVML, false, &origin);
                    facts.know(*id, gpu::NVLINKS, 0, &origin);
                    facts.set_members(Subject::Nvlink, *id, Membership::Known(origin.clone()));
                    let why = "NVML knows GPUs of NVIDIA's driver only";
                    leave_gpu_open(facts, *id, &Gap::not_asked(why, origin));
                }
                Fact::Unknown(gap) => {
                    leave_gpu_open(facts, *id, &gap);
                    open = open.or(Some(gap));
                }
            }
            facts.set(*id, gpu::GIVEN, self.given(facts, *id, listed));
        }
        let least = bound.len() as u64;
        let count = Fact::derived(least, "the GPUs bound to the driver nvidia").unless(open);
        facts.set_at_least(node, node::NVIDIA_GPUS, count, least);
        let lost: Vec<Id> = bound
            .into_iter()
            .filter(|id| !listed.contains(id))
            .collect();
        if let Some(gap) = &self.gap {
            for id in &lost {
                leave_gpu_open(facts, *id, gap);
            }
            return;
        }
        let origin = || Origin::Asked(Question::call("nvml_system", []));
        const HANDLE: &str = "nvmlDeviceGetHandleByIndex_v2";
        let nameless = self.devices.iter().zip(self.addresses());
        let nameless: Vec<_> = nameless
            .filter_map(|(said, address)| address.is_none().then_some(said))
            .collect();
        // A reply that does not say which GPU it is of may be of any of them.
        let unclear = |said: &Result<NvmlReply, Gap>| match said {
            Err(gap) => Some(gap.clone()),
            Ok(said) if said.error(HANDLE).is_none() => {
                Some(Gap::missing("nvmlDeviceGetPciInfo_v3"))
            }
            Ok(_) => None,
        };
        for (at, id) in lost.iter().enumerate() {
            // Both are in the order of their addresses; as many as there are, they are the same.
            let own = nameless
                .get(at)
                .filter(|_| nameless.len() == lost.len())
                .copied();
            let gap = match own {
                Some(own) => unclear(own),
                None => nameless.iter().copied().find_map(unclear),
            };
            if let Some(gap) = &gap {
                leave_gpu_open(facts, *id, gap);
                continue;
            }
            facts.set(*id, gpu::IN_NVML, Fact::Known(false, origin()));
            match own {
                Some(Ok(said)) => {
                    device::refused(facts, *id, said);
                    let name = said.error(HANDLE);
                    leave_gpu_open(facts, *id, &said.refused(name.unwrap_or("Unknown")));
                }
                _ => leave_gpu_open(
                    facts,
                    *id,
                    &Gap::not_asked("NVML does not list it", origin()),
                ),
            }
        }
    }

    fn given(&self, facts: &Facts, id: Id, listed: &[Id]) -> Fact<bool> {
        if listed.contains(&id) {
            return Fact::derived(true, "NVML lists it");
        }
        let (shown, origin) = known!(self.shown.clone(), with origin);
        let name = facts.name(id);
        if !shown.iter().any(|shown| address(shown) == name.into()) {
            return Fact::Known(false, origin);
        }
        match (&self.own_dev, &self.files) {
            (Some(Fact::Known(true, origin)), _) => Fact::Known(true, origin.clone()),
            (Some(_), _) => Fact::Unknown(Gap::missing("which GPUs the job was given")),
            (None, Fact::Known(files, _)) if files.minors.len() >= shown.len() => {
                Fact::Known(true, origin)
            }
            // Which of them this process was not given, its number would tell, and NVML does not.
            (None, Fact::Known(..)) => Fact::Unknown(Gap::missing("gpu.minor")),
            (None, Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
        }
    }
}

/// A container has a /dev of its own with what it was given. On the machine's own, whose file system is the kernel's, a job's control group keeps the
/// process from other GPUs, and NVML leaves those out: `None` if it is not the machine's own, or nobody knows.
fn own_dev(ask: &Ask<'_>) -> Option<Fact<bool>> {
    let mounts = ask.text("/proc/self/mountinfo");
    let (_, dev) = mounts.known()?.lines().rev().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        (mount.split(' ').nth(4) == Some("/dev")).then_some((mount, source))
    })?;
    let is_free = |path: &str| {
        matches!(path, "/" | "/init.scope")
            || path.contains("/user-0.slice/")
            || path.ends_with(".service")
    };
    let groups = ask.text_if_any("/proc/self/cgroup").or_absent("".into());
    dev.starts_with("devtmpfs ").then(|| {
        groups.map(|text| {
            let mut paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
            paths.all(is_free)
        })
    })
}

/// Whether a GPU of the bus is NVIDIA's and bound to its driver.
fn driver_supports(facts: &Facts, id: Id) -> Fact<bool> {
    match facts.get(id, gpu::ID) {
        Fact::Known(vendor, origin) if !vendor.starts_with("10de:") => Fact::Known(false, origin),
        _ => facts
            .get(id, gpu::DRIVER)
            .map(|driver| &*driver == "nvidia"),
    }
}

/// What NVML did not say of a GPU is open for this reason.
fn leave_gpu_open(facts: &mut Facts, id: Id, gap: &Gap) {
    leave_open(facts, id, &gpu::SCHEMA, gap);
    facts.set_members(Subject::Nvlink, id, Membership::Unknown(gap.clone()));
}

/// What NVML did not say is open for this reason.
fn leave_open(facts: &mut Facts, id: Id, schema: &SubjectSchema, gap: &Gap) {
    for (index, fact) in schema.facts.iter().enumerate() {
        if fact.probe == PROBE.name && facts.look(id, index).is_none() {
            facts.set_at(id, index, Fact::Unknown(gap.clone()));
        }
    }
}

/// A PCI address as sysfs has it: NVML has eight digits of domain, in capitals.
fn address(text: impl AsRef<str>) -> Arc<str> {
    let text = text.as_ref().to_ascii_lowercase();
    match text.split_once(':') {
        Some((domain, rest)) => {
            let short = domain.trim_start_matches('0');
            format!("{short:0>4}:{rest}").into()
        }
        None => text.into(),
    }
}
