//! One node, or the machines and logs that are judged beside each other: facts, verdicts, report.

use std::collections::HashSet;
use std::sync::Arc;

use super::fresh_recordings::FreshRecording;
use crate::check::{Catalogue, Lacks, Recorded, Verdict, judge_waived};
use crate::derive::{self, comparison};
use crate::fact::{Facts, Id, Limits, Membership, Origin, Subject};
use crate::probe;
use crate::report::{self, Policy, RecordedNode, Report};
use crate::source::recording::Recording;
use crate::whole::{Contribution, peers};

/// What recordings say together, and what checks say of it.
pub struct Judged<'c> {
    /// The checks.
    pub catalogue: &'c Catalogue,
    /// What is known.
    pub facts: Facts,
    /// The machines.
    pub nodes: Vec<RecordedNode>,
    /// What checks say.
    pub verdicts: Vec<Verdict>,
}

impl<'c> Judged<'c> {
    /// Judges these recordings together.
    pub fn new(catalogue: &'c Catalogue, recordings: &[Recording]) -> Self {
        let (mut facts, nodes) = facts_within(catalogue.limits.clone(), recordings);
        let verdicts = verdicts(catalogue, &mut facts, &nodes, recordings);
        Judged {
            catalogue,
            facts,
            nodes,
            verdicts,
        }
    }

    /// The report.
    pub fn report(&self, policy: &Policy) -> Report {
        let (facts, verdicts) = (&self.facts, &self.verdicts);
        report::report(self.catalogue, facts, verdicts, &self.nodes, policy)
    }
}

/// What a report says of a node's recording.
pub fn recorded(recording: &Recording, id: Id) -> RecordedNode {
    RecordedNode {
        id,
        utc: recording.header.utc.clone(),
        altered: recording.header.altered.clone(),
        tree: recording.header.tree,
        is_complete: recording.is_complete(),
        doubt: None,
        micros: recording.duration(),
    }
}

/// The facts of this machine's recording, and its node.
pub fn own_facts(recording: &Recording) -> (Facts, Id) {
    let mut facts = Facts::new();
    let node = probe::establish(recording, &mut facts);
    derive::derive(&mut facts);
    (facts, node)
}

/// The facts of these recordings, judged together by the built-in limits.
pub fn facts(recordings: &[Recording]) -> (Facts, Vec<RecordedNode>) {
    facts_within(Limits::default(), recordings)
}

/// The facts of these recordings, judged together by these limits.
///
/// Each node comes with its recording; a recording of a log is of none.
pub fn facts_within(limits: Limits, recordings: &[Recording]) -> (Facts, Vec<RecordedNode>) {
    let mut facts = Facts::within(limits);
    let (logs, machines): (Vec<_>, Vec<_>) = recordings.iter().partition(|r| r.header.log);
    probe::nccl_log::establish_all(logs.iter().copied(), &mut facts);
    probe::ranks::establish(recordings, &mut facts);
    if machines.is_empty() && logs.is_empty() {
        let origin = Origin::derived("no node was given");
        facts.set_members(Subject::Node, Facts::CLUSTER, Membership::Known(origin));
    }
    let nodes = machines
        .into_iter()
        .map(|r| recorded(r, probe::establish(r, &mut facts)))
        .collect();
    derive::derive(&mut facts);
    peers::relate(&mut facts);
    (facts, nodes)
}

/// The verdicts on these nodes, with the site's waivers by the time of each recording.
pub fn verdicts(
    catalogue: &Catalogue,
    facts: &mut Facts,
    nodes: &[RecordedNode],
    all: &[Recording],
) -> Vec<Verdict> {
    let last = all.iter().map(|one| one.header.utc.as_str()).max();
    let last = (Facts::CLUSTER, last.unwrap_or_default());
    let nodes = nodes.iter().map(|node| (node.id, node.utc.as_str()));
    let recorded: Vec<Recorded<'_>> = nodes.chain([last]).collect();
    judge_waived(catalogue, facts, &recorded, |_| true)
}

/// Judges one of many nodes by itself: what it gives to the report and to the comparison. If it
/// gave its recording just now, its waivers expire by this machine's clock too.
pub(super) fn contribution(
    catalogue: &Catalogue,
    recording: &Recording,
    among: usize,
    policy: &Policy,
    fresh: Option<FreshRecording<'_>>,
) -> Contribution {
    let mut facts = Facts::within(catalogue.limits.clone());
    let id = probe::establish(recording, &mut facts);
    derive::of_nodes(&mut facts, among as u64);
    let mut sample = comparison::sample(&facts, id);
    let asked = fresh.and_then(|fresh| fresh.look(recording, &facts, id, &sample));
    let utc = recording.header.utc.as_str();
    let utc = asked.as_ref().map_or(utc, |asked| utc.max(&asked.now));
    let recorded_at = [(id, utc)];
    let verdicts = judge_waived(catalogue, &mut facts, &recorded_at, is_of_node);
    if sample.has_outputs() {
        sample.leave_out_outputs_with(&lines_of_failures(catalogue, &facts, &verdicts));
    }
    let lacks = Lacks::of(catalogue, &facts, &verdicts);
    let node = RecordedNode {
        doubt: asked.and_then(|asked| asked.doubt),
        ..recorded(recording, id)
    };
    let (require, with_passes) = (&policy.require, policy.with_passes);
    let verdicts = (verdicts.as_slice(), &lacks);
    Contribution::of_node(
        catalogue,
        &facts,
        verdicts,
        node,
        sample,
        require,
        with_passes,
    )
}

/// The lines of texts on which failures rest.
fn lines_of_failures(
    catalogue: &Catalogue,
    facts: &Facts,
    verdicts: &[Verdict],
) -> HashSet<Arc<str>> {
    let mut lines = HashSet::new();
    for verdict in verdicts.iter().filter(|one| one.outcome.is_failure()) {
        for fact in catalogue.checks[verdict.check].evidence(facts, verdict.subject) {
            if let Some(Origin::Logged(line)) = fact.origin {
                lines.insert(Arc::clone(&line.text));
            }
        }
    }
    lines
}

/// Whether a check of this subject is judged for each node by itself.
pub(super) fn is_of_node(subject: Subject) -> bool {
    subject.scope().any(|above| above == Subject::Node)
}
