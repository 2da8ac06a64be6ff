//! The failure of a library call, in a measurement's form.

use std::fmt::Display;

use crate::live::failure::Failure;
use crate::source::Refusal;

/// What a library's function gave.
pub(crate) trait LibraryCall<T> {
    /// A refusal in the words of a failure: of which function, and for `what`.
    ///
    /// # Errors
    ///
    /// The function refused.
    fn in_call(self, function: &str, what: impl Display) -> Result<T, Failure>;
}

impl<T> LibraryCall<T> for Result<T, Refusal> {
    fn in_call(self, function: &str, what: impl Display) -> Result<T, Failure> {
        self.map_err(|refusal| Failure {
            function: function.to_owned(),
            code: match &refusal {
                Refusal::Errno(errno) => Some(i64::from(errno.0)),
                _ => None,
            },
            error: match what.to_string().as_str() {
                "" => refusal.to_string(),
                what => format!("{what}: {refusal}"),
            },
        })
    }
}
