//! The interface of the backends that move the data of a collective, in the process of one rank.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rank_exchange::RankExchange;
use crate::live::failure::Failure;
use crate::measure::plan::reply::{Carried, GpuMemory};
use crate::measure::plan::run::Point;

/// The library that moves the data, and the device. The last report counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The library's path.
    pub library: Option<String>,
    /// Its version, as it reports it.
    pub version: Option<String>,
    /// The device that was chosen, and how.
    pub device: Option<String>,
    /// How the adapter accesses the GPU's memory, if it has to.
    pub gpu_memory: Option<GpuMemory>,
}

/// One rank's connections and buffers.
///
/// The harness drives all ranks alike. For each point: `prepare`; `poison`, and `fill` in pieces;
/// for each warm-up and each trial a barrier and `run`; then, not timed, `poison` and `fill` once
/// more, a barrier, `run` with one iteration, and `result` in pieces, which must then be right.
/// Buffers live in the backend: in the GPU's memory or the host's.
///
/// In place, the buffers are laid out as in nccl-tests: the input is at the rank's part of the
/// output (all-gather, gather), the output at the rank's part of the input (reduce-scatter,
/// scatter), otherwise both are the same. All-to-all and send-recv have no in-place form.
///
/// Each backend's module has
/// `pub fn connect(job: &RankJob, exchange: &mut RankExchange) -> Result<Box<dyn Backend>, Failure>`,
/// which reports the library and device as soon as they are known.
pub trait Backend {
    /// Allocates the buffers of this point, reusing those of an earlier one.
    ///
    /// # Errors
    ///
    /// Out of memory; a datatype or an operation that the backend does not support.
    fn prepare(&mut self, exchange: &mut RankExchange, point: &Point) -> Result<(), Failure>;

    /// Copies a piece of the test data into the input buffer at byte `at`.
    ///
    /// # Errors
    ///
    /// A copy to the device failed.
    fn fill(&mut self, at: usize, send: &[u8]) -> Result<(), Failure>;

    /// Fills the output buffer with bytes that no result has; in place, before `fill`, so that the
    /// input stays.
    ///
    /// # Errors
    ///
    /// The device failed.
    fn poison(&mut self) -> Result<(), Failure>;

    /// Runs the point's operation `point.iterations` times and returns the time taken, by the
    /// device's clock if there is one. If the point is `awaited`, each operation is awaited before
    /// the next begins.
    ///
    /// # Errors
    ///
    /// An operation failed.
    fn run(&mut self, exchange: &mut RankExchange, point: &Point) -> Result<Duration, Failure>;

    /// Reads this rank's output from byte `from` on into `into`.
    ///
    /// # Errors
    ///
    /// A copy from the device failed.
    fn result(&mut self, from: usize, into: &mut [u8]) -> Result<(), Failure>;

    /// The traffic of the rank's port since the rank was connected, if the port counts. Asked once,
    /// after the last point.
    fn carried(&self) -> Option<Carried> {
        None
    }
}
