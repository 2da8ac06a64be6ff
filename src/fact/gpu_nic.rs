//! The facts of a GPU and an RDMA-capable PCI function of the same node.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A GPU and an RDMA-capable PCI function of the same node.
    GpuNic = "gpu_nic" from "derive";

    /// The RDMA device of the function, else its PCI address.
    NIC: Arc<str> = "nic" from "derive";
}
