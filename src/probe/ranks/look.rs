//! What a process did at one moment, and what changed between two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fact::Gap;
use crate::source::Question;

/// A process.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Look {
    pid: u32,
    pub(super) state: Arc<str>,
    #[serde(default)]
    major_faults: u64,
    #[serde(default)]
    disk_ticks: u64,
    /// What of its memory is swapped out.
    pub(super) swapped_kib: Option<u64>,
    #[serde(default)]
    io: BTreeMap<String, u64>,
    pub(super) threads: Vec<Thread>,
    #[serde(default)]
    pub(super) withheld: BTreeSet<String>,
}

/// A thread of it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Thread {
    tid: u32,
    pub(super) name: Arc<str>,
    pub(super) state: Arc<str>,
    cpu_ns: Option<u64>,
    slices: Option<u64>,
    /// The function of the kernel.
    pub(super) waits_in: Option<Arc<str>>,
    /// The system call.
    pub(super) call: Option<Arc<str>>,
    /// The target of the descriptor that the call has.
    pub(super) file: Option<Arc<str>>,
    #[serde(default)]
    pub(super) stack: Vec<Arc<str>>,
}

/// The connections of a process.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Connections {
    pub(super) sockets: Vec<Connection>,
}

/// A TCP connection.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Connection {
    pub(super) inode: u64,
    pub(super) local: Arc<str>,
    pub(super) peer: Arc<str>,
    pub(super) timer: u64,
    pub(super) unacknowledged: u64,
    pub(super) retransmits: u64,
}

/// What changed between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// Time on a CPU, in nanoseconds.
    pub(super) cpu: u64,
    /// Bytes that were read or written.
    pub(super) bytes: u64,
    /// How often the main thread ran.
    pub(super) slices: u64,
    /// Pages of its memory that had to be read from the disk.
    pub(super) faults: u64,
    /// For how many clock ticks it waited for the disk.
    pub(super) disk_ticks: u64,
    /// Whether a thread ran, or waited for a CPU, in both looks: on a busy machine it gets little time.
    pub(super) runs: bool,
}

/// Reads a reply.
pub(super) fn read<T: DeserializeOwned>(
    question: &Question,
    said: Result<Arc<Value>, Gap>,
) -> Result<T, Gap> {
    let value = said?;
    T::deserialize(&*value).map_err(|error| Gap::not_understood(question, error.to_string()))
}

impl Thread {
    fn runs(&self) -> bool {
        &*self.state == "R"
    }
}

impl Look {
    /// The thread that began the process.
    pub(super) fn main(&self) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.tid == self.pid)
    }

    /// Whether the kernel counts how often threads run.
    pub(super) fn is_counted(&self) -> bool {
        self.main().is_some_and(|main| main.slices.is_some())
    }

    fn thread(&self, tid: u32) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.tid == tid)
    }

    fn bytes(&self) -> u64 {
        let names = ["rchar", "wchar", "read_bytes", "write_bytes"];
        names.iter().filter_map(|name| self.io.get(*name)).sum()
    }

    /// The threads whose names no other thread of the process has, with what each did until a later
    /// look, but for the main one.
    pub(super) fn census<'l>(&self, later: &'l Look) -> Vec<(&'l Thread, Change)> {
        let mut found = Vec::new();
        for thread in later
            .threads
            .iter()
            .filter(|thread| thread.tid != later.pid)
        {
            let is_like = |other: &&Thread| other.name == thread.name;
            let earlier = self.threads.iter().find(|other| other.tid == thread.tid);
            let Some(earlier) =
                earlier.filter(|_| later.threads.iter().filter(is_like).count() == 1)
            else {
                continue;
            };
            let change = Change {
                cpu: thread
                    .cpu_ns
                    .unwrap_or(0)
                    .saturating_sub(earlier.cpu_ns.unwrap_or(0)),
                runs: earlier.runs() && thread.runs(),
                slices: thread
                    .slices
                    .unwrap_or(1)
                    .saturating_sub(earlier.slices.unwrap_or(0)),
                ..Change::default()
            };
            found.push((thread, change));
        }
        found
    }

    /// What changed until a later look.
    pub(super) fn change(&self, later: &Look) -> Change {
        let mut cpu = 0;
        let mut runs = false;
        for thread in &later.threads {
            let earlier = self.thread(thread.tid);
            let before = earlier.and_then(|thread| thread.cpu_ns).unwrap_or(0);
            cpu += thread.cpu_ns.unwrap_or(0).saturating_sub(before);
            runs |= earlier.is_some_and(|earlier| earlier.runs() && thread.runs());
        }
        let slices = |look: &Look| look.main().and_then(|thread| thread.slices).unwrap_or(0);
        Change {
            cpu,
            bytes: later.bytes().saturating_sub(self.bytes()),
            slices: slices(later).saturating_sub(slices(self)),
            faults: later.major_faults.saturating_sub(self.major_faults),
            disk_ticks: later.disk_ticks.saturating_sub(self.disk_ticks),
            runs,
        }
    }
}
