//! What a subnet manager logged: nodes that it lost, ports whose other end does not answer, GUIDs
//! that two nodes have, sweeps that end with errors. The lines are those of opensm's osm_log.c:
//! `Nov 30 07:15:51 238205 [152A16C0] 0x02 -> drop_mgr_remove_port: Removed port with GUID:…`.

use super::self_tests::add;
use super::{Output, OutputLine};
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id};

/// Names that are said of one kind.
const NAMED: usize = 6;

/// A node or a port with the line that names it.
struct NamedLine<'o> {
    name: String,
    line: OutputLine<'o>,
}

/// What follows from the lines so far.
#[derive(Default)]
struct Told<'o> {
    /// Nodes that were removed and did not come back.
    lost: Vec<NamedLine<'o>>,
    /// Nodes that were removed and came back.
    returned: Vec<NamedLine<'o>>,
    /// Ports whose other end does not answer.
    silent: Vec<NamedLine<'o>>,
    duplicate: Option<OutputLine<'o>>,
    /// The last sweep, if it ended with errors.
    broken_sweep: Option<OutputLine<'o>>,
    /// The first error of no kind that is told.
    error: Option<OutputLine<'o>>,
    errors: u64,
}

/// States what the log tells of the fabric.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let mut told = Told::default();
    for line in output.lines() {
        if let Some(said) = message(line.text) {
            told.note_record(said, line);
        }
    }
    let of_several = [
        (ToolResultKind::NodesLost, &told.lost),
        (ToolResultKind::NodesReturned, &told.returned),
        (ToolResultKind::PortsSilent, &told.silent),
    ];
    for (kind, all) in of_several {
        if let Some(NamedLine { line, .. }) = all.last() {
            let names = some_of(all);
            add(facts, node, kind, &names, (line, words(line)));
        }
    }
    let of_one = [
        (ToolResultKind::GuidTwice, told.duplicate),
        (ToolResultKind::SweepFailed, told.broken_sweep),
    ];
    for (kind, line) in of_one {
        if let Some(line) = line {
            add(facts, node, kind, "opensm", (&line, words(&line)));
        }
    }
    if let Some(line) = told.error.filter(|_| told.silent.is_empty()) {
        let about = format!("opensm, {} errors in all", told.errors);
        let kind = ToolResultKind::Complained;
        add(facts, node, kind, &about, (&line, words(&line)));
    }
}

/// Some names, and how many more there are.
fn some_of(all: &[NamedLine<'_>]) -> String {
    let names: Vec<&str> = all.iter().take(NAMED).map(|one| &*one.name).collect();
    let named = names.join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The message of a record.
pub(super) fn message(line: &str) -> Option<&str> {
    let (before, said) = line.split_once(" -> ")?;
    let (head, level) = before.rsplit_once("] 0x")?;
    let (_, thread) = head.rsplit_once('[')?;
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hex(thread) && thread.len() == 8 && is_hex(level) && level.len() == 2).then_some(said)
}

fn words<'l>(line: &OutputLine<'l>) -> &'l str {
    message(line.text).unwrap_or(line.text).trim()
}

impl<'o> Told<'o> {
    fn note_record(&mut self, said: &str, line: OutputLine<'o>) {
        if said.contains("Removed port with GUID:") {
            if let Some(name) = name_of_node(said) {
                self.returned.retain(|known| known.name != name);
                self.lost.retain(|known| known.name != name);
                let name = name.to_owned();
                self.lost.push(NamedLine { name, line });
            }
        } else if said.contains("Discovered new port with GUID:") {
            let name = name_of_node(said).unwrap_or_default();
            let at = self.lost.iter().position(|known| known.name == name);
            self.returned.extend(at.map(|at| self.lost.remove(at)));
        } else if said.contains("ERR 3315:") {
            let port = silent_port(said).filter(|port| !self.is_silent(port));
            self.silent
                .extend(port.map(|name| NamedLine { name, line }));
        } else if ["ERR 0D01:", "ERR 0D15:"]
            .iter()
            .any(|error| said.contains(error))
        {
            self.duplicate.get_or_insert(line);
        } else if said.contains("ERRORS DURING INITIALIZATION") {
            self.broken_sweep = Some(line);
        } else if said.contains("SUBNET UP") {
            self.broken_sweep = None;
        }
        if said.contains(": ERR ") {
            self.errors += 1;
            self.error.get_or_insert(line);
        }
    }

    fn is_silent(&self, port: &str) -> bool {
        self.silent.iter().any(|known| known.name == port)
    }
}

/// `… LID range [3, 3] of node:leaf2`.
fn name_of_node(said: &str) -> Option<&str> {
    let (_, name) = said.split_once(" of node:")?;
    let name = name.trim();
    (!name.is_empty()).then_some(name)
}

/// `Unknown remote side for node 0x0000000000200000 (leaf1) port 2. Adding to …`.
fn silent_port(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("remote side for node ")?;
    let (_, named) = rest.split_once(" (")?;
    let (name, rest) = named.split_once(") port ")?;
    let number = rest.split('.').next()?;
    Some(format!("{name} port {number}"))
}
