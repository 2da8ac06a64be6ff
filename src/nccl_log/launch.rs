//! Lines of launchers with the number of nodes of a job: their options, variables and lists of hosts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::left_out::LeftOut;
use crate::nodeset;

/// A launcher's line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The number of the line.
    pub line: u64,
    /// How many nodes.
    pub nodes: u64,
    /// The line.
    pub text: String,
}

/// Names of a number of nodes: torchrun's and DeepSpeed's, Slurm's, Lightning's, Accelerate's, MLPerf's.
const NUMBERS: [&str; 6] = [
    "nnodes",
    "NNODES",
    "num_nodes",
    "NUM_NODES",
    "num_machines",
    "number_of_nodes",
];

/// What a line must hold to be one.
pub(super) fn needles() -> impl Iterator<Item = &'static str> {
    NUMBERS
        .into_iter()
        .chain(["NODELIST", "WORLD INFO DICT", "mpirun "])
}

/// Options before a list of hosts, of Open MPI.
const LISTS: [&str; 3] = [" -H ", " --host ", " -host "];

/// Lines that are kept of a file.
const KEPT: usize = 32;
const TOO_MANY: &str = "more than 32 numbers of nodes";
/// Bytes that are kept of a line.
const TEXT: usize = 400;
/// More nodes than any job has.
const MOST: u64 = 1 << 16;

/// The number of nodes in the line.
fn nodes(line: &str) -> Option<u64> {
    let nodes = NUMBERS
        .iter()
        .find_map(|name| number(line, name))
        .or_else(|| {
            let (_, list) = line.split_once("NODELIST")?;
            hosts(list.trim_start_matches(['=', ':', ' ', '"', '\'']))
        })
        .or_else(|| {
            let (_, hosts) = line.split_once("WORLD INFO DICT")?;
            Some(hosts.matches("': [").count() as u64)
        })
        .or_else(|| {
            let (_, options) = line.split_once("mpirun ")?;
            // A space before the first option.
            let options = format!(" {options}");
            let list = LISTS.iter().find_map(|option| options.split_once(option));
            hosts(list?.1)
        });
    nodes.filter(|nodes| (1..=MOST).contains(nodes))
}

/// The number behind a name: `nnodes=2`, `--nnodes 2`, `"number_of_nodes":"1"`. A range such as `1:4` is none.
fn number(line: &str, name: &str) -> Option<u64> {
    let (before, rest) = line.split_once(name)?;
    let upper = name.starts_with(|c: char| c.is_ascii_uppercase());
    let is_named = match name {
        // Graphs and NUMA have such nodes too: it must be an option, or a field of one.
        "num_nodes" => before.ends_with(['-', '.']),
        // Slurm's variables have a word before the name.
        _ => !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' && !upper),
    };
    if !is_named {
        return None;
    }
    let value = rest.trim_start_matches(['=', ':', ' ', '\t', '"', '\'']);
    let end = value.find(|c: char| !c.is_ascii_digit());
    let (digits, after) = value.split_at(end.unwrap_or(value.len()));
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let range = after
        .strip_prefix([':', '-'])
        .is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit()));
    if rest.len() == value.len() || range || after.starts_with(goes_on) {
        return None;
    }
    digits.parse().ok()
}

/// How many hosts a list names: `n1:8,n2:8`, `n[1-2,7]`.
fn hosts(list: &str) -> Option<u64> {
    let list = list.split([' ', '"', '\'', ';']).next()?;
    let names = nodeset::expand(list).ok()?;
    // Open MPI has the number of slots behind a name.
    let host = |name: &String| name.split(':').next().map(str::to_owned);
    let hosts: BTreeSet<String> = names.iter().filter_map(host).collect();
    Some(hosts.len() as u64)
}

/// The statements of a log.
#[derive(Default)]
pub(super) struct Launches {
    kept: Vec<Launch>,
    /// Lines with further numbers of nodes.
    left_out: u64,
}

impl Launches {
    /// Whether the line is such a statement; then it is kept.
    pub(super) fn line(&mut self, number: u64, line: &[u8]) -> bool {
        let line = String::from_utf8_lossy(line.get(..line.len().min(1 << 14)).unwrap_or(line));
        let Some(nodes) = nodes(&line) else {
            return false;
        };
        // Each rank logs the same.
        if self.kept.iter().any(|other| other.nodes == nodes) {
            return true;
        }
        if self.kept.len() >= KEPT {
            self.left_out += 1;
            return true;
        }
        let text: String = line.trim().chars().take(TEXT).collect();
        self.kept.push(Launch {
            line: number,
            nodes,
            text,
        });
        true
    }

    /// All of them, in their order.
    pub(super) fn finish(self) -> Vec<Launch> {
        self.kept
    }

    /// What found no place.
    pub(super) fn left_out(&self) -> LeftOut {
        LeftOut::counted(self.left_out, "launcher's line", TOO_MANY)
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Launches, nodes};

    #[test]
    fn lines_that_found_no_place_are_counted() {
        let mut launches = Launches::default();
        for nodes in 1..=KEPT + 3 {
            let line = format!("torchrun --nnodes {nodes} train.py");
            assert!(launches.line(nodes as u64, line.as_bytes()));
            // Each rank logs the same.
            assert!(launches.line(nodes as u64, b"torchrun --nnodes 1 train.py"));
        }
        assert_eq!(
            launches.left_out().to_string(),
            "3 launcher's lines were not read (more than 32 numbers of nodes)"
        );
        assert_eq!(launches.finish().len(), KEPT);
    }

    #[test]
    fn what_launchers_say() {
        for (line, expected) in [
            ("nnodes=1, num_local_procs=2, node_rank=0", Some(1)),
            ("torchrun --nnodes 2 --nproc_per_node 8 x.py", Some(2)),
            ("torchrun --nnodes=1:4 x.py", None),
            ("SLURM_NNODES=4", Some(4)),
            ("SLURM_JOB_NUM_NODES=16", Some(16)),
            ("num_machines: 2", Some(2)),
            ("\"number_of_nodes\":\"1\",", Some(1)),
            ("num_gpus=3 num_sockets = 1 num_nodes=1", None),
            ("train.py --num_nodes 2", Some(2)),
            ("trainer.num_nodes=2", Some(2)),
            ("max_num_nodes=512", None),
            ("num_nodes=2708)", None),
            ("the nnodes option", None),
            ("nnodes=2x", None),
            ("SLURM_JOB_NODELIST=n[1-2,7]", Some(3)),
            ("SLURM_NODELIST=gpu-a,gpu-b[01-04],gpu-c", Some(6)),
            ("SLURM_JOB_NODELIST=n[1-", None),
            ("WORLD INFO DICT: {'n1': [0, 1], 'n2': [0, 1]}", Some(2)),
            ("mpirun -np 4 -H n1:2,n2:2 ./x", Some(2)),
            ("mpirun --host n1,n1,n2 ./x", Some(2)),
            ("SLURM_NODELIST=rack[1-2]n[1-4]", Some(8)),
            ("mpirun -np 4 ./x", None),
        ] {
            assert_eq!(nodes(line), expected, "{line}");
        }
    }
}
