//! A rank of a collective: what each rank does in its own process, over one of several backends.
//!
//! ```text
//! backend         the interface of what moves the data; one file for each
//! rank_exchange   small values and barriers between ranks, through the processes that started them
//! rank_messages   the messages between a rank and the process that started it
//! rank            a rank's process: the points one after the other, timed and then verified
//! test_data       what the buffers hold, and what each rank must find in them afterwards
//! rank_steps      the sends and receives of one rank in each collective; pure
//! element         reduction of elements in the host's memory (in live)
//! tcp             a backend: sockets
//! nccl            a backend: NCCL, between GPUs
//! verbs           a backend: RDMA writes
//! pace            sizes and repetitions that fit the time of a run
//! cpu_wait        how long a rank ran, and how long it waited for a CPU
//! rank_cleanup    removes what a killed rank leaves on the machine
//! ```

pub mod backend;
pub mod cpu_wait;
mod nccl;
mod pace;
pub mod rank;
pub mod rank_cleanup;
pub mod rank_exchange;
pub mod rank_messages;
pub mod rank_steps;
mod tcp;
pub mod test_data;
mod verbs;
