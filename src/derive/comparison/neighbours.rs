//! Hardware addresses that a node has written down for another one, against those that the other
//! one has.

use std::collections::HashMap;
use std::sync::Arc;

use super::own::{link_local, rail_addresses};
use super::{Realm, Sample};
use crate::fact::{Facts, Id, Subject, interface, port};
use crate::sentence::shell::Command;
use crate::sentence::{Sentence, sentence};

/// Addresses with their hardware addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    /// Those of the node's rails.
    own: Vec<(Arc<str>, String)>,
    /// Those that somebody wrote down there, with the interface.
    written: Vec<(Arc<str>, Arc<str>, Arc<str>)>,
}

/// Takes the hardware addresses of a node's rails, and those that it does not ask for.
pub(super) fn take(facts: &Facts, node: Id, sample: &mut Sample) {
    if sample.realm == Realm::Alone {
        return;
    }
    let all = &mut sample.neighbours;
    for port in facts.below(node, Subject::Port) {
        let netdev = facts.known(port, port::NETDEV);
        let netdev = netdev.and_then(|name| facts.find(Subject::Netdev, node, &name));
        if let (Some(netdev), Some(mac)) = (netdev, link_local(facts, port).and_then(|id| mac(&id)))
            && let Some(addresses) = rail_addresses(facts, node, netdev).known()
        {
            let own = addresses.iter().map(|one| (Arc::clone(one), mac.clone()));
            all.own.extend(own);
        }
    }
    for id in facts.below(node, Subject::Interface) {
        for line in facts.texts(id, interface::PERMANENT_NEIGHBOURS) {
            let parts = line.split_once(' ');
            let parts = parts.map(|(a, b)| (a.into(), b.into(), facts.shared_name(id)));
            all.written.extend(parts);
        }
    }
}

/// The MAC address that an interface identifier was made of (RFC 4291, appendix A).
fn mac(identifier: &str) -> Option<String> {
    let number = u64::from_str_radix(&identifier.replace(':', ""), 16).ok()?;
    let [a, b, c, 0xff, 0xfe, d, e, f] = number.to_be_bytes() else {
        return None;
    };
    let octets = [a ^ 2, b, c, d, e, f].map(|octet| format!("{octet:02x}"));
    Some(octets.join(":"))
}

/// What is wrong, with the node that has it and the command that removes it; `None` if no node has
/// written anything down.
pub(super) fn compare(nodes: &[(&str, &Neighbours)]) -> Option<Vec<(usize, Sentence, Command)>> {
    let mut owners: HashMap<&str, Vec<(usize, &str)>> = HashMap::new();
    for (at, (_, node)) in nodes.iter().enumerate() {
        for (address, mac) in &node.own {
            owners.entry(address).or_default().push((at, mac));
        }
    }
    let mut wrong = Vec::new();
    for (at, (name, node)) in nodes.iter().enumerate() {
        for (address, mac, interface) in &node.written {
            let owners = owners.get(&**address).map_or(&[][..], Vec::as_slice);
            if let Some((owner, right)) = owners.first()
                && owners.iter().all(|(_, own)| **own != **mac)
            {
                let owner = nodes[*owner].0;
                let what = sentence!(
                    "{name} sends to {address} at {mac}",
                    "; it is {owner}'s, at {right}"
                );
                let command = Command::filled("ip neigh del {} dev {}", &[address, interface]);
                wrong.push((at, what, command));
            }
        }
    }
    let any = nodes.iter().any(|(_, node)| !node.written.is_empty());
    any.then_some(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_its_owner_contradicts_is_wrong() {
        let node = |own: &str, written: &[(&str, &str)]| Neighbours {
            own: vec![(own.into(), format!("52:54:00:77:00:0{}", &own[7..]))],
            written: written
                .iter()
                .map(|(a, b)| ((*a).into(), (*b).into(), "eth0".into()))
                .collect(),
        };
        let written = [
            ("10.0.0.2", "52:54:00:99:99:99"),
            ("10.0.0.3", "52:54:00:77:00:03"),
            ("10.9.9.9", "52:54:00:99:99:99"),
        ];
        let (one, two) = (node("10.0.0.1", &written), node("10.0.0.2", &[]));
        let three = node("10.0.0.3", &[]);
        let all = [("n1", &one), ("n2", &two), ("n3", &three)];
        let said = sentence!(
            "n1 sends to 10.0.0.2 at 52:54:00:99:99:99",
            "; it is n2's, at 52:54:00:77:00:02"
        );
        let command = Command::of_text("ip neigh del 10.0.0.2 dev eth0");
        assert_eq!(compare(&all), Some(vec![(0, said, command)]));
        assert_eq!(compare(&all[1..]), None);
        let mac = |text| mac(text).as_deref().map(str::to_owned);
        assert_eq!(
            mac("5054:00ff:fe77:0002").as_deref(),
            Some("52:54:00:77:00:02")
        );
        assert_eq!(mac("5054:0011:2277:0002"), None);
    }
}
