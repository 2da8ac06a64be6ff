//! The facts of a port's counter.

use std::sync::Arc;

use super::schema::subject;
use super::value::words;
use super::{PerSecond, Seconds};

words! {
    /// The meaning of a rising counter.
    pub enum CounterClass {
        /// Packets were lost and sent again.
        Loss = "loss",
        /// The cable, the transceiver or the other end damages symbols or drops the link.
        Link = "link",
        /// The link went down.
        Flap = "flap",
        /// Traffic waits.
        Congestion = "congestion",
        /// This side's software or peer's posted buffers are at fault.
        Local = "local",
        /// A packet was damaged and caught by its checksum.
        Corruption = "corruption",
        /// Traffic, or anything else that is no fault.
        Traffic = "traffic",
    }
}

subject! {
    /// A counter of a port, of those whose meaning is known.
    Counter = "counter" from "counter";

    /// The counter's name. Source: sysfs ports/N/counters, ports/N/hw_counters.
    NAME: Arc<str> = "name" from "counter";
    /// The meaning of a rising counter. Source: manual page rdma-doctor-checks(7), COUNTERS.
    CLASS: CounterClass = "class" from "counter";
    /// Its value. Source: sysfs.
    VALUE: u64 = "value" from "counter";
    /// Whether the counter is at the largest value that it can hold (InfiniBand's classic counters do not wrap).
    SATURATED: bool = "saturated" from "counter";
    /// Whether the counter was read twice.
    SAMPLED: bool = "sampled" from "counter";
    /// Increase between two readings, of a counter that was read twice.
    RATE: PerSecond = "rate" from "counter";
    /// Time between the two readings.
    WINDOW: Seconds = "window" from "counter";
    /// By how much it rose between two looks whose times are not known. Only of what tools printed.
    ROSE: u64 = "rose" from "outputs";
    /// Its value, where nothing says since when it counts; 0 where the uptime is known. Only of
    /// what tools printed.
    UNDATED: u64 = "undated" from "derive counter_rate";
    /// Value over the time since boot: the least rate that it can have had on average. A driver loaded later makes the true one higher.
    PER_UPTIME: PerSecond = "per_uptime" from "derive counter_rate";
}
