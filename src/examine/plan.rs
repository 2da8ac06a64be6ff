//! The plan of a triage: what is measured, on one node or several, and the one cause that follows.

pub mod preview;
mod several_nodes;

use std::time::Duration;

pub use self::several_nodes::{SeveralNodes, put_pairs};
use super::budget::ClusterMemory;
use super::many::{self, Gathering};
use super::one;
use crate::check::Catalogue;
use crate::fact::{self, Facts, Id, Limits};
use crate::measure::plan::bottleneck::Bottleneck;
use crate::measure::plan::collective::IN_HOST_MEMORY;
use crate::measure::plan::p2p;
use crate::measure::plan::pairs::{Results as PairResults, Silent, verdict};
use crate::measure::plan::rank_choice::ChosenRanks;
use crate::measure::plan::results::Results;
use crate::measure::plan::run::{NAME, Point};
use crate::measure::plan::scope::{Scope, Scopes};
use crate::measure::run::ablation::AblationRequest;
use crate::measure::run::copies::measure_copies;
use crate::measure::run::progress::ShowProgress;
use crate::report::ablation::Ablation;
use crate::report::html::{self, Markup, charts};
use crate::report::triage::{Answer, SeenBetweenNodes};
use crate::report::{self, Finding, Policy, Report};
use crate::sentence::Sentence;
use crate::source::recording::Recording;

/// What a triage measures, and for how long.
pub struct TriagePlan {
    /// Smaller messages.
    pub quick: bool,
    /// Copies between GPUs, and pairs of however many nodes.
    pub full: bool,
    /// The size of the all-reduce, if somebody asked for one.
    pub size: Option<u64>,
    /// No step begins after this time.
    pub budget: Duration,
    /// How long a run may take.
    pub deadline: Duration,
    /// The row of each port's GID table.
    pub gid_index: Option<u64>,
    /// Whether GPUs take part that other processes use.
    pub force: bool,
    /// What each node's link should carry in bits per second, by the word of a person.
    pub link: Option<u64>,
    /// What is taken away from NCCL, one after the other.
    pub arms: AblationRequest,
}

/// A copy between GPUs, and how often it is timed; where a smaller size was asked for, what still
/// tells of bandwidth.
const COPY: u64 = 256 << 20;
const COPY_LEAST: u64 = 16 << 20;
const COPIES: u64 = 5;

impl TriagePlan {
    /// Measures copies between the GPUs of these ranks, which are this node's.
    pub fn copies(&self, recording: &mut Recording, own: &ChosenRanks, show: ShowProgress) {
        let gpus = own.ranks.iter().filter_map(|rank| rank.gpu.as_deref());
        let plan = p2p::Plan {
            size: self.size.map_or(COPY, |size| size.clamp(COPY_LEAST, COPY)),
            trials: COPIES,
            gpus: gpus.map(Into::into).collect(),
        };
        measure_copies(recording, &plan, self.deadline, show);
    }

    /// One all-reduce in the host's memory.
    pub fn in_host_memory(&self, ranks: &ChosenRanks) -> Vec<Point> {
        let part = if self.quick { 4 } else { 1 };
        let bytes = self.size.unwrap_or(IN_HOST_MEMORY / part);
        vec![Point {
            adaptive: self.size.is_none(),
            ..Point::all_reduce(bytes, ranks.ranks.len() as u64)
        }]
    }
}

/// What rank 0 has of the other nodes.
pub struct OtherNodes {
    /// The name of each giver of a recording, and its text.
    pub given: Vec<(String, Vec<u8>)>,
    /// The nodes that did not respond.
    pub silent: Vec<Silent>,
}

/// What was measured, by the recording of the node that led.
pub struct Measured {
    /// The recording.
    pub recording: Recording,
    /// Why nothing was measured.
    pub why: Option<String>,
    /// The other nodes, if there are any.
    pub others: Option<OtherNodes>,
}

/// The outcome of a triage.
pub struct Triage {
    /// The report, whose headline is the answer.
    pub report: Report,
    /// The answer of several nodes.
    pub answer: Option<Answer>,
    /// What was measured with one path taken away after the other.
    pub ablation: Option<Ablation>,
    /// What is said below the headline.
    pub said: Option<Sentence>,
    /// Why nothing was measured.
    pub why: Option<String>,
}

/// Judges what was measured. `draws` says whether the report is drawn.
///
/// # Errors
///
/// A drawing cannot be made.
pub fn judge(
    catalogue: &Catalogue,
    measured: Measured,
    policy: &Policy,
    draws: bool,
) -> anyhow::Result<Triage> {
    let Measured {
        recording,
        why,
        others,
    } = measured;
    let limits = catalogue.limits.clone();
    let own = std::slice::from_ref(&recording);
    let (mut facts, nodes) = one::facts_within(limits.clone(), own);
    let is_of_several = others.is_some();
    let mut report = match others {
        None => {
            let verdicts = one::verdicts(catalogue, &mut facts, &nodes, own);
            let mut report = report::report(catalogue, &facts, &verdicts, &nodes, policy);
            if let ([node], true) = (nodes.as_slice(), draws) {
                report.drawn = html::of_node(catalogue, &facts, &verdicts, node.id)?;
            }
            report
        }
        Some(others) => {
            let gathering = Gathering {
                own: &recording,
                given: &others.given,
                expected: None,
                silent: others.silent,
                memory: ClusterMemory::default(),
                tried: None,
            };
            many::gathered(catalogue, gathering, policy)
        }
    };
    if is_of_several {
        without_reporter(&mut report);
    }
    let arms = nodes.first().map(|node| Ablation::of(&facts, node.id));
    let ablation = arms.filter(Ablation::is_measured);
    let seen = between_nodes(
        &recording,
        &facts,
        nodes.first().map(|node| node.id),
        &limits,
    );
    let answer = Answer::of(&report, &seen);
    if let Some(answer) = &answer
        && (answer.has_finding() || report.causes.is_empty())
    {
        lead(&mut report, answer);
    }
    let nothing = not_measured(ablation.is_some(), why.as_deref());
    if nothing.is_some() || answer.as_ref().is_some_and(|answer| answer.is_open) {
        report.leave_open();
    }
    if lacks_baseline(&recording) {
        report.leave_open();
    }
    if let (Some(nothing), true, None) = (&nothing, report.causes.is_empty(), &answer) {
        report.headline.clone_from(nothing);
    }
    // A triage's answer may take a second line.
    if let Some(first) = report.causes.first().filter(|cause| is_measured(cause))
        && answer.is_none()
        && !report.headline.begins_with(&first.sentence)
    {
        let more = report::other_causes(report.causes.len(), "");
        report.headline = first.sentence.then_optionally(more);
    }
    let sentence = match (&answer, &ablation) {
        (Some(answer), _) => Some(answer.sentence.clone()),
        (None, Some(ablation)) => ablation
            .sentence()
            .map(|said| Sentence::from("measured: ").then(said)),
        (None, None) => nothing,
    };
    let said = sentence.filter(|said| *said != report.headline);
    if draws {
        draw(&mut report, said.as_ref(), ablation.as_ref())?;
    }
    Ok(Triage {
        report,
        answer,
        ablation,
        said,
        why,
    })
}

/// What all nodes measured together is no finding of the node that recorded it.
fn without_reporter(report: &mut Report) {
    let causes = report.causes.iter_mut().chain(&mut report.notes);
    for cause in causes.filter(|cause| is_measured(cause)) {
        if report.headline.begins_with(&cause.sentence) {
            report.headline = report.headline.without_nodes();
        }
        cause.sentence = cause.sentence.without_nodes();
        for further in &mut cause.further {
            *further = further.without_nodes();
        }
    }
}

/// Whether a finding is of a measurement.
fn is_measured(finding: &Finding) -> bool {
    let kinds = ["ablation/", "bench/", "pairs/"];
    kinds.iter().any(|kind| finding.check.starts_with(kind))
}

/// The answer leads, and the cause that it names comes first.
fn lead(report: &mut Report, answer: &Answer) {
    report.headline.clone_from(&answer.sentence);
    let is_named = |cause: &Finding| {
        let mut all = std::iter::once(&cause.sentence).chain(&cause.further);
        all.any(|said| answer.leading() == Some(said))
    };
    if let Some(at) = report.causes.iter().position(is_named) {
        report.causes[..=at].rotate_right(1);
    }
}

/// Why nothing is said of a measurement.
fn not_measured(is_measured: bool, why: Option<&str>) -> Option<Sentence> {
    match (is_measured, why) {
        (true, _) => None,
        (false, Some(why)) => Some(format!("not measured: {why}").into()),
        (false, None) => Some("not measured: this recording holds no measurement".into()),
    }
}

/// Whether a measurement began and not one of its runs is valid: nothing is known of the network then.
fn lacks_baseline(recording: &Recording) -> bool {
    let results = Results::read(&recording.of(NAME));
    results.is_ok_and(|results| !results.runs.is_empty() && Scope::of(&results, None).is_none())
}

/// What was seen between several nodes.
fn between_nodes(
    recording: &Recording,
    facts: &Facts,
    node: Option<Id>,
    limits: &Limits,
) -> SeenBetweenNodes {
    // What a bisection alone measured was compared with no pairs and no node.
    let is_compared =
        node.is_some_and(|node| facts.known(node, fact::node::COMPARED) == Some(true));
    let scopes =
        Scopes::read(&recording.of(NAME)).filter(|scopes| is_compared || scopes.whole.is_none());
    let scopes = scopes.unwrap_or_default();
    let pairs = PairResults::read(&recording.of(crate::measure::plan::pairs::NAME)).ok();
    let bottleneck = pairs.as_ref().map(|results| {
        let suspects = verdict::suspects(results, limits);
        Bottleneck::of(results, &suspects, &scopes, limits)
    });
    let measured = Results::read(&recording.of(NAME)).ok();
    let expected = pairs.as_ref().map(|results| results.plan.expected());
    let nodes = expected.max(measured.map(|results| results.plan.nodes()));
    SeenBetweenNodes {
        nodes: nodes.unwrap_or(0),
        scopes,
        bottleneck: bottleneck.unwrap_or_default(),
        slow_below: limits.get(fact::limit::SLOW_NODES),
        explains: limits.get(fact::limit::EXPLAINS),
    }
}

/// The page begins with what is said.
fn draw(
    report: &mut Report,
    said: Option<&Sentence>,
    ablation: Option<&Ablation>,
) -> anyhow::Result<()> {
    let mut page = Markup::default();
    let shown = said.cloned().unwrap_or_default();
    page.put("<p class=\"said\">{}</p>\n", &[&shown]);
    if let (Some(ablation), true) = (ablation, report.nodes.len() > 1) {
        charts::ablation(&mut page, ablation)?;
    }
    page.append(&report.drawn.above);
    report.drawn.above = page;
    Ok(())
}
