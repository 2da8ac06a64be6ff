//! What a doctor that was started on another host, and the one that started it there, say to each other: a line of JSON each, over its standard input and
//! output. The end of its standard input is its own end.
//!
//! ```text
//! here      the doctor is there, of this version
//! told      who it is among the nodes, their key, and where rank 0 is
//! listens   rank 0 does, at this port; then the others are told too
//! ```
//!
//! What rank 0 writes after that is its answer: the recording, packed, where one is wanted, and the report.

pub mod stdio;

use serde::{Deserialize, Serialize};

/// What stands before what the doctor says: a shell may say something before it.
const MARK: &str = "rdma-doctor-held ";

/// What the doctor says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// It is there, and has this version.
    Here(String),
    /// Rank 0 listens at this port.
    Listens(u16),
}

impl Said {
    /// The line that says it, with its end.
    pub fn line(&self) -> String {
        // Words and numbers only: there is nothing that JSON cannot hold.
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{MARK}{text}\n")
    }

    /// What a line says; `None` where the line is none of the doctor's.
    pub fn of(line: &str) -> Option<Self> {
        serde_json::from_str(line.strip_prefix(MARK)?.trim_end()).ok()
    }
}

/// What the doctor is told. It holds the key, and is therefore not to be printed.
#[derive(Serialize, Deserialize)]
pub struct Told {
    /// The text of the key.
    pub key: String,
    /// Which of the nodes it is.
    pub rank: u64,
    /// How many there are.
    pub nodes: u64,
    /// To rank 0: what the nodes are called by who started them.
    pub names: Vec<String>,
    /// Where rank 0 is.
    pub host: String,
    /// The port at which it listens; 0 to rank 0 itself, where it has the choice.
    pub port: u16,
    /// To rank 0: the hosts that take no part, and why.
    pub absent: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_and_nothing_else() {
        for said in [Said::Here("1.2.3".into()), Said::Listens(20600)] {
            let line = said.line();
            assert!(line.ends_with('\n'));
            assert_eq!(Said::of(&line), Some(said));
        }
        for line in [
            "",
            "Welcome to n1",
            "rdma-doctor-held ",
            "rdma-doctor-held {\"here\":",
        ] {
            assert_eq!(Said::of(line), None, "{line}");
        }
    }
}
