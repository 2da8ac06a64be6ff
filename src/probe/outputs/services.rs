//! Services, as `systemctl status` prints them.

use super::{Output, OutputLine};
use crate::fact::{Facts, Id, Subject, node as of_node, service};
use crate::probe;

/// `● openibd.service - …`, and below it `Loaded:` and `Active:`. What is not so may be so on the host whose container was asked.
pub(super) fn systemctl(output: &Output, facts: &mut Facts, node: Id) {
    let mut at: Option<(Id, &str)> = None;
    for line in output.lines() {
        let text = line.text.trim();
        let unit = text
            .trim_start_matches(['●', '○', '×', '*', '↻', ' '])
            .split(' ')
            .next();
        if let Some(unit) = unit.filter(|unit| unit.ends_with(".service") && !text.contains(": ")) {
            let name = probe::service::of_unit(unit);
            at = name.map(|name| (facts.instance(Subject::Service, node, name), unit));
            if let Some((id, _)) = at {
                facts.set(id, service::NAME, line.known(facts.name(id).into()));
            }
            continue;
        }
        let (Some((id, unit)), Some((key, value))) = (at, text.split_once(": ")) else {
            continue;
        };
        let state = value.split(" since ").next().unwrap_or(value);
        match key {
            "Loaded" if value.contains("; enabled") => {
                facts.set(id, service::ENABLED, line.known(true))
            }
            "Active" => {
                facts.set(
                    id,
                    service::STATE,
                    line.known(format!("{unit}: {state}").into()),
                );
                if state.starts_with("failed") {
                    facts.set(id, service::FAILED, line.known(true));
                }
                if state.starts_with("active") {
                    facts.set(id, service::ACTIVE, line.known(true));
                }
            }
            _ => {}
        }
    }
}

/// `System clock synchronized: no`, as timedatectl(1) prints it of a clock that nobody sets.
pub(super) fn clock(output: &Output, facts: &mut Facts, node: Id) {
    // A clock that chronyd or PTP sets is not always told to the kernel.
    let is_set = line_of(output, "NTP service").is_some_and(|(_, state)| state == "active");
    match line_of(output, "System clock synchronized") {
        Some((line, "yes")) => facts.set(node, of_node::CLOCK_SYNCHRONISED, line.known(true)),
        Some((line, "no")) if !is_set => {
            facts.set(node, of_node::CLOCK_SYNCHRONISED, line.known(false));
        }
        _ => {}
    }
}

/// `Leap status     : Not synchronised`, as `chronyc tracking` prints it of a clock that follows no
/// source.
pub(super) fn chrony(output: &Output, facts: &mut Facts, node: Id) {
    if let Some((line, state)) = line_of(output, "Leap status") {
        let is_set = state != "Not synchronised";
        facts.set(node, of_node::CLOCK_SYNCHRONISED, line.known(is_set));
    }
}

/// `^? ntp1`: of the sources that `chronyc sources` lists none is selected (`*`).
pub(super) fn sources(output: &Output, facts: &mut Facts, node: Id) {
    let is_source = |line: &OutputLine<'_>| {
        let mut signs = line.text.chars();
        signs.next().is_some_and(|sign| "^=#".contains(sign))
            && signs.next().is_some_and(|sign| "*+-?x~".contains(sign))
    };
    let sources: Vec<OutputLine<'_>> = output.lines().filter(is_source).collect();
    if let Some(first) = sources.first() {
        let is_set = sources.iter().any(|line| line.text.get(1..2) == Some("*"));
        facts.set(node, of_node::CLOCK_SYNCHRONISED, first.known(is_set));
    }
}

/// The line of this name, with its value.
fn line_of<'o>(output: &'o Output, name: &str) -> Option<(OutputLine<'o>, &'o str)> {
    output.lines().find_map(|line| {
        let (key, value) = line.text.trim().split_once(": ")?;
        (key.trim() == name).then_some((line, value.trim()))
    })
}
