//! The state of a domain of NVLink over nodes, as `nvidia-imex-ctl -N` prints it.

use std::collections::BTreeMap;

use super::Output;
use super::self_tests::add;
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id};

/// A daemon that takes part in the domain.
struct Member<'o> {
    address: &'o str,
    state: &'o str,
}

impl Member<'_> {
    fn is_ready(&self) -> bool {
        self.state == "READY"
    }

    /// Whether it is a place that Kubernetes keeps for a node that may come.
    fn is_reserved(&self) -> bool {
        self.address.starts_with("compute-domain-daemon") && self.state == "UNAVAILABLE"
    }
}

/// States the members that are not ready, and those that are and do not reach each other.
///
/// `Node #1   - 10.4.0.2 - READY - Version: 570.124`, and below `Nodes From\To  0   1` a row of each
/// with a letter of the legend for each. Source: NVIDIA's IMEX guide, *IMEX Service Command Service*.
pub(super) fn state_domain(output: &Output, facts: &mut Facts, node: Id) {
    let mut members: BTreeMap<&str, Member<'_>> = BTreeMap::new();
    let mut columns: Vec<&str> = Vec::new();
    for line in output.lines() {
        let text = line.text.trim();
        if let Some((number, address, state)) = member(text) {
            let member = Member { address, state };
            if !member.is_ready() && !member.is_reserved() {
                let about = format!("node #{number} ({address})");
                let kind = ToolResultKind::ImexNotReady;
                add(facts, node, kind, &about, (&line, state));
            }
            members.insert(number, member);
        } else if let Some(numbers) = text.strip_prefix("Nodes From\\To") {
            columns = numbers.split_whitespace().collect();
        } else if let Some((from, cells)) = text.split_once(' ')
            && let Some(one) = members.get(from)
        {
            // Each pair stands there twice.
            let own = columns.iter().position(|number| *number == from);
            let others = columns.iter().skip(own.unwrap_or(columns.len()) + 1);
            for (other, cell) in others.zip(cells.split_whitespace().skip(own.unwrap_or(0) + 1)) {
                if let (Some(other), Some(words)) = (members.get(other), meaning(cell))
                    && one.is_ready()
                    && other.is_ready()
                {
                    let about = format!("{} and {}", one.address, other.address);
                    add(
                        facts,
                        node,
                        ToolResultKind::ImexApart,
                        &about,
                        (&line, words),
                    );
                    break;
                }
            }
        }
    }
}

/// The number, the address and the state of a member.
fn member(text: &str) -> Option<(&str, &str, &str)> {
    let mut parts = text.strip_prefix("Node #")?.split(" - ").map(str::trim);
    let (number, address, state) = (parts.next()?, parts.next()?, parts.next()?);
    Some((number, address.split(' ').next()?, state))
}

/// What a letter says of two daemons that do not reach each other.
fn meaning(cell: &str) -> Option<&'static str> {
    Some(match cell {
        "N" => "never connected",
        "R" => "the connection was lost",
        "D" => "disconnected",
        "I" => "no status of the connection",
        "!V!" => "their versions do not match",
        "!M!" => "their lists of nodes do not match",
        _ => return None,
    })
}
