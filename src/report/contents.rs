//! What there is to report, before its status and its headline are known.

use super::finding::findings;
use super::headline::{UNKNOWN_WARNING, headline, unknown_failure};
use super::log::LogAnswers;
use super::status::{Status, status};
use super::{Finding, Policy, Report};
use crate::check::{Catalogue, Severity};
use crate::exit::Exit;
use crate::sentence::Sentence;
use crate::whole::Contribution;

/// The contents of a report.
#[derive(Default)]
pub(super) struct Contents {
    /// What is said of the nodes; its failures are in the causes.
    pub(super) said: Contribution,
    /// Root causes, notes among them.
    pub(super) causes: Vec<Finding>,
    /// What logs say, if some were given.
    pub(super) log: Option<LogAnswers>,
}

impl Contents {
    /// Those of what is said of nodes whose facts are here.
    pub(super) fn new(catalogue: &Catalogue, mut said: Contribution) -> Self {
        let failures = std::mem::take(&mut said.failures);
        let causes = findings(catalogue, failures, said.nodes.len() > 1);
        Contents {
            said,
            causes,
            log: None,
        }
    }

    /// The report with its status and its headline.
    pub(super) fn into_report(mut self, catalogue: &Catalogue, policy: &Policy) -> Report {
        let causes = std::mem::take(&mut self.causes).into_iter();
        let is_note = |one: &Finding| catalogue.checks[one.place].severity == Severity::Note;
        let (mut notes, causes): (Vec<Finding>, Vec<Finding>) = causes.partition(is_note);
        // Whoever gives an output asks what is in it.
        let is_given = self.said.nodes.iter().any(|node| node.given.is_some());
        for note in &mut notes {
            note.background = note.is_background() && !is_given;
        }
        self.causes = causes;
        let mut status = status(catalogue, &self.said, &notes, policy);
        // If the question is asked and has no answer, nothing is healthy.
        if self.log.as_ref().is_some_and(|log| log.is_open(catalogue))
            && matches!(status.exit, Exit::Healthy | Exit::Warnings)
        {
            status = Status::UNDECIDED;
        }
        let headline = self.headline(catalogue, status, &notes);
        let said = self.said;
        let open = said.open.into_iter();
        Report {
            headline,
            log: self.log,
            status: status.word,
            exit: status.exit.code(),
            nodes: said.nodes,
            areas: said.areas,
            damage: said.damage,
            causes: self.causes,
            notes,
            waived: said.waived,
            open: open.map(|one| one.into_words(catalogue)).collect(),
            probe_failures: said.probe_failures,
            passes: said.passes,
            counts: said.counts,
            seconds: said.micros as f64 / 1e6,
            ..Report::default()
        }
    }

    /// The answer in one sentence: of logs alone in which nothing is wrong, whether RDMA was used.
    fn headline(&mut self, catalogue: &Catalogue, status: Status, notes: &[Finding]) -> Sentence {
        if self.said.nodes.is_empty()
            && let Some(log) = &mut self.log
            && !(self.causes.is_empty() && is_quoted(log, notes))
            && let Some(said) = log.headline(catalogue, &self.causes, &self.said.damage)
        {
            log.is_in_headline = true;
            return said;
        }
        headline(status, self, notes)
    }
}

/// Whether a line that reports a failure of which nothing is known leads. A driver's line is no
/// part of a run that has its answer, and a warning of NCCL's says more than that there is none.
fn is_quoted(log: &LogAnswers, notes: &[Finding]) -> bool {
    let is_open = log.answers.iter().all(|answer| answer.rdma == "unknown");
    match unknown_failure(notes).map(|note| note.check.as_str()) {
        Some(UNKNOWN_WARNING) => is_open,
        Some(check) => log.answers.is_empty() || check.starts_with("log/"),
        None => false,
    }
}
