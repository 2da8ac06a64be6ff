//! The facts of an InfiniBand switch.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// An InfiniBand switch: by its GUID, as ibswinfo.sh prints it, or by its description.
    Switch = "switch" from "outputs";

    /// What it is called, its part number and its serial number.
    MODEL: Arc<str> = "model" from "outputs";
    /// The parts that report an error, with what they report; "none" if none does.
    FAULTS: Arc<str> = "faults" from "outputs";
    /// Its links to the tier above.
    UPLINKS: u64 = "uplinks" from "outputs";
    /// How many it would have if it had what most of its equals have: the switches of its tier that share the switches above it.
    USUAL_UPLINKS: u64 = "usual_uplinks" from "outputs";
    /// The switches above to which most of its equals have more links, with both numbers; "none" if there are none.
    SHORT_OF: Arc<str> = "short_of" from "outputs";
    /// Its ports without a link that lead there on most of its equals.
    FREE_PORTS: Arc<str> = "free_ports" from "outputs";
}
