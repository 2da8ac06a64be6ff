//! Links of an InfiniBand fabric, as iblinkinfo(8) lists them from both ends, with the errors that
//! ibqueryerrors(8) lists of single ports.

mod errors;
mod link_line;
mod names;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::errors::ErrorList;
use self::link_line::{LinkLine, Pace};
use self::names::Names;
use super::{Output, OutputLine};
use crate::fact::fabric_link::{self, Standing};
use crate::fact::port::{PhysState, PortState};
use crate::fact::{Facts, Id, Membership, Origin, Subject};

/// A port, as a line names it.
#[derive(Clone, Debug, Default)]
struct End {
    /// The description of its node.
    node: Option<String>,
    lid: Option<u64>,
    guid: Option<u64>,
    port: u64,
}

/// A link, as the first line that names it has it.
struct Link<'o> {
    name: String,
    line: OutputLine<'o>,
    said: LinkLine,
}

/// States the links that all these outputs list.
pub(super) fn state_links(all: &[Output], facts: &mut Facts, node: Id) {
    let is_read = |output: &&Output| matches!(output.tool(), "iblinkinfo" | "ibqueryerrors");
    let outputs: Vec<&Output> = all.iter().filter(is_read).collect();
    let Some(first) = outputs.first() else {
        return;
    };
    let (mut lines, mut errors) = (Vec::new(), ErrorList::default());
    for output in &outputs {
        read_output(output, &mut lines, &mut errors);
    }
    let ends = lines
        .iter()
        .flat_map(|(_, said): &(_, LinkLine)| said.ends());
    let names = Names::gather(ends.chain(errors.ports.iter().map(|port| &port.end)));
    let (links, places) = join_ends(lines, &names);
    let is_part = outputs.iter().any(|output| output.is_cut);
    let is_list = outputs
        .iter()
        .any(|output| output.tool() == "ibqueryerrors");
    let standings = standings(&links, is_part, outputs.iter().all(|one| one.by_mark));
    let mut ids: Vec<Id> = Vec::new();
    for (link, standing) in links.iter().zip(standings) {
        let id = facts.instance(Subject::FabricLink, node, &link.name);
        state_link(facts, id, link, standing);
        ids.push(id);
    }
    state_errors(facts, node, &errors, &names, &|end: &str| {
        places.get(end).and_then(|at| ids.get(*at)).copied()
    });
    for (link, id) in links.iter().zip(ids) {
        state_loss(facts, id, link, is_list && !is_part);
    }
    facts.set_members(Subject::FabricLink, node, Membership::Known(first.origin()));
}

/// Reads the lines of one output: below a heading they are of one node.
fn read_output<'o>(
    output: &'o Output,
    lines: &mut Vec<(OutputLine<'o>, LinkLine)>,
    errors: &mut ErrorList<'o>,
) {
    let mut heading = End::default();
    for line in output.lines() {
        let text = line.text.trim();
        if let Some(end) = link_line::heading(text) {
            heading = end;
        } else if let Some(mut said) = LinkLine::read(text) {
            // Below the errors of a port stands its link.
            let above = match errors.ports.last() {
                Some(port) if text.starts_with("Link info:") => &port.end,
                _ => &heading,
            };
            if said.near.node.is_none() {
                said.near.node.clone_from(&above.node);
            }
            said.near.guid = said.near.guid.or(above.guid);
            lines.push((line, said));
        } else {
            errors.read_line(text, line);
        }
    }
}

/// The links, each once, and at which place each end is.
fn join_ends<'o>(
    lines: Vec<(OutputLine<'o>, LinkLine)>,
    names: &Names,
) -> (Vec<Link<'o>>, BTreeMap<String, usize>) {
    let (mut links, mut places) = (Vec::new(), BTreeMap::new());
    for (line, said) in lines {
        let ends: Vec<String> = said.ends().map(|end| names.name(end)).collect();
        if ends.iter().any(|end| places.contains_key(end)) {
            continue;
        }
        let name = ends.join(" - ");
        for end in ends {
            places.insert(end, links.len());
        }
        links.push(Link { name, line, said });
    }
    (links, places)
}

/// What links of the same capability do.
#[derive(Default)]
struct Equals {
    full: usize,
    below: usize,
}

/// How each link runs. Lines that somebody picked, or a part of an output, do not tell what is
/// usual; a single lane is never the rule where both ends have more.
fn standings(links: &[Link<'_>], is_part: bool, by_mark: bool) -> Vec<Option<Standing>> {
    let mut groups: BTreeMap<Pace, Equals> = BTreeMap::new();
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
    facts.set(id, fabric_link::STATE, line.read(said.state));
    facts.set(id, fabric_link::PHYS_STATE, line.read(said.phys_state));
    if let Some((pace, possible)) = said.paces() {
        facts.set(id, fabric_link::WIDTH, line.known(pace.width));
        facts.set(id, fabric_link::POSSIBLE_WIDTH, line.known(possible.width));
        facts.set(
            id,
            fabric_link::RUNS_AT,
            line.known(pace.to_string().into()),
        );
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

/// States the errors of each port at its link, or at the port alone if no link is listed.
fn state_errors(
    facts: &mut Facts,
    node: Id,
    errors: &ErrorList<'_>,
    names: &Names,
    link_of: &dyn Fn(&str) -> Option<Id>,
) {
    // The end that stands out more comes first, and the first that is stated stays.
    for found in errors.by_excess() {
        let name = names.name(&found.port.end);
        let linked = link_of(&name);
        let id = linked.unwrap_or_else(|| facts.instance(Subject::FabricLink, node, &name));
        let origin = found.port.line.origin();
        let at = if facts.name(id) == name {
            String::new()
        } else {
            format!(" at {name}")
        };
        let said: Arc<str> = format!("{}{at}", found.port.counters_in_words()).into();
        facts.know(id, fabric_link::ERRORS, said, &origin);
        facts.know(
            id,
            fabric_link::WORST_COUNTER,
            found.counter.into(),
            &origin,
        );
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
        Some(errors) => Some(errors.contains(errors::LINK_DOWNED)),
        None => is_listed.then_some(false),
    };
    let is_down = state == PortState::Down && phys != PhysState::Disabled;
    let lost = if is_down { has_lost } else { Some(false) };
    if let Some(lost) = lost {
        facts.derive(id, fabric_link::LOST, lost, "its state and its counters");
    }
}
