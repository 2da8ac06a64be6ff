//! One route, rule or neighbour of a list of ip(8).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{DEFAULT, Indexes, LOCAL};
use crate::network::Network;
use crate::probe::obstacle::neighbour::Neighbour;
use crate::probe::routing::{Action, MAIN, Route, Rule, refusing_word};

/// What may stand before a route's destination.
const TYPES: [&str; 6] = [
    "unicast",
    "local",
    "broadcast",
    "multicast",
    "anycast",
    "throw",
];

pub(super) fn begins_route(words: &[&str]) -> bool {
    let is_type = |word: &str| TYPES.contains(&word) || refusing_word(word).is_some();
    words.len() > 1 && (is_type(words[0]) || network(words[0], false).is_some())
}

pub(super) fn begins_rule(words: &[&str]) -> bool {
    let number = words.first().and_then(|word| word.strip_suffix(':'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

pub(super) fn begins_neighbour(words: &[&str]) -> bool {
    words.len() > 1 && words[0].parse::<IpAddr>().is_ok()
}

/// `10.0.0.0/8`, an address alone, `default`, and `all` of rules.
fn network(word: &str, six: bool) -> Option<Network> {
    let (address, length) = word
        .split_once('/')
        .map_or((word, None), |(a, l)| (a, Some(l)));
    let any = || match six {
        true => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let (address, length) = match (address, length) {
        ("default" | "all", _) => (any(), 0),
        (address, length) => {
            let address: IpAddr = address.parse().ok()?;
            let whole = if address.is_ipv6() { 128 } else { 32 };
            (
                address,
                length.map_or(Some(whole), |length| length.parse().ok())?,
            )
        }
    };
    Network::of(address, length)
}

/// The number of a table. Names of others than these stand in a file of the machine.
pub(super) fn table_of(word: &str) -> Option<u32> {
    match word {
        "main" => Some(MAIN),
        "local" => Some(LOCAL),
        "default" => Some(DEFAULT),
        number => number.parse().ok(),
    }
}

/// `10.1.0.0/24 dev eth1 proto kernel scope link src 10.1.0.1`; `None` for one that leads to no peers: the machine's own addresses,
/// groups, and the network of a link, which every interface has.
pub(super) fn route(
    words: &[String],
    table: &str,
    six: bool,
    indexes: &mut Indexes,
) -> Option<Route> {
    let first = words.first()?;
    let refuses = refusing_word(first);
    let has_type = refuses.is_some() || TYPES.contains(&&**first);
    if has_type && refuses.is_none() && first != "unicast" {
        return None;
    }
    let words = words.get(usize::from(has_type)..)?;
    let after = |key: &str| words.iter().skip_while(|word| *word != key).nth(1);
    let number = |key: &str| after(key).and_then(|word| word.parse().ok());
    let gateway_address = after("via").and_then(|word| word.parse().ok());
    let out = words.windows(2).filter(|pair| pair[0] == "dev");
    let six = six || gateway_address.is_some_and(|a: IpAddr| a.is_ipv6());
    let to = network(words.first()?, six)?;
    let table = table_of(after("table").map_or(table, |word| word))?;
    if refuses.is_none() && (table == LOCAL || (to.six && to.is_link_local())) {
        return None;
    }
    Some(Route {
        refuses,
        to,
        table,
        metric: number("metric").unwrap_or(0),
        gateway: after("via").is_some(),
        gateway_address,
        mtu: number("mtu"),
        source: after("src").and_then(|word| word.parse().ok()),
        interfaces: out.map(|pair| indexes.of(&pair[1])).collect(),
    })
}

/// `100: from 10.1.0.2 lookup 102`; `None` for one that is not understood, behind which nothing is known.
pub(super) fn rule(words: &[String], six: bool) -> Option<Rule> {
    let priority = words.first()?.trim_end_matches(':').parse().ok()?;
    let mut rule = Rule {
        priority,
        ..Rule::every(six, Action::Pass)?
    };
    let mut words = words.iter().skip(1).map(String::as_str);
    let mut protocol = None;
    while let Some(word) = words.next() {
        match word {
            "not" => rule.inverted = true,
            "from" => rule.from = network(words.next()?, six)?,
            "to" => rule.to = network(words.next()?, six)?,
            "iif" => rule.special |= words.next()? != "lo",
            "fwmark" => rule.special |= !words.next()?.starts_with("0x0/"),
            "oif" | "tos" | "dsfield" | "uidrange" | "sport" | "dport" | "tun_id" => {
                words.next()?;
                rule.special = true;
            }
            "ipproto" => {
                protocol = Some(match words.next()? {
                    "tcp" => 6,
                    "udp" => 17,
                    number => number.parse().unwrap_or(0),
                });
            }
            "l3mdev" => rule.l3mdev = true,
            "lookup" | "table" => {
                let table = words.next()?;
                rule.l3mdev |= table == "[l3mdev-table]";
                rule.action = table_of(table).map_or(Action::Unlisted, Action::Table);
            }
            "suppress_prefixlength" => rule.suppressed = Some(words.next()?.parse().ok()?),
            "goto" => rule.action = Action::Goto(words.next()?.parse().ok()?),
            "proto" | "protocol" | "realms" => drop(words.next()),
            "nop" | "[detached]" | "[unresolved]" => {}
            how => rule.action = Action::Refuse(refusing_word(how)?),
        }
    }
    rule.protocol = protocol.filter(|_| !rule.special);
    rule.special |= protocol.is_some();
    Some(rule)
}

/// `10.1.0.9 dev eth1 lladdr 08:c0:eb:21:00:09 PERMANENT`
pub(super) fn neighbour(words: &[String], indexes: &mut Indexes) -> Option<Neighbour> {
    let after = |key: &str| words.iter().skip_while(|word| *word != key).nth(1);
    let is = |state: &str| words.iter().any(|word| word == state);
    Some(Neighbour {
        index: indexes.of(after("dev")?),
        address: words.first()?.parse().ok()?,
        mac: after("lladdr").cloned(),
        failed: is("FAILED"),
        permanent: is("PERMANENT"),
    })
}
