//! What is examined, and by which checks: shared by the subcommands.

use std::path::Path;

use anyhow::Context;

pub use super::bad_arguments::{BadInput, BadUsage, NoReportInTime, bad_usage};
use super::{AskArgs, NodeArgs, SelectArgs, budget, evidence, output, site_checks, site_config};
use crate::check::Catalogue;
use crate::fact::{Facts, Id, Limits, Membership, Origin, Subject};
use crate::live::files;
use crate::live::worker::{self, Plan};
use crate::report::RecordedNode;
use crate::source::recording::Recording;
use crate::terminal;
use crate::{derive, probe};

/// Records this machine or the tree that the arguments name.
///
/// # Errors
///
/// The tree cannot be opened; there is no process of the job's id.
pub fn record(args: &AskArgs) -> anyhow::Result<Recording> {
    let tries = |name: &str| name == probe::rehearsal::PROBE.name;
    let probes = probe::PROBES.iter();
    let probes = probes.filter(|p| !(args.no_rehearsal && tries(p.name)));
    let probes = probes.map(|p| (p.name, p.budget)).collect();
    if let Some(root) = &args.root {
        let tree = files::Root::open(root).map_err(|error| BadInput::of(root, error))?;
        if !tree.is_of_machine() {
            let hint = files::tree_below(root).map_or(String::new(), |below| {
                format!("; did you mean {}?", terminal::path(&below))
            });
            let what = "not a copy of a machine: it has no sys, proc or etc";
            return Err(BadInput::of(root, format_args!("{what}{hint}")).into());
        }
    }
    if let Some(pid) = args.job
        && !crate::live::job_process::exists(pid)
    {
        return Err(BadInput(format!("--as {pid}: there is no such process")).into());
    }
    let plan = Plan {
        root: args.root.clone(),
        sample: args.sample,
        nccl: args.nccl.clone(),
        job: args.job,
        deadline: args.deadline(),
        probes,
        program: None,
    };
    if let Some(what) = crate::live::trusted::left_out() {
        output::say(&what);
    }
    let mut recording = worker::record(&plan, output::progress);
    if recording.header.node.is_empty()
        && let Some(root) = &args.root
    {
        // Its own name, so that the redaction knows it too.
        let own = files::host_name_of_tree(root);
        let dir = root
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        recording.header.node = own.or(dir).unwrap_or_else(|| "tree".into());
    }
    Ok(recording)
}

/// Reads one recording.
///
/// # Errors
///
/// It is unreadable or invalid.
pub fn open_recording(path: &Path) -> Result<Recording, BadInput> {
    Recording::open(path).map_err(|error| BadInput(error.to_string()))
}

/// Reads the recordings that the arguments name, and texts with outputs of tools in their place.
///
/// # Errors
///
/// [`BadInput`] where one is unreadable or invalid.
pub fn open(paths: &[impl AsRef<Path>]) -> anyhow::Result<Vec<Recording>> {
    let each: anyhow::Result<Vec<Vec<Recording>>> = paths
        .iter()
        .map(|path| {
            let path = path.as_ref();
            let opened = budget::file(path, || evidence::open(path));
            opened.unwrap_or_else(|why| Err(BadInput::of(path, why).into()))
        })
        .collect();
    Ok(each?.into_iter().flatten().collect())
}

/// The built-in checks, the site's and those of the arguments, as selected.
///
/// # Errors
///
/// [`BadInput`] where a check file is invalid, [`BadUsage`] where a selection matches nothing.
pub fn catalogue(args: &SelectArgs) -> anyhow::Result<Catalogue> {
    let mut catalogue = with_site(&args.checks, args.waivers.as_deref())?;
    // Chosen checks must be judged.
    if args.only.is_empty() {
        let site = site_config::get()?;
        catalogue
            .select(&[], &site.skip)
            .map_err(|e| BadInput(format!("{}: skip: {e}", site.path())))?;
    }
    catalogue
        .select(&args.only, &args.skip)
        .map_err(|e| BadUsage(e.to_string()))?;
    catalogue.is_chosen = !args.only.is_empty();
    Ok(catalogue)
}

/// The built-in checks and the site's, for a subcommand that takes no others.
///
/// # Errors
///
/// [`BadInput`] where a check file is invalid.
pub fn site_catalogue() -> anyhow::Result<Catalogue> {
    with_site(&[] as &[&Path], None)
}

fn with_site(further: &[impl AsRef<Path>], waivers: Option<&Path>) -> anyhow::Result<Catalogue> {
    let mut catalogue = Catalogue::embedded().context("a built-in check is invalid")?;
    site_checks::add(&mut catalogue, further, waivers)?;
    Ok(catalogue)
}

/// The facts of the node that the arguments name, and the node.
///
/// # Errors
///
/// Unreadable input.
pub fn node(args: &NodeArgs) -> anyhow::Result<(Facts, Vec<Id>)> {
    let recordings = recordings(args)?;
    let (facts, nodes) = facts(&recordings);
    Ok((facts, nodes.into_iter().map(|node| node.id).collect()))
}

/// The recording that the arguments name, or one of this machine.
///
/// # Errors
///
/// Unreadable input.
pub fn recordings(args: &NodeArgs) -> anyhow::Result<Vec<Recording>> {
    match &args.recording {
        Some(path) => open(&[path]),
        None => Ok(vec![record(&args.ask)?]),
    }
}

/// What a report says of a node's recording.
pub fn recorded(recording: &Recording, id: Id) -> RecordedNode {
    RecordedNode {
        id,
        utc: recording.header.utc.clone(),
        altered: recording.header.altered.clone(),
        tree: recording.header.tree,
        is_complete: recording.is_complete(),
        doubt: None,
        micros: recording.duration(),
    }
}

/// The facts of this machine's recording, and its node.
pub fn own_facts(recording: &Recording) -> (Facts, Id) {
    let mut facts = Facts::new();
    let node = probe::establish(recording, &mut facts);
    derive::derive(&mut facts);
    (facts, node)
}

/// The facts of these recordings, judged together by the built-in limits.
pub fn facts(recordings: &[Recording]) -> (Facts, Vec<RecordedNode>) {
    facts_within(Limits::default(), recordings)
}

/// The facts of these recordings, judged together by the site's limits.
///
/// # Errors
///
/// [`BadInput`] where a check file is invalid.
pub fn facts_of_site(recordings: &[Recording]) -> anyhow::Result<(Facts, Vec<RecordedNode>)> {
    Ok(facts_within(site_catalogue()?.limits, recordings))
}

/// The facts of these recordings, judged together by these limits.
///
/// Each node comes with its recording; a recording of a log is of none.
pub fn facts_within(limits: Limits, recordings: &[Recording]) -> (Facts, Vec<RecordedNode>) {
    let mut facts = Facts::within(limits);
    let (logs, machines): (Vec<_>, Vec<_>) = recordings.iter().partition(|r| r.header.log);
    for log in &logs {
        probe::nccl_log::establish(log, &mut facts);
    }
    if machines.is_empty() && logs.is_empty() {
        let origin = Origin::derived("no node was given");
        facts.set_members(Subject::Node, Facts::CLUSTER, Membership::Known(origin));
    }
    let nodes = machines
        .into_iter()
        .map(|r| recorded(r, probe::establish(r, &mut facts)))
        .collect();
    derive::derive(&mut facts);
    (facts, nodes)
}
