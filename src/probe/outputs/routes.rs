//! Rules, routes and neighbours, as ip(8) prints them: as text, and by `-j`. The probes that ask the kernel for them judge them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use serde_json::Value;

use super::Output;
use crate::fact::port::LinkLayer;
use crate::fact::{Fact, Facts, Gap, Id, Subject, interface, node as of_node, port};
use crate::network::Network;
use crate::probe::obstacle::neighbour::{Neighbour, Neighbours};
use crate::probe::obstacle::printed;
use crate::probe::routing::{Action, MAIN, Route, Rule, refusing_word};
use crate::probe::{Ask, rail};

/// The tables of the machine's own addresses, and of the last resort, which is empty.
const LOCAL: u32 = 255;
const DEFAULT: u32 = 253;

/// What is listed of a family.
#[derive(Default)]
struct Listing {
    routes: Vec<Route>,
    /// The tables that are listed as a whole.
    tables: Vec<u32>,
    /// Whether all tables are.
    has_all: bool,
    rules: Option<Vec<Rule>>,
}

impl Listing {
    fn lists(&self, table: u32) -> bool {
        self.has_all || self.tables.contains(&table)
    }

    /// The routes to networks, which the kernel is asked for first.
    fn networks(&self) -> impl Iterator<Item = &Route> {
        let is_network = |route: &&Route| route.refuses.is_none() && !is_host(route.to);
        self.routes.iter().filter(is_network)
    }

    /// With those that refuse, and those to one host in a network that the machine is connected to: a probe asks for no others.
    fn ways(&self) -> Vec<Route> {
        let is_connected = |net: &&Route| !net.gateway && net.to.length > 0;
        let connected: Vec<Network> = self
            .networks()
            .filter(is_connected)
            .map(|net| net.to)
            .collect();
        let is_inside = |to: Network| connected.iter().any(|net| net.contains(to));
        let counts =
            |route: &&Route| route.refuses.is_some() || !is_host(route.to) || is_inside(route.to);
        self.routes.iter().filter(counts).cloned().collect()
    }

    /// The rules; what leads to a table that is not listed is open.
    fn rules(&self, six: bool) -> Vec<Rule> {
        let unknown = || Rule::every(six, Action::Unlisted).into_iter().collect();
        let mut rules = self.rules.clone().unwrap_or_else(unknown);
        for rule in &mut rules {
            if let Action::Table(table) = rule.action
                && !self.lists(table)
                && !matches!(table, LOCAL | DEFAULT)
            {
                rule.action = Action::Unlisted;
            }
        }
        rules
    }
}

/// Whether it is one host's.
fn is_host(to: Network) -> bool {
    to.length == if to.six { 128 } else { 32 }
}

/// The interfaces, of which one that nobody numbers has a number that none has.
struct Indexes(Vec<(u32, Arc<str>)>);

impl Indexes {
    fn of(&mut self, name: &str) -> u32 {
        if let Some((index, _)) = self.0.iter().find(|(_, of)| **of == *name) {
            return *index;
        }
        let index = u32::MAX - self.0.len() as u32;
        self.0.push((index, name.into()));
        index
    }
}

/// States what the outputs say together: by which way packets leave, and what is in it.
pub(super) fn state(ask: &Ask<'_>, outputs: &[Output], facts: &mut Facts, node: Id) {
    let mut indexes = Indexes(Vec::new());
    for id in facts.below(node, Subject::Interface) {
        let index = facts.known(id, interface::INDEX).map(u32::try_from);
        let named = index.and_then(|index| Some((index.ok()?, facts.name(id).into())));
        indexes.0.extend(named);
    }
    let mut families = [Listing::default(), Listing::default()];
    let (mut neighbours, mut of_routes, mut of_neighbours) = (Vec::new(), None, None);
    for output in outputs
        .iter()
        .filter(|output| output.tool() == "ip" && !output.is_cut)
    {
        let six = output.has("-6");
        let of = &mut families[usize::from(six)];
        let words = output.argv.iter().skip(1).map(|word| &**word);
        let plain = |word: &&str| !word.starts_with('-') && !["show", "list", "ls"].contains(word);
        // What a filter leaves out may say the contrary.
        match words.filter(plain).collect::<Vec<&str>>()[..] {
            ["route" | "ro" | "r", ref rest @ ..] if matches!(rest, [] | ["table", _]) => {
                let listed = rest.last().copied().unwrap_or("main");
                of.has_all |= listed == "all";
                of.tables.extend(table_of(listed));
                let own = if listed == "all" { "main" } else { listed };
                // All tables are those of both families, unless one is asked for.
                for words in entries(output, begins_route, ROUTE) {
                    let Some(route) = route(&words, own, six, &mut indexes) else {
                        continue;
                    };
                    let of = &mut families[usize::from(route.to.six)];
                    of.has_all |= listed == "all";
                    of.routes.push(route);
                }
                of_routes.get_or_insert(output.origin());
            }
            ["rule" | "ru"] => {
                let rules = entries(output, begins_rule, RULE);
                of.rules = rules.iter().map(|words| rule(words, six)).collect();
            }
            ["neigh" | "neighbor" | "neighbour" | "n"] => {
                let all = entries(output, begins_neighbour, NEIGHBOUR);
                let all = all
                    .iter()
                    .filter_map(|words| neighbour(words, &mut indexes));
                neighbours.extend(all);
                of_neighbours.get_or_insert(output.origin());
            }
            _ => {}
        }
    }
    let Some(origin) = of_routes.or(of_neighbours.clone()) else {
        return;
    };
    let known = |six: bool| match &of_neighbours {
        Some(origin) => {
            let all = neighbours
                .iter()
                .filter(|one: &&Neighbour| one.address.is_ipv6() == six);
            Fact::Known(all.cloned().collect(), origin.clone())
        }
        None => Fact::Unknown(Gap::missing("the neighbours")),
    };
    let neighbours = Neighbours {
        four: known(false),
        six: known(true),
    };
    let [four, six] = &families;
    let of_six = Fact::Known((six.ways(), six.rules(true)), origin.clone());
    let of_four = (four.ways(), four.rules(false));
    printed::ways(facts, node, of_four, of_six, &neighbours, &origin);
    if !four.lists(MAIN) {
        return;
    }
    let is_default = |route: &&Route| route.table == MAIN && route.to.length == 0 && !route.to.six;
    let defaults: Vec<&Route> = four.routes.iter().filter(is_default).collect();
    let is_of = |index: &u32| {
        defaults
            .iter()
            .any(|route| route.interfaces.contains(index))
    };
    let names = indexes.0.iter().filter(|(index, _)| is_of(index));
    let names: Arc<[Arc<str>]> = names.map(|(_, name)| Arc::clone(name)).collect();
    facts.set(
        node,
        of_node::DEFAULT_ROUTE,
        Fact::Known(names, origin.clone()),
    );
    let of_ethernet = |id: &Id| facts.known(*id, port::LINK_LAYER) != Some(LinkLayer::InfiniBand);
    let ports = facts.below(node, Subject::Port).filter(of_ethernet);
    let mut rails: Vec<(Arc<str>, Fact<u32>)> = Vec::new();
    for name in ports.filter_map(|id| facts.known(id, port::NETDEV)) {
        let index = indexes.of(&name);
        rails.push((name, Fact::Known(index, origin.clone())));
    }
    if rails.len() > 1 {
        let known = (
            Fact::Known(four.networks().cloned().collect(), origin.clone()),
            Fact::Known(four.rules(false), origin),
        );
        rail::addressing(ask, facts, node, &rails, (&known.0, &known.1));
    }
}

/// The keys of JSON, each with what stands before its value in a line of text, in the order of the text.
type Keys = &'static str;

const ROUTE: Keys = "type= dst= gateway=via via=via family= host= dev=dev table=table metric=metric prefsrc=src mtu=mtu metrics= nexthops=";
const RULE: Keys = "priority= not=not src=from srclen=/ dst=to dstlen=/ tos=tos fwmark=fwmark iif=iif oif=oif uid_start=uidrange \
    ipproto=ipproto sport=sport dport=dport l3mdev=l3mdev table=lookup suppress_prefixlen=suppress_prefixlength goto=goto action=";
const NEIGHBOUR: Keys = "dst= dev=dev lladdr=lladdr state=";

/// The entries of a list, as words. A line that does not begin one goes on with the one before.
fn entries(output: &Output, begins: fn(&[&str]) -> bool, keys: Keys) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    if let Ok(list) = serde_json::from_str::<Vec<Value>>(&output.text()) {
        for one in &list {
            let mut words = Vec::new();
            add(one, keys, &mut words);
            all.push(words);
        }
        return all;
    }
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let is_first = begins(&words) || all.is_empty();
        let words = words.into_iter().map(str::to_owned);
        match all.last_mut().filter(|_| !is_first) {
            Some(last) => last.extend(words),
            None => all.push(words.collect()),
        }
    }
    all
}

fn add(value: &Value, keys: Keys, words: &mut Vec<String>) {
    match value {
        Value::Object(of) => {
            for (key, word) in keys.split(' ').filter_map(|pair| pair.split_once('=')) {
                match (of.get(key), words.last_mut()) {
                    (Some(value), Some(last)) if word == "/" => *last += &format!("/{value}"),
                    (Some(value), _) => {
                        words.extend((!word.is_empty()).then(|| word.to_owned()));
                        add(value, keys, words);
                    }
                    _ => {}
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|one| add(one, keys, words)),
        Value::String(text) => words.push(text.clone()),
        Value::Number(number) => words.push(number.to_string()),
        _ => {}
    }
}

/// What may stand before a route's destination.
const TYPES: [&str; 6] = [
    "unicast",
    "local",
    "broadcast",
    "multicast",
    "anycast",
    "throw",
];

fn begins_route(words: &[&str]) -> bool {
    let is_type = |word: &str| TYPES.contains(&word) || refusing_word(word).is_some();
    words.len() > 1 && (is_type(words[0]) || network(words[0], false).is_some())
}

fn begins_rule(words: &[&str]) -> bool {
    let number = words.first().and_then(|word| word.strip_suffix(':'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn begins_neighbour(words: &[&str]) -> bool {
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
fn table_of(word: &str) -> Option<u32> {
    match word {
        "main" => Some(MAIN),
        "local" => Some(LOCAL),
        "default" => Some(DEFAULT),
        number => number.parse().ok(),
    }
}

/// `10.1.0.0/24 dev eth1 proto kernel scope link src 10.1.0.1`; `None` for one that leads to no peers: the machine's own addresses,
/// groups, and the network of a link, which every interface has.
fn route(words: &[String], table: &str, six: bool, indexes: &mut Indexes) -> Option<Route> {
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
fn rule(words: &[String], six: bool) -> Option<Rule> {
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
fn neighbour(words: &[String], indexes: &mut Indexes) -> Option<Neighbour> {
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
