//! Measurements as plain values: what is measured in which order, what was replied, and the
//! statistics of it.
//!
//! Nothing here asks the machine. A plan makes the questions that its runs are, and reads their
//! replies from any source.

pub mod ablation;
pub mod ablation_arms;
pub mod ablation_rounds;
pub mod ablation_table;
pub mod alpha_beta;
pub mod bandwidth_words;
pub mod bisection;
pub mod bottleneck;
pub mod collective;
pub mod flags;
pub mod gpu_choice;
pub mod host_arms;
pub mod job;
pub mod latency;
pub mod memory_request;
pub mod nccl_library;
pub mod p2p;
pub mod pairs;
mod port_choice;
pub mod rank_choice;
pub mod reach;
pub mod reply;
pub mod results;
pub mod run;
pub mod scope;
pub mod statistics;
mod table_figure;
pub mod table_settings;
mod table_text;
