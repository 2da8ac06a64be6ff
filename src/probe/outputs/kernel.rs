//! Lines of the kernel's log: read by the probe that reads them on a node.

use serde_json::{Value, json};

use super::{Output, OutputLine, replayed};
use crate::fact::{Facts, Id, Subject, kernel_event};
use crate::probe::kernel_log;
use crate::source::Question;
use crate::source::kernel_log_markers::MARKERS;
use crate::tool_output::kernel_line;

/// States the events. Absence from these lines proves nothing, and the time of the copy is unknown.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let told: Vec<Value> = output
        .lines()
        .filter_map(|line| {
            let (seconds, text) = kernel_line(line.text)?;
            // A line without a time since boot counts as one of boot: what is usual there is left out.
            let micros = (seconds.unwrap_or(0.0) * 1e6) as u64;
            Some(json!({ "t": micros, "text": text }))
        })
        .collect();
    let lines: Vec<OutputLine<'_>> = output.lines().collect();
    read(told, facts, node, |text| {
        let is_it = |line: &&OutputLine<'_>| line.text.ends_with(text);
        lines.iter().rfind(is_it).copied()
    });
}

/// States what the probe says of these lines, each with the line where it stands.
fn read<'o>(
    told: Vec<Value>,
    facts: &mut Facts,
    node: Id,
    stands: impl Fn(&str) -> Option<OutputLine<'o>>,
) {
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
        if let Some(line) = text.and_then(|text| stands(&text)) {
            replayed::copy(&read, event, facts, node, &line);
        }
    }
}

/// gpud's events of Xids have the device and the number of the kernel's line, and not its words: `{"device_uuid":"PCI:0000:1b:00","data":"{\"xid\":79}"}`.
pub(super) fn gpud(output: &Output, facts: &mut Facts, node: Id) {
    let Some(line) = output.lines().next() else {
        return;
    };
    let components: Vec<Value> = serde_json::from_str(line.text).unwrap_or_default();
    let events = components.iter().filter_map(|one| {
        let events = one.get("events").or_else(|| one.pointer("/info/events"));
        events.and_then(Value::as_array)
    });
    let events: Vec<&Value> = events.flatten().collect();
    fn text<'e>(event: &'e Value, key: &str) -> Option<&'e str> {
        event.pointer(key).and_then(Value::as_str)
    }
    // The kernel's log begins with the machine; gpud keeps what was before. Its times are all of one form, in UTC.
    let starts = (events.iter()).filter(|event| text(event, "/name") == Some("reboot"));
    let started = starts.filter_map(|event| text(event, "/time")).max();
    let xid = |event: &Value| {
        if text(event, "/time") < started {
            return None;
        }
        let text = |key: &str| text(event, key);
        let device = text("/extra_info/device_uuid").filter(|place| place.starts_with("PCI:"))?;
        let data: Value = serde_json::from_str(text("/extra_info/data")?).ok()?;
        let xid = data.get("xid").and_then(Value::as_u64)?;
        Some(json!({ "t": 0, "text": format!("NVRM: Xid ({device}): {xid}, by gpud") }))
    };
    let told = events.into_iter().filter_map(xid).collect();
    read(told, facts, node, |_| Some(line));
}
