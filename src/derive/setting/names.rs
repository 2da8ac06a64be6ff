//! The interfaces and devices that a setting names, in the syntax of whoever reads it.

use std::collections::HashMap;
use std::sync::Arc;

use super::interfaces;
use crate::fact::kleene::{Several, proven};
use crate::fact::port::PortState;
use crate::fact::{Fact, Facts, Gap, Id, Subject, interface, known, port, setting};
use crate::network::Network;

/// How a list names what it means.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Interfaces by their whole names: Gloo, Horovod, libfabric, Intel MPI, TensorPipe.
    Whole,
    /// Interfaces by the beginnings of their names, after `=` by their whole names: NCCL, and
    /// NVSHMEM's bootstrap, which is NCCL's.
    Beginning,
    /// Interfaces by their names or by a subnet: Open MPI.
    NameOrSubnet,
    /// RDMA devices with their ports, and interfaces: UCX.
    Ucx,
    /// RDMA devices by the beginnings of their names, a port after `:`: NCCL, NVSHMEM.
    DeviceBeginning,
    /// RDMA devices by their whole names, a port after `:`.
    DeviceWhole,
}

fn form(variable: &str) -> Form {
    match variable {
        "NCCL_SOCKET_IFNAME" | "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME" => Form::Beginning,
        "UCX_NET_DEVICES" => Form::Ucx,
        "NCCL_IB_HCA" | "NVSHMEM_HCA_LIST" => Form::DeviceBeginning,
        "NVSHMEM_HCA_PE_MAPPING" => Form::DeviceWhole,
        name if name.ends_with("_if_include") => Form::NameOrSubnet,
        _ => Form::Whole,
    }
}

/// What an entry comes to.
enum EntryMeaning {
    /// To these instances.
    To(Vec<Id>),
    ToNothing,
    /// It stands for all.
    ToAll,
    Unknown(Gap),
}

/// Works out what a list names.
pub(super) fn derive(facts: &mut Facts, node: Id, id: Id, variable: &str, value: &str) {
    let node_names = Named::of(facts, node);
    let form = form(variable);
    let whole = value.trim().strip_prefix('=');
    let entries = whole.unwrap_or(value).split(',').map(str::trim);
    let (mut matching, mut missing, mut nearest) = (0u64, Vec::new(), None);
    let (mut unusable, mut local, mut without_port) = (Vec::new(), Vec::new(), false);
    let mut gap: Option<Gap> = None;
    for entry in entries.filter(|entry| !entry.is_empty()) {
        match node_names.comes(facts, form, entry, whole.is_some()) {
            EntryMeaning::To(found) => {
                matching += 1;
                without_port |= form == Form::Ucx && node_names.is_device(entry);
                match why_unusable(facts, &found) {
                    Ok(None) => {}
                    Ok(Some(why)) => unusable.push(format!("{entry} ({why})")),
                    Err(missing) => {
                        gap.get_or_insert(missing);
                    }
                }
                local.extend(found);
            }
            EntryMeaning::ToAll => matching += 1,
            EntryMeaning::ToNothing => {
                if nearest.is_none() {
                    nearest = node_names.nearest(form, entry);
                }
                missing.push(entry.to_owned());
            }
            EntryMeaning::Unknown(missing) => {
                gap.get_or_insert(missing);
            }
        }
    }
    let local = local_only(facts, node, &local, gap.as_ref());
    let how = format!("the entries of {variable} and what is there");
    let known = |count: u64| Fact::derived(count, &how).unless(gap.clone());
    // What is there counts though another entry is open; what is not is known only where all of it
    // is.
    let at_least = |count: u64| match count {
        0 => known(0),
        count => Fact::derived(count, &how),
    };
    let text = |text: String| Fact::derived(Arc::from(text), &how);
    facts.set(id, setting::MATCHING, at_least(matching));
    facts.set(id, setting::MISSING, known(missing.len() as u64));
    facts.set(id, setting::MISSING_ENTRIES, text(missing.join(", ")));
    let nearest = nearest.unwrap_or_else(|| "none".into());
    facts.set(id, setting::NEAREST, text(nearest));
    facts.set(id, setting::UNUSABLE, at_least(unusable.len() as u64));
    facts.set(id, setting::UNUSABLE_ENTRIES, text(unusable.join(", ")));
    facts.set(id, setting::LOCAL_ONLY, local);
    let without_port = Fact::of(proven(without_port, gap.as_ref()), &how);
    facts.set(id, setting::WITHOUT_PORT, without_port);
}

/// What a node has that can be named.
struct Named {
    interfaces: HashMap<Arc<str>, Id>,
    interfaces_open: Option<Gap>,
    /// Ports by device and number.
    ports: Vec<(Arc<str>, u64, Id)>,
    ports_open: Option<Gap>,
}

impl Named {
    fn of(facts: &Facts, node: Id) -> Self {
        let port = |id: Id| {
            let (device, number) = facts.name(id).rsplit_once('/')?;
            Some((Arc::from(device), number.parse().ok()?, id))
        };
        Named {
            interfaces: interfaces(facts, node),
            interfaces_open: facts.members(Subject::Interface, node).err(),
            ports: facts.below(node, Subject::Port).filter_map(port).collect(),
            ports_open: facts.incomplete(node, Subject::Port),
        }
    }

    fn is_device(&self, entry: &str) -> bool {
        self.ports.iter().any(|(device, ..)| &**device == entry)
    }

    fn comes(&self, facts: &Facts, form: Form, entry: &str, whole: bool) -> EntryMeaning {
        let fits = |name: &str, wanted: &str, beginning: bool| {
            name == wanted || (beginning && name.starts_with(wanted))
        };
        let interfaces = |beginning: bool| {
            let all = self.interfaces.iter();
            let named = all.filter(|(name, _)| fits(name, entry, beginning));
            let mut found: Vec<Id> = named.map(|(_, id)| *id).collect();
            found.sort_unstable();
            found
        };
        let devices = |beginning: bool| {
            let mut parts = entry.split(':');
            let device = parts.next().unwrap_or("");
            let number = parts.next().and_then(|n| n.parse::<u64>().ok());
            let named = self.ports.iter().filter(|(name, at, _)| {
                fits(name, device, beginning) && number.is_none_or(|number| number == *at)
            });
            named.map(|(.., id)| *id).collect::<Vec<Id>>()
        };
        let (found, open) = match form {
            Form::Whole => (interfaces(false), &self.interfaces_open),
            Form::Beginning => (interfaces(!whole), &self.interfaces_open),
            Form::NameOrSubnet => match entry.split_once('/') {
                Some(_) => return self.in_subnet(facts, entry),
                None => (interfaces(false), &self.interfaces_open),
            },
            Form::Ucx if entry == "all" => return EntryMeaning::ToAll,
            // Ranges (mlx5_[0-3]) are known to some versions only.
            Form::Ucx if entry.contains('[') => {
                return EntryMeaning::Unknown(Gap::missing("what a range of devices stands for"));
            }
            Form::Ucx => {
                let found = devices(false);
                if found.is_empty() {
                    let open = match &self.ports_open {
                        Some(_) => &self.ports_open,
                        None => &self.interfaces_open,
                    };
                    (interfaces(false), open)
                } else {
                    (found, &self.ports_open)
                }
            }
            Form::DeviceBeginning => (devices(!whole), &self.ports_open),
            Form::DeviceWhole => (devices(false), &self.ports_open),
        };
        match (found.is_empty(), open) {
            (false, _) => EntryMeaning::To(found),
            (true, None) => EntryMeaning::ToNothing,
            (true, Some(gap)) => EntryMeaning::Unknown(gap.clone()),
        }
    }

    /// The interfaces with an address in a subnet.
    fn in_subnet(&self, facts: &Facts, entry: &str) -> EntryMeaning {
        let Ok(net) = Network::read(entry) else {
            return EntryMeaning::ToNothing;
        };
        let mut found = Vec::new();
        let mut open = self.interfaces_open.clone();
        for id in self.interfaces.values() {
            match facts.get(*id, interface::ADDRESSES) {
                Fact::Known(addresses, _) => {
                    let mut own = addresses.iter().filter_map(|a| a.split('/').next());
                    if own.any(|own| own.parse().is_ok_and(|own| net.has(own))) {
                        found.push(*id);
                    }
                }
                Fact::Unknown(gap) => {
                    open.get_or_insert(gap);
                }
            }
        }
        found.sort_unstable();
        match (found.is_empty(), open) {
            (false, _) => EntryMeaning::To(found),
            (true, None) => EntryMeaning::ToNothing,
            (true, Some(gap)) => EntryMeaning::Unknown(gap),
        }
    }

    /// What is there and differs least from an entry that is not, if by no more than a few letters.
    fn nearest(&self, form: Form, entry: &str) -> Option<String> {
        let devices = matches!(form, Form::Ucx | Form::DeviceBeginning | Form::DeviceWhole);
        let ports = self.ports.iter().map(|(d, n, _)| {
            if entry.contains(':') || form == Form::Ucx {
                format!("{d}:{n}")
            } else {
                d.to_string()
            }
        });
        let interfaces = self.interfaces.keys().map(|name| name.to_string());
        let candidates: Vec<String> = if (devices) && (form == Form::Ucx) {
            ports.chain(interfaces).collect()
        } else if devices {
            ports.collect()
        } else {
            interfaces.collect()
        };
        candidates
            .into_iter()
            .map(|name| (strsim::levenshtein(entry, &name), name))
            .filter(|(far, name)| *far <= 3 && *far < name.len())
            .min()
            .map(|(_, name)| name)
    }
}

/// Why none of these instances can be used; `None` where one can.
fn why_unusable(facts: &Facts, found: &[Id]) -> Result<Option<String>, Gap> {
    let mut why = None;
    let mut open = None;
    for id in found {
        let one = match facts.subject(*id) {
            Subject::Port => facts.get(*id, port::STATE).map(|state| match state {
                PortState::Active => None,
                state => Some(format!("its port is {}", state.word())),
            }),
            _ => interface_fault(facts, *id),
        };
        match one {
            Fact::Known(None, _) => return Ok(None),
            Fact::Known(Some(fault), _) => why = why.or(Some(fault)),
            Fact::Unknown(gap) => open = open.or(Some(gap)),
        }
    }
    match open {
        Some(gap) => Err(gap),
        None => Ok(why),
    }
}

/// Sockets need an interface that is up and has an address.
fn interface_fault(facts: &Facts, id: Id) -> Fact<Option<String>> {
    if let (false, origin) = known!(facts.get(id, interface::UP), with origin) {
        return Fact::Known(Some("down".into()), origin);
    }
    facts.get(id, interface::ADDRESSES).map(|addresses| {
        // Link-local addresses lead nowhere without the interface's name beside them.
        let mut routable = addresses.iter().filter(|a| !a.starts_with("fe80:"));
        match routable.next() {
            Some(_) => None,
            None => Some("without an IP address".to_owned()),
        }
    })
}

/// Whether all interfaces that were found lead to this host alone: a loopback, or a bridge that no
/// physical interface is a member of.
fn local_only(facts: &Facts, node: Id, found: &[Id], open: Option<&Gap>) -> Fact<bool> {
    let how = "the kinds of the interfaces that the setting names";
    let leads = |id: &Id| match facts.subject(*id) {
        Subject::Interface => leads_nowhere(facts, node, *id),
        _ => Fact::derived(false, how),
    };
    let all: Several<bool> = found.iter().map(leads).collect();
    let local = all.or_others(open.cloned()).all(|local| *local);
    Fact::of(local.map(|local| local && !found.is_empty()), how)
}

/// Whether an interface leads to this host alone.
pub(in crate::derive) fn leads_nowhere(facts: &Facts, node: Id, id: Id) -> Fact<bool> {
    match facts.get(id, interface::LOOPBACK) {
        Fact::Known(false, _) => {}
        answer => return answer,
    }
    let (kind, origin) = known!(facts.get(id, interface::KIND), with origin);
    if &*kind != "bridge" {
        return Fact::Known(false, origin);
    }
    let name = facts.name(id);
    // Containers hang on a bridge by veth pairs, virtual machines by tun devices; whatever else may
    // lead out.
    let leads_out = |member: Id| {
        Ok(*facts.value(member, interface::MASTER)? == *name
            && !matches!(
                &*facts.value(member, interface::KIND)?,
                "veth" | "tun" | "tap"
            ))
    };
    let members = facts.below(node, Subject::Interface).map(leads_out);
    let members: Several<bool> = members.collect();
    let members = members.or_others(facts.members(Subject::Interface, node).err());
    let nowhere = members.all(|leads_out| !leads_out);
    Fact::of(nowhere, "whether a member of the bridge may lead out")
}
