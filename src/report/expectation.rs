//! The verdict that a recording is expected to give, and how a report differs from it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Report;

/// What `NAME.expect.toml` holds. A key that is left out is not compared; causes always are.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The nodes that are expected among the recordings of a cluster, as n[01-16].
    pub nodes: Option<String>,
    /// The report's status.
    pub status: Option<String>,
    /// Its headline.
    pub headline: Option<String>,
    /// The state of each area.
    #[serde(default)]
    pub areas: BTreeMap<String, String>,
    /// The causes.
    #[serde(default, rename = "cause")]
    pub causes: Vec<ExpectedCause>,
}

/// A cause that is expected.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct ExpectedCause {
    /// The check.
    pub check: String,
    /// `error` or `warning`.
    pub severity: String,
    /// All for which it fails.
    pub subjects: Vec<String>,
}

impl Expectation {
    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// Why it is none.
    pub fn read(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    /// The expectation that a report meets. It keeps the list of nodes of the earlier one, and whether the headline is compared.
    pub fn of(report: &Report, before: Option<&Expectation>) -> Self {
        let mut causes: Vec<ExpectedCause> = report
            .causes
            .iter()
            .map(|cause| ExpectedCause {
                check: cause.check.clone(),
                severity: cause.severity.to_owned(),
                subjects: cause.subjects.clone(),
            })
            .collect();
        causes.sort();
        let areas = report.areas.iter();
        let has_headline = before.is_some_and(|before| before.headline.is_some());
        Expectation {
            nodes: before.and_then(|before| before.nodes.clone()),
            status: Some(report.status.to_owned()),
            headline: has_headline.then(|| report.headline.clone()),
            areas: areas
                .map(|area| (area.area.clone(), area.state.to_owned()))
                .collect(),
            causes,
        }
    }

    /// The file's text.
    ///
    /// # Errors
    ///
    /// None that a text can cause.
    pub fn to_text(&self) -> serde_json::Result<String> {
        // A string of JSON, and a list of them, is one of TOML.
        let quoted = |text: &String| serde_json::to_string(text);
        let mut text = String::new();
        let keys = [
            ("nodes", &self.nodes),
            ("status", &self.status),
            ("headline", &self.headline),
        ];
        for (key, value) in keys {
            if let Some(value) = value {
                text += &format!("{key} = {}\n", quoted(value)?);
            }
        }
        text += "\n[areas]\n";
        for (area, state) in &self.areas {
            text += &format!("{} = {}\n", quoted(area)?, quoted(state)?);
        }
        for cause in &self.causes {
            let (check, severity) = (quoted(&cause.check)?, quoted(&cause.severity)?);
            let subjects = serde_json::to_string(&cause.subjects)?;
            text += &format!(
                "\n[[cause]]\ncheck = {check}\nseverity = {severity}\nsubjects = {subjects}\n"
            );
        }
        Ok(text)
    }

    /// The severity of each cause, by check and subject.
    pub(super) fn by_subject(&self) -> BTreeMap<(&str, &str), &str> {
        let causes = self.causes.iter();
        let each = causes.flat_map(|cause| {
            let subjects = cause.subjects.iter();
            subjects.map(|subject| ((&*cause.check, &**subject), &*cause.severity))
        });
        each.collect()
    }

    /// How a report differs from what is expected, a line each: `+` came, `-` went, `~` changed.
    pub fn changes(&self, report: &Report) -> Vec<String> {
        let now = Expectation::of(report, None);
        let mut changes = Vec::new();
        if let Some(status) = &self.status
            && status != report.status
        {
            changes.push(format!("status is {}, was {status}", report.status));
        }
        if let Some(headline) = &self.headline
            && *headline != report.headline
        {
            changes.push(format!("headline: {}", report.headline));
        }
        let sentence = |check: &str| {
            let cause = report.causes.iter().find(|cause| cause.check == check);
            cause.map_or("", |cause| &*cause.sentence)
        };
        let (before, after) = (self.by_subject(), now.by_subject());
        let keys: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
        let mut said = BTreeSet::new();
        for key in keys {
            let (check, subject) = key;
            match (before.get(&key), after.get(&key)) {
                (None, Some(severity)) => {
                    let why = match said.insert(check) {
                        true => format!(": {}", sentence(check)),
                        false => String::new(),
                    };
                    changes.push(format!("+ {severity} {check} {subject}{why}"));
                }
                (Some(severity), None) => {
                    changes.push(format!("- {severity} {check} {subject}"));
                }
                (Some(was), Some(is)) if was != is => {
                    changes.push(format!("~ {check} {subject}: {is}, was {was}"));
                }
                _ => {}
            }
        }
        // An area that is no longer there was not examined either.
        let worth = |state: &str| match state {
            "examined" => 2,
            "partly" => 1,
            _ => 0,
        };
        for (area, was) in &self.areas {
            let is = now.areas.get(area).map_or("not there", String::as_str);
            if worth(is) < worth(was) {
                changes.push(format!("area {area}: {is}, was {was}"));
            }
        }
        changes
    }
}
