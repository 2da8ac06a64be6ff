//! The classes of lines, as the kernel and its drivers write them.

use std::sync::Arc;

use crate::fact::BitRate;
use crate::fact::kernel_event::EventClass::{self, *};

/// All classes, in the order of the schema.
pub(super) const ALL: [EventClass; 31] = [
    Mlx5Fatal,
    Mlx5CommandTimeout,
    SlotPower,
    Overheated,
    CableError,
    PcieBandwidth,
    AerUncorrected,
    AerCorrected,
    GidAdd,
    LinkDown,
    Multicast,
    AdapterReset,
    ProbeFailed,
    SymbolMismatch,
    Peermem,
    Xid,
    RecoveryAction,
    SXid,
    GpuInit,
    DriverMismatch,
    IommuFault,
    OutOfMemory,
    MachineCheck,
    HungTask,
    CpuStuck,
    ServerSilent,
    AmdFailed,
    AmdUncorrected,
    AdapterStalled,
    LustreLost,
    StorageReconnects,
];

/// A line is of the class where it has all of the one and, unless that is empty, one of the other.
pub(super) struct Rule {
    pub(super) class: EventClass,
    pub(super) all: &'static [&'static str],
    pub(super) any: &'static [&'static str],
    about: About,
    /// A later line about the same that has one of these ends it.
    over: &'static [&'static str],
}

/// Where a line names what it is about.
#[derive(Clone, Copy)]
enum About {
    /// The first PCI address.
    Pci,
    /// `infiniband mlx5_2: …`
    Infiniband,
    /// The word before the first colon.
    First,
    /// `task NAME:PID blocked`
    Task,
    /// `Killed process PID (NAME)`
    Killed,
    /// `server NAME not responding`
    Server,
    /// `Lustre: NAME: Connection to …`
    Lustre,
    /// `nvme NAME: …`
    Nvme,
    Nothing,
}

const fn rule(
    class: EventClass,
    all: &'static [&'static str],
    any: &'static [&'static str],
    about: About,
    over: &'static [&'static str],
) -> Rule {
    Rule {
        class,
        all,
        any,
        about,
        over,
    }
}

/// mlx5_core says which firmware it finds whenever it takes a device.
const MLX5_LOADED: &str = "irmware version:";
const RELOADED: &[&str] = &[
    MLX5_LOADED,
    "health recovery succeeded",
    "health revovery succeded",
];
/// What a counter of amdgpu's grows by when it is read from a GPU that sleeps.
const ALL_ONES: u64 = 1_048_560;
/// amdgpu after a reset, and when it takes a GPU.
const AMD_WORKS: &[&str] = &["GPU reset succeeded", ") succeeded!", "Initialized amdgpu"];
const NVIDIA_LOADED: &str = "NVRM: loading NVIDIA UNIX";
/// A reset of one GPU is told of by Xid 154 alone, and by newer drivers.
const NVIDIA_WORKS: &[&str] = &[NVIDIA_LOADED, " to 0x0 (None)"];

/// The rules. The texts are those of Linux 4.18 to 6.18 (mlx5: `health.c`, `cmd.c`, `events.c`; PCI: `aer.c`, `pci.c`) and of NVIDIA's
/// kernel modules 450 to 595 (amdgpu: `amdgpu_device.c`, `amdgpu_ras.c`; bnxt_re: `qplib_rcfw.c`; EFA: `efa_com.c`; irdma: `icrdma_if.c`; NVMe: `rdma.c`;
/// Lustre: `ptlrpc/import.c`).
pub(super) const RULES: &[Rule] = &[
    rule(
        Mlx5Fatal,
        &["mlx5_core", "health compromised"],
        &[],
        About::Pci,
        RELOADED,
    ),
    rule(
        Mlx5Fatal,
        &["mlx5_core", "Fatal error", "detected"],
        &[],
        About::Pci,
        RELOADED,
    ),
    rule(
        Mlx5Fatal,
        &["mlx5_core", "health recovery failed"],
        &[],
        About::Pci,
        RELOADED,
    ),
    // Levels as syslog(3) has them: 4 (warning) and above report no failure.
    rule(
        Mlx5Fatal,
        &["mlx5_core", "ealth issue observed"],
        &["severity(0)", "severity(1)", "severity(2)", "severity(3)"],
        About::Pci,
        RELOADED,
    ),
    rule(
        Mlx5CommandTimeout,
        &["mlx5_core", "timeout. Will cause a leak"],
        &[],
        About::Pci,
        &[
            "ecovered after timeout",
            "irmware version:",
            "health recovery succeeded",
        ],
    ),
    rule(
        SlotPower,
        &["insufficient power on the PCIe slot"],
        &[],
        About::Pci,
        &[],
    ),
    rule(
        Overheated,
        &["mlx5_core"],
        &["High Temperature", "igh temperature"],
        About::Pci,
        &[],
    ),
    rule(
        CableError,
        &["Port module event", "Cable error"],
        &[],
        About::Pci,
        &["Cable plugged", "Cable unplugged", "irmware version:"],
    ),
    rule(
        PcieBandwidth,
        &["available PCIe bandwidth, limited by"],
        &[],
        About::Pci,
        &[],
    ),
    rule(
        AerUncorrected,
        &["PCIe Bus Error: severity=Uncorrect"],
        &[],
        About::Pci,
        &[],
    ),
    rule(
        AerCorrected,
        &["PCIe Bus Error: severity=Correct"],
        &[],
        About::Pci,
        &[],
    ),
    rule(GidAdd, &["GID add failed"], &[], About::Infiniband, &[]),
    rule(LinkDown, &["Link down"], &[], About::Pci, &["Link up"]),
    rule(
        LinkDown,
        &["NIC Link is Down"],
        &[],
        About::Pci,
        &["NIC Link is Up"],
    ),
    rule(
        Multicast,
        &["multicast join failed"],
        &[],
        About::First,
        &["link becomes ready"],
    ),
    rule(
        AdapterReset,
        &["NETDEV WATCHDOG", "timed out"],
        &[],
        About::Pci,
        &[],
    ),
    rule(
        AdapterReset,
        &[],
        &["TX timeout detected", "TX timed out detected"],
        About::Pci,
        &[],
    ),
    rule(
        AdapterReset,
        &["bnxt_en", "Firmware", "reset event"],
        &[],
        About::Pci,
        &[],
    ),
    // irdma has its function reset: by itself, or after the adapter's "critical PE Error" or "HMC Error".
    rule(
        AdapterReset,
        &["Requesting a reset"],
        &["ice ", "i40e ", "idpf ", "irdma", "infiniband"],
        About::Pci,
        &[],
    ),
    rule(
        ProbeFailed,
        &["failed with error -", "probe"],
        &[
            "mlx4_core",
            "mlx5_core",
            "mlx5_ib",
            "nvidia",
            "irdma",
            "bnxt_re",
            "bnxt_en",
            "efa",
            "hfi1",
            "ice",
        ],
        About::Pci,
        &["irmware version:"],
    ),
    rule(
        SymbolMismatch,
        &["disagrees about version of symbol"],
        &[],
        About::First,
        &[],
    ),
    rule(
        SymbolMismatch,
        &["Unknown symbol", "(err "],
        &[],
        About::First,
        &[],
    ),
    rule(
        Peermem,
        &["detected invalid context"],
        &[],
        About::Nothing,
        &[],
    ),
    rule(
        RecoveryAction,
        &["Xid (", "): 154,"],
        &[],
        About::Pci,
        NVIDIA_WORKS,
    ),
    rule(Xid, &["NVRM: ", "Xid ("], &[], About::Pci, NVIDIA_WORKS),
    rule(SXid, &["SXid ("], &[], About::Pci, NVIDIA_WORKS),
    rule(
        GpuInit,
        &["NVRM: ", "RmInitAdapter failed"],
        &[],
        About::Pci,
        NVIDIA_WORKS,
    ),
    rule(
        DriverMismatch,
        &["NVRM: API mismatch"],
        &[],
        About::Nothing,
        NVIDIA_WORKS,
    ),
    rule(IommuFault, &["DMAR: ", "fault addr"], &[], About::Pci, &[]),
    rule(IommuFault, &["IO_PAGE_FAULT"], &[], About::Pci, &[]),
    rule(
        OutOfMemory,
        &["Killed process"],
        &["ut of memory"],
        About::Killed,
        &[],
    ),
    rule(
        MachineCheck,
        &["[Hardware Error]"],
        &[
            "Machine check events logged",
            "Corrected error",
            "Uncorrected",
            "event severity",
        ],
        About::Nothing,
        &[],
    ),
    rule(
        MachineCheck,
        &["EDAC "],
        &[" CE ", " UE "],
        About::Nothing,
        &[],
    ),
    rule(
        HungTask,
        &["task ", "blocked for more than"],
        &[],
        About::Task,
        &[],
    ),
    rule(
        CpuStuck,
        &[],
        &["soft lockup", "hard LOCKUP", "self-detected stall"],
        About::Nothing,
        &[],
    ),
    rule(
        ServerSilent,
        &["server ", "not responding"],
        &[],
        About::Server,
        &[" OK"],
    ),
    rule(
        AmdFailed,
        &["amdgpu", "GPU reset begin"],
        &[],
        About::Pci,
        AMD_WORKS,
    ),
    rule(
        AmdFailed,
        &["amdgpu", "GPU Recovery Failed"],
        &[],
        About::Pci,
        AMD_WORKS,
    ),
    rule(
        AmdFailed,
        &["amdgpu", "device lost from bus"],
        &[],
        About::Pci,
        AMD_WORKS,
    ),
    rule(
        AmdFailed,
        &["amdgpu", "Fatal error during GPU init"],
        &[],
        About::Pci,
        AMD_WORKS,
    ),
    rule(
        AmdUncorrected,
        &["amdgpu", "uncorrectable hardware error"],
        &["errors detected in", "(ERREVENT"],
        About::Pci,
        AMD_WORKS,
    ),
    rule(
        AdapterStalled,
        &["FW STALL Detected"],
        &[],
        About::Pci,
        &["found at mem"],
    ),
    rule(
        AdapterStalled,
        &["efa", "send any completion for admin cmd"],
        &[],
        About::Pci,
        &["IB device registered"],
    ),
    rule(
        LustreLost,
        &["Lustre", ": Connection to ", " was lost"],
        &[],
        About::Lustre,
        &["Connection restored to"],
    ),
    rule(
        StorageReconnects,
        &["nvme nvme", "Reconnecting in"],
        &[],
        About::Nvme,
        &["Successfully reconnected", "Removing ctrl"],
    ),
    rule(
        StorageReconnects,
        &["rpcrdma: connection to", "closed ("],
        &[],
        About::Nothing,
        &["rpcrdma: connection to"],
    ),
];

/// What a line says.
pub(super) struct Event {
    pub(super) about: Arc<str>,
    pub(super) code: Option<u64>,
    pub(super) fatal: bool,
    pub(super) bandwidth: Option<BitRate>,
}

impl Event {
    /// The line's event, where it is of this class.
    pub(super) fn of(class: EventClass, line: &str) -> Option<Event> {
        let rule = RULES
            .iter()
            .filter(|rule| rule.class == class)
            .find(|rule| rule.fits(line))?;
        let code = match class {
            Xid | SXid => number_after(line, "): "),
            RecoveryAction => recovery_action(line),
            _ => None,
        };
        // Xid 154 is a class of its own.
        if class == Xid && code == Some(154) || class == RecoveryAction && code.is_none() {
            return None;
        }
        // The one before it is the fault.
        if class == Xid && line.contains("caused by previous Xid") {
            return None;
        }
        // A clean look at the counters says `no` or 0; registers of a GPU that sleeps read as ones, 1048560 errors and more with each look.
        if class == AmdUncorrected
            && !line.contains("(ERREVENT")
            && number_before(line, "uncorrectable").is_none_or(|count| count % ALL_ONES == 0)
        {
            return None;
        }
        let fatal = match class {
            AerUncorrected => line.contains("(Fatal)"),
            SXid => line.contains(", Fatal"),
            MachineCheck => {
                line.contains(" UE ") || line.contains("ncorrected") || line.contains("fatal")
            }
            Mlx5Fatal => true,
            _ => false,
        };
        Some(Event {
            about: rule.about(line).unwrap_or("none".into()),
            code,
            fatal,
            bandwidth: (class == PcieBandwidth).then(|| bandwidth(line)).flatten(),
        })
    }
}

/// Whether a line says that the trouble of this class about this thing is over: how it ended.
pub(super) fn end(class: EventClass, about: &str, line: &str) -> Option<&'static str> {
    let of_class = RULES.iter().filter(|rule| rule.class == class);
    let ends = |rule: &Rule, over: &str| {
        line.contains(over)
            && match rule.about {
                // The driver of all GPUs was loaded.
                _ if over == NVIDIA_LOADED => true,
                About::Nothing => true,
                _ => {
                    about == "none"
                        || names(line, about)
                        || pci_address(line).as_deref() == Some(about)
                }
            }
    };
    of_class
        .flat_map(|rule| rule.over.iter().filter(move |over| ends(rule, over)))
        .next()
        .map(|over| match *over {
            NVIDIA_LOADED | MLX5_LOADED | "Initialized amdgpu" | "found at mem" => {
                "before its driver was loaded"
            }
            _ => "and recovered since",
        })
}

/// Whether a fault of this class holds until the device is reset or the machine is booted.
pub(super) fn needs_reset(class: EventClass) -> bool {
    matches!(
        class,
        Mlx5Fatal | Xid | SXid | GpuInit | AmdFailed | AdapterStalled
    )
}

/// Whether a line has a name as a whole word.
fn names(line: &str, name: &str) -> bool {
    let inner = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (line.get(..at), line.get(at + name.len()..));
        !inner(before.and_then(|b| b.chars().next_back()))
            && !inner(after.and_then(|a| a.chars().next()))
    })
}

impl Rule {
    fn fits(&self, line: &str) -> bool {
        self.all.iter().all(|part| line.contains(part))
            && (self.any.is_empty() || self.any.iter().any(|part| line.contains(part)))
    }

    fn about(&self, line: &str) -> Option<Arc<str>> {
        let word = |text: &str| text.split_whitespace().next().map(Arc::from);
        match self.about {
            About::Pci => pci_address(line),
            About::Infiniband => {
                let rest = line.split_once("infiniband ")?.1;
                word(rest.split(':').next()?)
            }
            About::First => {
                let first = line.split(':').next()?.trim();
                (!first.is_empty() && !first.contains(' ')).then(|| first.into())
            }
            About::Task => {
                let rest = line.split_once("task ")?.1;
                Some(rest.split_once(" blocked")?.0.rsplit_once(':')?.0.into())
            }
            About::Killed => {
                let rest = line.split_once("Killed process")?.1.split_once('(')?.1;
                Some(rest.split_once(')')?.0.into())
            }
            About::Server => word(line.split_once("server ")?.1),
            About::Lustre => {
                let before = line.split_once(": Connection to ")?.0;
                Some(before.rsplit([' ', ':']).next()?.into())
            }
            About::Nvme => {
                let rest = line.split_once("nvme nvme")?.1;
                let end = rest.find(|c: char| !c.is_ascii_digit())?;
                Some(format!("nvme{}", rest.get(..end)?).into())
            }
            About::Nothing => None,
        }
    }
}

/// The first PCI address of a line, in full. NVIDIA's Xid leaves out the function, an IOMMU the domain.
pub(super) fn pci_address(line: &str) -> Option<Arc<str>> {
    let address = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
    for word in line.split(|c| !address(c)) {
        let word = word.trim_matches([':', '.']);
        let (place, function) = match word.split_once('.') {
            Some((place, function)) if function.len() == 1 => (place, function),
            Some(_) => continue,
            None => (word, ""),
        };
        let parts: Vec<&str> = place.split(':').collect();
        let two = |part: &&str| part.len() == 2;
        let found = match (parts.as_slice(), function) {
            ([domain, bus, slot], function)
                if matches!(domain.len(), 4..=8) && two(bus) && two(slot) =>
            {
                let function = if function.is_empty() { "0" } else { function };
                format!("{domain}:{bus}:{slot}.{function}")
            }
            // Without a domain and a function it could be a time of day.
            ([bus, slot], function) if two(bus) && two(slot) && !function.is_empty() => {
                format!("0000:{bus}:{slot}.{function}")
            }
            _ => continue,
        };
        return Some(found.to_ascii_lowercase().into());
    }
    None
}

fn number_after(line: &str, mark: &str) -> Option<u64> {
    let rest = line.split_once(mark)?.1;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

/// `2 uncorrectable hardware errors`, `2 new uncorrectable hardware errors`
fn number_before(line: &str, mark: &str) -> Option<u64> {
    let before = line.split_once(mark)?.0.trim_end();
    let before = before.strip_suffix("new").unwrap_or(before).trim_end();
    before.rsplit(' ').next()?.parse().ok()
}

/// `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)`
fn recovery_action(line: &str) -> Option<u64> {
    let to = line.split_once(") to 0x")?.1;
    let end = to.find(|c: char| !c.is_ascii_hexdigit())?;
    u64::from_str_radix(to.get(..end)?, 16).ok()
}

/// `63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at …`
fn bandwidth(line: &str) -> Option<BitRate> {
    let before = line.split_once(" Gb/s available PCIe bandwidth")?.0;
    let number: f64 = before.rsplit(' ').next()?.parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| BitRate((number * 1e9).round() as u64))
}
