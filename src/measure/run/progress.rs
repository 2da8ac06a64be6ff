//! How a measurement says what it is doing.

use std::time::Instant;

use crate::live::worker::Progress;

/// The step of a run, which ends before `until`.
pub(in crate::measure::run) fn measuring<'p>(
    run: &'p str,
    step: &'p str,
    until: Option<Instant>,
) -> Progress<'p> {
    Progress::Measuring { run, step, until }
}

/// Shows a step to a person. The command line has the display.
pub type ShowProgress = fn(Progress<'_>);
