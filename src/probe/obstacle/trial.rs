//! What came of asking gateways and known neighbours from each interface's own address.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;

use super::Found;
use crate::fact::node::{ANSWERING_NEIGHBOURS, ASKED_NEIGHBOURS};
use crate::fact::obstacle::ObstacleKind;
use crate::fact::{Fact, Facts, Id, Origin, Subject, obstacle};
use crate::left_out::LeftOut;
use crate::probe::{Ask, Probe, state_left_out};
use crate::sentence::shell::Command;
use crate::source::{Errno, Question};

/// The probe.
pub(in crate::probe) const PROBE: Probe = Probe::new("neighbours", run);

/// An interface, and who was asked from its address.
#[derive(Deserialize)]
struct Rail {
    interface: Arc<str>,
    address: IpAddr,
    asked: Vec<Asked>,
    /// Whether ARP was asked by the doctor itself.
    #[serde(default)]
    by_arp: bool,
    /// Other hardware addresses that answer for the own address.
    #[serde(default)]
    owners: Vec<Arc<str>>,
}

#[derive(Deserialize)]
struct Asked {
    address: IpAddr,
    is: Arc<str>,
    /// The host at which the job meets, if this is the gateway on the way to it.
    to: Option<IpAddr>,
    /// The network of the route by which it is reached, as ip-route(8) names it.
    route: Option<Arc<str>>,
    #[serde(default)]
    had_answered: bool,
    #[serde(default)]
    echo: bool,
    errno: Option<Arc<str>>,
    /// Whether a policy of IPsec refused packets meanwhile.
    #[serde(default)]
    by_policy: bool,
    /// The hardware address that answered.
    arp: Option<Arc<str>>,
    /// The one that somebody wrote down.
    noted: Option<Arc<str>>,
    /// Whether the kernel had a hardware address afterwards.
    resolved: Option<bool>,
}

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    // What was not asked is proof of nothing, and no less than before.
    let question = Question::call("rehearse_neighbours", []);
    let Fact::Known(reply, origin) = ask.value(question) else {
        return;
    };
    let mut found = Found {
        facts,
        node,
        open: None,
    };
    let (mut asked, mut answering) = (0, 0);
    for said in reply.as_array().into_iter().flatten() {
        if let Some(count) = said.get("left_out").and_then(serde_json::Value::as_u64) {
            let more = LeftOut::counted(count, "interface", "more than 64 of this node");
            state_left_out(found.facts, node, &more, &origin);
        } else if let Ok(rail) = Rail::deserialize(said) {
            rail.state(&mut found, &origin);
            let answers = rail.asked.iter().filter(|one| one.answers());
            asked += rail.asked.len() as u64;
            answering += answers.count() as u64;
        }
    }
    found.facts.know(node, ASKED_NEIGHBOURS, asked, &origin);
    found
        .facts
        .know(node, ANSWERING_NEIGHBOURS, answering, &origin);
}

impl Asked {
    /// Whether anything came from there.
    fn answers(&self) -> bool {
        self.echo || self.arp.is_some() || self.resolved == Some(true)
    }
}

impl Rail {
    fn state(&self, found: &mut Found<'_>, origin: &Origin) {
        self.owners(found, origin);
        self.silent(found, origin);
        for asked in &self.asked {
            self.one(found, asked, origin);
        }
    }

    /// States what came of it, beside what else is in the interface's way and may be its cause.
    fn add(
        &self,
        found: &mut Found<'_>,
        kind: ObstacleKind,
        what: String,
        look: Command,
        origin: &Origin,
    ) -> Id {
        let id = found.add(kind, &self.interface, None, (what, look), origin);
        let facts = &mut *found.facts;
        let all: Vec<Id> = facts.below(found.node, Subject::Obstacle).collect();
        for other in all.into_iter().filter(|other| *other != id) {
            if facts.known(other, obstacle::INTERFACE).as_ref() == Some(&self.interface) {
                facts.relate(id, other);
            }
        }
        id
    }

    /// Another machine that has the own address. A router that answers for all that is behind it
    /// answers for this node too.
    fn owners(&self, found: &mut Found<'_>, origin: &Origin) {
        let answers = |mac: &Arc<str>| self.asked.iter().any(|one| one.arp.as_ref() == Some(mac));
        let Some(other) = self.owners.iter().find(|mac| !answers(mac)) else {
            return;
        };
        let what = format!("{other} has {} too", self.address);
        let address = self.address.to_string();
        let look = Command::filled("arping -D -c 3 -I {} {}", &[&self.interface, &address]);
        let kind = ObstacleKind::AddressTaken;
        self.add(found, kind, what, look, origin);
    }

    /// Whether ARP or neighbour discovery of one came to nothing. Nobody has to answer for an
    /// address that was written down.
    fn is_unresolved(&self, one: &Asked) -> bool {
        let is_unresolved = if self.by_arp {
            one.arp.is_none()
        } else {
            one.resolved == Some(false)
        };
        one.noted.is_none() && is_unresolved && refusal(one).is_none()
    }

    fn silent(&self, found: &mut Found<'_>, origin: &Origin) {
        let mut unresolved: Vec<&Asked> = self.asked.iter().collect();
        unresolved.retain(|one| self.is_unresolved(one));
        let mut had_answered = unresolved.clone();
        had_answered.retain(|one| one.had_answered);
        let gateway = unresolved.iter().find(|one| one.is.ends_with("gateway"));
        let is_gateway_silent = gateway.is_some_and(|one| one.had_answered && !one.echo);
        // One that is off is nobody else's fault, and a gateway that never was is one by itself.
        if unresolved.len() == self.asked.len() && had_answered.len() > 1 {
            let kind = if is_gateway_silent {
                ObstacleKind::CutOff
            } else {
                ObstacleKind::NeighboursSilent
            };
            self.all(found, kind, &had_answered, origin);
        } else {
            let leads_out = |one: &&&Asked| {
                matches!(&*one.is, "default gateway" | "peer's gateway") && !one.echo
            };
            for gateway in unresolved.iter().filter(leads_out) {
                self.gateway(found, gateway, origin);
            }
        }
        let is_not_taken = |one: &&Asked| {
            one.arp.is_some() && one.resolved == Some(false) && one.noted.is_none() && !one.echo
        };
        let not_taken: Vec<&Asked> = self.asked.iter().filter(is_not_taken).collect();
        if !not_taken.is_empty() {
            self.all(found, ObstacleKind::AnswersNotTaken, &not_taken, origin);
        }
    }

    fn all(&self, found: &mut Found<'_>, kind: ObstacleKind, who: &[&Asked], origin: &Origin) {
        let addresses: Vec<String> = who.iter().map(|one| one.address.to_string()).collect();
        let look = Command::filled("ip neigh show dev {}", &[&self.interface]);
        self.add(found, kind, addresses.join(", "), look, origin);
    }

    fn gateway(&self, found: &mut Found<'_>, gateway: &Asked, origin: &Origin) {
        let ip = match gateway.address {
            IpAddr::V4(_) => "ip",
            IpAddr::V6(_) => "ip -6",
        };
        let address = gateway.address.to_string();
        let network = match (&gateway.to, &gateway.route) {
            (None, _) => Some("default"),
            (Some(_), network) => network.as_deref(),
        };
        let removal = if let Some(network) = network {
            let removing = format!("{ip} route del {{}} via {{}} dev {{}}");
            Command::filled(&removing, &[network, &address, &self.interface])
        } else {
            Command::filled(&format!("{ip} route show via {{}}"), &[&address])
        };
        let route = format!(
            "{ip} route {} via {address} dev {}",
            network.unwrap_or_default(),
            self.interface
        );
        let what = match gateway.to {
            Some(peer) => format!("{route}, the way to {peer}"),
            None => route,
        };
        let kind = ObstacleKind::GatewayUnanswered;
        let id = self.add(found, kind, what, removal, origin);
        found
            .facts
            .know(id, obstacle::GATEWAY, address.into(), origin);
    }

    fn one(&self, found: &mut Found<'_>, one: &Asked, origin: &Origin) {
        let to = one.address.to_string();
        if let Some(errno) = refusal(one) {
            let own = self.address.to_string();
            let (by, look) = if one.by_policy {
                (
                    " by a policy of IPsec",
                    Command::filled("ip xfrm policy", &[]),
                )
            } else {
                let look = Command::filled("ip route get {} from {}", &[&to, &own]);
                ("", look)
            };
            let what = format!("{to}: {}{by}", errno.meaning());
            let kind = ObstacleKind::Refused;
            self.add(found, kind, what, look, origin);
        }
        if let (Some(noted), Some(mac), false) = (&one.noted, &one.arp, one.echo)
            && noted != mac
        {
            let what = format!("{to} is {mac}, and written down as {noted}");
            let removal = Command::filled("ip neigh del {} dev {}", &[&to, &self.interface]);
            let kind = ObstacleKind::NeighbourWrong;
            self.add(found, kind, what, removal, origin);
        }
    }
}

/// Why this node itself sends nothing to one: what its routes and rules say. A packet filter may
/// refuse an echo alone (EPERM).
fn refusal(one: &Asked) -> Option<Errno> {
    let errno = Errno::from_name(one.errno.as_deref()?)?;
    let of_the_way = [
        Errno::ENETUNREACH,
        Errno::EHOSTUNREACH,
        Errno::EINVAL,
        Errno::EACCES,
    ];
    (one.by_policy || of_the_way.contains(&errno)).then_some(errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing;

    /// What is stated of what was asked on eth1, each as "kind: what".
    fn stated(rail: &str, asked: &str) -> Vec<String> {
        let reply = format!(
            r#"{{"q":{{"call":"rehearse_neighbours"}},"value":[{{"interface":"eth1","address":"10.0.1.5",{rail}"asked":[{asked}]}}]}}"#
        );
        let (facts, _) = testing::run(&PROBE, &[&*reply]);
        let all = facts.all(Subject::Obstacle).map(|id| {
            let kind = facts.known(id, obstacle::KIND).unwrap();
            format!(
                "{}: {}",
                kind.word(),
                facts.known(id, obstacle::WHAT).unwrap()
            )
        });
        all.collect()
    }

    const ARP: &str = r#""by_arp":true,"#;
    const GATEWAY: &str = r#""address":"10.0.1.254","is":"default gateway","#;
    const TO_RANK_0: &str =
        r#""address":"10.0.1.253","is":"peer's gateway","to":"10.9.0.7","route":"10.9.0.0/16","#;
    const PEER: &str = r#""address":"10.0.1.7","is":"neighbour","had_answered":true,"#;
    const OTHER: &str = r#""address":"10.0.1.8","is":"neighbour","had_answered":true,"#;

    fn all(one: &[(&str, &str)]) -> String {
        let asked = one.iter().map(|(who, what)| format!("{{{who}{what}}}"));
        asked.collect::<Vec<_>>().join(",")
    }

    #[test]
    fn who_is_silent_is_told_from_who_is_off() {
        let answers = r#""arp":"02:00:00:00:00:07","resolved":true"#;
        let silent = r#""resolved":true"#;
        let default = "gateway-unanswered: ip route default via 10.0.1.254 dev eth1";
        let known = r#""had_answered":true,"resolved":true"#;
        for (asked, expected) in [
            (vec![(GATEWAY, answers), (PEER, answers)], None),
            (
                vec![(GATEWAY, answers), (PEER, silent), (OTHER, silent)],
                None,
            ),
            (vec![(PEER, silent)], None),
            (vec![(PEER, silent), (OTHER, answers)], None),
            (
                vec![(PEER, silent), (OTHER, silent)],
                Some("neighbours-silent: 10.0.1.7, 10.0.1.8"),
            ),
            // A gateway that never was, and one peer that is off.
            (vec![(GATEWAY, silent), (PEER, silent)], Some(default)),
            (
                vec![(GATEWAY, known), (PEER, silent)],
                Some("cut-off: 10.0.1.254, 10.0.1.7"),
            ),
            (vec![(GATEWAY, silent), (PEER, answers)], Some(default)),
            (
                vec![(GATEWAY, answers), (TO_RANK_0, silent), (PEER, answers)],
                Some(
                    "gateway-unanswered: ip route 10.9.0.0/16 via 10.0.1.253 dev eth1, the way to 10.9.0.7",
                ),
            ),
            (vec![(GATEWAY, answers), (TO_RANK_0, answers)], None),
            // It answers echoes by an entry that nobody confirms any more.
            (vec![(GATEWAY, r#""echo":true"#), (PEER, answers)], None),
            // Nobody has to answer for what was written down.
            (
                vec![
                    (PEER, r#""noted":"02:00:00:00:00:07""#),
                    (OTHER, r#""noted":"02:00:00:00:00:08""#),
                ],
                None,
            ),
        ] {
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(stated(ARP, &all(&asked)), expected, "{asked:?}");
        }
    }

    #[test]
    fn without_arp_of_its_own_the_kernels_table_tells() {
        let unresolved = r#""resolved":false"#;
        let asked = all(&[(PEER, unresolved), (OTHER, unresolved)]);
        assert_eq!(
            stated("", &asked),
            ["neighbours-silent: 10.0.1.7, 10.0.1.8"]
        );
        // An old entry says nothing, and who dislikes echoes is not gone.
        let old = r#""resolved":true"#;
        assert_eq!(stated("", &all(&[(PEER, old), (OTHER, old)])), [""; 0]);
    }

    #[test]
    fn what_arrives_and_is_not_taken_is_the_nodes_own_fault() {
        let heard = r#""arp":"02:00:00:00:00:07","resolved":false"#;
        let expected = ["answers-not-taken: 10.0.1.7"];
        assert_eq!(stated(ARP, &all(&[(PEER, heard)])), expected);
    }

    #[test]
    fn another_owner_is_one_that_does_not_answer_for_all() {
        let owners = r#""by_arp":true,"owners":["02:00:00:00:00:07"],"#;
        let expected = ["address-taken: 02:00:00:00:00:07 has 10.0.1.5 too"];
        assert_eq!(stated(owners, ""), expected);
        let router = all(&[(PEER, r#""arp":"02:00:00:00:00:07","resolved":true"#)]);
        assert_eq!(stated(owners, &router), [""; 0]);
    }

    #[test]
    fn a_hardware_address_that_was_written_down_may_be_wrong() {
        let wrong = r#""arp":"02:00:00:00:00:07","noted":"02:00:00:00:00:99""#;
        let expected = [
            "neighbour-wrong: 10.0.1.7 is 02:00:00:00:00:07, and written down as 02:00:00:00:00:99",
        ];
        assert_eq!(stated(ARP, &all(&[(PEER, wrong)])), expected);
        let works = format!(r#"{wrong},"echo":true"#);
        assert_eq!(stated(ARP, &all(&[(PEER, &*works)])), [""; 0]);
    }

    #[test]
    fn what_this_node_refuses_is_told_by_its_errno() {
        let answers = r#""arp":"02:00:00:00:00:07","resolved":true,"#;
        let with = |what: &str| stated(ARP, &all(&[(PEER, &*format!("{answers}{what}"))]));
        let expected = ["refused: 10.0.1.7: network is unreachable (ENETUNREACH)"];
        assert_eq!(with(r#""errno":"ENETUNREACH""#), expected);
        // A packet filter may refuse an echo alone.
        assert_eq!(with(r#""errno":"EPERM""#), [""; 0]);
        let expected = ["refused: 10.0.1.7: operation not permitted (EPERM) by a policy of IPsec"];
        assert_eq!(with(r#""errno":"EPERM","by_policy":true"#), expected);
    }
}
