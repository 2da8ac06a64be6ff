//! `rdma-doctor topo`: where GPUs and adapters are on PCIe, and how far from each other.

use std::path::Path;

use clap::{Args, ValueEnum};

use super::{NodeArgs, input, output};
use crate::exit::Exit;
use crate::live::files;
use crate::report::topology::svg::NodeDrawing;
use crate::report::topology::{Topology, text};

/// Draw where GPUs and adapters are: a tree of PCIe, and a matrix of distances.
///
/// NUMA nodes, host bridges, switches, GPUs and adapters with their ports, links and nearest neighbours; then each GPU's distance to the other GPUs
/// and to the adapters, in the words of `nvidia-smi topo -m` and NCCL. Needs no GPU driver, but NVLink is known from it alone.
#[derive(Debug, Args)]
pub struct TopoArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// The drawing's format
    #[arg(long, value_enum, default_value_t = TopoFormat::Text)]
    pub format: TopoFormat,
}

/// The format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopoFormat {
    /// For people.
    Text,
    /// For programs: one object.
    Json,
    /// The node as a picture.
    Svg,
    /// For a browser: the picture and the matrix, in one file that loads nothing.
    Html,
}

/// Where distributions have the names of PCI devices.
const PCI_IDS: [&str; 2] = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"];

/// Runs the subcommand.
///
/// # Errors
///
/// Unreadable input, an output that cannot be written.
pub fn run(args: &TopoArgs) -> anyhow::Result<Exit> {
    let (facts, nodes) = input::node(&args.node)?;
    for node in nodes {
        let mut topology = Topology::of(&facts, node);
        // Without such a file an id stands for the name.
        let mut names = PCI_IDS
            .iter()
            .map(|path| files::read_beside(Path::new(path)));
        if let Some(names) = names.find_map(Result::ok) {
            topology.name_models(&names);
        }
        let drawing = NodeDrawing {
            topology,
            marks: None,
        };
        let topology = &drawing.topology;
        let mut file = Vec::new();
        match args.format {
            TopoFormat::Text => output::print(|out| text::write(out, topology, output::width()))?,
            TopoFormat::Json => output::print_json(topology)?,
            TopoFormat::Svg => drawing.write_svg(&mut file)?,
            TopoFormat::Html => drawing.write_page(&mut file)?,
        }
        if !file.is_empty() {
            output::print_raw(&file)?;
        }
    }
    Ok(Exit::Healthy)
}
