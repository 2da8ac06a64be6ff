//! A backend over reliable connections with RDMA writes, in the host's memory or in that of GPUs: what the fabric carries without NCCL.
//!
//! ```text
//! card      what ranks tell each other
//! layout    where things lie in each rank's memory: every rank knows every other's
//! transfer  when which piece may go: an operation, one step after the other
//! wire      the connections
//! ```
//!
//! Which port a rank uses, how it is reached, and how a GPU's memory is, is the business of `live::verbs`.
//!
//! What is kept as it comes is written by the sender straight to where it belongs; what is put together goes through a window of slots. No byte is
//! sent before the receiver has allowed it, so that nothing is written over what is still wanted.

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

use super::backend::{Backend, RankSetup};
use super::rank_exchange::RankExchange;
use crate::live::failure::Failure;

/// Opens the device, and tells the other ranks of it.
///
/// # Errors
///
/// No library, no device, no active port, or a rank whose port is of another kind.
pub(super) fn connect(
    place: &RankSetup<'_>,
    exchange: &mut dyn RankExchange,
) -> Result<Box<dyn Backend>, Failure> {
    #[cfg(feature = "verbs")]
    {
        Ok(Box::new(rank::VerbsRank::connect(place, exchange)?))
    }
    #[cfg(not(feature = "verbs"))]
    {
        let _ = (place, exchange);
        Err(Failure {
            function: "verbs".to_owned(),
            code: None,
            error: "this binary was built without the verbs feature".to_owned(),
        })
    }
}
