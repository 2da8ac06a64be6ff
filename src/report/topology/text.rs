//! The topology as text: the tree, the matrix, and what is not known.

use std::io::{self, Write};

use crate::terminal::{Paint, Painted};

use super::tree::{self, TreeLeaf, TreePart};
use super::{Gpu, Link, Nic, Port, Topology, matrix};
use crate::fact::BitRate;
use crate::report::plural;
use crate::report::text::paragraph;

/// Writes the topology for people, in lines of at most `width` columns where names allow it.
pub fn write(out: &mut dyn Write, topology: &Topology, width: usize) -> io::Result<()> {
    let page = Page {
        topology,
        width: width.clamp(72, 100),
    };
    page.head(out)?;
    page.tree(out)?;
    if topology.gpus.is_empty() {
        let none = match topology.all_gpus {
            true => "No GPU on the PCI bus, so there are no distances.".normal(),
            false => "No GPU is known, so there are no distances.".magenta(),
        };
        writeln!(out, "\n{none}")?;
    } else {
        writeln!(out)?;
        matrix::write(out, topology, page.width)?;
    }
    page.unknown(out)
}

struct Page<'t> {
    topology: &'t Topology,
    width: usize,
}

impl Page<'_> {
    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let t = self.topology;
        let count = |n: usize, what: &str, all: bool| match (n, all) {
            (0, false) => format!("{what}s unknown"),
            (n, _) => plural(n as u64, what),
        };
        let mut parts = vec![
            count(t.gpus.len(), "GPU", t.all_gpus),
            count(t.nics.len(), "adapter", t.all_nics),
        ];
        parts.extend(t.numa_nodes.map(|n| plural(n, "NUMA node")));
        writeln!(out, "{} · {}", t.node.bold(), parts.join(" · "))?;
        if let Some(file) = &t.topo_file {
            writeln!(
                out,
                "NCCL does not look at this: it takes its topology from {file}"
            )?;
        }
        Ok(())
    }

    fn tree(&self, out: &mut dyn Write) -> io::Result<()> {
        let t = self.topology;
        let (placed, unplaced) = tree::by_numa_node(t);
        for (at, here) in placed {
            writeln!(out)?;
            self.numa(out, at)?;
            self.parts(out, &tree::host_bridges(&here), "")?;
        }
        self.unplaced(out, &unplaced)?;
        if t.gpus
            .iter()
            .any(|gpu| gpu.link.is_some_and(Link::is_lowered))
        {
            writeln!(out, "\nIdle GPUs lower their PCIe link: this is normal.")?;
        }
        Ok(())
    }

    fn numa(&self, out: &mut dyn Write, at: Option<u64>) -> io::Result<()> {
        let forbidden = self.topology.cpu_nodes_forbidden.as_ref();
        match at {
            Some(at) if forbidden.is_some_and(|f| f.contains(&at.to_string())) => writeln!(
                out,
                "{} {}",
                format!("NUMA node {at}").bold(),
                "(this process may run on none of its CPUs)".yellow()
            ),
            Some(at) => {
                let cpus = self
                    .topology
                    .cpus(at)
                    .map(|cpus| format!("CPUs {cpus}").dimmed());
                let cpus = cpus.map_or(String::new(), |cpus| format!("  {cpus}"));
                writeln!(out, "{}{cpus}", format!("NUMA node {at}").bold())
            }
            None => writeln!(out, "{}", "NUMA node ?".magenta().bold()),
        }
    }

    fn unplaced(&self, out: &mut dyn Write, ends: &[TreeLeaf]) -> io::Result<()> {
        for (title, on_pci) in [
            ("PCI path unknown", true),
            ("On no PCI bus, or on one that is unknown", false),
        ] {
            let parts: Vec<TreePart> = ends
                .iter()
                .filter(|end| match end {
                    TreeLeaf::Gpu(_) => on_pci,
                    TreeLeaf::Nic(at) => self.topology.nics[*at].pci.is_some() == on_pci,
                })
                .map(|end| TreePart::End(*end, 0))
                .collect();
            if !parts.is_empty() {
                writeln!(out, "\n{}", title.bold())?;
                self.parts(out, &parts, "")?;
            }
        }
        Ok(())
    }

    fn parts(&self, out: &mut dyn Write, parts: &[TreePart], indent: &str) -> io::Result<()> {
        for (at, part) in parts.iter().enumerate() {
            let last = at + 1 == parts.len();
            let (branch, below) = if last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            let below = format!("{indent}{below}");
            match part {
                TreePart::Fork(name, parts) => {
                    writeln!(out, "{indent}{branch}{}", name.dimmed())?;
                    self.parts(out, parts, &below)?;
                }
                TreePart::End(leaf, hidden) => {
                    let words = match leaf {
                        TreeLeaf::Gpu(at) => gpu_words(&self.topology.gpus[*at], *hidden),
                        TreeLeaf::Nic(at) => nic_words(&self.topology.nics[*at], *hidden),
                    };
                    self.end(out, &format!("{indent}{branch}"), &below, &words)?;
                }
            }
        }
        Ok(())
    }

    /// An end: its words in one line where they fit, else broken between them.
    fn end(
        &self,
        out: &mut dyn Write,
        head: &str,
        below: &str,
        words: &[Painted],
    ) -> io::Result<()> {
        write!(out, "{head}")?;
        let mut column = head.chars().count();
        for (at, word) in words.iter().enumerate() {
            let length = word.chars().count();
            if at > 0 && column + 2 + length > self.width {
                write!(out, "\n{below}     ")?;
                column = below.chars().count() + 5;
            } else if at > 0 {
                write!(out, "  ")?;
                column += 2;
            }
            write!(out, "{word}")?;
            column += length;
        }
        writeln!(out)
    }

    /// Why something is not known: once for each fact, by the first that lacks it.
    fn unknown(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut said: Vec<(&str, &str, u64)> = Vec::new();
        for why in &self.topology.unknown {
            let fact = why.split(": ").next().unwrap_or(why);
            match said.iter_mut().find(|(other, ..)| *other == fact) {
                Some((_, _, more)) => *more += 1,
                None => said.push((fact, why, 0)),
            }
        }
        if said.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{}", "? is not known:".magenta())?;
        for (_, why, more) in said {
            let more = match more {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            paragraph(out, "  ", 4, format!("{why}{more}"), self.width)?;
        }
        Ok(())
    }
}

/// `PCIe 5.0 x16`, with what is possible if it runs lower.
pub(super) fn link_words(link: Option<Link>) -> Option<Painted> {
    let link = link?;
    let now = format!("PCIe {}.0 x{}", link.generation, link.width);
    Some(if link.is_lowered() {
        let (generation, width) = link.possible();
        format!("{now} (of {generation}.0 x{width})").normal()
    } else {
        now.normal()
    })
}

/// Switches between the fork above and the end, with nothing else on them.
fn hidden_words(hidden: usize) -> Option<Painted> {
    let switches = if hidden == 1 { "switch" } else { "switches" };
    (hidden > 0).then(|| format!("below {hidden} more {switches}").dimmed())
}

pub(super) fn gpu_words(gpu: &Gpu, hidden: usize) -> Vec<Painted> {
    let mut words = vec![
        format!("GPU{}", gpu.index).bold(),
        gpu.pci.normal(),
        match gpu.model.as_ref().or(gpu.id.as_ref()) {
            Some(model) => model.normal(),
            None => "?".magenta(),
        },
    ];
    words.extend(link_words(gpu.link));
    words.extend(hidden_words(hidden));
    if let (Some(nic), Some(distance)) = (&gpu.near_nic, gpu.near_distance) {
        words.push(format!("→ {nic} {distance}").normal());
    }
    words
}

pub(super) fn nic_words(nic: &Nic, hidden: usize) -> Vec<Painted> {
    let names = match nic.devices.is_empty() {
        true => "no RDMA device".magenta(),
        false => nic.devices.join(", ").normal(),
    };
    let mut words = vec![format!("NIC{}", nic.index).bold(), names];
    words.extend(nic.pci.as_ref().map(|pci| pci.normal()));
    words.extend(nic.model.as_ref().map(|model| model.normal()));
    words.extend(nic.rail.map(|rail| format!("rail {rail}").normal()));
    if nic.software == Some(true) {
        words.push("software".normal());
    }
    words.extend(link_words(nic.link));
    words.extend(hidden_words(hidden));
    if nic.intended == Some(false) {
        words.push("not for jobs".dimmed());
    }
    words.extend(nic.ports.iter().map(port_words));
    words
}

/// `port 1: active 400 Gb/s infiniband ib0`
pub(super) fn port_words(port: &Port) -> Painted {
    let number = port.name.rsplit('/').next().unwrap_or("?");
    let rate = port.rate.map_or("?".to_owned(), |r| BitRate(r).to_string());
    let mut text = format!(
        "port {number}: {} {rate} {}",
        port.state.unwrap_or("?"),
        port.link_layer.unwrap_or("?")
    );
    if let Some(netdev) = &port.netdev {
        text.push(' ');
        text.push_str(netdev);
    }
    text.normal()
}
