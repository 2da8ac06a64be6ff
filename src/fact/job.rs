//! The facts of a process of a running job, named with --as: the limits and the environment that count.

use super::schema::subject;

subject! {
    /// A process of a running job, named with --as: the limits and the environment that count.
    Job = "job" from "job";

    /// The id of the process.
    PID: u64 = "pid" from "job";
}
