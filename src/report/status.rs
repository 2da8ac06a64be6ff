//! The status of a report: what its contents are worth.

use super::headline::{UNKNOWN_WARNING, unknown_failure};
use super::{AreaLine, Finding, Policy, areas};
use crate::check::{Catalogue, Severity};
use crate::diagnosis::areas::RequiredAreas;
use crate::exit::Exit;
use crate::whole::Contribution;

/// Whether what people gave could have shown no error, or shows a failure that no table has.
fn is_blind(said: &Contribution, notes: &[Finding], policy: &Policy) -> bool {
    let given = said.nodes.iter().any(|node| node.given.is_some());
    let could_show = said.areas.iter().any(|area| area.could_show);
    let fails = unknown_failure(notes).is_some_and(|note| note.check != UNKNOWN_WARNING);
    let is_open = !could_show || fails;
    policy.require == RequiredAreas::Own && given && is_open
}

/// What contents are worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status {
    /// The exit status.
    pub(super) exit: Exit,
    /// Its word in the report.
    pub(super) word: &'static str,
}

impl Status {
    /// Not all that counts is known.
    pub(super) const UNDECIDED: Status = Status {
        exit: Exit::Undecided,
        word: "undecided",
    };
}

/// Precedence 2 > 3 > 1 > 0. Zero devices, zero checks, zero verdicts never pass.
pub(super) fn status(
    catalogue: &Catalogue,
    said: &Contribution,
    notes: &[Finding],
    policy: &Policy,
) -> Status {
    let counts = &said.counts;
    let failing = match policy.fail_on {
        Severity::Error => counts.errors,
        Severity::Warning => counts.errors + counts.warnings,
        Severity::Note => counts.errors + counts.warnings + counts.notes,
    };
    // Chosen checks must be decided.
    let open = (policy.strict || catalogue.is_chosen) && counts.unknown > 0;
    let wanting = said.areas.iter().any(AreaLine::is_wanting);
    let unjudged = counts.passes + counts.warnings + counts.notes + counts.waived == 0;
    // The areas define what a node requires.
    let has_areas = !catalogue.areas.is_empty() && !said.nodes.is_empty();
    let nothing = said.is_empty && !has_areas;
    let (exit, word) = if failing > 0 {
        (Exit::Errors, "errors")
    } else if open || wanting || !said.damage.is_empty() || nothing || unjudged {
        (Exit::Undecided, "undecided")
    } else if counts.warnings > 0 {
        (Exit::Warnings, "warnings")
    } else if said.is_left_open || is_blind(said, notes, policy) {
        (Exit::Undecided, "undecided")
    } else if said.withheld == 0 && areas::are_whole(&said.areas) {
        (Exit::Healthy, "healthy")
    } else {
        (Exit::Healthy, "no-fault-found")
    };
    Status { exit, word }
}
