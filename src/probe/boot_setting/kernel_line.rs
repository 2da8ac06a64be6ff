//! The kernel's command line, beside the lines that the boot loader has for the next boot.

use super::{AfterBoot, BootFiles, BootSettingKind, FILES, Found, Settings};
use crate::fact::Fact;
use crate::probe::Ask;

/// Words of the command line on which RDMA, P2P, latency or memory depend (Documentation/admin-guide/kernel-parameters.txt).
pub(super) const PARAMETERS: &[&str] = &[
    "amd_iommu",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "idle",
    "intel_idle.max_cstate",
    "intel_iommu",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "isolcpus",
    "mem",
    "mitigations",
    "nohz_full",
    "nosmt",
    "numa_balancing",
    "nvidia-drm.modeset",
    "nvidia.NVreg_EnableStreamMemOPs",
    "nvidia.NVreg_RegistryDwords",
    "pci",
    "pcie_acs_override",
    "pcie_aspm",
    "processor.max_cstate",
    "rcu_nocbs",
    "transparent_hugepage",
];

/// Files that a tool made for the boot loader.
const LOADERS: [&str; 3] = [
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    "/boot/loader/entries/",
];
/// The variable of RHEL 8's entries.
const ENVIRONMENT: &str = "/boot/grub2/grubenv";
/// What the tool makes them of.
const SOURCE: &str = "/etc/default/grub";

pub(super) fn find(ask: &Ask<'_>, files: &BootFiles, settings: &mut Settings) {
    match ask.text("/proc/cmdline") {
        Fact::Known(running, _) => settings.found.extend(found(&running, files)),
        Fact::Unknown(gap) => settings.lacks(&gap),
    }
}

fn found(running: &str, files: &BootFiles) -> Vec<Found> {
    // Booted from a network or by another kernel: the files of this disk do not count.
    let from_disk = running
        .split_whitespace()
        .find_map(|word| word.strip_prefix("BOOT_IMAGE="))
        .is_some_and(|image| !image.contains("http") && !image.contains("tftp"));
    if !from_disk || files.hides(&LOADERS) || files.hides(&[ENVIRONMENT]) {
        return Vec::new();
    }
    let lines = next_lines(files);
    let Some(KernelLine { file, .. }) = lines.first() else {
        return Vec::new();
    };
    let in_all = |word: &str| lines.iter().all(|one| has(&one.line, word));
    let in_none = |word: &str| !lines.iter().any(|one| has(&one.line, word));
    let of = |word: &str, now: &str, next: &str, after, file: &str| Found {
        name: format!("kernel parameter {word}"),
        word: word.to_owned(),
        rail: Fact::derived(false, FILES),
        kind: BootSettingKind::Parameter,
        now: now.to_owned(),
        next: next.to_owned(),
        after,
        file: file.to_owned(),
    };
    let mut all: Vec<Found> = Vec::new();
    for word in running
        .split_whitespace()
        .filter(|word| is_of_interest(word))
    {
        if in_all(word) {
            all.push(of(word, "set", "set", AfterBoot::Stays, file));
        } else if in_none(word) {
            all.push(of(word, "set", "not", AfterBoot::Lost, file));
        }
    }
    let runs = |word: &str| running.split_whitespace().any(|one| one == word);
    let written = lines[0].line.split_whitespace();
    for word in written.filter(|word| is_of_interest(word) && !runs(word) && in_all(word)) {
        all.push(of(word, "not set", "set", AfterBoot::Changes, file));
    }
    for source in files.below(&[SOURCE]) {
        for word in source.lines.iter().flat_map(|line| words(line)) {
            if is_of_interest(word) && !runs(word) && in_none(word) {
                all.push(of(word, "not set", "not", AfterBoot::Unmade, &source.path));
            }
        }
    }
    all
}

/// The words of `GRUB_CMDLINE_LINUX="…"`.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let value = match line.split_once('=') {
        Some((name, value)) if name.starts_with("GRUB_CMDLINE") => value,
        _ => "",
    };
    let words = value.split_whitespace();
    words.map(|word| word.trim_matches(['"', '\'']))
}

fn is_of_interest(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    PARAMETERS.contains(&name)
}

fn has(line: &str, word: &str) -> bool {
    line.split_whitespace().any(|one| one == word)
}

/// A line of a kernel that the boot loader offers.
struct KernelLine<'f> {
    file: &'f str,
    line: String,
}

/// The lines of kernels that the boot loader offers, but for those of a rescue.
fn next_lines(files: &BootFiles) -> Vec<KernelLine<'_>> {
    let mut kernelopts = "";
    for line in files.below(&[ENVIRONMENT]).flat_map(|file| &file.lines) {
        kernelopts = line.strip_prefix("kernelopts=").unwrap_or(kernelopts);
    }
    let mut all = Vec::new();
    for file in files
        .below(&LOADERS)
        .filter(|file| !file.path.contains("rescue"))
    {
        for line in file.lines.iter().filter(|line| is_kernels(line)) {
            all.push(KernelLine {
                file: &file.path,
                line: line.replace("$kernelopts", kernelopts),
            });
        }
    }
    all
}

/// Whether a line starts a kernel as it is started from day to day.
fn is_kernels(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let starts = words
        .next()
        .is_some_and(|first| first.starts_with("linux") || first == "options");
    starts && !words.any(|word| ["single", "recovery", "rescue"].contains(&word))
}
