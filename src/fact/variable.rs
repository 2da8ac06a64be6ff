//! The facts of a NCCL_* variable in effect.

use std::sync::Arc;

use super::schema::subject;

subject! {
    /// A NCCL_* variable in effect.
    Variable = "variable" from "nccl";

    /// Its value, as NCCL gets it.
    VALUE: Arc<str> = "value" from "nccl";
}
