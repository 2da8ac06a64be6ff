//! Logs made from a seed: healthy ones, and one for each root cause.

pub(crate) mod adapter;
pub(crate) mod bootstrap;
pub(crate) mod completion;
pub(crate) mod configuration;
pub(crate) mod container;
pub(crate) mod gpudirect;
pub(crate) mod job;
pub(crate) mod local;
mod program;
pub(crate) mod rng;
pub(crate) mod transport;
pub(crate) mod weather;

use job::Job;

/// A root cause: the check that has to lead, and what it does to a job.
pub(crate) struct Cause {
    pub(crate) check: &'static str,
    pub(crate) make: fn(&mut Job),
}

/// Declares causes.
macro_rules! causes {
    ($($check:literal => $make:expr;)*) => {
        /// The causes of this kind.
        pub(crate) const CAUSES: &[super::Cause] = &[$(super::Cause { check: $check, make: $make }),*];
    };
}
pub(crate) use causes;

/// All causes.
pub(crate) fn all() -> impl Iterator<Item = &'static Cause> {
    [
        transport::CAUSES,
        bootstrap::CAUSES,
        container::CAUSES,
        gpudirect::CAUSES,
        completion::CAUSES,
        adapter::CAUSES,
        local::CAUSES,
        configuration::CAUSES,
        program::CAUSES,
    ]
    .into_iter()
    .flatten()
}
