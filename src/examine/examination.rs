//! What is examined, and how: what a subcommand says of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::budget::ClusterMemory;
use super::given::Given;
use super::sink::Sink;
use crate::check::Catalogue;
use crate::exit::Exit;
use crate::report::{Policy, Report};

/// What is examined, and how.
pub struct Examination<'a> {
    /// What was given: a machine, hosts, a launch, or any number of paths.
    pub given: Vec<Given>,
    /// Results of benchmarks, and logs, that are judged with it.
    pub with: &'a [PathBuf],
    /// Whether each path is judged alone.
    pub each: bool,
    /// The nodes that are expected among the recordings, where they are named.
    pub expected: Option<Vec<String>>,
    /// What the node is held against.
    pub baseline: Option<&'a Path>,
    /// Whether the report's form has drawings.
    pub draws: bool,
    /// When probing stops, if that was said.
    pub deadline: Option<Duration>,
    /// Memory for the recordings of all nodes together.
    pub memory: ClusterMemory,
    /// Where the exit status draws the line.
    pub policy: &'a Policy,
    /// The checks.
    pub checks: Checks<'a>,
    /// Who is told what is not in the report.
    pub sink: &'a dyn Sink,
}

/// How the checks are read.
pub struct Checks<'a> {
    /// Reads them.
    pub read: &'a (dyn Fn() -> anyhow::Result<Catalogue> + Sync),
    /// Whether the user chose them, so that a mistake is told before a machine is asked.
    pub are_chosen: bool,
}

/// Shows the reports, and gives the exit status.
pub type Show<'a> = &'a dyn Fn(&[Report]) -> anyhow::Result<Exit>;
