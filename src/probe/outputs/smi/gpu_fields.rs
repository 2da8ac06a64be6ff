//! Which field of `nvidia-smi -q` gives which fact of a GPU.

use std::sync::Arc;

use super::sections::Section;
use crate::fact::gpu::{ComputeMode, FabricState, GpuMode, RecoveryAction};
use crate::fact::{Bytes, Facts, Id, Key, Typed, gpu};
use crate::probe::outputs::OutputLine;

pub(super) fn text(value: &str) -> Option<Arc<str>> {
    (!value.is_empty() && value != "N/A").then(|| value.into())
}

/// The number before a unit.
fn number(value: &str) -> Option<u64> {
    let word = value.split([' ', 'x']).next()?;
    let whole = word.split('.').next()?;
    whole.parse().ok()
}

pub(super) fn mode(value: &str) -> Option<GpuMode> {
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

/// States the facts of a GPU that its fields give.
pub(super) fn state(facts: &mut Facts, id: Id, section: &Section<'_>) {
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
