//! The kernel's log, as far back as its ring buffer reaches: only the lines that can matter.

mod copied;

use std::collections::HashMap;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno as Sys;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::source::kernel_log_markers::{MARKERS, MOST_OF_KIND, marker};
use crate::source::{Answer, Refusal};

pub use copied::ask as ask_copy;

/// How many of the first and of the last lines of one kind are reported.
const FIRST: usize = 40;
const LAST: usize = MOST_OF_KIND - FIRST;
/// The most bytes of a reported line.
const LENGTH: usize = 400;
/// Records that are read: a log buffer of the largest size that the kernel takes (2 GiB) is not read to its end.
const RECORDS: usize = 2_000_000;

/// A line of the log.
struct Line {
    /// Microseconds of the kernel's log clock, about `CLOCK_MONOTONIC`.
    at: u64,
    text: String,
    /// Whether it was logged before this boot.
    earlier: bool,
}

/// The reported part of a log.
#[derive(Default)]
struct Log {
    /// All lines that were read.
    lines: u64,
    /// Lines that were overwritten before they could be read; unknown if the log does not count.
    lost: Option<u64>,
    /// The time of the first line.
    first: Option<u64>,
    /// The time of the last one.
    last: Option<u64>,
    /// Whether the first line is the kernel's greeting, with which each boot begins.
    from_boot: bool,
    /// Whether the times of lines count from another moment than boot.
    ageless: bool,
    kept: Vec<Line>,
    /// How many lines had a marker.
    matching: u64,
    /// How many lines are kept before they are thinned.
    full: usize,
    /// Whether there are more records than are read.
    goes_on: bool,
}

/// Of what a line is one: its marker, its device, and of an Xid its number too, so that a flood of
/// one hides no other.
fn kind(text: &str) -> Option<(usize, String)> {
    let marker = marker(text)?;
    let xid = text
        .split_once("Xid (")
        .and_then(|(_, rest)| rest.split_once(','))
        .map(|(xid, _)| xid);
    let device = || text.split_whitespace().find(|word| is_device(word));
    Some((marker, xid.or_else(device).unwrap_or("").to_owned()))
}

/// Whether a word is the name of a PCI function or of an RDMA device.
fn is_device(word: &str) -> bool {
    let word = word.trim_end_matches(':');
    let is_pci = word.len() == "0000:00:00.0".len() && word.matches(':').count() == 2;
    is_pci || word.starts_with("mlx5_") && word.ends_with(|c: char| c.is_ascii_digit())
}

impl Log {
    fn add(&mut self, line: Line) {
        self.lines += 1;
        self.last = Some(line.at);
        if self.first.is_none() {
            self.first = Some(line.at);
            self.from_boot = line.text.contains("Linux version ");
        }
        if marker(&line.text).is_none() {
            return;
        }
        self.matching += 1;
        self.kept.push(line);
        // Far above the reported part: a log full of one error does not fill the memory.
        if self.kept.len() > self.full.max(4096) {
            self.thin();
            self.full = 2 * self.kept.len();
        }
    }

    /// Leaves the first and the last lines of each kind.
    fn thin(&mut self) {
        let mut left: HashMap<_, usize> = HashMap::new();
        for line in &self.kept {
            *left.entry(kind(&line.text)).or_default() += 1;
        }
        let mut seen: HashMap<_, usize> = HashMap::new();
        self.kept.retain(|line| {
            let kind = kind(&line.text);
            let all = left.get(&kind).copied().unwrap_or(0);
            let seen = seen.entry(kind).or_default();
            *seen += 1;
            *seen <= FIRST || all - *seen < LAST
        });
    }

    fn value(mut self, now: Value) -> Value {
        self.thin();
        let told: u64 = self.kept.len() as u64;
        let lines: Vec<Value> = self
            .kept
            .iter()
            .map(|line| {
                let mut told = json!({ "t": line.at, "text": &line.text[..line.text.floor_char_boundary(LENGTH)] });
                if line.earlier {
                    told["earlier"] = true.into();
                }
                told
            })
            .collect();
        json!({
            "now": now,
            "markers": MARKERS,
            "lines": self.lines,
            "lost": self.lost,
            "first": self.first,
            "from_boot": self.from_boot,
            "left_out": self.matching - told,
            "goes_on": self.goes_on,
            "told": lines,
        })
    }
}

/// Answers `kernel_log`:
/// `{"now","markers","lines","lost","first","from_boot","left_out","goes_on","told":[{"t","text"}]}`,
/// times in microseconds.
/// A line that was logged before this boot has `"earlier": true`; only copies of a log daemon's files have such lines.
///
/// Reads /dev/kmsg, else what syslog(2) gives. Both are refused with EPERM where the sysctl `kernel.dmesg_restrict` is set and the
/// process lacks CAP_SYSLOG. Neither takes a line away from another reader.
pub fn ask() -> Result<Answer, Refusal> {
    let log = match kmsg() {
        Ok(log) => log,
        Err(_) => syslog()?,
    };
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
    Ok(Answer::from(log.value(now.into())))
}

/// One record a read; a descriptor of its own starts at the oldest record that is left.
fn kmsg() -> Result<Log, Sys> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = rustix::fs::open("/dev/kmsg", flags, Mode::empty())?;
    let mut log = Log::default();
    // Records are counted from 0 at boot.
    let (mut lost, mut next) = (0, 0);
    let mut buffer = [0u8; 8192];
    for number in 0.. {
        if number == RECORDS {
            log.goes_on = true;
            break;
        }
        match rustix::io::read(&fd, &mut buffer) {
            Ok(0) | Err(Sys::AGAIN) => break,
            Ok(length) => {
                let record = String::from_utf8_lossy(buffer.get(..length).unwrap_or(&[]));
                if let Some((sequence, line)) = record_of(&record) {
                    lost += sequence.saturating_sub(next);
                    next = sequence + 1;
                    log.add(line);
                }
            }
            // Overwritten while it was read: the next read goes on with the oldest that is left.
            Err(Sys::PIPE | Sys::INTR) => {}
            // A record that is longer than any that the kernel makes; the next read goes on behind it.
            Err(Sys::INVAL) => {}
            Err(other) => return Err(other),
        }
    }
    log.lost = Some(lost);
    Ok(log)
}

/// `6,1234,5678901,-;text`, then lines of properties that begin with a space (`Documentation/ABI/testing/dev-kmsg`).
fn record_of(record: &str) -> Option<(u64, Line)> {
    let (head, rest) = record.split_once(';')?;
    let mut fields = head.split(',').skip(1);
    let sequence: u64 = fields.next()?.parse().ok()?;
    let at = fields.next()?.parse().ok()?;
    let text = rest.lines().next().unwrap_or("").to_owned();
    let earlier = false;
    Some((sequence, Line { at, text, earlier }))
}

/// The whole buffer at once, without the numbers of records.
#[expect(unsafe_code, reason = "no wrapper of syslog(2) is in the tree")]
fn syslog() -> std::io::Result<Log> {
    const READ_ALL: libc::c_int = 3;
    const SIZE_BUFFER: libc::c_int = 10;
    // SAFETY: this action reads no buffer, so none is given.
    let size = unsafe { libc::klogctl(SIZE_BUFFER, std::ptr::null_mut(), 0) };
    if size < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let mut buffer = vec![0u8; (size as usize).clamp(1 << 16, 64 << 20)];
    // SAFETY: the pointer and the length are those of the buffer, which lives during the call. READ_ALL clears nothing.
    let read = unsafe {
        libc::klogctl(
            READ_ALL,
            buffer.as_mut_ptr().cast(),
            buffer.len() as libc::c_int,
        )
    };
    if read < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let text = String::from_utf8_lossy(buffer.get(..read as usize).unwrap_or(&[]));
    let mut log = Log::default();
    for line in text.lines().filter_map(syslog_line) {
        log.add(line);
    }
    Ok(log)
}

/// `<6>[   12.345678] text`. Without times (`printk.time=0`) a line is of no use here.
fn syslog_line(line: &str) -> Option<Line> {
    let rest = line.split_once('[')?.1;
    let (time, text) = rest.split_once(']')?;
    let (seconds, fraction) = time.trim().split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    let micros: u64 = fraction.split(['@', ' ']).next()?.parse().ok()?;
    Some(Line {
        at: seconds.checked_mul(1_000_000)?.checked_add(micros)?,
        text: text.trim_start().to_owned(),
        earlier: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_as_the_kernel_writes_them() {
        let record = "4,1201,5140900,-;mlx5_core 0000:1a:00.0: Port module event: module 0, Cable plugged\n SUBSYSTEM=pci\n DEVICE=+pci:0000:1a:00.0\n";
        let (sequence, line) = record_of(record).unwrap();
        assert_eq!((sequence, line.at), (1201, 5_140_900));
        assert!(line.text.ends_with("Cable plugged"));
        assert!(record_of("no record").is_none());
        assert!(record_of("4,x,1,-;text").is_none());
        let line = syslog_line("<6>[   12.345678] eth0: Link up").unwrap();
        assert_eq!((line.at, &*line.text), (12_345_678, "eth0: Link up"));
        assert!(syslog_line("<6>no time").is_none());
    }

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end() {
        let mut log = Log::default();
        let line = |at: u64, text: &str| Line {
            at,
            text: text.into(),
            earlier: false,
        };
        log.add(line(0, "Linux version 6.1"));
        for at in 1..=20_000 {
            log.add(line(at, "x: Link down"));
        }
        log.add(line(20_001, "Out of memory: Killed process 1 (x)"));
        log.add(line(20_002, "nothing of interest"));
        let value = log.value(json!(30_000));
        assert_eq!(value["lines"], 20_003);
        assert_eq!(value["from_boot"], true);
        let told = value["told"].as_array().unwrap();
        assert_eq!(told.len(), FIRST + LAST + 1);
        assert_eq!(
            (&told[0]["t"], &told[FIRST + LAST]["t"]),
            (&json!(1), &json!(20_001))
        );
        assert_eq!(value["left_out"], 20_000 - FIRST - LAST);
    }

    #[test]
    fn a_flood_of_one_device_hides_no_other() {
        let mut log = Log::default();
        for at in 0..20_000 {
            let device = if at == 9_000 {
                "0000:5e:00.1"
            } else {
                "0000:5e:00.0"
            };
            let text = format!("mlx5_core {device} eth4: Link down");
            log.add(Line {
                at,
                text,
                earlier: false,
            });
        }
        let value = log.value(json!(30_000));
        let told = value["told"].as_array().unwrap();
        assert!(told.iter().any(|line| line["t"] == 9_000));
        assert_eq!(told.len(), FIRST + LAST + 1);
    }

    #[test]
    fn a_flood_of_one_xid_hides_no_other() {
        let mut log = Log::default();
        for at in 0..20_000 {
            let xid = match at {
                9_000 => "0000:1b:00): 79, pid=1, GPU has fallen off the bus.",
                _ => "0000:1c:00): 13, pid=7, Graphics Exception",
            };
            let text = format!("NVRM: Xid (PCI:{xid}");
            log.add(Line {
                at,
                text,
                earlier: false,
            });
        }
        let value = log.value(json!(30_000));
        let told = value["told"].as_array().unwrap();
        assert_eq!(told.len(), FIRST + LAST + 1);
        assert!(told.iter().any(|line| line["t"] == 9_000));
        assert_eq!(value["left_out"], 20_000 - FIRST - LAST - 1);
    }
}
