//! The answers of a machine, unparsed.

use std::sync::Arc;

use super::Refusal;

/// Microseconds since the recording began.
pub type Micros = u64;

/// A machine's answer to a question, unparsed.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The bytes of a file or of a command's output that are valid UTF-8.
    Text(Arc<str>),
    /// Bytes that are not valid UTF-8, and netlink messages.
    Bytes(Arc<[u8]>),
    /// The entries of a directory, sorted.
    Names(Arc<[Arc<str>]>),
    /// The reply of a library call, as a JSON value.
    Value(Arc<serde_json::Value>),
}

impl From<serde_json::Value> for Answer {
    fn from(value: serde_json::Value) -> Self {
        Answer::Value(Arc::new(value))
    }
}

/// A reply, and when it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// When it arrived, since the recording began.
    pub at: Micros,
    /// The answer, or why there is none.
    pub said: Result<Answer, Refusal>,
}
