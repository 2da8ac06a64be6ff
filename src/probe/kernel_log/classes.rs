//! The classes of lines, as the kernel and its drivers write them: `line_classes.toml`.

use std::sync::Arc;

use super::nvlink_registers;
use crate::fact::BitRate;
use crate::fact::kernel_event::EventClass::{self, *};
use crate::fact::kernel_event::LinkError;
use crate::source::kernel_log_markers::tells_trouble;

/// Those that recordings before 0.2 did not look for: the last of them.
pub(super) const LATER: &[EventClass] = EventClass::ALL.split_at(30).1;

/// A class of lines by its word, where a line names what it is about, and what a line has: all of the one and, unless that is empty, one of the other.
pub(super) type Rule = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// A class with the texts of which a later line has one that ends its trouble.
type Ends = &'static [(&'static str, &'static [&'static str])];

pub(super) const RULES: &[Rule] = include!(concat!(env!("OUT_DIR"), "/line_classes.rules.rs"));
/// The driver was loaded.
const LOADED: Ends = include!(concat!(env!("OUT_DIR"), "/line_classes.loaded.rs"));
/// It recovered.
const RECOVERED: Ends = include!(concat!(env!("OUT_DIR"), "/line_classes.recovered.rs"));

/// The step of an amdgpu counter when it is read from a sleeping GPU.
const ALL_ONES: u64 = 1_048_560;
/// The driver of all GPUs was loaded.
const NVIDIA_LOADED: &str = "NVRM: loading NVIDIA UNIX";
/// The Xid of a fatal error of an NVLink, up to Hopper.
const NVLINK_ERROR: u64 = 74;
/// The Xid of a GPU that fell off the bus.
const FELL_OFF_CODE: u64 = 79;

/// The rules of a class.
pub(super) fn rules(class: EventClass) -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(move |(of, ..)| *of == class.word())
}

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
        if class == Uncatalogued {
            return is_uncatalogued(line).then(Event::uncatalogued);
        }
        let (_, place, ..) = rules(class).find(|rule| fits(rule, line))?;
        let code = match class {
            Xid if !line.contains("Xid (") => Some(FELL_OFF_CODE),
            Xid | SXid => number_after(line, "): "),
            XidEcho => number_after(line, "caused by previous Xid "),
            RecoveryAction => recovery_action(line),
            _ => None,
        };
        // Details of the line before, which says whether it is fatal.
        let is_detail = ["Severity ", "Data {"]
            .iter()
            .any(|part| line.contains(part));
        if class == SXid && is_detail {
            return None;
        }
        // Xid 154 is a class of its own.
        if class == Xid && code == Some(154) || class == RecoveryAction && code.is_none() {
            return None;
        }
        // A clean look at the counters says `no` or 0; registers of a GPU that sleeps read as ones, 1048560 errors and more with each look.
        if class == AmdUncorrected
            && !line.contains("(ERREVENT")
            && number_before(line, "uncorrectable").is_none_or(|count| count % ALL_ONES == 0)
        {
            return None;
        }
        let about = device_in(line, place);
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
            link_error: match code {
                Some(NVLINK_ERROR) => nvlink_registers::meaning(line),
                Some(_) if line.contains(" Nonfatal ") => Some(LinkError::Nonfatal),
                _ => None,
            }
            .unwrap_or(LinkError::NotPrinted),
        })
    }
}

impl Event {
    fn uncatalogued() -> Self {
        Event {
            about: "none".into(),
            code: None,
            fatal: false,
            bandwidth: None,
            link_error: LinkError::NotPrinted,
        }
    }
}

/// Whether a driver tells of a trouble that no rule knows. What a rule has and its class leaves out
/// is known too.
fn is_uncatalogued(line: &str) -> bool {
    tells_trouble(line) && !RULES.iter().any(|rule| fits(rule, line))
}

/// Whether a line has the texts of a rule.
fn fits((.., all, any): &Rule, line: &str) -> bool {
    all.iter().all(|part| line.contains(part))
        && (any.is_empty() || any.iter().any(|part| line.contains(part)))
}

/// Whether a line says that the trouble of this class about this thing is over: how it ended.
pub(super) fn end(class: EventClass, about: &str, line: &str) -> Option<&'static str> {
    let ends = |table: Ends| {
        let of_class = table.iter().filter(|(of, _)| *of == class.word());
        of_class.flat_map(|(_, texts)| *texts).any(|text| {
            line.contains(text)
                && (*text == NVIDIA_LOADED
                    || about == "none"
                    || names(line, about)
                    || pci_address(line).as_deref() == Some(about))
        })
    };
    match (ends(LOADED), ends(RECOVERED)) {
        (true, _) => Some("before its driver was loaded"),
        (false, true) => Some("and recovered since"),
        (false, false) => None,
    }
}

/// Whether a fault of this class holds until the device is reset or the machine is booted.
pub(super) fn needs_reset(class: EventClass) -> bool {
    matches!(
        class,
        Mlx5Fatal | Xid | SXid | GpuInit | NvlinkDiscovery | AmdFailed | AdapterStalled
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

/// What a line is about, where the rule says that it is named; `None` of a line that names nothing.
fn device_in(line: &str, place: &str) -> Option<Arc<str>> {
    let word = |text: &str| text.split_whitespace().next().map(Arc::from);
    match place {
        "pci" => pci_address(line),
        // A PCI address, else `probe of NAME failed`
        "probe" => pci_address(line).or_else(|| word(line.split_once("probe of ")?.1)),
        // `infiniband mlx5_2: …`
        "infiniband" => word(line.split_once("infiniband ")?.1.split(':').next()?),
        // The word before the first colon.
        "first" => {
            let first = line.split(':').next()?.trim();
            (!first.is_empty() && !first.contains(' ')).then(|| first.into())
        }
        // `task NAME:PID blocked`
        "task" => {
            let rest = line.split_once("task ")?.1;
            Some(rest.split_once(" blocked")?.0.rsplit_once(':')?.0.into())
        }
        // `Killed process PID (NAME)`
        "killed" => {
            let rest = line.split_once("Killed process")?.1.split_once('(')?.1;
            Some(rest.split_once(')')?.0.into())
        }
        // `server NAME not responding`
        "server" => word(line.split_once("server ")?.1),
        // `Lustre: NAME: Connection to …`
        "lustre" => {
            let before = line.split_once(": Connection to ")?.0;
            Some(before.rsplit([' ', ':']).next()?.into())
        }
        // `nvme NAME: …`
        "nvme" => {
            let rest = line.split_once("nvme nvme")?.1;
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            Some(format!("nvme{}", rest.get(..end)?).into())
        }
        // A PCI address, else `NETDEV WATCHDOG: NAME (DRIVER)`
        "watchdog" => pci_address(line).or_else(|| word(line.split_once("NETDEV WATCHDOG: ")?.1)),
        // `error 4 in LIBRARY[…]`
        "library" => {
            let library = line.rsplit_once(" in ")?.1;
            Some(library.split(['[', ' ']).next()?.into())
        }
        // `dev NAME,`, `EXT4-fs (NAME)`
        "disk" => {
            let name = match line.split_once(" dev ") {
                Some((_, rest)) => rest.split([',', ' ']).next()?,
                None => line.split_once('(')?.1.split(')').next()?,
            };
            (!name.is_empty()).then(|| name.into())
        }
        _ => None,
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
