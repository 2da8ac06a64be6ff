//! The facts of a link of an InfiniBand fabric.

use std::sync::Arc;

use super::port::{PhysState, PortState};
use super::schema::subject;
use super::unit::Percent;
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

words! {
    /// What a cabling plan says of a link.
    pub enum Cabling {
        /// It is there as planned.
        AsPlanned = "as-planned",
        /// One of its ends has another peer than planned.
        Miswired = "miswired",
        /// It is planned, and neither end has a link.
        Missing = "missing",
        /// It is in no row of the plan, and both its devices are.
        Extra = "extra",
    }
}

subject! {
    /// A link of an InfiniBand fabric, or a port that has none, as ibnetdiscover(8), iblinkinfo(8) and ibqueryerrors(8) list them. Its name is what both ends are called, with their ports.
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
    /// Whether it is slower than most of its equals: the other links of the switch to the same tier, or to hosts and adapters of the same name. Where the ends say what they support, that decides instead.
    BELOW_EQUALS: bool = "below_equals" from "outputs";
    /// Lanes and speed of most of its equals.
    USUAL: Arc<str> = "usual" from "outputs";
    /// How many of its equals run so, and which they are.
    EQUALS: Arc<str> = "equals" from "outputs";
    /// What the lines of both ends contradict each other in; "none" if they agree.
    CONFLICT: Arc<str> = "conflict" from "outputs";
    /// What the cabling plan says of it.
    CABLING: Cabling = "cabling" from "outputs";
    /// The link that is planned at one of its ends.
    PLANNED: Arc<str> = "planned" from "outputs";
    /// Whether the port has trained, and no device behind it answered.
    UNANSWERED: bool = "unanswered" from "outputs";
    /// The adapter of the host at one end, as its description names it.
    RAIL: Arc<str> = "rail" from "outputs";
    /// The adapter that the most links of this switch to hosts of such names have.
    LEAF_RAIL: Arc<str> = "leaf_rail" from "outputs";
    /// The part of those links that have it.
    LEAF_SHARE: Percent = "leaf_share" from "outputs";
}
