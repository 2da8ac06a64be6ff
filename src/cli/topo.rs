//! `rdma-doctor topo`: where GPUs and adapters are on PCIe, and how far from each other.

use clap::Args;

use super::{Format, NodeArgs, input, output};
use crate::exit::Exit;
use crate::report::topology::{Topology, text};

/// Draw where GPUs and adapters are: a tree of PCIe, and a matrix of distances.
///
/// NUMA nodes, host bridges, switches, GPUs and adapters with their ports, links and nearest neighbours; then each GPU's distance to the other GPUs
/// and to the adapters, in the words of `nvidia-smi topo -m` and NCCL. Needs no GPU driver.
#[derive(Debug, Args)]
pub struct TopoArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// The drawing's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &TopoArgs) -> anyhow::Result<Exit> {
    let (facts, nodes) = input::node(&args.node)?;
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
