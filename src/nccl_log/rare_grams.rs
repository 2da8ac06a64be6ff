//! What few lines hold that are not of NCCL: parts of its messages, settings, output of tools; and lines that go on in the next ones.

use super::grams::Grams;
use super::text::contains;
use super::{prefix, setting, unread};

/// One look decides whether the others are needed.
pub(super) struct RareGrams(Grams);

impl Default for RareGrams {
    fn default() -> Self {
        // Variables of NCCL are among the beginnings.
        RareGrams(Grams::new(prefix::beginnings().chain(unread::needles())))
    }
}

impl RareGrams {
    /// Whether the line holds the beginning of a message of NCCL, a variable of NCCL, or the mark of a tool.
    pub(super) fn has(&self, line: &[u8]) -> bool {
        self.0.find(line, 0, line.len()).is_some()
    }
}

/// Whether a line of a command or a file sets variables of NCCL.
pub(super) fn sets(line: &[u8]) -> bool {
    contains(line, "NCCL_")
        && std::str::from_utf8(line).is_ok_and(|line| setting::settings(line).next().is_some())
}

/// What libmlx5 writes before it dumps a completion in four lines.
const DUMPED: &[u8] = b" got completion with error:";

/// Whether a line says only with those behind it what it says.
pub(super) fn goes_on(line: &[u8]) -> bool {
    line.ends_with(DUMPED) || setting::announced(line).is_some()
}

/// Such a line as one: with the syndrome that libmlx5 dumped, or with the setting's value.
pub(super) fn joined(line: &[u8], behind: &[u8]) -> Option<Vec<u8>> {
    let mut next = behind.split(|b| *b == b'\n').skip(1);
    match setting::announced(line) {
        Some(name) => setting::with_value(name, next.next()?),
        None => Some([line, b" ", next.nth(3).unwrap_or(&[]).trim_ascii()].concat()),
    }
}
