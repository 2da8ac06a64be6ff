//! The facts of an entry of NCCL_IB_HCA or NCCL_SOCKET_IFNAME.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// An entry of NCCL_IB_HCA or NCCL_SOCKET_IFNAME.
    Selector = "selector" from "derive";

    /// The variable that it stands in.
    VARIABLE: Arc<str> = "variable" from "derive";
}
