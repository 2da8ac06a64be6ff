//! Lines of the kernel's log: read by the probe that reads them on a node.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::{Output, OutputLine, interfaces, replayed};
use crate::fact::kernel_event::EventClass;
use crate::fact::{Facts, Id, Seconds, Subject, kernel_event, limit};
use crate::nccl_log::clock;
use crate::probe::kernel_log;
use crate::source::Question;
use crate::source::kernel_log_markers::MARKERS;
use crate::tool_output::kernel_line;

/// What a driver or the kernel says when it starts.
const STARTS: [&str; 2] = ["Linux version ", "irmware version:"];

fn is_start(text: &str) -> bool {
    STARTS.iter().any(|words| text.contains(words))
}

/// States the events. Absence from these lines proves nothing, and the time of the copy is unknown.
pub(super) fn state(output: &Output, facts: &mut Facts, node: Id) {
    let settling = facts.limit(limit::LINKS_SETTLED).0;
    let has_start = output.lines().any(|line| is_start(line.text));
    let mut started: Option<f64> = None;
    let mut told: Vec<Value> = Vec::new();
    for line in output.lines() {
        let Some((since_boot, text)) = kernel_line(line.text) else {
            continue;
        };
        let dated = clock::of_kernel_line(line.text).map(|time| time.seconds);
        if is_start(text) {
            started = dated.or(started);
        }
        let is_settled =
            !has_start || dated.is_some_and(|at| started.is_none_or(|from| at - from > settling));
        // A line without a time since boot counts as one of boot, where what is usual is left out,
        // unless its date is long after a start, or no start is among the lines that somebody picked.
        let undated = if is_settled { 2.0 * settling } else { 0.0 };
        let micros = (since_boot.unwrap_or(undated) * 1e6) as u64;
        told.push(json!({ "t": micros, "text": text }));
    }
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
            if let (Some(time), Some(id)) = (
                clock::of_kernel_line(line.text),
                facts.find(Subject::KernelEvent, node, read.name(event)),
            ) {
                facts.set(id, kernel_event::AT, line.known(Seconds(time.seconds)));
            }
        }
    }
}

/// States how often a daemon says that an interface lost its carrier. It tells no time since boot,
/// so that the probe of the kernel's log would take its lines for those of a machine that starts.
pub(super) fn carriers(output: &Output, facts: &mut Facts, node: Id) {
    let mut lost: BTreeMap<&str, Vec<OutputLine<'_>>> = BTreeMap::new();
    for line in output.lines() {
        if let Some((_, message)) = line.text.split_once("]: ")
            && let Some(name) = message.strip_suffix(": Lost carrier")
            && interfaces::is_of_adapter(name)
        {
            lost.entry(name).or_default().push(line);
        }
    }
    for (name, lines) in lost {
        let Some(last) = lines.last() else {
            continue;
        };
        let class = EventClass::LinkDown;
        let id = facts.instance(
            Subject::KernelEvent,
            node,
            &format!("{} {name}", class.word()),
        );
        facts.set(id, kernel_event::CLASS, last.known(class));
        facts.set(id, kernel_event::SEEN, last.known(true));
        facts.set(id, kernel_event::LOGGED, last.known(true));
        facts.set(id, kernel_event::COUNT, last.known(lines.len() as u64));
        facts.set(id, kernel_event::ABOUT, last.known(name.into()));
        facts.set(
            id,
            kernel_event::AGE,
            last.known("at an unknown time".into()),
        );
        facts.set(id, kernel_event::LINE, last.known(last.text.trim().into()));
    }
}

/// Errors of NVSwitches as the fabric manager logs them: `detected NVSwitch non-fatal error 12028
/// on fid 0 on NVSwitch pci bus id 00000000:86:00.0 …`.
pub(super) fn fabric_manager(output: &Output, facts: &mut Facts, node: Id) {
    let mismatch = "don't match with driver version";
    let mut logged: Vec<(String, OutputLine<'_>)> = Vec::new();
    for line in output.lines() {
        let own = line.text.contains(mismatch).then(|| line.text.to_owned());
        logged.extend(as_sxid(line.text).or(own).map(|text| (text, line)));
    }
    if logged.is_empty() {
        return;
    }
    let mut told = Vec::with_capacity(logged.len());
    let mut lines: HashMap<String, OutputLine<'_>> = HashMap::new();
    for (text, line) in logged {
        told.push(json!({ "t": 0, "text": text }));
        lines.insert(text, line);
    }
    read(told, facts, node, |text| lines.get(text).copied());
}

/// The kernel's words for an error that the fabric manager logs.
fn as_sxid(logged: &str) -> Option<String> {
    let (kind, rest) = logged
        .split_once("detected NVSwitch ")?
        .1
        .split_once(" error ")?;
    let code: u64 = rest.split_whitespace().next()?.parse().ok()?;
    let address = rest
        .split_once("pci bus id ")?
        .1
        .split_whitespace()
        .next()?;
    // Its domain has eight digits, the kernel's four.
    let place = match address.split_at_checked(4) {
        Some(("0000", short)) if address.len() == 16 => short,
        _ => address,
    };
    let severity = if kind == "fatal" {
        "Fatal"
    } else {
        "Non-fatal"
    };
    Some(format!(
        "nvidia-nvswitch: SXid (PCI:{place}): {code:05}, {severity}, by the fabric manager"
    ))
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
