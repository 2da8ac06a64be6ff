//! What a node gives to the whole, after which its facts can be dropped; or what several nodes give
//! whose facts stay.

use std::net::IpAddr;

use super::area_line::{self, AreaLine};
use super::counts::Counts;
use super::damage::damage;
use super::evidence::Pass;
use super::failure::Failure;
use super::node_head::{NodeHead, RecordedNode};
use super::open_question::UnwordedQuestion;
use super::peers;
use super::waived_finding::WaivedFinding;
use super::wording::Writer;
use crate::check::{Catalogue, Lacks, Verdict};
use crate::derive::comparison::Sample;
use crate::diagnosis::areas::RequiredAreas;
use crate::fact::event::{self, LogClass};
use crate::fact::{Bytes, Facts, Id, Subject, benchmark, node};
use crate::sentence::{Sentence, Span};

/// The most that each part of one node's contribution may take in memory, in bytes: many times what
/// the worst real node needs.
const PART: usize = 4 << 20;
/// How many such parts what passed may take: there is some of each check and subject.
const OF_PASSES: usize = 4;

/// What is said of nodes.
#[derive(Default)]
pub struct Contribution {
    /// The nodes.
    pub nodes: Vec<NodeHead>,
    /// What failed: the causes in their order, notes among them, each followed by what it explains.
    pub failures: Vec<Failure>,
    /// How far each area was examined.
    pub areas: Vec<AreaLine>,
    /// The damage, the most severe first.
    pub damage: Vec<Sentence>,
    /// What failed and is waived.
    pub waived: Vec<WaivedFinding>,
    /// What could not be decided.
    pub open: Vec<UnwordedQuestion>,
    /// Probes that did not end well.
    pub probe_failures: Vec<Sentence>,
    /// What passed, if that is wanted.
    pub passes: Vec<Pass>,
    /// How many verdicts of each kind.
    pub counts: Counts,
    /// How long the machine was asked that took longest.
    pub micros: u64,
    /// How many questions were refused for lack of permission.
    pub withheld: u64,
    /// Whether there is no device, no run and no measurement.
    pub is_empty: bool,
    /// Whether something that was given leaves open whether all is well.
    pub is_left_open: bool,
    /// What of a node is compared with others, where its facts do not stay.
    pub compared: Option<Sample>,
    /// The addresses by which others name the node.
    pub addresses: Vec<IpAddr>,
}

impl Contribution {
    /// That of one node to the whole, bounded: what each part has no room for is counted as damage.
    pub fn of_node(
        catalogue: &Catalogue,
        facts: &Facts,
        verdicts: (&[Verdict], &Lacks<'_>),
        recorded: RecordedNode,
        compared: Sample,
        require: &RequiredAreas,
        with_passes: bool,
    ) -> Self {
        let node = recorded.id;
        let said = Self::of_nodes(
            catalogue,
            facts,
            verdicts,
            &[recorded],
            require,
            with_passes,
        );
        let mut said = Contribution {
            compared: Some(compared),
            addresses: peers::addresses(facts, node),
            ..said
        };
        said.bound(PART);
        said
    }

    fn bound(&mut self, part: usize) {
        let of_sentence = |sentence: &Sentence| size_of::<Sentence>() + sentence.letters();
        let left_out = [
            ("finding", bound(&mut self.failures, part, Failure::bytes)),
            (
                "waived finding",
                bound(&mut self.waived, part, WaivedFinding::bytes),
            ),
            (
                "open question",
                bound(&mut self.open, part, UnwordedQuestion::bytes),
            ),
            (
                "failed probe",
                bound(&mut self.probe_failures, part, of_sentence),
            ),
            ("line of damage", bound(&mut self.damage, part, of_sentence)),
            (
                "pass",
                bound(&mut self.passes, OF_PASSES * part, Pass::bytes),
            ),
            (
                "address",
                bound(&mut self.addresses, part, |_| size_of::<IpAddr>()),
            ),
        ];
        for (noun, count) in left_out.into_iter().filter(|(_, count)| *count > 0) {
            let most = Bytes(part as u64);
            let more = format!("{count} more of kind {noun}: a node gives {most} of it at most");
            self.damage.push(more.into());
        }
    }

    /// That of nodes whose facts are here.
    pub fn of_nodes(
        catalogue: &Catalogue,
        facts: &Facts,
        (verdicts, lacks): (&[Verdict], &Lacks<'_>),
        recordings: &[RecordedNode],
        require: &RequiredAreas,
        with_passes: bool,
    ) -> Self {
        let writer = Writer {
            catalogue,
            facts,
            several: recordings.len() > 1,
        };
        let probe_failures = facts.failures().map(|(id, _, how)| match writer.several {
            true => Sentence::from(Span::On(facts.shared_name(id))).then(how.to_owned()),
            false => how.to_owned().into(),
        });
        let causes = writer.causes(verdicts, |_| false).into_iter();
        let failures = causes.flat_map(|(_, failures)| failures);
        Contribution {
            nodes: recordings
                .iter()
                .map(|one| NodeHead::of(facts, one))
                .collect(),
            areas: area_line::of_nodes(catalogue, facts, (verdicts, lacks), recordings, require),
            damage: damage(catalogue, facts, recordings),
            failures: failures.collect(),
            waived: writer.waived(verdicts),
            open: writer.open(verdicts, lacks),
            probe_failures: probe_failures.collect(),
            passes: if with_passes {
                writer.passes(verdicts)
            } else {
                Vec::new()
            },
            counts: Counts::of(catalogue, verdicts),
            micros: recordings.iter().map(|one| one.micros).max().unwrap_or(0),
            withheld: withheld(facts),
            is_empty: is_empty(facts),
            is_left_open: is_left_open(facts),
            compared: None,
            addresses: Vec::new(),
        }
    }
}

/// Whether there is no device, no run and no measurement.
pub fn is_empty(facts: &Facts) -> bool {
    let subjects = [
        Subject::Device,
        Subject::Run,
        Subject::Trace,
        Subject::LiveJob,
        Subject::Benchmark,
        Subject::Measurement,
    ];
    let mut all = subjects.into_iter().flat_map(|subject| facts.all(subject));
    all.next().is_none()
}

/// Whether something that was given leaves open whether all is well: a line of a log reports a
/// failure that no table has, and nothing else failed, or a benchmark outside of a run reached what
/// nothing can be compared with.
pub fn is_left_open(facts: &Facts) -> bool {
    let mut events = facts.all(Subject::Event);
    let is_unknown = events.any(|id| {
        facts.known(id, event::CLASS) == Some(LogClass::Uncatalogued)
            && facts.known(id, event::LEADS) == Some(true)
    });
    let mut figures = facts.all(Subject::Benchmark);
    is_unknown || figures.any(|id| is_figure_alone(facts, id))
}

/// Whether a benchmark stands outside of a run, and nothing tells what it could have reached.
pub fn is_figure_alone(facts: &Facts, id: Id) -> bool {
    facts.all(Subject::Run).next().is_none()
        && facts.known(id, benchmark::BANDWIDTH).is_some()
        && facts.known(id, benchmark::SMALL) == Some(false)
        && facts.known(id, benchmark::COMPARED) != Some(true)
}

/// How many questions were refused for lack of permission, on all nodes.
fn withheld(facts: &Facts) -> u64 {
    let of = |id| facts.known(id, node::WITHHELD).unwrap_or(0);
    facts.all(Subject::Node).map(of).sum()
}

/// Cuts a part of a contribution behind so many bytes; how many of its members are left out.
fn bound<T>(part: &mut Vec<T>, most: usize, bytes: impl Fn(&T) -> usize) -> usize {
    let mut sum = 0;
    let is_beyond = |one: &T| {
        sum += bytes(one);
        sum > most
    };
    let all = part.len();
    let kept = part.iter().position(is_beyond).unwrap_or(all);
    part.truncate(kept);
    all - kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted_and_said() {
        let failures = (0..10).map(|n| format!("{n:100}").into());
        let mut said = Contribution {
            probe_failures: failures.collect(),
            ..Contribution::default()
        };
        said.bound(PART);
        assert_eq!((said.probe_failures.len(), said.damage.len()), (10, 0));
        said.bound(450);
        assert_eq!(said.probe_failures.len(), 3);
        let said: Vec<String> = said.damage.iter().map(Sentence::to_string).collect();
        assert_eq!(
            said,
            ["7 more of kind failed probe: a node gives 450 B of it at most"]
        );
    }
}
