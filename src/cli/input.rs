//! What is examined, and by which checks: shared by the subcommands.

use std::path::Path;

use anyhow::Context;

use super::output::StandardError;
use super::{AskArgs, NodeArgs, SelectArgs, site_checks, site_config};
use crate::check::Catalogue;
use crate::examine::given::{self, MachineRequest};
pub use crate::examine::unusable::{BadInput, BadUsage, NoReportInTime, bad_usage};
use crate::examine::{budget, one};
use crate::fact::{Facts, Id};
use crate::report::RecordedNode;
use crate::source::recording::Recording;

/// Records this machine or the tree that the arguments name.
///
/// # Errors
///
/// The tree cannot be opened; there is no process of the job's id.
pub fn record(args: &AskArgs) -> anyhow::Result<Recording> {
    given::record(&args.request(), args.root.as_deref(), &StandardError)
}

/// Records this machine as it is recorded where nothing else is asked for.
///
/// # Errors
///
/// The recording cannot be made.
pub fn record_this_machine() -> anyhow::Result<Recording> {
    given::record(&MachineRequest::default(), None, &StandardError)
}

/// Reads the recordings that the arguments name, and texts with outputs of tools in their place.
///
/// # Errors
///
/// [`BadInput`] where one is unreadable or invalid.
pub fn open(paths: &[impl AsRef<Path>]) -> anyhow::Result<Vec<Recording>> {
    budget::open(paths, &StandardError)
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
    let (facts, nodes) = one::facts(&recordings);
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

/// The facts of these recordings, judged together by the site's limits.
///
/// # Errors
///
/// [`BadInput`] where a check file is invalid.
pub fn facts_of_site(recordings: &[Recording]) -> anyhow::Result<(Facts, Vec<RecordedNode>)> {
    Ok(one::facts_within(site_catalogue()?.limits, recordings))
}
