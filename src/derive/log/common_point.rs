//! What failed requests of several processes have in common: the peer that all of them name, or the
//! adapter over which all of them went.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;

use crate::fact::event::{self, LogClass};
use crate::fact::{Facts, Id};

/// The peers of an adapter's failed requests, and the hosts that name a peer.
#[derive(Default)]
struct FailedRequests {
    hosts_of_peer: BTreeMap<Arc<str>, BTreeSet<Id>>,
    peers_of_adapter: BTreeMap<(Id, Arc<str>), BTreeSet<Arc<str>>>,
}

/// States of each failed request how many hosts name its peer, and how many peers failed over its
/// adapter.
pub(super) fn state_common_points(facts: &mut Facts, events: &[Id]) {
    let requests: Vec<Id> = (events.iter().copied())
        .filter(|id| facts.known(*id, event::CLASS) == Some(LogClass::Completion))
        .collect();
    let mut all = FailedRequests::default();
    for &id in &requests {
        let (Some(peer), Some(host)) = (address(facts, id), facts.parent(id)) else {
            continue;
        };
        let hosts = all.hosts_of_peer.entry(Arc::clone(&peer)).or_default();
        hosts.insert(host);
        if let Some(adapter) = facts.known(id, event::DEVICE) {
            let peers = all.peers_of_adapter.entry((host, adapter)).or_default();
            peers.insert(peer);
        }
    }
    for &id in events {
        if let Some(peer) = address(facts, id).or_else(|| address_of_gid(facts, id)) {
            facts.derive(id, event::PEER_ADDRESS, peer, "the line of the log");
        }
    }
    let how = "the failed requests of the log, by peer and by adapter";
    for id in requests {
        let Some(peer) = address(facts, id) else {
            continue;
        };
        let naming = all.hosts_of_peer.get(&peer).map_or(0, BTreeSet::len);
        facts.derive(id, event::HOSTS_OF_PEER, naming as u64, how);
        if let (Some(host), Some(adapter)) = (facts.parent(id), facts.known(id, event::DEVICE))
            && let Some(failing) = all.peers_of_adapter.get(&(host, adapter))
        {
            facts.derive(id, event::PEERS_OF_ADAPTER, failing.len() as u64, how);
        }
    }
}

/// The IPv4 address that the peer's GID holds.
fn address_of_gid(facts: &Facts, id: Id) -> Option<Arc<str>> {
    let gid: Ipv6Addr = facts.known(id, event::REMOTE_GID)?.parse().ok()?;
    Some(gid.to_ipv4_mapped()?.to_string().into())
}

/// The peer's address without its port.
fn address(facts: &Facts, id: Id) -> Option<Arc<str>> {
    let peer = facts.known(id, event::PEER)?;
    let address = peer.split('<').next().unwrap_or(&peer);
    Some(address.into())
}
