//! The texts of checks for readers of findings: why it matters, what to do, where to read on; and the examples. Of built-in checks these
//! are most of the text and are needed only if a check failed or is explained, so the program has them packed, and unpacks them then.

use std::io::Read as _;
use std::sync::OnceLock;

use super::{Check, Template};
use crate::sentence::Sentence;

/// The built-in checks' advice, in the order of their cases: why, fix and see, U+0001 between them, a NUL after each; compressed (zlib).
const ADVICE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/advice.z"));

/// Their examples in the same way, each case's a TOML file of its own.
const EXAMPLES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/examples.z"));

/// A check's text for readers of its finding.
#[derive(Debug)]
pub struct Advice {
    /// Why it matters.
    pub why: Sentence,
    /// What to do, the least disruptive first.
    pub fix: Template,
    /// Where to read on.
    pub see: Vec<String>,
}

/// Where a check's advice is stored.
#[derive(Debug)]
pub(super) enum AdviceSource {
    /// It was read with the rest of the file.
    Read(Advice),
    /// It is that of this built-in file, by its number, once it is read.
    Packed(usize, OnceLock<Advice>),
}

impl Check {
    /// The text for readers of its finding.
    pub fn advice(&self) -> &Advice {
        match &self.advice {
            AdviceSource::Read(advice) => advice,
            AdviceSource::Packed(number, read) => read.get_or_init(|| self.unpacked(*number)),
        }
    }

    fn unpacked(&self, number: usize) -> Advice {
        static ALL: OnceLock<String> = OnceLock::new();
        let text = text_number(ALL.get_or_init(|| unpack(ADVICE)), number);
        let mut parts = text.split('\u{1}');
        let mut part = || parts.next().unwrap_or_default();
        Advice {
            why: Sentence::of_prose(part().trim()),
            // A test reads all of it: built-in advice is well-formed.
            fix: Template::parse(part().trim_end(), self.names()).unwrap_or_default(),
            see: part().lines().map(str::to_owned).collect(),
        }
    }
}

impl AdviceSource {
    /// The examples of a built-in check as TOML; `None` of one that was read.
    pub(super) fn packed_examples(&self) -> Option<&'static str> {
        static ALL: OnceLock<String> = OnceLock::new();
        match self {
            AdviceSource::Read(_) => None,
            AdviceSource::Packed(number, _) => {
                Some(text_number(ALL.get_or_init(|| unpack(EXAMPLES)), *number))
            }
        }
    }
}

/// The text of the built-in check of this number.
fn text_number(all: &str, number: usize) -> &str {
    all.split('\0').nth(number).unwrap_or_default()
}

fn unpack(packed: &[u8]) -> String {
    let mut text = String::new();
    let read = flate2::read::ZlibDecoder::new(packed).read_to_string(&mut text);
    debug_assert!(read.is_ok(), "{read:?}");
    text
}
