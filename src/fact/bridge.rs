//! The facts of a PCIe bridge on the path of a GPU or of an RDMA function.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A PCIe bridge on the path of a GPU or of an RDMA function.
    Bridge = "bridge" from "derive";

    /// The PCI address of the bridge.
    PCI: Arc<str> = "pci" from "derive";
}
