//! What a job's ranks wrote of their collectives: dumps of PyTorch's flight recorder, and the
//! status of NCCL's RAS. Pure: bytes in, a bounded digest or a typed error out.
//!
//! ```text
//! pickle    pickles of the flight recorder: no object is built, nothing is called
//! tree      a document of either form, as nodes in one list
//! recorder  a dump's groups, what is pending, and what came last
//! ras       the status that `ncclras` prints, as text and as JSON
//! members   ranks of a group as ranges
//! ```

mod members;
mod pickle;
mod ras;
mod recorder;
mod tree;

use serde::{Deserialize, Serialize};

pub use self::members::Members;
pub use self::ras::{Communicator, MissingRank, RankCounts, RankPlace, RasStatus};
pub use self::recorder::{Call, GroupProgress, RankDump};

/// Bytes that one of these files may have. A dump of 2,000 entries with their frames has 4 MiB.
pub const LARGEST: u64 = 64 << 20;

/// Why a file that looks like one of these could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// It is larger than [`LARGEST`].
    #[error("larger than {} MiB", LARGEST >> 20)]
    Large,
    /// It ends before it is whole.
    #[error("it is cut off")]
    Cut,
    /// An instruction of a pickle that no dump has: it could build objects, and is not followed.
    #[error("the pickle has the instruction {0:#04x}, which no dump of the flight recorder has")]
    Instruction(u8),
    /// An instruction of a pickle that has nothing to work on.
    #[error("the pickle is damaged")]
    Damaged,
    /// More parts than any dump has.
    #[error("it has more than {0} parts")]
    Parts(usize),
    /// JSON that is not understood.
    #[error("its JSON is damaged: {0}")]
    Json(String),
    /// A dump of a version that is not known.
    #[error("a flight recorder's dump of version {0}: 2.0 to 2.10 are read")]
    Version(String),
    /// A document of another shape.
    #[error("it has no {0}")]
    Lacks(&'static str),
}

/// What such a file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trace {
    /// One rank's dump.
    Dump(RankDump),
    /// What RAS says of all ranks.
    Ras(RasStatus),
}

/// How such a file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Pickle,
    RecorderJson,
    RasJson,
    RasText,
}

impl Form {
    fn of(head: &[u8]) -> Option<Form> {
        if head.starts_with(&[0x80]) {
            // A dictionary of protocol 2, which is what the flight recorder writes.
            return matches!(head, [0x80, 2 | 3, b'}', ..]).then_some(Form::Pickle);
        }
        let holds = |words: &str| memchr::memmem::find(head, words.as_bytes()).is_some();
        if head.trim_ascii_start().starts_with(b"{") {
            return if holds("\"communicators") {
                Some(Form::RasJson)
            } else {
                let keys = ["\"pg_config\"", "\"profiling_name\"", "\"nccl_comm_state\""];
                keys.into_iter().any(holds).then_some(Form::RecorderJson)
            };
        }
        (holds("Job summary") && holds("Communicators...")).then_some(Form::RasText)
    }
}

/// Whether a file that begins so can be a trace: 4 KiB tell it.
pub fn may_be_trace(head: &[u8]) -> bool {
    Form::of(head).is_some()
}

/// Whether a file that begins so is a trace and no text.
pub fn is_binary_trace(head: &[u8]) -> bool {
    Form::of(head) == Some(Form::Pickle)
}

/// Whether its lines say something to a reader of logs too.
pub fn is_text_of_log(head: &[u8]) -> bool {
    Form::of(head) == Some(Form::RasText)
}

/// Reads a file; `None` where it is none of these.
///
/// # Errors
///
/// It looks like one, and is cut, damaged, too large, or of an unknown version.
pub fn read(bytes: &[u8]) -> Result<Option<Trace>, TraceError> {
    let head = bytes.get(..4096).unwrap_or(bytes);
    let Some(form) = Form::of(head) else {
        return Ok(None);
    };
    if bytes.len() as u64 > LARGEST {
        return Err(TraceError::Large);
    }
    let trace = match form {
        Form::Pickle => Trace::Dump(recorder::read(&pickle::read(bytes)?)?),
        Form::RecorderJson => Trace::Dump(recorder::read(&tree::of_json(bytes)?)?),
        Form::RasJson => Trace::Ras(ras::of_json(bytes)?),
        Form::RasText => Trace::Ras(ras::of_text(&String::from_utf8_lossy(bytes))?),
    };
    Ok(Some(trace))
}
