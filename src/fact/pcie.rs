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

/// A subject of this list of facts, and of those of its PCIe link.
macro_rules! link_subject {
    ($($rows:tt)*) => {
        $crate::fact::schema::subject! {
            $($rows)*
            /// The generation of its link now: 1 for 2.5 GT/s, 2 for 5, 3 for 8, 4 for 16, 5 for 32, 6 for 64. Source: sysfs current_link_speed.
            LINK_GENERATION: u64 = "link_generation" from "pcie";
            /// The lanes of its link now. Source: sysfs current_link_width.
            LINK_WIDTH: u64 = "link_width" from "pcie";
            /// The highest generation that it can. Source: sysfs max_link_speed.
            MAX_LINK_GENERATION: u64 = "max_link_generation" from "pcie";
            /// The most lanes that it can. Source: sysfs max_link_width.
            MAX_LINK_WIDTH: u64 = "max_link_width" from "pcie";
            /// The largest payload of a packet that it sends or takes. Source: configuration space, Device Control, Max_Payload_Size.
            MAX_PAYLOAD: $crate::fact::Bytes = "max_payload" from "pcie";
            /// The largest payload that it can. Source: configuration space, Device Capabilities, Max_Payload_Size Supported.
            MAX_PAYLOAD_SUPPORTED: $crate::fact::Bytes = "max_payload_supported" from "pcie";
            /// Whether it counts errors (Advanced Error Reporting). Source: sysfs, whether aer_dev_correctable is there.
            COUNTS_ERRORS: bool = "counts_errors" from "pcie";
            /// Errors of its link since boot that were corrected by sending again: receiver errors, bad packets, replays. Source: sysfs aer_dev_correctable.
            LINK_ERRORS: u64 = "link_errors" from "pcie";
            /// Non-fatal errors since boot, unsupported requests left out: looking for devices makes those. Source: sysfs aer_dev_nonfatal.
            NONFATAL_ERRORS: u64 = "nonfatal_errors" from "pcie";
            /// Fatal errors since boot. Source: sysfs aer_dev_fatal, TOTAL_ERR_FATAL.
            FATAL_ERRORS: u64 = "fatal_errors" from "pcie";
        }

        /// The facts of the function's PCIe link.
        pub const LINK: $crate::fact::pcie::LinkKeys = $crate::fact::pcie::LinkKeys {
            generation: LINK_GENERATION,
            width: LINK_WIDTH,
            max_generation: MAX_LINK_GENERATION,
            max_width: MAX_LINK_WIDTH,
            max_payload: MAX_PAYLOAD,
            max_payload_supported: MAX_PAYLOAD_SUPPORTED,
            counts_errors: COUNTS_ERRORS,
            link_errors: LINK_ERRORS,
            nonfatal_errors: NONFATAL_ERRORS,
            fatal_errors: FATAL_ERRORS,
        };
    };
}
pub(crate) use link_subject;
