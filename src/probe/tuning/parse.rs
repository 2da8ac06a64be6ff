//! How the kernel writes its settings.

use std::sync::Arc;

use crate::probe::{is_not, joined};

/// One word.
pub(super) fn word(text: &str) -> Result<Arc<str>, String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [word] => Ok(word.into()),
        _ => Err(is_not(text, "a single word")),
    }
}

/// Words.
pub(super) fn list(text: &str) -> Result<Arc<[Arc<str>]>, String> {
    Ok(text.split_whitespace().map(Arc::from).collect())
}

/// A number, or `max`. Version 1 of control groups writes the largest signed number, down to its last whole page (`PAGE_COUNTER_MAX`).
pub(super) fn limit(text: &str) -> Result<u64, String> {
    const LARGEST_PAGE: u64 = 64 << 10;
    match text.trim() {
        "max" => Ok(u64::MAX),
        number => match number.parse::<u64>() {
            Ok(limit) if limit > i64::MAX.unsigned_abs() - LARGEST_PAGE => Ok(u64::MAX),
            Ok(limit) => Ok(limit),
            Err(_) => Err(is_not(text, "a limit")),
        },
    }
}

/// `nr_throttled` of `nr_periods`, in hundredths, and the latter.
pub(super) fn throttled(text: &str) -> Result<(f64, u64), String> {
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .and_then(|number| number.trim().parse::<u64>().ok())
            .ok_or_else(|| format!("it has no {name}"))
    };
    let (periods, throttled) = (value("nr_periods")?, value("nr_throttled")?);
    let share = match periods {
        0 => 0.0,
        _ => throttled as f64 * 100.0 / periods as f64,
    };
    Ok((share, periods))
}

/// `oom_kill 3`, in memory.events and memory.oom_control alike.
pub(super) fn killed(text: &str) -> Result<u64, String> {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))
        .and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| "it has no oom_kill".to_owned())
}

/// The real user: the first number after `Uid:`, before the effective one.
pub(in crate::probe) fn user(text: &str) -> Result<u64, String> {
    text.lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| "it has no Uid".to_owned())
}

/// The parameters of the kernel's command line that take CPUs, memory or interrupts away.
pub(super) fn limiting(text: &str) -> Arc<str> {
    let limits = |word: &&str| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "mem" | "maxcpus" | "nr_cpus" => !value.is_empty(),
            "nosmp" | "noapic" | "nolapic" => true,
            "pci" => value.split(',').any(|option| option == "nomsi"),
            _ => false,
        }
    };
    let words = text.split_whitespace().take_while(|word| *word != "--");
    joined(&words.filter(limits).collect::<Vec<_>>(), ", ")
}
