//! Why what is measured could not go on.

/// A call that failed while something was measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function}: {error}")]
pub struct Failure {
    /// The function that failed.
    pub function: String,
    /// Its result, where it has one.
    pub code: Option<i64>,
    /// What the library, or the kernel, says of it.
    pub error: String,
}
