//! Output of other tools that is in the same stream: tables of benchmarks, lists of ports and of GPUs.
//!
//! A block begins with a line that only this tool writes, and goes on with lines of the tool's form that have the same text before
//! them: a rank, a host, a time. Lines of others between them are passed over.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::anchor::AnchorPosition;
use super::grams::Grams;
use super::text::without_colours;
use crate::small_sort;

/// A tool whose output is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// nccl-tests, and rccl-tests: a row for each size.
    NcclTests,
    /// What nccl-tests prints before its table: a line for each rank.
    NcclTestsRanks,
    /// `all_reduce_bench.py`: a table with `payload`, `busbw`, `algbw`.
    AllReduceBench,
    /// perftest: `ib_write_bw`, `ib_send_lat` and the others.
    Perftest,
    /// ibstat(8).
    Ibstat,
    /// ibstatus(8).
    Ibstatus,
    /// ibv_devinfo(1).
    IbvDevinfo,
    /// `show_gids`.
    ShowGids,
    /// `nvidia-smi topo -m`.
    TopoMatrix,
    /// `nvidia-smi topo -p2p r`, with the command's own line.
    TopoP2p,
    /// Lines of the kernel's log, from dmesg(1), journalctl(1) or a file of syslog.
    KernelLog,
}

/// One tool's output, as far as it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PasteCollector {
    /// The tool.
    pub tool: Tool,
    /// The common text before each of its lines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub before: String,
    /// Its lines with their numbers in the file, without the common text.
    pub lines: Vec<(u64, String)>,
    /// Whether lines of it were dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// What a line has to hold to begin a block.
pub(super) const NEEDLES: [&str; 25] = [
    "busbw",
    "Using devices",
    "Dual-port",
    "ouldn't connect to ",
    "CA '",
    "hca_id:",
    "nfiniband device '",
    "nfiniBand device '",
    "INDEX",
    "GPU0",
    "topo -p2p ",
    "mlx5_core ",
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
];

/// Blocks that are kept of a file.
const BLOCKS: usize = 256;
/// Blocks that are open at once: a tool that runs on many hosts.
const OPEN: usize = 64;
/// Lines that are kept of one block.
const LINES: usize = 2048;
/// Bytes that are kept of a file.
const BYTES: usize = 1 << 20;
/// Bytes of a line that are kept: a row of `nvidia-smi topo -m` for many devices is long.
const TEXT: usize = 1400;

/// What a line of NCCL has, and no line of a tool.
static NCCL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" NCCL "));

/// Finds blocks, and keeps them.
pub struct Pasted {
    needles: Grams,
    open: Vec<OpenBlock>,
    done: Vec<PasteCollector>,
    bytes: usize,
}

struct OpenBlock {
    paste: PasteCollector,
    /// Lines since the last one that belongs to the block.
    missed: u32,
    /// A line was read after which only few can follow.
    ending: bool,
}

/// The role of a line in a block.
enum LineRole {
    /// It is kept.
    Kept,
    /// It belongs to the tool, but is not read.
    Passed,
    /// It is kept, and the block ends soon.
    Last,
    /// It does not belong to the tool.
    Foreign,
}

impl Default for Pasted {
    fn default() -> Self {
        Pasted {
            needles: Grams::new(NEEDLES),
            open: Vec::new(),
            done: Vec::new(),
            bytes: 0,
        }
    }
}

impl Pasted {
    /// Whether no tool's output is being read.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Reads the whole lines from `from` to `to` of a text, of which the first has the number `number`. `begins` says whether a needle
    /// is there.
    pub(super) fn lines(
        &mut self,
        text: &[u8],
        mut from: usize,
        to: usize,
        mut number: u64,
        begins: bool,
    ) {
        let mut next = None;
        let mut more = begins;
        while from < to {
            if more && next.is_none_or(|at| at < from) {
                next = self.needles.find(text, from, to).map(|hit| hit.at);
                more = next.is_some();
            }
            let hit = next.filter(|at| *at >= from);
            if self.open.is_empty() {
                let Some(passed) = hit.and_then(|hit| text.get(from..hit)) else {
                    return;
                };
                if let Some(end) = memchr::memrchr(b'\n', passed) {
                    let passed = passed.get(..=end).unwrap_or(&[]);
                    number += memchr::memchr_iter(b'\n', passed).count() as u64;
                    from += end + 1;
                }
            }
            let rest = text.get(from..to).unwrap_or(&[]);
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let before = previous(text, from);
            let line = rest.get(..length).unwrap_or(&[]);
            let begins = hit.is_some_and(|hit| hit < from + length);
            self.line(number, line, before, begins);
            number += 1;
            from += length + 1;
        }
    }

    /// Reads a line that says `error`, `CCL` or the like.
    pub(super) fn marked(&mut self, line: &[u8], mark: AnchorPosition, number: u64) {
        if let AnchorPosition::Once(at) | AnchorPosition::First(at) = mark
            && at.checked_sub(2).and_then(|begin| line.get(begin..at + 4)) == Some(b" NCCL ")
        {
            return;
        }
        let begins = match mark {
            AnchorPosition::None(found) => found.others(),
            _ => true,
        };
        if (begins || !self.open.is_empty()) && NCCL.find(line).is_none() {
            self.lines(line, 0, line.len(), number, begins);
        }
    }

    fn line(&mut self, number: u64, line: &[u8], previous: &[u8], hit: bool) {
        // Of what a bar of progress wrote over, the last part stands.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.rsplit(|b| *b == b'\r').next().unwrap_or(line);
        if !hit && !self.may_go_on(line) {
            return;
        }
        let text = plain(line);
        let text = text.trim_end();
        if hit && kernel_line(text).is_some() {
            self.kernel(number, text);
            return;
        }
        if hit && let Some((tool, before)) = begins(text) {
            let same = |block: &OpenBlock| block.paste.tool == tool && block.paste.before == before;
            let goes_on = matches!(tool, Tool::Ibstat | Tool::Ibstatus | Tool::IbvDevinfo);
            match self.open.iter().position(same) {
                Some(at) if goes_on => {
                    let block = self.open.get_mut(at);
                    if let Some(block) = block {
                        block.missed = 0;
                        self.bytes += block.keep(number, body(text, before.len()), self.bytes);
                    }
                    return;
                }
                // The matrix follows the command.
                None if tool == Tool::TopoMatrix
                    && let Some(block) = self
                        .open
                        .iter_mut()
                        .find(|b| b.paste.tool == Tool::TopoP2p && b.paste.lines.len() == 1) =>
                {
                    block.paste.before = before.to_owned();
                    block.missed = 0;
                    self.bytes += block.keep(number, body(text, before.len()), self.bytes);
                    return;
                }
                Some(at) => {
                    let block = self.open.remove(at);
                    self.close(block);
                }
                None => {}
            }
            if self.open.len() >= OPEN {
                let block = self.open.remove(0);
                self.close(block);
            }
            let mut block = OpenBlock {
                paste: PasteCollector {
                    tool,
                    before: before.to_owned(),
                    lines: Vec::new(),
                    cut: false,
                },
                missed: 0,
                ending: false,
            };
            // The test's name is above what perftest reports about its connection.
            if tool == Tool::Perftest {
                let title = plain(previous);
                // The mark of a quotation may stand before it.
                let title = title.trim_matches(|c: char| c.is_whitespace() || c == '>');
                if title.ends_with(" Test") {
                    self.bytes += block.keep(number.saturating_sub(1), title, self.bytes);
                }
            }
            self.bytes += block.keep(number, body(text, before.len()), self.bytes);
            self.open.push(block);
            return;
        }
        self.offer(number, text);
    }

    /// A line of the kernel. Which of them matter is decided later: those without a needle are not kept.
    fn kernel(&mut self, number: u64, text: &str) {
        let kernel = |block: &OpenBlock| block.paste.tool == Tool::KernelLog;
        let at = match self.open.iter().position(kernel) {
            Some(at) => at,
            None => {
                self.open.push(OpenBlock {
                    paste: PasteCollector {
                        tool: Tool::KernelLog,
                        before: String::new(),
                        lines: Vec::new(),
                        cut: false,
                    },
                    missed: 0,
                    ending: false,
                });
                self.open.len() - 1
            }
        };
        if let Some(block) = self.open.get_mut(at) {
            block.missed = 0;
            self.bytes += block.keep(number, text, self.bytes);
        }
    }

    /// A cheap look whether an open block can want the line: between the rows of a table stand many of NCCL.
    fn may_go_on(&mut self, line: &[u8]) -> bool {
        if NCCL.find(line).is_none() {
            return true;
        }
        self.age(usize::MAX);
        false
    }

    fn offer(&mut self, number: u64, text: &str) {
        let mut taken = usize::MAX;
        for (at, block) in self.open.iter_mut().enumerate().rev() {
            let Some(body) = block.body(text) else {
                continue;
            };
            match goes_on(block.paste.tool, body, block) {
                LineRole::Foreign => continue,
                LineRole::Passed => {}
                LineRole::Kept => self.bytes += block.keep(number, body, self.bytes),
                LineRole::Last => {
                    self.bytes += block.keep(number, body, self.bytes);
                    block.ending = true;
                }
            }
            block.missed = 0;
            taken = at;
            break;
        }
        self.age(taken);
    }

    /// Counts a line that was another's, and closes blocks that had none for long.
    fn age(&mut self, taken: usize) {
        let mut at = 0;
        let mut old = 0;
        while let Some(block) = self.open.get_mut(at) {
            if old != taken {
                block.missed = block.missed.saturating_add(1);
            }
            old += 1;
            if block.missed > patience(block) {
                let block = self.open.remove(at);
                self.close(block);
            } else {
                at += 1;
            }
        }
    }

    fn close(&mut self, block: OpenBlock) {
        if self.done.len() < BLOCKS && !block.paste.lines.is_empty() {
            self.done.push(block.paste);
        }
    }

    /// The found blocks, in the order of their lines.
    pub(super) fn finish(mut self) -> Vec<PasteCollector> {
        for block in std::mem::take(&mut self.open) {
            self.close(block);
        }
        small_sort::by_key(&mut self.done, |paste| {
            paste.lines.first().map(|(number, _)| *number)
        });
        self.done
    }
}

impl OpenBlock {
    /// Keeps a line where there is room; gives the bytes that it takes.
    fn keep(&mut self, number: u64, text: &str, bytes: usize) -> usize {
        if self.paste.lines.len() >= LINES || bytes + text.len() > BYTES {
            self.paste.cut = true;
            return 0;
        }
        let end = text.floor_char_boundary(TEXT);
        let text = text.get(..end).unwrap_or("");
        self.paste.lines.push((number, text.to_owned()));
        text.len()
    }

    /// The line without what is before each; `None` where another text does.
    fn body<'t>(&self, text: &'t str) -> Option<&'t str> {
        let before = self.paste.before.as_str();
        if text.starts_with(before) {
            return text.get(before.len()..);
        }
        // A time goes on from line to line.
        let digits = before.bytes().filter(u8::is_ascii_digit).count();
        let head = text.as_bytes().get(..before.len())?;
        let alike = head
            .iter()
            .zip(before.as_bytes())
            .all(|(a, b)| a == b || a.is_ascii_digit() && b.is_ascii_digit());
        if digits >= 6 && before.contains(':') && alike {
            return text.get(before.len()..);
        }
        None
    }
}

/// The line before the one that begins here.
fn previous(lines: &[u8], from: usize) -> &[u8] {
    let before = lines.get(..from.saturating_sub(1)).unwrap_or(&[]);
    let begin = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    before.get(begin..).unwrap_or(&[])
}

fn plain(line: &[u8]) -> std::borrow::Cow<'_, str> {
    if memchr::memchr(0x1b, line).is_none() {
        return String::from_utf8_lossy(line);
    }
    let mut stripped = Vec::new();
    without_colours(line, &mut stripped);
    String::from_utf8_lossy(&stripped).into_owned().into()
}

fn body(text: &str, before: usize) -> &str {
    text.get(before..).unwrap_or("")
}

/// The tool of which this is the first line, and what is before it.
fn begins(text: &str) -> Option<(Tool, &str)> {
    let at = |mark: &str| text.find(mark).and_then(|at| text.get(..at));
    let words: Vec<&str> = text.split_whitespace().collect();
    let has = |word: &str| words.contains(&word);
    if let Some(before) = at("#")
        && has("size")
        && has("algbw")
        && has("busbw")
    {
        return Some((Tool::NcclTests, before.trim_end()));
    }
    if let Some(before) = at("#")
        && text.trim_end().ends_with("# Using devices")
    {
        return Some((Tool::NcclTestsRanks, before.trim_end()));
    }
    if let Some(before) = at("|")
        && has("payload")
        && has("busbw")
    {
        return Some((Tool::AllReduceBench, before.trim_end()));
    }
    if let Some(before) = at("busbw:")
        && text.contains("GBps")
    {
        return Some((Tool::AllReduceBench, before.trim_end()));
    }
    if let Some(before) = at("Dual-port")
        && text.contains("Device")
    {
        return Some((Tool::Perftest, before.trim_end()));
    }
    if let Some(before) = at("Couldn't connect to ") {
        // `host:port` is perftest's; others say the same words of other things.
        let (_, port) = text.rsplit_once(':')?;
        let is_port = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        return (is_port && !before.contains("NCCL"))
            .then_some((Tool::Perftest, before.trim_end()));
    }
    if let Some(before) = at("CA '")
        && text.ends_with('\'')
    {
        return Some((Tool::Ibstat, before.trim_end()));
    }
    if let Some(before) = at("hca_id:") {
        return Some((Tool::IbvDevinfo, before.trim_end()));
    }
    if let Some(before) = at("Infiniband device '").or_else(|| at("InfiniBand device '"))
        && text.contains("status")
    {
        return Some((Tool::Ibstatus, before.trim_end()));
    }
    if let Some(before) = at("DEV")
        && has("PORT")
        && has("INDEX")
        && has("GID")
    {
        return Some((Tool::ShowGids, before.trim_end()));
    }
    if at("nvidia-smi topo -p2p ").is_some() {
        return Some((Tool::TopoP2p, ""));
    }
    // The header of the matrix begins with GPU0, or the row of a single GPU follows it.
    if let Some(before) = at("GPU0")
        && words.iter().filter(|word| word.starts_with("GPU")).count() >= 2
        && words.iter().all(|word| *word != "X" && *word != "OK")
        && !before.contains("NCCL")
    {
        return Some((Tool::TopoMatrix, before.trim_end()));
    }
    None
}

/// How many lines of others may stand between two of a block.
fn patience(block: &OpenBlock) -> u32 {
    match block.paste.tool {
        _ if block.ending => 4,
        // What is between is passed over anyway, and what follows is of the same machine.
        Tool::KernelLog => 10_000,
        // Connections are made by the first collective, and NCCL logs each.
        Tool::NcclTests => 4_000_000,
        Tool::AllReduceBench => 100_000,
        Tool::Perftest => 2000,
        _ if block.paste.lines.len() <= 1 => 40,
        _ => 200,
    }
}

/// The role of a line in a block of this tool.
fn goes_on(tool: Tool, body: &str, block: &OpenBlock) -> LineRole {
    let text = body.trim_start();
    let first = text.split_whitespace().next().unwrap_or("");
    let number = !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit());
    let keyed = |keys: &[&str]| {
        keys.iter().any(|key| {
            text.get(..key.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(key))
        })
    };
    match tool {
        Tool::NcclTests => {
            if text.starts_with('#') {
                if text.contains("Avg bus bandwidth") {
                    LineRole::Last
                } else if text.contains("Out of bounds values") || text.contains("test concluded") {
                    LineRole::Kept
                } else {
                    LineRole::Passed
                }
            } else if number && text.split_whitespace().count() >= 6 {
                LineRole::Kept
            } else {
                LineRole::Foreign
            }
        }
        Tool::NcclTestsRanks if !text.starts_with('#') => LineRole::Foreign,
        Tool::NcclTestsRanks if text.contains(" Pid ") && text.contains(" on ") => LineRole::Kept,
        Tool::NcclTestsRanks => LineRole::Passed,
        Tool::AllReduceBench if text.starts_with('|') && text.contains("GBps") => LineRole::Kept,
        Tool::AllReduceBench if text.starts_with('|') => LineRole::Passed,
        Tool::Perftest => {
            let asked = [
                "Failed status",
                "Completion with error",
                "ouldn't",
                "Unable to",
                "Failed to ",
            ];
            let failed = asked.iter().any(|mark| text.contains(mark)) && !text.contains("NCCL");
            let told = keyed(&["Link type", "Mtu", "GID index", "Connection type", "#bytes"]);
            let row = number
                && block
                    .paste
                    .lines
                    .iter()
                    .any(|(_, line)| line.contains("#bytes"));
            if failed || told || row {
                LineRole::Kept
            } else if text.starts_with("-----") {
                let rows = |(_, l): &(u64, String)| {
                    l.trim_start().starts_with(|c: char| c.is_ascii_digit())
                };
                match block.paste.lines.last().is_some_and(rows) {
                    true => LineRole::Last,
                    false => LineRole::Passed,
                }
            } else {
                LineRole::Foreign
            }
        }
        Tool::Ibstat | Tool::Ibstatus | Tool::IbvDevinfo => {
            const READ: [&str; 18] = [
                "CA type:",
                "Number of ports:",
                "Firmware version:",
                "fw_ver:",
                "board_id:",
                "vendor_part_id:",
                "phys_port_cnt:",
                "port:",
                "Port ",
                "State:",
                "Physical state:",
                "phys state:",
                "Rate:",
                "Base lid:",
                "SM lid:",
                "sm_lid:",
                "port_lid:",
                "max_mtu:",
            ];
            // The member `port:` comes before the longer names that begin like it.
            if keyed(&["Port GUID"]) {
                LineRole::Passed
            } else if keyed(&READ)
                || keyed(&[
                    "active_mtu:",
                    "link_layer:",
                    "transport:",
                    "phys_state:",
                    "Link layer:",
                ])
            {
                LineRole::Kept
            } else if text.contains(':') && body.starts_with([' ', '\t']) {
                LineRole::Passed
            } else {
                LineRole::Foreign
            }
        }
        Tool::ShowGids if text.starts_with("---") => LineRole::Passed,
        Tool::ShowGids if text.starts_with("n_gids_found") => LineRole::Last,
        Tool::ShowGids => {
            let mut words = text.split_whitespace().skip(1);
            let numbers = words
                .by_ref()
                .take(2)
                .all(|w| w.bytes().all(|b| b.is_ascii_digit()));
            match numbers
                && words
                    .next()
                    .is_some_and(|gid| gid.matches(':').count() >= 2)
            {
                true => LineRole::Kept,
                false => LineRole::Foreign,
            }
        }
        Tool::TopoMatrix | Tool::TopoP2p => {
            if ["GPU", "NIC", "mlx"]
                .iter()
                .any(|head| first.starts_with(head))
            {
                LineRole::Kept
            } else if text.is_empty() || text.contains(" = ") || text.contains("Legend") {
                LineRole::Passed
            } else {
                LineRole::Foreign
            }
        }
        Tool::AllReduceBench | Tool::KernelLog => LineRole::Foreign,
    }
}

/// The time since boot, if the line has it, and the message of a line of the kernel's log: `[   12.345678] text`, with the words of
/// syslog before it or not, as `dmesg -T` and `dmesg -x` write it, and `kernel: text` of a journal.
pub fn kernel_line(text: &str) -> Option<(Option<f64>, &str)> {
    if text.contains(" NCCL ") {
        return None;
    }
    let rest = match text.split_once("kernel: ") {
        Some((before, rest)) if before.len() < 80 => rest,
        _ => text,
    };
    let journal = rest.len() < text.len();
    for (at, _) in rest.match_indices('[').take(4) {
        let Some((stamp, message)) = rest.get(at + 1..).and_then(|r| r.split_once("] ")) else {
            continue;
        };
        let stamp = stamp.trim();
        let seconds = stamp
            .split_once('.')
            .filter(|(_, micros)| micros.len() == 6)
            .and_then(|_| stamp.parse::<f64>().ok());
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
    let begins = |driver: &&str| {
        let (before, rest) = text.split_at_checked(text.find(*driver)?)?;
        is_tag(before.trim_end()).then_some(rest)
    };
    DRIVERS.iter().find_map(begins).map(|rest| (None, rest))
}

/// Whether this is what a tool puts before a line, a time or a name, and no sentence.
fn is_tag(before: &str) -> bool {
    let digit = |word: &str| word.bytes().any(|b| b.is_ascii_digit());
    before.ends_with([':', ']', '>', '|', '"']) || before.split_whitespace().all(digit)
}

/// How lines begin that only drivers write: somebody cut off what the kernel's log has before them.
const DRIVERS: [&str; 9] = [
    "NVRM: Xid (",
    "NVRM: GPU ",
    "NVRM: API mismatch",
    "nvidia-nvswitch",
    "nvidia_peermem: ",
    "nv_peer_mem: ",
    "mlx5_core 0000:",
    "infiniband mlx5_",
    "pcieport 0000:",
];
