//! Many recordings judged as one cluster, on all processors, without all of them in memory.
//!
//! Each is read, judged by itself and reduced to its findings and to a small sample by which nodes are compared. What is kept
//! of a node is some kilobytes; the order on the command line decides over the order in the report, whoever is done first.

use crate::live::{clock, judging_child, random};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::budget;
use super::fresh_recordings::{FreshRecording, FreshRecordings};
use super::input::{self, BadInput, NoReportInTime};
use crate::check::{Catalogue, Lacks, Recorded, Verdict, judge_waived};
use crate::cluster::clock_offset::ClockOffset;
use crate::cluster::ssh::RemoteError;
use crate::derive::{self, comparison};
use crate::fact::{Facts, Membership, Origin, Subject};
use crate::measure::plan::pairs::Silent;
use crate::probe::{self, together};
use crate::report::many::ManyNodesReport;
use crate::report::{Contents, Policy, RecordedNode, Report};
use crate::source::recording::{Recording, RecordingBudget, RecordingError, ZSTD_MAGIC};
use crate::source::wire::with_known_lines;
use crate::terminal;

/// How much a shell may print before what it was asked for.
const NOISE: usize = 64 << 10;

/// Results that may wait to be taken.
const WAITING: usize = 64;

/// The least memory with which a recording is read: the largest real one takes a tenth of it.
const OF_ONE: u64 = 128 << 20;
/// The least that a node may send, packed: ten times what the largest real recording has.
const LEAST_MESSAGE: u64 = 4 << 20;
/// The most that a node may send.
const MOST_MESSAGE: u64 = 64 << 20;

/// Memory for the recordings of all nodes together.
#[derive(Clone, Copy, Debug)]
pub struct ClusterMemory(pub u64);

impl Default for ClusterMemory {
    fn default() -> Self {
        ClusterMemory(4 << 30)
    }
}

impl ClusterMemory {
    /// How many recordings are judged at once.
    fn threads(self) -> usize {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        threads.clamp(1, usize::try_from(self.0 / OF_ONE).unwrap_or(1).max(1))
    }

    /// What those take that are judged at once.
    pub(super) fn at_once(self) -> u64 {
        OF_ONE * self.threads() as u64
    }

    /// What each of those may take.
    pub(super) fn of_each(self) -> RecordingBudget {
        RecordingBudget::of((self.0 / self.threads() as u64).max(OF_ONE))
    }

    /// The longest message of one of these nodes, which rank 0 keeps until all have sent theirs.
    pub fn message(self, nodes: u64) -> u64 {
        (self.0 / nodes.max(1)).clamp(LEAST_MESSAGE, MOST_MESSAGE)
    }
}

/// What became of one recording.
enum Read {
    Node(Box<(Contents, comparison::Sample)>),
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
    let mut cluster = Cluster::default();
    each(count, ClusterMemory::default(), read, |at, read| {
        cluster.add(Path::new(&named(at)), read);
    });
    cluster.expect(expected);
    cluster.report(catalogue, policy)
}

/// Judges these recordings: those of several machines as one cluster.
pub fn judged(catalogue: &Catalogue, all: &[Recording], policy: &Policy) -> Report {
    // What a log holds is compared with the machines beside it, whose facts are kept for that.
    const BESIDE_A_LOG: usize = 64;
    let machines = all.iter().filter(|r| !r.header.log).count();
    let has_log = machines < all.len();
    if machines > 1 && !(has_log && machines <= BESIDE_A_LOG) {
        return recordings(catalogue, all, None, policy);
    }
    let (mut facts, nodes) = input::facts_within(catalogue.limits.clone(), all);
    let verdicts = verdicts(catalogue, &mut facts, &nodes, all);
    crate::report::report(catalogue, &facts, &verdicts, &nodes, policy)
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

/// The verdicts on these nodes, with the site's waivers by the time of each recording.
pub fn verdicts(
    catalogue: &Catalogue,
    facts: &mut Facts,
    nodes: &[RecordedNode],
    all: &[Recording],
) -> Vec<Verdict> {
    let last = all.iter().map(|one| one.header.utc.as_str()).max();
    let last = (Facts::CLUSTER, last.unwrap_or_default());
    let nodes = nodes.iter().map(|node| (node.id, node.utc.as_str()));
    let recorded: Vec<Recorded<'_>> = nodes.chain([last]).collect();
    judge_waived(catalogue, facts, &recorded, |_| true)
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
    let mut cluster = Cluster {
        now: (!is_replayed).then(clock::utc_now),
        ..Cluster::default()
    };
    each(count, memory, read, |at, read| {
        let name = at.checked_sub(1).map_or("", |at| given[at].0.as_str());
        cluster.add(Path::new(name), read);
    });
    for Silent { host, why } in gathering.silent {
        cluster.table.is_silent(host, why);
    }
    cluster.expect(gathering.expected);
    cluster.report(catalogue, policy)
}

/// What a host gave.
pub struct Given {
    /// A recording, packed or not.
    pub bytes: Vec<u8>,
    /// When it was asked for and when it was here, in nanoseconds since 1970 by this machine's clock.
    pub between: (i64, i64),
}

impl Given {
    /// Adds how far the host's clock is from this machine's: its recording began after it was asked for, and what it took to record was over when it came.
    fn note_clock(&self, recording: &mut Recording, run: u64) {
        let stamp = humantime::parse_rfc3339(&recording.header.utc).ok();
        let since = stamp.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let Some(stamped) = since.and_then(|since| i64::try_from(since.as_nanos()).ok()) else {
            return;
        };
        // What is cut off a stamp is time that had passed.
        let cut = match recording.header.utc.contains('.') {
            true => 1_000_000,
            false => 1_000_000_000,
        };
        let lasted = i64::try_from(recording.duration() * 1000).unwrap_or(i64::MAX);
        let (from, to) = self.between;
        let mut offset =
            ClockOffset::from_timestamp(from, stamped + cut / 2, to.saturating_sub(lasted));
        offset.within_ns = offset.within_ns.saturating_add(cut.unsigned_abs() / 2);
        // A recording that lasted longer than it was waited for: one of both clocks was set meanwhile, or runs at another pace.
        if offset.within_ns < u64::MAX && !recording.header.tree {
            together::note(recording, offset.ns, offset.within_ns, run);
        }
    }
}

/// Judges what these hosts gave as one cluster. A host that gave no recording is silent.
///
/// # Errors
///
/// [`BadInput`] where none gave one, and only one was asked; [`NoReportInTime`] where that one did
/// not answer by the deadline.
pub fn of_hosts(
    catalogue: &Catalogue,
    names: &[String],
    given: &[Result<Given, RemoteError>],
    memory: ClusterMemory,
    policy: &Policy,
) -> anyhow::Result<Report> {
    let budget = memory.of_each();
    let run = random::number_of_run();
    let recording = |at: usize| {
        let given = given[at].as_ref().map_err(ToString::to_string)?;
        let packed = packed_part(&given.bytes);
        let mut recording = Recording::read_within(packed, Path::new(&names[at]), budget)
            .map_err(|error| format!("its output is not a recording: {error}"))?;
        given.note_clock(&mut recording, run);
        Ok::<_, String>(recording)
    };
    let fresh = FreshRecordings::default();
    let came = |at: usize| {
        let nanoseconds = given[at].as_ref().map_or(0, |given| given.between.1);
        let since = Duration::from_nanos(nanoseconds.try_into().unwrap_or(0));
        FreshRecording {
            all: &fresh,
            host: &names[at],
            now: humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string(),
        }
    };
    if let [one] = names {
        if let [Err(late)] = given
            && late.is_late()
        {
            return Err(NoReportInTime(format!("{one}: {late}")).into());
        }
        let judge = || {
            let recording = recording(0)?;
            let mut report = judged(catalogue, std::slice::from_ref(&recording), policy);
            if let Some(why) = came(0).doubt_time(&recording, &catalogue.limits) {
                report.doubt(why);
            }
            Ok(report)
        };
        let report = judging_child::input(one, judge).flatten();
        return Ok(report.map_err(|why| BadInput(format!("{one}: {why}")))?);
    }
    let judge = |at: usize| match recording(at) {
        Ok(one) => judged_alone(catalogue, &one, names.len(), policy, Some(came(at))),
        Err(why) if given[at].is_ok() => Read::Unjudged(why),
        Err(why) => Read::Not(why),
    };
    let read = |at: usize| within_limits(&format!("{} {}", at + 1, names[at]), || judge(at));
    let mut cluster = Cluster {
        now: Some(clock::utc_now()),
        ..Cluster::default()
    };
    each(names.len(), memory, read, |at, read| {
        cluster.add_named(&names[at], read);
    });
    Ok(cluster.report(catalogue, policy))
}

/// Without what a shell's start-up files printed in front.
fn packed_part(bytes: &[u8]) -> &[u8] {
    let head = &bytes[..bytes.len().min(NOISE)];
    match memchr::memmem::find(head, &ZSTD_MAGIC) {
        Some(at) => &bytes[at..],
        None => bytes,
    }
}

/// Reads these files and judges them as one cluster, with those who are `expected`. One that cannot be read is of a node that is silent.
///
/// # Errors
///
/// [`BadInput`] where none can be read.
pub fn files(
    catalogue: &Catalogue,
    paths: &[PathBuf],
    (expected, memory): (Option<Vec<String>>, ClusterMemory),
    policy: &Policy,
) -> anyhow::Result<Report> {
    let budget = memory.of_each();
    let judge = |path: &Path| match Recording::open_within(path, budget) {
        Ok(log) if log.header.log => Read::Log(Box::new(log)),
        Ok(one) => judged_alone(catalogue, &one, paths.len(), policy, None),
        Err(error @ RecordingError::Unreadable { .. }) => Read::Not(error.to_string()),
        Err(error) => Read::Unjudged(error.to_string()),
    };
    let read = |at: usize| {
        let path = &paths[at];
        let judged = budget::file(path, || judge(path));
        judged.unwrap_or_else(|why| Read::Unjudged(format!("{}: {why}", terminal::path(path))))
    };
    let mut cluster = Cluster::default();
    each(paths.len(), memory, read, |at, read| {
        cluster.add(&paths[at], read);
    });
    if cluster.nodes == 0 && cluster.logs.is_empty() {
        let why = cluster.unread.into_iter().next().unwrap_or_default();
        return Err(BadInput(why).into());
    }
    if cluster.nodes < 2 && expected.is_none() && cluster.unread.is_empty() {
        // A log, and the machine on which it was written: findings of one explain those of the other.
        return Ok(judged(catalogue, &input::open(paths)?, policy));
    }
    cluster.expect(expected);
    Ok(cluster.report(catalogue, policy))
}

/// Reads and judges one of many within the limits of one.
fn within_limits(name: &str, judge: impl FnOnce() -> Read) -> Read {
    judging_child::input(name, judge).unwrap_or_else(Read::Unjudged)
}

/// Judges one node by itself. If it gave its recording just now, its waivers expire by this machine's clock too.
fn judged_alone(
    catalogue: &Catalogue,
    recording: &Recording,
    among: usize,
    policy: &Policy,
    fresh: Option<FreshRecording<'_>>,
) -> Read {
    let mut facts = Facts::within(catalogue.limits.clone());
    let id = probe::establish(recording, &mut facts);
    derive::of_nodes(&mut facts, among as u64);
    let sample = comparison::sample(&facts, id);
    let asked = fresh.and_then(|fresh| fresh.look(recording, &facts, id, &sample));
    let utc = recording.header.utc.as_str();
    let utc = asked.as_ref().map_or(utc, |asked| utc.max(&asked.now));
    let recorded = [(id, utc)];
    let verdicts = judge_waived(catalogue, &mut facts, &recorded, is_of_node);
    let lacks = Lacks::of(catalogue, &facts, &verdicts);
    let part = Contents::of_nodes(
        catalogue,
        &facts,
        (&verdicts, &lacks),
        &[RecordedNode {
            doubt: asked.and_then(|asked| asked.doubt),
            ..input::recorded(recording, id)
        }],
        policy,
    );
    Read::Node(Box::new((part, sample)))
}

fn is_of_node(subject: Subject) -> bool {
    subject.scope().any(|above| above == Subject::Node)
}

/// Runs `work` for each number below `count` on as many processors as there is memory for, and hands the results to `take` in their order.
pub(super) fn each<T: Send>(
    count: usize,
    memory: ClusterMemory,
    work: impl Fn(usize) -> T + Sync,
    take: impl FnMut(usize, T),
) {
    each_of(count, memory.threads(), work, take);
}

/// The same in so many threads.
pub(super) fn each_of<T: Send>(
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
#[derive(Default)]
struct Cluster {
    fold: ManyNodesReport,
    table: comparison::Table,
    logs: Vec<Recording>,
    unread: Vec<String>,
    nodes: usize,
    /// The time by this machine's clock, where the nodes were asked just now: waivers expire by it too.
    now: Option<String>,
}

impl Cluster {
    fn expect(&mut self, names: Option<Vec<String>>) {
        if let Some(names) = names {
            self.table.expect(names.into_iter().map(Arc::from));
        }
    }

    /// Adds what a file gave, which is called after its node, mostly.
    fn add(&mut self, path: &Path, read: Read) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        self.add_named(name.strip_suffix(".jsonl").unwrap_or(name), read);
    }

    fn add_named(&mut self, name: &str, read: Read) {
        match read {
            Read::Node(one) => {
                let (part, sample) = *one;
                self.fold.add(part);
                self.table.add(sample);
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

    fn report(self, catalogue: &Catalogue, policy: &Policy) -> Report {
        let mut facts = Facts::within(catalogue.limits.clone());
        for log in &self.logs {
            probe::nccl_log::establish(log, &mut facts);
        }
        let none = Origin::derived("no log was given");
        for subject in [Subject::Run, Subject::Benchmark] {
            facts.set_members(subject, Facts::CLUSTER, Membership::Known(none.clone()));
        }
        let concerns = derive::of_cluster(&mut facts, self.nodes as u64, self.table);
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
        each_of(300, 4, slow_first, |at, result| taken.push((at, result)));
        assert_eq!(taken, (0..300).map(|at| (at, at * 2)).collect::<Vec<_>>());
    }

    /// The offset of a host whose recording began at this stamp, asked for and here at these seconds of this clock, after it had lasted so long.
    fn offset(utc: &str, between: (f64, f64), lasted: f64) -> Option<(f64, f64)> {
        let mut recording = Recording::new(crate::source::wire::Header {
            utc: utc.into(),
            ..Default::default()
        });
        let question = crate::source::Question::read("/proc/uptime");
        recording.add(crate::source::wire::Line::Reply {
            probe: "host".into(),
            question,
            repeat: 0,
            reply: crate::source::Reply {
                at: (lasted * 1e6) as u64,
                said: Ok(crate::source::Answer::Text("1".into())),
            },
        });
        let nanoseconds = |seconds: f64| (seconds * 1e9) as i64;
        let given = Given {
            bytes: Vec::new(),
            between: (nanoseconds(between.0), nanoseconds(between.1)),
        };
        given.note_clock(&mut recording, 7);
        let mut facts = Facts::new();
        let node = probe::establish(&recording, &mut facts);
        let known = |key| {
            facts
                .known(node, key)
                .map(|seconds: crate::fact::Seconds| seconds.0)
        };
        use crate::fact::node;
        Some((
            known(node::CLOCK_OFFSET)?,
            known(node::CLOCK_OFFSET_WITHIN)?,
        ))
    }

    #[test]
    fn a_recording_that_was_asked_for_tells_how_far_the_clock_is() {
        // 1970-01-01T00:16:40 is second 1000. Asked for at 1000, here at 1003, of which it recorded for 2: it began within the first second.
        let near = |found: Option<(f64, f64)>, expected: (f64, f64)| {
            let (offset, within) = found.unwrap();
            let is_near =
                (offset - expected.0).abs() < 0.002 && (within - expected.1).abs() < 0.002;
            assert!(is_near, "{offset} {within}");
        };
        let asked = (1000.0, 1003.0);
        near(offset("1970-01-01T00:16:40.500Z", asked, 2.0), (0.0, 0.5));
        near(offset("1970-01-01T00:17:40.500Z", asked, 2.0), (60.0, 0.5));
        near(offset("1970-01-01T00:16:30.500Z", asked, 2.0), (-10.0, 0.5));
        // A stamp of whole seconds is half a second less exact.
        near(offset("1970-01-01T00:16:40Z", asked, 2.0), (0.0, 1.0));
        // It says that it lasted longer than it was waited for.
        assert_eq!(offset("1970-01-01T00:16:40.500Z", asked, 4.0), None);
        assert_eq!(offset("", asked, 2.0), None);
    }
}
