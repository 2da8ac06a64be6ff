//! The log of a run of NCCL: read from a recording of log files, and not of a machine.

/// The name under which the questions are recorded.
pub const NAME: &str = "nccl_log";
