//! What NCCL will do on this node, by the rules of the version that is found.
//!
//! Where the version is unknown, what all versions agree on is known, and the rest says which fact
//! is missing.

mod dictionary;
mod hca;
pub(super) mod interface;
mod list;
mod meaning;
#[cfg(test)]
mod tests;

use super::Derivation;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fact::device::Role;
use crate::fact::gid::{GidKind, GidType};
use crate::fact::kleene::proven;
use crate::fact::nccl_version::{KINDS, Version};
use crate::fact::port::{LinkLayer, NcclGid};
use crate::fact::variable::VariableEffect;
use crate::fact::{
    Fact, Facts, Gap, Id, Membership, Origin, Phrase, Subject, device, node, port, selection,
    selector, variable,
};
use crate::nccl_rules::{gid, number};
use dictionary::VariableKind;
use hca::Port;
pub(super) use list::List;

/// Entries of a list of interfaces.
const INTERFACES: usize = 16;

/// The derivation.
pub(super) const DERIVATION: Derivation = Derivation::new("nccl", &["device.role"], derive);

/// Works out what each variable does, and what NCCL chooses.
pub(super) fn derive(facts: &mut Facts, node: Id) {
    let version = facts
        .get(node, node::NCCL_VERSION)
        .and_then(|text| Version::parse(&text));
    for id in facts.below(node, Subject::Variable).collect::<Vec<_>>() {
        meaning_of(facts, node, id, &version);
    }
    let copies = facts.known(node, node::NCCL_COPIES);
    let versions = Versions {
        found: version,
        none_installed: copies.is_some_and(|copies| copies.is_empty()),
    };
    let ports = hca::ports(facts, node);
    selectors(facts, node, ports.all());
    let chosen = facts.instance(Subject::Selection, node, "NCCL");
    let members = Membership::Known(Origin::derived("one for each node"));
    facts.set_members(Subject::Selection, node, members);
    choose_interface(facts, node, chosen, &versions);
    choose_hcas(facts, node, chosen, &ports, &versions);
    relate(facts, node, chosen);
}

/// What is wrong with one of the lists befalls its entries and the choice.
fn relate(facts: &mut Facts, node: Id, chosen: Id) {
    let entries: Vec<Id> = facts.below(node, Subject::Selector).collect();
    for name in ["NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_COMM_ID"] {
        let Some(variable) = facts.find(Subject::Variable, node, name) else {
            continue;
        };
        facts.relate(variable, chosen);
        for &entry in &entries {
            if facts.known(entry, selector::VARIABLE).as_deref() == Some(name) {
                facts.relate(entry, variable);
            }
        }
    }
    for entry in entries {
        facts.relate(entry, chosen);
    }
}

/// The version found, or all kinds of them.
struct Versions {
    found: Fact<Version>,
    /// Whether it is known that the node has no library: a job brings its own.
    none_installed: bool,
}

impl Versions {
    /// What a rule gives, if it does not depend on a version that nobody knows.
    fn agree<T: PartialEq>(&self, rule: impl Fn(Version) -> Result<T, Gap>) -> Result<T, Gap> {
        let gap = match &self.found {
            Fact::Known(version, _) => return rule(*version),
            Fact::Unknown(gap) => gap,
        };
        let first = rule(KINDS[0])?;
        for kind in KINDS {
            if rule(kind)? != first {
                return Err(gap.clone());
            }
        }
        Ok(first)
    }

    /// The same; where no library is found, of the versions that search the table of GIDs: what a
    /// job brings in its container is hardly older.
    fn agree_on_gid<T: PartialEq>(
        &self,
        rule: impl Fn(Version) -> Result<T, Gap>,
    ) -> Result<T, Gap> {
        let gap = match &self.found {
            Fact::Unknown(gap) if self.none_installed => gap,
            _ => return self.agree(rule),
        };
        let mut said = KINDS.into_iter().filter(|v| v.searches_gid()).map(rule);
        let first = said.next().ok_or_else(|| gap.clone())??;
        if said.all(|other| other.is_ok_and(|other| other == first)) {
            Ok(first)
        } else {
            Err(gap.clone())
        }
    }

    /// For the reason that is given with a choice.
    fn name(&self) -> String {
        match &self.found {
            Fact::Known(version, _) => format!("NCCL {version}"),
            Fact::Unknown(_) => "NCCL of any version since 2.18".into(),
        }
    }
}

/// A variable's value: `None` where it is known not to be set.
pub(super) fn setting(facts: &Facts, node: Id, name: &str) -> Result<Option<Arc<str>>, Gap> {
    facts.named(node, name, variable::VALUE).into_result()
}

/// A numeric variable's value, by NCCL's way to read numbers; `None` where the default holds.
fn numeric(facts: &Facts, node: Id, name: &str) -> Result<Option<i64>, Gap> {
    let text = setting(facts, node, name)?.filter(|text| !text.is_empty());
    Ok(text.and_then(|text| number::number(&text).value))
}

fn meaning_of(facts: &mut Facts, node: Id, id: Id, version: &Fact<Version>) {
    let name = facts.name(id).to_owned();
    let entry = dictionary::find(&name);
    let known = entry.is_some() || dictionary::of_plugin(&name);
    let how = "the names in NCCL's libraries and guides";
    facts.derive(id, variable::KNOWN, known, how);
    let nearest = if known {
        None
    } else {
        dictionary::nearest(&name)
    };
    let nearest = Arc::from(nearest.unwrap_or("none"));
    facts.derive(id, variable::NEAREST, nearest, how);
    let read = match (entry, version) {
        (None, _) => Fact::derived(known, how),
        (Some(entry), Fact::Known(version, _)) => Fact::derived(entry.read_by(*version), how),
        (Some(entry), Fact::Unknown(gap)) => {
            let first = entry.read_by(KINDS[0]);
            if KINDS.iter().all(|kind| entry.read_by(*kind) == first) {
                Fact::derived(first, how)
            } else {
                Fact::Unknown(gap.clone())
            }
        }
    };
    facts.set(id, variable::READ, read);
    let mut releases = match entry {
        Some(entry) => entry.releases(),
        None if known => "a plugin".into(),
        None => "no version that is known".into(),
    };
    if let Some(instead) = entry.and_then(|entry| entry.instead) {
        releases = format!("{releases}; {instead} took its place");
    }
    facts.derive(id, variable::READ_BY, releases.into(), how);
    let value = facts.get(id, variable::VALUE);
    let value = match &value {
        Fact::Known(value, _) => value,
        Fact::Unknown(gap) => {
            let read = [variable::READ_AS.index, variable::MISREAD.index];
            facts.leave_open(id, &read, gap);
            let done = [variable::REFUSED.index, variable::EFFECT.index];
            return facts.leave_open(id, &done, gap);
        }
    };
    let entry = entry.filter(|entry| entry.kind != VariableKind::Other);
    let says = meaning::read_as(entry, value);
    let misread = meaning::misread(entry, value);
    let origin = format!("{name} is {value:?}");
    facts.derive(id, variable::READ_AS, says.into(), &origin);
    facts.derive(id, variable::MISREAD, misread, &origin);
    let refused = meaning::refused(&name, value);
    facts.derive(id, variable::REFUSED, refused, &origin);
    let range = meaning::range(&name);
    facts.derive(id, variable::RANGE, range.into(), &origin);
    let effect = match meaning::effect(&name, value, facts.limits()) {
        VariableEffect::None if name == "NCCL_NET" && meaning::is_unknown_network(value) => {
            // A plugin that somebody names may bring a network of any name.
            setting(facts, node, "NCCL_NET_PLUGIN").map(|plugin| match plugin.as_deref() {
                None | Some("" | "none") => VariableEffect::NetworkUnknown,
                Some(_) => VariableEffect::None,
            })
        }
        effect => Ok(effect),
    };
    facts.set(id, variable::EFFECT, Fact::of(effect, origin));
}

/// What follows from a result.
fn told<T, U>(
    result: &Result<T, Gap>,
    how: impl Into<Phrase>,
    say: impl FnOnce(&T) -> U,
) -> Fact<U> {
    Fact::of(result.as_ref().map(say).map_err(Gap::clone), how)
}

/// An instance of each entry of the two lists.
fn selectors(facts: &mut Facts, node: Id, ports: Result<&[Port], Gap>) {
    let hcas = setting(facts, node, "NCCL_IB_HCA");
    let names = setting(facts, node, "NCCL_SOCKET_IFNAME");
    let open = hcas.as_ref().and(names.as_ref()).err().cloned();
    let how = Origin::derived("NCCL_IB_HCA and NCCL_SOCKET_IFNAME");
    facts.set_members(Subject::Selector, node, Membership::known_unless(open, how));
    if let Ok(Some(text)) = &hcas {
        let of = ports.map(|ports| ports.iter().map(Named::port).collect());
        list_of(facts, node, "NCCL_IB_HCA", &List::parse(text, 32), &of);
    }
    if let Ok(Some(text)) = &names
        && text.len() > 1
    {
        let of = facts.members(Subject::Interface, node).map(|_| {
            let all = facts.below(node, Subject::Interface);
            all.map(|id| Named::interface(facts.name(id))).collect()
        });
        let list = List::parse(text, INTERFACES);
        list_of(facts, node, "NCCL_SOCKET_IFNAME", &list, &of);
    }
}

/// Something that an entry may name.
struct Named {
    name: Arc<str>,
    port: Option<i64>,
    shown: Arc<str>,
    active: Fact<bool>,
}

impl Named {
    fn port(port: &Port) -> Self {
        Named {
            name: Arc::clone(&port.device),
            port: Some(port.number),
            shown: port.name(),
            active: port.active.clone(),
        }
    }

    fn interface(name: &str) -> Self {
        Named {
            name: name.into(),
            port: None,
            shown: name.into(),
            active: Fact::derived(true, "not asked of an interface"),
        }
    }
}

fn list_of(facts: &mut Facts, node: Id, of: &str, list: &List, named: &Result<Vec<Named>, Gap>) {
    for entry in &list.entries {
        let token: Arc<str> = match entry.port {
            Some(port) => format!("{}:{port}", entry.name).into(),
            None => entry.name.as_str().into(),
        };
        let id = facts.instance(Subject::Selector, node, &format!("{of} {token}"));
        let how = format!("the rule of NCCL for {of}");
        facts.derive(id, selector::VARIABLE, of.into(), &how);
        facts.derive(id, selector::TOKEN, Arc::clone(&token), &how);
        facts.derive(id, selector::EXCLUDES, list.excludes, &how);
        let named = match named {
            Ok(named) => named,
            Err(gap) => {
                facts.set(id, selector::MATCHES, Fact::Unknown(gap.clone()));
                continue;
            }
        };
        let fits = |n: &&Named| list.fits(entry, &n.name, n.port);
        let matched: Vec<&Named> = named.iter().filter(fits).collect();
        let shown = |list: Vec<&Named>| -> Arc<[Arc<str>]> {
            list.iter().map(|n| Arc::clone(&n.shown)).collect()
        };
        facts.derive(id, selector::MATCHES, matched.len() as u64, &how);
        let whole = |n: &&&Named| *n.name == *entry.name;
        let longer = |n: &&&Named| {
            let rest = n.name.get(entry.name.len()..).unwrap_or("");
            rest.starts_with(|c: char| c.is_ascii_digit())
        };
        let has_whole = matched.iter().any(|n| whole(&n));
        let long: Vec<&Named> = matched.iter().filter(longer).copied().collect();
        let also = has_whole && !long.is_empty();
        facts.derive(id, selector::ALSO_LONGER, also, &how);
        facts.derive(id, selector::LONGER, shown(long), &how);
        let own: Vec<&Named> = matched.iter().filter(whole).copied().collect();
        let down = |n: &&Named| n.active.known() == Some(&false);
        let inactive: Vec<&Named> = own.iter().copied().filter(down).collect();
        facts.derive(id, selector::NAMED, shown(own.clone()), &how);
        let open = own.iter().find_map(|n| n.active.as_result().err());
        let names_inactive = proven(!inactive.is_empty(), open);
        facts.set(id, selector::NAMES_INACTIVE, Fact::of(names_inactive, &how));
        facts.derive(id, selector::INACTIVE, shown(inactive), &how);
        facts.derive(id, selector::MATCHED, shown(matched), &how);
        let distance = |n: &Named| strsim::damerau_levenshtein(entry.name.trim(), &n.name);
        let nearest = named
            .iter()
            .map(|n| (distance(n), &n.name))
            .filter(|(distance, name)| *distance <= 2 && *distance < name.len())
            .min_by_key(|(distance, _)| *distance)
            .map_or_else(|| Arc::from("none"), |(_, name)| Arc::clone(name));
        facts.derive(id, selector::NEAREST, nearest, &how);
    }
}

fn choose_interface(facts: &mut Facts, node: Id, chosen: Id, versions: &Versions) {
    let wish: Result<interface::SocketVariables, Gap> = (|| {
        Ok(interface::SocketVariables {
            names: setting(facts, node, "NCCL_SOCKET_IFNAME")?,
            family: setting(facts, node, "NCCL_SOCKET_FAMILY")?,
            comm_id: setting(facts, node, "NCCL_COMM_ID")?,
        })
    })();
    let entries = interface::entries(facts, node);
    let long = |text: &Option<Arc<str>>| text.as_ref().is_some_and(|text| text.len() > 1);
    let forced = told(&wish, "NCCL_SOCKET_IFNAME, NCCL_COMM_ID", |wish| {
        long(&wish.names) || long(&wish.comm_id)
    });
    facts.set(chosen, selection::INTERFACE_FORCED, forced);
    let all = wish.as_ref().map_err(Gap::clone).and_then(|wish| {
        let entries = entries.as_ref().map_err(Gap::clone)?;
        versions.agree(|v| interface::choose(entries, wish, v).map(|c| c.names))
    });
    let all = all.map(|names| -> Arc<[Arc<str>]> { names.into() });
    let choice = wish.and_then(|wish| {
        let entries = entries.as_ref().map_err(Gap::clone)?;
        // The names decide; the reason may differ in words.
        let names = versions.agree(|v| interface::bootstrap(entries, &wish, v).map(|c| c.names))?;
        let of = versions.found.known().copied().unwrap_or(KINDS[0]);
        let choice = interface::bootstrap(entries, &wish, of)?;
        Ok(interface::Choice { names, ..choice })
    });
    let how = format!("the rule of {}", versions.name());
    let first = told(&choice, &how, |choice| {
        (choice.names.first().cloned()).unwrap_or_else(|| "none".into())
    });
    let why = told(&choice, &how, |choice| Arc::<str>::from(&*choice.why));
    let reach = told(&choice, &how, |choice| {
        interface::reach(facts, node, choice.names.first().map(|name| &**name))
    });
    let there = told(&entries, "getifaddrs", |entries| {
        let names: BTreeSet<&Arc<str>> = entries.iter().map(|e| &e.name).collect();
        names.into_iter().cloned().collect::<Arc<[_]>>()
    });
    let rehearsed = (first.clone().into_result()).and_then(|name| connection(facts, node, &name));
    let rehearsed = Fact::of(rehearsed, &how);
    facts.set(node, node::CONNECTION_REHEARSAL, rehearsed);
    facts.set(chosen, selection::INTERFACE, first);
    facts.set(chosen, selection::INTERFACES, Fact::of(all, &how));
    facts.set(chosen, selection::INTERFACE_WHY, why);
    facts.set(chosen, selection::INTERFACE_REACH, reach);
    facts.set(chosen, selection::INTERFACE_CHOICE, there);
}

/// What became of a connection to the address of this interface.
fn connection(facts: &Facts, node: Id, name: &str) -> Result<Arc<str>, Gap> {
    match facts.find(Subject::Interface, node, name) {
        Some(id) => facts.value(id, crate::fact::interface::REHEARSAL),
        None => Err(Gap::missing("interface.rehearsal")),
    }
}

/// Whether NCCL looks for RDMA ports: the reason where it does not. A network that a plugin brings
/// is a gap.
fn wants_hcas(facts: &Facts, node: Id) -> Result<Option<String>, Gap> {
    let net = setting(facts, node, "NCCL_NET")?.filter(|net| !net.is_empty());
    let disabled = numeric(facts, node, "NCCL_IB_DISABLE")?.filter(|n| *n != 0);
    match (disabled, net.as_deref()) {
        (Some(n), _) => Ok(Some(format!("NCCL_IB_DISABLE is {n}"))),
        (None, None) => Ok(None),
        (None, Some(net)) if net.eq_ignore_ascii_case("IB") => Ok(None),
        (None, Some(net)) if net.eq_ignore_ascii_case("Socket") => {
            Ok(Some("NCCL_NET is Socket".into()))
        }
        (None, Some(net)) => Err(Gap::missing(format!(
            "what the network plugin {net} chooses"
        ))),
    }
}

fn choose_hcas(facts: &mut Facts, node: Id, chosen: Id, ports: &hca::Ports, versions: &Versions) {
    let list = setting(facts, node, "NCCL_IB_HCA");
    let off = wants_hcas(facts, node);
    let wants = told(&off, "NCCL_IB_DISABLE, NCCL_NET", Option::is_none);
    facts.set(chosen, selection::WANTS_HCAS, wants);
    let names_some = |list: &str| !List::parse(list, 1).entries.is_empty();
    let forced = told(&list, "NCCL_IB_HCA", |list| {
        list.as_deref().is_some_and(names_some)
    });
    facts.set(chosen, selection::HCAS_FORCED, forced);
    let places: Result<Vec<usize>, Gap> = (|| {
        let list = list.clone()?;
        if off.clone()?.is_some() {
            return Ok(Vec::new());
        }
        versions
            .agree(|v| hca::choose(ports, list.as_deref(), v))
            .or_else(|gap| {
                // Only the order may depend on the version: then that of the devices is told.
                let sorted = versions.agree(|v| {
                    let mut places = hca::choose(ports, list.as_deref(), v)?;
                    places.sort_unstable();
                    Ok(places)
                });
                sorted.map_err(|_| gap)
            })
    })();
    let all = &ports.known;
    let used = |place: usize| places.as_ref().is_ok_and(|places| places.contains(&place));
    let how = format!("the rule of {}", versions.name());
    let why = match (&off, &list) {
        (Ok(Some(off)), _) => Ok(Arc::from(off.as_str())),
        (Err(gap), _) | (_, Err(gap)) => Err(gap.clone()),
        (_, Ok(Some(list))) if !list.is_empty() => Ok(format!("NCCL_IB_HCA is {list:?}").into()),
        _ if places.as_ref().is_ok_and(Vec::is_empty) => Ok("no port is active".into()),
        _ => Ok("NCCL_IB_HCA is not set: every active port".into()),
    };
    facts.set(chosen, selection::HCAS_WHY, Fact::of(why, &how));
    let names = |places: &Vec<usize>| -> Arc<[Arc<str>]> {
        places
            .iter()
            .filter_map(|p| all.get(*p))
            .map(Port::name)
            .collect()
    };
    facts.set(chosen, selection::HCAS, told(&places, &how, names));
    let count = told(&places, &how, |places| places.len() as u64);
    facts.set(chosen, selection::HCA_COUNT, count);
    let used_ports = all.iter().enumerate().filter(|(place, _)| used(*place));
    let used_ports: Vec<&Port> = used_ports.map(|(_, port)| port).collect();
    let layers: BTreeSet<bool> = used_ports
        .iter()
        .filter_map(|port| port.layer.known())
        .map(|layer| *layer == LinkLayer::InfiniBand)
        .collect();
    let mixed = told(&places, &how, |_| layers.len() > 1);
    facts.set(chosen, selection::LAYERS_MIXED, mixed);
    management(facts, chosen, &places, &used_ports);
    for (place, port) in all.iter().enumerate() {
        let is = told(&places, &how, |_| used(place));
        facts.set(port.id, port::NCCL_SELECTED, is);
        if port.layer.known() == Some(&LinkLayer::Ethernet) {
            choose_gid(facts, node, port.id, versions);
        }
    }
    let mut lines: Vec<Arc<str>> = Vec::new();
    let mut open = places.as_ref().err().cloned();
    for port in used_ports
        .iter()
        .filter(|p| p.layer.known() == Some(&LinkLayer::Ethernet))
    {
        let (index, what) = (
            facts.get(port.id, port::NCCL_GID_INDEX),
            facts.get(port.id, port::NCCL_GID),
        );
        match index.zip(what) {
            Fact::Known((index, what), origin) => {
                lines.push(format!("{} {index} ({}; {origin})", port.name(), what.word()).into());
            }
            Fact::Unknown(gap) => open = Some(gap),
        }
    }
    let lines = Fact::derived(lines.into(), &how).unless(open);
    facts.set(chosen, selection::GID_INDEXES, lines);
}

/// Which of the ports in use carry the machine's own traffic.
fn management(facts: &mut Facts, chosen: Id, places: &Result<Vec<usize>, Gap>, used: &[&Port]) {
    let mut found: Vec<Arc<str>> = Vec::new();
    let mut open = places.as_ref().err().cloned();
    for port in used {
        let Some(of) = facts.parent(port.id) else {
            continue;
        };
        if facts.get(of, device::ROLE).or_open(&mut open) == Some(Role::Management) {
            found.push(port.name());
        }
    }
    let how = "device.role of each port in use";
    let beside_others = !found.is_empty() && found.len() < used.len();
    let uses = Fact::of(proven(beside_others, open.as_ref()), how);
    facts.set(chosen, selection::USES_MANAGEMENT, uses);
    facts.derive(chosen, selection::MANAGEMENT, found.into(), how);
}

/// The GID index that NCCL uses on a RoCE port, and what stands there.
fn choose_gid(facts: &mut Facts, node: Id, id: Id, versions: &Versions) {
    let forced = numeric(facts, node, "NCCL_IB_GID_INDEX").map(|n| n.filter(|n| *n >= 0));
    let is_forced = told(&forced, "NCCL_IB_GID_INDEX", Option::is_some);
    facts.set(id, port::NCCL_GID_FORCED, is_forced);
    let rows = rows(facts, id);
    let found: Result<(u64, &str), Gap> = (|| {
        if let Some(n) = forced? {
            return Ok((n.unsigned_abs(), "NCCL_IB_GID_INDEX says it"));
        }
        let family = setting(facts, node, "NCCL_IB_ADDR_FAMILY")?;
        let number = numeric(facts, node, "NCCL_IB_ROCE_VERSION_NUM")?;
        let range = setting(facts, node, "NCCL_IB_ADDR_RANGE")?;
        let wish = gid::GidRequest::new(family.as_deref(), number, range.as_deref());
        let rows = rows.as_ref().map_err(Gap::clone)?;
        versions.agree_on_gid(|v| {
            if !v.searches_gid() {
                return Ok((0, "NCCL before 2.21 takes 0"));
            }
            let kind = |row: &Raw| gid::GidRow {
                index: row.index,
                address: row.address,
                kind: row.kind.known().copied(),
            };
            let table: Vec<gid::GidRow> = rows.iter().map(kind).collect();
            match gid::search(&table, &wish, v.skips_unreadable_gid()) {
                Ok(index) => Ok((index, "NCCL finds it")),
                Err(what) => Err(Gap::missing(what)),
            }
        })
    })();
    let (index, how) = match found {
        Ok(found) => found,
        Err(gap) => {
            let both = [port::NCCL_GID_INDEX.index, port::NCCL_GID.index];
            return facts.leave_open(id, &both, &gap);
        }
    };
    facts.derive(id, port::NCCL_GID_INDEX, index, how);
    let by = match &versions.found {
        Fact::Known(version, _) => format!("NCCL {version}"),
        Fact::Unknown(_) => "NCCL 2.21 and later".into(),
    };
    facts.derive(id, port::NCCL_GID_BY, by.into(), how);
    let what = rows.and_then(|rows| match rows.iter().find(|row| row.index == index) {
        None => Ok(NcclGid::Empty),
        Some(row) => match (&row.kind, row.place) {
            (Fact::Known(GidType::V1, _), _) => Ok(NcclGid::V1),
            (Fact::Known(GidType::V2, _), GidKind::LinkLocal) => Ok(NcclGid::LinkLocal),
            (Fact::Known(GidType::V2, _), _) => Ok(NcclGid::Routable),
            (Fact::Unknown(gap), _) => Err(gap.clone()),
        },
    });
    facts.set(id, port::NCCL_GID, Fact::of(what, format!("GID {index}")));
}

/// A row of the table, with what is not known of it.
struct Raw {
    index: u64,
    address: std::net::Ipv6Addr,
    kind: Fact<GidType>,
    place: GidKind,
}

fn rows(facts: &Facts, id: Id) -> Result<Vec<Raw>, Gap> {
    use crate::fact::gid as key;
    facts.members(Subject::Gid, id)?;
    let mut rows = Vec::new();
    for gid in facts.below(id, Subject::Gid) {
        let index = facts.value(gid, key::INDEX)?;
        let address = facts.value(gid, key::ADDRESS)?;
        let place = facts.value(gid, key::KIND)?;
        rows.push(Raw {
            index,
            address: address.parse().map_err(|_| Gap::missing("gid.address"))?,
            kind: facts.get(gid, key::TYPE),
            place,
        });
    }
    rows.sort_by_key(|row| row.index);
    Ok(rows)
}
