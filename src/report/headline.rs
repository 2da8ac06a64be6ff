//! The answer of a report in one sentence.

use std::collections::HashSet;

use super::areas::{self, no_fault, unrecorded};
use super::contents::Contents;
use super::fit::fit;
use super::status::Status;
use super::{AreaLine, Finding, plural, some};
use crate::diagnosis::areas::AreaState;
use crate::exit::Exit;
use crate::nodeset;
use crate::sentence::{Sentence, Span};
use crate::whole::{Contribution, NodeHead};

/// The longest headline. With the status before it, a line has 120 letters at most.
pub(super) const HEADLINE: usize = 112;

/// The checks of lines that no table has.
const NOT_IN_CATALOGUE: [&str; 4] = [
    "log/not-in-catalogue",
    UNKNOWN_WARNING,
    "kernel/not-in-catalogue",
    "tool/not-in-catalogue",
];

/// The check of NCCL's own warnings that no table has.
pub(super) const UNKNOWN_WARNING: &str = "log/unrecognised-failure";

/// What a script sees where a finding leads and the verdict is open.
const UNDECIDED: &str = " (exit 3)";

/// The answer in one sentence. Of several nodes it says which the other causes are on.
pub(super) fn headline(status: Status, contents: &Contents, notes: &[Finding]) -> Sentence {
    let causes = &contents.causes;
    if status.exit == Exit::Undecided {
        return undecided(contents, notes);
    }
    let Some(lead) = lead(status.exit, causes, notes) else {
        return without_cause(status.word, contents, notes);
    };
    if contents.said.nodes.len() < 2 {
        let is_cut = contents.said.nodes.iter().any(|node| node.truncated);
        let said = if is_cut {
            Sentence::from("the recording was cut short: ").then(lead.sentence.clone())
        } else {
            lead.sentence.clone()
        };
        let others = other_causes(causes.len(), "");
        let (more, counted) = further(lead);
        return fitted(&said, &more, format!("{counted}{others}").into());
    }
    let more = match lead.further.len() {
        0 => String::new(),
        n => format!(" (and {n} more like it)"),
    };
    let mut seen: HashSet<&str> = lead.nodes.iter().map(String::as_str).collect();
    let others = causes.iter().skip(1);
    let of_some = others.filter(|one| one.nodes.len() < contents.said.nodes.len());
    let names = of_some.flat_map(|one| one.nodes.iter().map(String::as_str));
    let named: Vec<&str> = names.filter(|name| seen.insert(name)).collect();
    let on = if named.is_empty() {
        String::new()
    } else {
        format!(", on {} too", nodeset::list(&named))
    };
    let others = other_causes(causes.len(), &on);
    fitted(&lead.sentence, &[], format!("{more}{others}").into())
}

/// What leads although the verdict is open: what was found says more than what was not examined.
fn undecided(contents: &Contents, notes: &[Finding]) -> Sentence {
    let why = why_undecided(contents);
    let causes = &contents.causes;
    let found = causes.iter().find(|cause| !is_damage(&cause.check));
    // A line that no table has leads where nothing else is known of what was given.
    let is_text = contents.said.nodes.is_empty() || given(&contents.said.nodes).is_some();
    let is_blind = is_text && !contents.said.areas.iter().any(AreaLine::is_wanting);
    let is_alone = causes.is_empty() && contents.said.damage.is_empty();
    let quoted = unknown_failure(notes).filter(|_| is_text && is_alone);
    // So does a note, where what was given could have shown no error.
    let noted = notes.iter().find(|note| !note.background);
    let noted = noted.filter(|_| is_alone && is_blind);
    let Some(first) = found.or(quoted).or(noted) else {
        return fitted(&why, &[], Sentence::new(Vec::new()));
    };
    if quoted.is_some() {
        return fitted(&first.sentence, &[], Sentence::new(Vec::new()));
    }
    let why = match (
        unrecorded(&contents.said.areas),
        contents.said.damage.as_slice(),
    ) {
        (Some(areas), []) => {
            let areas = plural(areas.len() as u64, "area");
            Sentence::from(format!("undecided: {areas} not recorded"))
        }
        _ if found.is_none() => "undecided".into(),
        _ => why.predicate().iter().cloned().collect(),
    };
    let (more, counted) = further(first);
    let others = format!("{counted}{}; ", other_causes(causes.len(), ""));
    let tail = Sentence::from(others).then(why).then(UNDECIDED.to_owned());
    fitted(&first.sentence, &more, tail)
}

/// The further subjects of which the sentence holds; where others of them show the problem in
/// another way, how many there are in words.
fn further(lead: &Finding) -> (Vec<String>, String) {
    match lead.further.len() {
        0 => (Vec::new(), String::new()),
        n if lead.is_shown_in_several_ways => (Vec::new(), format!(" (and {n} more like it)")),
        _ => (further_names(&lead.subjects), String::new()),
    }
}

/// The subjects behind the first, which a sentence has named: of what is called the same on other
/// hosts, the hosts.
pub(super) fn further_names(subjects: &[String]) -> Vec<String> {
    let Some((first, further)) = subjects.split_first() else {
        return Vec::new();
    };
    let own = first.split_once(": ").map(|(_, name)| name);
    let hosts = further.iter().map(|subject| {
        let (host, name) = subject.split_once(": ")?;
        (Some(name) == own).then(|| host.to_owned())
    });
    let hosts: Option<Vec<String>> = hosts.collect();
    hosts.unwrap_or_else(|| further.to_vec())
}

/// What leads, the further subjects of which that holds, and what else there is.
fn fitted(lead: &Sentence, further: &[String], tail: Sentence) -> Sentence {
    let mut more = vec![String::new()];
    if !further.is_empty() {
        more.insert(0, format!(" (and {} more)", further.len()));
        more.insert(0, format!(" (and {})", some(further)));
    }
    let room = |more: &str| HEADLINE.saturating_sub(more.chars().count() + tail.letters());
    let fits = more.iter().position(|more| lead.letters() <= room(more));
    let counted = usize::from(more.len() > 1);
    let more = more.swap_remove(fits.unwrap_or(counted));
    let predicate: usize = lead.predicate().iter().map(Span::letters).sum();
    // What has no room behind a long predicate stands on a line of its own.
    let said = fit(lead, room(&more).max(predicate.min(HEADLINE)));
    let ends = [more.into(), tail]
        .into_iter()
        .filter(|end: &Sentence| !end.is_empty());
    ends.fold(said, |said, end| said.then_optionally(end))
}

/// Whether a check reports what did not answer, which the headline of an undecided verdict names by itself.
pub(super) fn is_damage(check: &str) -> bool {
    check.starts_with("unanswered/") || check.starts_with("recording/")
}

/// The finding that leads: the first cause, and a note where the exit status counts it.
fn lead<'f>(exit: Exit, causes: &'f [Finding], notes: &'f [Finding]) -> Option<&'f Finding> {
    causes.first().or(match exit {
        Exit::Errors => notes.first(),
        _ => None,
    })
}

/// The line that reports a failure of which nothing is known: it leads where nothing else does. A
/// failure comes before a warning.
pub(super) fn unknown_failure(notes: &[Finding]) -> Option<&Finding> {
    let all = || {
        let listed = |note: &&Finding| NOT_IN_CATALOGUE.contains(&note.check.as_str());
        notes.iter().filter(listed)
    };
    let failure = all().find(|note| note.check != UNKNOWN_WARNING);
    failure.or_else(|| all().next())
}

/// How many causes there are besides the one that leads; `on` says where.
pub fn other_causes(causes: usize, on: &str) -> String {
    match causes.saturating_sub(1) {
        0 => String::new(),
        1 => format!("; 1 other cause{on}"),
        n => format!("; {n} other causes{on}"),
    }
}

/// Why the node's health is unknown.
fn why_undecided(contents: &Contents) -> Sentence {
    let Contribution {
        nodes,
        open,
        areas,
        damage,
        ..
    } = &contents.said;
    let undecided = Sentence::from("undecided: ");
    if !damage.is_empty() {
        return undecided.then(Sentence::joined(damage.iter().cloned(), "; "));
    }
    let no_devices = !nodes.is_empty() && nodes.iter().all(|n| n.devices == Some(0));
    let wants_devices = areas.iter().any(|area| {
        area.is_wanting() && area.area == "devices" && area.rank == AreaState::NothingThere
    });
    if no_devices && (wants_devices || areas.is_empty()) {
        let gpus: u64 = nodes.iter().filter_map(|n| n.gpus).sum();
        return match gpus {
            0 => "nothing to examine: no RDMA device on this node".into(),
            1 => "undecided: no RDMA device on this node, which has one GPU".into(),
            n => format!("undecided: no RDMA device on this node, which has {n} GPUs").into(),
        };
    }
    if let Some(areas) = areas::undecided(areas) {
        return undecided.then(areas);
    }
    if let Some(given) = given(nodes) {
        return format!("undecided: nothing that was given could have shown an error{given}")
            .into();
    }
    match open.first() {
        Some(question) => {
            let missing = question.missing().into_iter().next();
            let on = Sentence::from(format!("undecided on {}", some(&question.subjects)));
            match missing {
                Some(m) => on.then_optionally(format!(": {} is unknown ({})", m.fact, m.value)),
                None => on,
            }
        }
        None => "undecided: no check could be decided".into(),
    }
}

/// What people gave in place of all nodes, behind a colon; empty where it can only be named.
fn given(nodes: &[NodeHead]) -> Option<String> {
    let all: Option<Vec<&str>> = nodes.iter().map(|node| node.given.as_deref()).collect();
    match all?.as_slice() {
        [] => None,
        [""] => Some(String::new()),
        [one] => Some(format!(": {one}")),
        several => Some(format!(": {}", plural(several.len() as u64, "node"))),
    }
}

/// The answer if no finding leads.
fn without_cause(status: &str, contents: &Contents, notes: &[Finding]) -> Sentence {
    let Contribution {
        nodes, open, areas, ..
    } = &contents.said;
    let devices: u64 = nodes.iter().filter_map(|n| n.devices).sum();
    let ports: u64 = nodes.iter().filter_map(|n| n.active_ports).sum();
    let waived = match contents.said.counts.waived {
        0 => String::new(),
        1 => ", one finding waived".into(),
        n => format!(", {n} findings waived"),
    };
    let noted = match notes.iter().filter(|note| !note.background).count() {
        0 => waived,
        1 => format!(", one note{waived}"),
        n => format!(", {n} notes{waived}"),
    };
    if nodes.is_empty() {
        let left = match open.len() {
            0 => String::new(),
            1 => ", one open question".into(),
            n => format!(", {n} open questions"),
        };
        return format!("no finding in the log{noted}{left}; no node was examined").into();
    }
    if let Some(given) = given(nodes).filter(|_| status != "healthy") {
        return format!("no fault in what was given{given}{noted}").into();
    }
    if status != "healthy" {
        let refused = match contents.said.withheld {
            0 => String::new(),
            n => format!("; {} refused (permission)", plural(n, "question")),
        };
        return no_fault(areas, &format!("{refused}{noted}")).into();
    }
    let of = if nodes.len() > 1 {
        format!("{} nodes, ", nodes.len())
    } else {
        String::new()
    };
    let knows_ports = nodes.iter().all(|n| n.active_ports.is_some());
    let active = if knows_ports {
        format!(", {} active", plural(ports, "port"))
    } else {
        String::new()
    };
    let devices = plural(devices, "RDMA device");
    let peers = if nodes.iter().any(|node| node.untried_peers) {
        "; peers not tried: bench pairs"
    } else {
        ""
    };
    format!("healthy: {of}{devices}{active}{noted}{peers}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_names_further_subjects_where_there_is_room() {
        let further = ["mlx5_1/1".to_owned(), "mlx5_2/1".to_owned()];
        let tail = "; 3 other causes";
        let said = |lead: &Sentence, tail: &str| fitted(lead, &further, tail.into()).to_string();
        assert_eq!(
            said(&"mlx5_0/1 is down".into(), tail),
            "mlx5_0/1 is down (and mlx5_1/1, mlx5_2/1); 3 other causes"
        );
        let state = Sentence::from("mlx5_0/1 has link but stays in state init for 3 days");
        let long = state.then_optionally(format!("; {}", "x ".repeat(60)));
        assert_eq!(
            said(&long, tail),
            format!("{state} (and 2 more); 3 other causes")
        );
        // What else there is never takes the place of the predicate.
        assert!(said(&long, &"y ".repeat(60)).starts_with(&state.to_string()));
    }
}
