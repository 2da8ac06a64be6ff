//! The log of a run of NCCL: read from a recording of log files, and not of a machine.
//!
//! Two questions: which files there are, and what is left of each ([`crate::nccl_log`]). The lines
//! that were kept are read again here, put together to communicators and runs, and stated as facts
//! of runs, hosts, ranks, channels, adapters, variables and events.

mod benchmark;
mod benchmark_ranks;
mod carrier;
mod channels;
mod communicator;
mod completion_status;
mod errno;
mod events;
mod fields;
mod hosts;
mod job_files;
mod line;
mod listed;
mod nodes;
mod outcome;
mod ranks;
mod runs;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use self::communicator::{Communicators, ProcessKey, Runs, Span};
use self::fields::Fields;
pub use self::job_files::establish_all;
use self::line::{Line, Writer};
use self::outcome::RunExtents;
use super::Ask;
use crate::fact::event::{LogClass, Role};
use crate::fact::{Fact, Facts, Gap, Id, Membership, Origin, Subject, Typed, Why, cluster, host};
use crate::left_out::{self, LeftOut};
use crate::nccl_log::Digest;
use crate::nccl_log::digest::DroppedEvents;
use crate::nccl_log::event;
use crate::nccl_log::message::MessageGroup;
use crate::nccl_log::prefix::LogLevel;
use crate::nccl_log::sign::Sign;
use crate::probe::outputs::recorded::{self, Evidence, is_of_node};
use crate::source::recording::Recording;
use crate::source::{Question, Refusal};
use crate::tool_output::{self, Block};

/// The name under which the questions are recorded.
pub const NAME: &str = "nccl_log";

/// Hosts of which no line is kept that are told apart: of these only the names are known.
const HOSTS_WITHOUT_LINES: usize = 4096;
const HOSTS_BOUND: &str = "more than 4096 of which no line is kept";

/// What shows the lines of the initialisation.
const INFO: &str = "log with NCCL_DEBUG=INFO";
/// The source of the number of nodes: `nNodes` from 2.20 on, else the hosts that wrote.
const ALL_HOSTS: &str = "log with NCCL_DEBUG=INFO, and give the logs of all hosts";
/// What shows the driver's version.
const DRIVER: &str = "log with NCCL_DEBUG=INFO, and NCCL 2.13 or later";
/// What shows how long the initialisation took.
const TIMES: &str = "log with NCCL_DEBUG=INFO, and NCCL 2.22 or later";
/// What shows the adapters and GPUDirect RDMA.
const NET: &str = "log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET";
/// What shows the topology.
const GRAPH: &str = "log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH";
/// The question which files there are: `{"files":[name, …],"no_text":[name, …],"recordings":[name,
/// …]}`, the last two of those in directories that are not read.
pub fn files() -> Question {
    Question::call("nccl_log", [])
}

/// The question what is left of a file: a [`Digest`].
pub fn file(name: &str) -> Question {
    Question::call("nccl_log_file", [("file", name.into())])
}

/// States what a recording of log files says, in `facts`.
pub fn establish(recording: &Recording, facts: &mut Facts) {
    let source = recording.of(NAME);
    let ask = Ask::new(&source);
    if let Err(panic) =
        crate::catch_panic::catch(std::panic::AssertUnwindSafe(|| read(&ask, facts)))
    {
        let gap = Gap {
            why: Why::ProbeFailed(format!("a bug in probe {NAME}: {panic}").into()),
            origin: Origin::Probe(NAME),
        };
        facts.set_members(Subject::Run, Facts::CLUSTER, Membership::Unknown(gap));
    }
}

/// The file's name, and what is left of it.
pub(super) type File = (Arc<str>, Digest);

/// The files of a recording of logs in which something is recognised.
pub fn recognised(recording: &Recording) -> Vec<Arc<str>> {
    let files = digests(recording).into_iter();
    let recognised = files.filter(|(_, digest)| digest.is_recognised());
    recognised.map(|(name, _)| name).collect()
}

/// Whether a file of a recording of logs tells of a run, or of what failed.
pub fn tells_of_run(recording: &Recording) -> bool {
    for (_, digest) in digests(recording) {
        if recorded::tells_of_run(&digest) {
            return true;
        }
    }
    false
}

/// The machines of which the files of a recording of logs hold outputs of tools; `None` where they
/// hold none.
pub fn machines(recording: &Recording) -> Option<Vec<Recording>> {
    let mut evidence = Evidence::of("standard input");
    for (_, digest) in digests(recording) {
        evidence.add_outputs("", &digest.outputs);
    }
    (!evidence.is_empty()).then(|| evidence.finish())
}

/// What is left of the files of a recording of logs, as far as it can be read.
fn digests(recording: &Recording) -> Vec<File> {
    let source = recording.of(NAME);
    let ask = Ask::new(&source);
    let said = ask.value(files());
    let listed = said.and_then(|said| super::member::<Vec<Arc<str>>>(&said, "files"));
    let names = listed.known().cloned().unwrap_or_default();
    let read = |name: Arc<str>| {
        let digest = ask.read::<Digest>(file(&name)).known().cloned()?;
        Some((name, digest))
    };
    names.into_iter().filter_map(read).collect()
}

/// States the facts of one log's digest; returns the runs in it.
pub fn establish_digest(name: &str, digest: Digest, facts: &mut Facts) -> Vec<Id> {
    let files: Vec<File> = vec![(name.into(), digest)];
    Log::of(&files, None).state(facts)
}

fn read(ask: &Ask<'_>, facts: &mut Facts) {
    let question = files();
    let said = ask.value(question.clone());
    let list = |key: &str| -> Fact<Vec<Arc<str>>> {
        said.clone().and_then(|value| super::member(&value, key))
    };
    for (key, fact) in [
        ("no_text", cluster::LOGS_NO_TEXT),
        ("recordings", cluster::LOGS_RECORDINGS),
    ] {
        if let Fact::Known(names, origin) = list(key)
            && !names.is_empty()
        {
            facts.set(Facts::CLUSTER, fact, Fact::Known(names.into(), origin));
        }
    }
    let names = list("files");
    let (names, origin) = match names {
        Fact::Known(names, origin) => (names, origin),
        Fact::Unknown(gap) => {
            let members = Membership::Unknown(gap);
            for subject in [Subject::Benchmark, Subject::Trace] {
                facts.set_members(subject, Facts::CLUSTER, members.clone());
            }
            facts.set_members(Subject::Run, Facts::CLUSTER, members);
            return;
        }
    };
    let all = names.iter().cloned().collect();
    facts.know(Facts::CLUSTER, cluster::LOGS, all, &origin);
    let labels = labels(&names);
    let mut files: Vec<File> = Vec::new();
    let mut missing = None;
    for (name, label) in names.into_iter().zip(labels) {
        match ask.read::<Digest>(file(&name)) {
            Fact::Known(digest, origin) => {
                if let (None, Some(why)) = (&missing, &digest.broken_off) {
                    missing = Some(Gap::not_said(
                        format!("the log was not read to its end: {why}"),
                        origin,
                    ));
                }
                // A dump's name tells its rank, also where it is the only file.
                let is_dump = digest.trace.is_some();
                files.push((if is_dump { name } else { label }, digest));
            }
            Fact::Unknown(mut gap) => {
                if let Why::Refused(Refusal::Errno(errno)) = gap.why {
                    gap.why = Why::NotSaid(
                        format!("{name} could not be read: {}", errno.meaning()).into(),
                    );
                }
                missing = missing.or(Some(gap));
            }
        }
    }
    leave_out(&files, list_left_out(&said), &origin, facts);
    outputs(&files, &missing, &origin, facts);
    let log = Log::of(&files, missing.clone());
    log.state(facts);
    benchmark::state(&files, &missing, &origin, facts);
    super::trace::state(&files, &missing, &origin, facts);
    let members = Membership::known_unless(missing, origin);
    facts.set_members(Subject::Run, Facts::CLUSTER, members);
}

/// What was not read before the files were told apart.
fn list_left_out(said: &Fact<Arc<serde_json::Value>>) -> Vec<LeftOut> {
    let list = said.known().and_then(|said| said.get("left_out"));
    let list = list.map(serde::Deserialize::deserialize);
    list.and_then(Result::ok).unwrap_or_default()
}

/// States what was not read of all files: what they had no room for, and where one breaks off.
fn leave_out(files: &[File], before: Vec<LeftOut>, origin: &Origin, facts: &mut Facts) {
    let mut all = before;
    for (_, digest) in files {
        for more in digest.not_read.iter().cloned().chain(dropped_lines(digest)) {
            left_out::add(&mut all, more);
        }
    }
    state_left_out(&all, origin, facts);
}

/// States what was left out, beside what other logs left out.
fn state_left_out(more: &[LeftOut], origin: &Origin, facts: &mut Facts) {
    let more = more.iter().map(|one| one.to_string().into());
    facts.add_texts(Facts::CLUSTER, cluster::LEFT_OUT, more, origin);
}

/// Events that had no place and are no harmless ones, and that a file breaks off.
fn dropped_lines(digest: &Digest) -> Vec<LeftOut> {
    let is_trouble = |of: &&DroppedEvents| {
        let class = LogClass::from_word(&of.class);
        let fields = Fields {
            status: of.status,
            ..Fields::default()
        };
        class.is_none_or(|class| fields::role(class, &fields, "") != Role::Benign)
    };
    let events = digest.uncounted.iter().filter(is_trouble);
    let events = events.map(|of| of.count).sum();
    let broken_off = digest.broken_off.iter();
    let broken_off = broken_off.map(|why| LeftOut::one_or_more("line", why.clone()));
    let events = LeftOut::counted(events, "event", "more than 200 of one kind");
    std::iter::once(events).chain(broken_off).collect()
}

/// States the nodes of which outputs of tools stand in these files, and which tools these are.
fn outputs(files: &[File], missing: &Option<Gap>, origin: &Origin, facts: &mut Facts) {
    let blocks = files.iter().flat_map(|(_, digest)| &digest.outputs);
    let read = |block: &&Block| is_of_node(block);
    let unread = |block: &&Block| !tool_output::is_read(&block.argv);
    let of_nodes: Vec<&Block> = blocks.clone().filter(read).collect();
    let others: Vec<&Block> = blocks.filter(unread).collect();
    for (key, blocks) in [
        (cluster::LOGS_OUTPUTS, of_nodes),
        (cluster::LOGS_UNREAD, others),
    ] {
        let tools: BTreeSet<Arc<str>> = blocks.iter().map(|block| block.tool().into()).collect();
        if !tools.is_empty() {
            let tools = tools.into_iter().collect();
            facts.set(Facts::CLUSTER, key, Fact::Known(tools, origin.clone()));
        }
    }
    let members = Membership::known_unless(
        missing.clone(),
        Origin::derived("a log was given, and no node"),
    );
    facts.set_members(Subject::Node, Facts::CLUSTER, members);
    let mut evidence = Evidence::of("unnamed host");
    for (file, digest) in files {
        evidence.add_outputs(file, &digest.outputs);
    }
    for recording in evidence.finish() {
        super::state_node(&recording, facts);
    }
}

/// What files are called if a line is named: one has no name, of several each has that below their
/// common directory.
fn labels(names: &[Arc<str>]) -> Vec<Arc<str>> {
    let (Some(first), true) = (names.first(), names.len() > 1) else {
        return names.iter().map(|_| Arc::from("")).collect();
    };
    let shared = |directory: &&str| names.iter().all(|name| name.starts_with(*directory));
    let ends = first.match_indices('/').map(|(at, _)| at + 1);
    let directories = ends.filter_map(|end| first.get(..end));
    let length = directories.filter(shared).map(str::len).max().unwrap_or(0);
    let label = |name: &Arc<str>| Arc::from(name.get(length..).unwrap_or(name));
    names.iter().map(label).collect()
}

/// A line by its file and its number: `job-1.log:17`, or `line 17` if there is one file.
fn place(label: &str, line: u64) -> String {
    match label {
        "" => format!("line {line}"),
        label => format!("{label}:{line}"),
    }
}

/// What a line says, or what would show it.
fn fact_of<T: Typed>(found: Option<(T, Origin)>, setting: &'static str) -> Fact<T> {
    match found {
        Some((value, origin)) => Fact::Known(value, origin),
        None => Fact::Unknown(not_logged(setting)),
    }
}

/// A log, read and put in order.
struct Log<'d> {
    files: &'d [File],
    lines: Vec<Line<'d>>,
    comms: Communicators<'d>,
    runs: Runs<'d>,
    /// For each line its run and its host.
    places: Vec<Option<LineScope<'d>>>,
    /// For each run the numbers of its lines.
    of_run: Vec<Vec<usize>>,
    /// For each run its largest communicator, the first of several of one size.
    largest: Vec<Option<usize>>,
    /// For each host its first run.
    first_run: HashMap<&'d str, usize>,
    /// What files say of a process: whether it wrote lines of level INFO,
    informed: HashSet<ProcessKey<'d>>,
    /// The sorts of which the files have lines.
    sorts: HashSet<&'d str>,
    /// Files whose lines name no host, which stand for one: what they hold may be of several.
    nameless: HashSet<&'d str>,
    extents: RunExtents,
    /// For each run the signs of how its work goes, each with the number of its file.
    signs: Vec<Vec<(usize, &'d Sign)>>,
    /// For each run the lines of nccl-tests' tables: the file, the number there, and whether it is
    /// a row or where the table begins.
    tests: Vec<Vec<(usize, u64, bool)>>,
    /// Why counts are not known to be whole, if they are not.
    missing: Option<Gap>,
}

/// Where a line belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LineScope<'d> {
    run: usize,
    host: &'d str,
}

impl<'d> Log<'d> {
    /// Whether there are more channels than the files keep lines of.
    fn has_crowd(&self) -> bool {
        self.files
            .iter()
            .any(|(_, digest)| !digest.crowd.is_empty())
    }

    fn of(files: &'d [File], missing: Option<Gap>) -> Self {
        let mut lines = Vec::new();
        for (at, (name, digest)) in files.iter().enumerate() {
            lines.extend(digest.kept.iter().map(|kept| Line::read(at, name, kept)));
        }
        let mut times = lines.iter().filter_map(|line| line.time);
        if let Some(dated) = times.find(|time| time.year && !time.zone) {
            for line in &mut lines {
                line.time = line.time.map(|time| time.in_year_of(dated));
            }
        }
        let whole = whole_names(files);
        for line in &mut lines {
            if let Some(writer) = &mut line.writer {
                writer.host = whole.get(writer.host).copied().unwrap_or(writer.host);
            }
        }
        let named = |host: &'d str| whole.get(host).copied().unwrap_or(host);
        let mut spans: Vec<Span<'d>> = Vec::new();
        // If no line names a host, somebody cut the names off: the ranks are distinguished by their
        // devices.
        let nameless = nameless(files);
        let mut known = HashSet::new();
        for line in &mut lines {
            if let Some(host) = nameless.get(&line.file) {
                line.written_on(host);
                if let Some(process) = RunView::writer_process(line)
                    && known.insert(process)
                {
                    let (file, first) = (line.file, line.kept.line);
                    spans.push(Span {
                        process,
                        file,
                        first,
                    });
                }
            }
        }
        let comms = Communicators::of(&lines);
        for (file, (_, digest)) in files.iter().enumerate() {
            spans.extend(digest.processes.iter().map(|process| Span {
                process: (named(process.host.as_str()), process.pid),
                file,
                first: process.first,
            }));
        }
        spans.sort_by_key(|span| (span.file, span.first));
        let runs = Runs::of(&comms, &spans);
        let largest = largest(&comms, &runs);
        // Lines that name no process are of the run that began last before them.
        let mut begins: Vec<Vec<(u64, usize, &'d str)>> = vec![Vec::new(); files.len()];
        for span in &spans {
            if let Some(run) = runs.of_process.get(&span.process) {
                begins[span.file].push((span.first, *run, span.process.0));
            }
        }
        let mut extents: Vec<Vec<(usize, u64, u64)>> = vec![Vec::new(); files.len()];
        for (file, (_, digest)) in files.iter().enumerate() {
            let mut of_run: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
            for process in &digest.processes {
                let key = (named(process.host.as_str()), process.pid);
                if let Some(run) = runs.of_process.get(&key) {
                    let extent = of_run.entry(*run).or_insert((process.first, process.last));
                    extent.0 = extent.0.min(process.first);
                    extent.1 = extent.1.max(process.last);
                }
            }
            let of_run = of_run.into_iter();
            extents[file] = of_run
                .map(|(run, (first, last))| (run, first, last))
                .collect();
        }
        let only_host: Vec<Option<&'d str>> = files
            .iter()
            .map(|(_, digest)| {
                let processes = digest.processes.iter();
                let mut hosts = processes.map(|process| named(process.host.as_str()));
                let first = hosts.next()?;
                hosts.all(|host| host == first).then_some(first)
            })
            .collect();
        let framework = |line: &Line<'_>| {
            line.message.contains("NCCL")
                || line.tagged_rank.is_some()
                || event::names_cause(line.message.as_bytes())
        };
        let any_run = runs.count > 0
            || lines
                .iter()
                .any(|line| line.level.is_some() || framework(line));
        let mut places = Vec::with_capacity(lines.len());
        for line in &lines {
            let of_process = line
                .writer
                .and_then(|w| Some((runs.of_process.get(&(w.host, w.pid)).copied()?, w.host)));
            let place = match of_process {
                Some((run, host)) => Some(LineScope { run, host }),
                None => {
                    let began = &begins[line.file];
                    let after = began.partition_point(|(first, ..)| *first <= line.kept.line);
                    let near = after
                        .checked_sub(1)
                        .and_then(|at| began.get(at))
                        .or(began.first());
                    let run = near.map_or(0, |(_, run, _)| *run);
                    let host = line
                        .writer
                        .map(|writer| writer.host)
                        .or_else(|| line.host_of_program.map(named))
                        .or_else(|| {
                            let comm = &comms.all[(*largest.get(run)?)?];
                            let member = comm.members.get(&line.tagged_rank?);
                            member.map(|member| member.host)
                        })
                        .or(only_host[line.file])
                        .or_else(|| match line.level {
                            // The version is of the whole job; a truncated line without more cannot
                            // be attributed.
                            Some(LogLevel::Version) => near.map(|(.., host)| *host),
                            // Somebody copied a message without what is before it.
                            Some(LogLevel::Info) if files[line.file].1.processes.is_empty() => {
                                Some(&*files[line.file].0)
                            }
                            Some(LogLevel::Info | LogLevel::Other) => None,
                            Some(LogLevel::Warn) | None => Some(&*files[line.file].0),
                        });
                    host.filter(|_| any_run).map(|host| LineScope { run, host })
                }
            };
            places.push(place);
        }
        let mut of_run: Vec<Vec<usize>> = vec![Vec::new(); runs.count];
        for (at, place) in places.iter().enumerate() {
            if let Some(place) = place {
                let most = of_run.len().max(place.run + 1);
                of_run.resize_with(most, Vec::new);
                of_run[place.run].push(at);
            }
        }
        let extents = RunExtents::new(extents);
        let count = of_run.len();
        let (mut signs, mut tests) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (file, (_, digest)) in files.iter().enumerate() {
            for sign in &digest.signs {
                let run = extents.run_at(file, sign.line, count);
                if let Some(signs) = run.and_then(|run| signs.get_mut(run)) {
                    signs.push((file, sign));
                }
            }
            let tables = (digest.outputs.iter()).filter(|block| block.is_benchmark("nccl-tests"));
            for (place, (line, text)) in tables.flat_map(|block| block.lines.iter().enumerate()) {
                let mut words = text.split_whitespace();
                let is_row = words.next().is_some_and(|size| size.parse::<u64>().is_ok())
                    && words.count() > 4;
                let run = extents.run_at(file, *line, count);
                if let Some(tests) = run.and_then(|run| tests.get_mut(run))
                    && (place == 0 || is_row)
                {
                    tests.push((file, *line, place > 0));
                }
            }
        }
        let mut first_run: HashMap<&str, usize> = HashMap::new();
        for ((host, _), run) in &runs.of_process {
            let first = first_run.entry(host).or_insert(*run);
            *first = (*first).min(*run);
        }
        let mut informed = HashSet::new();
        for process in files.iter().flat_map(|(_, digest)| &digest.processes) {
            let host = process.host.as_str();
            if process.info > 0 {
                informed.insert((host, process.pid));
            }
        }
        let sorts = files.iter().flat_map(|(_, digest)| &digest.sorts);
        let sorts = sorts.filter(|(_, count)| **count > 0);
        let sorts = sorts.map(|(sort, _)| sort.as_str()).collect();
        Log {
            files,
            lines,
            comms,
            runs,
            places,
            of_run,
            largest,
            first_run,
            informed,
            sorts,
            nameless: nameless.into_values().collect(),
            extents,
            signs,
            tests,
            missing,
        }
    }

    /// States all facts; gives the runs.
    fn state(&self, facts: &mut Facts) -> Vec<Id> {
        let count = self.of_run.len();
        let mut ids = Vec::new();
        let mut processes: Vec<Vec<ProcessKey<'d>>> = vec![Vec::new(); count];
        for (process, run) in &self.runs.of_process {
            if let Some(of_run) = processes.get_mut(*run) {
                of_run.push(*process);
            }
        }
        let labels: HashSet<&str> = self.files.iter().map(|(label, _)| &**label).collect();
        for (run, mut processes) in processes.into_iter().enumerate() {
            processes.sort_unstable();
            let name = match count {
                1 => "run".to_owned(),
                _ => format!("run {}", run + 1),
            };
            let id = facts.instance(Subject::Run, Facts::CLUSTER, &name);
            let mut view = RunView {
                log: self,
                run,
                id,
                processes,
                hosts: BTreeMap::new(),
                sums: BTreeMap::new(),
                nodes: None,
            };
            let mut names: BTreeSet<&str> = view.lines().map(|(_, host)| host).collect();
            let mut wrote: Vec<&str> = view.processes.iter().map(|(host, _)| *host).collect();
            wrote.dedup();
            wrote.retain(|host| !names.contains(host));
            let crowded = wrote.len() > HOSTS_WITHOUT_LINES;
            if crowded {
                let count = wrote.len() - HOSTS_WITHOUT_LINES;
                let more = LeftOut::counted(count as u64, "host", HOSTS_BOUND);
                state_left_out(&[more], &Origin::derived("the log"), facts);
            }
            names.extend(wrote.into_iter().take(HOSTS_WITHOUT_LINES));
            // A file stands for a host whose name no line tells.
            let name = |host: &str| match labels.contains(host) {
                true if host.is_empty() => host::UNNAMED.to_owned(),
                true => format!("the host of {host}"),
                false => host.to_owned(),
            };
            let instance = |host| (host, facts.instance(Subject::Host, id, &name(host)));
            view.hosts = names.into_iter().map(instance).collect();
            view.members(facts, crowded);
            runs::state(&mut view, facts);
            channels::state(&mut view, facts);
            hosts::state(&view, facts);
            ranks::state(&view, facts);
            variables::state(&view, facts);
            events::state(&view, facts);
            ids.push(id);
        }
        ids
    }
}

/// Names that begin with the end of a truncated line, and the hosts that they are: `512g183`, where
/// the line of `g183` follows a number without a line's end between. The process of the same number
/// is there under the host's own name, or the name is hardly ever seen.
fn whole_names<'d>(files: &'d [File]) -> HashMap<&'d str, &'d str> {
    let mut lines: BTreeMap<&'d str, u64> = BTreeMap::new();
    let mut processes: BTreeSet<(u64, &'d str)> = BTreeSet::new();
    for process in files.iter().flat_map(|(_, digest)| &digest.processes) {
        *lines.entry(&process.host).or_default() += process.info + process.warnings;
        processes.insert((process.pid, &process.host));
    }
    // Of thousands of hosts all are whole, but for a few.
    let most = lines.values().max().copied().unwrap_or(0);
    let torn = |name: &str, host: &str| {
        let before = name
            .strip_suffix(host)
            .and_then(|before| before.as_bytes().last());
        before.is_some_and(u8::is_ascii_alphanumeric)
            && host.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
    };
    let mut whole = HashMap::new();
    if lines.len() > 2048 {
        return whole;
    }
    for (name, count) in lines
        .iter()
        .filter(|(_, count)| **count <= most / 4 || **count < 3)
    {
        let same = |host: &&'d str| {
            let mut of_name = processes.iter().filter(|(_, of)| of == name);
            of_name.all(|(pid, _)| processes.contains(&(*pid, *host)))
        };
        let found = lines
            .iter()
            .find(|(host, other)| torn(name, host) && (**other >= 4 * count || same(host)));
        if let Some((host, _)) = found {
            whole.insert(*name, *host);
        }
    }
    whole
}

/// The files whose lines name no process, and have lines of NCCL, by their numbers.
fn nameless(files: &[File]) -> BTreeMap<usize, &str> {
    let of_nccl = |digest: &Digest| {
        let sorts = [
            MessageGroup::Init,
            MessageGroup::Env,
            MessageGroup::Net,
            MessageGroup::Channel,
        ];
        sorts
            .iter()
            .any(|sort| digest.sorts.get(sort.word()).is_some_and(|n| *n > 0))
    };
    let files = files.iter().enumerate();
    files
        .filter(|(_, (_, digest))| digest.processes.is_empty() && of_nccl(digest))
        .map(|(at, (name, _))| (at, &**name))
        .collect()
}

fn largest(comms: &Communicators<'_>, runs: &Runs<'_>) -> Vec<Option<usize>> {
    let mut largest: Vec<Option<usize>> = vec![None; runs.count];
    for (at, comm) in comms.all.iter().enumerate() {
        let member = comm.members.values().next();
        let run = member.and_then(|m| runs.of_process.get(&(m.host, m.pid)));
        if let Some(found) = run.and_then(|run| largest.get_mut(*run))
            && found.is_none_or(|most| comm.ranks > comms.all[most].ranks)
        {
            *found = Some(at);
        }
    }
    largest
}

/// One run, while its facts are stated.
struct RunView<'l, 'd> {
    log: &'l Log<'d>,
    run: usize,
    id: Id,
    /// The processes of the run, in their order.
    processes: Vec<ProcessKey<'d>>,
    hosts: BTreeMap<&'d str, Id>,
    /// What channels add up to, for each host.
    sums: BTreeMap<&'d str, channels::ChannelSums>,
    /// How many machines take part, and whether NCCL says so.
    nodes: Option<(u64, bool)>,
}

impl<'l, 'd> RunView<'l, 'd> {
    /// The lines of the run, with the host of each.
    fn lines(&self) -> impl Iterator<Item = (&'l Line<'d>, &'d str)> + use<'l, 'd> {
        let log = self.log;
        let lines = log.of_run.get(self.run).into_iter().flatten();
        lines.filter_map(|at| Some((&log.lines[*at], log.places[*at]?.host)))
    }

    fn by_host(&self) -> BTreeMap<&'d str, Vec<&'l Line<'d>>> {
        let mut by_host: BTreeMap<&str, Vec<&Line<'_>>> = BTreeMap::new();
        for (line, host) in self.lines() {
            by_host.entry(host).or_default().push(line);
        }
        by_host
    }

    /// The hosts of which a process wrote; a file that stands for one does not count.
    fn hosts_seen(&self) -> u64 {
        let hosts = self.processes.iter().map(|(host, _)| *host);
        let mut hosts: Vec<&str> = hosts.filter(|host| !self.is_nameless(host)).collect();
        hosts.dedup();
        hosts.len() as u64
    }

    /// Whether the host is a file that stands for those whose names it does not tell.
    fn is_nameless(&self, host: &str) -> bool {
        self.log.nameless.contains(host)
    }

    /// How many processes of a host there are.
    fn processes_of(&self, host: &str) -> u64 {
        let first = self.processes.partition_point(|(of, _)| *of < host);
        let behind = self.processes.partition_point(|(of, _)| *of <= host);
        (behind - first) as u64
    }

    fn largest(&self) -> Option<usize> {
        *self.log.largest.get(self.run)?
    }

    /// Whether lines of this sort are in the files.
    fn has_sort(&self, sort: MessageGroup) -> bool {
        self.log.sorts.contains(sort.word())
    }

    /// Facts that are complete only if all files were read to their ends.
    fn whole<T: Typed>(&self, fact: Fact<T>) -> Fact<T> {
        match (&self.log.missing, fact) {
            (Some(gap), Fact::Known(..)) => Fact::Unknown(gap.clone()),
            (_, fact) => fact,
        }
    }

    /// A count over lines of the whole log.
    fn total<T: Typed>(&self, value: T, how: &'static str) -> Fact<T> {
        self.whole(Fact::derived(value, how))
    }

    /// All members of the run are known where all files were read.
    fn members(&self, facts: &mut Facts, crowded: bool) {
        let members = |what: &str| {
            Membership::known_unless(
                self.log.missing.clone(),
                Origin::derived(format!("{what} that the log tells of")),
            )
        };
        let hosts = match crowded {
            true => Membership::Unknown(Gap::not_said(
                "the log has more hosts than can be distinguished",
                Origin::derived("the log"),
            )),
            false => members("the hosts"),
        };
        facts.set_members(Subject::Host, self.id, hosts);
        let below = [
            (Subject::Rank, members("the ranks")),
            (Subject::Event, members("the events")),
            (Subject::Env, members("the variables")),
            (Subject::Hca, members("the adapters")),
        ];
        for (subject, members) in below {
            for id in self.hosts.values() {
                facts.set_members(subject, *id, members.clone());
            }
        }
    }

    /// Events of the run that found no place, with the numbers of their files.
    fn uncounted(&self) -> impl Iterator<Item = (usize, &'l DroppedEvents)> + use<'l, 'd> {
        let run = self.run;
        let log = self.log;
        let files = log.files.iter().enumerate();
        let all =
            files.flat_map(|(file, (_, digest))| digest.uncounted.iter().map(move |of| (file, of)));
        // Those of several runs are the first's and the last's: they may be of any between.
        all.filter(move |(file, of)| {
            let runs =
                [of.line, of.last].map(|line| log.extents.run_at(*file, line, log.of_run.len()));
            runs.iter().any(|of| of.is_none_or(|of| of == run))
                || runs[0] < Some(run) && Some(run) < runs[1]
        })
    }

    /// The host's instance.
    fn host(&self, name: &str) -> Option<Id> {
        self.hosts.get(name).copied()
    }

    fn writer_process(line: &Line<'d>) -> Option<ProcessKey<'d>> {
        line.writer.map(|Writer { host, pid, .. }| (host, pid))
    }
}

/// Why a fact that the log could tell is missing: the setting with which it would.
fn not_logged(setting: &'static str) -> Gap {
    Gap {
        why: Why::NotLogged(setting),
        origin: Origin::derived("the log"),
    }
}

/// Distinct texts in their order, with the origin of the first.
#[derive(Default)]
struct Distinct {
    texts: Vec<Arc<str>>,
    origin: Option<Origin>,
    counts: HashMap<Arc<str>, u64>,
}

impl Distinct {
    fn add(&mut self, text: &str, count: u64, origin: &Origin) {
        if self.origin.is_none() {
            self.origin = Some(origin.clone());
        }
        if let Some(all) = self.counts.get_mut(text) {
            *all += count;
            return;
        }
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.counts.insert(text, count);
    }

    fn all(&self, setting: &'static str) -> Fact<Arc<[Arc<str>]>> {
        match &self.origin {
            Some(origin) => Fact::Known(self.texts.iter().cloned().collect(), origin.clone()),
            None => Fact::Unknown(not_logged(setting)),
        }
    }

    /// The most frequent one, the first of several.
    fn most(&self, setting: &'static str) -> Fact<Arc<str>> {
        let frequent = self
            .texts
            .iter()
            .rev()
            .max_by_key(|text| self.counts.get(*text));
        match (frequent, &self.origin) {
            (Some(text), Some(origin)) => Fact::Known(Arc::clone(text), origin.clone()),
            _ => Fact::Unknown(not_logged(setting)),
        }
    }
}
