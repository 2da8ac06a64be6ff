//! One report, written in several formats: the verdicts, the causes drawn from them, and what stays open.

pub mod ablation;
pub mod advice;
pub mod areas;
pub mod baseline;
pub mod collective;
mod contents;
pub mod difference;
pub mod expectation;
mod fact_list;
mod finding;
mod fit;
pub mod fix_script;
mod headline;
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
mod remedy;
pub mod sarif;
mod shortened;
mod status;
mod summary;
pub mod test_run;
pub mod text;
pub mod topology;
pub mod triage;

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;

pub use crate::sentence::in_words::{plural, some};
pub use crate::whole::{
    AreaLine, Counts, EvidenceLine, NodeHead, OpenQuestion, Pass, RecordedNode, WaivedFinding,
};
pub use fact_list::all_facts;
pub use finding::{Consequence, Finding};
pub use headline::other_causes;

use crate::check::{Catalogue, Lacks, Severity, Verdict};
use crate::diagnosis::areas::RequiredAreas;
use crate::exit::Exit;
use crate::fact::Facts;
use crate::sentence::Sentence;
use crate::whole::{Contribution, area_line};
use contents::Contents;

/// Version of the JSON form: `major.minor`. Fields are added in a minor version; a major one changes or removes some.
pub const SCHEMA: &str = "rdma-doctor-report/2.4";

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
    /// Whether the report names what passed.
    pub with_passes: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            fail_on: Severity::Error,
            strict: false,
            require: RequiredAreas::Own,
            with_passes: false,
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
    pub headline: Sentence,
    /// What logs say, if some were given.
    #[serde(flatten)]
    pub log: Option<log::LogAnswers>,
    /// The examined machine.
    pub nodes: Vec<NodeHead>,
    /// The areas, and how far each was examined.
    pub areas: Vec<AreaLine>,
    /// Damage, in sentences: parts that did not respond, a truncated recording.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Sentence>,
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
    pub probe_failures: Vec<Sentence>,
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
    pub drawn: html::Drawings,
}

impl Default for Report {
    /// Nothing is known.
    fn default() -> Self {
        Report {
            schema: SCHEMA,
            doctor: env!("CARGO_PKG_VERSION"),
            status: "undecided",
            exit: Exit::Undecided.code(),
            headline: Sentence::default(),
            log: None,
            nodes: Vec::new(),
            areas: Vec::new(),
            damage: Vec::new(),
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
            drawn: html::Drawings::default(),
        }
    }
}

impl Report {
    /// The report of a recording that cannot be judged: why.
    pub fn without_nodes(why: &str) -> Self {
        let damage = Sentence::from(format!("cannot be judged: {why}"));
        Report {
            headline: Sentence::from("undecided: ").then(damage.clone()),
            damage: vec![damage],
            ..Report::default()
        }
    }

    /// Makes it undecided, if no error was found: what it is asked for was not measured.
    pub fn leave_open(&mut self) {
        if self.exit() != Exit::Errors {
            self.exit = Exit::Undecided.code();
            self.status = "undecided";
        }
    }

    /// Makes it undecided, if no error was found: it may not be of what was asked about.
    pub fn doubt(&mut self, why: String) {
        if self.exit() != Exit::Errors {
            self.headline = format!("undecided: {why}").into();
        }
        self.leave_open();
        self.damage.push(why.into());
    }

    /// How many findings of this severity are listed: what several subjects share counts once, what follows from
    /// another finding is beneath it, and a note on which nobody acts does not count.
    pub fn listed(&self, severity: Severity) -> usize {
        let listed = self.causes.iter().chain(&self.notes);
        let of_severity = listed.filter(|one| one.severity == severity.word() && !one.background);
        of_severity.count()
    }

    /// How many checks could not run, on one subject or more.
    pub fn open_checks(&self) -> usize {
        let checks: BTreeSet<&str> = self.open.iter().map(|one| one.check.as_str()).collect();
        checks.len()
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
) -> Report {
    let (require, with_passes) = (&policy.require, policy.with_passes);
    let lacks = Lacks::of(catalogue, facts, verdicts);
    let verdicts = (verdicts, &lacks);
    let mut said =
        Contribution::of_nodes(catalogue, facts, verdicts, recordings, require, with_passes);
    let of_all = area_line::of_all(catalogue, facts, verdicts, require);
    said.areas.extend(of_all);
    let mut contents = Contents::new(catalogue, said);
    contents.log = log::LogAnswers::from_facts(catalogue, facts, &contents.causes);
    contents.into_report(catalogue, policy)
}

#[cfg(test)]
pub(crate) mod testing {
    //! A report built by hand, for the tests of formats.

    use super::*;

    /// A report with this status, and an error of each of these checks.
    pub(crate) fn report(exit: Exit, causes: &[&str]) -> Report {
        let finding = |check: &&str| Finding {
            check: (*check).to_owned(),
            area: "ports".to_owned(),
            place: 0,
            is_shown_in_several_ways: false,
            severity: "error",
            background: false,
            subject: "n".into(),
            subjects: vec!["n".into()],
            nodes: Vec::new(),
            sentence: format!("{check} is wrong").into(),
            premise: None,
            further: Vec::new(),
            why: Sentence::default(),
            fix: Sentence::default(),
            see: Vec::new(),
            evidence: Vec::new(),
            consequences: Vec::new(),
        };
        Report {
            doctor: "0",
            status: "any",
            exit: exit.code(),
            headline: "the headline".into(),
            causes: causes.iter().map(finding).collect(),
            seconds: 0.25,
            ..Report::default()
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
        let mut schema = settings
            .into_generator()
            .into_root_schema_for::<json::ReportJson<'_>>();
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
