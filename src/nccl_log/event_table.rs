//! Which messages are events, and of which class: the first row of which all needles are in the message.
//!
//! The rows are in `events.toml`. Classes are the words of the fact `event.class`.

use super::pairs::Pairs;
use super::shape_table;
use super::text::contains;

/// A row: the class, and what a message of it holds.
pub(super) type Row = (&'static str, &'static [&'static str]);

/// Messages that are events at either level.
const BOTH: &[Row] = include!(concat!(env!("OUT_DIR"), "/events.both.rs"));

/// Messages that are events as warnings only.
const WARNINGS: &[Row] = include!(concat!(env!("OUT_DIR"), "/events.warnings.rs"));

/// Lines of PyTorch, Python and launchers.
const FRAMEWORK: &[Row] = include!(concat!(env!("OUT_DIR"), "/events.framework.rs"));

/// The texts by which messages and other lines are recognised.
pub fn texts() -> impl Iterator<Item = &'static str> {
    let rows = [BOTH, WARNINGS, FRAMEWORK, shape_table::SHAPES];
    let needles = rows
        .into_iter()
        .flatten()
        .flat_map(|(_, needles)| needles.iter());
    needles.copied()
}

/// Whether all needles are in the message; one that begins with `^` is at its start.
pub(super) fn fits(needles: &[&str], message: &[u8]) -> bool {
    needles.iter().all(|needle| match needle.strip_prefix('^') {
        Some(start) => message.starts_with(start.as_bytes()),
        None => contains(message, needle),
    })
}

/// The class of a WARN line: every one has a class.
pub(super) fn match_warning(message: &[u8]) -> usize {
    position(BOTH, message)
        .or_else(|| position(WARNINGS, message).map(|at| BOTH.len() + at))
        .unwrap_or(OTHER)
}

/// The class of an INFO line, if it is an event.
pub(super) fn match_info(message: &[u8]) -> Option<usize> {
    position(BOTH, message)
}

/// The class of a line without NCCL's prefix: PyTorch's, a launcher's, another library's.
pub(super) fn match_framework(line: &[u8]) -> Option<usize> {
    let shape = shape_table::position(line).map(|at| SHAPES + at);
    shape.or_else(|| position(FRAMEWORK, line).map(|at| OTHER + 1 + at))
}

fn position(rows: &[Row], message: &[u8]) -> Option<usize> {
    let pairs = Pairs::of(message);
    let may_hold = |needle: &&str| pairs.may_hold(needle.trim_start_matches('^'));
    rows.iter()
        .position(|(_, needles)| needles.iter().all(may_hold) && fits(needles, message))
}

/// What a warning is that fits no row.
const OTHER_WARNING: Row = ("other-warning", &[]);

/// Its place: behind the rows of warnings.
const OTHER: usize = BOTH.len() + WARNINGS.len();

/// Behind all rows of this file stand those of the shapes.
const SHAPES: usize = OTHER + 1 + FRAMEWORK.len();

/// Whether a row is one of the shapes, which name what went wrong.
pub(super) fn is_shape(row: usize) -> bool {
    row >= SHAPES
}

/// The call of libibverbs that the words of a row stand for.
pub fn call(row: usize) -> Option<&'static str> {
    shape_table::call(row.checked_sub(SHAPES)?)
}

/// The class of a row.
pub fn class(row: usize) -> &'static str {
    let mut ordinary = BOTH
        .iter()
        .chain(WARNINGS)
        .chain([&OTHER_WARNING])
        .chain(FRAMEWORK);
    match row.checked_sub(SHAPES) {
        Some(shape) => shape_table::class(shape),
        None => ordinary.nth(row).unwrap_or(&OTHER_WARNING).0,
    }
}

#[cfg(test)]
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    (0..SHAPES + shape_table::SHAPES.len()).map(class)
}
