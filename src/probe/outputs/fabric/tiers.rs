//! Leaf, spine and core: which switches are equals, and which of them lack links to the tier above.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::majority::majority;
use super::model::{Fabric, Link, PortAt};
use crate::small_sort;

/// How far a switch is from the hosts: 1 is a leaf, 2 a spine, 3 and more a core.
pub(super) type Tier = u64;

/// The fabric as switches see it.
pub(super) struct Tiers {
    /// By the place of the device; only of switches that reach a host.
    pub(super) of_device: Vec<Option<Tier>>,
    /// The ports of each device that have a link, with the ports at the other ends.
    pub(super) peers: Vec<BTreeMap<u64, PortAt>>,
}

/// The links of a switch to the tier above, compared with those of its equals.
pub(super) struct Uplinks {
    pub(super) device: usize,
    pub(super) count: u64,
    /// How many it would have if it were like its equals.
    pub(super) usual: u64,
    pub(super) shortages: Vec<Shortage>,
    /// Ports without a link that lead to such a switch on most of its equals.
    pub(super) free_ports: Vec<u64>,
}

/// A switch above to which a switch has another number of links than its equals.
pub(super) struct Shortage {
    pub(super) above: usize,
    pub(super) count: u64,
    pub(super) usual: u64,
}

impl Tiers {
    pub(super) fn of(fabric: &Fabric<'_>) -> Self {
        let peers = fabric.peers();
        let mut of_device = vec![None; fabric.devices.len()];
        let mut open: VecDeque<usize> = VecDeque::new();
        for at in leaves(fabric, &peers) {
            of_device[at] = Some(1);
            open.push_back(at);
        }
        while let Some(at) = open.pop_front() {
            let next = of_device.get(at).copied().flatten().map(|tier| tier + 1);
            for peer in peers[at].values() {
                if fabric.devices[peer.device].is_switch() && of_device[peer.device].is_none() {
                    of_device[peer.device] = next;
                    open.push_back(peer.device);
                }
            }
        }
        Tiers { of_device, peers }
    }

    pub(super) fn tier(&self, device: usize) -> Option<Tier> {
        self.of_device.get(device).copied().flatten()
    }

    /// `leaf01 port 5 - spine0 port 1`: a switch stands before a host, and before what is above it.
    pub(super) fn link_name(&self, fabric: &Fabric<'_>, link: &Link<'_>) -> String {
        let names: Vec<String> = link.ends().map(|end| fabric.port_name(end)).collect();
        let tiers = link.ends().map(|end| self.tier(end.device));
        let keys: Vec<(Tier, &str)> = (tiers.zip(&names))
            .map(|(tier, name)| match tier {
                Some(tier) => (tier, name.as_str()),
                None => (Tier::MAX, ""),
            })
            .collect();
        match keys.as_slice() {
            [near, far] if far < near => format!("{} - {}", names[1], names[0]),
            _ => names.join(" - "),
        }
    }

    /// The peers of a switch that are one tier above it, by its own ports.
    pub(super) fn above(&self, device: usize) -> impl Iterator<Item = (u64, usize)> {
        let tier_above = self.tier(device).map(|tier| tier + 1);
        let ports = self.peers.get(device).into_iter().flatten();
        ports
            .map(|(port, peer)| (*port, peer.device))
            .filter(move |(_, peer)| tier_above.is_some() && self.tier(*peer) == tier_above)
    }

    /// The uplinks of all switches that have equals: those that lead to the same switches above, by
    /// whatever way.
    pub(super) fn uplinks(&self) -> Vec<Uplinks> {
        let mut all = Vec::new();
        for members in self.pods() {
            let counts = self.counts_above(&members);
            let mut usual: BTreeMap<usize, u64> = BTreeMap::new();
            let above: BTreeSet<usize> =
                counts.values().flat_map(BTreeMap::keys).copied().collect();
            for one in above {
                let each = counts
                    .values()
                    .map(|of_member| *of_member.get(&one).unwrap_or(&0));
                usual.extend(majority(each).map(|most| (one, most)));
            }
            if usual.values().sum::<u64>() == 0 {
                continue;
            }
            for (device, own) in &counts {
                all.push(self.compare(*device, own, &usual, &members));
            }
        }
        all
    }

    fn compare(
        &self,
        device: usize,
        own: &BTreeMap<usize, u64>,
        usual: &BTreeMap<usize, u64>,
        members: &[usize],
    ) -> Uplinks {
        let mut shortages = Vec::new();
        for (above, usual) in usual {
            let count = *own.get(above).unwrap_or(&0);
            if count != *usual {
                shortages.push(Shortage {
                    above: *above,
                    count,
                    usual: *usual,
                });
            }
        }
        small_sort::by_key(&mut shortages, |one| one.count > one.usual);
        // More links than usual are of interest only where others are missing.
        if shortages.iter().all(|one| one.count > one.usual) {
            shortages.clear();
        }
        let lacking: BTreeSet<usize> = (shortages.iter())
            .filter(|one| one.count < one.usual)
            .map(|one| one.above)
            .collect();
        Uplinks {
            device,
            count: own.values().sum(),
            usual: usual.values().sum(),
            free_ports: self.free_ports(device, &lacking, members),
            shortages,
        }
    }

    /// The ports of a switch without a link that lead to one of these above on most of its equals.
    fn free_ports(&self, device: usize, lacking: &BTreeSet<usize>, members: &[usize]) -> Vec<u64> {
        let mut free = Vec::new();
        let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
        for member in members.iter().filter(|_| !lacking.is_empty()) {
            for (port, above) in self.above(*member) {
                if lacking.contains(&above) {
                    *seen.entry(port).or_default() += 1;
                }
            }
        }
        let own = self.peers.get(device);
        for (port, count) in seen {
            let is_free = own.is_some_and(|ports| !ports.contains_key(&port));
            if is_free && count * 2 > members.len() {
                free.push(port);
            }
        }
        free
    }

    /// How many links each has to each above.
    fn counts_above(&self, members: &[usize]) -> BTreeMap<usize, BTreeMap<usize, u64>> {
        let mut counts: BTreeMap<usize, BTreeMap<usize, u64>> = BTreeMap::new();
        for member in members {
            let own = counts.entry(*member).or_default();
            for (_, above) in self.above(*member) {
                *own.entry(above).or_default() += 1;
            }
        }
        counts
    }

    /// Switches of one tier that share switches above, directly or by others.
    fn pods(&self) -> Vec<Vec<usize>> {
        let mut below: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for device in 0..self.of_device.len() {
            for (_, above) in self.above(device) {
                below.entry(above).or_default().push(device);
            }
        }
        let mut is_seen = vec![false; self.of_device.len()];
        let mut pods = Vec::new();
        for first in 0..self.of_device.len() {
            if is_seen[first] || self.above(first).next().is_none() {
                continue;
            }
            is_seen[first] = true;
            let (mut members, mut at) = (vec![first], 0);
            let mut is_expanded: BTreeSet<usize> = BTreeSet::new();
            while let Some(member) = members.get(at).copied() {
                for (_, above) in self.above(member) {
                    let is_new = is_expanded.insert(above);
                    for other in below.get(&above).into_iter().flatten().filter(|_| is_new) {
                        if !std::mem::replace(&mut is_seen[*other], true) {
                            members.push(*other);
                        }
                    }
                }
                at += 1;
            }
            pods.push(members);
        }
        pods
    }
}

/// The switches with hosts. One whose neighbours all have more hosts is above them, and a host or
/// two, of the management or of a gateway, are at it as well.
fn leaves(fabric: &Fabric<'_>, peers: &[BTreeMap<u64, PortAt>]) -> Vec<usize> {
    let hosts_at = |at: usize| {
        let peers = peers.get(at).into_iter().flat_map(BTreeMap::values);
        peers
            .filter(|peer| fabric.devices[peer.device].is_adapter())
            .count()
    };
    let hosts: Vec<usize> = (0..fabric.devices.len()).map(hosts_at).collect();
    let mut leaves = Vec::new();
    for (at, device) in fabric.devices.iter().enumerate() {
        if !device.is_switch() || hosts[at] == 0 {
            continue;
        }
        let neighbours: BTreeSet<usize> = (peers[at].values())
            .map(|peer| peer.device)
            .filter(|peer| *peer != at && fabric.devices[*peer].is_switch())
            .collect();
        let is_above = neighbours.len() > 1 && neighbours.iter().all(|one| hosts[*one] > hosts[at]);
        if !is_above {
            leaves.push(at);
        }
    }
    leaves
}
