//! Many recordings judged as one cluster, on all processors, without all of them in memory.
//!
//! Each is read, judged by itself and reduced to its findings and to a small sample by which nodes are compared. What is kept
//! of a node is some kilobytes; the order on the command line decides over the order in the report, whoever is done first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use super::budget::{self, ClusterMemory};
use super::fresh_recordings::{FreshRecording, FreshRecordings};
use super::log;
use super::one::{self, Judged, is_of_node};
use super::sink::Sink;
use super::unusable::BadInput;
use crate::check::{Catalogue, judge_waived};
use crate::derive::{self, comparison};
use crate::fact::{Facts, Membership, Origin, Subject};
use crate::live::{clock, judging_child};
use crate::measure::plan::pairs::Silent;
use crate::measure::plan::reach::TriedWays;
use crate::probe;
use crate::report::many::ManyNodesReport;
use crate::report::{Policy, Report};
use crate::source::recording::{Recording, RecordingError};
use crate::source::wire::with_known_lines;
use crate::terminal;
use crate::whole::Contribution;

/// Results that may wait to be taken.
const WAITING: usize = 64;

/// What became of one recording.
pub(super) enum Read {
    Node(Box<Contribution>),
    Log(Box<Recording>),
    /// Nothing of it is here: why.
    Not(String),
    /// It is here, and cannot be judged: why.
    Unjudged(String),
}

/// Judges these recordings as one cluster, with those who are `expected`.
pub fn recordings(
    catalogue: &Catalogue,
    recordings: &[Recording],
    expected: Option<Vec<String>>,
    policy: &Policy,
) -> Report {
    let count = recordings.len();
    let named = |at: usize| match recordings[at].header.node.trim() {
        "" => format!("recording {}", at + 1),
        node => node.to_owned(),
    };
    let read = |at: usize| match &recordings[at] {
        log if log.header.log => Read::Log(Box::new(log.clone())),
        one => within_limits(&format!("{} {}", at + 1, named(at)), || {
            judged_alone(catalogue, one, count, policy, None)
        }),
    };
    let mut cluster = Cluster::new(catalogue, None);
    judge_in_order(count, ClusterMemory::default(), read, |at, read| {
        cluster.add(Path::new(&named(at)), read);
    });
    cluster.expect(expected);
    cluster.report(policy)
}

/// Judges these recordings: those of several machines as one cluster.
pub fn judged(catalogue: &Catalogue, all: &[Recording], policy: &Policy) -> Report {
    // What a log holds is compared with the machines beside it, whose facts are kept for that.
    const BESIDE_A_LOG: usize = 64;
    let machines = all.iter().filter(|r| !r.header.log).count();
    let has_log = machines < all.len();
    if machines == 0 {
        return log::judged(catalogue, all, policy);
    }
    if machines > 1 && !(has_log && machines <= BESIDE_A_LOG) {
        return recordings(catalogue, all, None, policy);
    }
    Judged::new(catalogue, all).report(policy)
}

/// The same of what one input gave; a report without nodes where that goes beyond the limits of
/// one.
pub fn judged_within_limits(catalogue: &Catalogue, all: &[Recording], policy: &Policy) -> Report {
    match all {
        [one] => judging_child::input("what the text holds", || judged(catalogue, all, policy))
            .unwrap_or_else(|why| Report::without_nodes(&format!("{}: {why}", one.header.node))),
        _ => judged(catalogue, all, policy),
    }
}

/// What rank 0 has of all nodes.
pub struct Gathering<'g> {
    /// Its own recording.
    pub own: &'g Recording,
    /// The name of each giver of a recording, and its text, packed or not.
    pub given: &'g [(String, Vec<u8>)],
    /// The expected nodes, if the engine says them.
    pub expected: Option<Vec<String>>,
    /// The nodes that did not respond, and how that is known.
    pub silent: Vec<Silent>,
    /// Memory for what they gave.
    pub memory: ClusterMemory,
    /// The ways between them, where they were tried.
    pub tried: Option<&'g TriedWays>,
}

/// Judges what rank 0 gathered as one cluster. What is no recording is of a node that is silent.
pub fn gathered(catalogue: &Catalogue, gathering: Gathering<'_>, policy: &Policy) -> Report {
    let (given, memory) = (gathering.given, gathering.memory);
    let count = given.len() + 1;
    let budget = memory.of_each();
    // Where rank 0 judges a recording in place of its node, the others may as well.
    let is_replayed = !gathering.own.path.as_os_str().is_empty();
    let fresh = FreshRecordings::default();
    let judged = |name: &str, one: &Recording| {
        let came = FreshRecording {
            all: &fresh,
            host: name,
            now: clock::utc_now(),
        };
        judged_alone(
            catalogue,
            one,
            count,
            policy,
            (!is_replayed).then_some(came),
        )
    };
    let read = |at: usize| match at.checked_sub(1).map(|at| &given[at]) {
        None => judged("rank 0", gathering.own),
        Some((name, bytes)) => within_limits(&format!("{at} {name}"), || {
            match Recording::read_within(bytes.as_slice(), Path::new(name), budget) {
                Ok(one) if !one.header.log => judged(name, &one),
                Ok(_) => {
                    Read::Unjudged("it gave the recording of a log, and not of a machine".into())
                }
                Err(error) => Read::Unjudged(format!("its output is not a recording: {error}")),
            }
        }),
    };
    let mut cluster = Cluster::new(catalogue, (!is_replayed).then(clock::utc_now));
    judge_in_order(count, memory, read, |at, read| {
        let name = at.checked_sub(1).map_or("", |at| given[at].0.as_str());
        cluster.add(Path::new(name), read);
    });
    for Silent { host, why } in gathering.silent {
        cluster.table.is_silent(host, why);
    }
    cluster.expect(gathering.expected);
    cluster.tried = gathering.tried.cloned();
    cluster.report(policy)
}

/// Reads these files and judges them as one cluster, with those who are `expected`. One that cannot be read is of a node that is silent.
///
/// # Errors
///
/// [`BadInput`] where none can be read.
pub fn files(
    catalogue: &Catalogue,
    paths: &[impl AsRef<Path> + Sync],
    (expected, memory): (Option<Vec<String>>, ClusterMemory),
    policy: &Policy,
    sink: &dyn Sink,
) -> anyhow::Result<Report> {
    let budget = memory.of_each();
    let judge = |path: &Path| match Recording::open_within(path, budget) {
        Ok(log) if log.header.log => Read::Log(Box::new(log)),
        Ok(one) => judged_alone(catalogue, &one, paths.len(), policy, None),
        Err(error @ RecordingError::Unreadable { .. }) => Read::Not(error.to_string()),
        Err(error) => Read::Unjudged(error.to_string()),
    };
    let read = |at: usize| {
        let path = paths[at].as_ref();
        let judged = budget::file(path, || judge(path));
        judged.unwrap_or_else(|why| Read::Unjudged(format!("{}: {why}", terminal::path(path))))
    };
    let mut cluster = Cluster::new(catalogue, None);
    judge_in_order(paths.len(), memory, read, |at, read| {
        cluster.add(paths[at].as_ref(), read);
    });
    if cluster.nodes == 0 && cluster.logs.is_empty() {
        let why = cluster.unread.into_iter().next().unwrap_or_default();
        return Err(BadInput(why).into());
    }
    if cluster.nodes < 2 && expected.is_none() && cluster.unread.is_empty() {
        // A log, and the machine on which it was written: findings of one explain those of the other.
        return Ok(judged(catalogue, &budget::open(paths, sink)?, policy));
    }
    cluster.expect(expected);
    Ok(cluster.report(policy))
}

/// Reads and judges one of many within the limits of one.
pub(super) fn within_limits(name: &str, judge: impl FnOnce() -> Read) -> Read {
    judging_child::input(name, judge).unwrap_or_else(Read::Unjudged)
}

/// Judges one node by itself.
pub(super) fn judged_alone(
    catalogue: &Catalogue,
    recording: &Recording,
    among: usize,
    policy: &Policy,
    fresh: Option<FreshRecording<'_>>,
) -> Read {
    let of_node = one::contribution(catalogue, recording, among, policy, fresh);
    Read::Node(Box::new(of_node))
}

/// Runs `work` for each number below `count` on as many processors as there is memory for, and hands the results to `take` in their order.
pub fn judge_in_order<T: Send>(
    count: usize,
    memory: ClusterMemory,
    work: impl Fn(usize) -> T + Sync,
    take: impl FnMut(usize, T),
) {
    work_in_order(count, memory.threads(), work, take);
}

/// The same in so many threads.
pub fn work_in_order<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T),
) {
    // One more thread would do what this one can.
    let others = Some(threads.min(count)).filter(|others| *others > 1);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (send, results) = mpsc::sync_channel(WAITING);
        for _ in 0..others.unwrap_or(0) {
            let (send, next, work) = (send.clone(), &next, &work);
            let judge = move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count || send.send((at, work(at))).is_err() {
                        return;
                    }
                }
            };
            if std::thread::Builder::new()
                .spawn_scoped(scope, || with_known_lines(judge))
                .is_err()
            {
                break;
            }
        }
        drop(send);
        let mut early = BTreeMap::new();
        let mut due = 0;
        for (at, result) in results {
            early.insert(at, result);
            while let Some(result) = early.remove(&due) {
                take(due, result);
                due += 1;
            }
        }
        // No thread could be had.
        for at in due..count {
            take(at, work(at));
        }
    });
}

/// What is kept of all recordings.
pub(super) struct Cluster<'c> {
    catalogue: &'c Catalogue,
    fold: ManyNodesReport,
    table: comparison::Table,
    logs: Vec<Recording>,
    unread: Vec<String>,
    nodes: usize,
    tried: Option<TriedWays>,
    /// The time by this machine's clock, where the nodes were asked just now: waivers expire by it too.
    now: Option<String>,
}

impl<'c> Cluster<'c> {
    /// Of nodes that were asked just now, or of recordings that were made before.
    pub(super) fn new(catalogue: &'c Catalogue, now: Option<String>) -> Self {
        Cluster {
            catalogue,
            fold: ManyNodesReport::default(),
            table: comparison::Table::new(),
            logs: Vec::new(),
            unread: Vec::new(),
            nodes: 0,
            tried: None,
            now,
        }
    }

    fn expect(&mut self, names: Option<Vec<String>>) {
        if let Some(names) = names {
            self.table.expect(names.into_iter().map(Arc::from));
        }
    }

    /// The ways between the nodes, where they were tried.
    pub(super) fn has_tried(&mut self, tried: Option<TriedWays>) {
        self.tried = tried;
    }

    /// Adds what a file gave, which is called after its node, mostly.
    fn add(&mut self, path: &Path, read: Read) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        self.add_named(name.strip_suffix(".jsonl").unwrap_or(name), read);
    }

    pub(super) fn add_named(&mut self, name: &str, read: Read) {
        match read {
            Read::Node(one) => {
                let mut one = *one;
                if let Some(sample) = one.compared.take() {
                    self.table.add(sample);
                }
                self.fold.add(self.catalogue, one);
                self.nodes += 1;
            }
            Read::Log(log) => self.logs.push(*log),
            Read::Not(why) => {
                self.table.is_silent(name, why.as_str());
                self.unread.push(why);
            }
            Read::Unjudged(why) => {
                self.table.is_unjudged(name, why.as_str());
                self.unread.push(why);
            }
        }
    }

    pub(super) fn report(self, policy: &Policy) -> Report {
        let catalogue = self.catalogue;
        let mut facts = Facts::within(catalogue.limits.clone());
        probe::nccl_log::establish_all(&self.logs, &mut facts);
        probe::ranks::establish(&self.logs, &mut facts);
        let none = Origin::derived("no log was given");
        for subject in [
            Subject::Run,
            Subject::Benchmark,
            Subject::Trace,
            Subject::LiveJob,
        ] {
            facts.set_members(subject, Facts::CLUSTER, Membership::Known(none.clone()));
        }
        let mut concerns = derive::of_cluster(&mut facts, self.nodes as u64, self.table);
        concerns.extend(derive::reach::state(&mut facts, self.tried.as_ref()));
        let logs = self.logs.iter().map(|log| log.header.utc.as_str());
        let last = logs
            .chain(self.fold.last_recorded())
            .chain(self.now.as_deref())
            .max();
        let recorded = [(Facts::CLUSTER, last.unwrap_or_default())];
        let verdicts = judge_waived(catalogue, &mut facts, &recorded, |subject| {
            !is_of_node(subject)
        });
        self.fold
            .report(catalogue, &facts, &verdicts, &concerns, policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_their_order() {
        let mut taken = Vec::new();
        let slow_first = |at: usize| {
            if at == 0 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            at * 2
        };
        work_in_order(300, 4, slow_first, |at, result| taken.push((at, result)));
        assert_eq!(taken, (0..300).map(|at| (at, at * 2)).collect::<Vec<_>>());
    }
}
