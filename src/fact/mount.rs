//! The facts of a mounted file system that can use RDMA.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A mounted file system that can use RDMA.
    Mount = "mount" from "storage";

    /// beegfs, lustre or nfs.
    KIND: Arc<str> = "kind" from "storage";
}
