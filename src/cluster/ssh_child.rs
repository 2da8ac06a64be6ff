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

use serde::{Deserialize, Serialize};

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

    /// Parses a line; `None` if it is not a message of the doctor.
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line.strip_prefix(MARK)?.trim_end()).ok()
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
            assert_eq!(ChildMessage::parse(&line), Some(said));
        }
        for line in [
            "",
            "Welcome to n1",
            "rdma-doctor-held ",
            "rdma-doctor-held {\"here\":",
        ] {
            assert_eq!(ChildMessage::parse(line), None, "{line}");
        }
    }
}
