//! `rdma-doctor topo`: where GPUs and adapters are on PCIe, and how far from each other.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{AskArgs, input, output};
use crate::exit::Exit;
use crate::report::topology::{Topology, text};

/// Draw where GPUs and adapters are: a tree of PCIe, and a matrix of distances.
///
/// NUMA nodes, host bridges, switches, GPUs and adapters with their ports, links and nearest neighbours; then each GPU's distance to the other GPUs
/// and to the adapters, in the words of `nvidia-smi topo -m` and NCCL. Needs no GPU driver.
#[derive(Debug, Args)]
pub struct TopoArgs {
    /// The recording to read in place of this machine
    #[arg(value_name = "RECORDING", conflicts_with_all = ["root", "sample"])]
    pub recording: Option<PathBuf>,
    /// How a machine is asked.
    #[command(flatten)]
    pub ask: AskArgs,
    /// The drawing's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// A drawing's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one object.
    Json,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &TopoArgs) -> anyhow::Result<Exit> {
    let recordings = match &args.recording {
        Some(path) => input::open(&[path])?,
        None => vec![input::record(&args.ask)?],
    };
    let (facts, nodes) = input::facts(&recordings);
    for node in nodes {
        let topology = Topology::of(&facts, node);
        output::print(|out| match args.format {
            Format::Text => text::write(out, &topology, output::width()),
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &topology)?;
                writeln!(out)
            }
        })?;
    }
    Ok(Exit::Healthy)
}
