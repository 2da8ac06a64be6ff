//! Checks: the judgement of facts, one TOML file each, and the small language in which it is written.
//!
//! ```text
//! areas       the areas of a node and their essentials
//! advice      why a finding matters and what to do: read if it is wanted
//! file        a TOML file becomes a `Check`: keys, types, limits; `example` its examples
//! lexer, parser, names, typing    a condition's text becomes a typed tree, or an error with its place
//! condition   the tree, three-valued
//! template    sentences with placeholders; `naming` what facts put into them
//! catalogue   all checks: the built-in ones and a site's own
//! premise     what a check assumes; stated by a finding if it is unknown
//! joined      what else one text says of a check's cause
//! judge       facts and checks become verdicts
//! variant     what follows from an example: a fact withheld, a comparison at, below and above its value
//! evidence    the evidence of a verdict, and the missing facts of an open one
//! limits      the limits that a site sets
//! config      the site's file
//! inventory   what a site expects of its nodes
//! waiver      findings that a site accepts for a time
//! ```

mod advice;
mod areas;
mod built;
mod catalogue;
mod condition;
mod config;
mod diagnostic;
mod evidence;
mod example;
mod file;
mod finding_source;
mod glob;
mod inventory;
mod joined;
mod judge;
mod lexer;
mod limits;
mod literal;
mod names;
mod naming;
mod parser;
mod premise;
mod template;
#[cfg(test)]
mod tests;
mod typing;
mod variant;
mod waiver;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub use advice::Advice;
pub use areas::{Area, FactName, Required, SubjectEssentials};
pub use catalogue::{Catalogue, SelectionError, SiteFile};
pub use condition::Condition;
pub use config::SiteConfig;
pub use diagnostic::CheckError;
pub(crate) use diagnostic::nearest as nearest_name;
pub use evidence::{Evidence, Lacks, MissingFact};
pub use example::{Example, Expected, try_example};
pub(crate) use glob::fits as glob_fits;
pub use inventory::{Inventory, InventoryItem, items_of};
pub use joined::{Join, join};
pub use judge::{Missing, Outcome, Pass, Verdict, judge, judge_where};
pub use premise::{Premise, PremiseWords};
pub use template::Template;
pub use variant::Variant;
pub use waiver::{Recorded, Waiver, Waivers, judge_waived, located};

use crate::fact::value::written;
use crate::fact::{Subject, Value};

written! {
    /// How much a failing check matters; the gravest first.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// A job cannot run, or runs wrong or far slower.
        Error = "error",
        /// A job is at risk, or slower than it could be.
        Warning = "warning",
        /// Worth knowing.
        Note = "note",
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

written! {
    /// What a failing check does to a job that uses what it names. Of two causes of one severity the one that stops a job leads.
    #[derive(PartialOrd, Ord)]
    pub enum Impact {
        /// The job does not start, hangs, ends with an error, or has wrong results.
        Stops = "stops",
        /// The job runs to its end, slower than the hardware allows.
        Slows = "slows",
        /// The job can run well: it depends on what it uses, or on what happens next.
        Risks = "risks",
    }
}

impl Impact {
    fn phrase(self) -> &'static str {
        match self {
            Impact::Stops => "stops a job",
            Impact::Slows => "slows a job down",
            Impact::Risks => "puts a job at risk",
        }
    }
}

/// A check: one problem, how it is recognised, what it means and how to fix it. A problem that shows in several ways has a case for each, of one
/// id: they are judged each by itself, and are one finding.
#[derive(Debug)]
pub struct Check {
    /// The path of its file below the directory of checks, without `.toml`: `link/rate-degraded`.
    pub id: Arc<str>,
    /// The id of the case: the check's own, or one by which waivers, limits, choices and `explains` can name the case alone.
    pub case: Arc<str>,
    /// Names the problem.
    pub title: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it does to a job; a check of the site may leave it out.
    pub impact: Option<Impact>,
    /// The area to which it belongs; empty of a site's check that names none.
    pub area: Arc<str>,
    /// What it is judged for.
    pub subject: Subject,
    /// What it takes for granted.
    pub premises: Vec<premise::CheckPremise>,
    /// To which instances it applies; to all if it is absent.
    pub applies: Option<Condition>,
    /// When the problem is there.
    pub fails: Condition,
    finding: finding_source::FindingSource,
    /// Ids, or patterns of ids, of the checks whose failing it explains.
    pub explains: Vec<Arc<str>>,
    /// Other names of it, of which several checks can have one: `symptom` are those that say that something stopped, and not why.
    pub aliases: Vec<Arc<str>>,
    /// What else in the text of an event confirms its cause, or rules it out.
    pub joined: Vec<Join>,
    /// Thresholds, read as `limit.NAME`, that a site can override.
    pub limits: Vec<(Arc<str>, Value)>,
    /// The file's text; empty of a built-in check, of which the program has the fields.
    pub source: Cow<'static, str>,
    /// The file, as errors name it.
    pub path: Cow<'static, str>,
    advice: advice::AdviceSource,
}

impl Check {
    /// How much it matters, in words: `error that stops a job`.
    pub fn gravity(&self) -> String {
        match self.impact {
            Some(impact) => format!("{} that {}", self.severity, impact.phrase()),
            None => self.severity.to_string(),
        }
    }

    /// What its conditions and texts can name.
    fn names(&self) -> names::Names<'_> {
        names::Names {
            subject: self.subject,
            limits: &self.limits,
        }
    }

    /// Its conditions: those of its premises, of where it applies and of when it fails.
    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let premises = self.premises.iter().map(|premise| &premise.condition);
        premises.chain(&self.applies).chain([&self.fails])
    }

    /// How much it matters if it is not known whether the premise is met: a warning at most.
    pub fn presumed_severity(&self) -> Severity {
        self.severity.max(Severity::Warning)
    }

    /// Whether this check's failing explains that the other fails.
    pub fn explains(&self, other: &Check) -> bool {
        self.case != other.case && self.explains.iter().any(|pattern| other.is_named(pattern))
    }

    /// Whether it has a limit of this name.
    pub(crate) fn has_limit(&self, name: &str) -> bool {
        self.limits.iter().any(|limit| *limit.0 == *name)
    }

    /// Whether an id or a pattern of ids names it: by its own id, by its case's, or by another name.
    pub fn is_named(&self, pattern: &str) -> bool {
        let mut aliases = self.aliases.iter();
        glob::fits(pattern, &self.id)
            || glob::fits(pattern, &self.case)
            || aliases.any(|alias| **alias == *pattern)
    }
}
