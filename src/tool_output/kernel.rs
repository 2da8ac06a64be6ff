//! Lines of the kernel's log, with whatever the tool that printed them put in front.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use memchr::{memchr, memmem};

/// Seconds since 1970 in 2001: no machine runs for so long.
const EPOCH: f64 = 1e9;

/// The time since boot, if the line has it, and the message of a line of the kernel's log: `[   12.345678] text`, with the words of
/// syslog before it or not, as `dmesg -T` and `dmesg -x` write it, and `kernel: text` of a journal.
pub fn kernel_line(text: &str) -> Option<(Option<f64>, &str)> {
    if let Some((micros, message)) = device_record(text) {
        return Some((Some(micros as f64 / 1e6), message));
    }
    if let Some((_, message)) = of_networkd(text) {
        return Some((None, message));
    }
    let rest = memmem::find(text.as_bytes(), b"kernel: ")
        .filter(|before| *before < 80)
        .and_then(|at| text.get(at + "kernel: ".len()..))
        .unwrap_or(text);
    let journal = rest.len() < text.len();
    for (at, _) in rest.match_indices('[').take(4) {
        let inside = rest.get(at + 1..).and_then(|rest| rest.split_once(']'));
        let Some((stamp, message)) =
            inside.and_then(|(stamp, rest)| Some((stamp, after_thread(rest)?)))
        else {
            continue;
        };
        let stamp = stamp.trim();
        let seconds = stamp
            .split_once('.')
            // Somebody shortened the time by hand: then a driver's words must follow.
            .filter(|(_, micros)| micros.len() == 6 || has_kernel_words(message) || begins(message))
            .and_then(|_| stamp.parse::<f64>().ok())
            // A time of day as UCX prints it, and no time since boot.
            .filter(|seconds| *seconds < EPOCH);
        if seconds.is_some() {
            return Some((seconds, message));
        }
        let words: Vec<&str> = stamp.split_whitespace().collect();
        if words.len() == 5
            && words
                .get(3)
                .is_some_and(|time| time.matches(':').count() == 2)
        {
            return Some((None, message));
        }
    }
    if text.starts_with("kern ")
        && let Some((_, rest)) = text.split_once(" : ").and_then(|(_, r)| r.split_once(' '))
    {
        return Some((None, rest));
    }
    if journal {
        return Some((None, rest));
    }
    (begins(text) || is_of_pci_device(text)).then_some((None, text))
}

/// The microseconds since boot and the message of a record of /dev/kmsg: `6,339,5140900,-;NET:
/// Registered`.
fn device_record(text: &str) -> Option<(u64, &str)> {
    memchr(b';', text.as_bytes())?;
    let (head, message) = text.split_once(';')?;
    let mut fields = head.split(',');
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (_, _, micros) = (number()?, number()?, number()?);
    let flags = fields.next()?;
    (flags.len() <= 2 && !message.is_empty()).then_some((micros, message))
}

/// The words before the daemon and the message of a line in which systemd-networkd tells of a
/// link's carrier.
pub(super) fn of_networkd(text: &str) -> Option<(&str, &str)> {
    memmem::find(text.as_bytes(), b"systemd-networkd[")?;
    let (before, rest) = text.split_once("systemd-networkd[")?;
    let (_, message) = rest.split_once("]: ")?;
    (before.len() < 80 && message.ends_with(" carrier")).then_some((before, message))
}

/// The message behind a time: the kernel may put the thread or the CPU between both, `[ T2808] `.
fn after_thread(rest: &str) -> Option<&str> {
    if let Some(message) = rest.strip_prefix(' ') {
        return Some(message);
    }
    let (thread, message) = rest.strip_prefix('[')?.split_once("] ")?;
    thread
        .trim_start()
        .starts_with(['T', 'C'])
        .then_some(message)
}

/// Whether a line begins with the kernel's time: `[   12.345678]`.
pub(super) fn begins_with_time(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    inside.is_some_and(|(time, _)| time.contains('.') && time.trim().parse::<f64>().is_ok())
}

fn begins(text: &str) -> bool {
    BEGINS.iter().any(|begin| text.starts_with(begin))
}

fn has_kernel_words(text: &str) -> bool {
    let words = WORDS.as_ref();
    words.is_some_and(|words| words.is_match(text))
}

/// Whether a driver wrote it of a PCI device, and nothing is before it: `bnxt_en 0000:21:00.0
/// ens21f0: NIC Link is Down` (include/linux/dev_printk.h, net/core/dev.c of Linux).
fn is_of_pci_device(text: &str) -> bool {
    let mut words = text.splitn(3, ' ');
    let (Some(driver), Some(address), Some(message)) = (words.next(), words.next(), words.next())
    else {
        return false;
    };
    let alone = address.strip_suffix(':');
    is_driver(driver)
        && is_pci_address(alone.unwrap_or(address))
        && (alone.is_some() || message.contains(": "))
}

fn is_driver(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// `0000:21:00.0`.
fn is_pci_address(text: &str) -> bool {
    text.split([':', '.']).map(str::len).eq([4, 2, 2, 1])
        && text
            .bytes()
            .all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.')
}

/// Whether this is a line of the kernel's log and nothing else can be: it begins with a time of dmesg's or syslog's, or names a driver.
pub(super) fn is_kernel(text: &str) -> bool {
    let rest = match text.strip_prefix('<').and_then(|t| t.split_once('>')) {
        Some((level, rest)) if level.len() <= 3 => rest,
        _ => text,
    };
    let logged = |(before, _): (&str, &str)| before.len() < 100 && before.matches(':').count() >= 2;
    let is_alone = rest.starts_with('[')
        || text.starts_with("kern  :")
        || is_of_pci_device(text)
        || begins(text)
        || device_record(text).is_some()
        || of_networkd(text).is_some()
        || memmem::find(text.as_bytes(), b" kernel: ").is_some()
            && text.split_once(" kernel: ").is_some_and(logged)
        || has_kernel_words(text);
    is_alone && kernel_line(text).is_some()
}

/// How lines begin that only the kernel and its drivers write: somebody cut off what its log has
/// before them.
const BEGINS: [&str; 19] = [
    "NVRM: Xid (",
    "NVRM: GPU ",
    "NVRM: API mismatch",
    "nvidia-nvswitch",
    "nvidia_peermem: ",
    "nv_peer_mem: ",
    "mlx5_core 0000:",
    "infiniband mlx5_",
    "pcieport 0000:",
    "watchdog: BUG: soft lockup",
    "BUG: soft lockup",
    "rcu: INFO: rcu_",
    "INFO: task ",
    "EDAC MC",
    "mce: [Hardware Error]",
    "{1}[Hardware Error]",
    "Memory failure: 0x",
    "nfs: server ",
    "oom-kill:constraint=",
];

static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(KERNEL_WORDS).ok());

/// What only drivers write, after whatever somebody put before the line.
pub const KERNEL_WORDS: [&str; 16] = [
    "mlx5_core ",
    "mlx5_core.",
    "NVRM: ",
    "GID add failed",
    "pcieport ",
    "amdgpu ",
    "nvidia-nvswitch",
    "peermem",
    "peer_mem: ",
    "SXid (",
    "DMAR: ",
    "AMD-Vi: ",
    "blocked for more than",
    "Out of memory: ",
    "PCIe Bus Error",
    "async reg mr failed",
];
