//! What nodes that are judged together have to report, before its status and its headline are known.

use super::damage::damage;
use super::headline::headline;
use super::open_question::UnwordedQuestion;
use super::status::status;
use super::writer::Writer;
use super::{
    AreaLine, Counts, Finding, NodeHead, Pass, Policy, RecordedNode, Report, WaivedFinding, areas,
};
use crate::check::{Catalogue, Lacks, Severity, Verdict};
use crate::diagnosis;
use crate::fact::event::{self, LogClass};
use crate::fact::{Facts, Subject, node};
use crate::sentence::{Sentence, Span};

/// The contents of a report.
#[derive(Default)]
pub struct Contents {
    pub(super) nodes: Vec<NodeHead>,
    pub(super) areas: Vec<AreaLine>,
    /// The damage, the most severe first.
    pub(super) damage: Vec<Sentence>,
    /// Root causes, notes among them.
    pub(super) causes: Vec<Finding>,
    pub(super) waived: Vec<WaivedFinding>,
    pub(super) open: Vec<UnwordedQuestion>,
    pub(super) failures: Vec<Sentence>,
    pub(super) passes: Vec<Pass>,
    pub(super) counts: Counts,
    /// How long the machine was asked that took longest.
    pub(super) micros: u64,
    /// How many questions were refused for lack of permission.
    pub(super) withheld: u64,
    /// Whether there is no device, no run and no measurement.
    pub(super) is_empty: bool,
    /// Whether a log has a line that reports a failure of which nothing is known.
    pub(super) has_unknown_failure: bool,
}

impl Contents {
    /// Those of nodes, whose facts can be dropped afterwards.
    pub fn of_nodes(
        catalogue: &Catalogue,
        facts: &Facts,
        (verdicts, lacks): (&[Verdict], &Lacks<'_>),
        recordings: &[RecordedNode],
        policy: &Policy,
    ) -> Self {
        let writer = Writer {
            catalogue,
            facts,
            several: recordings.len() > 1,
        };
        let causes = diagnosis::diagnose(catalogue, facts, verdicts);
        let failures = facts.failures().map(|(id, _, how)| match writer.several {
            true => Sentence::from(Span::On(facts.shared_name(id))).then(how.to_owned()),
            false => how.to_owned().into(),
        });
        Contents {
            nodes: recordings
                .iter()
                .map(|one| NodeHead::of(facts, one))
                .collect(),
            areas: areas::of_nodes(
                catalogue,
                facts,
                (verdicts, lacks),
                recordings,
                &policy.require,
            ),
            damage: damage(catalogue, facts, recordings),
            causes: causes.iter().map(|cause| writer.finding(cause)).collect(),
            waived: writer.waived(verdicts),
            open: writer.open(verdicts, lacks),
            failures: failures.collect(),
            passes: match policy.with_passes {
                true => writer.passes(verdicts),
                false => Vec::new(),
            },
            counts: Counts::of(catalogue, verdicts),
            micros: recordings.iter().map(|one| one.micros).max().unwrap_or(0),
            withheld: withheld(facts),
            is_empty: is_empty(facts),
            has_unknown_failure: has_unknown_failure(facts),
        }
    }

    /// The report with its status and its headline.
    pub(super) fn into_report(mut self, catalogue: &Catalogue, policy: &Policy) -> Report {
        let causes = std::mem::take(&mut self.causes).into_iter();
        let is_note = |one: &Finding| catalogue.checks[one.place].severity == Severity::Note;
        let (notes, causes): (Vec<Finding>, Vec<Finding>) = causes.partition(is_note);
        self.causes = causes;
        let (exit, status) = status(catalogue, &self, policy);
        let headline = headline((exit, status), &self, &notes);
        let open = self.open.into_iter();
        Report {
            headline,
            status,
            exit: exit.code(),
            nodes: self.nodes,
            areas: self.areas,
            damage: self.damage,
            causes: self.causes,
            notes,
            waived: self.waived,
            open: open.map(|one| one.into_words(catalogue)).collect(),
            probe_failures: self.failures,
            passes: self.passes,
            counts: self.counts,
            seconds: self.micros as f64 / 1e6,
            ..Report::default()
        }
    }
}

/// Whether there is no device, no run and no measurement.
pub(super) fn is_empty(facts: &Facts) -> bool {
    let subjects = [
        Subject::Device,
        Subject::Run,
        Subject::Benchmark,
        Subject::Measurement,
    ];
    let mut all = subjects.into_iter().flat_map(|subject| facts.all(subject));
    all.next().is_none()
}

/// Whether a line of a log reports a failure that no table has, and nothing else failed.
pub(super) fn has_unknown_failure(facts: &Facts) -> bool {
    let mut events = facts.all(Subject::Event);
    events.any(|id| {
        facts.known(id, event::CLASS) == Some(LogClass::Uncatalogued)
            && facts.known(id, event::LEADS) == Some(true)
    })
}

/// How many questions were refused for lack of permission, on all nodes.
fn withheld(facts: &Facts) -> u64 {
    let of = |id| facts.known(id, node::WITHHELD).unwrap_or(0);
    facts.all(Subject::Node).map(of).sum()
}
