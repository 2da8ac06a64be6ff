//! What the verdicts say of each device, by which a drawing has its colours.

use std::collections::HashMap;

use crate::check::{Catalogue, Outcome, Severity, Verdict};
use crate::fact::{Facts, Subject};

/// The worst verdict on a device, the least bad first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// No check of it was decided.
    #[default]
    Unjudged,
    /// At least one check passed, and none failed.
    Clean,
    /// A note.
    Note,
    /// A warning.
    Warning,
    /// An error.
    Error,
}

impl Mark {
    /// Its class in a drawing.
    fn class(self) -> &'static str {
        match self {
            Mark::Unjudged => "unjudged",
            Mark::Clean => "clean",
            Mark::Note => "note",
            Mark::Warning => "warning",
            Mark::Error => "error",
        }
    }
}

/// The marks of a node, by subject and name.
#[derive(Debug, Default)]
pub struct Marks(HashMap<(Subject, String), (Mark, Vec<String>)>);

impl Marks {
    /// The marks of these verdicts.
    pub fn of(catalogue: &Catalogue, facts: &Facts, verdicts: &[Verdict]) -> Self {
        let mut marks = Marks::default();
        for verdict in verdicts {
            let check = &catalogue.checks[verdict.check];
            let mark = match (verdict.outcome, check.severity) {
                (Outcome::Passes(_), _) => Mark::Clean,
                (Outcome::Fails | Outcome::FailsIf, Severity::Note) => Mark::Note,
                (Outcome::Fails | Outcome::FailsIf, Severity::Warning) => Mark::Warning,
                (Outcome::Fails | Outcome::FailsIf, Severity::Error) => Mark::Error,
                _ => continue,
            };
            // A counter is its port's, an NVLink its GPU's.
            let id = facts.stands_for(verdict.subject);
            let subject = facts.subject(id);
            let named = match subject {
                Subject::Nvlink => facts.parent(id).unwrap_or(id),
                _ => id,
            };
            let key = (subject, facts.name(named).to_owned());
            let (worst, checks) = marks.0.entry(key).or_default();
            *worst = mark.max(*worst);
            if mark > Mark::Clean && !checks.contains(&check.id.to_string()) {
                checks.push(check.id.to_string());
            }
        }
        marks
    }

    /// The class of the worst mark of these, and the checks that fail.
    pub fn worst<'n>(
        &self,
        of: impl IntoIterator<Item = (Subject, &'n str)>,
    ) -> (&'static str, String) {
        let found = of
            .into_iter()
            .filter_map(|(subject, name)| self.0.get(&(subject, name.to_owned())));
        let mut worst = Mark::Unjudged;
        let mut checks: Vec<&str> = Vec::new();
        for (mark, failing) in found {
            worst = worst.max(*mark);
            checks.extend(failing.iter().map(String::as_str));
        }
        (worst.class(), checks.join(", "))
    }
}
