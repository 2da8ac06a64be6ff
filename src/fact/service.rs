//! The facts of a service of the system that matters to RDMA, GPUs or latency.

use super::schema::subject;

subject! {
    /// A service of the system that matters to RDMA, GPUs or latency.
    Service = "service" from "service";

    /// Whether the service runs.
    ACTIVE: bool = "active" from "service";
}
