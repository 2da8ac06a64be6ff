//! The facts of a node of a running job.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A node of a running job, of which the ports and counters were looked at twice.
    LiveNode = "live_node" from "ranks";

    /// Whether an RDMA port counted errors between the two looks.
    HAS_RAISED: bool = "has_raised" from "ranks";
    /// The counter of errors that rose most, of each port that has one:
    /// `mlx5_0/1: local_ack_timeout_err +3`. Source: sysfs ports/N/counters, ports/N/hw_counters.
    RAISED: Arc<str> = "raised" from "ranks";
    /// Whether a rank has queue pairs on a port that is not active.
    HAS_UNUSABLE: bool = "has_unusable" from "ranks";
    /// That port: `mlx5_3/1 is DOWN, where rank 2 has 8 queue pairs`. Source: sysfs ports/N/state,
    /// RDMA netlink, RDMA_NLDEV_CMD_RES_QP_GET.
    UNUSABLE: Arc<str> = "unusable" from "ranks";
}
