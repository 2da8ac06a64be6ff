//! One report, written in several formats: the verdicts, the causes drawn from them, and what stays open.

pub mod ablation;
pub mod advice;
pub mod areas;
pub mod baseline;
mod clause;
pub mod collective;
pub mod difference;
pub mod expectation;
pub mod fix_script;
mod gpu_names;
pub mod html;
pub mod json;
pub mod junit;
pub mod latency;
pub mod line;
pub mod log;
pub mod many;
pub mod p2p;
pub mod pairs;
pub mod prometheus;
pub mod sarif;
pub mod test_run;
pub mod text;
pub mod topology;
pub mod triage;

use std::io::{self, Write};

use serde::Serialize;

pub use areas::AreaLine;

use crate::check::Severity;
use crate::check::{Catalogue, MissingFact};
use crate::check::{Missing, Outcome, Verdict};
use crate::diagnosis::areas::{AreaState, RequiredAreas, survey};
use crate::diagnosis::{self, Cause};
use crate::exit::Exit;
use crate::fact::{Fact, Facts, Gap, Id, Subject, node, respondent};
use crate::small_sort;

/// Version of the JSON form: `major.minor`. Fields are added in a minor version; a major one changes or removes some.
pub const SCHEMA: &str = "rdma-doctor-report/2.1";

/// A form of the report that one tool reads.
#[derive(Debug)]
pub struct ToolFormat {
    /// Its name on the command line.
    pub name: &'static str,
    /// What reads it, and what it is.
    pub about: &'static str,
    /// Whether its own rules of escaping hold, and not those of a terminal.
    pub escapes: bool,
    /// Writes it.
    pub write: fn(&mut dyn Write, &Report) -> io::Result<()>,
    /// Writes several, each with its name; none if the tool reads one at a time.
    pub each: Option<WriteEach>,
    /// The exit status, by the tool's convention.
    pub exit: fn(&Report) -> Exit,
}

/// Writes several reports, each with its name.
pub type WriteEach = fn(&mut dyn Write, &[(String, &Report)]) -> io::Result<()>;

/// The forms for tools.
pub const TOOL_FORMATS: &[ToolFormat] = &[
    line::NAGIOS,
    prometheus::FORMAT,
    line::SLURM,
    line::NPD,
    junit::FORMAT,
    sarif::FORMAT,
    html::FORMAT,
];

/// Where the line between statuses is drawn.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Findings of this severity and above make status 2.
    pub fail_on: Severity,
    /// Every open question makes status 3.
    pub strict: bool,
    /// The areas that must be examined.
    pub require: RequiredAreas,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            fail_on: Severity::Error,
            strict: false,
            require: RequiredAreas::Own,
        }
    }
}

/// The report.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of the program.
    pub doctor: &'static str,
    /// `healthy`, `no-fault-found` (as `healthy`, but not all was examined), `warnings`, `errors` or `undecided`.
    pub status: &'static str,
    /// The exit status.
    pub exit: u8,
    /// The answer in one sentence.
    pub headline: String,
    /// The examined machine.
    pub nodes: Vec<NodeHead>,
    /// The areas, and how far each was examined.
    pub areas: Vec<AreaLine>,
    /// Damage, in sentences: parts that did not respond, a truncated recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    /// Problems: root causes, the most severe first.
    pub causes: Vec<Finding>,
    /// Notes that are no fault.
    pub notes: Vec<Finding>,
    /// Findings that the site accepts for a time; they decide no status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waived: Vec<WaivedFinding>,
    /// What changed since the baseline, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<baseline::BaselineChanges>,
    /// What could not be decided.
    pub open: Vec<OpenQuestion>,
    /// Probes that did not end well.
    pub probe_failures: Vec<String>,
    /// What passed; filled with `--verbose` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<Pass>,
    /// How many verdicts of each kind.
    pub counts: Counts,
    /// Whether nodes were judged together without a key that authenticates them: each node is trusted by its address.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unauthenticated: bool,
    /// How long the machine was asked, in seconds.
    pub seconds: f64,
    /// What a page draws beside it.
    #[serde(skip)]
    pub drawn: html::Markup,
}

/// What a report contains about a recording beyond its facts.
#[derive(Clone, Debug)]
pub struct RecordedNode {
    /// The node.
    pub id: Id,
    /// When the recording was made, RFC 3339 in UTC.
    pub utc: String,
    /// How a person altered it, if it lies over another recording.
    pub altered: Option<String>,
    /// Whether a copied tree was examined.
    pub tree: bool,
    /// Whether its last line is there.
    pub is_complete: bool,
    /// How long it took, in microseconds.
    pub micros: u64,
}

/// A node that was examined.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeHead {
    /// Its name.
    pub name: String,
    /// Its kernel, where known.
    pub kernel: Option<String>,
    /// Its distribution, where known.
    pub os: Option<String>,
    /// How many RDMA devices it has, where known.
    pub devices: Option<u64>,
    /// How many of its ports are active, where known.
    pub active_ports: Option<u64>,
    /// Whether its job has other nodes, and nothing was sent to them.
    #[serde(skip)]
    pub untried_peers: bool,
    /// How many GPUs it has, where known.
    pub gpus: Option<u64>,
    /// The launcher that started the doctor there, and the rank, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<String>,
    /// When it was recorded.
    pub recorded: String,
    /// The manual changes in its recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altered: Option<String>,
    /// Whether a copied tree was examined.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
    /// Whether the recording was cut short.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A root cause, with what it explains.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// The check.
    pub check: String,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// For what the check fails; the first if there are several.
    pub subject: String,
    /// All for which it fails.
    pub subjects: Vec<String>,
    /// The nodes that it concerns, if several are judged together: those on which it was found, or that are odd among the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Observed and expected values for the first subject; behind its premise if that is not known to be met.
    pub sentence: String,
    /// The premise with which the sentence begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub premise: Option<&'static str>,
    /// The sentences for the further subjects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<String>,
    /// Why it matters.
    pub why: String,
    /// What to do, the least disruptive first.
    pub fix: String,
    /// Where to read more.
    pub see: Vec<String>,
    /// The facts that decided, for the first subject.
    pub evidence: Vec<EvidenceLine>,
    /// What fails because of it.
    pub consequences: Vec<Consequence>,
}

/// A fact that decided.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EvidenceLine {
    /// The fact, as conditions name it.
    pub fact: String,
    /// Its value in words, or why it is unknown.
    pub value: String,
    /// Where it comes from.
    pub origin: String,
    /// Whether the condition that fails names it, and not only what the check applies to.
    #[serde(skip)]
    pub decides: bool,
}

/// A finding that another explains.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Consequence {
    /// The check.
    pub check: String,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// For what it fails.
    pub subject: String,
    /// Observed and expected values.
    pub sentence: String,
}

/// A finding that a waiver accepts.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaivedFinding {
    /// The check.
    pub check: String,
    /// `error`, `warning` or `note`: what it would be.
    pub severity: &'static str,
    /// All for which it fails.
    pub subjects: Vec<String>,
    /// The nodes on which it was found, if several are judged together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Observed and expected values for the first subject.
    pub sentence: String,
    /// The id or pattern of the waiver; another than the check's if it waives what explains this.
    pub by: String,
    /// Why it is accepted.
    pub reason: String,
    /// Who answers for it.
    pub owner: String,
    /// The last day, in UTC.
    pub until: String,
}

impl WaivedFinding {
    /// Until when it is accepted, by whom, and why.
    fn terms(&self) -> String {
        format!("until {}, {}: {}", self.until, self.owner, self.reason)
    }

    /// Whether the other is the same check, accepted by the same waiver.
    fn is_like(&self, other: &Self) -> bool {
        self.check == other.check && self.by == other.by && self.terms() == other.terms()
    }
}

/// A check that could not be decided.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenQuestion {
    /// The check.
    pub check: String,
    /// The check's title.
    pub title: String,
    /// For what.
    pub subjects: Vec<String>,
    /// The area of the check.
    pub area: String,
    /// The facts that are missing, and why.
    pub missing: Vec<EvidenceLine>,
    /// What would supply them, if that is known.
    pub remedy: Option<String>,
}

/// A check that passed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pass {
    /// The check.
    pub check: String,
    /// For what.
    pub subject: String,
    /// The facts that decided.
    pub evidence: Vec<EvidenceLine>,
}

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

impl Report {
    /// The report of a recording that cannot be read: why.
    pub fn without_nodes(why: &str) -> Self {
        let damage = format!("cannot be read: {why}");
        Report {
            schema: SCHEMA,
            doctor: env!("CARGO_PKG_VERSION"),
            status: "undecided",
            exit: Exit::Undecided.code(),
            headline: format!("undecided: {damage}"),
            nodes: Vec::new(),
            areas: Vec::new(),
            damage: vec![damage],
            causes: Vec::new(),
            notes: Vec::new(),
            waived: Vec::new(),
            baseline: None,
            open: Vec::new(),
            probe_failures: Vec::new(),
            passes: Vec::new(),
            counts: Counts::default(),
            unauthenticated: false,
            seconds: 0.0,
            drawn: html::Markup::default(),
        }
    }

    /// Makes it undecided, if no error was found: what it is asked for was not measured.
    pub fn leave_open(&mut self) {
        if self.exit() != Exit::Errors {
            self.exit = Exit::Undecided.code();
            self.status = "undecided";
        }
    }

    /// The exit status as a value.
    pub fn exit(&self) -> Exit {
        Exit::from_code(self.exit.into())
    }
}

/// Draws up the report.
pub fn report(
    catalogue: &Catalogue,
    facts: &Facts,
    verdicts: &[Verdict],
    recordings: &[RecordedNode],
    policy: &Policy,
    with_passes: bool,
) -> Report {
    let causes = diagnosis::diagnose(catalogue, facts, verdicts);
    let writer = Writer {
        catalogue,
        facts,
        several: recordings.len() > 1,
    };
    let is_note = |c: &Cause| catalogue.checks[c.check].severity == Severity::Note;
    let (notes, causes): (Vec<_>, Vec<_>) = causes.into_iter().partition(is_note);
    let causes: Vec<Finding> = causes.iter().map(|c| writer.finding(c)).collect();
    let notes: Vec<Finding> = notes.iter().map(|c| writer.finding(c)).collect();
    let open = writer.open(verdicts);
    let counts = writer.count(verdicts);
    let areas = writer.areas(verdicts, recordings, &policy.require);
    let damage = damage(catalogue, facts, recordings);
    let grounds = StatusInputs {
        counts: &counts,
        areas: &areas,
        damage: &damage,
        is_chosen: catalogue.is_chosen,
        // The areas define what a node requires.
        nothing: (catalogue.areas.is_empty() || recordings.is_empty()) && is_empty(facts),
        withheld: withheld(facts),
    };
    let (exit, status) = exit(&grounds, policy);
    let nodes: Vec<NodeHead> = recordings
        .iter()
        .map(|recorded| writer.node(recorded))
        .collect();
    let headline = headline(exit, status, &causes, &notes, &open, &nodes, &grounds);
    let passes = if with_passes {
        writer.passes(verdicts)
    } else {
        Vec::new()
    };
    Report {
        schema: SCHEMA,
        doctor: env!("CARGO_PKG_VERSION"),
        status,
        exit: exit.code(),
        headline,
        nodes,
        areas,
        damage,
        causes,
        notes,
        waived: writer.waived(verdicts),
        baseline: None,
        open,
        probe_failures: facts
            .failures()
            .map(|(id, _, how)| {
                if writer.several {
                    format!("{}: {how}", facts.name(id))
                } else {
                    how.to_owned()
                }
            })
            .collect(),
        passes,
        counts,
        unauthenticated: false,
        seconds: recordings
            .iter()
            .map(|recorded| recorded.micros)
            .max()
            .unwrap_or(0) as f64
            / 1e6,
        drawn: html::Markup::default(),
    }
}

/// The missing facts of an open verdict.
#[derive(Clone)]
enum OpenReason<'f> {
    /// Which members there are; why that is unknown.
    Members(Subject, Option<Gap>),
    Facts(Vec<MissingFact<'f>>),
}

impl OpenReason<'_> {
    fn are_like(&self, other: &Self) -> bool {
        match (self, other) {
            (OpenReason::Members(a, gap_a), OpenReason::Members(b, gap_b)) => {
                let why = |gap: &Option<Gap>| gap.as_ref().map(|gap| gap.why.clone());
                a == b && why(gap_a) == why(gap_b)
            }
            (OpenReason::Facts(a), OpenReason::Facts(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b))
            }
            _ => false,
        }
    }

    fn remedy(&self) -> Option<&'static str> {
        match self {
            OpenReason::Members(_, gap) => gap.as_ref().and_then(Gap::remedy),
            OpenReason::Facts(lacks) => lacks.iter().find_map(MissingFact::remedy),
        }
    }

    fn into_lines(self) -> Vec<EvidenceLine> {
        match self {
            OpenReason::Members(subject, gap) => {
                let (value, origin) = match gap {
                    Some(gap) => (gap.why.to_string(), gap.origin.to_string()),
                    None => ("unknown".into(), String::new()),
                };
                vec![EvidenceLine {
                    fact: format!("the list of {}s", subject.noun()),
                    value,
                    origin,
                    decides: true,
                }]
            }
            OpenReason::Facts(lacks) => lacks
                .into_iter()
                .map(|lack| evidence_line(lack.into_evidence()))
                .collect(),
        }
    }
}

/// The inputs of a status.
struct StatusInputs<'r> {
    counts: &'r Counts,
    areas: &'r [AreaLine],
    /// The damage, the most severe first.
    damage: &'r [String],
    /// Whether a person chose the checks.
    is_chosen: bool,
    /// Whether there was nothing to examine.
    nothing: bool,
    /// How many questions were refused for lack of permission.
    withheld: u64,
}

/// Precedence 2 > 3 > 1 > 0. Zero devices, zero checks, zero verdicts never pass.
fn exit(grounds: &StatusInputs<'_>, policy: &Policy) -> (Exit, &'static str) {
    let counts = grounds.counts;
    let failing = match policy.fail_on {
        Severity::Error => counts.errors,
        Severity::Warning => counts.errors + counts.warnings,
        Severity::Note => counts.errors + counts.warnings + counts.notes,
    };
    let open = (policy.strict || grounds.is_chosen) && counts.unknown > 0;
    let wanting = grounds.areas.iter().any(AreaLine::is_wanting);
    let unjudged = counts.passes + counts.warnings + counts.notes + counts.waived == 0;
    if failing > 0 {
        (Exit::Errors, "errors")
    } else if open || wanting || !grounds.damage.is_empty() || grounds.nothing || unjudged {
        (Exit::Undecided, "undecided")
    } else if counts.warnings > 0 {
        (Exit::Warnings, "warnings")
    } else if grounds.withheld == 0 && areas::are_whole(grounds.areas) {
        (Exit::Healthy, "healthy")
    } else {
        (Exit::Healthy, "no-fault-found")
    }
}

/// Whether there is no device, no run and no measurement.
fn is_empty(facts: &Facts) -> bool {
    [
        Subject::Device,
        Subject::Run,
        Subject::Benchmark,
        Subject::Measurement,
    ]
    .into_iter()
    .all(|subject| facts.all(subject).next().is_none())
}

/// How many questions were refused for lack of permission, on all nodes.
fn withheld(facts: &Facts) -> u64 {
    let of = |id| facts.known(id, node::WITHHELD).unwrap_or(0);
    facts.all(Subject::Node).map(of).sum()
}

/// The damage in sentences: truncated recordings, and parts that did not respond. A choice of checks that has no areas is judged by its checks alone.
fn damage(catalogue: &Catalogue, facts: &Facts, recordings: &[RecordedNode]) -> Vec<String> {
    let cut = recordings.iter().filter(|one| !one.is_complete);
    let cut = cut.map(|one| format!("the recording of {} was cut short", facts.name(one.id)));
    let mut damage: Vec<String> = match catalogue.areas.is_empty() && !catalogue.is_chosen {
        true => Vec::new(),
        false => cut.collect(),
    };
    if !catalogue.areas.is_empty() {
        let mut all: Vec<Id> = facts.all(Subject::Respondent).collect();
        all.sort_by_key(|id| {
            let is_probe =
                facts.known(*id, respondent::KIND) == Some(respondent::RespondentKind::Probe);
            let mostly = facts.known(*id, respondent::MOSTLY_FAILED) == Some(true);
            (is_probe, !mostly)
        });
        let names: Vec<String> = all.iter().map(|id| facts.name(*id).to_owned()).collect();
        if let Some(first) = all.first() {
            let reason = facts.known(*first, respondent::REASON);
            let reason = reason
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default();
            damage.push(match facts.known(*first, respondent::KIND) {
                Some(respondent::RespondentKind::Probe) => {
                    format!("ended early: {}{reason}", some(&names))
                }
                _ => format!("did not answer: {}{reason}", some(&names)),
            });
        }
    }
    damage
}

struct Writer<'a> {
    catalogue: &'a Catalogue,
    facts: &'a Facts,
    several: bool,
}

impl Writer<'_> {
    fn name(&self, id: Id) -> String {
        let node = self.facts.ancestor(id, Subject::Node);
        let host = self.facts.ancestor(id, Subject::Host);
        match node.filter(|_| self.several).or(host) {
            Some(within) if within != id => {
                format!("{}: {}", self.facts.name(within), self.facts.name(id))
            }
            _ => self.facts.name(id).to_owned(),
        }
    }

    fn sentence(&self, check: usize, id: Id) -> String {
        let check = &self.catalogue.checks[check];
        let text = check.finding().render(self.facts, id, &check.limits);
        let text = gpu_names::numbered(self.facts, id, text);
        match self.facts.ancestor(id, Subject::Node) {
            Some(node) if self.several => format!("{}: {text}", self.facts.name(node)),
            _ => text,
        }
    }

    /// The sentence behind the premise of its check.
    fn presuming(&self, check: usize, id: Id) -> String {
        let presumed = self.catalogue.checks[check].premise.as_ref();
        let premise = presumed.map_or("", |presumed| presumed.premise.sentence());
        format!("{premise}{}", self.sentence(check, id))
    }

    fn finding(&self, cause: &Cause) -> Finding {
        let check = &self.catalogue.checks[cause.check];
        // A cause has one subject at least.
        let first = cause.subjects[0];
        let said = |id: Id| match cause.presumes(cause.check, id) {
            true => self.presuming(cause.check, id),
            false => self.sentence(cause.check, id),
        };
        let premise = check
            .premise
            .as_ref()
            .map(|presumed| presumed.premise.sentence());
        let premise = premise.filter(|_| cause.presumes(cause.check, first));
        let mut consequences: Vec<Consequence> = cause
            .consequences
            .iter()
            .map(|&(check, id)| Consequence {
                check: self.catalogue.checks[check].id.to_string(),
                severity: match cause.presumes(check, id) {
                    true => self.catalogue.checks[check].presumed_severity().word(),
                    false => self.catalogue.checks[check].severity.word(),
                },
                subject: self.name(id),
                // Beneath a cause with the same premise it is said already.
                sentence: match premise.is_none() && cause.presumes(check, id) {
                    true => self.presuming(check, id),
                    false => self.sentence(check, id),
                },
            })
            .collect();
        small_sort::by(&mut consequences, |a, b| {
            (&a.check, &a.subject).cmp(&(&b.check, &b.subject))
        });
        let advice = check.advice();
        Finding {
            check: check.id.to_string(),
            severity: cause.severity(self.catalogue).word(),
            subject: self.name(first),
            subjects: cause.subjects.iter().map(|id| self.name(*id)).collect(),
            nodes: Vec::new(),
            sentence: said(first),
            premise,
            further: cause.subjects[1..].iter().map(|id| said(*id)).collect(),
            why: advice.why.trim().to_owned(),
            fix: for_each_subject(cause.subjects.iter().take(SUBJECTS).map(|id| {
                let fix = advice.fix.render(self.facts, *id, &check.limits);
                fix.trim().to_owned()
            })),
            see: advice.see.iter().map(|s| s.to_string()).collect(),
            evidence: check
                .evidence(self.facts, first)
                .into_iter()
                .map(evidence_line)
                .collect(),
            consequences,
        }
    }

    fn open(&self, verdicts: &[Verdict]) -> Vec<OpenQuestion> {
        let mut open: Vec<OpenQuestion> = Vec::new();
        // Of the check whose verdicts are at hand (they stand together): what each of its questions waits for, and which it is.
        let mut asked: Vec<(OpenReason<'_>, usize)> = Vec::new();
        let mut of_check = None;
        for verdict in verdicts {
            let Outcome::Unknown(missing) = &verdict.outcome else {
                continue;
            };
            if of_check.replace(verdict.check) != Some(verdict.check) {
                asked.clear();
            }
            let check = &self.catalogue.checks[verdict.check];
            let waits = match missing {
                Missing::Members(subject) => {
                    let gap = self.facts.members(*subject, verdict.subject).err();
                    OpenReason::Members(*subject, gap)
                }
                Missing::Facts => OpenReason::Facts(check.lacks(self.facts, verdict.subject)),
            };
            let name = self.name(verdict.subject);
            // Most instances wait for the same: nothing is put into words for them.
            let same = asked.iter().rev().find(|(other, _)| waits.are_like(other));
            if let Some(question) = same.and_then(|(_, at)| open.get_mut(*at)) {
                question.subjects.push(name);
                continue;
            }
            asked.push((waits.clone(), open.len()));
            open.push(OpenQuestion {
                check: check.id.to_string(),
                title: check.title.clone(),
                subjects: vec![name],
                area: check.area.to_string(),
                remedy: waits.remedy().map(str::to_owned),
                missing: waits.into_lines(),
            });
        }
        open
    }

    /// What waivers accept: one line for a check and a waiver.
    fn waived(&self, verdicts: &[Verdict]) -> Vec<WaivedFinding> {
        let mut all: Vec<WaivedFinding> = Vec::new();
        for verdict in verdicts {
            let Outcome::Waived(number) = verdict.outcome else {
                continue;
            };
            // A number comes from the catalogue's own waivers.
            let Some(waiver) = self.catalogue.waivers.get(number) else {
                continue;
            };
            let check = &self.catalogue.checks[verdict.check];
            let one = WaivedFinding {
                check: check.id.to_string(),
                severity: check.severity.word(),
                subjects: vec![self.name(verdict.subject)],
                nodes: Vec::new(),
                sentence: self.sentence(verdict.check, verdict.subject),
                by: waiver.check.to_string(),
                reason: waiver.reason.to_string(),
                owner: waiver.owner.to_string(),
                until: waiver.until.to_string(),
            };
            match all.iter_mut().find(|known| known.is_like(&one)) {
                Some(known) => known.subjects.extend(one.subjects),
                None => all.push(one),
            }
        }
        all
    }

    fn passes(&self, verdicts: &[Verdict]) -> Vec<Pass> {
        verdicts
            .iter()
            .filter(|v| matches!(v.outcome, Outcome::Passes(_)))
            .map(|v| {
                let check = &self.catalogue.checks[v.check];
                Pass {
                    check: check.id.to_string(),
                    subject: self.name(v.subject),
                    evidence: check
                        .evidence(self.facts, v.subject)
                        .into_iter()
                        .map(evidence_line)
                        .collect(),
                }
            })
            .collect()
    }

    fn count(&self, verdicts: &[Verdict]) -> Counts {
        let mut counts = Counts {
            checks: self.catalogue.checks.len(),
            verdicts: verdicts.len(),
            ..Counts::default()
        };
        for verdict in verdicts {
            let check = &self.catalogue.checks[verdict.check];
            match (&verdict.outcome, check.severity) {
                (Outcome::Passes(_), _) => counts.passes += 1,
                (Outcome::Fails, Severity::Error) => counts.errors += 1,
                (Outcome::Fails, Severity::Warning) => counts.warnings += 1,
                (Outcome::FailsIf, Severity::Error | Severity::Warning) => counts.warnings += 1,
                (Outcome::Fails | Outcome::FailsIf, Severity::Note) => counts.notes += 1,
                (Outcome::Waived(_), _) => counts.waived += 1,
                (Outcome::DoesNotApply, _) => counts.does_not_apply += 1,
                (Outcome::Unknown(_), _) => counts.unknown += 1,
            }
        }
        counts
    }

    /// The areas of the nodes, then those of all nodes together.
    fn areas(
        &self,
        verdicts: &[Verdict],
        recordings: &[RecordedNode],
        require: &RequiredAreas,
    ) -> Vec<AreaLine> {
        let mut lines: Vec<AreaLine> = match recordings {
            [] => Vec::new(),
            [one] => self.areas_of(verdicts, one.id, require),
            several => {
                let mut fold = areas::FoldedAreas::default();
                for one in several {
                    let lines = self.areas_of(verdicts, one.id, require);
                    fold.add(lines, self.facts.name(one.id));
                }
                fold.lines()
            }
        };
        lines.extend(self.areas_of_all(verdicts, require));
        lines
    }

    /// The areas of all nodes together, if they are there.
    fn areas_of_all(&self, verdicts: &[Verdict], require: &RequiredAreas) -> Vec<AreaLine> {
        let (catalogue, facts) = (self.catalogue, self.facts);
        let surveys = survey(catalogue, facts, verdicts, Facts::CLUSTER, require);
        let line = |survey| AreaLine::of(catalogue, facts, &survey, Facts::CLUSTER);
        let lines = surveys.into_iter().map(line);
        lines
            .filter(|line| line.rank != AreaState::NothingThere)
            .collect()
    }

    /// The areas of one node.
    fn areas_of(&self, verdicts: &[Verdict], node: Id, require: &RequiredAreas) -> Vec<AreaLine> {
        let (catalogue, facts) = (self.catalogue, self.facts);
        let surveys = survey(catalogue, facts, verdicts, node, require);
        let line = |survey| AreaLine::of(catalogue, facts, &survey, node);
        surveys.into_iter().map(line).collect()
    }

    fn node(&self, recorded: &RecordedNode) -> NodeHead {
        let (facts, id) = (self.facts, recorded.id);
        NodeHead {
            name: facts.name(id).to_owned(),
            kernel: facts.known(id, node::KERNEL).map(|t| t.to_string()),
            os: facts.known(id, node::OS).map(|t| t.to_string()),
            devices: facts.known(id, node::DEVICES),
            active_ports: facts.known(id, node::ACTIVE_PORTS),
            untried_peers: facts.known(id, node::JOB_NODES) > Some(1)
                && facts.members(Subject::Suspect, id).is_err(),
            gpus: facts.known(id, node::GPUS),
            launch: facts
                .known(id, node::LAUNCH)
                .filter(|launch| &**launch != "none")
                .map(|launch| launch.to_string()),
            recorded: recorded.utc.clone(),
            altered: recorded.altered.clone(),
            tree: recorded.tree,
            truncated: !recorded.is_complete,
        }
    }
}

/// The answer in one sentence.
fn headline(
    exit: Exit,
    status: &str,
    causes: &[Finding],
    notes: &[Finding],
    open: &[OpenQuestion],
    nodes: &[NodeHead],
    grounds: &StatusInputs<'_>,
) -> String {
    if exit == Exit::Undecided {
        let why = why_undecided(open, nodes, grounds);
        // The measurement is what the user asked for.
        if let Some(first) = causes.first()
            && ["ablation/", "bench/", "pairs/"]
                .iter()
                .any(|of| first.check.starts_with(of))
        {
            return clause::headline(&first.sentence, &[], &format!("; {why}"));
        }
        // What did not answer leads already.
        let others = causes.iter().filter(|c| !is_damage(&c.check)).count();
        let others = match others {
            0 => String::new(),
            n => format!("; {} below", plural(n as u64, "warning")),
        };
        return clause::headline(&why, &[], &others);
    }
    let Some(lead) = lead(exit, causes, notes) else {
        return without_cause(status, notes, open, nodes, grounds);
    };
    let more = lead.subjects.get(1..).unwrap_or_default();
    let others = other_causes(causes.len(), "");
    let cut = match nodes.iter().any(|node| node.truncated) {
        true => "the recording was cut short: ",
        false => "",
    };
    clause::headline(&format!("{cut}{}", lead.sentence), more, &others)
}

/// Whether a check reports what did not answer, which the headline of an undecided verdict names by itself.
fn is_damage(check: &str) -> bool {
    check.starts_with("respondent/") || check.starts_with("recording/")
}

/// The finding that leads: the first cause, and a note where the exit status counts it.
fn lead<'f>(exit: Exit, causes: &'f [Finding], notes: &'f [Finding]) -> Option<&'f Finding> {
    causes.first().or(match exit {
        Exit::Errors => notes.first(),
        _ => None,
    })
}

/// How many causes there are besides the one that leads; `on` says where.
pub fn other_causes(causes: usize, on: &str) -> String {
    match causes.saturating_sub(1) {
        0 => String::new(),
        1 => format!("; 1 other cause{on}"),
        n => format!("; {n} other causes{on}"),
    }
}

/// Why the node's health is unknown.
fn why_undecided(open: &[OpenQuestion], nodes: &[NodeHead], grounds: &StatusInputs<'_>) -> String {
    if let Some(damage) = grounds.damage.first() {
        let more = match grounds.damage.len() - 1 {
            0 => String::new(),
            _ => format!("; {}", grounds.damage[1..].join("; ")),
        };
        return format!("undecided: {damage}{more}");
    }
    let no_devices = !nodes.is_empty() && nodes.iter().all(|n| n.devices == Some(0));
    let wants_devices = grounds.areas.iter().any(|area| {
        area.is_wanting() && area.area == "devices" && area.rank == AreaState::NothingThere
    });
    if no_devices && (wants_devices || grounds.areas.is_empty()) {
        let gpus: u64 = nodes.iter().filter_map(|n| n.gpus).sum();
        return match gpus {
            0 => "nothing to examine: no RDMA device on this node".into(),
            1 => "undecided: no RDMA device on this node, which has one GPU".into(),
            n => format!("undecided: no RDMA device on this node, which has {n} GPUs"),
        };
    }
    if let Some(areas) = areas::undecided(grounds.areas) {
        return format!("undecided: {areas}");
    }
    match open.first() {
        Some(question) => {
            let missing = question.missing.first();
            let why = missing.map_or(String::new(), |m| {
                format!(": {} is unknown ({})", m.fact, m.value)
            });
            format!("undecided on {}{why}", some(&question.subjects))
        }
        None => "undecided: no check could be decided".into(),
    }
}

/// The answer if no finding leads.
fn without_cause(
    status: &str,
    notes: &[Finding],
    open: &[OpenQuestion],
    nodes: &[NodeHead],
    grounds: &StatusInputs<'_>,
) -> String {
    let devices: u64 = nodes.iter().filter_map(|n| n.devices).sum();
    let ports: u64 = nodes.iter().filter_map(|n| n.active_ports).sum();
    let waived = match grounds.counts.waived {
        0 => String::new(),
        1 => ", one finding waived".into(),
        n => format!(", {n} findings waived"),
    };
    let noted = match notes.len() {
        0 => waived,
        1 => format!(", one note{waived}"),
        n => format!(", {n} notes{waived}"),
    };
    if nodes.is_empty() {
        let left = match open.len() {
            0 => String::new(),
            1 => ", one open question".into(),
            n => format!(", {n} open questions"),
        };
        return format!("no finding in the log{noted}{left}; no node was examined");
    }
    if status != "healthy" {
        let refused = match grounds.withheld {
            0 => String::new(),
            n => format!("; {} refused (permission)", plural(n, "question")),
        };
        return areas::no_fault(grounds.areas, &format!("{refused}{noted}"));
    }
    let of = if nodes.len() > 1 {
        format!("{} nodes, ", nodes.len())
    } else {
        String::new()
    };
    let knows_ports = nodes.iter().all(|n| n.active_ports.is_some());
    let active = if knows_ports {
        format!(", {} active", plural(ports, "port"))
    } else {
        String::new()
    };
    let devices = plural(devices, "RDMA device");
    let peers = match nodes.iter().any(|node| node.untried_peers) {
        true => "; peers not tried: bench pairs",
        false => "",
    };
    format!("healthy: {of}{devices}{active}{noted}{peers}")
}

/// A fact as a line of evidence.
pub fn evidence_line(evidence: crate::check::Evidence) -> EvidenceLine {
    let decides = evidence.decides;
    match evidence.value {
        Ok(value) => EvidenceLine {
            fact: evidence.fact,
            value: value.to_string(),
            origin: evidence.origin.map_or(String::new(), |o| o.to_string()),
            decides,
        },
        Err(gap) => EvidenceLine {
            fact: evidence.fact,
            value: gap.why.to_string(),
            origin: gap.origin.to_string(),
            decides,
        },
    }
}

/// `3 ports`, `1 port`.
pub fn plural(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The first few names, and how many more.
pub fn some(names: &[String]) -> String {
    const SHOWN: usize = 4;
    if names.len() <= SHOWN + 1 {
        return names.join(", ");
    }
    format!(
        "{} and {} more",
        names[..SHOWN].join(", "),
        names.len() - SHOWN
    )
}

/// Facts for `rdma-doctor facts`: every fact of every instance, in the order of the schema.
pub fn all_facts(facts: &Facts) -> Vec<(Id, &'static str, Fact<crate::fact::Value>)> {
    let mut all = Vec::new();
    for subject in Subject::ALL {
        for id in facts.all(subject) {
            for (index, schema) in subject.schema().facts.iter().enumerate() {
                let fact = match facts.look(id, index) {
                    Some(fact) => fact.clone(),
                    None => Fact::Unknown(facts.unset(id, index)),
                };
                all.push((id, schema.name, fact));
            }
        }
    }
    all
}

/// The commands of a remedy that are written out; a reader sees from these how the others read.
const COMMANDS: usize = 8;

/// The same where each command has a line.
const LINES: usize = 64;

/// The subjects whose commands are looked at: a node has fewer, a cluster's findings name nodes.
const SUBJECTS: usize = 256;

/// One remedy for several subjects: a command (between backquotes) that names a subject stands once for each of them. The words around are the first
/// subject's.
fn for_each_subject(mut rendered: impl Iterator<Item = String>) -> String {
    let first = rendered.next().unwrap_or_default();
    let mut parts: Vec<Vec<String>> = first.split('`').map(|part| vec![part.to_owned()]).collect();
    for other in rendered {
        let own: Vec<&str> = other.split('`').collect();
        // A backquote in a fact: the parts are not those of the first.
        if own.len() != parts.len() {
            continue;
        }
        for (all, part) in parts.iter_mut().zip(own).skip(1).step_by(2) {
            if !all.iter().any(|known| known == part) {
                all.push(part.to_owned());
            }
        }
    }
    let joined = parts.iter().enumerate().map(|(at, all)| {
        let is_line = at > 0 && parts[at - 1].concat().ends_with("\n   ");
        match all.as_slice() {
            [one] => one.clone(),
            // A command on a line of its own has the others below it.
            all if is_line => all
                .iter()
                .take(LINES)
                .cloned()
                .collect::<Vec<_>>()
                .join("`\n   `"),
            all => commands(all),
        }
    });
    joined.collect::<Vec<String>>().join("`")
}

/// Several commands as one text, without the outer backquotes. A variable that leaves devices out takes a list.
fn commands(all: &[String]) -> String {
    let names = |command: &String| Some(command.split_once("=^")?.1.to_owned());
    if let (Some((variable, _)), Some(names)) = (
        all.first().and_then(|command| command.split_once("=^")),
        all.iter().map(names).collect::<Option<Vec<String>>>(),
    ) {
        return format!("{variable}=^{}", names.join(","));
    }
    match all {
        [shown @ .., last] if shown.len() >= COMMANDS => {
            format!("{}`, … `{last}", shown[..COMMANDS - 1].join("`, `"))
        }
        all => all.join("`, `"),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A report built by hand, for the tests of formats.

    use super::*;

    /// A report with this status, and an error of each of these checks.
    pub(crate) fn report(exit: Exit, causes: &[&str]) -> Report {
        let finding = |check: &&str| Finding {
            check: (*check).to_owned(),
            severity: "error",
            subject: "n".into(),
            subjects: vec!["n".into()],
            nodes: Vec::new(),
            sentence: format!("{check} is wrong"),
            premise: None,
            further: Vec::new(),
            why: String::new(),
            fix: String::new(),
            see: Vec::new(),
            evidence: Vec::new(),
            consequences: Vec::new(),
        };
        Report {
            doctor: "0",
            status: "any",
            exit: exit.code(),
            headline: "the headline".into(),
            damage: Vec::new(),
            causes: causes.iter().map(finding).collect(),
            seconds: 0.25,
            ..Report::without_nodes("")
        }
    }
}

#[cfg(test)]
mod schema {
    use super::*;

    /// The schema that `rdma-doctor schema report` prints is made from the types. `RDMA_DOCTOR_BLESS=1` writes it.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the project's own files")]
    fn the_schema_of_reports_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
        let mut schema = settings.into_generator().into_root_schema_for::<Report>();
        schema.insert("$id".into(), format!("urn:rdma-doctor:{SCHEMA}").into());
        let made = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join("src/cli/schema/report.json");
        if std::env::var_os("RDMA_DOCTOR_BLESS").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap();
        assert!(stored == made, "not what the types say: make bless");
    }
}

#[cfg(test)]
mod remedies {
    use super::for_each_subject;

    #[test]
    fn a_command_stands_for_each_subject() {
        let fix = |device: &str| {
            format!(
                "1. See it: `lspci`.\n2. Reset it: `mlxfwreset -d {device} reset`, or `NCCL_IB_HCA=^{device}`."
            )
        };
        let both = for_each_subject(["17:00.0", "18:00.0", "17:00.0"].map(fix).into_iter());
        assert_eq!(
            both,
            "1. See it: `lspci`.\n2. Reset it: `mlxfwreset -d 17:00.0 reset`, `mlxfwreset -d 18:00.0 reset`, or `NCCL_IB_HCA=^17:00.0,18:00.0`."
        );
        let many = for_each_subject((0..20).map(|n| format!("`x {n}`")));
        assert_eq!(
            many,
            "`x 0`, `x 1`, `x 2`, `x 3`, `x 4`, `x 5`, `x 6`, … `x 19`"
        );
    }
}
