//! What was recorded before, and the recording of logs: how files become one recording.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::unusable::{BadInput, bad_usage};
use crate::live;
use crate::probe::nccl_log;
use crate::source::recording::Recording;

/// Reads one recording.
///
/// # Errors
///
/// It is unreadable or invalid.
pub fn open_recording(path: &Path) -> Result<Recording, BadInput> {
    Recording::open(path).map_err(|error| BadInput(error.to_string()))
}

/// What is kept of these log files, of which none is read after the deadline; of one that is a
/// recording of a log already, what that holds.
///
/// # Errors
///
/// [`BadInput`] for a file that cannot be read, [`bad_usage`] where there is none and standard
/// input is a terminal.
#[expect(clippy::disallowed_methods, reason = "the deadline of reading")]
pub fn read_logs(files: &[PathBuf], deadline: Option<Duration>) -> anyhow::Result<Recording> {
    let deadline = deadline.map(|after| Instant::now() + after);
    let standard = [PathBuf::from(live::log::STANDARD_INPUT)];
    let files = match files {
        [] if std::io::stdin().is_terminal() => {
            return Err(bad_usage("name a log file, or give one on standard input"));
        }
        [] => &standard,
        [one] if live::log::is_recording(one) => return recorded(one),
        files => files,
    };
    let (all, one) = (nccl_log::files(), nccl_log::file);
    live::log::record(files, nccl_log::NAME, all, one, deadline)
        .map_err(|(path, error)| BadInput::of(&path, error).into())
}

fn recorded(path: &Path) -> anyhow::Result<Recording> {
    let recording = open_recording(path)?;
    if !recording.header.log {
        let why = "a recording of a node, and of no log: give it to --with";
        return Err(BadInput::of(path, why).into());
    }
    Ok(recording)
}
