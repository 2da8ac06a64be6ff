//! A node's topology: GPUs and adapters, if they are on PCIe, and how far from each other. Drawn from facts alone.

mod matrix;
mod models;
pub mod svg;
pub mod text;
mod tree;

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use crate::fact::gpu_nic::Distance;
use crate::fact::node::TopoFile;
use crate::fact::{
    Fact, Facts, Id, Key, Subject, Typed, device, function, gpu, gpu_nic, gpu_pair, hop, node, port,
};
use crate::small_sort;

/// Version of the JSON form: `major.minor`. Fields are added in a minor version; a major one changes or removes some.
pub const SCHEMA: &str = "rdma-doctor-topology/1.1";

/// A node's topology. Unknown values are `null`, and `unknown` says why.
#[derive(Debug, Serialize)]
pub struct Topology {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The node's name.
    pub node: String,
    /// How many NUMA nodes it has.
    pub numa_nodes: Option<u64>,
    /// The NUMA nodes on none of whose CPUs the process may run.
    pub cpu_nodes_forbidden: Option<Vec<String>>,
    /// The CPUs of each NUMA node, as "0: 0-55,112-167".
    pub numa_cpus: Option<Vec<String>>,
    /// The file from which NCCL takes the topology in place of this one.
    pub topo_file: Option<String>,
    /// The GPUs, by PCI address.
    pub gpus: Vec<Gpu>,
    /// The adapters: RDMA-capable functions and devices.
    pub nics: Vec<Nic>,
    /// Each two GPUs, and each GPU with each adapter on PCI.
    pub distances: Vec<Pair>,
    /// The PCIe links of their paths.
    pub hops: Vec<Hop>,
    /// The unknown values, and why.
    pub unknown: Vec<String>,
    /// Whether these are all GPUs.
    pub all_gpus: bool,
    /// Whether these are all adapters.
    pub all_nics: bool,
}

/// A PCIe link: that of a function to the port above it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Link {
    /// The generation at which it runs: 5 for 32 GT/s.
    pub generation: u64,
    /// The lanes on which it runs.
    pub width: u64,
    /// The highest generation that both ends can.
    pub possible_generation: Option<u64>,
    /// The most lanes that both ends can.
    pub possible_width: Option<u64>,
}

impl Link {
    /// The highest generation and the most lanes that both ends support, if known.
    fn possible(self) -> (u64, u64) {
        (
            self.possible_generation.unwrap_or(self.generation),
            self.possible_width.unwrap_or(self.width),
        )
    }

    /// Whether it runs below what both ends can.
    fn is_lowered(self) -> bool {
        let (generation, width) = self.possible();
        generation > self.generation || width > self.width
    }
}

/// A PCIe link on a path, by the function at its lower end.
#[derive(Debug, Serialize)]
pub struct Hop {
    /// PCI address of that function.
    pub pci: String,
    /// The link.
    pub link: Link,
    /// Whether it is the bottleneck of a path whose slot can carry more.
    pub narrow: bool,
}

/// A GPU.
#[derive(Debug, Serialize)]
pub struct Gpu {
    /// Its number in the drawing: the place by PCI address.
    pub index: usize,
    /// PCI address.
    pub pci: String,
    /// Vendor and device id.
    pub id: Option<String>,
    /// Its model, by its driver or its id.
    pub model: Option<String>,
    /// NUMA node.
    pub numa_node: Option<u64>,
    /// The PCI addresses from the host bridge down to itself.
    pub path: Option<Vec<String>>,
    /// Its link.
    pub link: Option<Link>,
    /// The nearest adapter that is intended for use.
    pub near_nic: Option<String>,
    /// How far that is.
    pub near_distance: Option<&'static str>,
}

/// An adapter.
#[derive(Debug, Serialize)]
pub struct Nic {
    /// Its number in the drawing: the place by PCI address.
    pub index: usize,
    /// The first RDMA device, else the PCI address.
    pub name: String,
    /// PCI address; `null` for software on a network device, and where it is not known.
    pub pci: Option<String>,
    /// The RDMA devices.
    pub devices: Vec<String>,
    /// Vendor and device id.
    pub id: Option<String>,
    /// Its model, by its id.
    pub model: Option<String>,
    /// Its rail: the place among the adapters on PCI that are intended for use.
    pub rail: Option<usize>,
    /// Whether it is software.
    pub software: Option<bool>,
    /// Whether one of its ports is intended for use.
    pub intended: Option<bool>,
    /// NUMA node.
    pub numa_node: Option<u64>,
    /// The PCI addresses from the host bridge down to itself.
    pub path: Option<Vec<String>>,
    /// Its link.
    pub link: Option<Link>,
    /// The ports.
    pub ports: Vec<Port>,
}

/// A port of an adapter.
#[derive(Debug, Serialize)]
pub struct Port {
    /// Device and number, as mlx5_0/1.
    pub name: String,
    /// Logical state.
    pub state: Option<&'static str>,
    /// What carries the traffic.
    pub link_layer: Option<&'static str>,
    /// Signalling rate in bits per second.
    pub rate: Option<u64>,
    /// The network device.
    pub netdev: Option<String>,
}

/// How far two functions are from each other.
#[derive(Debug, Serialize)]
pub struct Pair {
    /// PCI address of a GPU.
    pub from: String,
    /// PCI address of another GPU, or of an adapter.
    pub to: String,
    /// PIX, PXB, PHB, NODE or SYS.
    pub distance: Option<&'static str>,
    /// How many NVLinks connect two GPUs, directly or through switches; 0 if none does.
    pub nvlinks: Option<u64>,
}

/// Collects facts; says once why one is missing.
struct Reader<'f> {
    facts: &'f Facts,
    unknown: Vec<String>,
}

impl Reader<'_> {
    fn get<T: Typed>(&mut self, id: Id, key: Key<T>) -> Option<T> {
        match self.facts.get(id, key) {
            Fact::Known(value, _) => Some(value),
            Fact::Unknown(gap) => {
                let why = format!("{}: {gap}", key.path());
                if !self.unknown.contains(&why) {
                    self.unknown.push(why);
                }
                None
            }
        }
    }

    fn text(&mut self, id: Id, key: Key<Arc<str>>) -> Option<String> {
        self.get(id, key).map(|text| text.to_string())
    }

    fn path(&mut self, id: Id, key: Key<Arc<[Arc<str>]>>) -> Option<Vec<String>> {
        let parts = self.get(id, key)?;
        Some(parts.iter().map(|part| part.to_string()).collect())
    }

    /// The link to the port above. A function without one (on a root bus, in a virtual machine) is not missed.
    fn link(&mut self, node: Id, pci: &str) -> Option<Link> {
        let id = self.facts.find(Subject::Hop, node, pci)?;
        self.get(id, hop::GENERATION)?;
        self.get(id, hop::WIDTH)?;
        link(self.facts, id)
    }
}

impl Topology {
    /// The topology of a node.
    pub fn of(facts: &Facts, node: Id) -> Self {
        let mut reader = Reader {
            facts,
            unknown: Vec::new(),
        };
        let all_gpus = note_members(&mut reader, Subject::Gpu, node);
        let gpus = gpus(&mut reader, node);
        let all_functions = note_members(&mut reader, Subject::Function, node);
        let all_devices = note_members(&mut reader, Subject::Device, node);
        let nics = nics(&mut reader, node);
        let distances = distances(&mut reader, node);
        let forbidden = facts.known(node, node::CPU_NODES_FORBIDDEN);
        let topo_file = match facts.known(node, node::TOPO_FILE_STATE) {
            Some(TopoFile::Read) => facts.known(node, node::TOPO_FILE),
            _ => None,
        };
        Topology {
            schema: SCHEMA,
            node: facts.name(node).to_owned(),
            numa_nodes: reader.get(node, node::NUMA_NODES),
            numa_cpus: reader.path(node, node::NUMA_CPUS),
            cpu_nodes_forbidden: forbidden.map(|f| f.iter().map(|n| n.to_string()).collect()),
            topo_file: topo_file.map(|file| file.to_string()),
            gpus,
            nics,
            distances,
            hops: hops(facts, node),
            unknown: reader.unknown,
            all_gpus,
            all_nics: all_functions && all_devices,
        }
    }

    /// Names the devices whose model is not known yet, by a text of the form of pci.ids.
    pub fn name_models(&mut self, pci_ids: &str) {
        let gpus = self.gpus.iter_mut().map(|gpu| (&gpu.id, &mut gpu.model));
        let nics = self.nics.iter_mut().map(|nic| (&nic.id, &mut nic.model));
        for (id, model) in gpus.chain(nics) {
            if let (Some(id), None) = (id, &model) {
                *model = models::in_pci_ids(pci_ids, id).map(str::to_owned);
            }
        }
    }

    /// The CPUs of a NUMA node, if they are known.
    fn cpus(&self, numa_node: u64) -> Option<&str> {
        let mut all = self.numa_cpus.iter().flatten();
        all.find_map(|cpus| cpus.strip_prefix(&format!("{numa_node}: ")))
    }

    fn pair(&self, a: &str, b: &str) -> Option<&Pair> {
        let mut pairs = self.distances.iter();
        pairs.find(|p| (p.from == a && p.to == b) || (p.from == b && p.to == a))
    }

    /// The matrix's word for two functions: NV and the number of NVLinks, as `nvidia-smi topo -m` has it, else their distance.
    fn word(&self, a: &str, b: &str) -> String {
        if a == b {
            return "X".to_owned();
        }
        match self.pair(a, b) {
            Some(Pair {
                nvlinks: Some(n @ 1..),
                ..
            }) => format!("NV{n}"),
            pair => pair
                .and_then(|pair| pair.distance)
                .unwrap_or("?")
                .to_owned(),
        }
    }

    /// The columns of the matrix: the name and the PCI address of each GPU and of each adapter on PCI.
    fn columns(&self) -> Vec<(String, &str)> {
        let gpus = self.gpus.iter();
        let gpus = gpus.map(|gpu| (format!("GPU{}", gpu.index), gpu.pci.as_str()));
        let nics = self.nics.iter();
        let nics = nics.filter_map(|nic| Some((format!("NIC{}", nic.index), nic.pci.as_deref()?)));
        gpus.chain(nics).collect()
    }
}

fn note_members(reader: &mut Reader<'_>, subject: Subject, node: Id) -> bool {
    match reader.facts.members(subject, node) {
        Ok(_) => true,
        Err(gap) => {
            reader
                .unknown
                .push(format!("whether these are all {}s: {gap}", subject.name()));
            false
        }
    }
}

fn gpus(reader: &mut Reader<'_>, node: Id) -> Vec<Gpu> {
    let facts = reader.facts;
    // A virtual function is where its physical one is.
    let mut ids: Vec<Id> = facts
        .below(node, Subject::Gpu)
        .filter(|id| facts.known(*id, gpu::VIRTUAL_FUNCTION) != Some(true))
        .collect();
    small_sort::by_key(&mut ids, |id| facts.name(*id));
    ids.into_iter()
        .enumerate()
        .map(|(index, id)| {
            let pci = facts.name(id).to_owned();
            let device = reader.text(id, gpu::ID);
            let by_driver = facts.known(id, gpu::MODEL).map(|model| model.to_string());
            Gpu {
                index,
                model: by_driver.or_else(|| built_in(device.as_deref())),
                id: device,
                numa_node: reader.get(id, gpu::NUMA_NODE),
                path: reader.path(id, gpu::PATH),
                link: reader.link(node, &pci),
                // Without an adapter there is none to be missed.
                near_nic: facts.known(id, gpu::NEAR_NIC).map(|nic| nic.to_string()),
                near_distance: facts.known(id, gpu::NEAR_DISTANCE).map(Distance::word),
                pci,
            }
        })
        .collect()
}

fn nics(reader: &mut Reader<'_>, node: Id) -> Vec<Nic> {
    let facts = reader.facts;
    let devices: Vec<(Id, Option<Arc<str>>)> = facts
        .below(node, Subject::Device)
        .map(|id| (id, reader.get(id, device::PCI)))
        .collect();
    let mut taken: HashSet<Id> = HashSet::new();
    let mut nics: Vec<Nic> = Vec::new();
    for id in facts.below(node, Subject::Function) {
        let pci = facts.name(id);
        let own = devices.iter().filter(|(_, at)| at.as_deref() == Some(pci));
        let own: Vec<Id> = own.map(|(device, _)| *device).collect();
        if own.is_empty() && facts.known(id, function::RDMA) == Some(false) {
            continue;
        }
        taken.extend(&own);
        let numa_node = reader.get(id, function::NUMA_NODE);
        let path = reader.path(id, function::PATH);
        let link = reader.link(node, pci);
        let id = reader.text(id, function::ID);
        nics.push(Nic {
            model: built_in(id.as_deref()),
            id,
            ..nic(reader, Some(pci), &own, numa_node, path, link)
        });
    }
    for (id, pci) in &devices {
        if !taken.contains(id) {
            let pci = pci.as_deref().filter(|pci| *pci != "none");
            // A device without a bus has no NUMA node.
            let numa_node = match pci {
                Some(_) => reader.get(*id, device::NUMA_NODE),
                None => None,
            };
            nics.push(nic(reader, pci, &[*id], numa_node, None, None));
        }
    }
    // PCI devices first, in bus order.
    small_sort::by(&mut nics, |a, b| {
        let key = |nic: &Nic| (nic.pci.is_none(), nic.pci.clone(), nic.name.clone());
        key(a).cmp(&key(b))
    });
    let mut rails = 0..;
    for (index, nic) in nics.iter_mut().enumerate() {
        nic.index = index;
        if nic.intended == Some(true) && nic.pci.is_some() {
            nic.rail = rails.next();
        }
    }
    nics
}

fn built_in(id: Option<&str>) -> Option<String> {
    models::built_in(id?).map(str::to_owned)
}

fn hops(facts: &Facts, node: Id) -> Vec<Hop> {
    // The narrowest link of a path matters where the path carries less than the slot.
    let gpus = facts.below(node, Subject::Gpu).map(|id| {
        let (path, slot) = (gpu::PATH_BANDWIDTH, gpu::SLOT_BANDWIDTH);
        (id, gpu::NARROWEST_HOP, path, slot)
    });
    let functions = facts.below(node, Subject::Function).map(|id| {
        let (path, slot) = (function::PATH_BANDWIDTH, function::SLOT_BANDWIDTH);
        (id, function::NARROWEST_HOP, path, slot)
    });
    let narrow: HashSet<Arc<str>> = gpus
        .chain(functions)
        .filter(|(id, _, path, slot)| {
            let both = facts.known(*id, *path).zip(facts.known(*id, *slot));
            both.is_some_and(|(path, slot)| path.0 < slot.0)
        })
        .filter_map(|(id, hop, ..)| facts.known(id, hop))
        .collect();
    let hops = facts.below(node, Subject::Hop).filter_map(|id| {
        Some(Hop {
            pci: facts.name(id).to_owned(),
            link: link(facts, id)?,
            narrow: narrow.contains(facts.name(id)),
        })
    });
    hops.collect()
}

fn link(facts: &Facts, id: Id) -> Option<Link> {
    Some(Link {
        generation: facts.known(id, hop::GENERATION)?,
        width: facts.known(id, hop::WIDTH)?,
        possible_generation: facts.known(id, hop::POSSIBLE_GENERATION),
        possible_width: facts.known(id, hop::POSSIBLE_WIDTH),
    })
}

fn nic(
    reader: &mut Reader<'_>,
    pci: Option<&str>,
    devices: &[Id],
    numa_node: Option<u64>,
    path: Option<Vec<String>>,
    link: Option<Link>,
) -> Nic {
    let facts = reader.facts;
    let names = devices.iter().map(|id| facts.name(*id).to_owned());
    let names: Vec<String> = names.collect();
    let ports = devices.iter();
    let ports = ports.flat_map(|device| facts.below(*device, Subject::Port));
    let ports = ports.map(|id| Port {
        name: facts.name(id).to_owned(),
        state: reader.get(id, port::STATE).map(|state| state.word()),
        link_layer: reader.get(id, port::LINK_LAYER).map(|layer| layer.word()),
        rate: reader.get(id, port::RATE).map(|rate| rate.0),
        netdev: (facts.known(id, port::NETDEV)).map(|netdev| netdev.to_string()),
    });
    let ports = ports.collect();
    // True if one is, false if all are known not to be.
    let any = |key| -> Option<bool> {
        let all: Vec<Option<bool>> = devices.iter().map(|id| facts.known(*id, key)).collect();
        match all.is_empty() || all.contains(&None) {
            _ if all.contains(&Some(true)) => Some(true),
            true => None,
            false => Some(false),
        }
    };
    let first = names.first().map(String::as_str);
    Nic {
        index: 0,
        id: None,
        model: None,
        rail: None,
        name: first.or(pci).unwrap_or("?").to_owned(),
        pci: pci.map(str::to_owned),
        devices: names,
        software: any(device::SOFTWARE),
        intended: any(device::INTENDED),
        numa_node,
        path,
        link,
        ports,
    }
}

fn distances(reader: &mut Reader<'_>, node: Id) -> Vec<Pair> {
    let facts = reader.facts;
    let mut pairs = Vec::new();
    for id in facts.below(node, Subject::GpuPair) {
        if let (Some(from), Some(to)) = (
            reader.text(id, gpu_pair::FIRST),
            reader.text(id, gpu_pair::SECOND),
        ) {
            pairs.push(Pair {
                from,
                to,
                distance: reader.get(id, gpu_pair::DISTANCE).map(Distance::word),
                nvlinks: nvlinks(facts, node, id),
            });
        }
    }
    for id in facts.below(node, Subject::GpuNic) {
        let gpu = facts.parent(id).map(|gpu| facts.name(gpu).to_owned());
        let function = facts
            .related(id)
            .iter()
            .find(|other| facts.subject(**other) == Subject::Function)
            .map(|function| facts.name(*function).to_owned());
        if let (Some(from), Some(to)) = (gpu, function) {
            pairs.push(Pair {
                from,
                to,
                distance: reader.get(id, gpu_nic::DISTANCE).map(Distance::word),
                nvlinks: None,
            });
        }
    }
    pairs
}

/// The NVLinks between two GPUs; through switches as many as both have that lead to one.
fn nvlinks(facts: &Facts, node: Id, pair: Id) -> Option<u64> {
    match facts.known(pair, gpu_pair::NVLINKS) {
        Some(direct @ 1..) => return Some(direct),
        // Without NVML's word on the pair it is open whether switches connect them.
        _ if facts.known(pair, gpu_pair::NVLINK)? => {}
        _ => return Some(0),
    }
    let to_switch = |end: Key<Arc<str>>| {
        let gpu = facts.find(Subject::Gpu, node, &facts.known(pair, end)?)?;
        facts.known(gpu, gpu::NVLINKS_TO_SWITCH)
    };
    Some(to_switch(gpu_pair::FIRST)?.min(to_switch(gpu_pair::SECOND)?))
}
