//! The facts of a class of lines in the kernel's log that matters, and that was seen.

use super::schema::subject;

subject! {
    /// A class of lines in the kernel's log that matters, and that was seen.
    KernelEvent = "kernel_event" from "kernel_log";

    /// How many lines of the class the log holds.
    COUNT: u64 = "count" from "kernel_log";
}
