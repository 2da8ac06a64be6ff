//! Where the processes of a job are to meet: whether that is on this node, and on an interface that
//! others reach.

use std::net::IpAddr;
use std::sync::Arc;

use crate::derive::nccl::interface::reach;
use crate::fact::kleene::Several;
use crate::fact::selection::InterfaceReach;
use crate::fact::setting::{self, MeetingPlace};
use crate::fact::{Fact, Facts, Id, Subject, interface};
use crate::network::Network;

/// Works out where an address leads.
pub(super) fn address(facts: &mut Facts, node: Id, id: Id, value: &str) {
    let how = "the addresses of the setting and of the interfaces";
    let all: Vec<IpAddr> = match value.trim().parse() {
        Ok(one) => vec![one],
        Err(_) => facts
            .texts(id, setting::ADDRESSES)
            .filter_map(|a| a.parse().ok())
            .collect(),
    };
    facts.set(id, setting::RANK_ZERO_HERE, first_is_here(facts, node));
    if all.is_empty() {
        return;
    }
    let own = own_interface(facts, node, &all);
    let name = own.clone().map(|own| own.unwrap_or_else(|| "none".into()));
    facts.set(id, setting::MEETING_INTERFACE, name);
    let is_link_local = |one: &IpAddr| {
        let length = if one.is_ipv6() { 128 } else { 32 };
        Network::of(*one, length).is_some_and(Network::is_link_local)
    };
    let place = match own {
        Fact::Known(Some(name), _) => match reach(facts, node, Some(&name)) {
            InterfaceReach::Virtual => Fact::derived(MeetingPlace::VirtualHere, how),
            _ if all.iter().all(is_link_local) => Fact::derived(MeetingPlace::LinkLocal, how),
            _ => Fact::derived(MeetingPlace::Here, how),
        },
        Fact::Known(None, _) if all.iter().all(is_link_local) => {
            Fact::derived(MeetingPlace::LinkLocal, how)
        }
        Fact::Known(None, _) => Fact::derived(MeetingPlace::Elsewhere, how),
        Fact::Unknown(gap) => Fact::Unknown(gap),
    };
    facts.set(id, setting::MEETING_PLACE, place);
}

/// Works out whether a port is one at which a process of this node is to listen: the address beside
/// it leads here, or number 0 is here.
pub(super) fn port(facts: &mut Facts, node: Id, id: Id, variable: &str) {
    let beside = variable.replace("PORT", "ADDR");
    let leads_here = facts
        .find(Subject::Setting, node, &beside)
        .is_some_and(|address| {
            facts.known(address, setting::LOOPBACK) == Some(true)
                || matches!(
                    facts.known(address, setting::MEETING_PLACE),
                    Some(MeetingPlace::Here | MeetingPlace::VirtualHere)
                )
        });
    let here = if leads_here {
        Fact::derived(true, "the address at which the job meets is this node's")
    } else {
        first_is_here(facts, node)
    };
    facts.set(id, setting::RANK_ZERO_HERE, here);
}

/// The interface that has one of these addresses; `None` if this node has none of them.
fn own_interface(facts: &Facts, node: Id, all: &[IpAddr]) -> Fact<Option<Arc<str>>> {
    let has = |id: Id| {
        facts.get(id, interface::ADDRESSES).map(|addresses| {
            let mut own = addresses.iter().filter_map(|text| text.split('/').next());
            own.any(|own| own.parse().is_ok_and(|own: IpAddr| all.contains(&own)))
        })
    };
    let mut open = facts.members(Subject::Interface, node).err();
    for id in facts.below(node, Subject::Interface) {
        match has(id) {
            Fact::Known(true, origin) => {
                return Fact::Known(Some(facts.name(id).into()), origin);
            }
            Fact::Known(false, _) => {}
            Fact::Unknown(gap) => {
                open.get_or_insert(gap);
            }
        }
    }
    match open {
        Some(gap) => Fact::Unknown(gap),
        None => Fact::derived(None, "the addresses of the interfaces"),
    }
}

/// Whether the process, or the node, with number 0 of a job is this one. A process with a higher
/// number may share the node with it.
fn first_is_here(facts: &Facts, node: Id) -> Fact<bool> {
    let mut is_told = false;
    let numbers: Several<bool> = facts
        .below(node, Subject::Setting)
        .filter(|id| {
            let name = facts.name(*id);
            !name.starts_with("LOCAL_") && facts.known(*id, setting::IS_FIRST).is_some()
        })
        .inspect(|_| is_told = true)
        .map(|id| facts.get(id, setting::IS_FIRST))
        .collect();
    let found = Fact::of(
        numbers.any(|is_first| *is_first),
        "the numbers of a job's processes",
    );
    match (&found, facts.members(Subject::Setting, node)) {
        // A number that was not asked for may be 0.
        (Fact::Known(false, _), Err(gap)) if !is_told => Fact::Unknown(gap),
        _ => found,
    }
}
