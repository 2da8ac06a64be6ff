//! The facts that every function on a PCIe path has: GPUs, RDMA functions and bridges alike.

use super::{Bytes, Key};

/// The keys of these facts for one subject.
pub struct LinkKeys {
    /// `link_generation`
    pub generation: Key<u64>,
    /// `link_width`
    pub width: Key<u64>,
    /// `max_link_generation`
    pub max_generation: Key<u64>,
    /// `max_link_width`
    pub max_width: Key<u64>,
    /// `max_payload`
    pub max_payload: Key<Bytes>,
    /// `max_payload_supported`
    pub max_payload_supported: Key<Bytes>,
    /// `counts_errors`
    pub counts_errors: Key<bool>,
    /// `link_errors`
    pub link_errors: Key<u64>,
    /// `nonfatal_errors`
    pub nonfatal_errors: Key<u64>,
    /// `fatal_errors`
    pub fatal_errors: Key<u64>,
}
