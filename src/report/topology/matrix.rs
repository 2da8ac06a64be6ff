//! The matrix: each GPU's distance to the other GPUs and to the adapters, as `nvidia-smi topo -m` shows it.

use std::io::{self, Write};

use crate::terminal::Paint;

use super::Topology;

/// Columns of the page that are at a row's end.
const NUMA: usize = 4;

/// The words, and what they mean; those that occur are explained.
const LEGEND: [(&str, &str); 5] = [
    ("PIX", "at most one PCIe switch"),
    ("PXB", "several PCIe switches, no host bridge"),
    ("PHB", "a PCIe host bridge: through the CPU"),
    (
        "NODE",
        "two host bridges of one NUMA node (to NCCL it is PHB)",
    ),
    ("SYS", "the link between NUMA nodes"),
];

/// Writes the matrix in blocks of as many columns as fit, and its legend.
pub(super) fn write(out: &mut dyn Write, topology: &Topology, width: usize) -> io::Result<()> {
    let mut columns: Vec<(String, &str)> = Vec::new();
    for gpu in &topology.gpus {
        columns.push((format!("GPU{}", gpu.index), &gpu.pci));
    }
    for nic in &topology.nics {
        if let Some(pci) = &nic.pci {
            columns.push((format!("NIC{}", nic.index), pci));
        }
    }
    // Names and words have four letters; from the tenth GPU or adapter on, names have more.
    let longest = columns.iter().map(|(name, _)| name.len()).max();
    let cell = longest.unwrap_or(4) + 1;
    let fit = (width.saturating_sub(cell + NUMA) / cell).max(1);
    let mut used: Vec<&str> = Vec::new();
    for block in columns.chunks(fit) {
        write!(out, "{:cell$}", "")?;
        for (name, _) in block {
            write!(out, "{name:<cell$}")?;
        }
        writeln!(out, "NUMA")?;
        for gpu in &topology.gpus {
            write!(out, "{:<cell$}", format!("GPU{}", gpu.index))?;
            for (_, pci) in block {
                let word = match *pci == gpu.pci {
                    true => "X",
                    false => topology.distance(&gpu.pci, pci).unwrap_or("?"),
                };
                if !used.contains(&word) {
                    used.push(word);
                }
                let padded = format!("{word:<cell$}");
                let shown = match word {
                    "PIX" | "PXB" => padded.bold(),
                    "?" => padded.magenta(),
                    "X" | "SYS" => padded.dimmed(),
                    _ => padded.normal(),
                };
                write!(out, "{shown}")?;
            }
            match gpu.numa_node {
                Some(numa) => writeln!(out, "{numa}")?,
                None => writeln!(out, "{}", "?".magenta())?,
            }
        }
        writeln!(out)?;
    }
    for (word, meaning) in LEGEND.iter().filter(|(word, _)| used.contains(word)) {
        writeln!(out, "  {word:<4}  {meaning}")?;
    }
    if topology.gpus.len() > 1 {
        writeln!(
            out,
            "  Between GPUs the way over PCIe; NVLink is not looked at."
        )?;
    }
    Ok(())
}
