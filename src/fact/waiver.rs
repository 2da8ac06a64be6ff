//! The facts of a waiver: an entry of the site's file that says which finding is accepted, why, and until when.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A waiver for the node: an entry of /etc/rdma-doctor/waivers.toml, or of the file that --waivers names.
    Waiver = "waiver" from "waivers";

    /// Whether the entry can be read. One that cannot waives nothing.
    VALID: bool = "valid" from "waivers";
    /// Why it cannot be read.
    PROBLEM: Arc<str> = "problem" from "waivers";
    /// Its file, and its number in there.
    PLACE: Arc<str> = "place" from "waivers";
    /// The id, or the pattern of ids, of the checks whose findings it waives.
    CHECK: Arc<str> = "check" from "waivers";
    /// Why the finding is accepted.
    REASON: Arc<str> = "reason" from "waivers";
    /// The person or team that answers for it.
    OWNER: Arc<str> = "owner" from "waivers";
    /// The last day, in UTC, on which it waives.
    UNTIL: Arc<str> = "until" from "waivers";
    /// Whether it names nodes, and the node's name is a pseudonym that is none of them.
    REDACTED: bool = "redacted" from "waivers";
    /// Whether the node was recorded after that day.
    EXPIRED: bool = "expired" from "waivers";
    /// Whether it names a check that is judged on a node alone. One that compares nodes is judged for all of them.
    OF_NODE: bool = "of_node" from "waivers";
    /// Whether the node has a finding that it names.
    MATCHED: bool = "matched" from "waivers";
}
