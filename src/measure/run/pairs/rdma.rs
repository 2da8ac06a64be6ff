//! Measurements between two nodes with RDMA writes: one process for each port, so that a crash or
//! hang of the library ends only that.
//!
//! ```text
//! open      the device, its port and the row of its GID table; memory
//! gpu       memory of a GPU, too
//! pair      a queue pair, whose address goes to the other end
//! connect   connect it to the other end's
//! greet     a word each way: which words arrived, and which writes were acknowledged
//! write     data to the other end's memory, for a time; check: whether it is there
//! ask       measure the round trip of a word; answer: the other end's part of it
//! ```
//!
//! Both ends go through these steps together; the processes that started them see to that.

#[cfg(feature = "verbs")]
mod connection;
#[cfg(feature = "verbs")]
mod port_server;

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::live::lifeline;
use crate::measure::plan::pairs::Memory;
use crate::measure::plan::reply::GpuMemory;

/// The argument that makes this program measure over a port.
pub const ARGUMENT: &str = "__rdma";

/// A command to the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortCommand {
    /// Open a port.
    Open {
        /// Its device and number (`mlx5_0/1`).
        device: String,
        /// The row of its GID table; by default the one that NCCL would choose.
        gid_index: Option<u64>,
        /// For what.
        purpose: Purpose,
    },
    /// Make queue pairs whose packets carry so many bytes at most from now on.
    Limit(u64),
    /// Open the GPU at this PCI address, and register memory of it.
    Gpu(String),
    /// Make a new queue pair, replacing an earlier one, for data in this memory.
    Pair(Memory),
    /// Connect it to the other end's queue pair.
    Connect(Value),
    /// Write a word to the other end, and wait for its word.
    Greet,
    /// Write data for this many milliseconds.
    Write(u64),
    /// Check whether this many bytes of the other end arrived correctly.
    Check(u64),
    /// Write words for this many milliseconds, each once the last one was answered.
    Ask(u64),
    /// Answer words until the other end stops.
    Answer,
}

/// What a port is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To measure what its connections carry.
    #[default]
    Measure,
    /// To see whether data gets there: a little of it, and a failure is known soon.
    Try,
}

/// A reply of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortReply {
    /// The port is open.
    Opened(OpenedPort),
    /// How the adapter accesses the GPU's memory, or why it cannot.
    Gpu(GpuMemory),
    /// The queue pair's address, for the other end.
    Paired(Value),
    /// The queue pair is connected; so many bytes are in its packets.
    Connected(u64),
    /// It is done.
    Done,
    /// The result of the greeting.
    Greeted(GreetingResult),
    /// The acknowledged writes.
    Written(WriteResult),
    /// The shortest round trip of a word, in nanoseconds.
    Asked(u64),
    /// Why it failed.
    Failed(String),
}

/// A port that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedPort {
    /// Its description: `mlx5_0/1 GID 3 MTU 4096`.
    pub port: String,
    /// Its global address.
    pub gid: String,
}

/// The result of the greeting at one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GreetingResult {
    /// Whether this end's word was acknowledged; otherwise the status of its failure.
    pub own: Result<(), String>,
    /// Whether the other end's word arrived.
    pub heard: bool,
}

/// The acknowledged writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteResult {
    /// Bytes.
    pub bytes: u64,
    /// Time until the last acknowledgement, in microseconds.
    pub micros: u64,
    /// Packets that carried it, none counted twice.
    pub packets: u64,
}

/// Runs the commands of stdin until it closes.
///
/// # Errors
///
/// Standard output cannot be duplicated.
pub fn serve() -> io::Result<()> {
    let (mut outlet, inbox) = lifeline::open::<PortCommand>(|| {})?;
    #[cfg(feature = "verbs")]
    let mut station = port_server::PortServer::default();
    for told in inbox {
        #[cfg(feature = "verbs")]
        let said = station.run_command(&told);
        #[cfg(not(feature = "verbs"))]
        let said = {
            let _ = told;
            PortReply::Failed("this binary was built without the verbs feature".to_owned())
        };
        let mut line = serde_json::to_vec(&said)?;
        line.push(b'\n');
        outlet.write_all(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_one_line() {
        let greeted = PortReply::Greeted(GreetingResult {
            own: Err("transport retry counter exceeded".into()),
            heard: true,
        });
        let line = serde_json::to_string(&greeted).unwrap();
        assert_eq!(
            line,
            r#"{"greeted":{"own":{"Err":"transport retry counter exceeded"},"heard":true}}"#
        );
        assert_eq!(serde_json::from_str::<PortReply>(&line).unwrap(), greeted);
        let open = PortCommand::Open {
            device: "rxe0/1".into(),
            gid_index: Some(3),
            purpose: Purpose::Try,
        };
        for told in [
            PortCommand::Pair(Memory::Gpu),
            PortCommand::Write(300),
            PortCommand::Limit(1024),
            open,
        ] {
            let line = serde_json::to_string(&told).unwrap();
            assert_eq!(serde_json::from_str::<PortCommand>(&line).unwrap(), told);
        }
    }
}
