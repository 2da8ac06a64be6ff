//! Whether the buffers of a measurement fit in the host's memory.

use crate::fact::Bytes;
use crate::live;
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::run::{Backend, Point};

/// Checks that the buffers of these ranks fit in the host's memory, if they are there.
///
/// # Errors
///
/// How much is needed, and how much there is.
pub(super) fn check_buffers(ranks: &ChosenRanks, points: &[Point]) -> Result<(), String> {
    if ranks.backend == Backend::Nccl {
        return Ok(());
    }
    let in_host = points.iter().filter(|point| !point.gpu_memory);
    let largest = in_host.map(|point| point.bytes).max().unwrap_or(0);
    // What is sent, what is received, and what is passed on.
    let count = ranks.ranks.len() as u64;
    check_available(largest.saturating_mul(3).saturating_mul(count))
}

fn check_available(needed: u64) -> Result<(), String> {
    match live::memory::available() {
        Some(available) if available < needed => Err(format!(
            "{} of memory are needed, {} are free",
            Bytes(needed),
            Bytes(available)
        )),
        _ => Ok(()),
    }
}
