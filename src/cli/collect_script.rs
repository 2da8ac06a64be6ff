//! `rdma-doctor collect-script`: a shell script for machines on which this program cannot run.

use clap::Args;

use super::output;
use crate::exit::Exit;

/// What it prints: it reads, and writes to its standard output alone.
const SCRIPT: &str = include_str!("collect-script.sh");

/// Print the script.
#[derive(Debug, Args)]
pub struct CollectScriptArgs {}

/// Runs the subcommand.
///
/// # Errors
///
/// An output that cannot be written.
pub fn run(_: &CollectScriptArgs) -> anyhow::Result<Exit> {
    output::print(|out| out.write_all(SCRIPT.as_bytes()))?;
    Ok(Exit::Healthy)
}
