//! Outputs that several hosts of a text printed, which are compared line by line.

use std::sync::Arc;

use super::Output;
use crate::fact::{Facts, Id, Origin, Subject, shown_output};

/// Lines, and letters of them, of an output that is compared: what is longer describes each host for itself.
const LINES: usize = 64;
const LETTERS: usize = 4096;

/// Tools of which each host shows what is its own.
const ITS_OWN: [&str; 1] = ["uptime"];

/// States what the node printed where others of its text ran the same command.
pub(super) fn state(outputs: &[Output], facts: &mut Facts, node: Id) {
    for (at, output) in outputs.iter().enumerate().filter(|(_, one)| one.of_several) {
        let lines: Vec<Arc<str>> = output.lines().map(|line| line.text.into()).collect();
        let letters: usize = lines.iter().map(|line| line.len()).sum();
        if ITS_OWN.contains(&output.tool()) || lines.len() > LINES || letters > LETTERS {
            continue;
        }
        let id = facts.instance(Subject::ShownOutput, node, &at.to_string());
        let command = output.argv.join(" ");
        let origin = match output.lines().next() {
            Some(line) => line.origin(),
            None => Origin::derived("a heading without a line below it"),
        };
        facts.know(id, shown_output::COMMAND, command.into(), &origin);
        facts.know(id, shown_output::LINES, lines.into(), &origin);
    }
}
