//! How NVIDIA's drivers and packages write their versions.

use std::sync::Arc;

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (…)`, and of the proprietary one
/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023`.
fn module_line(text: &str) -> Result<&str, String> {
    text.lines()
        .find_map(|line| line.strip_prefix("NVRM version:"))
        .map(str::trim)
        .filter(|rest| rest.contains("Kernel Module"))
        .ok_or_else(|| "it has no line `NVRM version: … Kernel Module …`".to_owned())
}

/// The driver's version.
pub(super) fn driver_version(text: &str) -> Result<Arc<str>, String> {
    let rest = module_line(text)?;
    rest.split_whitespace()
        .find(|word| is_version(word))
        .map(Arc::from)
        .ok_or_else(|| format!("{rest:?} has no version"))
}

/// Whether the kernel module is the open one.
pub(super) fn is_open(text: &str) -> Result<bool, String> {
    Ok(module_line(text)?.contains("Open Kernel Module"))
}

/// `550.54.15`, `595.45`: two numbers at least, with dots between them.
pub(super) fn is_version(word: &str) -> bool {
    let mut parts = word.split('.');
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    word.contains('.') && parts.all(number)
}

/// The file that a library's link leads to: `libnvidia-ml.so.550.54.15`.
pub(super) fn library(target: &str) -> Result<Arc<str>, String> {
    let file = target.trim_end().rsplit('/').next().unwrap_or("");
    file.strip_prefix("libnvidia-ml.so.")
        .filter(|version| is_version(version))
        .map(Arc::from)
        .ok_or_else(|| format!("{file:?} has no version"))
}

/// `MLNX_OFED_LINUX-24.10-3.2.5.0:`, or of DOCA `OFED-internal-24.10-1.1.4:`.
pub(in crate::probe) fn ofed(text: &str) -> Result<Arc<str>, String> {
    let line = text
        .lines()
        .next()
        .unwrap_or("")
        .trim()
        .trim_end_matches(':');
    let digit = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let start = line
        .match_indices('-')
        .map(|(at, _)| at + 1)
        .find(|at| line.get(*at..).is_some_and(digit));
    match start.and_then(|at| line.get(at..)) {
        Some(version) => Ok(version.into()),
        None => Err(format!("{line:?} has no version")),
    }
}
