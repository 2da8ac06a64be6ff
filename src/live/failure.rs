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

impl Failure {
    /// A failure of this function.
    pub fn new(function: impl Into<String>, error: impl Into<String>) -> Self {
        Failure {
            function: function.into(),
            code: None,
            error: error.into(),
        }
    }

    /// The same with what the function returned.
    pub fn code(self, code: impl Into<i64>) -> Self {
        Failure {
            code: Some(code.into()),
            ..self
        }
    }
}
