//! Why a measurement failed.

/// A call that failed while something was measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function}: {error}")]
pub struct Failure {
    /// The function that failed.
    pub function: String,
    /// Its result, if it has one.
    pub code: Option<i64>,
    /// The error text of the library or the kernel.
    pub error: String,
}
