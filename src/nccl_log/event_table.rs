//! Which messages are events, and of which class: the first row of which all needles are in the message.
//!
//! The rows are in `events.toml`. Classes are the words of the fact `event.class`.

use std::sync::LazyLock;

use super::row_table::{Row, RowTable};
use super::shape_table;

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

/// The rows of both levels, and behind them those of warnings.
static OF_WARNINGS: LazyLock<RowTable> =
    LazyLock::new(|| RowTable::new(BOTH.iter().chain(WARNINGS)));
static OF_BOTH: LazyLock<RowTable> = LazyLock::new(|| RowTable::new(BOTH));
static OF_FRAMEWORK: LazyLock<RowTable> = LazyLock::new(|| RowTable::new(FRAMEWORK));

/// The class of a WARN line: every one has a class.
pub(super) fn match_warning(message: &[u8]) -> usize {
    OF_WARNINGS.fitting(message).next().unwrap_or(OTHER)
}

/// The class of an INFO line, if it is an event.
pub(super) fn match_info(message: &[u8]) -> Option<usize> {
    OF_BOTH.fitting(message).next()
}

/// The class of a line without NCCL's prefix: PyTorch's, a launcher's, another library's.
pub(super) fn match_framework(line: &[u8]) -> Option<usize> {
    let framework = || OF_FRAMEWORK.fitting(line).next().map(|at| OTHER + 1 + at);
    let shape = shape_table::position(line).map(|at| SHAPES + at);
    shape.or_else(framework)
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

#[cfg(test)]
mod tests {
    use super::{BOTH, FRAMEWORK, OF_FRAMEWORK, OF_WARNINGS, Row, WARNINGS};
    use crate::nccl_log::row_table::RowTable;
    use crate::nccl_log::shape_table::SHAPES;

    /// Rows that no message can reach: an earlier one fits each message that holds their needles.
    fn shadowed(table: &RowTable, rows: &[Row]) -> Vec<Row> {
        let is_shadowed = |(at, (_, needles)): &(usize, &Row)| {
            let message = needles.join(" ~ ");
            // A needle without `^` stands behind other text.
            let message = message
                .strip_prefix('^')
                .map_or(format!("~ {message}"), str::to_owned);
            table.fitting(message.as_bytes()).next() != Some(*at)
        };
        let rows = rows.iter().enumerate();
        rows.filter(is_shadowed).map(|(_, row)| *row).collect()
    }

    #[test]
    fn each_row_can_be_reached() {
        let warnings: Vec<Row> = [BOTH, WARNINGS].concat();
        assert_eq!(shadowed(&OF_WARNINGS, &warnings), []);
        assert_eq!(shadowed(&OF_FRAMEWORK, FRAMEWORK), []);
        assert_eq!(shadowed(&RowTable::new(SHAPES), SHAPES), []);
    }
}
