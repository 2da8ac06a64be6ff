//! What names a node from elsewhere: its addresses, and its name in a log.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::failure::Key;
use crate::fact::{Facts, Id, Subject, event, interface, node, reach};

/// The addresses of a node that others can name; none where they are pseudonyms of its recording
/// alone.
pub(super) fn addresses(facts: &Facts, node: Id) -> Vec<IpAddr> {
    let mut all = Vec::new();
    if facts.known(node, node::PSEUDONYMS).is_none() {
        return all;
    }
    for id in facts.below(node, Subject::Interface) {
        if facts.known(id, interface::LOOPBACK) == Some(true) {
            continue;
        }
        let listed = facts.known(id, interface::ADDRESSES);
        let listed = listed.iter().flat_map(|list| list.iter());
        all.extend(listed.filter_map(|one| one.split('/').next()?.parse::<IpAddr>().ok()));
    }
    all
}

/// The address of the peer that an event names, which may have a port behind it: `10.0.0.4<29500>`.
fn peer(facts: &Facts, event: Id) -> Option<IpAddr> {
    let named = facts.known(event, event::PEER)?;
    let address = named.split('<').next()?;
    let socket = || address.parse::<SocketAddr>().ok().map(|at| at.ip());
    address.parse().ok().or_else(socket)
}

/// Relates events of logs with the nodes whose addresses they name as their peers: what is wrong
/// there may be why.
pub fn relate(facts: &mut Facts) {
    let events: Vec<Id> = facts.all(Subject::Event).collect();
    if events.is_empty() {
        return;
    }
    let mut nodes: HashMap<IpAddr, Id> = HashMap::new();
    for node in facts.all(Subject::Node) {
        for address in addresses(facts, node) {
            nodes.entry(address).or_insert(node);
        }
    }
    for event in events {
        let node = peer(facts, event).and_then(|address| nodes.get(&address));
        if let Some(node) = node {
            facts.relate(event, *node);
        }
    }
}

/// What an instance that is on no node touches on one: the host of a log, the peer that an event
/// names, the ends of a way that was tried.
pub(super) fn touched(facts: &Facts, id: Id) -> Box<[Key]> {
    if facts.ancestor(id, Subject::Node).is_some() {
        return Box::default();
    }
    let host = facts.ancestor(id, Subject::Host);
    let host = host.map(|host| key(Subject::Host, facts.name(host)));
    let event = Some(id).filter(|id| facts.subject(*id) == Subject::Event);
    let peer = event.and_then(|event| peer(facts, event));
    let peer = peer.map(|address| key(Subject::Interface, &address.to_string()));
    let ends = match facts.subject(id) {
        Subject::Reach => facts.known(id, reach::HOSTS),
        _ => None,
    };
    let ends = ends.iter().flat_map(|ends| ends.iter());
    let ends = ends.map(|name| key(Subject::Host, name));
    host.into_iter().chain(peer).chain(ends).collect()
}

fn key(subject: Subject, name: &str) -> Key {
    Key {
        node: None,
        subject,
        name: name.into(),
    }
}

/// The nodes of the whole, by their numbers, by what names them from elsewhere.
pub struct NodesByKey(HashMap<Key, Vec<u32>>);

impl NodesByKey {
    /// Nodes with these names, and addresses of them.
    pub fn new(names: &[&str], addresses: &[(IpAddr, u32)]) -> Self {
        let names = names.iter().map(|name| key(Subject::Host, short(name)));
        let names = names.zip(0..);
        let addresses = addresses.iter().map(|(address, node)| {
            let key = key(Subject::Interface, &address.to_string());
            (key, *node)
        });
        let mut nodes: HashMap<Key, Vec<u32>> = HashMap::new();
        for (key, node) in names.chain(addresses) {
            nodes.entry(key).or_default().push(node);
        }
        NodesByKey(nodes)
    }

    /// The nodes that one of these keys names.
    pub fn named(&self, keys: &[Key]) -> Vec<u32> {
        let own = |one: &Key| match one.subject {
            Subject::Host => key(Subject::Host, short(&one.name)),
            _ => one.clone(),
        };
        let nodes = keys.iter().filter_map(|one| self.0.get(&own(one)));
        nodes.flatten().copied().collect()
    }
}

/// The name without its domain, which not all sources of a name have.
fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}
