//! The facts of what NCCL will choose on this node, by its own rules.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// What NCCL will choose on this node, by its own rules.
    Selection = "selection" from "derive";

    /// The RDMA ports that NCCL will use, as mlx5_0:1, in its order.
    HCAS: Arc<[Arc<str>]> = "hcas" from "derive";
}
