//! The ranks of nccl-tests, which it prints before its table.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fact::benchmark as fact;
use crate::fact::{Fact, Facts, Id};
use crate::probe::outputs::output_line::{OutputLine, lines};
use crate::tool_output::Block;

/// The second word of such a list.
pub(super) const LIST: &str = "nccl-tests-ranks";

/// States the ranks of a table: those of the last list before it.
pub(super) fn state(file: &Arc<str>, all: &[Block], table: &Block, facts: &mut Facts, id: Id) {
    let begins = |block: &Block| block.lines.first().map(|(number, _)| *number);
    let before = || {
        let same = all.iter().filter(|block| block.host == table.host);
        same.filter(|block| begins(block) < begins(table))
    };
    let lists = || before().filter(|block| block.is_benchmark(LIST));
    // Each job has a rank 0: several of them before one table did not join.
    let last_table = before().filter(|block| block.is_benchmark("nccl-tests"));
    let last_table = last_table.filter_map(begins).max();
    let of_table = lists().filter(|list| begins(list) > last_table);
    let jobs: Vec<_> = of_table.flat_map(|list| jobs(file, list)).collect();
    if table.is_benchmark("nccl-tests") {
        let how = "lines of ranks 0 before the table";
        let count = jobs.len() as u64;
        let count = jobs
            .first()
            .map_or(Fact::derived(count, how), |line| line.known(count));
        facts.set(id, fact::JOBS, count);
    }
    let list = lists().max_by_key(|block| begins(block));
    let Some(list) = list.filter(|list| table.is_benchmark("nccl-tests") && !list.is_cut) else {
        return;
    };
    if jobs.len() > 1 {
        return;
    }
    let mut first = None;
    let (mut ranks, mut hosts, mut models) = (0, BTreeSet::new(), BTreeSet::new());
    for line in lines(file, &list.lines) {
        if let Some((host, model)) = device(line.text) {
            first.get_or_insert(line);
            ranks += 1;
            hosts.insert(host);
            models.insert(model);
        }
    }
    let Some(first) = first else {
        return;
    };
    facts.set(id, fact::RANKS, first.known(ranks));
    facts.set(id, fact::HOSTS, first.known(hosts.len() as u64));
    let models: Vec<&str> = models.into_iter().collect();
    facts.set(id, fact::GPUS, first.known(models.join(", ").into()));
}

/// The lines of ranks 0 in a list: each job has one.
pub(super) fn jobs<'p>(file: &'p Arc<str>, list: &'p Block) -> Vec<OutputLine<'p>> {
    let of_list = list.is_benchmark(LIST);
    let all = lines(file, &list.lines).filter(|line| of_list && is_first(line.text));
    all.collect()
}

/// The hosts of a list of ranks.
pub(super) fn listed_hosts(list: &Block) -> BTreeSet<&str> {
    let devices = list.lines.iter().filter_map(|(_, text)| device(text));
    devices.map(|(host, _)| host).collect()
}

/// Whether the line is of the first rank of a job, and of its first group.
fn is_first(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().take(5).collect();
    matches!(
        words.as_slice(),
        ["#", "Rank", "0", "Group", "0", ..] | ["#", "Rank", "0", "Pid", ..]
    )
}

/// The host and the GPU's model: `#  Rank  0 Group  0 Pid 1240 on node1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB` (nccl-tests, common.cu).
fn device(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once(" Pid ")?;
    let (_, rest) = rest.split_once(" on ")?;
    let (host, rest) = rest.trim_start().split_once(" device ")?;
    let (_, model) = rest.split_once("] ")?;
    Some((host.trim(), model.trim()))
}

#[cfg(test)]
mod tests {
    use super::device;

    #[test]
    fn the_forms_of_several_versions() {
        for (text, host, model) in [
            (
                "#  Rank  0 Group  0 Pid 124021 on      node1 device  0 [0000:07:00] NVIDIA A100-SXM4-80GB",
                "node1",
                "NVIDIA A100-SXM4-80GB",
            ),
            (
                "#   Rank  3 Pid   9951 on ip-172-31-4-8 device  3 [0x07] Tesla V100-SXM2-32GB",
                "ip-172-31-4-8",
                "Tesla V100-SXM2-32GB",
            ),
            (
                "#   Rank  0 Pid 3511 on frontier00012 device  0 [0000:c1:00.0] AMD Instinct MI250X",
                "frontier00012",
                "AMD Instinct MI250X",
            ),
        ] {
            assert_eq!(device(text), Some((host, model)));
        }
        assert_eq!(device("#"), None);
        assert_eq!(device("# Rank 0 on device"), None);
    }
}
