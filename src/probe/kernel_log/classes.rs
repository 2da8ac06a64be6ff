//! The classes of lines, as the kernel and its drivers write them.

use std::sync::Arc;

use super::nvlink_registers;
use crate::fact::BitRate;
use crate::fact::kernel_event::EventClass::{self, *};
use crate::fact::kernel_event::LinkError;

/// Those that recordings before 0.2 did not look for: the last of them.
pub(super) const LATER: &[EventClass] = EventClass::ALL.split_at(30).1;

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

/// A row for each rule: `CLASS: [all of these] with [one of these] about MENTION until [one of these];`
macro_rules! rules {
    ($($class:ident: $all:tt $(with $any:tt)? about $about:ident $(until $over:tt)?;)*) => {
        &[$(Rule {
            class: $class,
            all: &$all,
            any: rules!($($any)?),
            about: DeviceMention::$about,
            over: rules!($($over)?),
        }),*]
    };
    ($list:tt) => { &$list };
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
/// The Xid of a fatal error of an NVLink, up to Hopper.
const NVLINK_ERROR: u64 = 74;

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
pub(super) const RULES: &[Rule] = rules! {
    Mlx5Fatal: ["mlx5_core", "health compromised"] about Pci until RELOADED;
    Mlx5Fatal: ["mlx5_core", "Fatal error", "detected"] about Pci until RELOADED;
    Mlx5Fatal: ["mlx5_core", "health recovery failed"] about Pci until RELOADED;
    // Levels as syslog(3) has them: 4 (warning) and above report no failure.
    Mlx5Fatal: ["mlx5_core", "ealth issue observed"]
        with ["severity(0)", "severity(1)", "severity(2)", "severity(3)"] about Pci until RELOADED;
    Mlx5CommandTimeout: ["mlx5_core", "timeout. Will cause a leak"] about Pci
        until ["ecovered after timeout", "irmware version:", "health recovery succeeded"];
    SlotPower: ["insufficient power on the PCIe slot"] about Pci;
    Overheated: ["mlx5_core"] with ["High Temperature", "igh temperature"] about Pci;
    CableError: ["Port module event", "Cable error"] about Pci
        until ["Cable plugged", "Cable unplugged", "irmware version:"];
    PcieBandwidth: ["available PCIe bandwidth, limited by"] about Pci;
    AerUncorrected: ["PCIe Bus Error: severity=Uncorrect"] about Pci;
    AerCorrected: ["PCIe Bus Error: severity=Correct"] about Pci;
    GidAdd: ["GID add failed"] about Infiniband;
    LinkDown: ["Link down"] about Pci until ["Link up"];
    LinkDown: ["NIC Link is Down"] about Pci until ["NIC Link is Up"];
    Multicast: ["multicast join failed"] about First until ["link becomes ready"];
    AdapterReset: ["NETDEV WATCHDOG", "timed out"] about Watchdog;
    AdapterReset: [] with ["TX timeout detected", "TX timed out detected"] about Pci;
    AdapterReset: ["bnxt_en", "Firmware", "reset event"] about Pci;
    // irdma has its function reset: by itself, or after the adapter's "critical PE Error" or "HMC Error".
    AdapterReset: ["Requesting a reset"] with ["ice ", "i40e ", "idpf ", "irdma", "infiniband"] about Pci;
    ProbeFailed: ["failed with error -", "probe"]
        with ["mlx4_core", "mlx5_core", "mlx5_ib", "nvidia", "irdma", "bnxt_re", "bnxt_en", "efa", "hfi1", "ice"]
        about Pci until ["irmware version:"];
    SymbolMismatch: ["disagrees about version of symbol"] about First;
    SymbolMismatch: ["Unknown symbol", "(err "] about First;
    RecoveryAction: ["Xid (", "): 154,"] about Pci until NVIDIA_WORKS;
    Xid: ["NVRM: ", "Xid ("] about Pci until NVIDIA_WORKS;
    // The driver's own words, when it logs no number: those of Xid 79.
    Xid: ["NVRM: ", FELL_OFF] about Pci until NVIDIA_WORKS;
    SXid: ["SXid ("] about Pci until NVIDIA_WORKS;
    GpuInit: ["NVRM: "] with ["RmInitAdapter failed", "rm_init_adapter failed"] about Pci until NVIDIA_WORKS;
    DriverMismatch: ["NVRM: API mismatch"] about Nothing until NVIDIA_WORKS;
    IommuFault: ["DMAR: ", "fault addr"] about Pci;
    IommuFault: ["IO_PAGE_FAULT"] about Pci;
    OutOfMemory: ["Killed process"] with ["ut of memory"] about Killed;
    MachineCheck: ["[Hardware Error]"]
        with ["Machine check events logged", "Corrected error", "Uncorrected", "event severity"] about Nothing;
    MachineCheck: ["EDAC "] with [" CE ", " UE "] about Nothing;
    HungTask: ["task ", "blocked for more than"] about Task;
    CpuStuck: [] with ["soft lockup", "hard LOCKUP", "self-detected stall"] about Nothing;
    ServerSilent: ["server ", "not responding"] about Server until [" OK"];
    AmdFailed: ["amdgpu", "GPU reset begin"] about Pci until AMD_WORKS;
    AmdFailed: ["amdgpu", "GPU Recovery Failed"] about Pci until AMD_WORKS;
    AmdFailed: ["amdgpu", "device lost from bus"] about Pci until AMD_WORKS;
    AmdFailed: ["amdgpu", "Fatal error during GPU init"] about Pci until AMD_WORKS;
    AmdUncorrected: ["amdgpu", "uncorrectable hardware error"] with ["errors detected in", "(ERREVENT"] about Pci
        until AMD_WORKS;
    AdapterStalled: ["FW STALL Detected"] about Pci until ["found at mem"];
    AdapterStalled: ["efa", "send any completion for admin cmd"] about Pci until ["IB device registered"];
    LustreLost: ["Lustre", ": Connection to ", " was lost"] about Lustre until ["Connection restored to"];
    StorageReconnects: ["nvme nvme", "Reconnecting in"] about Nvme
        until ["Successfully reconnected", "Removing ctrl"];
    StorageReconnects: ["rpcrdma: connection to", "closed ("] about Nothing until ["rpcrdma: connection to"];
    NetworkTableFull: ["_conntrack: table full"] about Nothing;
    // `neighbor table overflow!`, and `Neighbour table overflow.` before Linux 5.0.
    NetworkTableFull: ["table overflow"] with ["eighbour", "eighbor"] about Nothing;
    AllocationFailed: ["page allocation failure"] about First;
    ProgramCrashed: ["segfault at "] with LIBRARIES about Library;
    ProgramCrashed: ["traps: "] with LIBRARIES about Library;
    IpoibFailed: ["couldn't register ipoib port"] about First until ["link becomes ready"];
    IpoibFailed: ["failed to initialize device", " port ", "(ret = "] about First until ["link becomes ready"];
    // mlx5: status 0x8 and 0xf of a command (`cmd.c`); EFA: ENOMEM of the device.
    AdapterExhausted: ["async reg mr failed. status -12"] about Infiniband until RELOADED;
    AdapterExhausted: ["mlx5_core"] with ["failed, status limits exceeded", "failed, status no resources"] about Pci
        until RELOADED;
    AdapterExhausted: ["infiniband", "Failed to process command", "err -12"] about Infiniband
        until ["IB device registered"];
    LimitReached: ["fork rejected by pids controller"] about Nothing;
    LimitReached: ["VFS: file-max limit"] about Nothing;
    // `Link Down` alone may be one that error containment brings back.
    DeviceGone: ["pciehp: Slot(", "Card not present"] about Pci until ["): Link Up", "): Card present"];
    DeviceGone: ["change power state from"] with ["device inaccessible", "config space inaccessible"] about Pci
        until [MLX5_LOADED, NVIDIA_LOADED];
    CpuOverheated: ["temperature above threshold, cpu clock throttled"] about Nothing
        until ["temperature/speed normal"];
    DiskFailed: ["emounting filesystem read-only"] about Disk;
    DiskFailed: ["critical medium error, dev "] about Disk;
    DiskFailed: ["XFS (", "hutting down filesystem"] about Disk;
};

/// The event of a line.
pub(super) struct Event {
    pub(super) about: Arc<str>,
    pub(super) code: Option<u64>,
    pub(super) fatal: bool,
    pub(super) bandwidth: Option<BitRate>,
    pub(super) link_error: LinkError,
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
            Xid => line.contains(" Fatal ") && !is_peers_doing(line),
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
            link_error: (code == Some(NVLINK_ERROR))
                .then(|| nvlink_registers::meaning(line))
                .flatten()
                .unwrap_or(LinkError::NotPrinted),
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

/// Whether a link of NVLink 5 went down for a reason that lies outside of this GPU: `149, NETIR_LINK_DOWN Fatal XC0 i0 Link 14 (0x026001c6 0x0 …)`. The
/// reason is in bits 20 to 25 of the first register; the immediate action that NVIDIA's catalogue has for these two is IGNORE.
fn is_peers_doing(line: &str) -> bool {
    let register = line
        .split_once(" (0x")
        .and_then(|(_, rest)| hexadecimal(rest));
    let reason = register.map(|register| register >> 20 & 0x3f);
    line.contains("): 149, NETIR_LINK") && matches!(reason, Some(38 | 40))
}

/// `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)`
fn recovery_action(line: &str) -> Option<u64> {
    hexadecimal(line.split_once(") to 0x")?.1)
}

/// The number that a text begins with.
fn hexadecimal(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit())?;
    u64::from_str_radix(text.get(..end)?, 16).ok()
}

/// `63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at …`
fn bandwidth(line: &str) -> Option<BitRate> {
    let before = line.split_once(" Gb/s available PCIe bandwidth")?.0;
    let number: f64 = before.rsplit(' ').next()?.parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| BitRate((number * 1e9).round() as u64))
}
