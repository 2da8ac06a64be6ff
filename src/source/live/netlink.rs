//! To be written.

use super::super::question::Call;
use super::super::{Answer, Refusal};

/// Answers a call.
pub fn ask(call: &Call) -> Result<Answer, Refusal> {
    Err(Refusal::NotAsked(format!("{call}: not supported").into()))
}
