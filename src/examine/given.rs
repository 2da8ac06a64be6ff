//! What was given to be examined, and how it is read; nothing is judged here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;

use super::recorded_input::{open_recording, read_logs};
use super::sink::Sink;
use super::unusable::{BadInput, bad_usage};
use crate::cluster::handshake::NodeIdentity;
use crate::cluster::key::Trust;
use crate::exit::Exit;
use crate::live::evidence::{FoundTexts, Text};
use crate::live::files;
use crate::live::worker::{self, Plan};
use crate::probe::nccl_log;
use crate::probe::outputs::recorded::Evidence;
use crate::source::recording::Recording;
use crate::terminal;
use crate::{live, probe};

/// What was given to be examined.
#[derive(Clone, Debug)]
pub enum Given {
    /// This machine.
    Machine(MachineRequest),
    /// A directory that holds copies of a machine's sys/, proc/ and etc/.
    Tree(PathBuf, MachineRequest),
    /// A recording, or what comes out of a pipe.
    Recording(PathBuf),
    /// A text with outputs of tools.
    Text(PathBuf),
    /// An archive of such texts.
    Archive(PathBuf),
    /// A directory of them.
    Directory(PathBuf),
    /// Hosts that are reached over ssh, each of which records itself.
    Hosts(HostsRequest),
    /// The nodes of a launch, of which this one is one.
    Launch(Box<LaunchRequest>),
}

/// How a machine is asked.
#[derive(Clone, Debug, Default)]
pub struct MachineRequest {
    /// The pause between two readings of the counters, if there are two.
    pub sample: Option<Duration>,
    /// The NCCL library that the job loads, or its version.
    pub nccl: Option<String>,
    /// A process of the job, whose limits and environment are judged too.
    pub job: Option<u32>,
    /// Whether the first second of a job is not rehearsed.
    pub no_rehearsal: bool,
    /// When probing stops, if that was said.
    pub deadline: Option<Duration>,
}

impl MachineRequest {
    /// When probing stops.
    pub fn deadline(&self) -> Duration {
        probing_deadline(self.deadline)
    }
}

/// When probing stops, by what was said of it.
pub fn probing_deadline(said: Option<Duration>) -> Duration {
    said.unwrap_or(Duration::from_secs(20))
}

/// Hosts, and how they are reached.
#[derive(Clone, Debug)]
pub struct HostsRequest {
    /// Their names.
    pub names: Vec<String>,
    /// The words of the command that reaches a host.
    pub ssh: Vec<String>,
    /// The doctor on the other side, as its shell reads it.
    pub doctor: String,
    /// How many are logged in to at once.
    pub fanout: usize,
    /// How long each may take beyond its own check.
    pub wait: Duration,
    /// How each is asked.
    pub machine: MachineRequest,
    /// Whether the ways between them are not tried.
    pub no_reach: bool,
}

/// A node's part in a launch.
#[derive(Clone, Debug)]
pub struct LaunchRequest {
    /// Its place among the others.
    pub place: NodePlacement,
    /// What is examined as this node.
    pub own: Given,
    /// How long the others are waited for, after this node's own check.
    pub wait: Duration,
    /// How long this node's own check may take.
    pub deadline: Duration,
    /// Whether the ways between the nodes are not tried.
    pub no_reach: bool,
    /// How many nodes give their recordings to one, where that was said.
    pub fanin: Option<u64>,
    /// Which of them exit with the verdict.
    pub exit_on: ExitOn,
}

/// The nodes that exit with the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExitOn {
    /// Rank 0; the others end with 0 where they did their part.
    Rank0,
    /// All.
    All,
}

impl ExitOn {
    /// How who is not rank 0 ends, by the number that rank 0 said; `None` where it said none.
    pub fn elsewhere(self, said: Option<u64>) -> Exit {
        match self {
            ExitOn::Rank0 => Exit::Healthy,
            ExitOn::All => said.map_or(Exit::Internal, Exit::from_code),
        }
    }
}

/// A node's place among the others.
#[derive(Clone, Debug)]
pub struct NodePlacement {
    /// What it says of itself.
    pub own: NodeIdentity,
    /// How many nodes take part.
    pub nodes: u64,
    /// Their names, where the engine says them.
    pub names: Vec<String>,
    /// Whom it trusts.
    pub trust: Trust,
    /// Where rank 0 is.
    pub host: String,
    /// The port at which it listens.
    pub port: u16,
    /// What was understood, for a person.
    pub understood: String,
}

impl Given {
    /// What is at this path. What comes out of a pipe can be read once, and is a recording.
    pub fn of_path(path: &Path) -> Self {
        let own = path.to_owned();
        if files::is_directory(path) {
            Given::Directory(own)
        } else if !files::is_file_or_directory(path) || live::log::is_recording(path) {
            Given::Recording(own)
        } else if live::evidence::is_archive(path) {
            Given::Archive(own)
        } else {
            Given::Text(own)
        }
    }

    /// Where it is.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Given::Recording(path)
            | Given::Text(path)
            | Given::Archive(path)
            | Given::Directory(path)
            | Given::Tree(path, _) => Some(path),
            Given::Machine(_) | Given::Hosts(_) | Given::Launch(_) => None,
        }
    }

    /// Whether it is a live machine or a copied tree, which is asked.
    pub fn is_asked(&self) -> bool {
        matches!(self, Given::Machine(_) | Given::Tree(..))
    }

    /// The recordings of one machine or of one path: several where outputs of several hosts are there.
    ///
    /// # Errors
    ///
    /// It cannot be asked or read, or holds nothing that can.
    pub fn recordings(&self, sink: &dyn Sink) -> anyhow::Result<Vec<Recording>> {
        match self {
            Given::Machine(request) => Ok(vec![record(request, None, sink)?]),
            Given::Tree(root, request) => Ok(vec![record(request, Some(root), sink)?]),
            Given::Recording(path) => Ok(vec![open_recording(path)?]),
            Given::Text(path) => Ok(read_text(path, sink).recordings(path)?),
            Given::Archive(path) | Given::Directory(path) => {
                Ok(read_outputs(path, sink).recordings(path)?)
            }
            Given::Hosts(_) | Given::Launch(_) => {
                Err(bad_usage("several nodes do not stand for one"))
            }
        }
    }
}

/// Records this machine, or the tree at `root`.
///
/// # Errors
///
/// The tree cannot be opened; there is no process of the job's id.
pub fn record(
    request: &MachineRequest,
    root: Option<&Path>,
    sink: &dyn Sink,
) -> anyhow::Result<Recording> {
    if let Some(root) = root {
        let tree = files::Root::open(root).map_err(|error| BadInput::of(root, error))?;
        if !tree.is_of_machine() {
            let hint = files::tree_below(root).map_or(String::new(), |below| {
                format!("; did you mean {}?", terminal::path(&below))
            });
            let what = "not a copy of a machine: it has no sys, proc or etc";
            return Err(BadInput::of(root, format_args!("{what}{hint}")).into());
        }
    }
    if let Some(pid) = request.job
        && !live::job_process::exists(pid)
    {
        return Err(BadInput(format!("--as {pid}: there is no such process")).into());
    }
    if let Some(what) = live::trusted::left_out() {
        sink.say(&what);
    }
    Ok(ask(request, root, sink))
}

fn ask(request: &MachineRequest, root: Option<&Path>, sink: &dyn Sink) -> Recording {
    let probes = probe::PROBES.iter();
    let probes = probes.filter(|p| !(request.no_rehearsal && probe::tries(p)));
    let plan = Plan {
        root: root.map(Path::to_owned),
        sample: request.sample,
        nccl: request.nccl.clone(),
        job: request.job,
        ranks: Vec::new(),
        py_spy: None,
        deadline: request.deadline(),
        probes: probes.map(|p| (p.name, p.budget)).collect(),
        program: None,
    };
    let mut recording = worker::record(&plan, |event| sink.progress(event));
    if recording.header.node.is_empty()
        && let Some(root) = root
    {
        // Its own name, so that the redaction knows it too.
        let own = files::host_name_of_tree(root);
        let dir = root
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        recording.header.node = own.or(dir).unwrap_or_else(|| "tree".into());
    }
    recording
}

/// Outputs that are named because they are not read, at most.
const NAMED: usize = 20;

/// What can be read, for a text that holds nothing of it.
const READABLE: &str = "it is no recording, and holds no output of a tool that is read: ibstat, ibv_devinfo, rdma link, show_gids, \
    perfquery, ibnetdiscover, iblinkinfo, ibqueryerrors, mlxlink, lldpctl, ip addr|route|rule|neigh, ethtool, mlnx_qos, lspci -vvv|-xxx, dmesg, nvidia-smi, amd-smi, iptables-save, nft list ruleset, ulimit -a, \
    sysctl -a, env, docker inspect and others (rdma-doctor-evidence(7) lists them; rdma-doctor collect-script prints a script that writes them)";

/// What a path holds.
pub(super) enum FoundOutputs {
    /// A recording, if anything.
    Recording,
    /// Outputs of tools, a recording of each host.
    Outputs(Vec<Recording>),
    /// Neither; why.
    Nothing(String),
}

impl FoundOutputs {
    pub(super) fn recordings(self, path: &Path) -> Result<Vec<Recording>, BadInput> {
        match self {
            FoundOutputs::Recording => Ok(vec![open_recording(path)?]),
            FoundOutputs::Outputs(recordings) => Ok(recordings),
            FoundOutputs::Nothing(why) => Err(BadInput(why)),
        }
    }
}

/// How a recording begins.
const RECORDING: &str = "{\"rdma";

/// The name of a file without its ending.
pub(super) fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    stem.to_string_lossy().trim_end_matches(".tar").to_owned()
}

/// Directories at the root of a machine whose copies are asked as the machine is.
const TOP: [&str; 5] = ["sys", "proc", "etc", "dev", "run"];

/// The directory in which copies of these stand, if this is a directory and holds nothing else.
fn tree_of_machine(path: &Path, texts: &[Text]) -> Option<PathBuf> {
    let above = |text: &Text| -> Option<PathBuf> {
        let parts: Vec<&str> = text.path.split('/').collect();
        let at = parts.iter().position(|part| TOP.contains(part))?;
        (at < parts.len() - 1).then(|| parts.get(..at).unwrap_or_default().iter().collect())
    };
    let first = above(texts.first()?)?;
    // Where links became files with their targets, nothing is found through them.
    let is_link = |text: &Text| text.text.starts_with("../");
    let is_part = |text: &Text| above(text).as_ref() == Some(&first) && !is_link(text);
    let is_directory = files::Root::open(path).is_ok();
    let is_tree = is_directory && texts.iter().all(is_part);
    is_tree.then(|| path.join(first))
}

/// What several texts beside each other hold, if it is of one machine, as their directory would;
/// `None` where one of them cannot be read, or is empty.
pub(super) fn read_outputs_beside<P: AsRef<Path>>(
    paths: &[P],
    sink: &dyn Sink,
) -> Option<Vec<Recording>> {
    let above = paths.first().and_then(|path| path.as_ref().parent())?;
    let are_below = (paths.iter()).all(|path| path.as_ref().parent() == Some(above));
    let name = above.file_name().filter(|_| are_below);
    let name = name.map_or("outputs".into(), |name| name.to_string_lossy());
    let mut evidence = Evidence::of(&name);
    for path in paths.iter().map(AsRef::as_ref) {
        let FoundTexts { texts, left_out } = live::evidence::read(path).ok()?;
        for text in &texts {
            let text_of_file = text.text.trim_start();
            if text_of_file.is_empty() || text_of_file.starts_with(RECORDING) {
                return None;
            }
            evidence.add_text_beside(&terminal::path(path), &stem(path), &text.text);
        }
        evidence.leave_out(left_out);
    }
    let unread = evidence.unread().to_vec();
    let recordings = evidence.finish();
    let mut nodes = recordings.iter().filter(|one| !one.header.log);
    let first = nodes.next()?;
    let is_one = nodes.all(|one| one.header.node == first.header.node);
    is_one.then(|| {
        say_unread(&unread, sink);
        recordings
    })
}

/// Names the outputs that are known and not read.
fn say_unread(unread: &[String], sink: &dyn Sink) {
    for named in unread.iter().take(NAMED) {
        sink.say(&format!("{named}: known, and not read"));
    }
    let more = unread.len().saturating_sub(NAMED);
    if more > 0 {
        sink.say(&format!("{more} more outputs are known, and not read"));
    }
}

/// These files read together, if one of them holds what ranks recorded of their collectives: such
/// records are judged together, with logs beside them.
pub(super) fn read_traces<P: AsRef<Path>>(paths: &[P]) -> Option<Recording> {
    if !paths
        .iter()
        .any(|path| live::log::holds_trace(path.as_ref()))
    {
        return None;
    }
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
    let log = read_logs(&paths, None).ok()?;
    nccl_log::tells_of_run(&log).then_some(log)
}

/// What a text holds: a log of any length, or what tools printed.
pub(super) fn read_text(path: &Path, sink: &dyn Sink) -> FoundOutputs {
    let Ok(log) = read_logs(&[path.to_owned()], None) else {
        return read_outputs(path, sink);
    };
    if nccl_log::tells_of_run(&log) {
        return FoundOutputs::Outputs(vec![log]);
    }
    match read_outputs(path, sink) {
        // A setting alone tells of no run, and is something all the same.
        FoundOutputs::Nothing(_) if !nccl_log::recognised(&log).is_empty() => {
            FoundOutputs::Outputs(vec![log])
        }
        found => found,
    }
}

/// What a text, an archive or a directory holds.
pub(super) fn read_outputs(path: &Path, sink: &dyn Sink) -> FoundOutputs {
    if let Some(log) = read_traces(&[path]) {
        return FoundOutputs::Outputs(vec![log]);
    }
    let nothing = |why: &str| FoundOutputs::Nothing(format!("{}: {why}", terminal::path(path)));
    let FoundTexts { texts, left_out } = match live::evidence::read(path) {
        Ok(found) => found,
        Err(error) => return nothing(&error.to_string()),
    };
    // A recording that was damaged at its beginning says itself what is wrong with it.
    if texts.iter().all(|text| {
        !text.is_member
            && (text.text.trim_start().starts_with(RECORDING) || text.text.trim().is_empty())
    }) {
        return FoundOutputs::Recording;
    }
    if let Some(tree) = tree_of_machine(path, &texts) {
        let recording = ask(&MachineRequest::default(), Some(&tree), sink);
        return FoundOutputs::Outputs(vec![recording]);
    }
    let mut evidence = Evidence::of(&stem(path));
    for text in &texts {
        match text.is_member {
            true => evidence.add_member(&text.path, &text.text),
            false => evidence.add_text(&terminal::path(path), &text.text),
        }
    }
    let unread = evidence.unread();
    if evidence.is_empty() {
        let known = unread.iter().take(NAMED);
        let known = known.map(|named| format!("{named}: known, and not read; "));
        let not_read = left_out.iter().map(|one| format!("; {one}"));
        let [known, not_read] = [known.collect::<String>(), not_read.collect()];
        return nothing(&format!("{known}{READABLE}{not_read}"));
    }
    say_unread(unread, sink);
    evidence.leave_out(left_out);
    FoundOutputs::Outputs(evidence.finish())
}
