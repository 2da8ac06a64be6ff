//! Why nodes do not reach each other: the interface, the port, and the rule of a packet filter, where one decides.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::cluster::rendezvous::JoinError;
use crate::derive::firewall;
use crate::examine::given::NodePlacement;
use crate::examine::one;
use crate::fact::flow::{Direction, FlowPassage};
use crate::fact::{Facts, Id, Subject, interface};
use crate::live::source_address::source_of;
use crate::measure::run::pairs::no_connection;
use crate::source::recording::Recording;

/// The way by which this node tried to reach rank 0.
struct OutwardWay {
    /// Its own address, where it has a route.
    source: Option<IpAddr>,
    /// The interface with that address.
    interface: Option<Arc<str>>,
    /// The rule of its own packet filter that decides.
    rule: Option<String>,
}

impl OutwardWay {
    fn towards(at: SocketAddr, recording: &Recording) -> Self {
        let (facts, nodes) = one::facts(std::slice::from_ref(recording));
        let node = nodes.first().map(|node| node.id);
        let source = source_of(at);
        let interface = node
            .zip(source)
            .and_then(|(node, source)| interface_of(&facts, node, source));
        let rule = node
            .zip(interface.as_ref())
            .and_then(|(node, name)| lost(&facts, node, name, Direction::Out, at.port()));
        OutwardWay {
            source,
            interface,
            rule,
        }
    }
}

/// Why this node did not reach rank 0, which listens: for a reader who knows both names.
pub(super) fn of_listening(
    at: SocketAddr,
    error: &std::io::Error,
    recording: &Recording,
) -> String {
    let way = OutwardWay::towards(at, recording);
    let from = match (&way.interface, way.source) {
        (Some(name), _) => format!(" over {name}"),
        (None, Some(source)) => format!(" from {source}"),
        (None, None) => ", no route".to_owned(),
    };
    let rule = way
        .rule
        .map(|rule| format!("; its own packet filter decides: {rule}"));
    format!(
        "no connection to {at}{from} ({}){}",
        no_connection(error),
        rule.unwrap_or_default()
    )
}

/// Why this node did not reach rank 0.
pub(super) fn outward(error: &JoinError, recording: &Recording, place: &NodePlacement) -> String {
    let JoinError::Unreachable { at, .. } = error else {
        return error.to_string();
    };
    let way = OutwardWay::towards(*at, recording);
    let from = match (way.source, &way.interface) {
        (Some(source), Some(name)) => {
            format!("from {} over {name} ({source})", place.own.name)
        }
        (Some(source), None) => format!("from {} ({source})", place.own.name),
        (None, _) => format!("{} has no route to it", place.own.name),
    };
    match way.rule {
        Some(rule) => format!("{error}; {from}; the packet filter of this node decides: {rule}"),
        None => format!(
            "{error}; {from}: rank 0 did not start, or a packet filter on the way or on its side drops TCP to port {}",
            at.port()
        ),
    }
}

/// The rule of rank 0's own packet filter by which nobody reaches its port, where one decides.
pub(super) fn inward(own: &Recording, port: u16) -> Option<String> {
    let (facts, nodes) = one::facts(std::slice::from_ref(own));
    let node = nodes.first().map(|node| node.id)?;
    let outer = |id: &Id| {
        let has_address = facts.known(*id, interface::ADDRESSES);
        facts.known(*id, interface::LOOPBACK) == Some(false)
            && has_address.is_some_and(|list| !list.is_empty())
    };
    facts
        .below(node, Subject::Interface)
        .filter(outer)
        .find_map(|id| lost(&facts, node, &facts.name(id).into(), Direction::In, port))
}

fn lost(
    facts: &Facts,
    node: Id,
    name: &Arc<str>,
    direction: Direction,
    port: u16,
) -> Option<String> {
    let (passage, rule) = firewall::tcp(facts, node, name, direction, port)?;
    let does = match passage {
        FlowPassage::Dropped => "drops",
        FlowPassage::Rejected => "rejects",
        _ => return None,
    };
    Some(format!("it {does} TCP to port {port} over {name} ({rule})"))
}

/// The interface that has this address.
fn interface_of(facts: &Facts, node: Id, address: IpAddr) -> Option<Arc<str>> {
    let has = |id: &Id| {
        let list = facts.known(*id, interface::ADDRESSES);
        list.is_some_and(|list| {
            list.iter().any(|one| {
                let one = one.split('/').next().unwrap_or(one);
                one.parse::<IpAddr>().is_ok_and(|one| one == address)
            })
        })
    };
    let found = facts.below(node, Subject::Interface).find(has)?;
    Some(facts.name(found).into())
}
