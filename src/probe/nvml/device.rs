//! What NVML reports about one GPU.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::reply::{NvmlReply, words};
use super::{DeviceFiles, PROBE};
use crate::fact::gpu::{ComputeMode, FabricHealth, FabricState, GpuMode, RecoveryAction};
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Key, Seconds, Type, Typed, gpu};

/// States the facts of a GPU that NVML gives.
pub(super) fn state(
    facts: &mut Facts,
    id: Id,
    said: &NvmlReply,
    files: Result<&DeviceFiles, &Gap>,
) {
    facts.know(id, gpu::NVML_ERROR, "none".into(), &said.origin());
    let mut of = DeviceFacts { facts, id, said };
    of.trouble(SERVED.iter().any(|name| is_answered(&said.value, name)));
    of.plain();
    of.identity(files);
    of.modes();
    of.errors();
    of.recovery();
    of.clocks();
    of.heat_and_power();
    of.fabric();
}

/// A GPU that turned out to be lost was not asked everything: whatever is missing of it, that is why.
pub(super) fn lost(facts: &mut Facts, id: Id, said: &NvmlReply) {
    if facts.known(id, gpu::LOST) != Some(true) {
        return;
    }
    let gap = said.refused("GpuIsLost");
    for (index, fact) in gpu::SCHEMA.facts.iter().enumerate() {
        if fact.probe == PROBE.name {
            // What is known stays known.
            facts.set_at(id, index, Fact::Unknown(gap.clone()));
        }
    }
}

/// States what is known of a GPU that NVML counts and does not give.
pub(super) fn refused(facts: &mut Facts, id: Id, said: &NvmlReply) {
    let name = said.error("nvmlDeviceGetHandleByIndex_v2");
    let error = words(name.unwrap_or("Unknown"));
    facts.set(id, gpu::NVML_ERROR, Fact::Known(error, said.origin()));
    // Its error says what it is.
    DeviceFacts { facts, id, said }.trouble(true);
}

/// Functions that the driver answers from the GPU itself, not from what it keeps: one answer shows that the GPU is there and serves.
const SERVED: [&str; 5] = [
    "nvmlDeviceGetTemperature/gpu",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetClockInfo/sm",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetPerformanceState",
];

/// Whether a function gave a value.
fn is_answered(value: &Value, function: &str) -> bool {
    value
        .get(function)
        .is_some_and(|value| value.get("error").is_none())
}

/// Whether any function gave this error.
pub(in crate::probe) fn anywhere(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| (key == "error" && value == name) || anywhere(value, name)),
        _ => false,
    }
}

struct DeviceFacts<'f> {
    facts: &'f mut Facts,
    id: Id,
    said: &'f NvmlReply,
}

/// The word of a number, by its place among these, which stand in the order of NVML's numbers; one that is not known stays open.
pub(super) fn nth<T: Copy>(words: &[T]) -> impl Fn(u64) -> Result<T, String> {
    move |number| {
        let word = usize::try_from(number).ok().and_then(|at| words.get(at));
        word.copied()
            .ok_or_else(|| format!("{number} is not known"))
    }
}

/// `nvmlEnableState_t`.
const MODES: [GpuMode; 2] = [GpuMode::Off, GpuMode::On];

/// Facts that are a number, a flag or a text of the reply: the function of each, and the member of its value.
const PLAIN: &[(&str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/gpu_functions.plain.rs"));

impl DeviceFacts<'_> {
    fn set<T: Typed>(&mut self, key: Key<T>, fact: Fact<T>) {
        self.facts.set(self.id, key, fact);
    }

    fn plain(&mut self) {
        for (name, path) in PLAIN {
            let Some((index, of)) = gpu::SCHEMA.place(name) else {
                continue;
            };
            let (part, name) = match path {
                [function, member] => (self.said.member(function), *member),
                path => (self.said.all(), path.first().copied().unwrap_or("")),
            };
            let fact = match of {
                Type::Text => part.text(name).erase(),
                Type::Bool => part.number(name).map(|flag| flag != 0).erase(),
                Type::Bytes => part.number(name).map(Bytes).erase(),
                _ => part.number(name).erase(),
            };
            self.facts.set_at(self.id, index, fact);
        }
    }

    /// The value, or what a function that is not for this GPU stands for.
    fn unless_unsupported<T>(&self, function: &str, unsupported: T, fact: Fact<T>) -> Fact<T> {
        match self.said.is_unsupported(function) {
            true => Fact::Known(unsupported, self.said.origin()),
            false => fact,
        }
    }

    /// `is_served` says whether the driver is known to serve the GPU where no function gave one of these errors.
    fn trouble(&mut self, is_served: bool) {
        let is_said = |error| anywhere(&self.said.value, error);
        let (lost, reset) = (is_said("GpuIsLost"), is_said("ResetRequired"));
        for (key, is_so) in [(gpu::LOST, lost), (gpu::RESET_REQUIRED, reset)] {
            // A GPU of which one of the two is said is not open in the other.
            let fact = match lost || reset || is_served {
                true => Fact::Known(is_so, self.said.origin()),
                false => {
                    let first = SERVED.iter().find_map(|name| self.said.error(name));
                    Fact::Unknown(self.said.refused(first.unwrap_or("Unknown")))
                }
            };
            self.set(key, fact);
        }
    }

    fn identity(&mut self, files: Result<&DeviceFiles, &Gap>) {
        let place = self.said.number("nvmlDeviceGetModuleId");
        let place = self.unless_unsupported("nvmlDeviceGetModuleId", 0, place);
        self.set(gpu::MODULE_ID, place);
        const FIRMWARE: &str = "nvmlDeviceGetGspFirmwareVersion";
        let firmware = self.unless_unsupported(FIRMWARE, "none".into(), self.said.text(FIRMWARE));
        self.set(gpu::GSP_FIRMWARE, firmware);
        let minor = self.said.number("nvmlDeviceGetMinorNumber");
        let there = match files {
            Ok(files) => minor.map(|minor| files.minors.contains(&minor)),
            Err(gap) => Fact::Unknown(gap.clone()),
        };
        self.set(gpu::CHAR_DEVICE, there);
    }

    fn modes(&mut self) {
        const PERSISTENCE: &str = "nvmlDeviceGetPersistenceMode";
        let persistence = self.said.number(PERSISTENCE).and_then(nth(&MODES));
        let persistence = self.unless_unsupported(PERSISTENCE, GpuMode::Unsupported, persistence);
        self.set(gpu::PERSISTENCE, persistence);
        for (function, current, pending) in [
            ("nvmlDeviceGetMigMode", gpu::MIG, gpu::MIG_PENDING),
            ("nvmlDeviceGetEccMode", gpu::ECC, gpu::ECC_PENDING),
        ] {
            for (key, member) in [(current, "current"), (pending, "pending")] {
                let said = self
                    .said
                    .member(function)
                    .number(member)
                    .and_then(nth(&MODES));
                let said = self.unless_unsupported(function, GpuMode::Unsupported, said);
                self.set(key, said);
            }
        }
        const INSTANCES: &str = "nvmlDeviceGetMigDeviceHandleByIndex";
        let instances = self.unless_unsupported(INSTANCES, 0, self.said.number(INSTANCES));
        self.set(gpu::MIG_DEVICES, instances);
        let compute = self.said.number("nvmlDeviceGetComputeMode");
        self.set(gpu::COMPUTE_MODE, compute.and_then(nth(ComputeMode::ALL)));
    }

    fn errors(&mut self) {
        let sram = self.said.member("nvmlDeviceGetSramEccErrorStatus");
        let both = sram
            .number("aggregateUncParity")
            .zip(sram.number("aggregateUncSecDed"));
        let sum = match both.map(|(parity, others)| parity + others) {
            Fact::Unknown(_) => {
                (self.said).number("nvmlDeviceGetMemoryErrorCounter/uncorrected/aggregate/sram")
            }
            sum => sum,
        };
        self.set(gpu::SRAM_UNCORRECTED_EVER, sum);
        for (key, function) in [
            (gpu::RETIRES_PAGES, "nvmlDeviceGetRetiredPagesPendingStatus"),
            (gpu::REMAPS_ROWS, "nvmlDeviceGetRemappedRows"),
        ] {
            self.set(key, self.has(function));
        }
        let single = self.said.number("nvmlDeviceGetRetiredPages/single");
        let double = self.said.number("nvmlDeviceGetRetiredPages/double");
        let pages = single.zip(double).map(|(single, double)| single + double);
        self.set(gpu::PAGES_RETIRED, pages);
    }

    /// Whether a GPU has the feature that a function reports: known if it answers, or reports that the feature is missing.
    fn has(&self, function: &str) -> Fact<bool> {
        match self.said.error(function) {
            None if self.said.value.get(function).is_some() => {
                Fact::Known(true, self.said.origin())
            }
            Some("NotSupported") => Fact::Known(false, self.said.origin()),
            _ => self.said.number(function).map(|_| true),
        }
    }

    fn recovery(&mut self) {
        let fields = self.said.member("fields");
        let known = [
            RecoveryAction::None,
            RecoveryAction::Reset,
            RecoveryAction::Reboot,
            RecoveryAction::DrainP2p,
            RecoveryAction::DrainAndReset,
            RecoveryAction::RecoverImexDomain,
        ];
        let action = fields.number("GET_GPU_RECOVERY_ACTION");
        let action = action.map(|number| nth(&known)(number).unwrap_or(RecoveryAction::Other));
        // A driver that does not know the field may also call it a wrong argument.
        let action = match fields.error("GET_GPU_RECOVERY_ACTION") {
            Some("NotSupported" | "InvalidArgument") => {
                Fact::Known(RecoveryAction::Unsupported, self.said.origin())
            }
            _ => action,
        };
        self.set(gpu::RECOVERY_ACTION, action);
    }

    fn clocks(&mut self) {
        let reasons = self.said.number("nvmlDeviceGetCurrentClocksEventReasons");
        for (key, bit) in CLOCK_BITS {
            self.set(key, reasons.clone().map(|bits| bits & bit != 0));
        }
        self.set(gpu::CLOCK_REASONS, reasons.map(reason_names));
        let fields = self.said.member("fields");
        let time = |name: &str| {
            let nanoseconds = fields.number(&format!("CLOCKS_EVENT_REASON_{name}_SLOWDOWN"));
            nanoseconds.map(|ns| Seconds((ns / 1_000_000) as f64 / 1e3))
        };
        self.set(gpu::SW_THERMAL_TIME, time("SW_THERM"));
        self.set(gpu::POWER_BRAKE_TIME, time("HW_POWER_BRAKE"));
    }

    fn heat_and_power(&mut self) {
        let memory = self.said.member("fields").number("MEMORY_TEMP");
        // Memory without a sensor is reported as 0 °C.
        let memory_temperature = memory.and_then(|degrees| match degrees {
            0 => Err("0 is not known".to_owned()),
            degrees => Ok(degrees),
        });
        self.set(gpu::MEMORY_TEMPERATURE, memory_temperature);
        let margin = self.said.all().signed("nvmlDeviceGetMarginTemperature");
        let margin = margin.map(|degrees| degrees.max(0).unsigned_abs());
        let by_threshold = || {
            let slowdown = (self.said).number("nvmlDeviceGetTemperatureThreshold/slowdown");
            let both = slowdown.zip(self.said.number("nvmlDeviceGetTemperature/gpu"));
            both.and_then(|(threshold, degrees)| match threshold {
                0 => Err("no threshold".to_owned()),
                _ => Ok(threshold.saturating_sub(degrees)),
            })
        };
        self.set(gpu::THERMAL_MARGIN, margin.or_else(by_threshold));
        for (key, function) in [
            (gpu::POWER, "nvmlDeviceGetPowerUsage"),
            (gpu::POWER_LIMIT, "nvmlDeviceGetEnforcedPowerLimit"),
            (
                gpu::DEFAULT_POWER_LIMIT,
                "nvmlDeviceGetPowerManagementDefaultLimit",
            ),
        ] {
            let thousandths = self.said.number(function);
            self.set(key, thousandths.map(|n| (n + 500) / 1000));
        }
        let links = self.said.member("c2c").number("count");
        let links = self.unless_unsupported("c2c", 0, links);
        self.set(gpu::C2C_LINKS, links);
    }

    fn fabric(&mut self) {
        const FABRIC: &str = "nvmlDeviceGetGpuFabricInfo";
        let fabric = self.said.member(FABRIC);
        let state = fabric.number("state").and_then(nth(FabricState::ALL));
        let state = self.unless_unsupported(FABRIC, FabricState::Unsupported, state);
        let has = state
            .known()
            .is_some_and(|state| *state != FabricState::Unsupported);
        let completed = state.known() == Some(&FabricState::Completed);
        self.set(gpu::FABRIC_STATE, state);
        let missing = || Fact::Unknown(Gap::missing("gpu.fabric_state"));
        let status: Fact<Arc<str>> = match fabric.error("status") {
            _ if !completed => missing(),
            Some(error) => Fact::Known(words(error), self.said.origin()),
            None => fabric.number("status").map(|_| "success".into()),
        };
        self.set(gpu::FABRIC_STATUS, status);
        if has {
            self.set(gpu::FABRIC_CLIQUE, fabric.number("cliqueId"));
            self.set(gpu::FABRIC_CLUSTER, fabric.text("clusterUuid"));
        }
        let unsupported = Fact::Known(FabricHealth::Unsupported, self.said.origin());
        let given = |name: &str| has && self.said.value[FABRIC].get(name).is_some();
        let health = match given("healthSummary") {
            false => unsupported,
            true => fabric
                .number("healthSummary")
                .and_then(nth(FabricHealth::ALL)),
        };
        let problems = match given("healthMask") {
            false => Fact::Known(Arc::default(), self.said.origin()),
            true => fabric.number("healthMask").map(problem_names),
        };
        self.set(gpu::FABRIC_HEALTH, health);
        self.set(gpu::FABRIC_PROBLEMS, problems);
    }
}

/// `nvmlClocksEventReason*`.
pub(in crate::probe) fn reason_names(bits: u64) -> Arc<[Arc<str>]> {
    const NAMES: [&str; 9] = [
        "idle",
        "application-clocks",
        "power-cap",
        "hw-slowdown",
        "sync-boost",
        "sw-thermal",
        "hw-thermal",
        "power-brake",
        "display-clocks",
    ];
    let name = |bit: usize| match NAMES.get(bit) {
        Some(name) => Arc::from(*name),
        None => format!("reason {bit}").into(),
    };
    (0..64)
        .filter(|bit| bits >> bit & 1 == 1)
        .map(name)
        .collect()
}

/// The bits of `nvmlClocksEventReason*` that have a fact of their own (nvml.h).
pub(in crate::probe) const CLOCK_BITS: [(Key<bool>, u64); 5] = [
    (gpu::IDLE, 0x1),
    (gpu::HW_SLOWDOWN, 0x8),
    (gpu::SW_THERMAL, 0x20),
    (gpu::HW_THERMAL, 0x40),
    (gpu::POWER_BRAKE, 0x80),
];

/// `NVML_GPU_FABRIC_HEALTH_MASK_*`, up to release 615: two bits each say true (1), false (2) or nothing (0), and the last two flags are problems when false;
/// four bits say what of the configuration is wrong.
fn problem_names(mask: u64) -> Arc<[Arc<str>]> {
    const TRUE: u64 = 1;
    const FALSE: u64 = 2;
    const FLAGS: [(u64, u64, &str); 6] = [
        (0, TRUE, "degraded-bandwidth"),
        (2, TRUE, "route-recovery"),
        (4, TRUE, "route-unhealthy"),
        (6, TRUE, "access-timeout-recovery"),
        (12, FALSE, "no-partition"),
        (14, FALSE, "fabric-manager-disconnected"),
    ];
    let flags = FLAGS
        .iter()
        .filter(|(shift, problem, _)| mask >> shift & 3 == *problem)
        .map(|(.., name)| *name);
    let configuration = match mask >> 8 & 15 {
        0 | 1 => None,
        2 => Some("incorrect-sysguid"),
        3 => Some("incorrect-chassis"),
        4 => Some("no-partition"),
        5 => Some("insufficient-nvlinks"),
        6 => Some("incompatible-gpu-firmware"),
        7 => Some("invalid-location"),
        8 => Some("invalid-gpu-state"),
        _ => Some("incorrect-configuration"),
    };
    let names: BTreeSet<&str> = flags.chain(configuration).collect();
    names.into_iter().map(Arc::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks() {
        assert!(problem_names(0).is_empty());
        // All false, and no incorrect configuration.
        assert!(problem_names(0b0001_1010_1010).is_empty());
        assert_eq!(
            problem_names(0b0101_1010_1001).join(" "),
            "degraded-bandwidth insufficient-nvlinks"
        );
        let of = |mask| problem_names(mask).join(" ");
        assert_eq!(of(6 << 8), "incompatible-gpu-firmware");
        assert_eq!(of(7 << 8), "invalid-location");
        assert_eq!(of(8 << 8), "invalid-gpu-state");
        assert_eq!(of(9 << 8), "incorrect-configuration");
        // Assigned to a partition, and connected to the fabric manager.
        assert_eq!(of(0b0101_0001_1010_1010), "");
        assert_eq!(of(0b1001_0001_0000_0000), "fabric-manager-disconnected");
        // Old and new drivers say it in two places.
        assert_eq!(of(0b0110_0100_0000_0000), "no-partition");
        assert_eq!(reason_names(0x88).join(" "), "hw-slowdown power-brake");
        assert_eq!(reason_names(0x1200).join(" "), "reason 9 reason 12");
        assert!(reason_names(0).is_empty());
    }

    #[test]
    fn numbers_of_a_newer_release_are_open() {
        assert!(nth(&MODES)(2).is_err());
    }

    #[test]
    fn rows_name_facts() {
        for (name, path) in PLAIN {
            assert!(gpu::SCHEMA.place(name).is_some(), "{name}");
            assert!(matches!(path.len(), 1 | 2), "{path:?}");
        }
    }
}
