//! What moves the data of a collective, in the process of one rank.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rank_exchange::RankExchange;
use crate::live::failure::Failure;
use crate::measure::plan::reply::{Carried, GpuMemory};
use crate::measure::plan::run::{Point, RankPlace};

/// What a rank is told.
#[derive(Clone, Debug)]
pub struct RankSetup<'p> {
    /// Where it runs and what it uses.
    pub place: &'p RankPlace,
    /// The library that was named.
    pub library: Option<&'p str>,
}

/// Which library moves the data, and over what: for the reply. What is said last holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The library's path.
    pub library: Option<String>,
    /// Its version, in its own words.
    pub version: Option<String>,
    /// The device that was chosen, and how.
    pub device: Option<String>,
    /// How the device came to the GPU's memory, where it was to.
    pub gpu_memory: Option<GpuMemory>,
}

/// A connected rank.
///
/// The harness drives all ranks alike. For each point: `prepare`; `poison`, and `fill` in pieces; for each warm-up and each trial a barrier and `run`;
/// then, not timed, `poison` and `fill` once more, a barrier, `run` with one iteration, and `result` in pieces, which must then be right. Buffers live in
/// the backend: in the GPU's memory or the host's.
///
/// Where the point is in place, what is sent stands where nccl-tests has it: at the rank's part of what is received (all-gather, gather), what is received
/// at the rank's part of what is sent (reduce-scatter, scatter), else in the same buffer. All-to-all and send-recv are not done in place.
///
/// A backend is made by `pub fn connect(place: &Place<'_>, exchange: &mut dyn Exchange) -> Result<Box<dyn Backend>, Failure>` of its module, which says
/// what it works with as soon as it knows.
pub trait Backend {
    /// Has buffers for this point; what an earlier one left may be used again.
    ///
    /// # Errors
    ///
    /// Not enough memory; a datatype or an operation that the backend does not have.
    fn prepare(&mut self, exchange: &mut dyn RankExchange, point: &Point) -> Result<(), Failure>;

    /// Puts these bytes into the buffer that is sent, from byte `at` on: a piece of the point's shape.
    ///
    /// # Errors
    ///
    /// A copy to the device failed.
    fn fill(&mut self, at: usize, send: &[u8]) -> Result<(), Failure>;

    /// Puts bytes that no result has into the buffer that receives; where the point is in place, before `fill`, so that what is sent stays.
    ///
    /// # Errors
    ///
    /// The device failed.
    fn poison(&mut self) -> Result<(), Failure>;

    /// Does the point's operation `point.iterations` times, and says how long that took, by the device's clock where there is one. Where the point is
    /// `awaited` the process waits for each operation before it begins the next.
    ///
    /// # Errors
    ///
    /// An operation failed.
    fn run(&mut self, exchange: &mut dyn RankExchange, point: &Point) -> Result<Duration, Failure>;

    /// Reads what this rank received, from this byte on, into `into`.
    ///
    /// # Errors
    ///
    /// A copy from the device failed.
    fn result(&mut self, from: usize, into: &mut [u8]) -> Result<(), Failure>;

    /// What the rank's port has carried since the rank was connected, where the backend has a port that counts. Asked once, after the last point.
    fn carried(&self) -> Option<Carried> {
        None
    }
}
