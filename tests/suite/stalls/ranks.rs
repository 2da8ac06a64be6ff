//! Dumps of a job's ranks, made in the shape of real ones: rank-local numbers of groups with gaps, entries that are active only, pickles of protocol 2.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

/// When the first call was made, in nanoseconds since 1970.
const BEGUN: i64 = 1_758_610_505_000_000_000;

/// A job, before its dumps are written.
pub(crate) struct Job {
    size: u32,
    groups: Vec<(String, String, Vec<u32>)>,
    ranks: BTreeMap<u32, Rank>,
    pub(super) version: &'static str,
}

#[derive(Clone, Default)]
pub(super) struct Rank {
    entries: Vec<Value>,
    /// By group: enqueued and completed.
    status: BTreeMap<usize, (i64, i64)>,
}

/// A call, as its entry has it.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) operation: &'static str,
    pub(super) elements: i64,
    pub(super) of: &'static str,
    /// Seconds after the job began.
    pub(super) at: i64,
    pub(super) line: i64,
}

pub(super) const ALL_REDUCE: Call = Call {
    operation: "nccl:all_reduce",
    elements: 4096,
    of: "BFloat16",
    at: 0,
    line: 0,
};

impl Job {
    /// Ranks that have completed 1,022 all-reduces of all.
    pub(super) fn new(size: u32) -> Self {
        let mut job = Job {
            size,
            groups: Vec::new(),
            ranks: (0..size).map(|rank| (rank, Rank::default())).collect(),
            version: "2.9",
        };
        job.group("0", "default_pg", 0..size);
        for rank in 0..size {
            job.done(rank, 0, 1022, ALL_REDUCE);
        }
        job
    }

    pub(super) fn group(
        &mut self,
        name: &str,
        description: &str,
        ranks: impl IntoIterator<Item = u32>,
    ) -> usize {
        let ranks: Vec<u32> = ranks.into_iter().collect();
        let at = self.groups.len();
        for rank in &ranks {
            let rank = self.ranks.get_mut(rank).unwrap();
            rank.status.insert(at, (-1, -1));
        }
        self.groups.push((name.into(), description.into(), ranks));
        at
    }

    fn entry(&mut self, rank: u32, group: usize, number: i64, call: Call, state: &str) {
        let local = self.local(rank, group);
        let (name, description, _) = &self.groups[group];
        let is_p2p = call.operation.contains(['>', '<']);
        let one = self.ranks.get_mut(&rank).unwrap();
        let record = one.entries.len() as i64 + 7;
        let created = BEGUN + call.at * 1_000_000_000 + record;
        let mut frames = vec![
            json!({"name": "all_reduce", "filename": "/opt/torch/distributed/distributed_c10d.py", "line": 2806}),
        ];
        frames
            .push(json!({"name": "train_step", "filename": "/home/u/train.py", "line": call.line}));
        let mut entry = json!({
            "record_id": record, "pg_id": local, "process_group": [name, description],
            "collective_seq_id": if is_p2p { 0 } else { number },
            "p2p_seq_id": if is_p2p { number } else { 0 }, "op_id": number,
            "profiling_name": call.operation, "time_created_ns": created,
            "input_sizes": [[call.elements]], "input_dtypes": [call.of],
            "output_sizes": [[call.elements]], "output_dtypes": [call.of],
            "state": state, "time_discovered_started_ns": null,
            "time_discovered_completed_ns": if state == "completed" { json!(created) } else { Value::Null },
            "retired": state == "completed", "timeout_ms": 600_000, "is_p2p": is_p2p,
            "thread_id": "23437656749760", "thread_name": "pt_autograd_4",
        });
        if call.line > 0 {
            entry["frames"] = Value::Array(frames);
        }
        one.entries.push(entry);
    }

    /// The rank has completed the group's calls up to this number; the last one is in its buffer.
    pub(super) fn done(&mut self, rank: u32, group: usize, number: i64, call: Call) {
        self.entry(rank, group, number, call, "completed");
        self.ranks
            .get_mut(&rank)
            .unwrap()
            .status
            .insert(group, (number, number));
    }

    /// The rank made this call, and it is not complete.
    pub(super) fn waits(&mut self, rank: u32, group: usize, number: i64, call: Call) {
        self.waits_in(rank, group, number, call, "scheduled");
    }

    /// The same, in a state of the recorder's: `scheduled`, or `started` where devices are timed.
    pub(super) fn waits_in(
        &mut self,
        rank: u32,
        group: usize,
        number: i64,
        call: Call,
        state: &str,
    ) {
        self.entry(rank, group, number, call, state);
        let status = &mut self.ranks.get_mut(&rank).unwrap().status;
        status.get_mut(&group).unwrap().0 = number;
    }

    /// Its recorder has no entries.
    pub(super) fn empty(&mut self, rank: u32) {
        self.ranks.get_mut(&rank).unwrap().entries.clear();
    }

    pub(super) fn drop_dump(&mut self, rank: u32) {
        self.ranks.remove(&rank);
    }

    /// The rank's own number of a group: they rise with the groups' names, and skip some.
    fn local(&self, rank: u32, group: usize) -> i64 {
        let before = self.groups[..group]
            .iter()
            .filter(|(_, _, ranks)| ranks.contains(&rank));
        before.count() as i64 * 2 + i64::from(group > 0) * i64::from(rank % 3)
    }

    fn dump(&self, number: u32, rank: &Rank, is_json: bool) -> Value {
        let (mut config, mut status) = (json!({}), json!({}));
        for (group, (enqueued, completed)) in &rank.status {
            let (name, description, ranks) = &self.groups[*group];
            config[name] =
                json!({"name": name, "desc": description, "ranks": format!("{ranks:?}")});
            let told = |value: i64| {
                if is_json {
                    json!(value.to_string())
                } else {
                    json!(value)
                }
            };
            status[self.local(number, *group).to_string()] = json!({
                "last_enqueued_collective": told(*enqueued),
                "last_started_collective": told(-1),
                "last_completed_collective": told(*completed),
            });
        }
        json!({
            "version": self.version, "nccl_version": "2.27.3",
            "pg_config": config, "pg_status": status, "entries": rank.entries,
        })
    }

    /// Writes the dumps as PyTorch does.
    pub(crate) fn write(&self, folder: &Path) {
        self.write_as(folder, "nccl_trace_rank_");
    }

    pub(super) fn write_as(&self, folder: &Path, prefix: &str) {
        std::fs::create_dir_all(folder).unwrap();
        for (number, rank) in &self.ranks {
            let dump = self.dump(*number, rank, false);
            std::fs::write(folder.join(format!("{prefix}{number}")), pickled(&dump)).unwrap();
        }
    }

    /// The same dumps under names that tell no rank.
    pub(super) fn write_nameless(&self, folder: &Path) {
        for (at, (number, rank)) in self.ranks.iter().enumerate() {
            let name = char::from(b'a' + at as u8);
            let dump = self.dump(*number, rank, false);
            std::fs::write(folder.join(format!("{name}.pickle")), pickled(&dump)).unwrap();
        }
    }

    pub(super) fn write_json(&self, folder: &Path) {
        for (number, rank) in &self.ranks {
            let dump = self.dump(*number, rank, true).to_string();
            std::fs::write(folder.join(format!("rank_{number}.json")), dump).unwrap();
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }
}

/// A pickle of protocol 2, with what PyTorch's pickler memoizes.
pub(super) fn pickled(value: &Value) -> Vec<u8> {
    let mut out = vec![0x80, 2];
    let mut memo = BTreeMap::new();
    pickle(value, &mut out, &mut memo);
    out.push(b'.');
    out
}

fn pickle(value: &Value, out: &mut Vec<u8>, memo: &mut BTreeMap<String, u32>) {
    match value {
        Value::Null => out.push(b'N'),
        Value::Bool(flag) => out.push(if *flag { 0x88 } else { 0x89 }),
        Value::Number(number) => {
            let number = number.as_i64().unwrap();
            if let Ok(small) = u8::try_from(number) {
                out.extend([b'K', small]);
            } else if let Ok(middle) = i32::try_from(number) {
                out.push(b'J');
                out.extend(middle.to_le_bytes());
            } else {
                out.extend([0x8a, 8]);
                out.extend(number.to_le_bytes());
            }
        }
        Value::String(text) => {
            if let Some(at) = memo.get(text) {
                out.push(b'j');
                out.extend(at.to_le_bytes());
                return;
            }
            out.push(b'X');
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.bytes());
            let at = memo.len() as u32;
            out.push(b'r');
            out.extend(at.to_le_bytes());
            memo.insert(text.clone(), at);
        }
        Value::Array(items) => {
            out.extend(b"](");
            items.iter().for_each(|item| pickle(item, out, memo));
            out.push(b'e');
        }
        Value::Object(members) => {
            out.extend(b"}(");
            for (name, member) in members {
                pickle(&Value::String(name.clone()), out, memo);
                pickle(member, out, memo);
            }
            out.push(b'u');
        }
    }
}
