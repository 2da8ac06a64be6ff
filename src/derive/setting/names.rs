//! The interfaces and devices that a setting names, in the syntax of whoever reads it.

use std::collections::HashMap;
use std::sync::Arc;

use super::interfaces;
use crate::derive::tally;
use crate::fact::port::PortState;
use crate::fact::{Fact, Facts, Gap, Id, Subject, interface, port, setting};
use crate::network::Network;

/// How a list names what it means.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Interfaces by their whole names: Gloo, Horovod, libfabric, Intel MPI, TensorPipe.
    Whole,
    /// Interfaces by the beginnings of their names, after `=` by their whole names: NCCL, and NVSHMEM's bootstrap, which is NCCL's.
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
    let text = |text: String| Fact::derived(Arc::from(text), &how);
    // What is there counts though another entry is open; what is not is known only where all of it is.
    let matches = match (&gap, matching) {
        (Some(gap), 0) => Fact::Unknown(gap.clone()),
        _ => Fact::derived(matching, &how),
    };
    let bad = match (&gap, unusable.len() as u64) {
        (Some(gap), 0) => Fact::Unknown(gap.clone()),
        (_, count) => Fact::derived(count, &how),
    };
    facts.set(id, setting::MATCHING, matches);
    facts.set(id, setting::MISSING, known(missing.len() as u64));
    facts.set(id, setting::MISSING_ENTRIES, text(missing.join(", ")));
    let nearest = nearest.unwrap_or_else(|| "none".into());
    facts.set(id, setting::NEAREST, text(nearest));
    facts.set(id, setting::UNUSABLE, bad);
    facts.set(id, setting::UNUSABLE_ENTRIES, text(unusable.join(", ")));
    facts.set(id, setting::LOCAL_ONLY, local);
    let without_port = match (&gap, without_port) {
        (Some(gap), false) => Fact::Unknown(gap.clone()),
        (_, without) => Fact::derived(without, &how),
    };
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
            ports_open: tally::incomplete(facts, node, Subject::Port),
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
                match found.is_empty() {
                    false => (found, &self.ports_open),
                    true => {
                        let open = match &self.ports_open {
                            Some(_) => &self.ports_open,
                            None => &self.interfaces_open,
                        };
                        (interfaces(false), open)
                    }
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
        let ports =
            self.ports
                .iter()
                .map(|(d, n, _)| match entry.contains(':') || form == Form::Ucx {
                    true => format!("{d}:{n}"),
                    false => d.to_string(),
                });
        let interfaces = self.interfaces.keys().map(|name| name.to_string());
        let candidates: Vec<String> = match devices {
            true if form == Form::Ucx => ports.chain(interfaces).collect(),
            true => ports.collect(),
            false => interfaces.collect(),
        };
        candidates
            .into_iter()
            .map(|name| (distance(entry, &name), name))
            .filter(|(far, name)| *far <= 3 && *far < name.len())
            .min()
            .map(|(_, name)| name)
    }
}

/// How many letters have to be changed, added or taken away (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
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
    match facts.get(id, interface::UP) {
        Fact::Known(false, origin) => return Fact::Known(Some("down".into()), origin),
        Fact::Known(true, _) => {}
        Fact::Unknown(gap) => return Fact::Unknown(gap),
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

/// Whether all interfaces that were found lead to this host alone: a loopback, or a bridge that no physical interface is a member of.
fn local_only(facts: &Facts, node: Id, found: &[Id], open: Option<&Gap>) -> Fact<bool> {
    let how = "the kinds of the interfaces that the setting names";
    let mut open = open.cloned();
    for id in found {
        if facts.subject(*id) != Subject::Interface {
            return Fact::derived(false, how);
        }
        match leads_nowhere(facts, node, *id) {
            Fact::Known(true, _) => {}
            Fact::Known(false, _) => return Fact::derived(false, how),
            Fact::Unknown(gap) => open = open.or(Some(gap)),
        }
    }
    Fact::derived(!found.is_empty(), how).unless(open)
}

/// Whether an interface leads to this host alone.
pub(in crate::derive) fn leads_nowhere(facts: &Facts, node: Id, id: Id) -> Fact<bool> {
    match facts.get(id, interface::LOOPBACK) {
        Fact::Known(false, _) => {}
        answer => return answer,
    }
    match facts.get(id, interface::KIND) {
        Fact::Known(kind, _) if &*kind == "bridge" => {}
        Fact::Known(_, origin) => return Fact::Known(false, origin),
        Fact::Unknown(gap) => return Fact::Unknown(gap),
    }
    if let Err(gap) = facts.members(Subject::Interface, node) {
        return Fact::Unknown(gap);
    }
    let name = facts.name(id);
    for member in facts.below(node, Subject::Interface) {
        let of = facts.get(member, interface::MASTER);
        let kind = facts.get(member, interface::KIND);
        match (of, kind) {
            (Fact::Known(master, _), _) if &*master != name => {}
            // Containers hang on a bridge by veth pairs, virtual machines by tun devices; whatever else may lead out.
            (Fact::Known(..), Fact::Known(kind, _)) if matches!(&*kind, "veth" | "tun" | "tap") => {
            }
            (Fact::Known(..), Fact::Known(..)) => {
                return Fact::derived(false, "a member of the bridge may lead out");
            }
            (Fact::Unknown(gap), _) | (_, Fact::Unknown(gap)) => return Fact::Unknown(gap),
        }
    }
    Fact::derived(true, "no member of the bridge leads out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("eth0", "eth1"), 1);
        assert_eq!(distance("mlx5_0", "mlx5_10"), 1);
        assert_eq!(distance("", "ab"), 2);
        assert_eq!(distance("same", "same"), 0);
    }
}
