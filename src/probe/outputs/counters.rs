//! Counters of ports and the devices themselves, as perfquery(8) and ibv_devices(1) print them.

use super::{Output, OutputLine};
use crate::fact::counter;
use crate::fact::counter_table::meaning;
use crate::fact::{Fact, Facts, Id, Subject, port};
use crate::probe::counter::instance;

/// A counter of the table; what it does not have is not judged.
pub(super) fn count(facts: &mut Facts, port: Id, name: &str, value: &str, line: &OutputLine<'_>) {
    if let Some(meaning) = meaning(name) {
        let id = instance(facts, port, name, &meaning, line.known(name.into()));
        let value: Fact<u64> = line.read(value.parse().ok());
        let saturated = value.clone().map(|value| meaning.is_saturated(value));
        facts.set(id, counter::SATURATED, saturated);
        facts.set(id, counter::VALUE, value);
    }
}

/// `SymbolErrorCounter:..............12` of the port that has this LID here; switches and other hosts can be asked as well.
pub(super) fn perfquery(output: &Output, facts: &mut Facts, node: Id) {
    let mut at: Option<Id> = None;
    for line in output.lines() {
        let text = line.text.trim();
        if text.starts_with("# Port ") {
            let lid = text
                .split_once(": Lid ")
                .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
            let is_it = |port: &Id| lid.is_some() && facts.known(*port, port::LID) == lid;
            at = facts.below(node, Subject::Port).find(is_it);
        } else if let (Some(port), Some((name, value))) = (at, text.split_once(':')) {
            count(
                facts,
                port,
                &snake(name),
                value.trim_start_matches('.'),
                &line,
            );
        }
    }
}

/// `PortXmitWait` as the kernel writes it: `port_xmit_wait`.
fn snake(name: &str) -> String {
    let name = name.strip_suffix("Counter").unwrap_or(name);
    if let Some(rest) = name.strip_prefix("VL15") {
        return format!("VL15_{}", rest.to_lowercase());
    }
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// The names of `ibv_devices`, each with its GUID.
pub(super) fn devices(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let words: Vec<&str> = line.text.split_whitespace().collect();
        if let [name, guid] = words.as_slice()
            && guid.len() == 16
            && guid.bytes().all(|b| b.is_ascii_hexdigit())
        {
            facts.instance(Subject::Device, node, name);
        }
    }
}
