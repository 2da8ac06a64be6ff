//! Failures of RDMA's user space and of what runs on it, in the words of the programs that print them: the rows are in `shapes.toml`.

use std::sync::LazyLock;

use super::mtu_mismatch;
use super::needles::Needles;
use super::row_table::{Row, RowTable};
use super::text::contains;

/// The rows: the class, or the call of libibverbs whose failure the words stand for, and what a line of it holds.
pub(super) const SHAPES: &[Row] = include!(concat!(env!("OUT_DIR"), "/shapes.shapes.rs"));

/// Rows whose lines name two RDMA MTUs, too.
const MTU_MISMATCH: &str = "mtu-mismatch";

/// Needles of so many bytes are not searched for.
const SHORT: usize = 3;

/// What a line must hold to be of a shape: of each row the longest needle, of those with capitals or `_` if there is one, which prose has rarely.
pub(super) fn needles() -> impl Iterator<Item = &'static str> {
    let is_name = |needle: &str| {
        needle.len() > SHORT && needle.bytes().any(|b| b.is_ascii_uppercase() || b == b'_')
    };
    SHAPES.iter().filter_map(move |(_, needles)| {
        let rarest = needles
            .iter()
            .max_by_key(|needle| (is_name(needle), needle.len()));
        rarest.map(|needle| needle.trim_start_matches('^'))
    })
}

/// Most lines have none of them: one look spares the rows.
static ANY: LazyLock<Needles> = LazyLock::new(|| Needles::for_messages(needles()));
static ROWS: LazyLock<RowTable> = LazyLock::new(|| RowTable::new(SHAPES));

/// The first shape of a line.
pub(super) fn position(line: &[u8]) -> Option<usize> {
    let hit = ANY.first(line)?;
    let before = line.get(..hit.at)?;
    if is_quoted(before) || is_advice(before) || is_passed_over(line) {
        return None;
    }
    ROWS.fitting(line).find(|row| {
        let is_mismatch = SHAPES
            .get(*row)
            .is_some_and(|(word, _)| *word == MTU_MISMATCH);
        !is_mismatch || mtu_mismatch::names_both(line)
    })
}

/// Whether a sentence speaks of a failure that may be: a guide's, or a program's that helps.
pub(super) fn is_advice(before: &[u8]) -> bool {
    let text = before.trim_ascii_start();
    let text = text.strip_prefix(b"-").unwrap_or(text).trim_ascii_start();
    text.starts_with(b"If ") || contains(before, ". If ") || contains(before, "e.g.")
}

/// Whether a program says that it goes on without what it speaks of, or with another of its kind; TCP in the place of RDMA is none.
fn is_passed_over(line: &[u8]) -> bool {
    let has = |words: &[&str]| words.iter().any(|words| contains(line, words));
    has(&[", skipping", ", ignoring"])
        || has(&[", using ", ", falling back to "]) && !has(&["TCP", "tcp", "ocket"])
}

/// Whether what follows is in quotation marks, as source code and manuals have messages; the value of a field does too, and is none.
pub(super) fn is_quoted(before: &[u8]) -> bool {
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
