//! Carries out measurement plans: the ranks of collectives, pairs of nodes, and the user's own job.

pub mod collective;
pub mod job;
mod nccl_logging;
pub mod pairs;
pub mod ranks;
