//! Facts from the output of other tools that is in a log: results of benchmarks, and nodes of which nothing else is known.

mod benchmark;
mod devices;
pub(in crate::probe) mod kernel;
pub(in crate::probe) mod matrix;
pub(in crate::probe) mod ports;
#[cfg(test)]
mod tests;

pub(super) use devices::listed_hosts;

use std::sync::Arc;

use super::File;
use crate::fact::{Fact, Facts, Gap, Id, LogLine, Membership, Origin, Subject, Why, node};
use crate::nccl_log::pasted::{PasteCollector, Tool};

/// A line of a block, with what it proves.
#[derive(Clone, Copy)]
pub(in crate::probe) struct PastedLine<'p> {
    file: &'p Arc<str>,
    number: u64,
    pub(in crate::probe) text: &'p str,
}

impl PastedLine<'_> {
    /// The line itself.
    pub(in crate::probe) fn origin(&self) -> Origin {
        Origin::Logged(Arc::new(LogLine {
            file: Arc::clone(self.file),
            line: self.number,
            text: self.text.trim().into(),
        }))
    }

    /// A value that the line says.
    pub(in crate::probe) fn known<T>(&self, value: T) -> Fact<T> {
        Fact::Known(value, self.origin())
    }

    /// A value, or that the line is not understood.
    pub(in crate::probe) fn read<T>(&self, value: Option<T>) -> Fact<T> {
        match value {
            Some(value) => self.known(value),
            None => Fact::Unknown(Gap {
                why: Why::NotUnderstood("the line is not understood".into()),
                origin: self.origin(),
            }),
        }
    }
}

/// The lines of a block.
pub(in crate::probe) fn places<'p>(
    file: &'p Arc<str>,
    lines: &'p [(u64, String)],
) -> impl Iterator<Item = PastedLine<'p>> + Clone {
    lines.iter().map(move |(number, text)| PastedLine {
        file,
        number: *number,
        text,
    })
}

/// States what other tools' output says.
pub(super) fn state(files: &[File], missing: &Option<Gap>, origin: &Origin, facts: &mut Facts) {
    let members = match missing {
        Some(gap) => Membership::Unknown(gap.clone()),
        None => Membership::Known(origin.clone()),
    };
    facts.set_members(Subject::Benchmark, Facts::CLUSTER, members);
    let origin = Origin::derived("a log was given, and no node");
    let members = match missing {
        Some(gap) => Membership::Unknown(gap.clone()),
        None => Membership::Known(origin),
    };
    facts.set_members(Subject::Node, Facts::CLUSTER, members);
    // One host's output in one file is of one node, until a tool says a second time what it said.
    let mut nodes: Vec<(&Arc<str>, &str, Vec<Tool>, Id)> = Vec::new();
    for (file, digest) in files {
        for paste in &digest.pasted {
            match paste.tool {
                Tool::NcclTests | Tool::AllReduceBench | Tool::Perftest => {
                    if let Some(id) = benchmark::state(file, paste, facts) {
                        devices::state(file, &digest.pasted, paste, facts, id);
                    }
                    continue;
                }
                Tool::NcclTestsRanks => continue,
                _ => {}
            }
            let mut of_file = nodes.iter_mut().rev().take_while(|(of, ..)| *of == file);
            let of_node = of_file.find(|(_, before, tools, _)| {
                *before == paste.before && !tools.contains(&paste.tool)
            });
            let id = match of_node {
                Some((.., tools, id)) => {
                    if paste.tool != Tool::TopoP2p {
                        tools.push(paste.tool);
                    }
                    *id
                }
                None => {
                    let id = new_node(facts, file, paste, nodes.len());
                    nodes.push((file, &paste.before, vec![paste.tool], id));
                    id
                }
            };
            match paste.tool {
                Tool::TopoMatrix | Tool::TopoP2p => matrix::state(file, paste, facts, id),
                Tool::KernelLog => kernel::state(file, paste, facts, id),
                Tool::ShowGids => ports::gids(file, paste, facts, id),
                _ => ports::state(file, paste, facts, id),
            }
        }
    }
    for (.., id) in nodes {
        ports::odd(facts, id);
    }
}

fn new_node(facts: &mut Facts, file: &str, paste: &PasteCollector, count: usize) -> Id {
    let before = paste.before.trim_matches(|c: char| !c.is_alphanumeric());
    let line = paste.lines.first().map_or(0, |(number, _)| *number);
    let mut name = match before {
        "" => format!("pasted at {}", super::place_in_words(file, line)),
        host => format!("pasted of {host}"),
    };
    if facts.find(Subject::Node, Facts::CLUSTER, &name).is_some() {
        name = format!("{name} ({})", count + 1);
    }
    let id = facts.new_node(&name);
    let place = places_first(paste);
    facts.set(
        id,
        node::PASTED,
        Fact::derived(
            true,
            format!("{}: output of a tool", super::place(file, place)),
        ),
    );
    id
}

fn places_first(paste: &PasteCollector) -> u64 {
    paste.lines.first().map_or(0, |(number, _)| *number)
}
