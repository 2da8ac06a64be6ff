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

use std::sync::Arc;

pub use answer::{Answer, Micros, Reply};
pub use errno::Errno;
pub use question::Question;
pub use refusal::Refusal;

/// The call of which the reply says what outputs of tools a text holds.
pub const OUTPUTS: &str = "outputs";

/// Something that answers questions about a machine: the machine, or a recording of it.
pub trait Source {
    /// Puts one question. The same question may be put again (two readings of a counter): replies keep their order.
    fn ask(&self, question: &Question) -> Reply;

    /// The names in a directory of which files are known, where nobody lists it: of a text in which somebody shows some files. None where a machine was
    /// asked, which lists it.
    fn shown_below(&self, _directory: &str) -> Vec<Arc<str>> {
        Vec::new()
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn ask(&self, question: &Question) -> Reply {
        (**self).ask(question)
    }

    fn shown_below(&self, directory: &str) -> Vec<Arc<str>> {
        (**self).shown_below(directory)
    }
}
