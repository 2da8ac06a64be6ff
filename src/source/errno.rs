//! Error numbers of the Linux kernel, by name.

use std::fmt;

/// An error number as Linux defines it (`include/uapi/asm-generic/errno*.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        impl Errno {
            $(#[doc = $meaning] pub const $name: Errno = Errno($number);)*

            /// The symbolic name, if the number is one that a machine's reply is known to carry.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some(stringify!($name)),)* _ => None }
            }

            /// The number of a symbolic name.
            pub fn from_name(name: &str) -> Option<Errno> {
                match name {
                    $(stringify!($name) => Some(Errno($number)),)*
                    _ => name.strip_prefix("E#")?.parse().ok().map(Errno),
                }
            }

            /// The number in words.
            pub fn meaning(self) -> String {
                match self.0 { $($number => format!("{} ({})", $meaning, stringify!($name)),)* n => format!("error {n}") }
            }
        }
    };
}

impl Errno {
    /// What a recording of another version calls by a name that this one does not know.
    pub const UNKNOWN: Errno = Errno(i32::MAX);
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    ESRCH = 3, "no such process";
    EINTR = 4, "interrupted";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such device or address";
    E2BIG = 7, "argument list too long";
    EBADF = 9, "bad file descriptor";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EFAULT = 14, "bad address";
    EBUSY = 16, "device or resource busy";
    EEXIST = 17, "file exists";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    ENFILE = 23, "too many open files in the system";
    EMFILE = 24, "too many open files";
    ENOTTY = 25, "inappropriate ioctl";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left";
    EROFS = 30, "read-only file system";
    EPIPE = 32, "broken pipe";
    ENAMETOOLONG = 36, "file name too long";
    ENOSYS = 38, "function not implemented";
    ELOOP = 40, "too many symbolic links";
    ENOMSG = 42, "no message";
    ENODATA = 61, "no data";
    EPROTO = 71, "protocol error";
    EOVERFLOW = 75, "value too large";
    ENOPROTOOPT = 92, "protocol not available";
    EPROTONOSUPPORT = 93, "protocol not supported";
    ESOCKTNOSUPPORT = 94, "socket type not supported";
    EOPNOTSUPP = 95, "operation not supported";
    EAFNOSUPPORT = 97, "address family not supported";
    EADDRINUSE = 98, "address already in use";
    EADDRNOTAVAIL = 99, "address not available";
    ENETDOWN = 100, "network is down";
    ENETUNREACH = 101, "network is unreachable";
    ECONNRESET = 104, "connection reset";
    ENOBUFS = 105, "no buffer space";
    ENOTCONN = 107, "not connected";
    ETIMEDOUT = 110, "timed out";
    ECONNREFUSED = 111, "connection refused";
    EHOSTUNREACH = 113, "no route to host";
    ESTALE = 116, "stale file handle";
    EREMOTEIO = 121, "remote I/O error";
    EDQUOT = 122, "disk quota exceeded";
    EKEYREJECTED = 129, "key rejected";
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "E#{}", self.0),
        }
    }
}

impl From<&std::io::Error> for Errno {
    /// Errors without a number (which the standard library makes up itself) count as `EIO`.
    fn from(error: &std::io::Error) -> Self {
        Errno(error.raw_os_error().unwrap_or(Errno::EIO.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_with_the_kernel() {
        for n in 0..200 {
            let e = Errno(n);
            assert_eq!(Errno::from_name(&e.to_string()), Some(e));
        }
        assert_eq!(Errno::EOPNOTSUPP.0, libc::EOPNOTSUPP);
        assert_eq!(Errno::ENODATA.0, libc::ENODATA);
        assert_eq!(Errno::EPROTONOSUPPORT.0, libc::EPROTONOSUPPORT);
    }
}
