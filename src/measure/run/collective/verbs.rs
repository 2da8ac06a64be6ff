//! The verbs backend: RDMA writes over reliable connections, in host or GPU memory, to measure the
//! fabric without NCCL.
//!
//! ```text
//! rank_ports   what ranks exchange to connect
//! layout       the layout of each rank's memory: every rank knows every other's
//! transfer     the schedule of an operation: which piece may go when
//! connections  the queue pairs to other ranks, and the memory
//! ```
//!
//! `live::verbs` chooses the port, its address, and how GPU memory is registered.
//!
//! Data that is stored unchanged is written by the sender directly to its place; data that is
//! reduced goes through a window of slots. No byte is sent before the receiver has granted it, so
//! that nothing in use is overwritten.

#[cfg(feature = "verbs")]
mod connections;
#[cfg(feature = "verbs")]
mod layout;
#[cfg(feature = "verbs")]
mod rank;
#[cfg(feature = "verbs")]
mod rank_ports;
#[cfg(feature = "verbs")]
mod transfer;

use super::backend::Backend;
use super::rank_exchange::RankExchange;
use super::rank_messages::RankJob;
use crate::live::failure::Failure;

/// Opens the device, and exchanges addresses with the other ranks.
///
/// # Errors
///
/// No library, no device, no active port, or a rank whose port is of another kind.
pub(super) fn connect(
    job: &RankJob,
    exchange: &mut RankExchange,
) -> Result<Box<dyn Backend>, Failure> {
    #[cfg(feature = "verbs")]
    {
        Ok(Box::new(rank::VerbsRank::connect(job, exchange)?))
    }
    #[cfg(not(feature = "verbs"))]
    {
        let _ = (job, exchange);
        Err(Failure::new(
            "verbs",
            "this binary was built without the verbs feature",
        ))
    }
}
