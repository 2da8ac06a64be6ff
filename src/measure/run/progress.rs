//! How a measurement says what it is doing.

use crate::live::worker::Progress;

/// Shows a step to a person. The command line has the display.
pub type ShowProgress = fn(Progress<'_>);
