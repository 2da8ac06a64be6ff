//! Errors by their names: a log has the words of strerror(3), or a number.

use crate::nccl_log::text::number_after;

/// Names, numbers and words, as Linux has them: the rows are in `failures.toml`.
const ERRORS: &[(&str, u64, &str)] = include!(concat!(env!("OUT_DIR"), "/failures.errors.rs"));

/// The error that a message names, by its words.
pub(super) fn named(message: &str) -> Option<&'static str> {
    let found = |(_, _, words): &&(&str, u64, &str)| message.contains(words);
    // "No such device" begins "No such device or address".
    let (name, ..) = ERRORS
        .iter()
        .filter(found)
        .max_by_key(|(_, _, words)| words.len())?;
    Some(name)
}

/// The error of this number.
pub(super) fn numbered(number: u64) -> Option<&'static str> {
    ERRORS
        .iter()
        .find(|(_, n, _)| *n == number)
        .map(|(name, ..)| *name)
}

/// The text before an error number, if a program does not print its words.
const MARKS: [&str; 9] = [
    "errno: ",
    "errno=",
    "non-zero status: ",
    "code: -",
    "ret=-",
    "error -",
    "err(-",
    "err -",
    "failed (-",
];

/// The error that a line of a program other than NCCL names: by its words, its number, or its symbol.
pub(super) fn program_call(message: &str) -> Option<&'static str> {
    let number = |mark: &&str| number_after(message.as_bytes(), mark).and_then(numbered);
    let symbol = || {
        let mut words = message.split(|c: char| !c.is_ascii_alphanumeric());
        words.find_map(|word| ERRORS.iter().find(|(name, ..)| *name == word))
    };
    named(message)
        .or_else(|| MARKS.iter().find_map(number))
        .or_else(|| symbol().map(|(name, ..)| *name))
        .or_else(|| in_brackets(message).and_then(numbered))
}

/// The number in brackets at a message's end: `connect timed out [110]`, `(110)`.
fn in_brackets(message: &str) -> Option<u64> {
    let inner = message.trim_end().strip_suffix([']', ')'])?;
    let (before, number) = inner.rsplit_once(['[', '('])?;
    let follows_words = before.ends_with(|c: char| c.is_ascii_alphabetic() || c == ' ');
    follows_words.then(|| number.parse().ok()).flatten()
}
