//! The facts of two GPUs of a node.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// Two GPUs of a node.
    GpuPair = "gpu_pair" from "derive";

    /// The PCI address of the first GPU.
    FIRST: Arc<str> = "first" from "derive";
}
