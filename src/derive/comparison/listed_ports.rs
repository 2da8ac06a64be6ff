//! Ports that are active on one host of a text and not on another, by their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sides;
use crate::fact::{Facts, Id, Subject, port};
use crate::sentence::{Sentence, sentence};

/// What the word of an active port is in [`port::LISTED_AS`].
const ACTIVE: &str = "none";

/// A port with the state in which an output lists it.
#[derive(Clone, Debug)]
pub(super) struct ListedPort {
    name: Arc<str>,
    state: Arc<str>,
}

/// Takes the ports of a node that outputs of tools list.
pub(super) fn take(facts: &Facts, node: Id) -> Vec<ListedPort> {
    let ports = facts.below(node, Subject::Port);
    let listed = ports.filter_map(|id| {
        Some(ListedPort {
            name: facts.name(id).into(),
            state: facts.known(id, port::LISTED_AS)?,
        })
    });
    listed.collect()
}

/// A port that hosts list in different states.
pub(super) struct ComparedPort {
    pub(super) name: Arc<str>,
    pub(super) hosts: usize,
    /// The hosts on which it is not active.
    pub(super) odd: Vec<Arc<str>>,
    pub(super) summary: Sentence,
}

/// The ports that are active on a host and not on another one.
pub(super) fn compare(hosts: &[(Arc<str>, Vec<ListedPort>)]) -> Vec<ComparedPort> {
    let mut ports: BTreeMap<Arc<str>, Vec<(Arc<str>, Arc<str>)>> = BTreeMap::new();
    for (host, listed) in hosts {
        for one in listed {
            let of_port = ports.entry(Arc::clone(&one.name)).or_default();
            of_port.push((Arc::clone(host), Arc::clone(&one.state)));
        }
    }
    ports.into_iter().filter_map(differing).collect()
}

/// A port with the hosts that list it, each with the state.
fn differing((name, hosts): (Arc<str>, Vec<(Arc<str>, Arc<str>)>)) -> Option<ComparedPort> {
    let is_active = |host: &&(Arc<str>, Arc<str>)| *host.1 == *ACTIVE;
    let active: Vec<Arc<str>> = hosts.iter().filter(is_active).map(|h| Arc::clone(&h.0)).collect();
    let down = || hosts.iter().filter(|host| !is_active(host));
    let state = Arc::clone(&down().next().filter(|_| !active.is_empty())?.1);
    let odd: Vec<Arc<str>> = down().map(|host| Arc::clone(&host.0)).collect();
    let [of_odd, of_active] = [&odd, &active].map(|names| sides::names(names));
    let summary = sentence!("{name} is {state} on {of_odd}, and active on {of_active}");
    let hosts = hosts.len();
    Some(ComparedPort {
        name,
        hosts,
        odd,
        summary,
    })
}
