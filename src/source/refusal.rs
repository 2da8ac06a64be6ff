//! Why a machine gave no answer.

use std::sync::Arc;

pub use super::errno::Errno;
use super::ordinary_reply;
use super::question::Question;

/// Why there is no answer. A refusal is a reply: it is recorded like one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The kernel, or a library that speaks in errno, refused.
    #[error("{}", .0.meaning())]
    Errno(Errno),
    /// The shared library is not installed; its loader's words.
    #[error("library missing: {0}")]
    LibraryMissing(Arc<str>),
    /// The library lacks the symbol.
    #[error("the library lacks {0}")]
    SymbolMissing(Arc<str>),
    /// The command is not installed.
    #[error("command not installed")]
    CommandMissing,
    /// The command ended with this exit status; its standard error, first line.
    #[error("command ended with status {0}{separator}{1}", separator = if .1.is_empty() { "" } else { ": " })]
    CommandFailed(i32, Arc<str>),
    /// The reply did not come within the budget.
    #[error("no reply within the budget")]
    Timeout,
    /// A process hangs in the kernel at this place, and SIGKILL does not end it: nobody is asked there again.
    #[error("a process hangs in the kernel at {0}, and cannot be killed")]
    Stuck(Arc<str>),
    /// The process that asked died of this.
    #[error("the asking process died: {0}")]
    Crash(Arc<str>),
    /// More bytes than a reply may have.
    #[error("reply too large")]
    TooLarge,
    /// The question was not put to the machine, on purpose: why.
    #[error("not asked: {0}")]
    NotAsked(Arc<str>),
    /// The question is not in the recording, or not in the examined directory: neither present nor absent.
    #[error("not recorded")]
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

    /// True where what was asked, or the process that asked it, failed: neither an answer, nor an absence, nor withheld, nor
    /// ordinary for this question (`ordinary_reply.toml`).
    pub fn is_damage(&self, question: &Question) -> bool {
        self.is_failure() && !ordinary_reply::is_refused_so(question, self)
    }

    /// The same of a question that is not known: no refusal is ordinary for it.
    pub fn is_failure(&self) -> bool {
        match self {
            Refusal::Errno(_) => !self.is_absence() && !self.is_permission(),
            Refusal::CommandFailed(..)
            | Refusal::Timeout
            | Refusal::Stuck(_)
            | Refusal::Crash(_)
            | Refusal::TooLarge => true,
            Refusal::LibraryMissing(_)
            | Refusal::SymbolMissing(_)
            | Refusal::CommandMissing
            | Refusal::NotAsked(_)
            | Refusal::NotRecorded => false,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_absent_nor_withheld_nor_ordinary_is_damage() {
        let speed = Question::read("/sys/class/net/eth0/speed");
        let mtu = Question::read("/sys/class/net/eth0/mtu");
        for (refusal, of_speed, of_mtu) in [
            (Refusal::Errno(Errno::ENOENT), false, false),
            (Refusal::Errno(Errno::EOPNOTSUPP), false, false),
            (Refusal::Errno(Errno::EACCES), false, false),
            (Refusal::Errno(Errno::EINVAL), false, true),
            (Refusal::Errno(Errno::ENOMEM), true, true),
            (Refusal::Errno(Errno(250)), true, true),
            (Refusal::TooLarge, true, true),
            (Refusal::NotRecorded, false, false),
        ] {
            assert_eq!(refusal.is_damage(&speed), of_speed, "{refusal}");
            assert_eq!(refusal.is_damage(&mtu), of_mtu, "{refusal}");
        }
        let failed = |words: &str| Refusal::CommandFailed(1, words.into());
        let units = Question::run(&["systemctl", "show", "opensm.service"]);
        let words = "System has not been booted with systemd as init system (PID 1).";
        assert!(!failed(words).is_damage(&units));
        assert!(failed("Connection timed out").is_damage(&units));
        assert!(failed(words).is_damage(&Question::run(&["nft", "list"])));
    }

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
