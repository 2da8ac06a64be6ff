//! The subnet manager and switches, as sminfo(8) and ibswinfo.sh print them.

use super::Output;
use crate::fact::{Facts, Id, Membership, Subject, node as of_node, switch};

/// The states of a subnet manager, and how they are called here.
const STATES: [(&str, &str); 4] = [
    ("SMINFO_MASTER", "master"),
    ("SMINFO_STANDBY", "standby"),
    ("SMINFO_DISCOVER", "discovering"),
    ("SMINFO_NOTACT", "inactive"),
];

/// What the tool writes if nothing answers; without permission it writes other errors.
const UNANSWERED: [&str; 2] = [
    "iberror: failed: query",
    "recv failed: Connection timed out",
];

/// The values that ibswinfo.sh has for a part that failed.
const FAILED: [&str; 3] = ["ERROR", "FAIL", "FAILED"];

/// States how the subnet manager of the node's own port is. One that was asked for by its LID may
/// be a standby.
pub(super) fn manager(output: &Output, facts: &mut Facts, node: Id) {
    let is_own = !output.by_mark && !asks_another(output);
    for line in output.lines() {
        if let Some(state) = manager_state(line.text)
            && (is_own || state == "master")
        {
            facts.set(node, of_node::SUBNET_MANAGER, line.known(state.into()));
        }
    }
}

fn manager_state(text: &str) -> Option<&'static str> {
    for (word, state) in STATES {
        if text.contains(word) {
            return Some(state);
        }
    }
    let is_unanswered = UNANSWERED.iter().any(|words| text.contains(words));
    is_unanswered.then_some("unresponsive")
}

/// Options of sminfo(8) that have a value, and name none but the own port.
const OWN: [&str; 8] = [
    "-C",
    "--Ca",
    "-P",
    "--Port",
    "-t",
    "--timeout",
    "-s",
    "--sm_port",
];
/// Those by which a manager is asked wherever it is: its GUID, a route to it.
const OTHER: [&str; 4] = ["-G", "--Guid", "-D", "--Direct"];

/// Whether a manager was asked by its LID, its GUID or a route, as in `sminfo -C mlx5_0 7`.
fn asks_another(output: &Output) -> bool {
    let mut words = output.argv.iter().skip(1);
    while let Some(word) = words.next() {
        if OWN.contains(&&**word) {
            words.next();
        } else if OTHER.contains(&&**word) || word.starts_with(|c: char| c.is_ascii_digit()) {
            return true;
        }
    }
    false
}

/// States the parts of a switch that report an error.
pub(super) fn switch(output: &Output, facts: &mut Facts, node: Id) {
    let (mut model, mut serial, mut guid) = (Vec::new(), "", None);
    let (mut supply, mut faults) = ("", Vec::new());
    for line in output.lines() {
        let Some((cell, status)) = line.text.split_once('|') else {
            let title = line.text.trim();
            if model.is_empty() && title.starts_with(char::is_alphanumeric) {
                model.push(title);
            }
            continue;
        };
        let (name, value) = (cell.trim(), status.trim());
        match name {
            "part number" => model.push(value),
            "serial number" => serial = value,
            "GUID" => guid = Some(value),
            _ => {}
        }
        // What a power supply has is indented below it.
        let is_inner = cell.starts_with(' ');
        if !is_inner {
            let first = name.split(' ').next().unwrap_or("");
            supply = if first.starts_with("PSU") { first } else { "" };
        }
        if FAILED.contains(&value) {
            let above = if is_inner { supply } else { "" };
            faults.push(format!("{above} {name} {value}").trim().to_owned());
        }
    }
    if let Some(guid) = guid {
        let id = facts.instance(Subject::Switch, node, guid);
        let mut called = model.join(" ");
        if !serial.is_empty() {
            called = format!("{called}, serial {serial}");
        }
        facts.know(id, switch::MODEL, called.into(), &output.origin());
        let mut said = faults.join(", ");
        if said.is_empty() {
            said.push_str("none");
        }
        facts.know(id, switch::FAULTS, said.into(), &output.origin());
        facts.set_members(Subject::Switch, node, Membership::Known(output.origin()));
    }
}
