//! Failures that are the user's to fix: an input that cannot be read or does not come in time, a command line that asks for
//! what cannot be.

use std::fmt::Display;
use std::path::Path;

use super::sink::Sink;
use crate::exit::Exit;
use crate::terminal;

/// Marks a failure as one of the input: exit status 65.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

impl BadInput {
    /// What is wrong with a file or a directory.
    pub fn of(path: &Path, why: impl Display) -> Self {
        BadInput(format!("{}: {why}", terminal::path(path)))
    }
}

/// Marks a failure as one of time: exit status 124.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoReportInTime(pub String);

/// Marks a failure as one of the command line: exit status 64.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadUsage(pub String);

/// A failure of the command line.
pub fn bad_usage(why: impl Into<String>) -> anyhow::Error {
    BadUsage(why.into()).into()
}

/// How the program ends: an error is told.
pub fn ended(result: anyhow::Result<Exit>, sink: &dyn Sink) -> Exit {
    result.unwrap_or_else(|error| {
        sink.say(&format!("{error:#}"));
        if error.is::<BadInput>() {
            Exit::Input
        } else if error.is::<BadUsage>() {
            Exit::Usage
        } else if error.is::<NoReportInTime>() {
            Exit::Deadline
        } else {
            Exit::Internal
        }
    })
}
