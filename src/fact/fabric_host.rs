//! The facts of a host of an InfiniBand fabric.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A host of an InfiniBand fabric, as the descriptions of its adapters name it. Its equals have names that differ in numbers alone.
    FabricHost = "fabric_host" from "outputs";

    /// How many of its ports have a link.
    RAILS: u64 = "rails" from "outputs";
    /// How many ports of its equals have one: what most of them have.
    USUAL_RAILS: u64 = "usual_rails" from "outputs";
    /// The adapters that most of its equals have and it has not; "none" if there are none.
    MISSING: Arc<str> = "missing" from "outputs";
    /// How many other hosts have the same ports as this one.
    ALIKE: u64 = "alike" from "outputs";
    /// How many equals it has.
    EQUALS: u64 = "equals" from "outputs";
}
