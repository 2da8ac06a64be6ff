//! Failures of RDMA's user space and of what runs on it, in the words of the programs that print them: the rows are in `shapes.toml`.

use std::sync::LazyLock;

use super::event_table::{Row, fits};
use super::grams::Grams;

/// The rows: the class, or the call of libibverbs whose failure the words stand for, and what a line of it holds.
pub(super) const SHAPES: &[Row] = include!(concat!(env!("OUT_DIR"), "/shapes.shapes.rs"));

/// What a line must hold to be of a shape: of each row the longest needle.
pub(super) fn needles() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().filter_map(|(_, needles)| {
        let longest = needles.iter().max_by_key(|needle| needle.len());
        longest.copied()
    })
}

/// Most lines have none of them: one look spares the rows.
static ANY: LazyLock<Grams> = LazyLock::new(|| Grams::new(needles()));

/// The first shape of a line.
pub(super) fn position(line: &[u8]) -> Option<usize> {
    let hit = ANY.find(line, 0, line.len())?;
    if is_quoted(line.get(..hit.at)?) {
        return None;
    }
    SHAPES.iter().position(|(_, needles)| fits(needles, line))
}

/// Whether what follows is in quotation marks, as source code and manuals have messages; the value of a field does too, and is none.
fn is_quoted(before: &[u8]) -> bool {
    let count = |mark: u8| memchr::memchr_iter(mark, before).count();
    if count(b'`') % 2 == 1 {
        return true;
    }
    let opening = memchr::memrchr(b'"', before).filter(|_| count(b'"') % 2 == 1);
    let field = |at: usize| {
        let before = before.get(..at).unwrap_or(&[]);
        matches!(before.last(), None | Some(b',' | b'=' | b':')) || before.ends_with(b": ")
    };
    opening.is_some_and(|at| !field(at))
}

/// The call of libibverbs that a row stands for.
pub(super) fn call(row: usize) -> Option<&'static str> {
    let (word, _) = SHAPES.get(row)?;
    word.starts_with("ibv_").then_some(*word)
}

/// The class of a row.
pub(super) fn class(row: usize) -> &'static str {
    match SHAPES.get(row) {
        Some((word, _)) if !word.starts_with("ibv_") => word,
        _ => "verbs-call",
    }
}
