//! The facts of an InfiniBand fabric as a whole.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// The InfiniBand fabric that the outputs of tools show.
    IbFabric = "ib_fabric" from "outputs";

    /// What it has, in numbers, and what was not given.
    SUMMARY: Arc<str> = "summary" from "outputs";
    /// The LIDs that several ports have, with them; "none" if there are none.
    LIDS_TWICE: Arc<str> = "lids_twice" from "outputs";
    /// The devices that have no LID; "none" if there are none.
    WITHOUT_LID: Arc<str> = "without_lid" from "outputs";
    /// How many links the cabling plan has.
    PLANNED_LINKS: u64 = "planned_links" from "outputs";
    /// How many ends of them are ports of this fabric.
    PLANNED_ENDS_FOUND: u64 = "planned_ends_found" from "outputs";
    /// How many subnet managers say that they are master. Source: sminfo.
    MASTERS: u64 = "masters" from "outputs";
    /// Their LIDs and GUIDs.
    MASTER_NAMES: Arc<str> = "master_names" from "outputs";
}
