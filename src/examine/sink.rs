//! Where goes what a person is told beside the report.

use crate::live::worker::Progress;

/// Standard error, or what stands in its place: all that is told while something is examined
/// passes through it.
pub trait Sink: Sync {
    /// What is waited for, measured or counted.
    fn progress(&self, event: Progress<'_>);

    /// Tells a person what is not in the report.
    fn say(&self, what: &str);
}

/// Tells nobody.
pub struct Silent;

impl Sink for Silent {
    fn progress(&self, _: Progress<'_>) {}

    fn say(&self, _: &str) {}
}
