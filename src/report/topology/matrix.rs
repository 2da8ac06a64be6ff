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
    let columns = topology.columns();
    // Names and words have four letters; from the tenth GPU or adapter on, names have more.
    let longest = columns.iter().map(|(name, _)| name.len()).max();
    let cell = longest.unwrap_or(4) + 1;
    let fit = (width.saturating_sub(cell + NUMA) / cell).max(1);
    let mut used: Vec<String> = Vec::new();
    for block in columns.chunks(fit) {
        write!(out, "{:cell$}", "")?;
        for (name, _) in block {
            write!(out, "{name:<cell$}")?;
        }
        writeln!(out, "NUMA")?;
        for gpu in &topology.gpus {
            write!(out, "{:<cell$}", format!("GPU{}", gpu.index))?;
            for (_, pci) in block {
                let word = topology.word(&gpu.pci, pci);
                let padded = format!("{word:<cell$}");
                let shown = match word.as_str() {
                    "PIX" | "PXB" => padded.bold(),
                    nvlink if nvlink.starts_with("NV") => padded.bold(),
                    "?" => padded.magenta(),
                    "X" | "SYS" => padded.dimmed(),
                    _ => padded.normal(),
                };
                write!(out, "{shown}")?;
                if !used.contains(&word) {
                    used.push(word);
                }
            }
            match gpu.numa_node {
                Some(numa) => writeln!(out, "{numa}")?,
                None => writeln!(out, "{}", "?".magenta())?,
            }
        }
        writeln!(out)?;
    }
    for (word, meaning) in legend(topology, &used) {
        writeln!(out, "  {word:<4}  {meaning}")?;
    }
    Ok(())
}

/// The words that are used, with their meanings.
fn legend(topology: &Topology, used: &[String]) -> Vec<(&'static str, &'static str)> {
    let is_nvlink = |word: &String| word.starts_with("NV");
    let mut legend = Vec::new();
    if used.iter().any(is_nvlink) {
        legend.push(("NV#", "this many NVLinks, directly or through NVSwitches"));
    }
    let is_used = |word: &str| used.iter().any(|other| other == word);
    legend.extend(LEGEND.iter().filter(|(word, _)| is_used(word)));
    let mut between_gpus = topology
        .distances
        .iter()
        .take_while(|pair| topology.gpus.iter().any(|gpu| gpu.pci == pair.to));
    if between_gpus.any(|pair| pair.nvlinks.is_none()) {
        let unknown = "between GPUs the way over PCIe: NVLink is unknown (NVML)";
        legend.push(("", unknown));
    }
    legend
}
