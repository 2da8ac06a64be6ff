//! The facts of an InfiniBand switch.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// An InfiniBand switch, by its GUID, as ibswinfo.sh prints it.
    Switch = "switch" from "outputs";

    /// What it is called, its part number and its serial number.
    MODEL: Arc<str> = "model" from "outputs";
    /// The parts that report an error, with what they report; "none" if none does.
    FAULTS: Arc<str> = "faults" from "outputs";
}
