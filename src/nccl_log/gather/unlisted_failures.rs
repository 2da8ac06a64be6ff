//! Lines that say that something failed, in words that no table has.

use std::collections::{HashMap, HashSet};

use super::kept_lines::Hashed;
use crate::nccl_log::digest::KeptLine;
use crate::tool_output::{self, Block};

/// Lines that are kept: the first tells the most, and a reader reads a few.
const MOST: usize = 32;

/// The first of them, in their order.
#[derive(Default)]
pub(super) struct UnlistedFailures {
    all: Vec<KeptLine>,
    by_identity: HashMap<u64, usize, Hashed>,
}

impl UnlistedFailures {
    /// Keeps a line, or counts it with an equal one.
    pub(super) fn add(&mut self, number: u64, identity: u64, text: &[u8]) {
        if let Some(at) = self.by_identity.get(&identity) {
            if let Some(kept) = self.all.get_mut(*at) {
                kept.last = number;
                kept.count += 1;
            }
        } else if self.all.len() < MOST {
            self.by_identity.insert(identity, self.all.len());
            self.all.push(KeptLine {
                line: number,
                last: number,
                count: 1,
                processes: 1,
                text: String::from_utf8_lossy(text).into_owned(),
            });
        }
    }

    /// Those that do not stand in an output of a tool that is read as its output.
    pub(super) fn outside(self, blocks: &[Block]) -> Vec<KeptLine> {
        let read = blocks.iter().filter(|block| has_reader(block));
        let lines = read.flat_map(|block| &block.lines);
        let of_tools: HashSet<u64> = lines.map(|(number, _)| *number).collect();
        let mut all = self.all;
        all.retain(|kept| !of_tools.contains(&kept.line));
        all
    }
}

/// Whether something reads all that the tool prints. Benchmarks are read from the marks of their
/// tables on.
fn has_reader(block: &Block) -> bool {
    block.tool() == "log"
        || tool_output::is_read(&block.argv) && !tool_output::runs_benchmark(&block.argv)
}
