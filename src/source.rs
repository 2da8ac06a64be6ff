//! Asking a machine: questions, answers, refusals, and the one trait that answers them.
//!
//! A reply is kept as it came, before any parsing, so that a better parser improves old recordings.

pub mod answer;
pub mod errno;
pub mod failed_call;
pub mod kernel_log_markers;
pub mod named_format;
pub(crate) mod netlink;
pub mod ordinary_reply;
pub mod question;
pub mod recorder;
pub mod recording;
pub mod redact;
pub mod refusal;
#[cfg(test)]
pub(crate) mod testing;
pub mod wire;

pub use answer::{Answer, Micros, Reply};
pub use errno::Errno;
pub use question::Question;
pub use refusal::Refusal;

/// Something that answers questions about a machine: the machine, or a recording of it.
pub trait Source {
    /// Puts one question. The same question may be put again (two readings of a counter): replies keep their order.
    fn ask(&self, question: &Question) -> Reply;
}

impl<S: Source + ?Sized> Source for &S {
    fn ask(&self, question: &Question) -> Reply {
        (**self).ask(question)
    }
}
