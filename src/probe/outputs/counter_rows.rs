//! Counters that people print with a shell, or in tables of switches: rows of names and counts of which
//! no command tells whose they are.

use super::counters::{UNNAMED, count, snake};
use super::ports::port_of;
use super::self_tests::add;
use super::{Output, OutputLine};
use crate::fact::counter_table::meaning;
use crate::fact::tool_result::ToolResultKind;
use crate::fact::{Facts, Id};
use crate::tool_output;

/// Counters of what went wrong that are stated, of an output: who prints hundreds reads them.
const MOST: usize = 8;

/// Rows of names and counts: of a table's counter its meaning is known, of another one its name.
pub(super) fn rows(output: &Output, facts: &mut Facts, node: Id) {
    let mut stated = 0;
    for line in output.lines() {
        let Some(row) = tool_output::counter_row(line.text) else {
            continue;
        };
        let name = known_name(row.name);
        if meaning(&name).is_some() {
            let device = row.of.unwrap_or(UNNAMED);
            let (device, number) = device.split_once('/').unwrap_or((device, "1"));
            let port = port_of(facts, node, device, number.parse().unwrap_or(1));
            count(facts, port, &name, &row.count.to_string(), &line);
        } else if row.count > 0 && tool_output::counts_trouble(row.name) && stated < MOST {
            stated += 1;
            let about = match row.of {
                Some(of) => format!("{} of {of}", row.name),
                None => row.name.to_owned(),
            };
            state(facts, node, &about, (&line, row.count));
        }
    }
}

/// The name of a counter as the kernel writes it.
fn known_name(name: &str) -> String {
    let is_printed = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_uppercase());
    if is_printed {
        snake(name)
    } else {
        name.to_owned()
    }
}

/// Rows of a table in which most have none of a column.
pub(super) fn table(output: &Output, facts: &mut Facts, node: Id) {
    let mut lines = output.lines();
    let Some(heading) = lines.next() else {
        return;
    };
    let Some(table) = tool_output::counter_table(heading.text) else {
        return;
    };
    let rows: Vec<(OutputLine<'_>, Vec<(&str, u64)>)> = lines
        .filter_map(|line| {
            let counted = table.troubles(line.text)?;
            Some((line, counted))
        })
        .collect();
    let has = |column: &str, (_, counted): &&(OutputLine<'_>, Vec<(&str, u64)>)| {
        counted
            .iter()
            .any(|(name, count)| *name == column && *count > 0)
    };
    let mut stated = 0;
    for (line, counted) in &rows {
        for (column, count) in counted.iter().filter(|(_, count)| *count > 0) {
            // What all count is the load of the network, and no fault of one.
            let others = rows.iter().filter(|row| has(column, row)).count();
            if others * 2 > rows.len() && rows.len() > 1 || stated == MOST {
                continue;
            }
            stated += 1;
            let of = line.text.split_whitespace().next().unwrap_or_default();
            state(facts, node, &format!("{column} of {of}"), (line, *count));
        }
    }
}

/// The columns of /proc/net/dev that count what went wrong (net/core/net-procfs.c of Linux).
const OF_DEV: [(usize, &str); 4] = [
    (2, "received errors"),
    (5, "frame errors"),
    (10, "sent errors"),
    (14, "carrier losses"),
];

/// `ens1f1np1: 918273645 812731 4421 …` of /proc/net/dev, with or without its heading.
pub(super) fn interfaces(output: &Output, facts: &mut Facts, node: Id) {
    for line in output.lines() {
        let Some((name, counts)) = line.text.trim().split_once(':') else {
            continue;
        };
        let counts = counts.split_whitespace().map(|word| word.parse().ok());
        let Some(counts) = counts
            .collect::<Option<Vec<u64>>>()
            .filter(|all| all.len() == 16)
        else {
            continue;
        };
        for (column, what) in OF_DEV {
            if let Some(count) = counts.get(column).filter(|count| **count > 0) {
                state(facts, node, &format!("{name}: {what}"), (&line, *count));
            }
        }
    }
}

fn state(facts: &mut Facts, node: Id, about: &str, (line, count): (&OutputLine<'_>, u64)) {
    let kind = ToolResultKind::CountsTrouble;
    add(facts, node, kind, about, (line, &count.to_string()));
}
