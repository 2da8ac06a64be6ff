//! Measurements that a person asks for, because they disturb: which there are, in which order, and what their numbers are worth.
//!
//! Nothing here asks the machine: [`crate::live`] measures, in a child process for each measurement that may hang.

pub mod ablation;
pub mod bisection;
pub mod collective;
pub mod flags;
pub mod job;
pub mod latency;
pub mod nccl_library;
pub mod p2p;
pub mod pairs;
pub mod reply;
pub mod results;
pub mod run;
pub mod scope;
pub mod statistics;
