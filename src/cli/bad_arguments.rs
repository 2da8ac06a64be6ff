//! Failures that are the user's to fix: an input that cannot be read, a command line that asks for what cannot be.

/// Marks a failure as one of the input: exit status 65.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// Marks a failure as one of the command line: exit status 64.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadUsage(pub String);
