//! A dump of PyTorch's flight recorder (`torch/csrc/distributed/c10d/FlightRecorder*.hpp`), of a
//! version from 2.0 to 2.10.
//!
//! `pg_status` is keyed by a number that each rank counts by itself, `pg_config` by the group's name.
//! Entries name both. Where a rank has no entries, both lists in numerical order are the same groups.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::tree::{Node, Place, Tree};
use super::{Members, TraceError};

/// Groups of a rank that are read.
const GROUPS: usize = 1024;
/// Calls that are kept of those that are not complete, the oldest first.
const PENDING: usize = 256;
/// Letters that are kept of a name.
const NAME: usize = 120;

/// What one rank's recorder held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankDump {
    /// The version of its format.
    pub version: String,
    /// The version of NCCL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
    /// Entries that it had.
    pub entries: u64,
    /// The groups to which the rank belongs.
    pub groups: Vec<GroupProgress>,
    /// How many calls are not complete.
    pub pending_count: u64,
    /// These, in the order in which the rank made them, as far as there is room.
    pub pending: Vec<Call>,
    /// The last complete call of each group.
    pub last: Vec<Call>,
    /// The latest time that an entry names, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_ns: Option<i64>,
}

/// How far a rank is in a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupProgress {
    /// The group's name, which all of its ranks use.
    pub name: String,
    /// What the program calls it.
    pub description: String,
    /// Its ranks.
    pub members: Members,
    /// The number of the last call that the rank made; -1 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued: Option<i64>,
    /// The number of the last one that is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<i64>,
    /// Whether sends and receives are counted with it: ranks then differ by right.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub point_to_point: bool,
}

/// One call of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its group, by its place among the rank's groups.
    pub group: usize,
    /// Its place among all calls of the rank.
    pub record: i64,
    /// Its number in the group: of collectives, or of sends and receives.
    pub sequence: i64,
    /// Collectives of the group before it, where it is a send or a receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_collective: Option<i64>,
    /// `nccl:all_reduce`, `nccl:send 0->3`.
    pub operation: String,
    /// Elements that go in and come out.
    pub elements: (u64, u64),
    /// Types of these.
    pub types: String,
    /// Whether the device has begun it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub started: bool,
    /// When the rank made it, in nanoseconds since 1970.
    pub created_ns: i64,
    /// How long it may take.
    pub timeout_ms: i64,
    /// The line of the program that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
}

/// Reads a dump.
pub(super) fn read(tree: &Tree) -> Result<RankDump, TraceError> {
    let root = tree.root;
    let version = tree
        .text(root, "version")
        .ok_or(TraceError::Lacks("version"))?;
    if !is_known(version) {
        return Err(TraceError::Version(shortened(version)));
    }
    let config = tree
        .get(root, "pg_config")
        .ok_or(TraceError::Lacks("pg_config"))?;
    let entries = tree
        .get(root, "entries")
        .map_or(&[][..], |list| tree.list(list));
    let mut reader = DumpReader {
        tree,
        groups: Vec::new(),
        by_name: BTreeMap::new(),
    };
    for (name, group) in tree.pairs(config).take(GROUPS) {
        reader.add_group(name, group);
    }
    let mut calls: Vec<EntryPlace> = Vec::with_capacity(entries.len());
    for entry in entries {
        calls.extend(reader.place_of(*entry));
    }
    calls.sort_by_key(|call| call.record);
    reader.state_progress(&calls);
    let mut dump = RankDump {
        version: version.to_owned(),
        nccl: (tree.text(root, "nccl_version"))
            .or_else(|| tree.text(root, "comm_lib_version"))
            .map(shortened),
        entries: entries.len() as u64,
        ..RankDump::default()
    };
    let mut last: BTreeMap<usize, &EntryPlace> = BTreeMap::new();
    for call in &calls {
        for key in [
            "time_created_ns",
            "time_discovered_started_ns",
            "time_discovered_completed_ns",
        ] {
            dump.latest_ns = dump.latest_ns.max(tree.number(call.entry, key));
        }
        if call.is_complete {
            last.insert(call.group, call);
            continue;
        }
        dump.pending_count += 1;
        if dump.pending.len() < PENDING {
            dump.pending.push(reader.call(call));
        }
    }
    dump.last = last.into_values().map(|call| reader.call(call)).collect();
    dump.groups = reader.groups;
    Ok(dump)
}

fn is_known(version: &str) -> bool {
    let minor = version
        .strip_prefix("2.")
        .and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor <= 10)
}

fn shortened(text: &str) -> String {
    text.chars().take(NAME).collect()
}

/// An entry, and what decides what becomes of it.
struct EntryPlace {
    entry: Place,
    group: usize,
    record: i64,
    is_complete: bool,
    is_point_to_point: bool,
    sequence: i64,
    /// The rank's own number of the group.
    local: Option<i64>,
}

struct DumpReader<'t> {
    tree: &'t Tree,
    groups: Vec<GroupProgress>,
    by_name: BTreeMap<String, usize>,
}

impl DumpReader<'_> {
    fn add_group(&mut self, key: &str, group: Place) {
        let tree = self.tree;
        let name = tree.text(group, "name").unwrap_or(key);
        let ranks = tree.text(group, "ranks").and_then(Members::of_list);
        let description = tree.text(group, "desc").unwrap_or_default();
        self.by_name.insert(name.to_owned(), self.groups.len());
        self.groups.push(GroupProgress {
            name: shortened(name),
            description: shortened(description),
            members: ranks.unwrap_or_default(),
            ..GroupProgress::default()
        });
    }

    /// What an entry is, if it names a group.
    fn place_of(&mut self, entry: Place) -> Option<EntryPlace> {
        let tree = self.tree;
        let named = tree.list(tree.get(entry, "process_group")?);
        let Node::Text(name) = tree.node(*named.first()?) else {
            return None;
        };
        let group = *self.by_name.get(name)?;
        let operation = tree.text(entry, "profiling_name").unwrap_or_default();
        let is_point_to_point =
            tree.flag(entry, "is_p2p").unwrap_or(false) || peers_of(operation).is_some();
        let in_pairs = tree.number(entry, "p2p_seq_id").unwrap_or(0);
        self.groups[group].point_to_point |= is_point_to_point || in_pairs > 0;
        let collective = tree.number(entry, "collective_seq_id")?;
        Some(EntryPlace {
            entry,
            group,
            record: tree.number(entry, "record_id")?,
            is_complete: tree.text(entry, "state") == Some("completed"),
            is_point_to_point,
            sequence: if is_point_to_point {
                in_pairs
            } else {
                collective
            },
            local: tree.number(entry, "pg_id"),
        })
    }

    /// How far the rank is in each group: by `pg_status`, else by its entries.
    fn state_progress(&mut self, calls: &[EntryPlace]) {
        let local = self.local_numbers(calls);
        for (group, local) in local.into_iter().enumerate() {
            let status = local.and_then(|local| {
                let all = self.tree.get(self.tree.root, "pg_status")?;
                self.tree.get(all, &local.to_string())
            });
            let progress = &mut self.groups[group];
            if let Some(status) = status {
                progress.enqueued = self.tree.number(status, "last_enqueued_collective");
                progress.completed = self.tree.number(status, "last_completed_collective");
                continue;
            }
            let of_group = calls.iter();
            for call in of_group.filter(|call| call.group == group && !call.is_point_to_point) {
                progress.enqueued = progress.enqueued.max(Some(call.sequence));
                let complete = if call.is_complete {
                    call.sequence
                } else {
                    call.sequence - 1
                };
                progress.completed = match progress.completed {
                    // The first that is not complete says how far the rank came.
                    Some(before) if before < call.sequence - 1 => Some(before),
                    _ => Some(complete),
                };
            }
        }
    }

    /// The rank's own number of each group, by its entries, and by the order of both lists where that
    /// does not contradict them.
    fn local_numbers(&self, calls: &[EntryPlace]) -> Vec<Option<i64>> {
        let mut of_group: Vec<Option<i64>> = vec![None; self.groups.len()];
        for call in calls {
            of_group[call.group] = of_group[call.group].or(call.local);
        }
        let status = self.tree.get(self.tree.root, "pg_status");
        let keys = status
            .into_iter()
            .flat_map(|status| self.tree.pairs(status));
        let mut numbers: Vec<i64> = keys.filter_map(|(key, _)| key.parse().ok()).collect();
        numbers.sort_unstable();
        let mut names: Vec<(u64, usize)> = Vec::new();
        for (at, group) in self.groups.iter().enumerate() {
            names.extend(group.name.parse().ok().map(|name: u64| (name, at)));
        }
        names.sort_unstable();
        if names.len() != self.groups.len() || numbers.len() != names.len() {
            return of_group;
        }
        let fits = |((_, group), number): (&(u64, usize), &i64)| {
            of_group[*group].is_none_or(|known| known == *number)
        };
        if names.iter().zip(&numbers).all(fits) {
            for ((_, group), number) in names.iter().zip(&numbers) {
                of_group[*group] = Some(*number);
            }
        }
        of_group
    }

    fn call(&self, place: &EntryPlace) -> Call {
        let (tree, entry) = (self.tree, place.entry);
        let operation = tree.text(entry, "profiling_name").unwrap_or_default();
        let after = tree.number(entry, "collective_seq_id");
        Call {
            group: place.group,
            record: place.record,
            sequence: place.sequence,
            after_collective: after.filter(|_| place.is_point_to_point),
            operation: shortened(operation),
            elements: (
                self.elements(entry, "input_sizes"),
                self.elements(entry, "output_sizes"),
            ),
            types: self.types(entry),
            started: tree.text(entry, "state") == Some("started"),
            created_ns: tree.number(entry, "time_created_ns").unwrap_or(0),
            timeout_ms: tree.number(entry, "timeout_ms").unwrap_or(0),
            frame: self.frame(entry),
        }
    }

    fn elements(&self, entry: Place, key: &str) -> u64 {
        let shapes = self
            .tree
            .get(entry, key)
            .map_or(&[][..], |list| self.tree.list(list));
        let mut sum = 0u64;
        for shape in shapes.iter().take(NAME) {
            let mut product = 1u64;
            for size in self.tree.list(*shape).iter().take(NAME) {
                if let Node::Number(size) = self.tree.node(*size) {
                    product = product.saturating_mul(size.unsigned_abs());
                }
            }
            sum = sum.saturating_add(product);
        }
        sum
    }

    /// The types of what goes in, each once.
    fn types(&self, entry: Place) -> String {
        let list = self.tree.get(entry, "input_dtypes");
        let list = list.map_or(&[][..], |list| self.tree.list(list));
        let mut types: Vec<&str> = Vec::new();
        for place in list.iter().take(NAME) {
            if let Node::Text(text) = self.tree.node(*place)
                && !types.contains(&text.as_str())
            {
                types.push(text);
            }
        }
        shortened(&types.join(", "))
    }

    /// The innermost line that is the program's own, and not PyTorch's.
    fn frame(&self, entry: Place) -> Option<String> {
        let frames = self.tree.list(self.tree.get(entry, "frames")?);
        let own = frames.iter().find(|frame| {
            let file = self.tree.text(**frame, "filename");
            file.is_some_and(is_of_program)
        })?;
        let file = self.tree.text(*own, "filename")?;
        let file = file.rsplit('/').next().unwrap_or(file);
        let line = self.tree.number(*own, "line").unwrap_or(0);
        let function = self.tree.text(*own, "name").unwrap_or("?");
        Some(shortened(&format!("{file}:{line} ({function})")))
    }
}

/// Whether a file is a program's, and neither of PyTorch nor of the C++ below it.
fn is_of_program(file: &str) -> bool {
    let is_python = file.ends_with(".py");
    is_python && !file.contains("/torch/") && !file.starts_with("torch/")
}

/// The two ranks of the group that a send or a receive names: who sends, and who receives.
pub(super) fn peers_of(operation: &str) -> Option<(usize, usize)> {
    let rest = operation.strip_prefix("nccl:")?;
    let (kind, peers) = rest.split_once(' ')?;
    let (own, other, sends) = match (kind, peers.split_once("->"), peers.split_once("<-")) {
        ("send", Some((own, other)), _) => (own, other, true),
        ("recv", _, Some((own, other))) => (own, other, false),
        _ => return None,
    };
    let (own, other) = (own.trim().parse().ok()?, other.trim().parse().ok()?);
    Some(if sends { (own, other) } else { (other, own) })
}

impl Call {
    /// The two ranks of the group between which it goes, the sender first, if it is a send or a
    /// receive.
    pub fn peers(&self) -> Option<(usize, usize)> {
        peers_of(&self.operation)
    }
}
