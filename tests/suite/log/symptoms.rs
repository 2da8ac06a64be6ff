//! Texts as people paste them, of many programs, with the cause that they prove: `symptoms/*.md`, in the form of [`super::cases`].
//!
//! ````text
//! ### What happens in this one
//! <!-- the thread from which the form of its lines is -->
//! ```log
//! ```
//! ```toml
//! first = ["log/no-device"]       # the check that leads: one of these; "none" where nothing leads
//! errors = 0                      # how many errors there are, where that is part of the truth
//! lead = "mlx5_0"                 # what the first finding names
//! ```
//! ````
//!
//! `symptoms/missed.txt` names those that are not held yet: a case that is held and stands there fails the test, so that the list only
//! gets shorter. `RDMA_DOCTOR_LOG_CASE=words` runs only the cases whose headings contain these words, and prints their reports.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use rdma_doctor::check::Catalogue;
use rdma_doctor::examine::{log, one};
use rdma_doctor::fact::{Subject, event};
use rdma_doctor::report::Policy;
use rdma_doctor::report::Report;
use serde::Deserialize;

use super::cases::{Case, cases, texts};

/// What a symptom proves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Truth {
    /// The checks of which one leads.
    #[serde(default)]
    pub(super) first: Vec<String>,
    /// How many errors there are.
    errors: Option<usize>,
    /// What the first finding names.
    lead: Option<String>,
    /// Words that stand somewhere in the report.
    #[serde(default)]
    says: Vec<String>,
    /// Words that stand nowhere in it.
    #[serde(default)]
    never: Vec<String>,
}

impl Truth {
    pub(super) fn of(case: &Case) -> Self {
        toml::from_str(&case.expected).unwrap_or_else(|error| panic!("{}: {error}", case.at))
    }
}

/// The checks that the command judges of a log.
pub(super) fn catalogue() -> &'static Catalogue {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(|| {
        let mut catalogue = Catalogue::embedded().unwrap();
        catalogue.checks.retain(log::is_of_log);
        catalogue
    })
}

/// What of a report is not as it should be.
fn differences(log: &Report, truth: &Truth) -> String {
    let mut wrong = String::new();
    let causes = &log.causes;
    let found = causes.first().or(log.notes.first());
    let first = leader(log);
    if !truth.first.is_empty() && !truth.first.iter().any(|check| check == first) {
        let _ = writeln!(wrong, "  first: {first}, not {:?}", truth.first);
    }
    let errors = causes.iter().filter(|cause| cause.severity == "error");
    let errors = errors.count();
    if truth.errors.is_some_and(|wanted| wanted != errors) {
        let _ = writeln!(wrong, "  errors: {errors}, not {:?}", truth.errors);
    }
    if let Some(lead) = &truth.lead
        && !found.is_some_and(|cause| cause.sentence.to_string().contains(lead))
    {
        let _ = writeln!(wrong, "  lead: does not name {lead:?}");
    }
    let mut said = Vec::new();
    texts(&serde_json::to_value(log).unwrap(), &mut said);
    for words in &truth.says {
        if !said.iter().any(|text| text.contains(words)) {
            let _ = writeln!(wrong, "  says: nowhere {words:?}");
        }
    }
    for words in &truth.never {
        if let Some(text) = said.iter().find(|text| text.contains(words)) {
            let _ = writeln!(wrong, "  never: {words:?} in {text:?}");
        }
    }
    if !wrong.is_empty() {
        let _ = writeln!(wrong, "  headline: {}", log.headline);
    }
    wrong
}

/// The check that leads.
pub(super) fn leader(log: &Report) -> &str {
    let found = log.causes.first().or(log.notes.first());
    found.map_or("none", |cause| cause.check.as_str())
}

/// The cases of all files.
pub(super) fn all() -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/log/symptoms");
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    paths.sort();
    paths.iter().flat_map(|path| cases(path)).collect()
}

#[test]
fn each_symptom_leads_to_its_cause() {
    let missed = include_str!("symptoms/missed.txt");
    let missed: BTreeSet<&str> = missed.lines().filter(|line| !line.is_empty()).collect();
    let words = std::env::var("RDMA_DOCTOR_LOG_CASE").ok();
    let (mut tried, mut held, mut wrong) = (0, 0, String::new());
    let mut titles = BTreeSet::new();
    for case in all() {
        let name = format!("{}: {}", case.rule, case.title);
        assert!(titles.insert(name.clone()), "two are called {name:?}");
        if words.as_ref().is_some_and(|words| !name.contains(words)) {
            continue;
        }
        let truth = Truth::of(&case);
        assert!(
            !truth.first.is_empty() || truth.errors.is_some(),
            "{}: no truth",
            case.at
        );
        tried += 1;
        let files: Vec<(&str, &str)> = case
            .files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let recordings = [super::recording(&files)];
        let log = log::judged(catalogue(), &recordings, &Policy::default());
        if words.is_some() {
            println!(
                "{}\n{}",
                case.at,
                serde_json::to_string_pretty(&log).unwrap()
            );
        }
        let differences = differences(&log, &truth);
        held += usize::from(differences.is_empty());
        match (differences.is_empty(), missed.contains(name.as_str())) {
            (true, false) | (false, true) => {}
            (true, true) => {
                let _ = writeln!(wrong, "{name}\n  is held, and stands in missed.txt");
            }
            (false, false) => {
                let _ = writeln!(wrong, "{name}\n  {}\n{differences}", case.at);
            }
        }
    }
    println!("{held} of {tried} symptoms lead to their causes");
    if words.is_none() {
        let unknown: Vec<_> = missed
            .iter()
            .filter(|name| !titles.contains(**name))
            .collect();
        assert!(unknown.is_empty(), "missed.txt names no case: {unknown:?}");
    }
    assert!(wrong.is_empty(), "{held} of {tried}\n{wrong}");
}

/// Each row of `[[joined]]` says its sentence of a text among the symptoms.
#[test]
fn each_join_of_a_check_is_shown_by_a_text() {
    let mut said = String::new();
    for case in all() {
        let files = case.files.iter();
        let files: Vec<(&str, &str)> = files.map(|(name, text)| (&**name, &**text)).collect();
        let recordings = [super::recording(&files)];
        let judged = one::Judged::new(catalogue(), &recordings);
        for event in judged.facts.all(Subject::Event) {
            for key in [event::CONFIRMED_BY, event::REFUTED_BY] {
                said += judged
                    .facts
                    .known(event, key)
                    .as_deref()
                    .unwrap_or_default();
                said.push('\n');
            }
        }
    }
    let mut silent = Vec::new();
    for check in &catalogue().checks {
        for join in &check.joined {
            let written = join.sentence.source();
            let outside = written
                .split(['{', '`'])
                .filter_map(|part| part.rsplit('}').next());
            let fixed = outside.max_by_key(|part| part.len());
            if !said.contains(fixed.unwrap_or_default().trim()) {
                silent.push(format!("{}: {written}", check.id));
            }
        }
    }
    assert!(silent.is_empty(), "no text shows these: {silent:#?}");
}
