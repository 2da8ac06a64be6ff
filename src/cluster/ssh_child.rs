//! The messages between a doctor started over ssh and the one that started it: JSON lines over its
//! stdin and stdout. It exits when its stdin closes.
//!
//! ```text
//! here      the doctor runs, with this version
//! told      its assignment: rank, key, and where rank 0 is
//! listens   rank 0 listens on this port; then the others get their assignment
//! ```
//!
//! After that rank 0 prints its result: the packed recording if requested, and the report.

pub mod stdio;

use std::io::{BufRead, Read as _};

use serde::{Deserialize, Serialize};

/// How many bytes a login shell may print before the doctor's line.
const MAX_BANNER: u64 = 64 << 10;
/// How many letters a version may have: it is printed.
const MAX_VERSION: usize = 64;
/// Marks the doctor's lines: a login shell may print others before.
const MARK: &str = "rdma-doctor-held ";

/// A message of the doctor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildMessage {
    /// It runs, with this version.
    #[serde(rename = "here")]
    Ready(String),
    /// Rank 0 listens on this port.
    #[serde(rename = "listens")]
    Listening(u16),
}

impl ChildMessage {
    /// The message as a line.
    pub fn line(&self) -> String {
        // Serialising plain data cannot fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{MARK}{text}\n")
    }

    /// Reads the next message, and skips other lines before it; `None` if there is none.
    pub fn read(from: &mut impl BufRead) -> Option<Self> {
        let mut left = MAX_BANNER;
        loop {
            let mut line = Vec::new();
            let count = from.by_ref().take(left).read_until(b'\n', &mut line).ok()?;
            if count == 0 {
                return None;
            }
            left = left.saturating_sub(count as u64);
            let message = Self::parse(&String::from_utf8_lossy(&line));
            if message.is_some() {
                return message;
            }
        }
    }

    /// Parses a line; `None` if it is not a message of the doctor.
    fn parse(line: &str) -> Option<Self> {
        let message = serde_json::from_str(line.strip_prefix(MARK)?.trim_end()).ok()?;
        match &message {
            ChildMessage::Ready(version)
                if !(1..=MAX_VERSION).contains(&version.len())
                    || !version.chars().all(|c| c.is_ascii_graphic()) =>
            {
                None
            }
            _ => Some(message),
        }
    }
}

/// What the doctor needs to take part in the run. It contains the key and must not be printed.
#[derive(Serialize, Deserialize)]
pub struct RunAssignment {
    /// The text of the key.
    pub key: String,
    /// Its rank.
    pub rank: u64,
    /// How many nodes there are.
    pub nodes: u64,
    /// For rank 0: the nodes' names as the user gave them.
    pub names: Vec<String>,
    /// The host of rank 0.
    pub host: String,
    /// The port of rank 0; for rank 0 itself 0 means any.
    pub port: u16,
    /// For rank 0: the hosts that do not take part, and why.
    pub absent: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_of_the_doctor_are_parsed() {
        for said in [
            ChildMessage::Ready("1.2.3".into()),
            ChildMessage::Listening(20600),
        ] {
            let line = said.line();
            assert!(line.ends_with('\n'));
            let mut after_others = format!("Welcome to n1\n\u{1b}[2J\n{line}more");
            let mut from = after_others.as_bytes();
            assert_eq!(ChildMessage::read(&mut from), Some(said));
            assert_eq!(from, b"more");
            after_others.insert_str(0, &"Welcome\n".repeat(10_000));
            assert_eq!(ChildMessage::read(&mut after_others.as_bytes()), None);
        }
        for line in [
            "",
            "Welcome to n1",
            "rdma-doctor-held ",
            "rdma-doctor-held {\"here\":",
            "rdma-doctor-held {\"here\":\"1.2.3\\u001b[2J\"}",
            "rdma-doctor-held {\"here\":\"\"}",
            &format!("rdma-doctor-held {{\"here\":\"{}\"}}", "9".repeat(65)),
        ] {
            assert_eq!(ChildMessage::read(&mut line.as_bytes()), None, "{line}");
        }
    }
}
