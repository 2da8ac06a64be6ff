//! Lines in which a tool says that it could not do what it was asked for: the words are in
//! `complaints.toml`.

use crate::nccl_log::failure_words;
use crate::tool_output::{self, Block};

const BEGINS: &[&str] = include!(concat!(env!("OUT_DIR"), "/complaints.begins.rs"));
const ANYWHERE: &[&str] = include!(concat!(env!("OUT_DIR"), "/complaints.anywhere.rs"));
const REASONS: &[&str] = include!(concat!(env!("OUT_DIR"), "/complaints.reasons.rs"));
const WITHHELD: &[&str] = include!(concat!(env!("OUT_DIR"), "/complaints.withheld.rs"));
const HARMLESS: &[&str] = include!(concat!(env!("OUT_DIR"), "/complaints.harmless.rs"));
const KERNEL_NOISE: &[&str] = include!(concat!(env!("OUT_DIR"), "/complaints.kernel_noise.rs"));
const CARRIERS: &[&str] = include!(concat!(env!("OUT_DIR"), "/complaints.carriers.rs"));

/// So few lines of the kernel's log somebody has picked: each that tells of a failure is meant.
const PICKED: usize = 16;
/// A longer line is data.
const LONGEST: usize = 400;

/// What a line complains of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Complaint {
    /// Something failed.
    Failed,
    /// Somebody may not look, or there is no such thing: ordinary beside what the tool does say.
    Withheld,
}

/// What a tool complains of in a line of its output, if it does.
fn of_line(tool: &str, line: &str) -> Option<Complaint> {
    let text = line.trim();
    if text.len() > LONGEST || CARRIERS.contains(&tool) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let words = lower.trim_end_matches(['.', '!', ')']);
    let ends_so = |all: &[&str]| all.iter().any(|reason| is_reason(words, reason));
    // A tool's name may end in `info`, as a level does.
    let behind_own = (text.strip_prefix(tool)).and_then(|rest| rest.strip_prefix(": "));
    let own = behind_own.unwrap_or(text).as_bytes();
    let is_own = behind_own.is_some() && failure_words::says_it(own);
    let is_said = begins(text)
        || behind_name(text).is_some_and(begins)
        || ANYWHERE.iter().any(|part| text.contains(part));
    let is_complaint = is_said || is_own || ends_so(REASONS) || ends_so(WITHHELD);
    if !is_complaint
        || failure_words::is_excused(own)
        || HARMLESS.iter().any(|part| lower.contains(part))
    {
        return None;
    }
    Some(if ends_so(WITHHELD) {
        Complaint::Withheld
    } else {
        Complaint::Failed
    })
}

/// Whether a line begins as complaints do.
fn begins(text: &str) -> bool {
    failure_words::begins_so(text.as_bytes()) || BEGINS.iter().any(|begin| text.starts_with(begin))
}

/// What stands behind the name of a program: `slurm_load_partitions: Unable to contact …`.
fn behind_name(text: &str) -> Option<&str> {
    let (name, rest) = text.split_once(": ")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_plain)).then_some(rest)
}

/// Whether a line ends in the words of an error number, with a colon or the number before them.
fn is_reason(words: &str, reason: &str) -> bool {
    let before = words.strip_suffix(reason);
    before.is_some_and(|before| before.ends_with([' ', '(']) && !starts_with_time(before))
        && words.contains([':', '('])
}

/// Whether it is a line of a log, which begins with the time: `Nov 26 08:12:10`, `2026-11-26T08`.
fn starts_with_time(line: &str) -> bool {
    let mut words = line.split_whitespace();
    line.starts_with(|c: char| c.is_ascii_digit() || c == '[')
        || words
            .nth(2)
            .is_some_and(|word| word.matches(':').count() == 2)
}

/// The lines of an output that complain: of those that nobody may look, only where the tool says
/// nothing else. Of an output that nobody reads, whatever says that something failed.
pub(super) fn lines<'l>(
    argv: &[impl AsRef<str>],
    all: &'l [(u64, String)],
) -> Vec<&'l (u64, String)> {
    let tool = argv.first().map_or("", AsRef::as_ref);
    let kind = |line: &(u64, String)| of_line(tool, &line.1);
    let mut said = all.iter().filter(|line| !line.1.trim().is_empty());
    let says_more = said.any(|line| kind(line).is_none());
    let is_kept = |line: &&(u64, String)| match kind(line) {
        Some(Complaint::Failed) => true,
        Some(Complaint::Withheld) => !says_more,
        None => false,
    };
    let mut kept: Vec<&(u64, String)> = all.iter().filter(is_kept).collect();
    let is_foreign = !tool_output::is_read(argv) || tool_output::carries_log(argv);
    let is_picked = tool_output::is_of_kernel(argv) && all.len() <= PICKED;
    if kept.is_empty() && (is_foreign || is_picked) {
        let mut said = all.iter();
        kept.extend(said.find(|line| {
            let is_noise = KERNEL_NOISE.iter().any(|part| line.1.contains(part));
            let is_kept = match tool_output::kernel_line(&line.1) {
                Some(_) => is_picked && !is_noise,
                None => true,
            };
            is_kept && failure_words::says_failure(line.1.as_bytes())
        }));
    }
    kept
}

/// What is left of an output of which only the complaints are read; nothing if there are none.
pub(super) fn only(block: Block) -> Option<Block> {
    let kept = lines(&block.argv, &block.lines);
    let lines: Vec<(u64, String)> = kept.into_iter().cloned().collect();
    (!lines.is_empty()).then_some(Block { lines, ..block })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_complain_in_their_own_ways() {
        for (tool, line, expected) in [
            (
                "sminfo",
                "sminfo: iberror: failed: query",
                Some(Complaint::Failed),
            ),
            (
                "sminfo",
                "sminfo: sm lid 3 sm guid 0xb83fd2, activity count 3 priority 0",
                None,
            ),
            (
                "iblinkinfo",
                "iblinkinfo: discovery failed",
                Some(Complaint::Failed),
            ),
            (
                "df",
                "df: /scratch: Stale file handle",
                Some(Complaint::Failed),
            ),
            (
                "ethtool",
                "netlink error: Operation not supported",
                Some(Complaint::Withheld),
            ),
            ("ethtool", "     rx_errors_phy: 0", None),
            (
                "nvidia-smi",
                "        Remapping Failure Occurred        : No",
                None,
            ),
            (
                "cat",
                "cat: /sys/class/infiniband/x: Invalid argument",
                None,
            ),
            (
                "systemctl",
                "Nov 26 08:12:10 n opensm[9]: bind: Device or resource busy",
                None,
            ),
            (
                "ip",
                "RTNETLINK answers: File exists",
                Some(Complaint::Failed),
            ),
        ] {
            assert_eq!(of_line(tool, line), expected, "{line}");
        }
    }
}
