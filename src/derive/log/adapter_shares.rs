//! How a host's ranks share its adapters, by the lines of their channels.

use std::collections::BTreeSet;

use crate::fact::channel::{Direction, Transport};
use crate::fact::{Fact, Facts, Id, Origin, Subject, channel, hca, host};

/// States how many ports carry channels to other nodes, and how many ranks send there.
pub(super) fn state(facts: &mut Facts, id: Id) {
    let origin = || Origin::derived("lines of connected channels");
    let ports: Vec<Id> = facts.below(id, Subject::Hca).collect();
    let carries = |port: &Id| {
        facts
            .known(*port, hca::CHANNELS)
            .is_some_and(|lines| lines > 0)
    };
    let carrying = ports.iter().filter(|port| carries(port)).count() as u64;
    let senders: BTreeSet<u64> = facts
        .below(id, Subject::Channel)
        .filter(|channel| leaves(facts, *channel))
        .filter_map(|channel| facts.known(channel, channel::FROM))
        .collect();
    if carrying > 0 && !senders.is_empty() {
        facts.set(id, host::IB_PORTS_CARRYING, Fact::Known(carrying, origin()));
        let senders = senders.len() as u64;
        facts.set(id, host::SENDERS, Fact::Known(senders, origin()));
    }
}

/// Whether a channel sends to another node.
fn leaves(facts: &Facts, id: Id) -> bool {
    facts.known(id, channel::TRANSPORT) == Some(Transport::Net)
        && facts.known(id, channel::DIRECTION) == Some(Direction::Send)
        && facts.known(id, channel::INSIDE_NODE) != Some(true)
}
