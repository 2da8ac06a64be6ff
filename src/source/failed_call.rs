//! Replies that say which function of a library failed: `{"failed": …, "code": …, "error": …}`.

use serde_json::Value;

/// The call that failed.
pub(crate) struct FailedCall<'v> {
    /// The function.
    pub(crate) function: &'v str,
    /// Its result.
    pub(crate) code: u64,
    name: &'v str,
}

impl FailedCall<'_> {
    /// The result by name and number, as `CUDA_ERROR_SYSTEM_NOT_READY (802)`.
    pub(crate) fn error(&self) -> String {
        match self.name {
            "" => format!("error {}", self.code),
            name => format!("{name} ({})", self.code),
        }
    }
}

/// What failed, if a reply says so.
pub(crate) fn failed_call(said: &Value) -> Option<FailedCall<'_>> {
    Some(FailedCall {
        function: said.get("failed")?.as_str()?,
        code: said.get("code")?.as_u64()?,
        name: said.get("error").and_then(Value::as_str).unwrap_or(""),
    })
}
