//! Rules, routes and neighbours, as ip(8) prints them: as text, and by `-j`. The probes that ask the kernel for them judge them.

mod entries;
mod entry;

use std::sync::Arc;

use self::entries::{NEIGHBOUR, ROUTE, RULE, entries};
use self::entry::{begins_neighbour, begins_route, begins_rule, neighbour, route, rule, table_of};
use super::Output;
use crate::fact::port::LinkLayer;
use crate::fact::{Fact, Facts, Gap, Id, Subject, interface, node as of_node, port};
use crate::network::Network;
use crate::probe::obstacle::neighbour::{Neighbour, Neighbours};
use crate::probe::obstacle::printed;
use crate::probe::routing::{Action, MAIN, Route, Rule};
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
