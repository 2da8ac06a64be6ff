//! A rank of a collective: what each rank does in its own process, over one of several backends.
//!
//! ```text
//! backend    what moves the data: one file for each, behind one trait
//! exchange   how ranks find each other, and wait for each other: through the process that started them
//! message    what that process and a rank say to each other
//! rank       a rank's process: the points one after the other, timed and then verified
//! data       what the buffers hold, and what each rank must find in them afterwards
//! steps      who sends what to whom, of each collective; pure
//! element    elements put together, in the host's memory
//! tcp        a backend: sockets
//! nccl       a backend: NCCL, between GPUs
//! verbs      a backend: RDMA writes
//! leftovers  what a rank that was killed leaves on the machine
//! ```

pub mod backend;
mod nccl;
pub mod rank;
pub mod rank_cleanup;
pub mod rank_exchange;
pub mod rank_messages;
pub mod rank_steps;
mod tcp;
pub mod test_data;
mod verbs;
