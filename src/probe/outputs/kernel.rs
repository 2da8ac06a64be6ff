//! Lines of the kernel's log: read by the probe that reads them on a node.

use std::sync::Arc;

use serde_json::json;

use super::{Output, OutputLine};
use crate::fact::{Fact, Facts, Id, Subject, kernel_event};
use crate::probe::{Ask, kernel_log};
use crate::source::kernel_log_markers::MARKERS;
use crate::source::recording::Recording;
use crate::source::wire::{Header, Line};
use crate::source::{Answer, Question, Reply};
use crate::tool_output::kernel_line;

/// States the events. Absence from these lines proves nothing, and the time of the copy is unknown.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let told: Vec<serde_json::Value> = output
        .lines()
        .filter_map(|line| {
            let (seconds, text) = kernel_line(line.text)?;
            // A line without a time since boot counts as one of boot: what is usual there is left out.
            let micros = (seconds.unwrap_or(0.0) * 1e6) as u64;
            Some(json!({ "t": micros, "text": text }))
        })
        .collect();
    let value = json!({
        "now": null,
        "markers": MARKERS,
        "lines": told.len(),
        "lost": null,
        "first": told.first().and_then(|line| line.get("t")),
        "from_boot": false,
        "told": told,
    });
    let mut recording = Recording::new(Header::default());
    recording.add(Line::Reply {
        probe: kernel_log::PROBE.name.into(),
        question: Question::call("kernel_log", []),
        repeat: 0,
        reply: Reply {
            at: 0,
            said: Ok(Answer::Value(Arc::new(value))),
        },
    });
    let source = recording.of(kernel_log::PROBE.name);
    let mut read = Facts::new();
    let machine = read.new_node("");
    (kernel_log::PROBE.run)(&Ask::new(&source), &mut read, machine);
    // The evidence is the line where it stands, and no question to a machine.
    for event in read.below(machine, Subject::KernelEvent) {
        let text = read.known(event, kernel_event::LINE);
        let of_event =
            |line: &OutputLine<'_>| text.as_ref().is_some_and(|t| line.text.ends_with(&**t));
        let Some(line) = output.lines().filter(of_event).last() else {
            continue;
        };
        let id = facts.instance(Subject::KernelEvent, node, read.name(event));
        for index in 0..Subject::KernelEvent.schema().facts.len() {
            match read.look(event, index) {
                Some(Fact::Known(value, _)) => {
                    facts.set_at(id, index, line.known(value.clone()));
                }
                Some(gap) => facts.set_at(id, index, gap.clone()),
                None => {}
            }
        }
    }
}
