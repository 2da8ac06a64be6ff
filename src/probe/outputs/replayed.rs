//! Outputs that are the reply to a question of another probe: that probe reads them.

use serde_json::Value;

use super::OutputLine;
use crate::fact::{Facts, Id};
use crate::probe::{Ask, Probe};
use crate::source::Question;
use crate::source::recording::Recording;
use crate::source::wire::{Header, Line};

/// What a probe states of a machine that replies this and nothing else.
pub(super) fn facts(probe: &Probe, question: Question, reply: &Value) -> (Facts, Id) {
    let mut recording = Recording::new(Header::default());
    recording.add(Line::of(probe.name, question, reply, 0));
    let source = recording.of(probe.name);
    let mut read = Facts::new();
    let machine = read.new_node("");
    (probe.run)(&Ask::new(&source), &mut read, machine);
    (read, machine)
}

/// States below a node what was read of one instance: the evidence is the line where it stands, and no question to a machine.
pub(super) fn copy(read: &Facts, one: Id, facts: &mut Facts, node: Id, line: &OutputLine<'_>) {
    let subject = read.subject(one);
    let id = facts.instance(subject, node, read.name(one));
    for index in 0..subject.schema().facts.len() {
        if let Some(fact) = read.look(one, index) {
            let fact = fact.clone();
            facts.set_at(id, index, fact.flat_map(|value| line.known(value)));
        }
    }
}
