//! Events: their class, found once for each shape of message, and what makes two of them the same.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::event_table::{class, is_shape, match_framework, match_info, match_warning};
use super::failure_words;
use super::message::{MessageGroup, is_unwinding, known_group};
use super::text::contains;

/// Which text an event is looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// A message of level WARN.
    Warning,
    /// A message of level INFO.
    Info,
    /// A line without NCCL's prefix.
    Framework,
}

/// The class of a message that is neither a channel's nor a kept one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageClass {
    /// An event of this row of the table.
    Event(u16),
    /// A line of a function that passed a failure on.
    Unwinding,
    /// It says that something failed, in words that no row has.
    Unlisted,
    /// Counted under this sort.
    Known(MessageGroup),
    /// Not recognised.
    Nothing,
}

/// The size of the cache. A log has some hundreds of shapes; with more the cache starts over.
const SHAPES: usize = 8192;

/// Remembers what messages of a shape are: the table has hundreds of rows, and a log repeats itself.
#[derive(Default)]
pub struct ClassCache {
    known: HashMap<(MessageKind, u64), MessageClass, FixedState>,
}

impl ClassCache {
    /// The class of a message, cached by its shape.
    pub fn classify(&mut self, kind: MessageKind, message: &[u8]) -> MessageClass {
        let key = (kind, hash_without(message, 1));
        let is = match self.known.get(&key) {
            Some(is) => *is,
            None => {
                let is = classify(kind, message);
                if self.known.len() >= SHAPES {
                    self.known.clear();
                }
                self.known.insert(key, is);
                is
            }
        };
        // `0 errors` and `3 errors` are of one shape.
        if is == MessageClass::Nothing && failure_words::says_failure(message) {
            return MessageClass::Unlisted;
        }
        is
    }
}

/// Classes of lines that report no failure: they say something of one beside which they stand.
const EVIDENCE: [&str; 2] = ["ping-answered", "gid-printed"];

/// Whether a line of a program other than NCCL says what went wrong, and not only that something
/// did.
pub fn names_cause(line: &[u8]) -> bool {
    let Some(row) = match_framework(line) else {
        return failure_words::says_failure(line);
    };
    if EVIDENCE.contains(&class(row)) {
        return false;
    }
    let general = [
        "exception",
        "torch-teardown",
        "torch-heartbeat",
        "result-wrong",
        "bus-error",
        "process-ended",
    ];
    // A signal is a cause, and a status is none.
    let names_signal = ["Killed", "on signal ", "egmentation"]
        .iter()
        .any(|word| contains(line, word));
    is_shape(row)
        || !general.contains(&class(row))
        || class(row) == "process-ended" && names_signal
        || class(row) == "exception" && failure_words::raises_failure(line)
}

/// The same, of what a table has.
pub fn names_listed_cause(line: &[u8]) -> bool {
    match_framework(line).is_some() && names_cause(line)
}

fn classify(kind: MessageKind, message: &[u8]) -> MessageClass {
    let event = |row: usize| MessageClass::Event(u16::try_from(row).unwrap_or(u16::MAX));
    match kind {
        MessageKind::Framework => match match_framework(message) {
            None => MessageClass::Nothing,
            // What it was raised for says more than that one was.
            Some(row) if class(row) == "exception" && failure_words::raises_failure(message) => {
                MessageClass::Unlisted
            }
            Some(row) => event(row),
        },
        MessageKind::Warning => match is_unwinding(message) {
            true => MessageClass::Unwinding,
            false => event(match_warning(message)),
        },
        MessageKind::Info => match is_unwinding(message) {
            true => MessageClass::Unwinding,
            false => match match_info(message) {
                Some(row) => event(row),
                None => known_group(message).map_or(MessageClass::Nothing, MessageClass::Known),
            },
        },
    }
}

/// The hash of an event's message: pointers, ports, sizes and other long numbers do not make two messages differ.
pub fn identity(message: &[u8]) -> u64 {
    hash_without(message, 4)
}

/// The hash of a message without runs of decimal digits of at least this length, and without hexadecimal numbers.
fn hash_without(message: &[u8], length: usize) -> u64 {
    let mut kept = [0u8; 256];
    let mut end = 0;
    let mut rest = message;
    while let Some((&first, next)) = rest.split_first() {
        let Some(slot) = kept.get_mut(end) else {
            break;
        };
        if first == b'0' && next.first() == Some(&b'x') {
            let digits = next.get(1..).unwrap_or(&[]);
            let run = digits.iter().take_while(|b| b.is_ascii_hexdigit()).count();
            rest = digits.get(run..).unwrap_or(&[]);
        } else if first.is_ascii_digit() {
            let run = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            if run < length {
                *slot = first;
                end += 1;
                // The short run's other digits, as far as there is room.
                for byte in rest.iter().take(run).skip(1) {
                    if let Some(slot) = kept.get_mut(end) {
                        *slot = *byte;
                        end += 1;
                    }
                }
            } else if length == 1 {
                // That there is a number is part of the shape.
                *slot = b'#';
                end += 1;
            }
            rest = rest.get(run..).unwrap_or(&[]);
        } else {
            *slot = first;
            end += 1;
            rest = next;
        }
    }
    FixedState::default().hash_one(kept.get(..end).unwrap_or(&[]))
}
