//! What of a node is meant to be as on its equals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Realm, Sample, TextOrReason, group, said, sides};
use crate::fact::comparison::ComparedProperty;
use crate::fact::device::{NodeType, Role};
use crate::fact::port::LinkLayer;
use crate::fact::setting::SettingRole;
use crate::fact::{
    Fact, Facts, Gap, Id, Key, Subject, Typed, Value, device, gpu, interface, module, netdev, node,
    port, selection, setting, traffic, variable,
};
use crate::nodeset;

/// Variables that every process or host has its own of.
const OWN_VARIABLES: [&str; 5] = [
    "NCCL_HOSTID",
    "NCCL_DEBUG_FILE",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
];

/// Takes all properties of a node.
pub(super) fn take(facts: &Facts, node: Id, sample: &mut Sample) {
    let kind = match &sample.kind {
        Ok(kind) => Arc::clone(kind),
        // Nobody knows with whom to compare it: it is silent everywhere.
        Err(_) => return,
    };
    let gpus = facts.below(node, Subject::Gpu).count();
    let mut look = SampleReader {
        facts,
        node,
        kind,
        sample,
    };
    look.node(ComparedProperty::Kernel, node::KERNEL);
    look.node(ComparedProperty::Os, node::OS);
    look.texts(ComparedProperty::Governor, node::GOVERNORS);
    look.node(ComparedProperty::IdleLatency, node::IDLE_LATENCY);
    look.node(ComparedProperty::NumaBalancing, node::NUMA_BALANCING);
    look.node(ComparedProperty::Iommu, node::IOMMU);
    look.node(ComparedProperty::Memlock, node::MEMLOCK);
    look.node(ComparedProperty::NcclVersion, node::NCCL_VERSION);
    look.node(ComparedProperty::Ofed, node::OFED);
    look.node(ComparedProperty::RdmaStack, node::RDMA_STACK);
    if gpus > 0 {
        look.gpus(gpus);
    }
    look.devices();
    look.ports();
    look.networks();
    look.selection();
    look.variables();
}

struct SampleReader<'a> {
    facts: &'a Facts,
    node: Id,
    kind: Arc<str>,
    sample: &'a mut Sample,
}

impl SampleReader<'_> {
    fn has(&mut self, of: ComparedProperty, value: TextOrReason) {
        let kind = Arc::clone(&self.kind);
        self.sample.has(of, kind, value);
    }

    fn node<T: Typed>(&mut self, of: ComparedProperty, key: Key<T>) {
        self.has(of, said(self.facts.get(self.node, key)));
    }

    fn texts(&mut self, of: ComparedProperty, key: Key<Arc<[Arc<str>]>>) {
        let fact = self.facts.get(self.node, key).map(|texts| {
            let mut texts: Vec<&str> = texts.iter().map(|t| &**t).collect();
            texts.sort_unstable();
            if texts.is_empty() {
                Arc::<str>::from("none")
            } else {
                texts.join(", ").into()
            }
        });
        self.has(of, said(fact));
    }

    fn gpus(&mut self, count: usize) {
        let facts = self.facts;
        self.has(ComparedProperty::GpuCount, Ok(count.to_string().into()));
        // As many GPUs of another kind: one that computes with others, and no workstation among
        // servers.
        let model = match group::gpu_id(facts, self.node) {
            // A driver that does not answer on one node makes no other GPU of it.
            Ok(Some(id)) => Ok(id),
            Ok(None) => return,
            Err(gap) => Err(gap.to_string().into()),
        };
        let group = format!("nodes with {count} GPUs");
        self.sample.has(ComparedProperty::GpuModel, group, model);
        self.node(ComparedProperty::GpuDriver, node::NVIDIA_DRIVER);
        if facts.known(self.node, node::GPUDIRECT_WANTED) != Some(false) {
            self.node(ComparedProperty::Gpudirect, node::GPUDIRECT);
        }
        let mut distances: BTreeMap<String, u64> = BTreeMap::new();
        let mut open = None;
        for id in facts.below(self.node, Subject::Gpu) {
            match said(facts.get(id, gpu::NEAR_DISTANCE)) {
                Ok(distance) => *distances.entry(distance.to_string()).or_default() += 1,
                Err(why) => open = Some(why),
            }
        }
        let all: Vec<String> = distances
            .into_iter()
            .map(|(distance, n)| format!("{n} {distance}"))
            .collect();
        let value = open.map_or_else(|| Ok(all.join(", ").into()), Err);
        self.has(ComparedProperty::GpuNicDistance, value);
    }

    /// The devices that are there for a job: no virtual functions, none that carries the machine's
    /// own traffic.
    fn devices(&mut self) {
        let facts = self.facts;
        let mut open = facts.members(Subject::Device, self.node).err();
        let mut names: Vec<String> = Vec::new();
        let mut firmware: BTreeMap<Arc<str>, Vec<(String, TextOrReason)>> = BTreeMap::new();
        let mut drivers: Vec<(String, TextOrReason)> = Vec::new();
        for id in facts.below(self.node, Subject::Device) {
            match facts.get(id, device::VIRTUAL_FUNCTION) {
                Fact::Known(true, _) => continue,
                Fact::Known(false, _) => {}
                Fact::Unknown(gap) => {
                    open = Some(gap);
                    continue;
                }
            }
            let name = facts.name(id).to_owned();
            match facts.get(id, device::ROLE) {
                Fact::Known(Role::Management, _) => {}
                Fact::Known(Role::Compute, _) => names.push(name.clone()),
                Fact::Unknown(gap) => open = Some(gap),
            }
            drivers.push((name.clone(), self.driver(id)));
            if facts.known(id, device::SOFTWARE) == Some(true) {
                continue;
            }
            match facts.get(id, device::BOARD) {
                Fact::Known(board, _) => firmware
                    .entry(board)
                    .or_default()
                    .push((name, said(facts.get(id, device::FIRMWARE)))),
                Fact::Unknown(gap) => self.sample.lacks(ComparedProperty::Firmware, &gap),
            }
        }
        names.sort_unstable();
        if let Some(gap) = open {
            for of in [
                ComparedProperty::HcaCount,
                ComparedProperty::HcaNames,
                ComparedProperty::RdmaDriver,
                ComparedProperty::Firmware,
            ] {
                self.sample.lacks(of, &gap);
            }
            return;
        }
        let count = names.len().to_string();
        self.has(ComparedProperty::HcaCount, Ok(count.into()));
        if !names.is_empty() {
            self.has(ComparedProperty::HcaNames, Ok(nodeset::fold(&names).into()));
            self.has(ComparedProperty::RdmaDriver, together(drivers));
        }
        for (board, versions) in firmware {
            let group = format!("adapters {board} of {}", self.kind);
            let versions = together(versions);
            self.sample.has(ComparedProperty::Firmware, group, versions);
        }
    }

    fn driver(&self, id: Id) -> TextOrReason {
        let facts = self.facts;
        let driver = said(facts.get(id, device::DRIVER))?;
        let version = facts
            .find(Subject::Module, self.node, &driver)
            .and_then(|module| facts.known(module, module::VERSION));
        Ok(match version.as_deref() {
            Some("none") | None => driver,
            Some(version) => format!("{driver} {version}").into(),
        })
    }

    /// The ports that a job uses: intended, active, and not of the machine's own traffic.
    fn ports(&mut self) {
        let facts = self.facts;
        let mut open = facts.incomplete(self.node, Subject::Port);
        let mut used: Vec<(Id, LinkLayer)> = Vec::new();
        for id in facts.below(self.node, Subject::Port) {
            let Some(device) = facts.parent(id) else {
                continue;
            };
            if facts.known(device, device::ROLE) == Some(Role::Management)
                || facts.known(device, device::VIRTUAL_FUNCTION) == Some(true)
                || facts.known(id, port::INTENDED) == Some(false)
            {
                continue;
            }
            let layer = (|| {
                let state = facts.value(id, port::STATE)?;
                if !state.is_active() {
                    return Ok(None);
                }
                facts.value(device, device::ROLE)?;
                facts.value(id, port::INTENDED)?;
                facts.value(id, port::LINK_LAYER).map(Some)
            })();
            match layer {
                Ok(layer) => used.extend(layer.map(|layer| (id, layer))),
                Err(gap) => open = Some(gap),
            }
        }
        if let Some(gap) = open {
            let of_ports = ComparedProperty::ActivePorts..=ComparedProperty::Ecn;
            let alike = ComparedProperty::ALIKE.iter();
            for of in alike.filter(|of| of_ports.contains(of) && **of != ComparedProperty::Network)
            {
                self.sample.lacks(*of, &gap);
            }
            return;
        }
        let count = used.len().to_string();
        self.has(ComparedProperty::ActivePorts, Ok(count.into()));
        if used.is_empty() {
            return;
        }
        let all: Vec<Id> = used.iter().map(|(id, _)| *id).collect();
        let devices = all.iter().filter_map(|id| facts.parent(*id));
        self.sample.devices = devices.map(|id| facts.shared_name(id)).collect();
        let layers = used
            .iter()
            .map(|(id, layer)| (facts.name(*id).to_owned(), Ok(layer.word().into())));
        let layers = together(layers.collect());
        self.has(ComparedProperty::LinkLayer, layers);
        self.fact_of_ports("RDMA", &all, ComparedProperty::Rate, port::RATE);
        let of = |wanted: LinkLayer| -> Vec<Id> {
            let of_layer = used.iter().filter(|(_, layer)| *layer == wanted);
            of_layer.map(|(id, _)| *id).collect()
        };
        let infiniband = of(LinkLayer::InfiniBand);
        if !infiniband.is_empty() {
            let ports = "InfiniBand";
            self.fact_of_ports(ports, &infiniband, ComparedProperty::RdmaMtu, port::MTU);
            self.fact_of_ports(
                ports,
                &infiniband,
                ComparedProperty::Pkeys,
                port::PKEYS_IN_FRONT,
            );
            self.subnets(&infiniband);
        }
        let is_roce = |id: &Id| {
            let device = facts.parent(*id);
            device.and_then(|d| facts.known(d, device::NODE_TYPE)) != Some(NodeType::Rnic)
        };
        let roce: Vec<Id> = of(LinkLayer::Ethernet)
            .into_iter()
            .filter(is_roce)
            .collect();
        if !roce.is_empty() {
            self.roce(&roce);
        }
    }

    fn roce(&mut self, ports: &[Id]) {
        let facts = self.facts;
        let name = "RoCE";
        let netdev = |id: &Id| {
            let netdev = facts.known(*id, port::NETDEV)?;
            Some((netdev, facts.known(*id, port::NETDEV_MTU)))
        };
        self.sample.netdevs = ports.iter().filter_map(netdev).collect();
        self.fact_of_ports(name, ports, ComparedProperty::RdmaMtu, port::MTU);
        self.fact_of_ports(name, ports, ComparedProperty::NetdevMtu, port::NETDEV_MTU);
        self.of_ports(name, ports, ComparedProperty::RoceVersion, |p| {
            match (
                facts.get(p, port::GID_ROUTABLE_V2),
                facts.get(p, port::GID_ROUTABLE_V1),
            ) {
                (Fact::Known(true, _), _) => Ok("RoCE v2".into()),
                (Fact::Known(false, _), Fact::Known(true, _)) => Ok("RoCE v1 only".into()),
                (Fact::Known(false, _), Fact::Known(false, _)) => Ok("no routable address".into()),
                (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => Err(gap.to_string().into()),
            }
        });
        // A port without such a GID differs in more than its index.
        let has_gid = |id: &&Id| facts.known(**id, port::GID_ROUTABLE_V2) != Some(false);
        let with_gid: Vec<Id> = ports.iter().filter(has_gid).copied().collect();
        if !with_gid.is_empty() {
            self.fact_of_ports(name, &with_gid, ComparedProperty::GidIndex, port::GID_INDEX);
        }
        let hard: Vec<Id> = ports
            .iter()
            .copied()
            .filter(|p| {
                facts
                    .parent(*p)
                    .and_then(|d| facts.known(d, device::SOFTWARE))
                    == Some(false)
            })
            .collect();
        if hard.is_empty() {
            return;
        }
        self.fact_of_traffic(&hard, ComparedProperty::Trust, traffic::TRUST);
        self.fact_of_traffic(&hard, ComparedProperty::TrafficClass, traffic::CLASS);
        self.fact_of_traffic(&hard, ComparedProperty::Priority, traffic::PRIORITY);
        self.fact_of_traffic(&hard, ComparedProperty::Pfc, traffic::PFC_PRIORITIES);
        // Where ECN has no switches the driver has them in its firmware, on every node alike.
        let switched = |p: &Id| {
            let traffic = facts.below(*p, Subject::Traffic).next();
            traffic.and_then(|t| facts.known(t, traffic::ECN_SWITCHED)) != Some(false)
        };
        let with_switches: Vec<Id> = hard.into_iter().filter(switched).collect();
        if !with_switches.is_empty() {
            self.of_ports(name, &with_switches, ComparedProperty::Ecn, |p| {
                said(of_traffic(facts, p, traffic::ECN).map(|on| {
                    if on {
                        Arc::<str>::from("on")
                    } else {
                        "off".into()
                    }
                }))
            });
        }
    }

    fn fact_of_ports<T: Typed>(
        &mut self,
        what: &str,
        ports: &[Id],
        of: ComparedProperty,
        key: Key<T>,
    ) {
        let facts = self.facts;
        self.of_ports(what, ports, of, |p| said(facts.get(p, key)));
    }

    fn fact_of_traffic<T: Typed>(&mut self, ports: &[Id], of: ComparedProperty, key: Key<T>) {
        let facts = self.facts;
        self.of_ports("RoCE", ports, of, |p| said(of_traffic(facts, p, key)));
    }

    fn of_ports(
        &mut self,
        what: &str,
        ports: &[Id],
        of: ComparedProperty,
        look: impl Fn(Id) -> TextOrReason,
    ) {
        let values = ports
            .iter()
            .map(|p| (self.facts.name(*p).to_owned(), look(*p)));
        let value = together(values.collect());
        let group = format!("{what} ports of {}", self.kind);
        self.sample.has(of, group, value);
    }

    fn subnets(&mut self, ports: &[Id]) {
        let prefix = |port: &Id| match self.facts.value(*port, port::SUBNET_PREFIX) {
            // The default prefix is the same in a redacted recording.
            Ok(prefix) if self.sample.realm == Realm::Alone && !prefix.starts_with("fe80") => {
                Err(Arc::from(super::own::ALONE))
            }
            prefix => prefix.map_err(|gap| Arc::from(gap.to_string())),
        };
        let prefixes: Result<BTreeSet<Arc<str>>, Arc<str>> = ports.iter().map(prefix).collect();
        let value = prefixes.map(|all| all.into_iter().collect::<Vec<_>>().join(", ").into());
        let group = format!("InfiniBand ports of {}", self.kind);
        self.sample
            .has(ComparedProperty::SubnetPrefix, group, value);
    }

    /// The networks of rails without a router. Routed rails have networks of their own by design.
    fn networks(&mut self) {
        let facts = self.facts;
        if self.sample.realm == Realm::Alone {
            return;
        }
        for rail in facts.below(self.node, Subject::Netdev) {
            let used = [netdev::ROCE, netdev::INTENDED];
            let name = facts.name(rail);
            let Some(own) = facts.find(Subject::Interface, self.node, name) else {
                continue;
            };
            if !used.iter().all(|key| facts.known(rail, *key) == Some(true))
                || facts.known(own, interface::ROUTED) != Some(false)
            {
                continue;
            }
            let mut networks: Vec<Arc<str>> = facts
                .known(own, interface::NETWORKS)
                .into_iter()
                .flat_map(|all| all.to_vec())
                .collect();
            networks.sort_unstable();
            if !networks.is_empty() {
                let group = format!("{name} of {}", self.kind);
                let value = Ok(networks.join(", ").into());
                self.sample.has(ComparedProperty::Network, group, value);
            }
        }
    }

    fn selection(&mut self) {
        let facts = self.facts;
        let ids: Vec<Id> = facts.below(self.node, Subject::Selection).collect();
        let [id] = ids.as_slice() else { return };
        if facts.known(*id, selection::WANTS_HCAS) != Some(false) {
            self.has(
                ComparedProperty::NcclPorts,
                said(facts.get(*id, selection::HCA_COUNT)),
            );
        }
        let interface = match self.sample.realm {
            // The name may hold a MAC address, and is a pseudonym then.
            Realm::Alone => Err(super::own::ALONE.into()),
            Realm::Shared(_) => said(facts.get(*id, selection::INTERFACE)),
        };
        self.has(ComparedProperty::NcclInterface, interface);
    }

    fn variables(&mut self) {
        let facts = self.facts;
        if let Err(gap) = facts.members(Subject::Variable, self.node) {
            self.sample.variables = Err(gap.to_string().into());
            return;
        }
        let alone = self.sample.realm == Realm::Alone;
        let all = facts.below(self.node, Subject::Variable).filter_map(|id| {
            let name = facts.known(id, variable::NAME)?;
            if OWN_VARIABLES.contains(&&*name) {
                return None;
            }
            let value = match facts.look(id, variable::VALUE.index) {
                Some(Fact::Known(Value::Text(value), _))
                    if !alone || is_no_identity(&name, value) =>
                {
                    Ok(Arc::clone(value))
                }
                Some(Fact::Known(..)) => Err(super::own::ALONE.into()),
                _ => Err("its value is unknown".into()),
            };
            Some((name, value))
        });
        self.sample.variables = Ok(all.chain(self.meeting()).collect());
    }

    /// Where the nodes of one launch are to meet, and how many there are. Nodes that no launch
    /// started together are of several jobs.
    fn meeting(&self) -> Vec<(Arc<str>, TextOrReason)> {
        let facts = self.facts;
        if facts.known(self.node, node::CLOCK_OFFSET_RUN).is_none() {
            return Vec::new();
        }
        let of = |id: Id| -> Option<(Arc<str>, TextOrReason)> {
            match facts.known(id, setting::ROLE)? {
                SettingRole::RendezvousAddress if self.sample.realm == Realm::Alone => {
                    let name = facts.known(id, setting::VARIABLE)?;
                    Some((name, Err(super::own::ALONE.into())))
                }
                SettingRole::RendezvousAddress | SettingRole::RendezvousPort => {
                    let name = facts.known(id, setting::VARIABLE)?;
                    Some((name, Ok(facts.known(id, setting::VALUE)?)))
                }
                SettingRole::Rank => {
                    let name = facts.known(id, setting::COUNT_VARIABLE)?;
                    let count = facts.known(id, setting::COUNT)?.to_string();
                    (!name.starts_with("LOCAL_")).then(|| (name, Ok(count.into())))
                }
                _ => None,
            }
        };
        facts
            .below(self.node, Subject::Setting)
            .filter_map(of)
            .collect()
    }
}

/// A fact of a port's traffic.
fn of_traffic<T: Typed>(facts: &Facts, port: Id, key: Key<T>) -> Fact<T> {
    match facts.below(port, Subject::Traffic).next() {
        Some(id) => facts.get(id, key),
        None => Fact::Unknown(Gap::missing("traffic")),
    }
}

/// Whether a value stays as it is in a redacted recording: numbers, words and names of devices do.
fn is_no_identity(name: &str, value: &str) -> bool {
    let names_host = ["HOST", "COMM_ID", "SERVER", "FILE"]
        .iter()
        .any(|part| name.contains(part));
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | '^' | '=' | '-' | ':');
    !names_host && !value.contains("enx") && !value.contains("::") && value.chars().all(plain)
}

/// The values of several as one; unknown where one is.
fn together(values: Vec<(String, TextOrReason)>) -> TextOrReason {
    let known = values.into_iter().map(|(name, value)| Ok((name, value?)));
    Ok(sides::spread(&known.collect::<Result<Vec<_>, Arc<str>>>()?))
}
