//! The facts of a PCIe link on the path of a GPU or of an RDMA function: a function and the port above it.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A PCIe link on the path of a GPU or of an RDMA function: a function and the port above it.
    Hop = "hop" from "derive";

    /// The PCI address of the port at the upper end.
    UPPER: Arc<str> = "upper" from "derive";
}
