//! The facts of a PCIe link on the path of a GPU or of an RDMA function: a function and the port above it.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{BitRate, PerSecond};

words! {
    /// What of a link is lowered while idle.
    pub enum IdleReduction {
        /// Nothing: no GPU is at its lower end.
        Nothing = "nothing",
        /// The generation: a GPU of NVIDIA.
        Speed = "speed",
        /// The generation and the lanes: a GPU of AMD.
        SpeedAndWidth = "speed-and-width",
    }
}

subject! {
    /// A PCIe link on the path of a GPU or of an RDMA function, by the function at its lower end.
    Hop = "hop" from "derive pcie_hop";

    /// The PCI address of the port at the upper end.
    UPPER: Arc<str> = "upper" from "derive pcie_hop";
    /// The rate of the fastest port in use whose adapter is below it; 0 if there is none.
    NEEDED: BitRate = "needed" from "derive pcie_hop";
    /// What the ports below it need, as a sentence says it: "the port below needs 400 Gb/s", "what the port below needs is unknown".
    NEED: Arc<str> = "need" from "derive pcie_hop";
    /// The generation at which it runs.
    GENERATION: u64 = "generation" from "derive pcie_hop";
    /// The lanes on which it runs.
    WIDTH: u64 = "width" from "derive pcie_hop";
    /// The highest generation that both ends can.
    POSSIBLE_GENERATION: u64 = "possible_generation" from "derive pcie_hop";
    /// The most lanes that both ends can.
    POSSIBLE_WIDTH: u64 = "possible_width" from "derive pcie_hop";
    /// Its current bandwidth without the encoding: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s.
    BANDWIDTH: BitRate = "bandwidth" from "derive pcie_hop";
    /// Its bandwidth with both ends at their best.
    POSSIBLE_BANDWIDTH: BitRate = "possible_bandwidth" from "derive pcie_hop";
    /// What the function at the link's lower end lowers while idle, so that less than the maximum is no fault.
    REST: IdleReduction = "rest" from "derive pcie_hop";
    /// Whether one end at least counts errors.
    COUNTS_ERRORS: bool = "counts_errors" from "derive pcie_hop";
    /// Errors of both ends since boot that were corrected by sending again.
    LINK_ERRORS: u64 = "link_errors" from "derive pcie_hop";
    /// How often such an error came, on the average since boot.
    LINK_ERROR_RATE: PerSecond = "link_error_rate" from "derive pcie_hop";
    /// Non-fatal errors of both ends since boot, unsupported requests left out.
    NONFATAL_ERRORS: u64 = "nonfatal_errors" from "derive pcie_hop";
    /// Fatal errors of both ends since boot.
    FATAL_ERRORS: u64 = "fatal_errors" from "derive pcie_hop";
}
