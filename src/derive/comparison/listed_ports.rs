//! Ports that are active on one host of a text and down on another, by their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sides;
use crate::fact::{Facts, Id, Subject, port};
use crate::sentence::{Sentence, sentence};

/// What the word of an active port is in [`port::LISTED_AS`].
const ACTIVE: &str = "none";

/// How the words of a port without a link begin; what is set up in part has a check of its own.
const DOWN: &str = "down";

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
    /// The hosts on which it is down.
    pub(super) odd: Vec<Arc<str>>,
    pub(super) summary: Sentence,
}

/// The ports of a host.
pub(super) struct ListingHost {
    pub(super) name: Arc<str>,
    pub(super) ports: Vec<ListedPort>,
}

/// The hosts that list a port.
#[derive(Default)]
struct Hosts {
    active: Vec<Arc<str>>,
    down: Vec<Arc<str>>,
    /// The first one's state in words.
    state: Option<Arc<str>>,
}

/// The ports that are active on a host and down on another one.
pub(super) fn compare(hosts: &[ListingHost]) -> Vec<ComparedPort> {
    let mut ports: BTreeMap<&Arc<str>, Hosts> = BTreeMap::new();
    for host in hosts {
        for one in &host.ports {
            let of_port = ports.entry(&one.name).or_default();
            if *one.state == *ACTIVE {
                of_port.active.push(Arc::clone(&host.name));
            } else if one.state.starts_with(DOWN) {
                of_port.down.push(Arc::clone(&host.name));
                of_port.state.get_or_insert(Arc::clone(&one.state));
            }
        }
    }
    let mut compared = Vec::new();
    for (name, hosts) in ports {
        compared.extend(hosts.compared(Arc::clone(name)));
    }
    compared
}

impl Hosts {
    /// What differs, if something does.
    fn compared(self, name: Arc<str>) -> Option<ComparedPort> {
        let state = self.state.filter(|_| !self.active.is_empty())?;
        let [odd, active] = [&self.down, &self.active].map(|names| sides::names(names));
        let summary = sentence!("{name} is {state} on {odd}, and active on {active}");
        Some(ComparedPort {
            name,
            hosts: self.down.len() + self.active.len(),
            odd: self.down,
            summary,
        })
    }
}
