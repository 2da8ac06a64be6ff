//! Which lines of the kernel's log a recording keeps.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// What a line has to contain to be answered. A class of lines that is distinguished later contains one of these.
pub const MARKERS: &[&str] = include!(concat!(env!("OUT_DIR"), "/kernel_log_markers.markers.rs"));
/// Drivers of which each line that tells of a trouble is kept.
const DRIVERS: &[&str] = include!(concat!(env!("OUT_DIR"), "/kernel_log_markers.drivers.rs"));
/// Words of a trouble.
const TROUBLE: &[&str] = include!(concat!(env!("OUT_DIR"), "/kernel_log_markers.trouble.rs"));
/// Words of lines that report none.
const HARMLESS: &[&str] = include!(concat!(env!("OUT_DIR"), "/kernel_log_markers.harmless.rs"));

/// Lines of one kind that a recording keeps at most; of more it has the first and the last.
pub const MOST_OF_KIND: usize = 120;

/// Most lines of a log have no text of these: one look spares the others.
static ANY: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new([MARKERS, DRIVERS].concat()).ok());

/// The place of the marker by which a line is kept; behind all markers that of a driver's trouble.
pub fn marker(line: &str) -> Option<usize> {
    if ANY.as_ref().is_some_and(|any| !any.is_match(line)) {
        return None;
    }
    let found = MARKERS.iter().position(|marker| line.contains(marker));
    found.or_else(|| tells_trouble(line).then_some(MARKERS.len()))
}

/// Whether a driver of RDMA devices or GPUs says in a line that something is wrong, whatever it is.
pub fn tells_trouble(line: &str) -> bool {
    has_any(line, DRIVERS) && has_any(line, TROUBLE) && !has_any(line, HARMLESS)
}

fn has_any(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.contains(word))
}
