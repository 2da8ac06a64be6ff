//! The samples of all nodes together, and what they say.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::clocks;
use super::figures;
use super::listed_ports::{self, ListingHost};
use super::neighbours;
use super::outputs::{self, PrintingHost};
use super::sides::{self, Side};
use super::{Machine, Realm, Sample, TextOrReason};
use crate::fact::comparison::{self, ComparedProperty};
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Membership, Origin, Seconds, Subject, Why, limit};
use crate::sentence::shell::Command;
use crate::sentence::{Sentence, sentence};

/// How a comparison is worked out.
const ALL_NODES: &str = "all nodes compared";
/// Lines of a list of what is shared.
const SHOWN: usize = 2;
/// Silent nodes of which each has its own reason told.
const REASONS: usize = 4;

/// The group of those whose kind is unknown.
const UNKNOWN_KIND: &str = "nodes of unknown kind";

/// Nodes with what each has.
type Figures = Vec<(Arc<str>, f64)>;
/// A node, by its number, and what of it has the value: a port, an address.
type Whose = (u32, Arc<str>);

/// Comparisons in the making. Nodes are added one after the other, in any number.
#[derive(Default)]
pub struct Table {
    /// Their samples, of which the properties are in the groups. The boot id is a machine's own.
    nodes: Vec<Sample>,
    /// The machines of each boot id: clones have one.
    machines: HashMap<Arc<str>, Vec<Machine>>,
    /// The expected nodes that did not respond, and how that is known.
    silent: Vec<(Arc<str>, Arc<str>)>,
    /// The nodes whose recordings could not be judged, and why.
    unjudged: Vec<(Arc<str>, Arc<str>)>,
    /// Whom somebody expects, where somebody does.
    expected: Option<Vec<Arc<str>>>,
    groups: BTreeMap<Key, Group>,
    /// Nodes of which a property is unknown in whatever group they are.
    open: HashMap<ComparedProperty, Vec<u32>>,
    reasons: HashMap<ComparedProperty, Arc<str>>,
    own: BTreeMap<ComparedProperty, HashMap<Arc<str>, Vec<Whose>>>,
    own_open: BTreeMap<ComparedProperty, Arc<str>>,
    /// Nodes of a kind whose variables are all known, and those where they are not.
    kinds: BTreeMap<Arc<str>, KindMembers>,
    /// Nodes of which not even the kind is known.
    kindless: Vec<u32>,
    kindless_why: Option<Arc<str>>,
    /// Figures of nodes of a kind.
    figures: BTreeMap<(ComparedProperty, Arc<str>), Figures>,
}

type Key = (ComparedProperty, Option<Arc<str>>, Arc<str>);

#[derive(Default)]
struct KindMembers {
    nodes: Vec<u32>,
    known: Vec<u32>,
    open: Vec<u32>,
    why: Option<Arc<str>>,
}

/// What nodes of a group have.
#[derive(Default)]
struct Group {
    values: Vec<(Arc<str>, Vec<u32>)>,
    places: HashMap<Arc<str>, usize>,
    silent: Vec<u32>,
    why: Option<Arc<str>>,
}

impl Group {
    fn add(&mut self, node: u32, value: TextOrReason) {
        match value {
            Ok(value) => {
                let values = &mut self.values;
                let at = *self.places.entry(Arc::clone(&value)).or_insert_with(|| {
                    values.push((value, Vec::new()));
                    values.len() - 1
                });
                self.values[at].1.push(node);
            }
            Err(why) => {
                self.silent.push(node);
                self.why.get_or_insert(why);
            }
        }
    }
}

/// Which nodes each comparison concerns: those that are odd, that share something, that are silent.
pub type Concerns = HashMap<Id, Vec<Arc<str>>>;

/// What is said of one comparison.
#[derive(Default)]
struct Finding {
    agree: Option<bool>,
    majority: Option<bool>,
    value: Arc<str>,
    odd: Vec<Arc<str>>,
    summary: Sentence,
    /// How many nodes are compared, of how many nothing is known, and why.
    nodes: usize,
    silent: usize,
    why: Arc<str>,
}

impl Table {
    /// No nodes yet.
    pub fn new() -> Self {
        Table::default()
    }

    /// Adds a node.
    pub fn add(&mut self, mut sample: Sample) {
        // Bounded by the recordings on a command line.
        let at = self.nodes.len() as u32;
        sample.boot = sample.machine().map(|machine| self.identify(machine));
        match &sample.kind {
            Ok(kind) => {
                let members = self.kinds.entry(Arc::clone(kind)).or_default();
                members.nodes.push(at);
                match &mut sample.variables {
                    Ok(variables) => {
                        members.known.push(at);
                        for (name, value) in variables.drain(..) {
                            let key =
                                (ComparedProperty::NcclVariable, Some(name), Arc::clone(kind));
                            self.groups.entry(key).or_default().add(at, value);
                        }
                    }
                    Err(why) => {
                        members.open.push(at);
                        members.why.get_or_insert(Arc::clone(why));
                    }
                }
                for (of, share) in sample.figures.drain(..) {
                    let all = self.figures.entry((of, Arc::clone(kind))).or_default();
                    all.push((Arc::clone(&sample.name), share));
                }
            }
            Err(why) => {
                self.kindless.push(at);
                self.kindless_why.get_or_insert(Arc::clone(why));
            }
        }
        for property in sample.properties.drain(..) {
            let key = (property.of, None, property.group);
            self.groups.entry(key).or_default().add(at, property.value);
        }
        for (of, why) in sample.open.drain(..) {
            let nodes = self.open.entry(of).or_default();
            if nodes.last() != Some(&at) {
                nodes.push(at);
            }
            self.reasons.entry(of).or_insert(why);
        }
        for (of, value, whose) in sample.own.drain(..) {
            let values = self.own.entry(of).or_default();
            values.entry(value).or_default().push((at, whose));
        }
        for (of, why) in sample.own_open.drain(..) {
            self.own_open.entry(of).or_insert(why);
        }
        self.nodes.push(sample);
    }

    /// The boot id of a machine; a clone gets another one.
    fn identify(&mut self, machine: Machine) -> Arc<str> {
        let boot = Arc::clone(&machine.boot);
        let clones = self.machines.entry(Arc::clone(&boot)).or_default();
        let known = clones.iter_mut().position(|clone| clone.is_same(&machine));
        match known {
            Some(at) => clones[at].guids.extend(machine.guids),
            None => clones.push(machine),
        }
        match known.unwrap_or(clones.len() - 1) {
            0 => boot,
            at => format!("{boot}, clone {at}").into(),
        }
    }

    /// Says that one who was meant to answer is silent, and why that is known.
    pub fn is_silent(&mut self, name: impl Into<Arc<str>>, how: impl Into<Arc<str>>) {
        self.silent.push((name.into(), how.into()));
    }

    /// Says that what a node gave could not be judged, and why.
    pub fn is_unjudged(&mut self, name: impl Into<Arc<str>>, why: impl Into<Arc<str>>) {
        self.unjudged.push((name.into(), why.into()));
    }

    /// How many nodes are here, were to answer, or gave what could not be judged.
    fn total(&self) -> usize {
        self.nodes.len() + self.silent.len() + self.unjudged.len()
    }

    /// Says who is expected.
    pub fn expect(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        self.expected = Some(names.into_iter().collect());
    }

    /// States all comparisons, and gives the nodes that each concerns. One node that nobody else
    /// was expected with has none.
    pub fn state(mut self, facts: &mut Facts) -> Concerns {
        let mut concerns = Concerns::new();
        let missing = self.missing();
        let total = self.total();
        let several = total > 1 || self.expected.as_ref().is_some_and(|names| names.len() > 1);
        let how = if several {
            ALL_NODES
        } else {
            "one node is judged, or none"
        };
        let known = Membership::Known(Origin::derived(how));
        facts.set_members(Subject::Comparison, Facts::CLUSTER, known);
        if !several {
            return concerns;
        }
        self.unset_variables();
        for (key, group) in std::mem::take(&mut self.groups) {
            if let Some(of) = self.compare(&key, group) {
                let id = instance(facts, key.0, key.1.as_deref(), Some(&key.2));
                tell(facts, id, &of);
                if of.agree == Some(false) {
                    // Beside InfiniBand ports, the network devices of RoCE ports are not at fault.
                    let of_infiniband = key.2.starts_with("InfiniBand");
                    let odd = if of_infiniband { &[][..] } else { &of.odd };
                    let mtu = match key.0 {
                        ComparedProperty::NetdevMtu => of.value.split_once(" B"),
                        _ => None,
                    };
                    let mtu = mtu.map(|(number, _)| number);
                    let right = mtu.and_then(|number| number.parse().ok()).map(Bytes);
                    let netdevs = self.netdevs(odd, right);
                    if key.0 == ComparedProperty::NetdevMtu {
                        let mtu = mtu.unwrap_or("MTU");
                        let set = |netdev: &Arc<str>| {
                            Command::filled("ip link set {} mtu {}", &[netdev, mtu])
                        };
                        let commands = netdevs.iter().map(set).collect();
                        facts.derive(id, comparison::COMMANDS, commands, how);
                    }
                    facts.derive(id, comparison::NETDEVS, netdevs, how);
                    let devices = self.devices(&of.odd);
                    if !devices.is_empty() {
                        facts.derive(id, comparison::DEVICES, devices, how);
                    }
                    concerns.insert(id, of.odd);
                }
            }
        }
        self.of_unknown_kind(facts);
        self.own(facts, &mut concerns);
        self.hosts(facts, &mut concerns);
        self.clocks(facts, &mut concerns);
        self.outliers(facts, &mut concerns);
        self.outputs(facts, &mut concerns);
        self.listed_ports(facts, &mut concerns);
        self.presence(facts, &mut concerns, missing);
        self.kinds(facts, &mut concerns);
        concerns
    }

    /// The network devices of RoCE ports on the nodes of these names, each once, but for those that
    /// have the MTU that is right; a placeholder if none is known.
    fn netdevs(&self, names: &[Arc<str>], right: Option<Bytes>) -> Arc<[Arc<str>]> {
        let names: HashSet<&Arc<str>> = names.iter().collect();
        let nodes = self.nodes.iter().filter(|node| names.contains(&node.name));
        let all = nodes.flat_map(|node| &node.netdevs);
        let all = all.filter(|(_, mtu)| right.is_none() || *mtu != right);
        let all: BTreeSet<&Arc<str>> = all.map(|(netdev, _)| netdev).collect();
        if all.is_empty() {
            ["NETDEV".into()].into()
        } else {
            all.into_iter().cloned().collect()
        }
    }

    /// The RDMA devices of active ports on the nodes of these names, each once.
    fn devices(&self, names: &[Arc<str>]) -> Arc<[Arc<str>]> {
        let nodes = self.nodes.iter().filter(|node| names.contains(&node.name));
        let all: BTreeSet<&Arc<str>> = nodes.flat_map(|node| &node.devices).collect();
        all.into_iter().cloned().collect()
    }

    fn names<'n>(&'n self, nodes: impl IntoIterator<Item = &'n u32>) -> Vec<Arc<str>> {
        nodes
            .into_iter()
            .filter_map(|at| self.nodes.get(*at as usize))
            .map(|node| Arc::clone(&node.name))
            .collect()
    }

    /// A variable that some nodes of a kind set is unset on the others.
    fn unset_variables(&mut self) {
        for ((of, _, kind), group) in &mut self.groups {
            let (ComparedProperty::NcclVariable, Some(kind)) = (*of, self.kinds.get(kind)) else {
                continue;
            };
            let said = group.values.iter().flat_map(|(_, nodes)| nodes);
            let said: HashSet<u32> = said.chain(&group.silent).copied().collect();
            for at in kind.known.iter().filter(|at| !said.contains(at)) {
                group.add(*at, Ok("unset".into()));
            }
            for at in &kind.open {
                let why = kind.why.clone().unwrap_or_else(|| "unknown".into());
                group.add(*at, Err(why));
            }
        }
    }

    /// Nodes of which not even the kind is known are compared by nothing. Where that leaves a
    /// property without any comparison, it is unknown whether the nodes agree in it; it is not
    /// beside the point.
    fn of_unknown_kind(&self, facts: &mut Facts) {
        let Some(why) = self.kindless_why.as_ref().filter(|_| self.nodes.len() > 1) else {
            return;
        };
        let stated: HashSet<ComparedProperty> = facts
            .all(Subject::Comparison)
            .filter_map(|id| facts.known(id, comparison::OF))
            .collect();
        let names = self.names(&self.kindless);
        let alike = ComparedProperty::ALIKE.iter();
        for &of in alike.filter(|of| !stated.contains(of)) {
            let id = instance(facts, of, None, Some(UNKNOWN_KIND));
            let finding = Finding {
                summary: format!(
                    "not compared: the kind of {} is unknown",
                    sides::names(&names)
                )
                .into(),
                nodes: self.nodes.len(),
                silent: names.len(),
                why: Arc::clone(why),
                ..Finding::default()
            };
            tell(facts, id, &finding);
        }
    }

    /// Values with the names of the nodes that have them, the most frequent first.
    fn sides(&self, values: impl IntoIterator<Item = (Arc<str>, Vec<u32>)>) -> Vec<Side> {
        let side = |(value, nodes): (Arc<str>, Vec<u32>)| Side {
            value,
            names: self.names(&nodes),
        };
        let mut sides: Vec<Side> = values.into_iter().map(side).collect();
        sides.sort_by(|a, b| (b.names.len(), &a.value).cmp(&(a.names.len(), &b.value)));
        sides
    }

    /// What a group says; `None` where fewer than two could be in it.
    fn compare(&self, key: &Key, group: Group) -> Option<Finding> {
        let open = self.open.get(&key.0).map_or(0, Vec::len);
        let away = self.silent.len() + self.kindless.len();
        let answered: usize = group.values.iter().map(|(_, nodes)| nodes.len()).sum();
        let here = answered + group.silent.len();
        let silent = group.silent.len() + open + away;
        let total = answered + silent;
        // A group of one is compared with nobody. Who is silent may be of it; where there are other
        // kinds, that is far-fetched.
        if here + open < 2 && (total < 2 || self.kinds.len() > 1) {
            return None;
        }
        let reason = self.reasons.get(&key.0).filter(|_| open > 0).cloned();
        let why = group.why.clone().or(reason);
        let why = why.or_else(|| self.kindless_why.clone());
        let sides = self.sides(group.values);
        let agree = match (sides.len(), silent) {
            (2.., _) => Some(false),
            (1, 0) => Some(true),
            _ => None,
        };
        let most = sides.first().map_or(0, |side| side.names.len());
        let majority = match (2 * most > total, 2 * (most + silent) > total) {
            (true, _) => Some(true),
            (false, false) => Some(false),
            (false, true) => None,
        };
        let first = usize::from(majority == Some(true));
        let odd = sides.iter().skip(first).flat_map(|side| &side.names);
        let odd: Vec<Arc<str>> = odd.cloned().collect();
        let label = match &key.1 {
            Some(variable) => variable,
            None => label(key.0),
        };
        Some(Finding {
            agree,
            majority,
            value: match (majority, sides.first()) {
                (Some(true), Some(side)) => Arc::clone(&side.value),
                _ => "none".into(),
            },
            odd,
            summary: sides::sentence(label, total, silent, &sides, majority == Some(true)),
            nodes: total,
            silent,
            why: why.unwrap_or_else(|| "silent nodes".into()),
        })
    }

    /// Two names or addresses mean the same only where they are not pseudonyms under different
    /// keys.
    fn one_realm(&self) -> bool {
        let first = self.nodes.first().map(|node| &node.realm);
        first != Some(&Realm::Alone) && self.nodes.iter().all(|node| Some(&node.realm) == first)
    }

    /// What several machines share.
    fn own(&mut self, facts: &mut Facts, concerns: &mut Concerns) {
        for of in [
            ComparedProperty::Guid,
            ComparedProperty::Address,
            ComparedProperty::Lid,
            ComparedProperty::HostId,
            ComparedProperty::Rank,
        ] {
            let values = self.own.remove(&of).unwrap_or_default();
            if values.is_empty() && !self.own_open.contains_key(&of) {
                continue;
            }
            let mut shared: Vec<(Arc<str>, Vec<Whose>)> = values
                .into_iter()
                .filter(|(_, whose)| self.is_of_several(whose))
                .collect();
            shared.sort_by(|a, b| (a.1.first(), &a.0).cmp(&(b.1.first(), &b.0)));
            let whose = shared.iter().flat_map(|(_, whose)| whose);
            let nodes: BTreeSet<u32> = whose.map(|(at, _)| *at).collect();
            let mut parts: Vec<Sentence> = shared
                .iter()
                .take(SHOWN)
                .map(|(value, whose)| {
                    let mut machines: Vec<u32> = whose.iter().map(|(at, _)| *at).collect();
                    machines.dedup();
                    let on = match (machines.len() <= SHOWN, of) {
                        (true, ComparedProperty::Guid | ComparedProperty::Address) => {
                            let each = whose
                                .iter()
                                .map(|(at, what)| format!("{} ({what})", self.name(*at)));
                            each.collect::<Vec<_>>().join(" and ")
                        }
                        _ => sides::names(&self.names(&machines)),
                    };
                    let shown = match (of, value.split_once('/')) {
                        (ComparedProperty::Rank, Some((_run, number))) => number,
                        _ => value,
                    };
                    format!("{} {shown} is that of {on}", label(of)).into()
                })
                .collect();
            if shared.len() > SHOWN {
                parts.push(format!("{} more", shared.len() - SHOWN).into());
            }
            let open = match (
                self.own_open.get(&of),
                self.one_realm(),
                self.silent.is_empty(),
            ) {
                (Some(why), ..) => Some(Arc::clone(why)),
                (None, false, _) => Some("pseudonyms under several keys".into()),
                (None, true, false) => Some("silent nodes".into()),
                (None, true, true) => None,
            };
            if of == ComparedProperty::Address && !shared.is_empty() {
                let ask = |(address, whose): &(Arc<str>, Vec<Whose>)| {
                    let (_, netdev) = whose.first()?;
                    Some(Command::filled("arping -D -I {} {}", &[netdev, address]))
                };
                let commands = shared.iter().filter_map(ask).collect();
                let id = instance(facts, of, None, None);
                facts.derive(id, comparison::COMMANDS, commands, ALL_NODES);
            }
            let shared = Shared {
                found: !shared.is_empty(),
                open,
                parts,
                names: self.names(&nodes),
            };
            self.state_shared(facts, concerns, of, shared);
        }
    }

    /// States whether two machines have the same address, GUID or name, and which two.
    fn state_shared(
        &self,
        facts: &mut Facts,
        concerns: &mut Concerns,
        of: ComparedProperty,
        shared: Shared,
    ) {
        let id = instance(facts, of, None, None);
        let summary = if shared.parts.is_empty() {
            Sentence::from("none is shared")
        } else {
            Sentence::joined(shared.parts, "; ")
        };
        let distinct = match shared.open {
            Some(why) if !shared.found => Fact::Unknown(gap(why)),
            _ => Fact::derived(!shared.found, ALL_NODES),
        };
        facts.set(id, comparison::DISTINCT, distinct);
        facts.derive(id, comparison::SUMMARY, summary, ALL_NODES);
        facts.derive(id, comparison::NODES, self.nodes.len() as u64, ALL_NODES);
        let odd = sides::names(&shared.names);
        facts.derive(id, comparison::ODD, odd.into(), ALL_NODES);
        if shared.found {
            concerns.insert(id, shared.names);
        }
    }

    fn name(&self, at: u32) -> &str {
        self.nodes.get(at as usize).map_or("", |node| &node.name)
    }

    /// Whether a value is that of more than one machine: two recordings of one, or two containers
    /// on it, share it rightly.
    fn is_of_several(&self, whose: &[(u32, Arc<str>)]) -> bool {
        let machine = |at: u32| {
            let node = &self.nodes[at as usize];
            node.boot.as_ref().unwrap_or(&node.name)
        };
        // Without a boot id an equal name may be the same machine.
        let first = whose.first().map(|(at, _)| *at);
        first.is_some_and(|first| {
            whose.iter().any(|(at, _)| {
                machine(*at) != machine(first)
                    && (self.nodes[*at as usize].boot.is_some()
                        && self.nodes[first as usize].boot.is_some()
                        || self.name(*at) != self.name(first))
            })
        })
    }

    /// Machines that were recorded twice, and machines of one name.
    fn hosts(&self, facts: &mut Facts, concerns: &mut Concerns) {
        let mut by_boot: HashMap<&str, Vec<u32>> = HashMap::new();
        let mut by_name: HashMap<&str, Vec<u32>> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            by_name.entry(&node.name).or_default().push(at as u32);
            if let Some(boot) = &node.boot {
                by_boot.entry(boot).or_default().push(at as u32);
            }
        }
        let clear = self.one_realm();
        let open = |unsure: bool| match (clear, unsure) {
            (false, _) => Some(Arc::from(super::own::ALONE)),
            (true, true) => Some("a boot id".into()),
            (true, false) => None,
        };
        let mut twice: Vec<Vec<u32>> = by_boot
            .into_values()
            .filter(|nodes| nodes.len() > 1)
            .collect();
        twice.sort_unstable();
        let bootless = self.nodes.iter().any(|node| node.boot.is_none());
        let all: Vec<u32> = twice.iter().flatten().copied().collect();
        let parts: Vec<Sentence> = twice
            .iter()
            .take(SHOWN)
            .map(|nodes| {
                let (count, who) = (nodes.len(), sides::names(&self.names(nodes)));
                sentence!("{count} recordings are of one machine", ": {who}")
            })
            .collect();
        let machines = Shared {
            found: clear && !twice.is_empty(),
            open: open(bootless),
            parts,
            names: self.names(&all),
        };
        self.state_shared(facts, concerns, ComparedProperty::Machine, machines);

        let mut shared: Vec<(&str, Vec<u32>)> = by_name
            .into_iter()
            .filter(|(_, nodes)| nodes.len() > 1)
            .collect();
        shared.sort_unstable();
        let boots = |nodes: &[u32]| -> (HashSet<&str>, bool) {
            let all: Vec<Option<&str>> = nodes
                .iter()
                .map(|at| self.nodes[*at as usize].boot.as_deref())
                .collect();
            let open = all.iter().any(Option::is_none);
            (all.into_iter().flatten().collect(), open)
        };
        let several: Vec<&(&str, Vec<u32>)> = shared
            .iter()
            .filter(|(_, nodes)| boots(nodes).0.len() > 1)
            .collect();
        let unsure = shared.iter().any(|(_, nodes)| boots(nodes).1);
        let parts: Vec<Sentence> = several
            .iter()
            .take(SHOWN)
            .map(|(name, nodes)| {
                format!("{} machines are called {name}", boots(nodes).0.len()).into()
            })
            .collect();
        let hosts = Shared {
            found: clear && !several.is_empty(),
            open: open(unsure),
            parts,
            names: several.iter().map(|(name, _)| Arc::from(*name)).collect(),
        };
        self.state_shared(facts, concerns, ComparedProperty::HostName, hosts);
    }

    /// The expected nodes without a recording; if names are pseudonyms, also how many there are at
    /// least.
    fn missing(&mut self) -> Option<Arc<str>> {
        let expected = self.expected.clone()?;
        let raw = Realm::Shared("none".into());
        if self.nodes.iter().any(|node| node.realm != raw) {
            let lacking = expected
                .len()
                .saturating_sub(self.nodes.len() + self.unjudged.len());
            for number in 1..=lacking {
                self.silent.push((
                    format!("silent-{number}").into(),
                    "fewer recordings than nodes expected".into(),
                ));
            }
            return (lacking == 0).then(|| super::own::ALONE.into());
        }
        let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
        let here: HashSet<&str> = self.nodes.iter().map(|node| &*node.name).collect();
        // A name without its domain stands for the same host.
        let shorts: HashMap<String, bool> = self
            .nodes
            .iter()
            .map(|node| (short(&node.name), node.name.contains('.')))
            .collect();
        let is_here = |name: &str| {
            here.contains(name)
                || shorts
                    .get(&short(name))
                    .is_some_and(|dotted| !*dotted || !name.contains('.'))
        };
        let told = self.silent.iter().chain(&self.unjudged);
        let told: HashSet<Arc<str>> = told.map(|(name, _)| Arc::clone(name)).collect();
        let missing: Vec<Arc<str>> = expected
            .into_iter()
            .filter(|name| !is_here(name) && !told.contains(name))
            .collect();
        // A recording that cannot be read, and whose file is not called after its node, is of one
        // of those that are missing.
        let mut spare = missing.len();
        let expected: HashSet<&str> = self.expected.iter().flatten().map(|name| &**name).collect();
        self.silent.retain(|(name, _)| {
            let counted = expected.contains(&**name) || spare == 0;
            spare -= usize::from(!counted);
            counted
        });
        let how: Arc<str> = "no recording of it is here".into();
        let missing = missing.into_iter().map(|name| (name, Arc::clone(&how)));
        self.silent.extend(missing);
        None
    }

    fn presence(&self, facts: &mut Facts, concerns: &mut Concerns, unclear: Option<Arc<str>>) {
        let total = self.total();
        let names: Vec<Arc<str>> = names_of(&self.silent);
        let id = instance(facts, ComparedProperty::Presence, None, None);
        let others = total - names.len();
        let summary = match self.silent.as_slice() {
            [] => sentence!("all {total} answered"),
            [(name, how)] => {
                sentence!(
                    "{name} did not respond",
                    ", {others} others answered",
                    ": {how}"
                )
            }
            several => with_reasons(&format!("of {total} nodes are silent"), several),
        };
        let of_recordings = "recordings that are here";
        let complete = match unclear {
            Some(why) if self.silent.is_empty() => Fact::Unknown(gap(why)),
            _ => Fact::derived(self.silent.is_empty(), of_recordings),
        };
        facts.set(id, comparison::COMPLETE, complete);
        let all = "the recordings and the silent nodes";
        facts.derive(id, comparison::NODES, total as u64, all);
        facts.derive(id, comparison::SUMMARY, summary, of_recordings);
        facts.derive(
            id,
            comparison::ODD,
            sides::names(&names).into(),
            of_recordings,
        );
        if !names.is_empty() {
            concerns.insert(id, names);
        }

        self.unjudged(facts, concerns);
        let cut = self.nodes.iter().filter(|node| !node.whole);
        let cut: Vec<Arc<str>> = cut.map(|node| Arc::clone(&node.name)).collect();
        let id = instance(facts, ComparedProperty::Wholeness, None, None);
        let summary = match cut.len() {
            0 => "all recordings are whole".into(),
            1 => format!("the recording of {} is cut short", cut[0]).into(),
            n => {
                let names = sides::names(&cut);
                let here = self.nodes.len();
                sentence!("{n} of {here} recordings are cut short", ": {names}")
            }
        };
        let how = "the last lines of recordings";
        facts.derive(id, comparison::COMPLETE, cut.is_empty(), how);
        facts.derive(id, comparison::SUMMARY, summary, how);
        if !cut.is_empty() {
            concerns.insert(id, cut);
        }
    }

    /// The nodes that responded, and whose recordings could not be judged.
    fn unjudged(&self, facts: &mut Facts, concerns: &mut Concerns) {
        let total = self.total();
        let summary = match self.unjudged.as_slice() {
            [] => return,
            [(name, why)] => {
                sentence!("the recording of {name} could not be judged", ": {why}")
            }
            several => with_reasons(
                &format!("of {total} recordings could not be judged"),
                several,
            ),
        };
        let names = names_of(&self.unjudged);
        let id = instance(facts, ComparedProperty::Judged, None, None);
        let how = "recordings that are here";
        facts.derive(id, comparison::COMPLETE, false, how);
        facts.derive(id, comparison::NODES, total as u64, how);
        facts.derive(id, comparison::SUMMARY, summary, how);
        facts.derive(id, comparison::ODD, sides::names(&names).into(), how);
        concerns.insert(id, names);
    }

    /// How far clocks are apart; nothing where none was compared.
    fn clocks(&self, facts: &mut Facts, concerns: &mut Concerns) {
        let clocks = self.nodes.iter();
        let clocks: Vec<_> = clocks
            .map(|node| (Arc::clone(&node.name), node.clock))
            .collect();
        let Some(apart) = clocks::compare(&clocks, facts.limits()) else {
            return;
        };
        let how = "what the clocks showed as the nodes were gathered";
        let fact = |known: Result<f64, Arc<str>>| match known {
            Ok(seconds) => Fact::derived(Seconds(seconds), how),
            Err(why) => Fact::Unknown(gap(why)),
        };
        let id = instance(facts, ComparedProperty::Clock, None, None);
        facts.set(id, comparison::APART_LEAST, fact(Ok(apart.least)));
        facts.set(id, comparison::APART_MOST, fact(apart.most));
        facts.set(id, comparison::APART, fact(apart.exactly));
        facts.derive(id, comparison::SUMMARY, apart.summary, how);
        facts.derive(id, comparison::ODD, sides::names(&apart.odd).into(), how);
        facts.derive(id, comparison::NODES, self.nodes.len() as u64, how);
        if !apart.odd.is_empty() {
            concerns.insert(id, apart.odd);
        }
    }

    /// Nodes whose neighbours are written down wrong, and those whose load or free memory is far
    /// from that of their equals. Nothing is stated of what no node says.
    fn outliers(&mut self, facts: &mut Facts, concerns: &mut Concerns) {
        let nodes = self.nodes.iter();
        let nodes: Vec<_> = nodes.map(|node| (&*node.name, &node.neighbours)).collect();
        if let Some(wrong) = neighbours::compare(&nodes) {
            let mut at: Vec<u32> = wrong.iter().map(|(at, ..)| *at as u32).collect();
            at.dedup();
            let id = instance(facts, ComparedProperty::Neighbour, None, None);
            let commands = wrong.iter().map(|(.., command)| command.clone());
            facts.derive(id, comparison::COMMANDS, commands.collect(), ALL_NODES);
            let shared = Shared {
                found: !wrong.is_empty(),
                open: (!self.one_realm()).then(|| "pseudonyms under several keys".into()),
                names: self.names(&at),
                parts: (wrong.into_iter().map(|(_, what, _)| what).take(SHOWN)).collect(),
            };
            self.state_shared(facts, concerns, ComparedProperty::Neighbour, shared);
        }
        let figures = std::mem::take(&mut self.figures);
        for (of, allowed) in [
            (ComparedProperty::Load, limit::LOAD_APART),
            (ComparedProperty::Memory, limit::MEMORY_APART),
        ] {
            let kinds = figures
                .iter()
                .filter(|((figure, _), nodes)| *figure == of && nodes.len() > 1);
            let found = kinds.map(|(_, nodes)| figures::outliers(of, nodes, facts.limit(allowed)));
            let (names, parts): (Vec<_>, Vec<_>) = found.unzip();
            let shared = Shared {
                found: names.iter().any(|names| !names.is_empty()),
                open: None,
                parts,
                names: names.concat(),
            };
            if !shared.parts.is_empty() {
                self.state_shared(facts, concerns, of, shared);
            }
        }
    }

    /// What hosts of a text printed for one command.
    fn outputs(&mut self, facts: &mut Facts, concerns: &mut Concerns) {
        let mut hosts = Vec::with_capacity(self.nodes.len());
        for node in &mut self.nodes {
            hosts.push(PrintingHost {
                name: Arc::clone(&node.name),
                printed: std::mem::take(&mut node.printed),
            });
        }
        for compared in outputs::compare(&hosts) {
            let of = ComparedProperty::ShownOutput;
            let id = instance(facts, of, Some(&compared.command), Some("hosts of a text"));
            let how = "what the hosts printed";
            facts.derive(id, comparison::AGREE, compared.odd.is_empty(), how);
            facts.derive(id, comparison::NODES, compared.hosts as u64, how);
            facts.derive(id, comparison::SUMMARY, compared.summary, how);
            facts.derive(id, comparison::ODD, sides::names(&compared.odd).into(), how);
            if !compared.odd.is_empty() {
                concerns.insert(id, compared.odd);
            }
        }
    }

    /// Ports that are active on one host of a text and not on another.
    fn listed_ports(&mut self, facts: &mut Facts, concerns: &mut Concerns) {
        let mut hosts = Vec::with_capacity(self.nodes.len());
        for node in &mut self.nodes {
            hosts.push(ListingHost {
                name: Arc::clone(&node.name),
                ports: std::mem::take(&mut node.listed_ports),
            });
        }
        for compared in listed_ports::compare(&hosts) {
            let of = ComparedProperty::ListedPort;
            let id = instance(facts, of, Some(&compared.name), Some("hosts of a text"));
            let how = "the states in which outputs list it";
            facts.derive(id, comparison::AGREE, false, how);
            facts.derive(id, comparison::NODES, compared.hosts as u64, how);
            facts.derive(id, comparison::SUMMARY, compared.summary, how);
            facts.derive(id, comparison::ODD, sides::names(&compared.odd).into(), how);
            concerns.insert(id, compared.odd);
        }
    }

    fn kinds(&self, facts: &mut Facts, concerns: &mut Concerns) {
        let kinds = self.kinds.iter();
        let sides = self.sides(kinds.map(|(kind, of)| (Arc::clone(kind), of.nodes.clone())));
        let id = instance(facts, ComparedProperty::Kinds, None, None);
        let agree = match (
            sides.len(),
            self.kindless.is_empty() && self.silent.is_empty(),
        ) {
            (2.., _) => Some(false),
            (_, true) => Some(true),
            (_, false) => None,
        };
        let parts = sides.iter().take(SHOWN).map(|side| {
            let kind = match side.names.len() {
                1 => side.value.replacen("nodes ", "node ", 1),
                _ => side.value.to_string(),
            };
            format!(
                "{} {kind} ({})",
                side.names.len(),
                sides::names(&side.names)
            )
        });
        let others = sides.len().saturating_sub(SHOWN);
        let others = (others > 0).then(|| format!("{others} other kinds"));
        let summary = Sentence::joined(parts.chain(others).map(Sentence::from), "; ");
        let finding = Finding {
            agree,
            summary,
            nodes: self.nodes.len() + self.silent.len(),
            silent: self.kindless.len() + self.silent.len(),
            why: (self.kindless_why.clone()).unwrap_or_else(|| "silent nodes".into()),
            ..Finding::default()
        };
        tell(facts, id, &finding);
        if agree == Some(false) {
            let others = sides.into_iter().skip(1);
            concerns.insert(id, others.flat_map(|side| side.names).collect());
        }
    }
}

fn gap(why: Arc<str>) -> Gap {
    Gap::new(Why::Missing(why.into()), Origin::derived(ALL_NODES))
}

fn instance(
    facts: &mut Facts,
    of: ComparedProperty,
    variable: Option<&str>,
    group: Option<&str>,
) -> Id {
    let name = match (variable, group) {
        (Some(variable), Some(group)) => format!("{variable} of {group}"),
        (None, Some(group)) => format!("{} of {group}", of.word()),
        (_, None) => of.word().to_owned(),
    };
    let id = facts.instance(Subject::Comparison, Facts::CLUSTER, &name);
    facts.derive(id, comparison::OF, of, ALL_NODES);
    if let Some(variable) = variable {
        facts.derive(id, comparison::VARIABLE, variable.into(), ALL_NODES);
    }
    let group = group.unwrap_or("all nodes");
    facts.derive(id, comparison::GROUP, group.into(), ALL_NODES);
    id
}

fn tell(facts: &mut Facts, id: Id, finding: &Finding) {
    let why = &finding.why;
    facts.derive(id, comparison::NODES, finding.nodes as u64, ALL_NODES);
    facts.derive(id, comparison::SILENT, finding.silent as u64, ALL_NODES);
    let fact = |known: Option<bool>| match known {
        Some(known) => Fact::derived(known, ALL_NODES),
        None => Fact::Unknown(gap(Arc::clone(why))),
    };
    facts.set(id, comparison::AGREE, fact(finding.agree));
    facts.set(id, comparison::MAJORITY, fact(finding.majority));
    facts.derive(id, comparison::SUMMARY, finding.summary.clone(), ALL_NODES);
    let value = match finding.majority {
        None => Fact::Unknown(gap(Arc::clone(why))),
        Some(_) => Fact::derived(Arc::clone(&finding.value), ALL_NODES),
    };
    facts.set(id, comparison::VALUE, value);
    let odd = sides::names(&finding.odd);
    facts.derive(id, comparison::ODD, odd.into(), ALL_NODES);
}

fn names_of(nodes: &[(Arc<str>, Arc<str>)]) -> Vec<Arc<str>> {
    nodes.iter().map(|(name, _)| Arc::clone(name)).collect()
}

/// Several nodes of which something is missing, each with its reason, or all with the one that they
/// have in common.
fn with_reasons(what: &str, nodes: &[(Arc<str>, Arc<str>)]) -> Sentence {
    let count = nodes.len();
    if let [(_, why), rest @ ..] = nodes
        && rest.iter().all(|(_, other)| other == why)
    {
        let names = sides::names(&names_of(nodes));
        return sentence!("{count} {what}", ": {names}", " ({why})");
    }
    let reasons = nodes.iter().take(REASONS);
    let mut said = vec![sentence!("{count} {what}")];
    said.extend(reasons.map(|(name, why)| sentence!("{name}: {why}")));
    if count > REASONS {
        said.push(format!("{} more", count - REASONS).into());
    }
    Sentence::joined(said, "; ")
}

/// What machines share that each has for itself.
struct Shared {
    /// Whether anything is, beyond doubt.
    found: bool,
    /// Why there may be more.
    open: Option<Arc<str>>,
    /// What is shared and by whom, in words.
    parts: Vec<Sentence>,
    /// By whom.
    names: Vec<Arc<str>>,
}

/// What nodes are compared by, as a sentence says it.
fn label(of: ComparedProperty) -> &'static str {
    const LABELS: &[(&str, &[&str])] =
        include!(concat!(env!("OUT_DIR"), "/comparison_labels.labels.rs"));
    let own = LABELS.iter().find(|(word, _)| *word == of.word());
    own.map_or(of.word(), |(_, label)| label[0])
}
