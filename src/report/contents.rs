//! What there is to report, before its status and its headline are known.

use super::finding::findings;
use super::headline::headline;
use super::status::status;
use super::{Finding, Policy, Report};
use crate::check::{Catalogue, Severity};
use crate::whole::Contribution;

/// The contents of a report.
#[derive(Default)]
pub(super) struct Contents {
    /// What is said of the nodes; its failures are in the causes.
    pub(super) said: Contribution,
    /// Root causes, notes among them.
    pub(super) causes: Vec<Finding>,
}

impl Contents {
    /// Those of what is said of nodes whose facts are here.
    pub(super) fn new(catalogue: &Catalogue, mut said: Contribution) -> Self {
        let failures = std::mem::take(&mut said.failures);
        let causes = findings(catalogue, failures, said.nodes.len() > 1);
        Contents { said, causes }
    }

    /// The report with its status and its headline.
    pub(super) fn into_report(mut self, catalogue: &Catalogue, policy: &Policy) -> Report {
        let causes = std::mem::take(&mut self.causes).into_iter();
        let is_note = |one: &Finding| catalogue.checks[one.place].severity == Severity::Note;
        let (notes, causes): (Vec<Finding>, Vec<Finding>) = causes.partition(is_note);
        self.causes = causes;
        let (exit, status) = status(catalogue, &self.said, &notes, policy);
        let headline = headline((exit, status), &self, &notes);
        let said = self.said;
        let open = said.open.into_iter();
        Report {
            headline,
            status,
            exit: exit.code(),
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
}
