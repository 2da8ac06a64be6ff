//! Processes of ranks of a running job: which there are, and what each does at this moment. All is
//! read from /proc; nothing is attached to a process, and none is stopped or signalled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustix::fs::{Dir, Mode, OFlags};
use serde_json::{Map, Value, json};

use super::files;
use super::job_process::{ENVIRONMENT, open, read_whole};
use super::{rank_sockets, system_call};
use crate::launch;
use crate::source::question::Call;
use crate::source::{Answer, Errno, Refusal};

/// Threads of a process that are looked at.
const THREADS: usize = 4096;
/// Functions of a kernel stack that are told: those above lead to what it waits for.
const FRAMES: usize = 8;

/// Answers `rank_processes` (pids separated by commas), `rank_threads` (pid), `rank_sockets` (pid), `rank_server` (pid, device).
///
/// What the kernel withholds of a process is a member `withheld` with the names of the files.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    if &*call.name == "rank_processes" {
        return Ok(Answer::from(processes(call.text("pids").unwrap_or(""))?));
    }
    let pid = call.number("pid").and_then(|pid| u32::try_from(pid).ok());
    let pid = pid.ok_or_else(|| Refusal::not_asked("no pid"))?;
    match &*call.name {
        "rank_threads" => Ok(Answer::from(threads(pid)?)),
        "rank_sockets" => Ok(Answer::from(rank_sockets::of_process(pid)?)),
        "rank_server" => {
            let device = call.text("device").unwrap_or("");
            Ok(Answer::from(rank_sockets::with_server(pid, device)?))
        }
        name => Err(Refusal::unknown_call(name)),
    }
}

/// The numbers of the processes that the command line named, and whether it asks for their stacks.
pub fn named(pids: &[u32], with_stacks: bool) -> Answer {
    let mut said = json!({ "pids": pids });
    if with_stacks {
        said["stacks"] = true.into();
    }
    Answer::from(said)
}

/// What `/proc/PID/stat` says of a process or a thread (proc_pid_stat(5)).
struct Stat {
    name: String,
    state: String,
    parent: u32,
    major_faults: u64,
    started: u64,
    /// How long it waited for the disk, in clock ticks; 0 where nobody counts that (`kernel.task_delayacct`).
    disk_ticks: u64,
}

impl Stat {
    fn read(path: &str) -> Option<Self> {
        let text = files::text(None, path)?;
        let (head, fields) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Stat {
            name: head.split_once('(')?.1.to_owned(),
            state: (*fields.first()?).to_owned(),
            parent: u32::try_from(number(1)?).ok()?,
            major_faults: number(9)?,
            started: number(19)?,
            disk_ticks: number(39).unwrap_or(0),
        })
    }
}

/// The numbers in a directory of /proc.
fn numbers(path: &str) -> Result<Vec<u32>, Refusal> {
    let dir = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let dir = dir.map_err(std::io::Error::from)?;
    let mut found = Vec::new();
    for entry in Dir::read_from(dir).map_err(std::io::Error::from)? {
        let entry = entry.map_err(std::io::Error::from)?;
        let name = entry.file_name().to_str().ok();
        found.extend(name.and_then(|name| name.parse::<u32>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// What of the environment tells which rank a process is, and of which job.
fn launch_variables(pid: u32) -> Result<Map<String, Value>, Refusal> {
    let wanted: BTreeSet<&str> = launch::numbers().chain(launch::jobs()).collect();
    let found = variables(pid, |name| wanted.contains(name))?;
    let found = found.into_iter();
    Ok(found.map(|(name, value)| (name, value.into())).collect())
}

/// The variables of a process that are wanted.
pub(super) fn variables(
    pid: u32,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, String>, Refusal> {
    let file = std::fs::File::from(open(u64::from(pid), "environ", OFlags::RDONLY)?);
    let bytes = read_whole(file, ENVIRONMENT)?;
    let mut found = BTreeMap::new();
    for variable in bytes.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(variable);
        if let Some((name, value)) = text.split_once('=')
            && is_wanted(name)
        {
            found.insert(name.to_owned(), value.to_owned());
        }
    }
    Ok(found)
}

/// Doctors, and the processes that started this one: a launcher's variables make no ranks of them.
fn doctors_and_ancestors(all: &BTreeMap<u32, Stat>) -> BTreeSet<u32> {
    let doctors = all.iter().filter(|(_, stat)| stat.name == "rdma-doctor");
    let mut own: BTreeSet<u32> = doctors.map(|(pid, _)| *pid).collect();
    let mut at = std::process::id();
    own.remove(&at);
    while at > 1 && own.insert(at) {
        at = all.get(&at).map_or(0, |stat| stat.parent);
    }
    own
}

/// Whether a process is one of these or below one.
fn is_below(all: &BTreeMap<u32, Stat>, roots: &BTreeSet<u32>, pid: u32) -> bool {
    let mut at = pid;
    for _ in 0..all.len() {
        if roots.contains(&at) {
            return true;
        }
        match all.get(&at) {
            Some(stat) => at = stat.parent,
            None => return false,
        }
    }
    false
}

/// `{"processes":[{"pid","parent","name","state","started","env"}],"withheld":[{"pid","name"}],
/// "all_visible"}`: the processes whose environment tells a rank, and those below them; where
/// processes are named, these and those below.
fn processes(pids: &str) -> Result<Value, Refusal> {
    let mut all = BTreeMap::new();
    for pid in numbers("/proc")? {
        if let Some(stat) = Stat::read(&format!("/proc/{pid}/stat")) {
            all.insert(pid, stat);
        }
    }
    let own = doctors_and_ancestors(&all);
    let named: BTreeSet<u32> = pids.split(',').filter_map(|pid| pid.parse().ok()).collect();
    let mut kept: BTreeMap<u32, Map<String, Value>> = BTreeMap::new();
    let mut withheld = Vec::new();
    for (pid, stat) in &all {
        let is_asked = named.is_empty() || is_below(&all, &named, *pid);
        if own.contains(pid) || !is_asked || (stat.parent == 2 || *pid == 2) {
            continue;
        }
        match launch_variables(*pid) {
            Ok(variables) if named.is_empty() && !launch::tells_rank(variables_of(&variables)) => {}
            Ok(variables) => {
                kept.insert(*pid, variables);
            }
            Err(Refusal::Errno(Errno::EACCES | Errno::EPERM)) => {
                withheld.push(json!({ "pid": pid, "name": stat.name }));
            }
            Err(_) => {}
        }
    }
    let roots: BTreeSet<u32> = kept.keys().copied().collect();
    let mut told = Vec::new();
    for (pid, stat) in &all {
        if own.contains(pid) || !is_below(&all, &roots, *pid) {
            continue;
        }
        told.push(json!({
            "pid": pid,
            "parent": stat.parent,
            "name": stat.name,
            "state": stat.state,
            "started": stat.started,
            "env": kept.get(pid),
        }));
    }
    let first = all.contains_key(&1);
    Ok(json!({ "processes": told, "withheld": withheld, "all_visible": first }))
}

fn variables_of(variables: &Map<String, Value>) -> impl Fn(&str) -> Option<String> {
    |name| variables.get(name)?.as_str().map(str::to_owned)
}

/// Reads files of a process, and keeps the names of those that the kernel withholds.
#[derive(Default)]
struct ProcessFiles {
    withheld: BTreeSet<&'static str>,
}

impl ProcessFiles {
    fn text(&mut self, dir: &str, name: &'static str) -> Option<Arc<str>> {
        match files::read(None, &format!("{dir}/{name}")) {
            Ok(Answer::Text(text)) => Some(text),
            Err(Refusal::Errno(Errno::EACCES | Errno::EPERM)) => {
                self.withheld.insert(name);
                None
            }
            _ => None,
        }
    }
}

/// `{"pid","state","major_faults","disk_ticks","swapped_kib","io":{…},"threads":[{"tid","name","state","cpu_ns","slices",
/// "waits_in","call","file","stack"}]}`.
fn threads(pid: u32) -> Result<Value, Refusal> {
    let dir = format!("/proc/{pid}");
    let Some(stat) = Stat::read(&format!("{dir}/stat")) else {
        return Err(Refusal::Errno(Errno::ESRCH));
    };
    let mut reader = ProcessFiles::default();
    let mut told = Vec::new();
    let tids = numbers(&format!("{dir}/task"))?;
    for tid in tids.iter().take(THREADS) {
        told.extend(thread(&dir, *tid, &mut reader));
    }
    let mut counts = Map::new();
    for line in reader.text(&dir, "io").unwrap_or_default().lines() {
        if let Some((name, value)) = line.split_once(": ")
            && let Ok(value) = value.parse::<u64>()
        {
            counts.insert(name.to_owned(), value.into());
        }
    }
    Ok(json!({
        "pid": pid,
        "state": stat.state,
        "major_faults": stat.major_faults,
        "disk_ticks": stat.disk_ticks,
        "swapped_kib": swapped(&dir),
        "io": counts,
        "threads": told,
        "left_out": tids.len().saturating_sub(THREADS),
        "withheld": reader.withheld,
    }))
}

/// What of a process's memory is swapped out, in KiB (`VmSwap` of proc_pid_status(5)).
fn swapped(dir: &str) -> Option<u64> {
    let status = files::text(None, &format!("{dir}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmSwap:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn thread(dir: &str, tid: u32, reader: &mut ProcessFiles) -> Option<Value> {
    let task = format!("{dir}/task/{tid}");
    let stat = Stat::read(&format!("{task}/stat"))?;
    let mut value = json!({ "tid": tid, "name": stat.name, "state": stat.state });
    // Time on a CPU in nanoseconds, time in the queue, how often it ran
    // (Documentation/scheduler/sched-stats.rst).
    if let Some(text) = reader.text(&task, "schedstat") {
        let mut fields = text.split_whitespace().map(str::parse::<u64>);
        let (ran, _, slices) = (fields.next(), fields.next(), fields.next());
        if let (Some(Ok(ran)), Some(Ok(slices))) = (ran, slices) {
            value["cpu_ns"] = ran.into();
            value["slices"] = slices.into();
        }
    }
    if stat.state == "R" {
        return Some(value);
    }
    if let Some(place) = reader.text(&task, "wchan").filter(|place| &**place != "0") {
        value["waits_in"] = Value::from(&*place);
    }
    if let Some(call) = reader.text(&task, "syscall") {
        let mut words = call.split_whitespace();
        let number = words.next().and_then(|word| word.parse().ok());
        if let Some(known) = number.and_then(system_call::of_number) {
            value["call"] = known.name.into();
            let first = words.next().and_then(|word| word.strip_prefix("0x"));
            let first = first.and_then(|word| u32::from_str_radix(word, 16).ok());
            if let Some(descriptor) = first.filter(|_| known.takes_descriptor) {
                let path = format!("{dir}/fd/{descriptor}");
                let target = rustix::fs::readlink(path, Vec::new()).ok();
                let target = target.map(|target| target.to_string_lossy().into_owned());
                value["file"] = target.into();
            }
        }
    }
    if stat.state == "D" || system_call::waits_for_files(&value) {
        let stack = reader.text(&task, "stack").unwrap_or_default();
        let functions = stack.lines().filter_map(function).take(FRAMES);
        value["stack"] = functions.map(Value::from).collect();
    }
    Some(value)
}

/// The function of a line as `[<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]`.
fn function(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("] ")?;
    rest.split('+').next()
}
