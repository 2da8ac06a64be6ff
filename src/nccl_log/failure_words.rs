//! Whether a line says that something failed: a net below the tables, for what no row knows.
//!
//! It reads words and no grammar, so that it says neither what failed nor how bad that is; a line of
//! it is quoted, and never decides.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::shape_table::{is_advice, is_quoted};
use super::text::run;

/// Words that say that something failed.
const FAILS: &[&str] = include!(concat!(env!("OUT_DIR"), "/failure_words.fails.rs"));
/// Words that say it only in a line that shows by its form that a program reports something.
const DOUBTFUL: &[&str] = include!(concat!(env!("OUT_DIR"), "/failure_words.doubtful.rs"));
/// How programs begin a line that says what they could not do.
const BEGINS: &[&str] = include!(concat!(env!("OUT_DIR"), "/failure_words.begins.rs"));
/// Levels of errors, as words of their own.
const LEVELS: &[&str] = include!(concat!(env!("OUT_DIR"), "/failure_words.levels.rs"));
/// How files of source code end.
const SOURCES: &[&str] = include!(concat!(env!("OUT_DIR"), "/failure_words.sources.rs"));
/// Words of lines that report no failure, although they have one of those.
const HARMLESS: &[&str] = include!(concat!(env!("OUT_DIR"), "/failure_words.harmless.rs"));
/// How lines of source code, traces and shells begin.
const OF_SOURCE: &[&str] = include!(concat!(env!("OUT_DIR"), "/failure_words.of_source.rs"));
/// Levels below a warning.
const QUIET: &[&str] = include!(concat!(env!("OUT_DIR"), "/failure_words.quiet.rs"));
/// Words of sentences that people write.
const SPOKEN: &[&str] = include!(concat!(env!("OUT_DIR"), "/failure_words.spoken.rs"));
/// Programs, each with a text that its lines have.
const WRITERS: &[(&str, &[&str])] = include!(concat!(env!("OUT_DIR"), "/failure_words.writers.rs"));

/// A longer line is data, or a table: nobody says so much at once.
const LONGEST: usize = 1024;
/// A shorter one tells nothing that could be quoted.
const SHORTEST: usize = 12;

static ANY: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| searcher(FAILS));
static UNSURE: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| searcher(DOUBTFUL));
/// One look for both: a log has millions of lines without any.
static EITHER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| searcher(&[FAILS, DOUBTFUL].concat()));
static EXCUSES: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| searcher(&[HARMLESS, QUIET].concat()));
static PROSE: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| searcher(SPOKEN));

fn searcher(words: &[&str]) -> Option<AhoCorasick> {
    let mut builder = AhoCorasick::builder();
    builder.ascii_case_insensitive(true).build(words).ok()
}

fn has(searcher: &Option<AhoCorasick>, text: &[u8]) -> bool {
    let found = searcher.as_ref();
    found.is_some_and(|found| found.is_match(text))
}

/// The place of the first word at or behind `from` that may say that something failed.
pub(super) fn next(text: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let found = EITHER.as_ref()?.find(rest)?;
    Some(from + found.start())
}

/// Whether a line says that something failed, and is neither prose nor source code nor a count of
/// none.
pub fn says_failure(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    (SHORTEST..=LONGEST).contains(&text.len())
        && (has_level(text)
            || says_it(text) && (is_of_program(text) || begins_so(text))
            || (is_reported(text) || has_source_place(text)) && says_one_of(&UNSURE, text))
        && !is_excused(text)
        && !is_introduction(text)
}

/// Whether a line only introduces what follows it: `NVSHMEM fails:`.
fn is_introduction(text: &[u8]) -> bool {
    let has_number = text.iter().any(u8::is_ascii_digit);
    text.ends_with(b":") && !has_number && !is_reported(text) && !has_source_place(text)
}

/// Whether a line begins as those do in which programs say what they could not do; people begin so
/// rarely, and end with a mark.
pub fn begins_so(text: &[u8]) -> bool {
    BEGINS
        .iter()
        .any(|begin| text.starts_with(begin.as_bytes()))
}

/// Whether its form shows that a program reports something in it: the name of an exception before
/// a colon, or a level.
fn is_reported(text: &[u8]) -> bool {
    is_exception(text) || has_level(text) || has_level_word(text)
}

/// Whether a line begins with an exception's name: `jaxlib.xla_extension.XlaRuntimeError: `.
fn is_exception(text: &[u8]) -> bool {
    let (name, behind) = run(text, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_')
    });
    let is_name = [&b"Error"[..], b"Exception", b"Timeout"]
        .iter()
        .any(|end| name.ends_with(end));
    is_name && name.len() > "Exception".len() && behind.starts_with(b": ")
}

/// Whether an exception's own words, behind its name, say that something failed.
pub fn raises_failure(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    if text.len() > LONGEST || has(&EXCUSES, text) {
        return false;
    }
    let words = memchr::memmem::find_iter(text, b"Error: ").last();
    let behind = words.and_then(|at| text.get(at + b"Error: ".len()..));
    behind.is_some_and(|behind| says_one_of(&ANY, behind))
}

/// Whether a level stands in a line as a word of its own.
fn has_level_word(text: &[u8]) -> bool {
    let mut words = text.split(|byte| !byte.is_ascii_alphanumeric());
    words.any(|word| LEVELS.iter().any(|level| word == level.as_bytes()))
}

/// Whether a line names a place in a source file: `net.cc:484`.
fn has_source_place(text: &[u8]) -> bool {
    SOURCES.iter().any(|end| {
        memchr::memmem::find_iter(text, end.as_bytes()).any(|at| {
            let behind = text.get(at + end.len()..).unwrap_or(&[]);
            behind.first().is_some_and(u8::is_ascii_digit)
        })
    })
}

/// Whether a line that has words of a failure reports none: a count of none, a level below a
/// warning, prose, or source code.
pub fn is_excused(text: &[u8]) -> bool {
    has(&EXCUSES, text) || has(&PROSE, text) && !is_reported(text) || is_of_source(text)
}

/// Whether one of the words stands for itself: it is no part of a variable's name or of an option,
/// names no value, and is not quoted.
pub fn says_it(line: &[u8]) -> bool {
    says_one_of(&ANY, line)
}

fn says_one_of(words: &Option<AhoCorasick>, line: &[u8]) -> bool {
    let Some(any) = words.as_ref() else {
        return false;
    };
    any.find_iter(line).any(|word| {
        let before = line.get(..word.start()).unwrap_or(&[]);
        let behind = line.get(word.end()..).unwrap_or(&[]);
        !is_joined(before) && !is_named(behind) && !is_quoted(before) && !is_advice(before)
    })
}

/// Whether what ends so goes on in the word behind it: `on_error`, `--timeout`, `lib/error`.
fn is_joined(before: &[u8]) -> bool {
    matches!(before.last(), Some(b'_' | b'-' | b'/' | b'.' | b'='))
}

/// Whether a word that goes on so is the name of a setting or of a figure: `error_rate`,
/// `errors=3`, `error 0.0021`.
fn is_named(behind: &[u8]) -> bool {
    let (_, rest) = run(behind, |byte| byte.is_ascii_alphabetic());
    let (_, value) = run(rest, |byte| matches!(byte, b' ' | b':'));
    let (digits, fraction) = run(value, |byte| byte.is_ascii_digit());
    matches!(rest.first(), Some(b'_' | b'='))
        || !digits.is_empty() && matches!(fraction, [b'.', b'0'..=b'9', ..])
}

/// Whether it is a line of source code, of a trace of calls, or what somebody typed.
fn is_of_source(line: &[u8]) -> bool {
    OF_SOURCE.iter().any(|begin| begins(line, begin.as_bytes()))
        || matches!(line.last(), Some(b';' | b'{'))
}

/// Whether a line begins so, in letters of either case.
fn begins(line: &[u8], with: &[u8]) -> bool {
    let begin = line.get(..with.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(with))
}

/// Whether a program wrote it: it has what sentences of people have not, as a colon with something
/// behind it, a place in brackets, or a name with `_`.
fn is_of_program(line: &[u8]) -> bool {
    line.array_windows().any(is_colon)
        || line.array_windows().any(is_name)
        || line.iter().any(|byte| matches!(byte, b'[' | b'(' | b'='))
}

fn is_colon(pair: &[u8; 2]) -> bool {
    pair[0] == b':' && pair[1] != b'/'
}

fn is_name(part: &[u8; 3]) -> bool {
    part[1] == b'_' && part[0].is_ascii_alphanumeric() && part[2].is_ascii_alphanumeric()
}

/// Whether the level before a line says that it is an error: glog's letter, `E0302
/// 09:15:07.980793`, or that of Mellanox' tools, `-E- `.
fn has_level(line: &[u8]) -> bool {
    if line.starts_with(b"-E- ") {
        return true;
    }
    let Some((b'E' | b'F', rest)) = line.split_first() else {
        return false;
    };
    let (digits, behind) = run(rest, |byte| byte.is_ascii_digit());
    matches!(digits.len(), 4 | 8) && behind.first() == Some(&b' ')
}

/// The program whose line it seems to be.
pub fn writer(line: &str) -> Option<&'static str> {
    let lower = line.to_ascii_lowercase();
    let mut rows = WRITERS.iter();
    let found = rows.find(|(_, texts)| texts.iter().all(|text| lower.contains(text)));
    found.map(|(name, _)| *name)
}
