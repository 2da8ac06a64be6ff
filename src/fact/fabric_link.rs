//! The facts of a link of an InfiniBand fabric.

use std::sync::Arc;

use super::port::{PhysState, PortState};
use super::schema::subject;
use super::value::words;

words! {
    /// How a link runs, compared with what both its ends support and with the links like it.
    pub enum Standing {
        /// It runs as fast as both ends can.
        Full = "full",
        /// It does not, and most links of the same ends' capability do.
        Outlier = "outlier",
        /// It does not, and too few other links are listed to tell what is usual.
        Alone = "alone",
        /// It does not, and neither do most links of the same ends' capability.
        Common = "common",
    }
}

subject! {
    /// A link of an InfiniBand fabric, or a port that has none, as iblinkinfo(8) and ibqueryerrors(8) list them. Its name is what both ends are called, with their ports.
    FabricLink = "fabric_link" from "outputs";

    /// Logical state. Source: iblinkinfo.
    STATE: PortState = "state" from "outputs";
    /// Physical state. Source: iblinkinfo.
    PHYS_STATE: PhysState = "phys_state" from "outputs";
    /// Lanes in use. Source: iblinkinfo.
    WIDTH: u64 = "width" from "outputs";
    /// The most lanes that both ends support, of the four that a cable has. Source: iblinkinfo, "Could be".
    POSSIBLE_WIDTH: u64 = "possible_width" from "outputs";
    /// Lanes and speed: "4X EDR". Source: iblinkinfo.
    RUNS_AT: Arc<str> = "runs_at" from "outputs";
    /// The lanes and the speed that both ends support. Source: iblinkinfo, "Could be".
    POSSIBLE: Arc<str> = "possible" from "outputs";
    /// How it runs, compared with its ends' capability and with the links of the same.
    STANDING: Standing = "standing" from "outputs";
    /// Whether it is down, not switched off, and has counted that it lost its link.
    LOST: bool = "lost" from "outputs";
    /// The error counters of the end that has counted most, of those that mean a bad link. Source: ibqueryerrors.
    ERRORS: Arc<str> = "errors" from "outputs";
    /// The one among them that is farthest above what is usual.
    WORST_COUNTER: Arc<str> = "worst_counter" from "outputs";
    /// The value of that counter.
    WORST_COUNT: u64 = "worst_count" from "outputs";
    /// The median of that counter over all ports that were checked; a port that is not listed has 0.
    USUAL_COUNT: u64 = "usual_count" from "outputs";
    /// How many times the usual its value is.
    TIMES_USUAL: u64 = "times_usual" from "outputs";
}
