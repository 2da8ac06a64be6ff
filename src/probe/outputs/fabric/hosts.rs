//! Hosts by the descriptions of their adapters: which rails each has, and on which leaf.

use std::collections::{BTreeMap, BTreeSet};

use super::majority::majority;
use super::model::Fabric;

/// What the description of an adapter says: `n1 mlx5_0`, `n1 HCA-1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AdapterName {
    pub(super) host: String,
    pub(super) adapter: String,
}

impl AdapterName {
    /// Reads a description that a host gave; the one that an adapter has of its own names no host.
    pub(super) fn read(description: &str) -> Option<AdapterName> {
        let (host, adapter) = description.trim().rsplit_once([' ', '\t'])?;
        let is_unset = description.contains("Mellanox Technologies");
        let has_number = adapter.ends_with(|c: char| c.is_ascii_digit());
        (has_number && !is_unset).then(|| AdapterName {
            host: host.trim().to_owned(),
            adapter: adapter.to_owned(),
        })
    }

    /// The host's name without its numbers: hosts of one stem are equals.
    pub(super) fn host_stem(&self) -> String {
        let mut stem = String::new();
        for one in self.host.chars() {
            let one = if one.is_ascii_digit() { '#' } else { one };
            if one != '#' || !stem.ends_with('#') {
                stem.push(one);
            }
        }
        stem
    }
}

/// A host, and what it lacks.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) rails: BTreeSet<String>,
    /// How many rails most of its equals have.
    pub(super) usual: u64,
    pub(super) missing: Vec<String>,
    /// Other hosts with the same rails.
    pub(super) alike: u64,
    pub(super) equals: u64,
}

/// A link to a host whose leaf has mostly another rail.
pub(super) struct RailPlace {
    pub(super) link: usize,
    pub(super) rail: String,
    /// The rail that most of the same kind of hosts have on this leaf.
    pub(super) usual: String,
    pub(super) percent: f64,
}

/// A link of a host, with the leaf.
struct HostLink {
    link: usize,
    leaf: usize,
    name: AdapterName,
    rail: String,
}

/// The links of hosts that their descriptions name.
pub(super) struct Hosts(Vec<HostLink>);

impl Hosts {
    pub(super) fn gather(fabric: &Fabric<'_>) -> Self {
        let mut all = Vec::new();
        for (link, one) in fabric.links.iter().enumerate() {
            let Some(far) = one.far else {
                continue;
            };
            for (own, leaf) in [(one.near, far), (far, one.near)] {
                let adapter = fabric
                    .device(own.device)
                    .filter(|device| device.is_adapter());
                let description = adapter.and_then(|device| device.description.as_deref());
                if let Some(name) = description.and_then(AdapterName::read) {
                    let rail = match own.port {
                        1 => name.adapter.clone(),
                        port => format!("{} port {port}", name.adapter),
                    };
                    all.push(HostLink {
                        link,
                        leaf: leaf.device,
                        name,
                        rail,
                    });
                }
            }
        }
        Hosts(all)
    }

    /// The hosts that have equals, each compared with them.
    pub(super) fn compare_rails(&self) -> Vec<Host> {
        let mut by_stem: BTreeMap<String, BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
        for one in &self.0 {
            let hosts = by_stem.entry(one.name.host_stem()).or_default();
            let rails = hosts.entry(&one.name.host).or_default();
            rails.insert(one.rail.clone());
        }
        let mut all = Vec::new();
        for hosts in by_stem.values() {
            let Some(usual) = majority(hosts.values()) else {
                continue;
            };
            let mut with_rails: BTreeMap<&BTreeSet<String>, u64> = BTreeMap::new();
            for rails in hosts.values() {
                *with_rails.entry(rails).or_default() += 1;
            }
            for (name, rails) in hosts {
                let same = with_rails.get(rails).copied().unwrap_or(0);
                all.push(Host {
                    name: (*name).to_owned(),
                    rails: rails.clone(),
                    usual: usual.len() as u64,
                    missing: usual.difference(rails).cloned().collect(),
                    alike: same.saturating_sub(1),
                    equals: hosts.len() as u64 - 1,
                });
            }
        }
        all
    }

    pub(super) fn count(&self) -> usize {
        let names: BTreeSet<&str> = self.0.iter().map(|one| one.name.host.as_str()).collect();
        names.len()
    }

    /// The rail of each link, and the one that is usual on its leaf.
    pub(super) fn compare_places(&self) -> Vec<RailPlace> {
        let mut counts: BTreeMap<(usize, String), BTreeMap<&str, usize>> = BTreeMap::new();
        for one in &self.0 {
            let on_leaf = counts.entry((one.leaf, one.name.host_stem())).or_default();
            *on_leaf.entry(&one.rail).or_default() += 1;
        }
        let mut all = Vec::new();
        for one in &self.0 {
            let Some(on_leaf) = counts.get(&(one.leaf, one.name.host_stem())) else {
                continue;
            };
            let sum: usize = on_leaf.values().sum();
            if let Some((usual, most)) = on_leaf.iter().max_by_key(|(_, count)| **count) {
                all.push(RailPlace {
                    link: one.link,
                    rail: one.rail.clone(),
                    usual: (*usual).to_owned(),
                    percent: 100.0 * *most as f64 / sum as f64,
                });
            }
        }
        all
    }
}
