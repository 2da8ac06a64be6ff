//! What moves the data of a collective, in the process of one rank.

use std::time::Duration;

use super::exchange::Exchange;
use crate::bench::plan::{Point, RankPlace};

/// Why a rank could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function}: {error}")]
pub struct Failure {
    /// The function that failed.
    pub function: String,
    /// Its result, where it has one.
    pub code: Option<i64>,
    /// What the library, or the kernel, says of it.
    pub error: String,
}

/// What a rank is told.
#[derive(Clone, Debug)]
pub struct Place<'p> {
    /// Where it runs and what it uses.
    pub place: &'p RankPlace,
    /// The library that was named.
    pub library: Option<&'p str>,
}

/// Which library moves the data, and over what: for the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The library's path.
    pub library: Option<String>,
    /// Its version, in its own words.
    pub version: Option<String>,
    /// The device that was chosen, and how.
    pub device: Option<String>,
}

/// A connected rank.
///
/// The harness drives all ranks alike: for each point `prepare`, then for each trial `fill`, a barrier, `run`; after the last one `result`.
/// Buffers live in the backend: in the GPU's memory or the host's.
pub trait Backend {
    /// Which library moves the data, and over what.
    fn identity(&self) -> Identity;

    /// Has buffers for this point; what an earlier one left may be used again.
    ///
    /// # Errors
    ///
    /// Not enough memory; a datatype or an operation that the backend does not have.
    fn prepare(&mut self, exchange: &mut dyn Exchange, point: &Point) -> Result<(), Failure>;

    /// Puts these bytes into the buffer that is sent (`send.len()` is the point's shape), and other ones into the buffer that receives.
    ///
    /// # Errors
    ///
    /// A copy to the device failed.
    fn fill(&mut self, send: &[u8]) -> Result<(), Failure>;

    /// Does the point's operation `point.iterations` times, and says how long that took, by the device's clock where there is one.
    ///
    /// # Errors
    ///
    /// An operation failed.
    fn run(&mut self, exchange: &mut dyn Exchange, point: &Point) -> Result<Duration, Failure>;

    /// Reads what this rank received, from this byte on, into `into`.
    ///
    /// # Errors
    ///
    /// A copy from the device failed.
    fn result(&mut self, from: usize, into: &mut [u8]) -> Result<(), Failure>;
}
