//! What schedulers say of nodes and pods: sinfo(1) and scontrol(1) of Slurm, the events of
//! Kubernetes.

use super::Output;
use super::self_tests::add;
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id};

/// `RDMA link down  slurm  2026-11-21T08:00:01  gpu023`, as `sinfo -R` lists it; with `-l` the state
/// is before the nodes.
pub(super) fn sinfo(output: &Output, facts: &mut Facts, node: Id) {
    let mut states: Option<StateColumns> = None;
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        if words.first() == Some(&"NODELIST") {
            states = StateColumns::from_headings(&words);
            continue;
        }
        if let Some((name, said)) = states.as_ref().and_then(|states| states.kept_out(&words)) {
            add(
                facts,
                node,
                ToolResultKind::NodeKeptOut,
                name,
                (&line, &said),
            );
            continue;
        }
        let Some(time) = words.iter().rposition(|word| is_time(word)) else {
            continue;
        };
        // Behind the reason stands who gave it.
        let reason = time.checked_sub(1).and_then(|who| words.get(..who));
        if let (Some(reason @ [_, ..]), Some(nodes)) = (reason, words.last())
            && time + 1 < words.len()
        {
            let kind = ToolResultKind::NodeKeptOut;
            add(facts, node, kind, nodes, (&line, &reason.join(" ")));
        }
    }
}

/// Where state and reason stand in the rows of `sinfo -N -l`, whose reason is the last column.
struct StateColumns {
    state: usize,
    reason: usize,
}

impl StateColumns {
    fn from_headings(headings: &[&str]) -> Option<Self> {
        let place = |name: &str| headings.iter().position(|heading| *heading == name);
        Some(StateColumns {
            state: place("STATE")?,
            reason: place("REASON")?,
        })
    }

    /// The node of a row that no job gets, with its state and the reason.
    fn kept_out<'w>(&self, row: &[&'w str]) -> Option<(&'w str, String)> {
        let state = row.get(self.state)?;
        let out = ["down", "drain", "fail", "unk"];
        let reason = row.get(self.reason..)?.join(" ");
        (out.iter().any(|word| state.starts_with(word)))
            .then(|| (row[0], format!("{state}: {reason}")))
    }
}

/// `2026-11-21T08:00:01`
fn is_time(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() == 19 && bytes[10] == b'T' && bytes[13] == b':' && bytes[4] == b'-'
}

/// `scontrol show node`: a state with a flag that keeps jobs away, and the reason.
pub(super) fn scontrol(output: &Output, facts: &mut Facts, node: Id) {
    let mut name = "";
    let mut is_out = false;
    for line in output.lines() {
        for word in line.text.split_whitespace() {
            if let Some(named) = word.strip_prefix("NodeName=") {
                name = named;
                is_out = false;
            } else if let Some(state) = word.strip_prefix("State=") {
                is_out = ["DRAIN", "DOWN", "FAIL", "NOT_RESPONDING"]
                    .iter()
                    .any(|flag| state.contains(flag));
            }
        }
        if let Some((_, told)) = line.text.split_once("Reason=")
            && is_out
            && !name.is_empty()
        {
            let reason = told.rsplit_once(" [").map_or(told, |(reason, _)| reason);
            let kind = ToolResultKind::NodeKeptOut;
            add(facts, node, kind, name, (&line, reason.trim()));
        }
    }
}

/// The warnings among the events of `kubectl describe` and `kubectl get events`: columns with two
/// spaces between.
pub(super) fn events(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let columns = line.text.split("  ").map(str::trim);
        let columns: Vec<&str> = columns.filter(|column| !column.is_empty()).collect();
        let Some(at) = columns.iter().position(|column| *column == "Warning") else {
            continue;
        };
        // Two columns that are as wide as their words have one space between.
        if let [reason, .., message] = columns.get(at + 1..).unwrap_or_default() {
            let kind = ToolResultKind::EventWarned;
            let first = reason.split(' ').next().unwrap_or(reason);
            add(facts, node, kind, first, (&line, message));
        }
    }
}

/// `rdma/hca_shared_devices:  0` below `Allocatable:` of `kubectl describe node`: a resource that the
/// node is to have, of which it gives none.
pub(super) fn allocatable(output: &Output, facts: &mut Facts, node: Id) {
    let mut is_below = false;
    for line in output.lines() {
        let text = line.text.trim();
        // What is below a heading is moved in.
        if !line.text.starts_with([' ', '\t']) {
            is_below = text == "Allocatable:";
        } else if let Some((name, given)) = text.split_once(':')
            && is_below
            && given.trim() == "0"
            && is_of_devices(name)
        {
            add(
                facts,
                node,
                ToolResultKind::NoneAllocatable,
                name,
                (&line, text),
            );
        }
    }
}

/// Whether a resource is of GPUs or of a network's devices.
fn is_of_devices(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words = ["rdma", "/gpu", "hca", "roce", "efa", "infiniband", "sriov"];
    words.iter().any(|word| lower.contains(word))
}
