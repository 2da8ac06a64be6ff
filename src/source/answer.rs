//! What a machine said, as it came.

use std::sync::Arc;

use super::Refusal;

/// Microseconds since the recording began.
pub type Micros = u64;

/// What a machine said to a question, as it came.
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

/// A reply and the time at which it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// When the reply came, since the recording began.
    pub at: Micros,
    /// What was said.
    pub said: Result<Answer, Refusal>,
}
