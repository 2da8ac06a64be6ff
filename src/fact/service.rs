//! The facts of a service of the system that matters to RDMA, GPUs or latency.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A service of the system that matters to RDMA, GPUs or latency, installed or not.
    Service = "service" from "service";

    /// The service's name, as nvidia-fabricmanager. Known for each service that is a subject, installed or not.
    NAME: Arc<str> = "name" from "service";
    /// Whether the service runs, or waits for its first caller (socket activation). That it does not is known only outside of containers.
    /// Source: systemd, its files in /run/systemd, the processes.
    ACTIVE: bool = "active" from "service";
    /// Whether the service is started at boot. Source: systemd's UnitFileState.
    ENABLED: bool = "enabled" from "service";
    /// Whether the service ended with an error and was not started again. Source: systemd's ActiveState.
    FAILED: bool = "failed" from "service";
    /// Its state, as "ibacm.socket: active (listening)".
    STATE: Arc<str> = "state" from "service";
}
