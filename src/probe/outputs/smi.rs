//! GPUs, as nvidia-smi prints them: `-q` as text and as XML, and its table.

use std::sync::Arc;

use super::{Output, OutputLine};
use crate::fact::gpu::{ComputeMode, FabricState, GpuMode, RecoveryAction};
use crate::fact::node::{self as of_node, Nvml};
use crate::fact::{Bytes, Facts, Id, Key, Membership, Subject, Typed, gpu};

/// A value with the names that lead to it, in small letters: `ecc_errors/volatile/dram_uncorrectable`.
struct Field<'p> {
    path: String,
    value: String,
    line: OutputLine<'p>,
}

/// The fields of one GPU, or of the machine before the first.
#[derive(Default)]
struct Section<'p> {
    address: Option<String>,
    fields: Vec<Field<'p>>,
}

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
            }
        }
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

/// A GPU that NVML gives to whoever asked.
fn begin(facts: &mut Facts, node: Id, address: &str, output: &Output) -> Id {
    facts.set(node, of_node::NVML, output.known(Nvml::Works));
    facts.set(node, of_node::NVML_ERROR, output.known("none".into()));
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
    facts.set(id, gpu::NVML_ERROR, output.known("none".into()));
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

/// The GPUs that a table of nvidia-smi lists: `|   0  NVIDIA H100 80GB HBM3   On  | 00000000:19:00.0 Off |   0 |` and the row below.
pub(super) fn table(output: &Output, facts: &mut Facts, node: Id) {
    let mut at: Option<Id> = None;
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
            let id = begin(facts, node, address, output);
            facts.set(id, gpu::INDEX, line.known(index));
            facts.set(id, gpu::LOST, line.known(false));
            let (persistence, name) = words
                .get(1..)
                .unwrap_or_default()
                .split_last()
                .unwrap_or((&"", &[]));
            if let Some(mode) = mode(persistence) {
                facts.set(id, gpu::PERSISTENCE, line.known(mode));
            }
            // A long name is cut, and says so.
            if !name.is_empty() && !name.iter().any(|word| word.ends_with("..")) {
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
            if first.is_empty()
                && let Some(mode) = mode(third)
            {
                facts.set(id, gpu::MIG, line.known(mode));
            }
        }
    }
    let is_whole = !output.is_cut && output.argv.len() == 1 && output.text().contains("+--");
    if is_whole && facts.below(node, Subject::Gpu).next().is_some() {
        facts.set_members(Subject::Gpu, node, Membership::Known(output.origin()));
        let count = facts.below(node, Subject::Gpu).count() as u64;
        facts.set(node, of_node::NVML_GPUS, output.known(count));
    }
}

impl<'p> Section<'p> {
    /// The first field whose path ends like one of these, and which is understood, with its line.
    fn find<T>(
        &self,
        ends: &[&str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<(T, OutputLine<'p>)> {
        ends.iter().find_map(|end| {
            let fits = |field: &&Field<'p>| {
                let rest = field.path.strip_suffix(end);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '_']))
            };
            let mut fitting = self.fields.iter().filter(fits);
            fitting.find_map(|field| Some((parse(&field.value)?, field.line)))
        })
    }

    /// The sum of counters below a heading.
    fn sum(&self, heading: &str, end: &str) -> Option<(u64, OutputLine<'p>)> {
        let fits = |field: &&Field<'p>| {
            let below = field.path.split_once(heading);
            below.is_some_and(|(_, name)| {
                !name.contains("threshold")
                    && name.contains(end)
                    && !(end == "_correctable" && name.contains("uncorrectable"))
            })
        };
        let mut fields = self.fields.iter().filter(fits);
        let first = fields.next()?;
        let mut sum: u64 = first.value.parse().ok()?;
        for field in fields {
            sum = sum.saturating_add(field.value.parse().ok()?);
        }
        Some((sum, first.line))
    }
}

fn text(value: &str) -> Option<Arc<str>> {
    (!value.is_empty() && value != "N/A").then(|| value.into())
}

/// The number before a unit.
fn number(value: &str) -> Option<u64> {
    let word = value.split([' ', 'x']).next()?;
    let whole = word.split('.').next()?;
    whole.parse().ok()
}

fn mode(value: &str) -> Option<GpuMode> {
    Some(match value {
        "Enabled" | "On" => GpuMode::On,
        "Disabled" | "Off" => GpuMode::Off,
        "N/A" => GpuMode::Unsupported,
        _ => return None,
    })
}

fn yes(value: &str) -> Option<bool> {
    Some(match value {
        "Yes" | "Active" => true,
        "No" | "Not Active" => false,
        _ => return None,
    })
}

/// Texts: the fact, and how the paths of its field may end.
#[rustfmt::skip]
const TEXTS: &[(Key<Arc<str>>, &[&str])] = &[
    (gpu::MODEL, &["product_name"]),
    (gpu::SERIAL, &["serial_number", "serial"]),
    (gpu::UUID, &["gpu_uuid", "uuid"]),
    (gpu::VBIOS, &["vbios_version"]),
    (gpu::GSP_FIRMWARE, &["gsp_firmware_version"]),
];

/// Modes that a GPU may have.
#[rustfmt::skip]
const MODES: &[(Key<GpuMode>, &[&str])] = &[
    (gpu::PERSISTENCE, &["persistence_mode"]),
    (gpu::MIG, &["mig_mode/current", "current_mig"]),
    (gpu::MIG_PENDING, &["mig_mode/pending", "pending_mig"]),
    (gpu::ECC, &["ecc_mode/current", "current_ecc"]),
    (gpu::ECC_PENDING, &["ecc_mode/pending", "pending_ecc"]),
];

/// Numbers, with their units or without.
#[rustfmt::skip]
const NUMBERS: &[(Key<u64>, &[&str])] = &[
    (gpu::MINOR, &["minor_number"]),
    (gpu::REMAPPED_CORRECTED, &["remapped_rows/correctable_error", "remapped_row_corr"]),
    (gpu::REMAPPED_UNCORRECTED, &["remapped_rows/uncorrectable_error", "remapped_row_unc"]),
    (gpu::REMAP_BANKS_LOW, &["availability_histogram/low", "row_remapper_histogram_low"]),
    (gpu::REMAP_BANKS_EMPTY, &["availability_histogram/none", "row_remapper_histogram_none"]),
    (gpu::SM_CLOCK, &["/clocks/sm", "clocks/sm", "clocks/sm_clock"]),
    (gpu::MAX_SM_CLOCK, &["max_clocks/sm", "max_clocks/sm_clock"]),
    (gpu::TEMPERATURE, &["gpu_current_temp", "temperature/gpu_temp"]),
    (gpu::SLOWDOWN_TEMPERATURE, &["gpu_slowdown_temp", "gpu_temp_slow_threshold"]),
    (gpu::SHUTDOWN_TEMPERATURE, &["gpu_shutdown_temp", "gpu_temp_max_threshold"]),
    (gpu::MEMORY_TEMPERATURE, &["memory_current_temp", "memory_temp"]),
    (gpu::POWER, &["power_draw", "average_power_draw"]),
    (gpu::POWER_LIMIT, &["current_power_limit", "enforced_power_limit"]),
    (gpu::DEFAULT_POWER_LIMIT, &["default_power_limit"]),
    (gpu::LINK_GENERATION, &["pcie_generation/current", "current_link_gen"]),
    (gpu::LINK_WIDTH, &["link_width/current", "current_link_width"]),
    (gpu::MAX_LINK_GENERATION, &["pcie_generation/device_max", "max_device_link_gen", "pcie_generation/max", "max_link_gen"]),
    (gpu::MAX_LINK_WIDTH, &["link_width/max", "max_link_width"]),
    (gpu::PCIE_REPLAYS, &["replays_since_reset", "replay_counter"]),
];

/// What is so, or is not.
#[rustfmt::skip]
const FLAGS: &[(Key<bool>, &[&str])] = &[
    (gpu::REMAP_PENDING, &["remapped_rows/pending", "remapped_row_pending"]),
    (gpu::REMAP_FAILED, &["remapping_failure_occurred", "remapped_row_failure"]),
    (gpu::PAGES_PENDING, &["pending_page_blacklist", "pending_retirement"]),
    (gpu::SRAM_THRESHOLD_EXCEEDED, &["sram_threshold_exceeded"]),
    (gpu::HW_SLOWDOWN, &["hw_slowdown"]),
    (gpu::HW_THERMAL, &["hw_thermal_slowdown"]),
    (gpu::POWER_BRAKE, &["hw_power_brake_slowdown"]),
    (gpu::SW_THERMAL, &["sw_thermal_slowdown"]),
    (gpu::IDLE, &["reasons/idle", "reason_gpu_idle", "reasons_gpu_idle"]),
];

/// Sums of counters: the fact, the heading, and the end of their names.
#[rustfmt::skip]
const SUMS: &[(Key<u64>, &str, &str)] = &[
    (gpu::ECC_UNCORRECTED, "ecc_errors/volatile/", "uncorrectable"),
    (gpu::ECC_CORRECTED, "ecc_errors/volatile/", "_correctable"),
    (gpu::ECC_UNCORRECTED_EVER, "ecc_errors/aggregate/", "uncorrectable"),
    (gpu::ECC_CORRECTED_EVER, "ecc_errors/aggregate/", "_correctable"),
    (gpu::DRAM_UNCORRECTED, "ecc_errors/volatile/", "dram_uncorrectable"),
    (gpu::SRAM_UNCORRECTED, "ecc_errors/volatile/", "sram_uncorrectable"),
    (gpu::SRAM_UNCORRECTED_EVER, "ecc_errors/aggregate/", "sram_uncorrectable"),
];

/// The clocks' event reasons by NVML's names.
#[rustfmt::skip]
const REASONS: &[(&str, &[&str])] = &[
    ("idle", &["reasons/idle", "reason_gpu_idle", "reasons_gpu_idle"]),
    ("application-clocks", &["applications_clocks_setting"]),
    ("power-cap", &["sw_power_cap"]),
    ("hw-slowdown", &["hw_slowdown"]),
    ("sync-boost", &["sync_boost"]),
    ("sw-thermal", &["sw_thermal_slowdown"]),
    ("hw-thermal", &["hw_thermal_slowdown"]),
    ("power-brake", &["hw_power_brake_slowdown"]),
    ("display-clocks", &["display_clocks_setting", "display_clock_setting"]),
];

fn state(facts: &mut Facts, id: Id, section: &Section<'_>) {
    fn set<T: Typed>(facts: &mut Facts, id: Id, key: Key<T>, found: Option<(T, OutputLine<'_>)>) {
        if let Some((value, line)) = found {
            facts.set(id, key, line.known(value));
        }
    }
    let find = |ends: &[&str]| section.find(ends, number);
    let flag = |ends: &[&str]| section.find(ends, yes);
    for &(key, ends) in TEXTS {
        set(facts, id, key, section.find(ends, text));
    }
    for &(key, ends) in MODES {
        set(facts, id, key, section.find(ends, mode));
    }
    for &(key, ends) in NUMBERS {
        set(facts, id, key, find(ends));
    }
    let memory = |ends: &[&str]| {
        section.find(ends, |value| {
            Some(Bytes(
                value.strip_suffix(" MiB")?.parse::<u64>().ok()? << 20,
            ))
        })
    };
    set(facts, id, gpu::MEMORY, memory(&["fb_memory_usage/total"]));
    set(facts, id, gpu::BAR1, memory(&["bar1_memory_usage/total"]));
    set(
        facts,
        id,
        gpu::BAR1_USED,
        memory(&["bar1_memory_usage/used"]),
    );
    for &(key, ends) in FLAGS {
        set(facts, id, key, flag(ends));
    }
    let remaps = section.find(
        &[
            "remapped_rows/pending",
            "remapped_row_pending",
            "remapped_rows",
        ],
        |value| Some(value != "N/A"),
    );
    set(facts, id, gpu::REMAPS_ROWS, remaps);
    for &(key, heading, end) in SUMS {
        set(facts, id, key, section.sum(heading, end));
    }
    words(facts, id, section);
}

/// Values that are words, and what several fields say together.
fn words(facts: &mut Facts, id: Id, section: &Section<'_>) {
    let compute = section.find(&["compute_mode"], |value| {
        Some(match value {
            "Default" => ComputeMode::Default,
            "Exclusive_Process" => ComputeMode::ExclusiveProcess,
            "Prohibited" => ComputeMode::Prohibited,
            _ => return None,
        })
    });
    if let Some((mode, line)) = compute {
        facts.set(id, gpu::COMPUTE_MODE, line.known(mode));
    }
    let action = section.find(&["gpu_recovery_action"], |value| {
        Some(match value {
            "None" => RecoveryAction::None,
            "Reset" | "GPU Reset" => RecoveryAction::Reset,
            "Reboot" | "Node Reboot" => RecoveryAction::Reboot,
            "Drain P2P" => RecoveryAction::DrainP2p,
            "Drain and Reset" => RecoveryAction::DrainAndReset,
            _ => return None,
        })
    });
    if let Some((action, line)) = action {
        facts.set(id, gpu::RECOVERY_ACTION, line.known(action));
    }
    let fabric = section.find(&["fabric/state"], |value| {
        Some(match value {
            "Completed" => FabricState::Completed,
            "In Progress" => FabricState::InProgress,
            "Not Started" => FabricState::NotStarted,
            "N/A" => FabricState::Unsupported,
            _ => return None,
        })
    });
    if let Some((fabric, line)) = fabric {
        facts.set(id, gpu::FABRIC_STATE, line.known(fabric));
        let status = section.find(&["fabric/status"], |value| {
            (value == "Success").then(|| "success".into())
        });
        if let Some((status, line)) = status {
            facts.set(id, gpu::FABRIC_STATUS, line.known(status));
        }
    }
    let any = |word: &str| {
        section
            .fields
            .iter()
            .find(|field| field.value.contains(word))
            .map(|field| field.line)
    };
    let served = section.find(
        &["gpu_current_temp", "gpu_temp", "power_draw", "product_name"],
        |value| (!value.is_empty()).then_some(()),
    );
    match (any("GPU is lost"), served) {
        (Some(line), _) => facts.set(id, gpu::LOST, line.known(true)),
        (None, Some(((), line))) => facts.set(id, gpu::LOST, line.known(false)),
        _ => {}
    }
    let reset = section.find(&["reset_required"], yes);
    match (any("GPU requires reset"), reset, served) {
        (Some(line), ..) | (_, Some((true, line)), _) => {
            facts.set(id, gpu::RESET_REQUIRED, line.known(true))
        }
        (_, _, Some(((), line))) => facts.set(id, gpu::RESET_REQUIRED, line.known(false)),
        _ => {}
    }
    reasons(facts, id, section);
}

/// The clocks' event reasons by NVML's names. All of them stand in one part.
fn reasons(facts: &mut Facts, id: Id, section: &Section<'_>) {
    let mut active: Vec<Arc<str>> = Vec::new();
    let mut first = None;
    for &(name, ends) in REASONS {
        let Some((is_active, line)) = section.find(ends, yes) else {
            continue;
        };
        first.get_or_insert(line);
        if is_active {
            active.push(name.into());
        }
    }
    if let Some(line) = first {
        facts.set(id, gpu::CLOCK_REASONS, line.known(active.into()));
    }
}

/// A name in small letters, its words joined.
fn key(name: &str) -> String {
    let joined = name.trim().chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        }
    });
    joined.collect()
}

/// The lines of `-q`: a name of four more columns of indentation is below the one before.
fn of_text(output: &Output) -> Vec<Section<'_>> {
    let mut sections = vec![Section::default()];
    let mut above: Vec<(usize, String)> = Vec::new();
    for line in output.lines() {
        let indent = line.text.len() - line.text.trim_start().len();
        let (name, value) = match line
            .text
            .split_once(" : ")
            .or_else(|| Some((line.text.trim_end().strip_suffix(" :")?, "")))
        {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (line.text.trim(), None),
        };
        if indent == 0 && name.starts_with("GPU ") && name.contains(':') {
            above.clear();
            sections.push(Section {
                address: name.strip_prefix("GPU ").map(str::to_owned),
                fields: Vec::new(),
            });
            continue;
        }
        while above.last().is_some_and(|(of, _)| *of >= indent) {
            above.pop();
        }
        let mut path: String = above
            .iter()
            .flat_map(|(_, name)| [name.as_str(), "/"])
            .collect();
        path.push_str(&key(name));
        if let (Some(value), Some(section)) = (value, sections.last_mut()) {
            section.fields.push(Field {
                path,
                value: value.to_owned(),
                line,
            });
        }
        if above.len() < 8 && !name.is_empty() {
            above.push((indent, key(name)));
        }
    }
    sections
}

/// The lines of `-q -x`: an element a line.
fn of_xml(output: &Output) -> Vec<Section<'_>> {
    let mut sections = vec![Section::default()];
    let mut above: Vec<String> = Vec::new();
    for line in output.lines() {
        let text = line.text.trim();
        if text.starts_with("</") {
            above.pop();
        } else if let Some(address) = text
            .strip_prefix("<gpu id=\"")
            .and_then(|t| t.split('"').next())
        {
            above.clear();
            sections.push(Section {
                address: Some(address.to_owned()),
                fields: Vec::new(),
            });
        } else if let Some((name, rest)) = text.strip_prefix('<').and_then(|t| t.split_once('>')) {
            match rest.split_once("</") {
                Some((value, _)) => {
                    let path = format!("{}/{}", above.join("/"), key(name));
                    if let Some(section) = sections.last_mut() {
                        section.fields.push(Field {
                            path,
                            value: value.trim().to_owned(),
                            line,
                        });
                    }
                }
                None if name.starts_with(['?', '!'])
                    || name.ends_with('/')
                    || above.len() >= 16 => {}
                None => above.push(key(name)),
            }
        }
    }
    sections
}
