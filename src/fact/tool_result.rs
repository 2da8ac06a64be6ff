//! The facts of what tools say of what they tried or tested themselves.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{Bytes, Percent};

words! {
    /// What a tool says of its own test.
    pub enum ToolResultKind {
        /// It is right.
        Right = "right",
        /// A diagnosis of GPUs failed.
        DiagnosisFailed = "diagnosis-failed",
        /// A diagnosis of GPUs warns.
        DiagnosisWarned = "diagnosis-warned",
        /// A unit of systemd failed.
        UnitFailed = "unit-failed",
        /// A scheduler keeps jobs away from nodes.
        NodeKeptOut = "node-kept-out",
        /// A scheduler warns of an event.
        EventWarned = "event-warned",
        /// The way to an address passes the network of another interface, in which it is.
        RouteBesideNetwork = "route-beside-network",
        /// Packets are larger than the interface sends.
        TooLargeForInterface = "too-large-for-interface",
        /// Packets are larger than a hop of the way takes.
        TooLargeForHop = "too-large-for-hop",
        /// Nobody has a way to the address, or a hardware address for it.
        Unreachable = "unreachable",
        /// Some or all echo requests were not answered.
        Lost = "lost",
        /// A tool could not do what it was asked for, in words that no reader knows.
        Complained = "complained",
    }
}

subject! {
    /// What a tool says of something that it tried or tested, in an output that somebody gave.
    ToolResult = "tool_result" from "outputs";

    /// What it says of its own test.
    KIND: ToolResultKind = "kind" from "outputs";
    /// Of what it says so: an address, a test, a unit.
    ABOUT: Arc<str> = "about" from "outputs";
    /// The tool's own words.
    WORDS: Arc<str> = "words" from "outputs";
    /// What the process that failed said itself. Source: the lines of the journal below `systemctl status`.
    REASON: Arc<str> = "reason" from "outputs";
    /// The size of packets with their IP header. Source: ping(8), `8972(9000) bytes of data`.
    SIZE: Bytes = "size" from "outputs";
    /// The largest size that gets through, as the interface or a hop says it.
    MTU: Bytes = "mtu" from "outputs";
    /// How many echo requests were not answered.
    LOST: Percent = "lost" from "outputs";
    /// How many were sent.
    SENT: u64 = "sent" from "outputs";
}
