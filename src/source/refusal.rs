//! Why a machine gave no answer.

use std::fmt;
use std::sync::Arc;

pub use super::errno::Errno;

/// Why there is no answer. A refusal is a reply: it is recorded like one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The kernel, or a library that speaks in errno, refused.
    Errno(Errno),
    /// The shared library is not installed; its loader's words.
    LibraryMissing(Arc<str>),
    /// The library lacks the symbol.
    SymbolMissing(Arc<str>),
    /// The command is not installed.
    CommandMissing,
    /// The command ended with this exit status; its standard error, first line.
    CommandFailed(i32, Arc<str>),
    /// The reply did not come within the budget.
    Timeout,
    /// The process that asked died of this.
    Crash(Arc<str>),
    /// More bytes than a reply may have.
    TooLarge,
    /// The question was not put to the machine, on purpose: why.
    NotAsked(Arc<str>),
    /// The question is not in the recording, or not in the examined directory: neither present nor absent.
    NotRecorded,
}

impl Refusal {
    /// Of a library that does not load: the loader's words (dlerror(3)), or the errno that they end with where the asking process lacks files or
    /// memory, which tells nothing of the library.
    pub fn of_loader(words: &str) -> Self {
        match words.rsplit(": ").next() {
            Some("Too many open files in system") => Errno::ENFILE.into(),
            Some("Too many open files") => Errno::EMFILE.into(),
            Some("Cannot allocate memory") => Errno::ENOMEM.into(),
            _ => Refusal::LibraryMissing(words.into()),
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Refusal::Errno(errno)
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Refusal::Errno(Errno::from(&error))
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(errno: rustix::io::Errno) -> Self {
        Refusal::Errno(Errno(errno.raw_os_error()))
    }
}

impl Refusal {
    /// The question was not asked, for this reason.
    pub fn not_asked(why: impl Into<Arc<str>>) -> Self {
        Refusal::NotAsked(why.into())
    }

    /// No such call can be answered.
    pub fn unknown_call(name: &str) -> Self {
        Refusal::not_asked(format!("unknown call {name}"))
    }

    /// True where root would have got an answer.
    pub fn is_permission(&self) -> bool {
        matches!(self, Refusal::Errno(Errno::EACCES | Errno::EPERM))
    }

    /// True where what was asked, or the process that asked it, failed: neither an answer nor an absence.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Refusal::Timeout
                | Refusal::Crash(_)
                | Refusal::Errno(
                    Errno::EIO
                        | Errno::ENXIO
                        | Errno::ENODEV
                        | Errno::EREMOTEIO
                        | Errno::ESTALE
                        | Errno::EISDIR
                )
        )
    }

    /// True where the refusal itself says that the thing is not there (`ENOENT` needs its parent's listing besides:
    /// see [`crate::probe::Ask::exists`]).
    pub fn is_absence(&self) -> bool {
        matches!(
            self,
            Refusal::Errno(Errno::ENOENT | Errno::EOPNOTSUPP | Errno::ENOTDIR)
                | Refusal::LibraryMissing(_)
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Errno(e) => write!(f, "{}", e.meaning()),
            Refusal::LibraryMissing(which) => write!(f, "library missing: {which}"),
            Refusal::SymbolMissing(which) => write!(f, "the library lacks {which}"),
            Refusal::CommandMissing => f.write_str("command not installed"),
            Refusal::CommandFailed(status, said) if said.is_empty() => {
                write!(f, "command ended with status {status}")
            }
            Refusal::CommandFailed(status, said) => {
                write!(f, "command ended with status {status}: {said}")
            }
            Refusal::Timeout => f.write_str("no reply within the budget"),
            Refusal::Crash(how) => write!(f, "the asking process died: {how}"),
            Refusal::TooLarge => f.write_str("reply too large"),
            Refusal::NotAsked(why) => write!(f, "not asked: {why}"),
            Refusal::NotRecorded => f.write_str("not recorded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_out_while_a_library_is_loaded_tells_nothing_of_it() {
        let words = "libibverbs.so.1: cannot open shared object file: ";
        for (end, refusal) in [
            ("Too many open files in system", Errno::ENFILE.into()),
            ("Too many open files", Errno::EMFILE.into()),
            (
                "No such file or directory",
                Refusal::LibraryMissing(format!("{words}No such file or directory").into()),
            ),
        ] {
            assert_eq!(Refusal::of_loader(&format!("{words}{end}")), refusal);
        }
        let mapped =
            "libcuda.so.1: failed to map segment from shared object: Cannot allocate memory";
        assert_eq!(Refusal::of_loader(mapped), Errno::ENOMEM.into());
    }
}
