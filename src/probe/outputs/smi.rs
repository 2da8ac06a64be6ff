//! GPUs, as nvidia-smi prints them: `-q` as text and as XML, and its table.

pub(super) mod failure;
mod gpu_fields;
pub(super) mod nvlinks;
mod sections;

use std::collections::HashSet;
use std::sync::Arc;

use self::gpu_fields::{state, text};
use self::sections::{Section, of_csv, of_text, of_xml};
use super::{Output, matrix, named};
use crate::fact::gpu::GpuMode;
use crate::fact::node::{self as of_node, Nvml};
use crate::fact::{Facts, Id, Membership, Origin, Subject, gpu};

/// `nvidia-smi -q`, and with `-x` as XML.
pub(super) fn query(output: &Output, facts: &mut Facts, node: Id) {
    let is_xml = output
        .lines()
        .any(|line| line.text.trim().starts_with("<nvidia_smi_log"));
    let sections = if is_xml {
        of_xml(output)
    } else {
        of_text(output)
    };
    let mut known: Vec<Id> = Vec::new();
    let mut attached = None;
    for section in &sections {
        match &section.address {
            None => {
                machine(facts, node, section);
                attached = section.find(&["attached_gpus"], |value| value.parse::<u64>().ok());
            }
            Some(address) => {
                let id = begin(facts, node, address, output);
                known.push(id);
                state(facts, id, section);
                let guest = section.find(&["virtualization_mode"], guest);
                if let Some((is_guest, line)) = guest {
                    facts.set(node, of_node::VIRTUAL, line.known(is_guest));
                }
            }
        }
    }
    if let [section] = sections.as_slice() {
        picked(facts, node, section, output);
    }
    let count = known.len() as u64;
    if count > 0 && attached.is_some_and(|(attached, _)| attached == count) {
        facts.set_members(Subject::Gpu, node, Membership::Known(output.origin()));
        facts.set(node, of_node::NVML_GPUS, output.known(count));
        // All of them are listed in the order of their numbers.
        for (number, id) in (0..).zip(known) {
            facts.set(id, gpu::INDEX, output.known(number));
        }
    }
}

/// Whether the driver sees that it runs in a virtual machine; that it sees none proves nothing.
fn guest(mode: &str) -> Option<bool> {
    ["Pass-Through", "VGPU"].contains(&mode).then_some(true)
}

/// Lines that somebody picked below the headings of GPUs, of which the command may name one.
fn picked(facts: &mut Facts, node: Id, section: &Section<'_>, output: &Output) {
    let is_of_machine = section
        .find(&["driver_version", "attached_gpus"], text)
        .is_some();
    let gpus = section.divided();
    if is_of_machine || gpus.iter().any(lacks_reason) {
        return;
    }
    let mut behind = output
        .argv
        .iter()
        .skip_while(|word| !["-i", "--id"].contains(&&***word));
    let asked = behind.nth(1).and_then(|number| number.parse::<u64>().ok());
    for (at, one) in gpus.iter().enumerate() {
        let Some(first) = one.fields.first() else {
            continue;
        };
        let name = match asked.filter(|_| at == 0) {
            Some(index) => matrix::name_of(facts, node, &format!("GPU{index}")),
            None => format!("GPU of line {}", first.line.number).into(),
        };
        let id = numbered(facts, node, &name, output);
        state(facts, id, one);
        counts_errors(facts, id, output);
    }
}

/// Whether the GPU is slowed down and the lines with the reason were left out: no rule judges that
/// alone, and what stands beside it is not called well.
fn lacks_reason(section: &Section<'_>) -> bool {
    active_reason(section, "hw_slowdown") == Some(true)
        && active_reason(section, "hw_thermal_slowdown").is_none()
        && active_reason(section, "hw_power_brake_slowdown").is_none()
}

fn active_reason(section: &Section<'_>, name: &str) -> Option<bool> {
    let (is_active, _) = section.find(&[name], named::typed::<bool>)?;
    Some(is_active)
}

/// What counts errors has them corrected.
fn counts_errors(facts: &mut Facts, id: Id, output: &Output) {
    let counted = [gpu::ECC_UNCORRECTED, gpu::ECC_UNCORRECTED_EVER];
    if counted.iter().any(|key| facts.known(id, *key).is_some()) {
        facts.set(id, gpu::ECC, output.known(GpuMode::On));
    }
}

/// `nvidia-smi --query-gpu=… --format=csv`.
pub(super) fn csv(output: &Output, facts: &mut Facts, node: Id) {
    let mut seen = HashSet::new();
    for section in of_csv(output) {
        let index = section.find(&["index"], |value| value.parse::<u64>().ok());
        let id = match (&section.address, index) {
            (Some(address), _) => begin(facts, node, address, output),
            (None, Some((index, _))) if seen.insert(index) => {
                let name = matrix::name_of(facts, node, &format!("GPU{index}"));
                numbered(facts, node, &name, output)
            }
            // Rows of another host, which nothing names.
            (None, Some((index, line))) => numbered(
                facts,
                node,
                &format!("GPU{index} of line {}", line.number),
                output,
            ),
            (None, None) => match section.find(&["uuid"], text) {
                Some((uuid, _)) => numbered(facts, node, &uuid, output),
                None => continue,
            },
        };
        state(facts, id, &section);
        counts_errors(facts, id, output);
    }
}

/// A GPU of which no address is known.
fn numbered(facts: &mut Facts, node: Id, name: &str, output: &Output) -> Id {
    works(facts, node, &output.origin());
    let id = facts.instance(Subject::Gpu, node, name);
    facts.set(id, gpu::NVML_ERROR, output.known("none".into()));
    for key in [gpu::IN_NVML, gpu::GIVEN] {
        facts.set(id, key, output.known(true));
    }
    id
}

/// A GPU that NVML gives to whoever asked.
fn begin(facts: &mut Facts, node: Id, address: &str, output: &Output) -> Id {
    let id = listed(facts, node, address, output);
    facts.set(id, gpu::NVML_ERROR, output.known("none".into()));
    id
}

/// NVML answers.
fn works(facts: &mut Facts, node: Id, origin: &Origin) {
    facts.know(node, of_node::NVML, Nvml::Works, origin);
    facts.know(node, of_node::NVML_ERROR, "none".into(), origin);
}

/// A GPU that NVML lists, whether it gives it or not.
fn listed(facts: &mut Facts, node: Id, address: &str, output: &Output) -> Id {
    works(facts, node, &output.origin());
    let lower = address.to_lowercase();
    // NVML's domain has eight digits, the kernel's four.
    let name = match lower.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 => {
            format!("{}:{rest}", &domain.get(4..).unwrap_or("0000"))
        }
        _ => lower,
    };
    let id = facts.instance(Subject::Gpu, node, &name);
    facts.set(id, gpu::PCI, output.known(name.as_str().into()));
    for key in [gpu::IN_NVML, gpu::GIVEN, gpu::ON_PCI] {
        facts.set(id, key, output.known(true));
    }
    id
}

fn machine(facts: &mut Facts, node: Id, section: &Section<'_>) {
    if let Some((version, line)) = section.find(&["driver_version"], text) {
        let nvml_version = line.known(Arc::clone(&version));
        facts.set(node, of_node::NVML_VERSION, nvml_version);
        facts.set(node, of_node::NVIDIA_DRIVER, line.known(version));
    }
    if let Some((version, line)) = section.find(&["cuda_version"], text) {
        facts.set(node, of_node::NVML_CUDA, line.known(version));
    }
}

/// What the table has in place of what the driver could not read of a GPU.
const UNREAD: &str = "ERR!";

/// The GPUs that a table of nvidia-smi lists: `|   0  NVIDIA H100 80GB HBM3   On  | 00000000:19:00.0 Off |   0 |` and the row below.
pub(super) fn table(output: &Output, facts: &mut Facts, node: Id) {
    let mut at: Option<Id> = None;
    let mut gpus = Vec::new();
    for line in output.lines() {
        let cells: Vec<&str> = line
            .text
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        if let Some((_, rest)) = line.text.split_once("Driver Version: ") {
            let version = rest.split_whitespace().next().unwrap_or("");
            facts.set(node, of_node::NVML_VERSION, line.known(version.into()));
            facts.set(node, of_node::NVIDIA_DRIVER, line.known(version.into()));
            continue;
        }
        let [first, second, third] = cells.as_slice() else {
            at = at.filter(|_| !line.text.contains("Processes"));
            continue;
        };
        let words: Vec<&str> = first.split_whitespace().collect();
        let address = second
            .split_whitespace()
            .next()
            .filter(|a| a.len() == 16 && a.contains(':'));
        if let (Some(address), Some(Ok(index))) = (address, words.first().map(|n| n.parse::<u64>()))
        {
            let id = listed(facts, node, address, output);
            if words.get(1) == Some(&UNREAD) {
                facts.set(id, gpu::NVML_ERROR, line.known(UNREAD.into()));
                facts.set(id, gpu::RESET_REQUIRED, line.known(false));
            }
            facts.set(id, gpu::NVML_ERROR, output.known("none".into()));
            facts.set(id, gpu::INDEX, line.known(index));
            facts.set(id, gpu::LOST, line.known(false));
            let (persistence, name) = words
                .get(1..)
                .unwrap_or_default()
                .split_last()
                .unwrap_or((&"", &[]));
            named::state(
                facts,
                id,
                named::GPU,
                ("persistence_mode", persistence),
                &line,
            );
            // A long name is cut, and says so.
            let is_whole = !name
                .iter()
                .any(|word| word.ends_with("..") || *word == UNREAD);
            if !name.is_empty() && is_whole {
                facts.set(id, gpu::MODEL, line.known(name.join(" ").into()));
            }
            match third.parse::<u64>() {
                Ok(errors) => {
                    facts.set(id, gpu::ECC_UNCORRECTED, line.known(errors));
                    facts.set(id, gpu::ECC, line.known(GpuMode::On));
                }
                Err(_) if *third == "Off" => facts.set(id, gpu::ECC, line.known(GpuMode::Off)),
                Err(_) => {}
            }
            at = Some(id);
            gpus.push(id);
        } else if let Some(id) = at {
            let number = |text: &str, unit: &str| {
                text.strip_suffix(unit).and_then(|n| n.parse::<u64>().ok())
            };
            if let Some(celsius) = words.iter().find_map(|word| number(word, "C")) {
                facts.set(id, gpu::TEMPERATURE, line.known(celsius));
            }
            let watts: Vec<u64> = words.iter().filter_map(|word| number(word, "W")).collect();
            if let [now, limit] = watts.as_slice() {
                facts.set(id, gpu::POWER, line.known(*now));
                facts.set(id, gpu::POWER_LIMIT, line.known(*limit));
            }
            if first.is_empty() {
                named::state(facts, id, named::GPU, ("current_mig", third), &line);
            }
        }
    }
    let is_whole = !output.is_cut && output.argv.len() == 1 && output.text().contains("+--");
    if is_whole && !gpus.is_empty() {
        let count = gpus.len() as u64;
        facts.set(node, of_node::NVML_GPUS, output.known(count));
        // What lspci shows besides is on the node, too.
        if facts.below(node, Subject::Gpu).all(|id| gpus.contains(&id)) {
            facts.set_members(Subject::Gpu, node, Membership::Known(output.origin()));
        }
    }
}

/// `nvidia-smi -L`: `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)`, without addresses; MIG devices are in lines of their own.
pub(super) fn list(output: &Output, facts: &mut Facts, node: Id) {
    let is_gpu = |text: &str| text.starts_with("GPU ") && text.contains("(UUID: ");
    let count = output.lines().filter(|line| is_gpu(line.text)).count() as u64;
    if count == 0 {
        return;
    }
    works(facts, node, &output.origin());
    // With `-i` it lists those that are asked for.
    if !output.is_cut && output.argv.len() == 2 {
        facts.set(node, of_node::NVML_GPUS, output.known(count));
    }
}
