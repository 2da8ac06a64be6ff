//! From the model of a fabric to facts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Readings;
use super::equals::Comparison::Slower;
use super::equals::Equals;
use super::errors::{ErrorList, LINK_DOWNED};
use super::hosts::Hosts;
use super::model::{Fabric, Link};
use super::plan::{Comparison, DeviationKind};
use super::said::Pace;
use super::tiers::{Shortage, Tiers, Uplinks};
use crate::fact::fabric_link::{self, Cabling, Standing};
use crate::fact::port::{PhysState, PortState};
use crate::fact::unit::Percent;
use crate::fact::{
    Facts, Gap, Id, Membership, Origin, Subject, Why, fabric_host, ib_fabric, node as of_node,
    switch,
};
use crate::probe::outputs::Output;

/// Names in a sentence, at most; how many more there are is said.
const NAMED: usize = 4;

/// States all that the outputs show.
pub(super) fn state(
    fabric: &Fabric<'_>,
    read: &Readings<'_>,
    outputs: &[&Output],
    facts: &mut Facts,
    node: Id,
) {
    let Some(first) = outputs.first() else {
        return;
    };
    let is_part = outputs.iter().any(|output| output.is_cut);
    let by_mark = outputs.iter().all(|output| output.by_mark);
    let standings = standings(&fabric.links, is_part, by_mark);
    let tiers = Tiers::of(fabric);
    let equals = Equals::gather(fabric, &tiers);
    let mut ids: Vec<Id> = Vec::new();
    for (link, standing) in fabric.links.iter().zip(standings) {
        let id = facts.instance(Subject::FabricLink, node, &tiers.link_name(fabric, link));
        state_link(facts, id, link, standing);
        state_conflicts(facts, id, link);
        state_equals(facts, id, link, fabric, &tiers, &equals);
        ids.push(id);
    }
    state_errors(facts, node, &read.errors, fabric, &ids);
    for (link, id) in fabric.links.iter().zip(&ids) {
        state_loss(facts, *id, link, read.has_errors && !is_part);
    }
    let hosts = Hosts::gather(fabric);
    state_hosts(facts, node, &hosts, &ids);
    let switches = state_switches(facts, node, fabric, &tiers);
    state_identities(facts, node, fabric, read, &tiers, &hosts);
    if !read.plan.is_empty() {
        state_plan(facts, node, &read.plan.compare(fabric), &ids, &switches);
    }
    let origin = first.origin();
    let left_out = read.left_out.iter().map(|one| one.to_string().into());
    facts.add_texts(node, of_node::LEFT_OUT, left_out, &origin);
    // Of a topology that ends before its first link nothing is known.
    let is_missing = fabric.links.is_empty() && !read.left_out.is_empty();
    let gap = is_missing.then(|| Gap {
        why: Why::NotUnderstood("it ends before the first link".into()),
        origin: origin.clone(),
    });
    for subject in [
        Subject::FabricLink,
        Subject::Switch,
        Subject::FabricHost,
        Subject::IbFabric,
    ] {
        let is_listed = read.lists_devices || subject != Subject::FabricHost;
        let unlisted = (!is_listed).then(|| Gap::missing("a list of the fabric's devices"));
        let members = Membership::known_unless(gap.clone().or(unlisted), origin.clone());
        facts.set_members(subject, node, members);
    }
}

/// What links of the same capability do.
#[derive(Default)]
struct Tally {
    full: usize,
    below: usize,
}

/// How each link runs. Lines that somebody picked, or a part of an output, do not tell what is
/// usual; a single lane is never the rule where both ends have more.
fn standings(links: &[Link<'_>], is_part: bool, by_mark: bool) -> Vec<Option<Standing>> {
    let mut groups: BTreeMap<Pace, Tally> = BTreeMap::new();
    for (pace, possible) in links.iter().filter_map(|link| link.said.paces()) {
        let equals = groups.entry(possible).or_default();
        if pace.reaches(possible) {
            equals.full += 1;
        } else if pace.width > 1 || possible.width == 1 {
            equals.below += 1;
        }
    }
    let is_picked = by_mark && groups.values().all(|equals| equals.full == 0);
    let standing = |link: &Link<'_>| {
        let (pace, possible) = link.said.paces()?;
        let equals = groups.get(&possible)?;
        Some(if pace.reaches(possible) {
            Standing::Full
        } else if pace.width == 1 && possible.width > 1
            || equals.full > 0 && equals.full >= equals.below
        {
            Standing::Outlier
        } else if is_part || is_picked || equals.full + equals.below < 3 {
            Standing::Alone
        } else {
            Standing::Common
        })
    };
    links.iter().map(standing).collect()
}

fn state_link(facts: &mut Facts, id: Id, link: &Link<'_>, standing: Option<Standing>) {
    let (line, said) = (&link.line, &link.said);
    // A topology says nothing of states.
    if said.state.is_some() || said.tells_possible {
        facts.set(id, fabric_link::STATE, line.read(said.state));
        facts.set(id, fabric_link::PHYS_STATE, line.read(said.phys_state));
    }
    if let Some(pace) = said.running() {
        facts.set(
            id,
            fabric_link::RUNS_AT,
            line.known(pace.to_string().into()),
        );
    }
    if let Some((pace, possible)) = said.paces() {
        let is_at = line.known(pace.to_string().into());
        facts.set(id, fabric_link::WIDTH, line.known(pace.width));
        facts.set(id, fabric_link::POSSIBLE_WIDTH, line.known(possible.width));
        facts.set(id, fabric_link::RUNS_AT, is_at);
        facts.set(
            id,
            fabric_link::POSSIBLE,
            line.known(possible.to_string().into()),
        );
    }
    if let Some(standing) = standing {
        let how = "the links that are listed";
        facts.derive(id, fabric_link::STANDING, standing, how);
    }
}

fn state_conflicts(facts: &mut Facts, id: Id, link: &Link<'_>) {
    let conflict = link.conflict.as_deref().unwrap_or("none");
    facts.set(id, fabric_link::CONFLICT, link.line.known(conflict.into()));
    let is_unanswered = link.far.is_none() && link.said.is_unanswered();
    facts.set(id, fabric_link::UNANSWERED, link.line.known(is_unanswered));
}

/// States how a link runs beside its equals, unless its ends say themselves what they support.
fn state_equals(
    facts: &mut Facts,
    id: Id,
    link: &Link<'_>,
    fabric: &Fabric<'_>,
    tiers: &Tiers,
    equals: &Equals,
) {
    if link.said.tells_possible {
        return;
    }
    let Some(compared) = equals.compare(fabric, tiers, link) else {
        return;
    };
    let how = "the links that are listed";
    let is_slower = matches!(compared, Slower(_));
    facts.derive(id, fabric_link::BELOW_EQUALS, is_slower, how);
    if let Slower(usual) = compared {
        facts.derive(id, fabric_link::USUAL, usual.pace.to_string().into(), how);
        facts.derive(id, fabric_link::EQUALS, usual.who.into(), how);
    }
}

/// States the errors of each port at its link, or at the port alone if no link is listed.
fn state_errors(
    facts: &mut Facts,
    node: Id,
    errors: &ErrorList<'_>,
    fabric: &Fabric<'_>,
    ids: &[Id],
) {
    // The end that stands out more comes first, and the first that is stated stays.
    for found in errors.by_excess() {
        let Some(port) = fabric.port_of(&found.port.end) else {
            continue;
        };
        let name = fabric.port_name(port);
        let linked = fabric.link_at(port).and_then(|at| ids.get(at)).copied();
        let id = linked.unwrap_or_else(|| facts.instance(Subject::FabricLink, node, &name));
        let origin = found.port.line.origin();
        let at = if facts.name(id) == name {
            String::new()
        } else {
            format!(" at {name}")
        };
        let said: Arc<str> = format!("{}{at}", found.port.counters_in_words()).into();
        facts.know(id, fabric_link::ERRORS, said, &origin);
        let counter = found.counter.into();
        facts.know(id, fabric_link::WORST_COUNTER, counter, &origin);
        facts.know(id, fabric_link::WORST_COUNT, found.count, &origin);
        let checked = Origin::derived("all ports that were checked");
        facts.know(id, fabric_link::USUAL_COUNT, found.usual, &checked);
        facts.know(id, fabric_link::TIMES_USUAL, found.times_usual(), &checked);
    }
}

/// States whether a port lost its link: it is down though nobody switched it off, and has counted
/// losses. A port that a whole list does not name has counted none.
fn state_loss(facts: &mut Facts, id: Id, link: &Link<'_>, is_listed: bool) {
    let (Some(state), Some(phys)) = (link.said.state, link.said.phys_state) else {
        return;
    };
    let errors = facts.known(id, fabric_link::ERRORS);
    let has_lost = match errors {
        Some(errors) => Some(errors.contains(LINK_DOWNED)),
        None => is_listed.then_some(false),
    };
    let is_down = state == PortState::Down && phys != PhysState::Disabled;
    let lost = if is_down { has_lost } else { Some(false) };
    if let Some(lost) = lost {
        facts.derive(id, fabric_link::LOST, lost, "its state and its counters");
    }
}

fn state_hosts(facts: &mut Facts, node: Id, hosts: &Hosts, ids: &[Id]) {
    let how = "the descriptions of the adapters";
    for host in hosts.compare_rails() {
        let id = facts.instance(Subject::FabricHost, node, &host.name);
        facts.derive(id, fabric_host::RAILS, host.rails.len() as u64, how);
        facts.derive(id, fabric_host::USUAL_RAILS, host.usual, how);
        let missing = in_words(&host.missing);
        facts.derive(id, fabric_host::MISSING, missing, how);
        facts.derive(id, fabric_host::ALIKE, host.alike, how);
        facts.derive(id, fabric_host::EQUALS, host.equals, how);
    }
    for place in hosts.compare_places() {
        let Some(id) = ids.get(place.link).copied() else {
            continue;
        };
        facts.derive(id, fabric_link::RAIL, place.rail.into(), how);
        facts.derive(id, fabric_link::LEAF_RAIL, place.usual.into(), how);
        let share = Percent(place.percent);
        facts.derive(id, fabric_link::LEAF_SHARE, share, how);
    }
}

fn state_switches(
    facts: &mut Facts,
    node: Id,
    fabric: &Fabric<'_>,
    tiers: &Tiers,
) -> HashMap<usize, Id> {
    let mut ids = HashMap::new();
    let how = "the links that are listed";
    for uplinks in tiers.uplinks() {
        let Some(device) = fabric.device(uplinks.device) else {
            continue;
        };
        let id = facts.instance(Subject::Switch, node, &device.label);
        ids.insert(uplinks.device, id);
        facts.derive(id, switch::UPLINKS, uplinks.count, how);
        facts.derive(id, switch::USUAL_UPLINKS, uplinks.usual, how);
        let shortages = shortages_in_words(&uplinks, fabric);
        facts.derive(id, switch::SHORT_OF, in_words(&shortages), how);
        if !uplinks.free_ports.is_empty() {
            let ports: Vec<String> = (uplinks.free_ports.iter()).map(u64::to_string).collect();
            facts.derive(id, switch::FREE_PORTS, in_words(&ports), how);
        }
    }
    ids
}

/// `1 instead of 2 to spine0`
fn shortages_in_words(uplinks: &Uplinks, fabric: &Fabric<'_>) -> Vec<String> {
    let in_words = |one: &Shortage| {
        let above = fabric.device(one.above).map_or("", |device| &device.label);
        format!("{} instead of {} to {above}", one.count, one.usual)
    };
    uplinks.shortages.iter().map(in_words).collect()
}

/// States what is the whole fabric's: LIDs, and subnet managers.
fn state_identities(
    facts: &mut Facts,
    node: Id,
    fabric: &Fabric<'_>,
    read: &Readings<'_>,
    tiers: &Tiers,
    hosts: &Hosts,
) {
    let id = facts.instance(Subject::IbFabric, node, "fabric");
    let how = "the devices that are listed";
    let mut of_lid: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let mut without: Vec<String> = Vec::new();
    for device in &fabric.devices {
        match device.lid {
            Some(lid) => of_lid.entry(lid).or_default().push(&device.label),
            None if device.lacks_lid => without.push(device.label.clone()),
            None => {}
        }
    }
    let summary = summary(fabric, read, tiers, hosts);
    facts.derive(id, ib_fabric::SUMMARY, summary.into(), how);
    if !of_lid.is_empty() || !without.is_empty() {
        let mut twice: Vec<String> = Vec::new();
        for (lid, devices) in of_lid.iter().filter(|(_, devices)| devices.len() > 1) {
            twice.push(format!("LID {lid} is {}'s", devices.join("'s and ")));
        }
        // Without a list of devices there may be others.
        if read.lists_devices || !twice.is_empty() {
            facts.derive(id, ib_fabric::LIDS_TWICE, in_words(&twice), how);
        }
        if read.lists_devices || !without.is_empty() {
            facts.derive(id, ib_fabric::WITHOUT_LID, in_words(&without), how);
        }
    }
    if !read.masters.is_empty() {
        let masters: Vec<String> = read.masters.iter().cloned().collect();
        facts.derive(id, ib_fabric::MASTERS, masters.len() as u64, "sminfo");
        facts.derive(id, ib_fabric::MASTER_NAMES, in_words(&masters), "sminfo");
    }
}

/// States which links are as planned, and which are not.
fn state_plan(
    facts: &mut Facts,
    node: Id,
    compared: &Comparison<'_>,
    ids: &[Id],
    switches: &HashMap<usize, Id>,
) {
    let how = Origin::derived("the cabling plan and the links that are listed");
    let whole = facts.instance(Subject::IbFabric, node, "fabric");
    facts.know(whole, ib_fabric::PLANNED_LINKS, compared.planned, &how);
    facts.know(whole, ib_fabric::PLANNED_ENDS_FOUND, compared.found, &how);
    // The plan of another fabric says nothing of this one.
    if compared.found == 0 {
        return;
    }
    for id in compared.as_planned.iter().filter_map(|at| ids.get(*at)) {
        facts.know(*id, fabric_link::CABLING, Cabling::AsPlanned, &how);
    }
    for deviation in &compared.deviations {
        let origin = deviation.line.map_or(how.clone(), |line| line.origin());
        let (id, cabling) = match &deviation.kind {
            DeviationKind::Missing { name } => {
                let id = facts.instance(Subject::FabricLink, node, name);
                (Some(id), Cabling::Missing)
            }
            DeviationKind::Miswired { link, .. } => (ids.get(*link).copied(), Cabling::Miswired),
            DeviationKind::Extra { link } => (ids.get(*link).copied(), Cabling::Extra),
        };
        let Some(id) = id else {
            continue;
        };
        for device in &deviation.devices {
            if let Some(switch) = switches.get(device) {
                facts.relate(id, *switch);
            }
        }
        facts.know(id, fabric_link::CABLING, cabling, &origin);
        if let DeviationKind::Miswired { planned, .. } = &deviation.kind {
            facts.know(id, fabric_link::PLANNED, planned.as_str().into(), &origin);
        }
    }
}

/// `4 leaves, 2 spines, 32 hosts, 72 links; not given: errors (ibqueryerrors)`
fn summary(fabric: &Fabric<'_>, read: &Readings<'_>, tiers: &Tiers, hosts: &Hosts) -> String {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for tier in tiers.of_device.iter().flatten() {
        *counts.entry((*tier).min(3)).or_default() += 1;
    }
    let mut parts = Vec::new();
    for (tier, [one, several]) in
        (1..).zip([["leaf", "leaves"], ["spine", "spines"], ["core", "cores"]])
    {
        match counts.get(&tier) {
            Some(1) => parts.push(format!("1 {one}")),
            Some(count) => parts.push(format!("{count} {several}")),
            None => {}
        }
    }
    let linked = fabric
        .links
        .iter()
        .filter(|link| link.far.is_some())
        .count();
    for (count, one) in [(hosts.count(), "host"), (linked, "link")] {
        let plural = if count == 1 { "" } else { "s" };
        parts.push(format!("{count} {one}{plural}"));
    }
    let mut missing = Vec::new();
    for (is_missing, what) in [
        (!read.tells_possible, "what both ends support (iblinkinfo)"),
        (!read.has_errors, "errors (ibqueryerrors)"),
        (read.masters.is_empty(), "the subnet manager (sminfo)"),
    ] {
        missing.extend(is_missing.then_some(what));
    }
    let missing = match missing.as_slice() {
        [] => String::new(),
        missing => format!("; not given: {}", missing.join(", ")),
    };
    format!("{}{missing}", parts.join(", "))
}

/// Names one after the other, with how many more there are; "none" of none.
fn in_words(names: &[String]) -> Arc<str> {
    let named = names.iter().take(NAMED).cloned().collect::<Vec<_>>();
    match names.len().checked_sub(NAMED) {
        _ if names.is_empty() => "none".into(),
        Some(more) if more > 0 => format!("{} and {more} more", named.join(", ")).into(),
        _ => named.join(", ").into(),
    }
}
