//! What carries a plan out: the ranks of collectives, pairs of nodes, copies of GPUs, ablations,
//! and the user's own job.

pub mod ablation;
mod buffer_memory;
pub mod collective;
pub mod copies;
pub mod job;
mod nccl_logging;
pub mod pairs;
pub mod plan_runs;
pub mod progress;
pub mod ranks;
mod record_runs;
pub mod team;
