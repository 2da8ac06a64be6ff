//! Errors by their names: a log has the words of strerror(3), or a number.

use crate::nccl_log::text::number_after;

/// Names, numbers and words, as Linux has them.
const ERRORS: &[(&str, u64, &str)] = &[
    ("EPERM", 1, "Operation not permitted"),
    ("ENOENT", 2, "No such file or directory"),
    ("EINTR", 4, "Interrupted system call"),
    ("EIO", 5, "Input/output error"),
    ("ENXIO", 6, "No such device or address"),
    ("EBADF", 9, "Bad file descriptor"),
    ("EAGAIN", 11, "Resource temporarily unavailable"),
    ("ENOMEM", 12, "Cannot allocate memory"),
    ("EACCES", 13, "Permission denied"),
    ("EFAULT", 14, "Bad address"),
    ("EBUSY", 16, "Device or resource busy"),
    ("EEXIST", 17, "File exists"),
    ("ENODEV", 19, "No such device"),
    ("EINVAL", 22, "Invalid argument"),
    ("EMFILE", 24, "Too many open files"),
    ("ENOSPC", 28, "No space left on device"),
    ("EPIPE", 32, "Broken pipe"),
    ("ENOSYS", 38, "Function not implemented"),
    ("ENODATA", 61, "No data available"),
    ("EPROTONOSUPPORT", 93, "Protocol not supported"),
    ("EOPNOTSUPP", 95, "Operation not supported"),
    ("EADDRINUSE", 98, "Address already in use"),
    ("EADDRNOTAVAIL", 99, "Cannot assign requested address"),
    ("ENETDOWN", 100, "Network is down"),
    ("ENETUNREACH", 101, "Network is unreachable"),
    ("ECONNABORTED", 103, "Software caused connection abort"),
    ("ECONNRESET", 104, "Connection reset by peer"),
    ("ENOTCONN", 107, "Transport endpoint is not connected"),
    ("ETIMEDOUT", 110, "Connection timed out"),
    ("ECONNREFUSED", 111, "Connection refused"),
    ("EHOSTDOWN", 112, "Host is down"),
    ("EHOSTUNREACH", 113, "No route to host"),
];

/// The error that a message names, by its words.
pub(super) fn named(message: &str) -> Option<&'static str> {
    let found = |(_, _, words): &&(&str, u64, &str)| message.contains(words);
    // "No such device" begins "No such device or address".
    let (name, ..) = ERRORS
        .iter()
        .filter(found)
        .max_by_key(|(_, _, words)| words.len())?;
    Some(name)
}

/// The error of this number.
pub(super) fn numbered(number: u64) -> Option<&'static str> {
    ERRORS
        .iter()
        .find(|(_, n, _)| *n == number)
        .map(|(name, ..)| *name)
}

/// The text before an error number, if a program does not print its words.
const MARKS: [&str; 9] = [
    "errno: ",
    "errno=",
    "non-zero status: ",
    "code: -",
    "ret=-",
    "error -",
    "err(-",
    "err -",
    "failed (-",
];

/// The error that a line of a program other than NCCL names: by its words, its number, or its symbol.
pub(super) fn program_call(message: &str) -> Option<&'static str> {
    let number = |mark: &&str| number_after(message.as_bytes(), mark).and_then(numbered);
    let symbol = || {
        let mut words = message.split(|c: char| !c.is_ascii_alphanumeric());
        words.find_map(|word| ERRORS.iter().find(|(name, ..)| *name == word))
    };
    named(message)
        .or_else(|| MARKS.iter().find_map(number))
        .or_else(|| symbol().map(|(name, ..)| *name))
}
