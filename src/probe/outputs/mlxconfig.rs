//! Settings of an adapter's firmware, as `mlxconfig -e query` prints them: in force, and after the
//! next reset.

use super::counters::option;
use super::mlxlink::device_name;
use super::{Output, OutputLine};
use crate::fact::{Facts, Id, Subject, device};

/// States the settings of each device that change with its next reset, where both are printed.
pub(super) fn state_settings(output: &Output, facts: &mut Facts, node: Id) {
    let mut device = option(output, "-d", "--dev").map(str::to_owned);
    let mut table: Option<Settings<'_>> = None;
    for line in output.lines() {
        let text = line.text.trim();
        if let Some(named) = text.strip_prefix("Device:") {
            device = Some(named.trim().to_owned());
        } else if text.starts_with("Configurations:") {
            let has_both = text.contains("Current") && text.contains("Next Boot");
            table = has_both.then(|| Settings {
                heading: line,
                pending: Vec::new(),
            });
        } else if text.starts_with("Device #") {
            state_table(facts, node, device.as_deref(), table.take());
        } else if let Some(settings) = &mut table {
            settings.pending.extend(pending_setting(text));
        }
    }
    state_table(facts, node, device.as_deref(), table);
}

/// A table of settings, with those that change.
struct Settings<'o> {
    heading: OutputLine<'o>,
    pending: Vec<String>,
}

fn state_table(facts: &mut Facts, node: Id, device: Option<&str>, table: Option<Settings<'_>>) {
    if let (Some(asked), Some(settings)) = (device, table) {
        let name = device_name(facts, node, asked);
        let id = facts.instance(Subject::Device, node, &name);
        let mut said = settings.pending.join("; ");
        if said.is_empty() {
            said.push_str("none");
        }
        facts.set(
            id,
            device::PENDING_SETTINGS,
            settings.heading.known(said.into()),
        );
    }
}

/// `* LINK_TYPE_P1  IB(1)  IB(1)  ETH(2)`: default, in force, after the next reset.
fn pending_setting(text: &str) -> Option<String> {
    let mut words = text.trim_start_matches('*').split_whitespace();
    let (setting, _default) = (words.next()?, words.next()?);
    let (current, next) = (words.next()?, words.next()?);
    let is_row = words.next().is_none() && current != next;
    is_row.then(|| format!("{setting} is {current}, and {next} after the next reset"))
}
