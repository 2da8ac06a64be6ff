//! The site's inventory: what a node is expected to have, and how far it has it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::fact::inventory::{self, InventoryKind as Kind};
use crate::fact::kleene::Several;
use crate::fact::{
    Fact, Facts, Gap, Id, Key, Origin, Subject, Typed, Value, device, gpu, port, variable,
};

/// What a site expects of its nodes.
#[derive(Debug, Default)]
pub struct Inventory {
    /// The file, as messages name it.
    pub(super) file: Arc<str>,
    /// One `[[expect]]` after the other: the first that is for a node counts.
    pub(super) groups: Vec<NodeInventory>,
}

/// What is expected of some nodes.
#[derive(Debug)]
pub(super) struct NodeInventory {
    /// Their names; all nodes if it is absent.
    pub(super) nodes: Option<HashSet<String>>,
    pub(super) items: Vec<InventoryItem>,
}

/// What is expected, or what there is.
#[derive(Clone, Debug, PartialEq)]
pub struct InventoryItem {
    /// What it is about.
    pub kind: Kind,
    /// The model, the port or the variable.
    pub of: Arc<str>,
    /// How many, or which.
    pub value: Value,
}

impl InventoryItem {
    /// As findings name it.
    fn name(&self) -> String {
        match self.kind {
            Kind::Gpus | Kind::Adapters => format!("{} {}", self.kind.word(), self.of),
            Kind::Nccl => self.of.to_string(),
            kind => format!("{} of {}", kind.word(), self.of),
        }
    }
}

/// Whether a name, or its first label, is one of these.
pub(super) fn is_among(nodes: &HashSet<String>, name: &str) -> bool {
    nodes.contains(name) || nodes.contains(name.split('.').next().unwrap_or(name))
}

/// How it is known which ports there are.
const PORTS: &str = "the ports of the node";

/// What a node has of an item.
struct Observed {
    said: Fact<Arc<str>>,
    met: Fact<bool>,
    less: Fact<bool>,
    /// The most that the hardware supports, if it says.
    most: Option<Value>,
}

impl Inventory {
    /// States for each node the items that are for it.
    pub(super) fn state(&self, facts: &mut Facts) {
        for node in facts.all(Subject::Node).collect::<Vec<_>>() {
            let is_for = |group: &&NodeInventory| {
                let nodes = group.nodes.as_ref();
                nodes.is_none_or(|nodes| is_among(nodes, facts.name(node)))
            };
            let group = self.groups.iter().find(is_for);
            let mut absent: Option<&str> = None;
            for item in group.iter().flat_map(|group| &group.items) {
                let port = of_port(item.kind).then(|| find_port(facts, node, &item.of));
                let Some(Fact::Known(None, _)) = port else {
                    self.state_item(facts, node, item, port);
                    continue;
                };
                // Of a port that is not there nothing else is expected.
                if absent.replace(&item.of) != Some(&*item.of) {
                    let said = format!("the node has no port {}", item.of);
                    let none = Observed {
                        said: Fact::derived(said.into(), PORTS),
                        met: Fact::derived(false, PORTS),
                        less: Fact::derived(true, PORTS),
                        most: None,
                    };
                    let (kind, name) = (Kind::Rail, format!("rail {}", item.of));
                    let id = self.make(facts, node, (kind, &item.of), &name);
                    set(facts, id, "a port", none, false);
                }
            }
        }
    }

    fn state_item(
        &self,
        facts: &mut Facts,
        node: Id,
        item: &InventoryItem,
        port: Option<Fact<Option<Id>>>,
    ) {
        let observed = match item.kind {
            Kind::Gpus => counted(facts, node, gpu::MODEL, item),
            Kind::Adapters => counted(facts, node, device::MODEL, item),
            _ => compared(facts, node, item, port.as_ref()),
        };
        let most = observed.most.as_ref();
        let impossible = most.and_then(|most| most.order(&item.value)) == Some(Ordering::Less);
        let id = self.make(facts, node, (item.kind, &item.of), &item.name());
        if let Some(Fact::Known(Some(port), _)) = port {
            // What is wrong with the port explains what it lacks.
            facts.relate(id, port);
        }
        set(facts, id, &item.value.to_string(), observed, impossible);
    }

    fn make(&self, facts: &mut Facts, node: Id, of: (Kind, &Arc<str>), name: &str) -> Id {
        let id = facts.instance(Subject::Inventory, node, name);
        let origin = Origin::Stated;
        facts.know(id, inventory::KIND, of.0, &origin);
        facts.know(id, inventory::OF, Arc::clone(of.1), &origin);
        facts.know(id, inventory::PLACE, Arc::clone(&self.file), &origin);
        id
    }
}

fn set(facts: &mut Facts, id: Id, expected: &str, observed: Observed, impossible: bool) {
    let origin = Origin::Stated;
    facts.know(id, inventory::EXPECTED, expected.into(), &origin);
    facts.set(id, inventory::OBSERVED, observed.said);
    facts.set(id, inventory::MET, observed.met);
    facts.set(id, inventory::LESS, observed.less);
    let how = "what the port supports";
    facts.derive(id, inventory::IMPOSSIBLE, impossible, how);
    let most = observed.most.map(|most| most.to_string());
    let most = most.unwrap_or_else(|| "not known".into());
    facts.derive(id, inventory::CEILING, most.into(), how);
}

fn of_port(kind: Kind) -> bool {
    matches!(kind, Kind::Netdev | Kind::Rate | Kind::Mtu | Kind::GidIndex)
}

fn find_port(facts: &Facts, node: Id, name: &str) -> Fact<Option<Id>> {
    let mut ports = facts.below(node, Subject::Port);
    match ports.find(|port| facts.name(*port) == name) {
        Some(port) => Fact::derived(Some(port), PORTS),
        None => Fact::derived(None, PORTS).unless(facts.incomplete(node, Subject::Port)),
    }
}

/// How many of a model there are: those that do not say their model may be of it.
fn counted(facts: &Facts, node: Id, model: Key<Arc<str>>, item: &InventoryItem) -> Observed {
    let each = Several::of(facts, node, model);
    let is_it = |(_, model): &&(Id, Arc<str>)| **model == *item.of;
    let least = each.answered().iter().filter(is_it).count() as u64;
    let silent = (each.members() - each.answered().len()) as u64;
    let are_all = facts.incomplete(node, model.subject).is_none();
    let most = are_all.then_some(least + silent);
    let open = each.open().cloned();
    let gap = || open.clone().unwrap_or_else(|| Gap::missing(model.path()));
    let Value::Count(expected) = item.value else {
        let gap = Gap::missing("a number");
        return Observed {
            said: Fact::Unknown(gap.clone()),
            met: Fact::Unknown(gap.clone()),
            less: Fact::Unknown(gap),
            most: None,
        };
    };
    let how = "the models that are known";
    let known = |holds| Fact::derived(holds, how);
    let (met, less) = match most {
        Some(most) if most < expected => (known(false), known(true)),
        _ if least > expected => (known(false), known(false)),
        Some(most) if most == least => (known(true), known(false)),
        _ if least == expected => (Fact::Unknown(gap()), known(false)),
        _ => (Fact::Unknown(gap()), Fact::Unknown(gap())),
    };
    let what = match item.kind {
        Kind::Gpus => "GPUs",
        _ => "adapters",
    };
    let said = match most {
        Some(most) if most == least => format!("{least} {what}"),
        Some(most) => format!("{most} {what} at most"),
        None => format!("{least} {what} at least"),
    };
    let said = format!("the node has {said} of model {}", item.of);
    Observed {
        said: Fact::derived(said.into(), how),
        met,
        less,
        most: None,
    }
}

/// What a port, or a setting of NCCL's, has in place of what is expected.
fn compared(
    facts: &Facts,
    node: Id,
    item: &InventoryItem,
    port: Option<&Fact<Option<Id>>>,
) -> Observed {
    let value = match port {
        Some(Fact::Known(Some(port), _)) => value_of(facts, *port, item.kind).map(Some),
        Some(Fact::Unknown(gap)) => Fact::Unknown(gap.clone()),
        _ => facts
            .named(node, &item.of, variable::VALUE)
            .map(|value| value.map(Value::Text)),
    };
    let most = match port {
        Some(Fact::Known(Some(port), _)) => match item.kind {
            Kind::Rate => facts.known(*port, port::MAX_RATE).map(Typed::into_value),
            Kind::Mtu => facts.known(*port, port::MAX_MTU).map(Typed::into_value),
            _ => None,
        },
        _ => None,
    };
    let is_less = |value: &Value| value.order(&item.value) == Some(Ordering::Less);
    Observed {
        met: (value.clone()).map(|value| value.is_some_and(|one| one.same(&item.value))),
        less: (value.clone()).map(|value| value.is_none_or(|one| is_less(&one))),
        said: value.map(|value| match value {
            Some(one) if item.kind == Kind::Nccl => format!("{} is {one}", item.of).into(),
            Some(one) => format!("the {} is {one}", item.name()).into(),
            None => format!("{} is not set", item.of).into(),
        }),
        most,
    }
}

/// What a port has.
fn value_of(facts: &Facts, port: Id, kind: Kind) -> Fact<Value> {
    match kind {
        Kind::Rate => facts.get(port, port::RATE).erase(),
        Kind::Mtu => facts.get(port, port::MTU).erase(),
        Kind::GidIndex => facts.get(port, port::GID_INDEX).erase(),
        _ => facts.get(port, port::NETDEV).erase(),
    }
}

/// What a node has of all that an inventory can hold, as far as it is known: of ports those that are intended for use.
pub fn items_of(facts: &Facts, node: Id) -> Vec<InventoryItem> {
    let mut items = Vec::new();
    for (kind, key) in [(Kind::Gpus, gpu::MODEL), (Kind::Adapters, device::MODEL)] {
        let each = Several::of(facts, node, key);
        let is_hardware = |id: Id| match key.subject {
            Subject::Device => facts.known(id, device::SOFTWARE) == Some(false),
            _ => true,
        };
        let mut models: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
        // A number that is not sure is none to expect.
        let known = each.known().unwrap_or_default().iter();
        for (_, model) in known.filter(|(id, _)| is_hardware(*id)) {
            *models.entry(model).or_default() += 1;
        }
        items.extend(models.into_iter().map(|(model, count)| InventoryItem {
            kind,
            of: Arc::clone(model),
            value: Value::Count(count),
        }));
    }
    for port in facts.below(node, Subject::Port) {
        if facts.known(port, port::INTENDED) != Some(true) {
            continue;
        }
        for kind in [Kind::Netdev, Kind::Rate, Kind::Mtu, Kind::GidIndex] {
            if let Fact::Known(value, _) = value_of(facts, port, kind) {
                let of = facts.shared_name(port);
                items.push(InventoryItem { kind, of, value });
            }
        }
    }
    for variable in facts.below(node, Subject::Variable) {
        if let Some(value) = facts.known(variable, variable::VALUE) {
            items.push(InventoryItem {
                kind: Kind::Nccl,
                of: facts.shared_name(variable),
                value: Value::Text(value),
            });
        }
    }
    items
}
