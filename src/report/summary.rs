//! What a program that triages needs of a report, in one object of a few fields.

use serde::Serialize;

use super::remedy::{self, RemedyLine, pasted};
use super::{AreaLine, Finding, Report};
use crate::check::Severity;
use crate::sentence::Sentence;

/// The answer for scripts and agents.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// The answer in one sentence.
    pub headline: String,
    /// As `status` of the report.
    pub status: &'static str,
    /// The exit status.
    pub exit: u8,
    /// The check of the finding that leads, if there is one.
    pub cause: Option<String>,
    /// For what that fails.
    pub subject: Option<String>,
    /// `error`, `warning` or `note`.
    pub severity: Option<&'static str>,
    /// `proven` by facts; `presumed` if it holds only under a premise that is not known to be met; `open` if nothing
    /// was found and a required area was not examined; `none` if nothing was found.
    pub confidence: &'static str,
    /// The command to run next: the first of the remedy, else what explains the verdict.
    pub next: Option<String>,
    /// How many findings of each severity there are, as text lists them.
    pub errors: usize,
    /// The same of warnings.
    pub warnings: usize,
    /// The same of notes on which somebody acts.
    pub notes: usize,
    /// The areas that were not examined, or in part only.
    pub not_examined: Vec<String>,
}

impl Summary {
    /// That of a report.
    pub fn of(report: &Report) -> Self {
        let notes = report.notes.iter().find(|note| !note.background);
        let lead = report.causes.first().or(notes);
        let is_open = report.areas.iter().any(AreaLine::is_wanting) || !report.damage.is_empty();
        let confidence = match lead {
            Some(lead) if lead.premise.is_some() => "presumed",
            Some(_) => "proven",
            None if is_open => "open",
            None => "none",
        };
        let is_seen = |area: &&AreaLine| matches!(area.state, "partly" | "not-examined");
        let not_examined = report.areas.iter().filter(is_seen);
        Summary {
            headline: report.headline.to_string(),
            status: report.status,
            exit: report.exit,
            cause: lead.map(|lead| lead.check.clone()),
            subject: lead.map(|lead| lead.subject.clone()),
            severity: lead.map(|lead| lead.severity),
            confidence,
            next: lead.map(next_command),
            errors: report.listed(Severity::Error),
            warnings: report.listed(Severity::Warning),
            notes: report.listed(Severity::Note),
            not_examined: not_examined.map(|area| area.area.clone()).collect(),
        }
    }
}

/// The first command of the remedy, else the one that explains the check.
fn next_command(lead: &Finding) -> String {
    first_command(&lead.fix).unwrap_or_else(|| format!("rdma-doctor explain {}", lead.check))
}

fn first_command(fix: &Sentence) -> Option<String> {
    let lines = remedy::lines(fix);
    lines.iter().find_map(|line| match line {
        RemedyLine::Command(command, after) => Some(pasted(command, after)),
        RemedyLine::Words(_) => None,
    })
}
