//! The facts of a setting beside NCCL's that decides where traffic goes: of Gloo, UCX, Open MPI, libfabric, the launcher.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A setting beside NCCL's that decides where traffic goes: of Gloo, UCX, Open MPI, libfabric, the launcher.
    Setting = "setting" from "setting";

    /// The value that is in effect.
    VALUE: Arc<str> = "value" from "setting";
}
