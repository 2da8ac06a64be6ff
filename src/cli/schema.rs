//! `rdma-doctor schema`: the JSON Schema of what the program writes.

use clap::{Args, ValueEnum};

use super::output;
use crate::exit::Exit;

/// Print the JSON Schema of a report or of a recording.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Of what
    #[arg(value_enum)]
    pub what: SchemaOf,
}

/// What has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// A report, as --format json writes it.
    Report,
    /// Each line of a recording.
    Recording,
}

/// Runs the subcommand.
///
/// # Errors
///
/// The output cannot be written.
pub fn run(args: &SchemaArgs) -> anyhow::Result<Exit> {
    let text = match args.what {
        SchemaOf::Report => include_str!("schema/report.json"),
        SchemaOf::Recording => include_str!("schema/recording.json"),
    };
    output::print(|out| out.write_all(text.as_bytes()))?;
    Ok(Exit::Healthy)
}
