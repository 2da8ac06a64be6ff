//! The kernel's log as a tree holds a copy of it: what dmesg(1) printed, or the file that a log daemon wrote.

use std::sync::Arc;

use serde_json::Value;

use super::{Line, Log, syslog_line};
use crate::live::files::{self, Root};
use crate::source::{Answer, Question, Refusal};

/// The output of dmesg: an sosreport's, or a file next to the tree's directories. It ends when the copy was made.
const PRINTED: [&str; 2] = ["/sos_commands/kernel/dmesg", "/dmesg"];
/// Files of a logging daemon, which begin before this boot.
const WRITTEN: [&str; 3] = ["/var/log/kern.log", "/var/log/messages", "/var/log/syslog"];
/// What dmesg printed when the machine had booted.
const AT_BOOT: &str = "/var/log/dmesg";

/// Answers `kernel_log` from the first of these files that is there and has the kernel's lines.
///
/// # Errors
///
/// Not recorded: there is none.
pub fn ask(root: &Root) -> Result<Answer, Refusal> {
    let now = read(root, "/proc/uptime").and_then(|text| uptime(&text));
    for path in PRINTED {
        if let Some(log) = read(root, path).and_then(|text| printed(&text)) {
            return Ok(answer(log, now));
        }
    }
    for path in WRITTEN {
        if let Some(log) = read(root, path).and_then(|text| written(&text)) {
            return Ok(answer(log, now));
        }
    }
    let mut log = read(root, AT_BOOT)
        .and_then(|text| printed(&text))
        .ok_or(Refusal::NotRecorded)?;
    // Of what came later it says nothing.
    log.from_boot = false;
    Ok(answer(log, now))
}

fn answer(log: Log, now: Option<u64>) -> Answer {
    // The clock of a file is not this machine's; a log that is younger than the clock is of another boot.
    let now = now.filter(|_| !log.ageless).filter(|now| {
        log.last
            .is_none_or(|last| last <= now.saturating_add(MINUTE))
    });
    Answer::from(log.value(now.map_or(Value::Null, Value::from)))
}

/// Files of one copy are read one after the other, and the kernel's two clocks differ a little.
const MINUTE: u64 = 60_000_000;

fn read(root: &Root, path: &str) -> Option<Arc<str>> {
    match files::ask(Some(root), &Question::read(path)) {
        Some(Ok(Answer::Text(text))) => Some(text),
        Some(Ok(Answer::Bytes(bytes))) => Some(String::from_utf8_lossy(&bytes).into()),
        _ => None,
    }
}

fn uptime(text: &str) -> Option<u64> {
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then_some((seconds * 1e6) as u64)
}

/// `[   12.345678] text`; Debian writes `kernel: ` before the text of the file that it keeps.
fn printed(text: &str) -> Option<Log> {
    let mut log = Log::default();
    for mut line in text.lines().filter_map(syslog_line) {
        if let Some(text) = line.text.strip_prefix("kernel: ") {
            line.text = text.to_owned();
        }
        log.add(line);
    }
    match log.lines {
        0 => dated(text),
        _ => Some(log),
    }
}

/// What `dmesg -T` and `dmesg --time-format iso` print: times of day, which are counted here from the first line. Where that is not the
/// first line of the boot, no line's age is known.
fn dated(text: &str) -> Option<Log> {
    let mut log = Log::default();
    let mut first = None;
    for (at, text) in text.lines().filter_map(dated_line) {
        let first = *first.get_or_insert(at);
        log.add(Line {
            at: at.saturating_sub(first),
            text: text.to_owned(),
            earlier: false,
        });
    }
    log.ageless = !log.from_boot;
    (log.lines > 0).then_some(log)
}

/// `[Fri Jan 17 15:36:15 2025] text`, `kern  :info  : 2025-01-17T15:36:15,345059+00:00 text`: microseconds since 1970, and the text.
fn dated_line(line: &str) -> Option<(u64, &str)> {
    if let Some((stamp, text)) = line.strip_prefix('[').and_then(|l| l.split_once("] ")) {
        let mut words = stamp.split_whitespace().skip(1);
        let (month, day, time, year) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
        let micros =
            day_of(year.parse().ok()?, month, day.parse().ok()?)? * DAY + parse_day_time(time)?;
        return Some((micros, text));
    }
    let (before, after) = line.split_once('T')?;
    let date = before.rsplit(' ').next()?;
    let mut parts = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let (time, text) = after.split_once(' ')?;
    // The zone is the same on every line.
    let time = time.split(['+', '-', 'Z']).next()?;
    Some((
        day_of(year, month, day)? * DAY + parse_day_time(time)?,
        text,
    ))
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
/// Microseconds of a day.
const DAY: u64 = 86_400_000_000;

/// Days since 1 March of the year 0 of the Gregorian calendar.
fn day_of(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The year begins in March, so that the day that not every year has is its last.
    let year = year - u64::from(month < 3);
    let months = (month + 9) % 12;
    Some(year * 365 + year / 4 - year / 100 + year / 400 + (months * 153 + 2) / 5 + day - 1)
}

/// `15:36:15`, `15:36:15,345059` in microseconds.
fn parse_day_time(time: &str) -> Option<u64> {
    let (time, fraction) = time.split_once([',', '.']).unwrap_or((time, "0"));
    let mut parts = time.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let micros: u64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let fits = hour < 24 && minute < 60 && second <= 60;
    fits.then_some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

/// `Nov 21 08:00:01 node kernel: [  12.345678] text`. A line before the last boot is marked so: the kernel's greeting begins a boot, and
/// where it was lost, times that begin again. A daemon may leave out lines of a flood, so that this log
/// is never taken for whole; without the kernel's own times a line's age is not known.
fn written(text: &str) -> Option<Log> {
    let of_kernel = |line: &str| Some(line.split_once(" kernel: ")?.1.to_owned());
    let lines: Vec<Line> = text
        .lines()
        .filter_map(of_kernel)
        .filter_map(|text| syslog_line(&text))
        .collect();
    let greeting = lines
        .iter()
        .rposition(|line| line.text.contains("Linux version "));
    let restart = lines
        .windows(2)
        .rposition(|pair| matches!(pair, [a, b] if b.at.saturating_add(MINUTE) < a.at));
    let boot = greeting.max(restart.map(|at| at + 1)).unwrap_or(0);
    let mut log = Log::default();
    for (at, mut line) in lines.into_iter().enumerate() {
        if at == boot {
            // The log's own first line belongs to this boot.
            (log.lines, log.first, log.last) = (0, None, None);
        }
        line.earlier = at < boot;
        log.add(line);
    }
    log.from_boot = false;
    (log.lines > 0).then_some(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_dmesg_printed() {
        let text = "[    0.000000] Linux version 6.1.0\n[   12.500000] mlx5_core 0000:1a:00.0 ib0: Link down\nno line of the kernel's\n";
        let log = printed(text).unwrap();
        let value = log.value(json!(20_000_000));
        assert_eq!(value["from_boot"], true);
        assert_eq!(value["lines"], 2);
        assert_eq!(value["now"], 20_000_000);
        assert_eq!(value["told"][0]["t"], 12_500_000);
        let debian = "[    0.000000] kernel: Linux version 6.1.0\n";
        assert!(printed(debian).unwrap().from_boot);
        assert!(printed("").is_none() && printed("no log\nTo be or not to be\n").is_none());
    }

    #[test]
    fn times_of_day_count_from_the_first_line() {
        let text = "kern  :notice: 2024-12-31T23:59:59,500000+00:00 Linux version 6.1.0\nkern  :info  : 2025-01-01T00:10:00,250000+00:00 eth0: Link up\n";
        let log = printed(text).unwrap();
        assert_eq!(
            (log.lines, log.last, log.ageless),
            (2, Some(600_750_000), false)
        );
        let text =
            "[Thu Feb 29 23:59:50 2024] mlx5_core: a\n[Fri Mar  1 00:00:10 2024] eth0: Link up\n";
        let log = printed(text).unwrap();
        assert_eq!(
            (log.lines, log.last, log.ageless),
            (2, Some(20_000_000), true)
        );
        let Answer::Value(value) = answer(log, Some(1_000_000_000)) else {
            panic!("no value")
        };
        assert_eq!(value["now"], Value::Null);
        for bad in [
            "[Fri Foo 17 15:36:15 2025] x",
            "[Fri Jan 17 25:36:15 2025] x",
            "2025-13-17T15:36:15,3+00:00 x",
            "2025-01-17T15:36 x",
            "[] x",
        ] {
            assert_eq!(dated_line(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_a_daemon_wrote_counts_since_the_last_boot() {
        let text = "Nov 20 08:00:01 n kernel: [    0.000000] Linux version 6.1.0\nNov 20 08:10:01 n kernel: [  600.000000] eth0: Link down\nNov 20 09:00:01 n sshd[7]: kernel panic is what I feel\nNov 21 08:00:01 n kernel: [    0.000000] Linux version 6.1.0\nNov 21 08:00:09 n kernel: [    8.000000] eth0: Link up\n";
        let log = written(text).unwrap();
        assert_eq!((log.lines, log.first, log.from_boot), (2, Some(0), false));
        let told = log.value(json!(10_000_000))["told"].clone();
        assert_eq!(
            told,
            json!([
                { "t": 600_000_000, "text": "eth0: Link down", "earlier": true },
                { "t": 8_000_000, "text": "eth0: Link up" },
            ])
        );
        let rotated = "Nov 20 08:10:01 n kernel: [  600.000000] eth0: Link down\nNov 21 08:00:09 n kernel: [    8.000000] eth0: Link up\n";
        assert!(written(rotated).unwrap().kept[0].earlier);
        assert!(written("Nov 20 08:00:01 n kernel: eth0: Link down\n").is_none());
    }

    #[test]
    fn a_log_of_another_boot_has_no_ages() {
        let log = || printed("[  900.000000] eth0: Link down\n").unwrap();
        let now = |uptime| match answer(log(), uptime) {
            Answer::Value(value) => value["now"].clone(),
            _ => Value::Null,
        };
        assert_eq!(now(Some(1_000_000_000)), json!(1_000_000_000u64));
        assert_eq!(now(Some(100_000_000)), Value::Null);
        assert_eq!(now(None), Value::Null);
        assert_eq!(uptime("12345.67 99.00\n"), Some(12_345_670_000));
        assert_eq!(uptime("nan"), None);
    }
}
