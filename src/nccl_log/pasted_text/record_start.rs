//! How lines of programs begin, by which a line is known to be no rest of another.

use crate::tool_output::kernel_line;

/// What a line begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordStart {
    /// A time, a tag in brackets, a level, a process.
    Framed,
    /// A program's name before a colon.
    Named,
    /// Nothing of that kind.
    None,
}

/// Programs whose names have no letter that prose has not.
const PROGRAMS: [&str; 12] = [
    "srun",
    "sbatch",
    "slurmstepd",
    "slurmd",
    "mpirun",
    "mpiexec",
    "prterun",
    "libibverbs",
    "libfabric",
    "kernel",
    "bash",
    "torchrun",
];

const MONTHS: [&str; 12] = [
    "Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ", "Jul ", "Aug ", "Sep ", "Oct ", "Nov ", "Dec ",
];

const LEVELS: [&str; 11] = [
    "ERROR",
    "WARN",
    "INFO",
    "DEBUG",
    "FATAL",
    "Traceback",
    "NCCL ",
    "RCCL ",
    "UCX  ",
    "NVRM: ",
    "Xid (",
];

/// What stands in the frame of a line, wherever that begins.
const WRITERS: [&str; 7] = [
    "] ERROR",
    "NCCL INFO ",
    "NCCL WARN ",
    "UCX  ",
    "NVRM: ",
    " kernel: ",
    "kernel: ",
];

impl RecordStart {
    pub(super) fn of(line: &str) -> Self {
        let word = line.split(' ').next().unwrap_or("");
        if word.is_empty() {
            // What a terminal broke before a space goes on with it.
            return RecordStart::None;
        }
        if LEVELS.iter().any(|level| line.starts_with(level))
            || WRITERS.iter().any(|writer| line.contains(writer))
            || is_tag(line)
            || is_process(word)
            || is_pci_address(word)
            || is_time(word)
            || is_glog(word)
            || kernel_line(line).is_some()
            || has_month(line)
        {
            RecordStart::Framed
        } else if is_named(word) {
            RecordStart::Named
        } else {
            RecordStart::None
        }
    }
}

/// Whether a line begins with a time as syslog writes it.
pub(super) fn has_month(line: &str) -> bool {
    MONTHS.iter().any(|month| line.starts_with(month)) && line.matches(':').count() > 1
}

/// Whether somebody typed the line behind a prompt.
pub(super) fn is_typed(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with(['$', '#', '%'])
        || ["$ ", "]# ", "~# ", "/# "]
            .iter()
            .any(|prompt| line.contains(prompt))
}

/// `[rank3]:`, `[ 9023.202020] `, `(RayWorker pid=1) `, `<6>`, `{"`. `[2]mlx5_2:1/RoCE` and `[send] via`
/// go on with a line of NCCL.
fn is_tag(line: &str) -> bool {
    if let Some(inner) = line.strip_prefix('[') {
        let Some((tag, behind)) = inner.split_once(']') else {
            return false;
        };
        // A peer's address goes on, too.
        let is_address = tag.parse::<std::net::IpAddr>().is_ok();
        let is_word = tag.len() > 2 && !matches!(tag, "send" | "receive") && !is_address;
        return is_word && (behind.is_empty() || behind.starts_with([' ', ':', '<', '[']));
    }
    let is_level =
        |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains('>');
    line.starts_with("{\"")
        || line.starts_with('(') && line.contains("pid=")
        || line.strip_prefix('<').is_some_and(is_level)
}

/// `node07:4242:4310`
fn is_process(word: &str) -> bool {
    let mut parts = word.split(':');
    let host = parts.next().unwrap_or("");
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let numbers = parts.filter(|part| is_number(part)).count();
    numbers > 1 && host.len() > 1 && !host.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `1a:00.0`, `00:` of a dump.
fn is_pci_address(word: &str) -> bool {
    let (bus, rest) = word.split_once(':').unwrap_or((word, "none"));
    bus.len() == 2
        && bus.bytes().all(|b| b.is_ascii_hexdigit())
        && rest.bytes().all(|b| b.is_ascii_hexdigit() || b == b'.')
}

/// `2026-01-02T03:04:05`, `03:04:05`, `2026/01/02`.
pub(super) fn is_time(word: &str) -> bool {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let rest = word.get(digits..).unwrap_or("");
    let behind = rest.strip_prefix(['-', '/', ':']).unwrap_or("");
    matches!(digits, 2 | 4)
        && word.len() > 7
        && behind.bytes().take(2).filter(u8::is_ascii_digit).count() == 2
}

/// `E0302`
fn is_glog(word: &str) -> bool {
    let digits = word.strip_prefix(['I', 'W', 'E', 'F']);
    digits.is_some_and(|digits| digits.len() >= 4 && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// `torch.distributed.DistBackendError:`, `libfabric:6413:…`, `/src/ibrc.cpp:612:`: a name before a
/// colon that prose does not have.
fn is_named(word: &str) -> bool {
    let Some((name, rest)) = word.split_once(':') else {
        return false;
    };
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    let inner_capital = name.bytes().skip(1).any(|b| b.is_ascii_uppercase());
    let is_special = PROGRAMS.contains(&name)
        || word.starts_with("libfabric:")
        || name.starts_with(['/', '.']) && name.contains(['/', '.'])
        || name.ends_with(".c")
        || name.ends_with(".cc")
        || inner_capital && name.bytes().any(|b| b.is_ascii_lowercase());
    name.len() > 3
        && (rest.bytes().all(|b| b.is_ascii_digit() || b == b':') || name == "libfabric")
        && name.bytes().all(is_name)
        && is_special
}
