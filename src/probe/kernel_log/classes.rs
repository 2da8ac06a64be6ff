//! The classes of lines, as the kernel and its drivers write them.

use std::sync::Arc;

use crate::fact::BitRate;
use crate::fact::kernel_event::EventClass::{self, *};

/// All classes, in the order of the schema.
pub(super) const ALL: [EventClass; 39] = [
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
    NetworkTableFull,
    AllocationFailed,
    ProgramCrashed,
    IpoibFailed,
    AdapterExhausted,
    LimitReached,
    DeviceGone,
    CpuOverheated,
    DiskFailed,
];

/// Those that recordings before 0.2 did not look for.
pub(super) const LATER: [EventClass; 9] = [
    NetworkTableFull,
    AllocationFailed,
    ProgramCrashed,
    IpoibFailed,
    AdapterExhausted,
    LimitReached,
    DeviceGone,
    CpuOverheated,
    DiskFailed,
];

/// A line is of the class if it has all of the one and, unless that is empty, one of the other.
pub(super) struct Rule {
    pub(super) class: EventClass,
    pub(super) all: &'static [&'static str],
    pub(super) any: &'static [&'static str],
    about: DeviceMention,
    /// A later line about the same that has one of these ends it.
    over: &'static [&'static str],
}

/// Where a line names what it is about.
#[derive(Clone, Copy)]
enum DeviceMention {
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
    /// A PCI address, else `NETDEV WATCHDOG: NAME (DRIVER)`
    Watchdog,
    /// `error 4 in LIBRARY[…]`
    Library,
    /// `dev NAME,`, `EXT4-fs (NAME)`
    Disk,
    Nothing,
}

const fn rule(
    class: EventClass,
    all: &'static [&'static str],
    any: &'static [&'static str],
    about: DeviceMention,
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
/// The step of an amdgpu counter when it is read from a sleeping GPU.
const ALL_ONES: u64 = 1_048_560;
/// amdgpu after a reset, and when it takes a GPU.
const AMD_WORKS: &[&str] = &["GPU reset succeeded", ") succeeded!", "Initialized amdgpu"];
const NVIDIA_LOADED: &str = "NVRM: loading NVIDIA UNIX";
const FELL_OFF: &str = "fallen off the bus";
/// The Xid of a GPU that fell off the bus.
const FELL_OFF_CODE: u64 = 79;
/// Libraries in which a crash tells of the network or of the GPUs, after `in `.
const LIBRARIES: &[&str] = &[
    " in libnccl",
    " in librccl",
    " in libibverbs",
    " in librdmacm",
    " in libmlx",
    " in libefa",
    " in libbnxt_re",
    " in libirdma",
    " in libfabric",
    " in libuc",
    " in libcuda.so",
    " in libnvidia",
];
/// A reset of one GPU is reported by Xid 154 alone, and only by newer drivers.
const NVIDIA_WORKS: &[&str] = &[NVIDIA_LOADED, " to 0x0 (None)"];

/// The rules. The texts are those of Linux 4.18 to 6.18 (mlx5: `health.c`, `cmd.c`, `events.c`; PCI: `aer.c`, `pci.c`) and of NVIDIA's
/// kernel modules 450 to 595 (amdgpu: `amdgpu_device.c`, `amdgpu_ras.c`; bnxt_re: `qplib_rcfw.c`; EFA: `efa_com.c`; irdma: `icrdma_if.c`; NVMe: `rdma.c`;
/// Lustre: `ptlrpc/import.c`).
pub(super) const RULES: &[Rule] = &[
    rule(
        Mlx5Fatal,
        &["mlx5_core", "health compromised"],
        &[],
        DeviceMention::Pci,
        RELOADED,
    ),
    rule(
        Mlx5Fatal,
        &["mlx5_core", "Fatal error", "detected"],
        &[],
        DeviceMention::Pci,
        RELOADED,
    ),
    rule(
        Mlx5Fatal,
        &["mlx5_core", "health recovery failed"],
        &[],
        DeviceMention::Pci,
        RELOADED,
    ),
    // Levels as syslog(3) has them: 4 (warning) and above report no failure.
    rule(
        Mlx5Fatal,
        &["mlx5_core", "ealth issue observed"],
        &["severity(0)", "severity(1)", "severity(2)", "severity(3)"],
        DeviceMention::Pci,
        RELOADED,
    ),
    rule(
        Mlx5CommandTimeout,
        &["mlx5_core", "timeout. Will cause a leak"],
        &[],
        DeviceMention::Pci,
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
        DeviceMention::Pci,
        &[],
    ),
    rule(
        Overheated,
        &["mlx5_core"],
        &["High Temperature", "igh temperature"],
        DeviceMention::Pci,
        &[],
    ),
    rule(
        CableError,
        &["Port module event", "Cable error"],
        &[],
        DeviceMention::Pci,
        &["Cable plugged", "Cable unplugged", "irmware version:"],
    ),
    rule(
        PcieBandwidth,
        &["available PCIe bandwidth, limited by"],
        &[],
        DeviceMention::Pci,
        &[],
    ),
    rule(
        AerUncorrected,
        &["PCIe Bus Error: severity=Uncorrect"],
        &[],
        DeviceMention::Pci,
        &[],
    ),
    rule(
        AerCorrected,
        &["PCIe Bus Error: severity=Correct"],
        &[],
        DeviceMention::Pci,
        &[],
    ),
    rule(
        GidAdd,
        &["GID add failed"],
        &[],
        DeviceMention::Infiniband,
        &[],
    ),
    rule(
        LinkDown,
        &["Link down"],
        &[],
        DeviceMention::Pci,
        &["Link up"],
    ),
    rule(
        LinkDown,
        &["NIC Link is Down"],
        &[],
        DeviceMention::Pci,
        &["NIC Link is Up"],
    ),
    rule(
        Multicast,
        &["multicast join failed"],
        &[],
        DeviceMention::First,
        &["link becomes ready"],
    ),
    rule(
        AdapterReset,
        &["NETDEV WATCHDOG", "timed out"],
        &[],
        DeviceMention::Watchdog,
        &[],
    ),
    rule(
        AdapterReset,
        &[],
        &["TX timeout detected", "TX timed out detected"],
        DeviceMention::Pci,
        &[],
    ),
    rule(
        AdapterReset,
        &["bnxt_en", "Firmware", "reset event"],
        &[],
        DeviceMention::Pci,
        &[],
    ),
    // irdma has its function reset: by itself, or after the adapter's "critical PE Error" or "HMC Error".
    rule(
        AdapterReset,
        &["Requesting a reset"],
        &["ice ", "i40e ", "idpf ", "irdma", "infiniband"],
        DeviceMention::Pci,
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
        DeviceMention::Pci,
        &["irmware version:"],
    ),
    rule(
        SymbolMismatch,
        &["disagrees about version of symbol"],
        &[],
        DeviceMention::First,
        &[],
    ),
    rule(
        SymbolMismatch,
        &["Unknown symbol", "(err "],
        &[],
        DeviceMention::First,
        &[],
    ),
    rule(
        RecoveryAction,
        &["Xid (", "): 154,"],
        &[],
        DeviceMention::Pci,
        NVIDIA_WORKS,
    ),
    rule(
        Xid,
        &["NVRM: ", "Xid ("],
        &[],
        DeviceMention::Pci,
        NVIDIA_WORKS,
    ),
    // The driver's own words, when it logs no number: those of Xid 79.
    rule(
        Xid,
        &["NVRM: ", FELL_OFF],
        &[],
        DeviceMention::Pci,
        NVIDIA_WORKS,
    ),
    rule(SXid, &["SXid ("], &[], DeviceMention::Pci, NVIDIA_WORKS),
    rule(
        GpuInit,
        &["NVRM: "],
        &["RmInitAdapter failed", "rm_init_adapter failed"],
        DeviceMention::Pci,
        NVIDIA_WORKS,
    ),
    rule(
        DriverMismatch,
        &["NVRM: API mismatch"],
        &[],
        DeviceMention::Nothing,
        NVIDIA_WORKS,
    ),
    rule(
        IommuFault,
        &["DMAR: ", "fault addr"],
        &[],
        DeviceMention::Pci,
        &[],
    ),
    rule(IommuFault, &["IO_PAGE_FAULT"], &[], DeviceMention::Pci, &[]),
    rule(
        OutOfMemory,
        &["Killed process"],
        &["ut of memory"],
        DeviceMention::Killed,
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
        DeviceMention::Nothing,
        &[],
    ),
    rule(
        MachineCheck,
        &["EDAC "],
        &[" CE ", " UE "],
        DeviceMention::Nothing,
        &[],
    ),
    rule(
        HungTask,
        &["task ", "blocked for more than"],
        &[],
        DeviceMention::Task,
        &[],
    ),
    rule(
        CpuStuck,
        &[],
        &["soft lockup", "hard LOCKUP", "self-detected stall"],
        DeviceMention::Nothing,
        &[],
    ),
    rule(
        ServerSilent,
        &["server ", "not responding"],
        &[],
        DeviceMention::Server,
        &[" OK"],
    ),
    rule(
        AmdFailed,
        &["amdgpu", "GPU reset begin"],
        &[],
        DeviceMention::Pci,
        AMD_WORKS,
    ),
    rule(
        AmdFailed,
        &["amdgpu", "GPU Recovery Failed"],
        &[],
        DeviceMention::Pci,
        AMD_WORKS,
    ),
    rule(
        AmdFailed,
        &["amdgpu", "device lost from bus"],
        &[],
        DeviceMention::Pci,
        AMD_WORKS,
    ),
    rule(
        AmdFailed,
        &["amdgpu", "Fatal error during GPU init"],
        &[],
        DeviceMention::Pci,
        AMD_WORKS,
    ),
    rule(
        AmdUncorrected,
        &["amdgpu", "uncorrectable hardware error"],
        &["errors detected in", "(ERREVENT"],
        DeviceMention::Pci,
        AMD_WORKS,
    ),
    rule(
        AdapterStalled,
        &["FW STALL Detected"],
        &[],
        DeviceMention::Pci,
        &["found at mem"],
    ),
    rule(
        AdapterStalled,
        &["efa", "send any completion for admin cmd"],
        &[],
        DeviceMention::Pci,
        &["IB device registered"],
    ),
    rule(
        LustreLost,
        &["Lustre", ": Connection to ", " was lost"],
        &[],
        DeviceMention::Lustre,
        &["Connection restored to"],
    ),
    rule(
        StorageReconnects,
        &["nvme nvme", "Reconnecting in"],
        &[],
        DeviceMention::Nvme,
        &["Successfully reconnected", "Removing ctrl"],
    ),
    rule(
        StorageReconnects,
        &["rpcrdma: connection to", "closed ("],
        &[],
        DeviceMention::Nothing,
        &["rpcrdma: connection to"],
    ),
    rule(
        NetworkTableFull,
        &["_conntrack: table full"],
        &[],
        DeviceMention::Nothing,
        &[],
    ),
    // `neighbor table overflow!`, and `Neighbour table overflow.` before Linux 5.0.
    rule(
        NetworkTableFull,
        &["table overflow"],
        &["eighbour", "eighbor"],
        DeviceMention::Nothing,
        &[],
    ),
    rule(
        AllocationFailed,
        &["page allocation failure"],
        &[],
        DeviceMention::First,
        &[],
    ),
    rule(
        ProgramCrashed,
        &["segfault at "],
        LIBRARIES,
        DeviceMention::Library,
        &[],
    ),
    rule(
        ProgramCrashed,
        &["traps: "],
        LIBRARIES,
        DeviceMention::Library,
        &[],
    ),
    rule(
        IpoibFailed,
        &["couldn't register ipoib port"],
        &[],
        DeviceMention::First,
        &["link becomes ready"],
    ),
    rule(
        IpoibFailed,
        &["failed to initialize device", " port ", "(ret = "],
        &[],
        DeviceMention::First,
        &["link becomes ready"],
    ),
    // mlx5: status 0x8 and 0xf of a command (`cmd.c`); EFA: ENOMEM of the device.
    rule(
        AdapterExhausted,
        &["async reg mr failed. status -12"],
        &[],
        DeviceMention::Infiniband,
        RELOADED,
    ),
    rule(
        AdapterExhausted,
        &["mlx5_core"],
        &[
            "failed, status limits exceeded",
            "failed, status no resources",
        ],
        DeviceMention::Pci,
        RELOADED,
    ),
    rule(
        AdapterExhausted,
        &["infiniband", "Failed to process command", "err -12"],
        &[],
        DeviceMention::Infiniband,
        &["IB device registered"],
    ),
    rule(
        LimitReached,
        &["fork rejected by pids controller"],
        &[],
        DeviceMention::Nothing,
        &[],
    ),
    rule(
        LimitReached,
        &["VFS: file-max limit"],
        &[],
        DeviceMention::Nothing,
        &[],
    ),
    // `Link Down` alone may be one that error containment brings back.
    rule(
        DeviceGone,
        &["pciehp: Slot(", "Card not present"],
        &[],
        DeviceMention::Pci,
        &["): Link Up", "): Card present"],
    ),
    rule(
        DeviceGone,
        &["change power state from"],
        &["device inaccessible", "config space inaccessible"],
        DeviceMention::Pci,
        &[MLX5_LOADED, NVIDIA_LOADED],
    ),
    rule(
        CpuOverheated,
        &["temperature above threshold, cpu clock throttled"],
        &[],
        DeviceMention::Nothing,
        &["temperature/speed normal"],
    ),
    rule(
        DiskFailed,
        &["emounting filesystem read-only"],
        &[],
        DeviceMention::Disk,
        &[],
    ),
    rule(
        DiskFailed,
        &["critical medium error, dev "],
        &[],
        DeviceMention::Disk,
        &[],
    ),
    rule(
        DiskFailed,
        &["XFS (", "hutting down filesystem"],
        &[],
        DeviceMention::Disk,
        &[],
    ),
];

/// The event of a line.
pub(super) struct Event {
    pub(super) about: Arc<str>,
    pub(super) code: Option<u64>,
    pub(super) fatal: bool,
    pub(super) bandwidth: Option<BitRate>,
}

impl Event {
    /// The line's event, if it is of this class.
    pub(super) fn of(class: EventClass, line: &str) -> Option<Event> {
        let rule = RULES
            .iter()
            .filter(|rule| rule.class == class)
            .find(|rule| rule.fits(line))?;
        let code = match class {
            Xid if !line.contains("Xid (") => Some(FELL_OFF_CODE),
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
        let about = rule.about(line);
        // An empty drive.
        if class == DiskFailed && about.as_ref().is_some_and(|disk| disk.starts_with("sr")) {
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
            about: about.unwrap_or("none".into()),
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
                DeviceMention::Nothing => true,
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
            DeviceMention::Pci => pci_address(line),
            DeviceMention::Infiniband => {
                let rest = line.split_once("infiniband ")?.1;
                word(rest.split(':').next()?)
            }
            DeviceMention::First => {
                let first = line.split(':').next()?.trim();
                (!first.is_empty() && !first.contains(' ')).then(|| first.into())
            }
            DeviceMention::Task => {
                let rest = line.split_once("task ")?.1;
                Some(rest.split_once(" blocked")?.0.rsplit_once(':')?.0.into())
            }
            DeviceMention::Killed => {
                let rest = line.split_once("Killed process")?.1.split_once('(')?.1;
                Some(rest.split_once(')')?.0.into())
            }
            DeviceMention::Server => word(line.split_once("server ")?.1),
            DeviceMention::Lustre => {
                let before = line.split_once(": Connection to ")?.0;
                Some(before.rsplit([' ', ':']).next()?.into())
            }
            DeviceMention::Nvme => {
                let rest = line.split_once("nvme nvme")?.1;
                let end = rest.find(|c: char| !c.is_ascii_digit())?;
                Some(format!("nvme{}", rest.get(..end)?).into())
            }
            DeviceMention::Watchdog => {
                pci_address(line).or_else(|| word(line.split_once("NETDEV WATCHDOG: ")?.1))
            }
            DeviceMention::Library => {
                let library = line.rsplit_once(" in ")?.1;
                Some(library.split(['[', ' ']).next()?.into())
            }
            DeviceMention::Disk => {
                let name = match line.split_once(" dev ") {
                    Some((_, rest)) => rest.split([',', ' ']).next()?,
                    None => line.split_once('(')?.1.split(')').next()?,
                };
                (!name.is_empty()).then(|| name.into())
            }
            DeviceMention::Nothing => None,
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
