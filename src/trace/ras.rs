//! What NCCL's RAS says of a job's communicators: the text and the JSON that `ncclras` prints
//! (NCCL's user guide, "RAS"; `src/ras/client_support.cc` of 2.24 to 2.32).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TraceError;
use super::tree::{self, Node, Place, Tree};

/// Communicators that are kept.
const COMMUNICATORS: usize = 4096;
/// Ranks that are named for one number of operations.
const NAMED: usize = 64;
/// Different numbers of operations of one kind that are kept.
const COUNTS: usize = 64;
/// Missing ranks that are kept of a communicator.
const MISSING: usize = 4096;
/// Letters that are kept of a host's name.
const NAME: usize = 120;

/// The status of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RasStatus {
    /// NCCL's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
    /// Its communicators.
    pub communicators: Vec<Communicator>,
    /// Whether a rank is still initialising a communicator, or ends one: counts differ then by right.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_transition: bool,
}

/// A communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Communicator {
    /// Its hash, as NCCL's log has it.
    pub hash: String,
    /// How many ranks it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How many ranks launched how many operations of each kind.
    pub counts: Vec<RankCounts>,
    /// Ranks that did not answer.
    pub missing: Vec<MissingRank>,
}

/// Ranks that launched the same number of operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankCounts {
    /// `AllReduce`; empty before NCCL 2.26, which counts all kinds together.
    pub operation: String,
    /// The number of the last operation.
    pub launched: u64,
    /// How many ranks.
    pub ranks: u64,
    /// These, as far as they are named.
    pub named: Vec<RankPlace>,
}

/// A rank, and where it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlace {
    /// Its number in the communicator.
    pub rank: u64,
    /// Its node, as RAS calls it.
    pub host: String,
    /// Its process.
    pub pid: u64,
}

/// A rank that did not answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MissingRank {
    /// Where it ran, as far as that is told.
    pub place: RankPlace,
    /// Whether RAS gave it up.
    pub is_dead: bool,
    /// Whether its process did not answer; else it may have left the communicator.
    pub is_unresponsive: bool,
}

/// Reads the JSON form.
pub(super) fn of_json(bytes: &[u8]) -> Result<RasStatus, TraceError> {
    let tree = match tree::of_json(bytes) {
        Err(TraceError::Json(why)) => {
            let repaired = with_commas(&String::from_utf8_lossy(bytes));
            tree::of_json(repaired.as_bytes()).map_err(|_| TraceError::Json(why))?
        }
        other => other?,
    };
    let all = tree.get(tree.root, "communicators");
    let all = all.ok_or(TraceError::Lacks("communicators"))?;
    let mut status = RasStatus {
        nccl: tree.text(tree.root, "nccl_version").map(shortened),
        ..RasStatus::default()
    };
    for place in tree.list(all).iter().take(COMMUNICATORS) {
        add_communicator(&tree, *place, &mut status);
    }
    Ok(status)
}

/// NCCL 2.28.9 leaves out the comma behind the last member before `"status"` of a missing rank.
fn with_commas(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        repaired.push_str(line);
        let ends_value = line
            .trim_end()
            .ends_with(|last: char| last.is_alphanumeric() || last == '"');
        let begins_member = lines
            .peek()
            .is_some_and(|next| next.trim_start().starts_with('"') && next.contains("\":"));
        if ends_value && begins_member {
            repaired.push(',');
        }
        repaired.push('\n');
    }
    repaired
}

fn add_communicator(tree: &Tree, place: Place, status: &mut RasStatus) {
    let mut communicator = Communicator {
        hash: shortened(tree.text(place, "hash").unwrap_or_default()),
        size: count(tree, place, "size"),
        ..Communicator::default()
    };
    let mut counts: BTreeMap<(String, u64), RankCounts> = BTreeMap::new();
    for rank in members(tree, place, "ranks") {
        if let Some(state) = tree.get(*rank, "status") {
            let is_ending = tree.flag(state, "finalize_called") == Some(true);
            let is_beginning = tree
                .number(state, "init_state")
                .is_some_and(|state| state != 0);
            status.in_transition |= is_ending || is_beginning;
        }
        let Some(launched) = tree.get(*rank, "collective_counts") else {
            continue;
        };
        for (operation, number) in tree.pairs(launched) {
            let Node::Number(number) = tree.node(number) else {
                continue;
            };
            let number = number.unsigned_abs();
            let key = (shortened(operation), number);
            if counts.len() >= COUNTS * 8 && !counts.contains_key(&key) {
                continue;
            }
            let same = counts.entry(key.clone()).or_insert_with(|| RankCounts {
                operation: key.0,
                launched: number,
                ..RankCounts::default()
            });
            same.ranks += 1;
            if same.named.len() < NAMED {
                same.named.push(rank_place(tree, *rank));
            }
        }
    }
    communicator.counts = counts.into_values().collect();
    for rank in members(tree, place, "missing_ranks").iter().take(MISSING) {
        let state = tree.get(*rank, "status").unwrap_or(*rank);
        communicator.missing.push(MissingRank {
            place: rank_place(tree, *rank),
            is_dead: tree.flag(state, "considered_dead") == Some(true),
            is_unresponsive: tree.flag(state, "unresponsive") == Some(true),
        });
    }
    status.communicators.push(communicator);
}

fn members<'t>(tree: &'t Tree, place: Place, key: &str) -> &'t [Place] {
    tree.get(place, key).map_or(&[], |list| tree.list(list))
}

fn count(tree: &Tree, place: Place, key: &str) -> Option<u64> {
    tree.number(place, key)
        .and_then(|number| number.try_into().ok())
}

fn rank_place(tree: &Tree, rank: Place) -> RankPlace {
    RankPlace {
        rank: count(tree, rank, "rank").unwrap_or(0),
        host: shortened(tree.text(rank, "host").unwrap_or_default()),
        pid: count(tree, rank, "pid").unwrap_or(0),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(NAME).collect()
}

/// Reads the text form: the table of communicators, and what stands of each below it.
pub(super) fn of_text(text: &str) -> Result<RasStatus, TraceError> {
    let mut reader = TextReader::default();
    for line in text.lines() {
        reader.line(line);
    }
    if !reader.has_table {
        return Err(TraceError::Cut);
    }
    Ok(reader.status)
}

#[derive(Default)]
struct TextReader {
    status: RasStatus,
    has_table: bool,
    /// Ranks of each communicator of a group of the table.
    sizes: BTreeMap<u64, u64>,
    /// The communicator of which the lines are.
    current: Option<usize>,
    operation: String,
    /// Processes that are dead, or did not answer, by process and host.
    is_dead: bool,
    lost: Vec<(RankPlace, bool)>,
}

impl TextReader {
    fn line(&mut self, line: &str) {
        let line = line.trim();
        if let Some(version) = line.strip_prefix("NCCL version ") {
            self.status.nccl = version.split_whitespace().next().map(shortened);
        } else if line == "DEAD" || line == "INCOMPLETE" {
            self.is_dead = line == "DEAD";
            self.current = None;
        } else if let Some(rest) = line.strip_prefix('#') {
            self.begin(rest);
        } else if let Some(rest) = line.strip_prefix("Communicator ranks have different ") {
            self.operation = rest
                .strip_suffix(" operation counts")
                .map_or(String::new(), |kind| {
                    if kind == "collective" {
                        String::new()
                    } else {
                        shortened(kind)
                    }
                });
            self.status.in_transition |= rest.starts_with("status");
        } else if let Some(rest) = line.strip_prefix("Process ") {
            self.process(rest);
        } else if let Some(rest) = line.strip_prefix("The missing rank") {
            self.missing(rest);
        } else if let Some(rest) = line.strip_prefix("Rank ") {
            self.rank(rest);
        } else {
            self.ranks(line);
            self.row(line);
        }
    }

    /// `0         1          2         4         8         8  RUNNING  MISMATCH`
    fn row(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("Group ") {
            self.has_table = true;
        }
        let [group, _, _, _, ranks, _, state, _] = words.as_slice() else {
            return;
        };
        if let (Ok(group), Ok(ranks)) = (group.parse(), ranks.parse())
            && self.has_table
        {
            self.sizes.insert(group, ranks);
            self.status.in_transition |= matches!(*state, "INIT" | "FINALIZE" | "ABORT");
        }
    }

    /// `0-0 (78db921d1c117b4a) MISMATCH`
    fn begin(&mut self, rest: &str) {
        let group = rest.split('-').next().and_then(|group| group.parse().ok());
        let hash = rest
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once(')'));
        let Some((hash, _)) = hash else {
            return;
        };
        self.operation = String::new();
        let all = &mut self.status.communicators;
        let known = all.iter().position(|one| one.hash == hash);
        self.current = known.or_else(|| {
            if all.len() >= COMMUNICATORS {
                return None;
            }
            all.push(Communicator {
                hash: shortened(hash),
                size: group.and_then(|group: u64| self.sizes.get(&group).copied()),
                ..Communicator::default()
            });
            Some(all.len() - 1)
        });
    }

    fn add(&mut self, launched: u64, ranks: u64) {
        let Some(communicator) = self.current.map(|at| &mut self.status.communicators[at]) else {
            return;
        };
        if communicator.counts.len() < COUNTS {
            communicator.counts.push(RankCounts {
                operation: self.operation.clone(),
                launched,
                ranks,
                named: Vec::new(),
            });
        }
    }

    /// `7 ranks have launched up to operation 64`
    fn ranks(&mut self, line: &str) {
        let Some((count, rest)) = line.split_once(" ranks have ") else {
            return;
        };
        if let (Ok(count), Some(launched)) = (count.parse(), launched(rest)) {
            self.add(launched, count);
        }
    }

    /// `7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1`, or one
    /// of the ranks that the line before counts.
    fn rank(&mut self, rest: &str) {
        let (said, place) = rest.split_once(" -- ").unwrap_or((rest, ""));
        let (number, said) = said.split_once(' ').unwrap_or((said, ""));
        let Ok(rank) = number.parse() else {
            return;
        };
        if let Some(launched) = said.strip_prefix("has ").and_then(launched) {
            self.add(launched, 1);
        }
        let mut place = process_on_node(place.split_once("process ").map_or("", |(_, rest)| rest));
        place.rank = rank;
        let communicator = self.current.map(|at| &mut self.status.communicators[at]);
        let counted = communicator.and_then(|communicator| communicator.counts.last_mut());
        if let Some(counted) = counted.filter(|counted| counted.named.len() < NAMED) {
            counted.named.push(place);
        }
    }

    /// `3487984 on node 172.16.64.213 managing GPU 5`
    fn process(&mut self, rest: &str) {
        if self.lost.len() < MISSING {
            self.lost.push((process_on_node(rest), self.is_dead));
        }
    }

    /// `: 21`, `s: 3, 5`
    fn missing(&mut self, rest: &str) {
        let Some(at) = self.current else {
            return;
        };
        let numbers = rest.split(|letter: char| !letter.is_ascii_digit());
        let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
        for (place, rank) in numbers.iter().take(MISSING).enumerate() {
            // Where one process and one rank are missing, the process is the rank's.
            let process = (self.lost.len() == numbers.len()).then(|| &self.lost[place]);
            let is_dead = !self.lost.is_empty() && self.lost.iter().all(|(_, is_dead)| *is_dead);
            let mut missing = MissingRank {
                is_dead,
                is_unresponsive: true,
                ..MissingRank::default()
            };
            if let (Some((place, _)), 1) = (process, numbers.len()) {
                missing.place = place.clone();
            }
            missing.place.rank = *rank;
            self.status.communicators[at].missing.push(missing);
        }
    }
}

/// `launched up to operation 64`, `not launched any operations`
fn launched(said: &str) -> Option<u64> {
    if said.starts_with("not launched any operations") {
        return Some(0);
    }
    let number = said.strip_prefix("launched up to operation ")?;
    number.split_whitespace().next()?.parse().ok()
}

/// `1650386 on node node1`
fn process_on_node(text: &str) -> RankPlace {
    let mut words = text.split_whitespace();
    let pid = words.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
    let host = words.nth(2).unwrap_or_default();
    RankPlace {
        rank: 0,
        host: shortened(host),
        pid,
    }
}
