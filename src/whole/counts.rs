//! How many verdicts of each kind there are.

use serde::Serialize;

use crate::check::{Catalogue, Outcome, Severity, Verdict};

/// How many verdicts of each kind: they add up.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    /// Checks that were judged.
    pub checks: usize,
    /// Verdicts: one for each check and subject.
    pub verdicts: usize,
    /// Verdicts that pass.
    pub passes: usize,
    /// Verdicts that fail with severity error.
    pub errors: usize,
    /// Verdicts that fail with severity warning.
    pub warnings: usize,
    /// Verdicts that fail with severity note.
    pub notes: usize,
    /// Verdicts that fail and are waived.
    pub waived: usize,
    /// Verdicts that are unknown.
    pub unknown: usize,
    /// Verdicts of checks that do not apply.
    pub does_not_apply: usize,
}

impl Counts {
    /// Counts verdicts.
    pub fn of(catalogue: &Catalogue, verdicts: &[Verdict]) -> Self {
        let mut counts = Counts {
            checks: catalogue.count(),
            verdicts: verdicts.len(),
            ..Counts::default()
        };
        for verdict in verdicts {
            let severity = catalogue.checks[verdict.check].severity;
            let kind = match (&verdict.outcome, severity) {
                (Outcome::Passes(_), _) => &mut counts.passes,
                (Outcome::Fails, Severity::Error) => &mut counts.errors,
                (Outcome::Fails, Severity::Warning) => &mut counts.warnings,
                (Outcome::FailsIf, Severity::Error | Severity::Warning) => &mut counts.warnings,
                (Outcome::Fails | Outcome::FailsIf, Severity::Note) => &mut counts.notes,
                (Outcome::Waived(_), _) => &mut counts.waived,
                (Outcome::DoesNotApply, _) => &mut counts.does_not_apply,
                (Outcome::Unknown(_), _) => &mut counts.unknown,
            };
            *kind += 1;
        }
        counts
    }

    /// Adds the verdicts of another node by the same checks.
    pub fn add(&mut self, other: &Counts) {
        self.checks = other.checks;
        self.verdicts += other.verdicts;
        self.passes += other.passes;
        self.errors += other.errors;
        self.warnings += other.warnings;
        self.notes += other.notes;
        self.waived += other.waived;
        self.unknown += other.unknown;
        self.does_not_apply += other.does_not_apply;
    }
}
