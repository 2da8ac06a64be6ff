//! The facts of a process that is stuck in the kernel.

use std::sync::Arc;

use super::Seconds;
use super::schema::subject;

subject! {
    /// A process that waits in the kernel, uninterruptibly.
    Process = "process" from "process";

    /// The id of the process.
    PID: u64 = "pid" from "process";
    /// Its name, as the kernel has it (comm), without arguments.
    COMMAND: Arc<str> = "command" from "process";
    /// Whether it waited in the kernel, uninterruptibly (state D), in both looks of --sample, without running in between. A process that
    /// waits in one look alone waits for a disk, as processes do.
    STUCK: bool = "stuck" from "process";
    /// For how long it waited at least: the time between the two looks.
    STUCK_FOR: Seconds = "stuck_for" from "process";
    /// The function of the kernel in which it waits; "unknown" if the kernel does not tell this user. Source: /proc/PID/wchan.
    WAITS_IN: Arc<str> = "waits_in" from "process";
    /// Whether it belongs to a driver of GPUs or RDMA, or waits in one, by its name and by the function in which it waits.
    OF_DRIVER: bool = "of_driver" from "process";
}
