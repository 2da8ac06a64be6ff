//! The way that `ip route get` shows, beside the networks of the interfaces that were given.

use std::net::IpAddr;

use super::self_tests::add;
use super::{Output, OutputLine};
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id, Subject, interface};
use crate::network::Network;

/// `10.20.0.7 via 10.0.0.1 dev eno1 src 10.0.0.15`
struct AskedRoute<'p> {
    line: OutputLine<'p>,
    to: IpAddr,
    shown: &'p str,
    interface: &'p str,
}

impl<'p> AskedRoute<'p> {
    fn read(line: OutputLine<'p>) -> Option<Self> {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let behind = |word: &str| {
            let at = words.iter().position(|one| *one == word)?;
            words.get(at + 1).copied()
        };
        // A way through a router; what is on the link goes to its own network.
        behind("via")?;
        let shown = *words.first()?;
        Some(AskedRoute {
            line,
            to: shown.parse().ok()?,
            shown,
            interface: behind("dev")?,
        })
    }
}

/// States the ways that pass the network of another interface, in which the address is.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    let asked = outputs
        .iter()
        .filter(|output| output.tool() == "ip" && output.has("get"));
    let routes: Vec<AskedRoute<'_>> = asked
        .flat_map(|output| output.lines().filter_map(AskedRoute::read))
        .collect();
    for route in routes {
        let Some((name, network)) = network_of(facts, node, &route) else {
            continue;
        };
        let words = format!(
            "{name} is in {network}, and the way is {}",
            route.line.text.trim()
        );
        let kind = ToolResultKind::RouteBesideNetwork;
        add(facts, node, kind, route.shown, (&route.line, &words));
    }
}

/// The interface in whose network the address is, where the way takes another one.
fn network_of(facts: &Facts, node: Id, route: &AskedRoute<'_>) -> Option<(String, Network)> {
    for id in facts.below(node, Subject::Interface) {
        if facts.name(id) == route.interface {
            continue;
        }
        let networks = facts.texts(id, interface::ADDRESSES);
        let mut networks = networks.filter_map(|address| Network::read(&address).ok());
        if let Some(network) = networks.find(|one| one.has_peers() && one.has(route.to)) {
            return Some((facts.name(id).to_owned(), network));
        }
    }
    None
}
