//! How NCCL reads its variables and chooses by them: used where facts are derived, and where a measurement chooses as NCCL does.

pub(crate) mod gid;
pub(crate) mod number;
