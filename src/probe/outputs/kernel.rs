//! Lines of the kernel's log: read by the probe that reads them on a node.

use serde_json::json;

use super::{Output, OutputLine, replayed};
use crate::fact::{Facts, Id, Subject, kernel_event};
use crate::probe::kernel_log;
use crate::source::Question;
use crate::source::kernel_log_markers::MARKERS;
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
    let question = Question::call("kernel_log", []);
    let (read, machine) = replayed::facts(&kernel_log::PROBE, question, &value);
    for event in read.below(machine, Subject::KernelEvent) {
        let text = read.known(event, kernel_event::LINE);
        let of_event =
            |line: &OutputLine<'_>| text.as_ref().is_some_and(|t| line.text.ends_with(&**t));
        if let Some(line) = output.lines().filter(of_event).last() {
            replayed::copy(&read, event, facts, node, &line);
        }
    }
}
