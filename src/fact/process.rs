//! The facts of a process that hogs the CPU or memory, or that is stuck in the kernel.

use super::schema::subject;

subject! {
    /// A process that hogs the CPU or memory, or that is stuck in the kernel.
    Process = "process" from "process";

    /// The id of the process.
    PID: u64 = "pid" from "process";
}
