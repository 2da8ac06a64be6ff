//! The failure of a library call, in a measurement's form.

use crate::live::failure::Failure;
use crate::source::Refusal;

/// A refusal in the words of a failure.
pub(crate) fn library_failure(function: &str, what: &str, refusal: &Refusal) -> Failure {
    let code = match refusal {
        Refusal::Errno(errno) => Some(i64::from(errno.0)),
        _ => None,
    };
    let error = match what {
        "" => refusal.to_string(),
        what => format!("{what}: {refusal}"),
    };
    Failure {
        function: function.to_owned(),
        code,
        error,
    }
}
