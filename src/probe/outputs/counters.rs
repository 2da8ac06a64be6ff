//! Counters of ports and the devices themselves, as perfquery(8) and ibv_devices(1) print them.

use super::ports::port_of;
use super::self_tests::add;
use super::{Output, OutputLine};
use crate::fact::counter;
use crate::fact::counter_table::meaning;
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Fact, Facts, Id, Subject, node as of_node, port};
use crate::probe::counter::instance;
use crate::probe::driver::fabric;

/// A counter of the table; what it does not have is not judged.
pub(super) fn count(facts: &mut Facts, port: Id, name: &str, value: &str, line: &OutputLine<'_>) {
    if let Some(meaning) = meaning(name) {
        let id = instance(facts, port, name, &meaning, line.known(name.into()));
        let value: Fact<u64> = line.read(value.parse().ok());
        // Counters of several ports that nobody named are no two looks at one.
        let is_named = facts
            .parent(port)
            .is_some_and(|of| !facts.name(of).starts_with(UNNAMED));
        let before = facts.known(id, counter::VALUE).filter(|_| is_named);
        if let (Some(before), Fact::Known(value, _)) = (before, &value) {
            // The two looks are lines of their own.
            let known = facts.get(id, counter::VALUE);
            let is_again = !matches!(known, Fact::Known(_, origin) if origin == line.origin());
            let is_still = *value == before && name == "port_xmit_data" && before > 0;
            if is_again
                && is_still
                && let Some(node) = facts.ancestor(port, Subject::Node)
            {
                let about = facts.name(port).to_owned();
                add(
                    facts,
                    node,
                    ToolResultKind::NothingSent,
                    &about,
                    (line, name),
                );
            }
            let rose = value.checked_sub(before).filter(|rose| *rose > 0);
            facts.set(id, counter::ROSE, line.read(rose));
        }
        let saturated = value.clone().map(|value| meaning.is_saturated(value));
        facts.set(id, counter::SATURATED, saturated);
        facts.set(id, counter::VALUE, value);
    }
}

/// `/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:12`, as `grep . FILES` prints it.
pub(super) fn files(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        if let Some((path, value)) = line.text.trim().split_once(':') {
            file(path, value, &line, facts, node);
        }
    }
}

/// The same of `cat FILES`: a line each. In a loop the last ones are another look, unless other
/// commands printed some of the lines.
pub(super) fn shown_files(output: &Output, facts: &mut Facts, node: Id) {
    let operands = output.argv.get(1..).unwrap_or_default();
    let lines: Vec<OutputLine<'_>> = output.lines().collect();
    if operands.iter().any(|path| &**path == fabric::PARAMETERS) {
        for line in &lines {
            if let Some(Ok(disabled)) = fabric::disables_nvlink(line.text) {
                facts.set(node, of_node::NVLINK_DISABLED, line.known(disabled));
            }
        }
    }
    let is_look = |from: &usize| !output.is_cut && *from >= operands.len();
    let last = lines.len().checked_sub(operands.len()).filter(is_look);
    for from in [Some(0), last].into_iter().flatten() {
        for (path, line) in operands.iter().zip(lines.iter().skip(from)) {
            file(path, line.text.trim(), line, facts, node);
        }
    }
}

fn file(path: &str, value: &str, line: &OutputLine<'_>, facts: &mut Facts, node: Id) {
    let Some(below) = path.strip_prefix("/sys/class/infiniband/") else {
        return;
    };
    let [device, "ports", number, _, name] = below.split('/').collect::<Vec<_>>()[..] else {
        return;
    };
    if let (Ok(number), Some(_)) = (number.parse(), meaning(name)) {
        let port = port_of(facts, node, device, number);
        count(facts, port, name, value, line);
    }
}

/// What has counters of which nothing says whose they are.
pub(super) const UNNAMED: &str = "unnamed";

/// `SymbolErrorCounter:..............12` of the port that the command names, or that has this LID.
/// Switches and other hosts can be asked as well: a port of which no more is known is named by its
/// LID.
pub(super) fn perfquery(output: &Output, facts: &mut Facts, node: Id) {
    let asked = asked_port(output, facts, node);
    let mut at: Option<Id> = asked;
    for line in output.lines() {
        let text = line.text.trim();
        if text.starts_with("# Port") && text.contains(": Lid ") {
            if asked.is_none() {
                at = port_of_heading(facts, node, text);
            }
        } else if let Some((printed, value)) = text.split_once(":..") {
            let counter = snake(printed);
            // What follows the first mark may be of no table that is read.
            if meaning(&counter).is_some() {
                let port = *at.get_or_insert_with(|| port_of(facts, node, UNNAMED, 1));
                count(facts, port, &counter, value.trim_start_matches('.'), &line);
            }
        }
    }
}

/// The port of `-C DEVICE` and `-P PORT`.
fn asked_port(output: &Output, facts: &mut Facts, node: Id) -> Option<Id> {
    let device = option(output, "-C", "--Ca")?;
    let number = option(output, "-P", "--Port").and_then(|number| number.parse().ok());
    Some(port_of(facts, node, device, number.unwrap_or(1)))
}

/// The value of an option of the command.
pub(super) fn option<'o>(output: &'o Output, short: &str, long: &str) -> Option<&'o str> {
    let mut rest = output
        .argv
        .iter()
        .skip_while(|arg| ***arg != *short && ***arg != *long);
    rest.nth(1).map(|value| &**value)
}

/// The port of `# Port counters: Lid 12 port 1 (CapMask: 0x1400)`.
fn port_of_heading(facts: &mut Facts, node: Id, text: &str) -> Option<Id> {
    let (_, rest) = text.split_once(": Lid ")?;
    let lid: u64 = rest.split(' ').next()?.parse().ok()?;
    let is_it = |port: &Id| facts.known(*port, port::LID) == Some(lid);
    if let Some(known) = facts.below(node, Subject::Port).find(is_it) {
        return Some(known);
    }
    let number = rest
        .split_once(" port ")
        .and_then(|(_, rest)| rest.split(' ').next());
    // All ports of a switch are summed up as 255.
    let number = number.and_then(|number| number.parse().ok()).unwrap_or(1);
    Some(port_of(facts, node, &format!("LID {lid}"), number))
}

/// `PortXmitWait` as the kernel writes it: `port_xmit_wait`.
pub(super) fn snake(name: &str) -> String {
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
