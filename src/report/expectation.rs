//! The verdict that a recording is expected to give, and how a report differs from it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Report;
use crate::check::{Catalogue, located};
use crate::diagnosis::areas::AreaState;

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
    /// The checks that fail and are no cause: notes, and what a cause or a note explains.
    pub also_fails: Option<Vec<String>>,
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
    /// All for which it fails; a node that was judged alone is `node`.
    pub subjects: Vec<String>,
}

impl Expectation {
    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// Why it is none.
    pub fn read(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| located(text, &error))
    }

    /// The expectation that a report meets. It keeps the list of nodes of the earlier one, and whether the headline and what also fails are compared.
    pub fn of(report: &Report, before: Option<&Expectation>) -> Self {
        let causes = report.causes.iter().map(|cause| ExpectedCause {
            check: cause.check.clone(),
            severity: cause.severity.to_owned(),
            subjects: cause.subjects.clone(),
        });
        let mut causes: Vec<ExpectedCause> = causes.collect();
        if let [only] = report.nodes.as_slice() {
            name_node(&mut causes, &only.name);
        }
        causes.sort();
        let areas = report.areas.iter();
        let has_headline = before.is_some_and(|before| before.headline.is_some());
        let has_more = before.is_some_and(|before| before.also_fails.is_some());
        Expectation {
            nodes: before.and_then(|before| before.nodes.clone()),
            status: Some(report.status.to_owned()),
            headline: has_headline.then(|| report.headline.to_string()),
            also_fails: has_more.then(|| also_failing(report)),
            // What is not there is never lost.
            areas: areas
                .filter(|area| area.state != AreaState::NothingThere.word())
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
        // One a line if there are several, so that a difference shows which.
        let list = |all: &Vec<String>| match all.as_slice() {
            [_, _, ..] => serde_json::to_string_pretty(all),
            _ => serde_json::to_string(all),
        };
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
        if let Some(also_fails) = &self.also_fails {
            text += &format!("also_fails = {}\n", list(also_fails)?);
        }
        if !self.areas.is_empty() {
            text += "\n[areas]\n";
        }
        for (area, state) in &self.areas {
            text += &format!("{area} = {}\n", quoted(state)?);
        }
        for cause in &self.causes {
            let (check, severity) = (quoted(&cause.check)?, quoted(&cause.severity)?);
            let subjects = list(&cause.subjects)?;
            text += &format!(
                "\n[[cause]]\ncheck = {check}\nseverity = {severity}\nsubjects = {subjects}\n"
            );
        }
        Ok(text)
    }

    /// The same by the ids of today: a check that became a case of another is expected as that one.
    #[must_use]
    pub fn by_ids_of(mut self, catalogue: &Catalogue) -> Self {
        let causes = self.causes.iter_mut().map(|cause| &mut cause.check);
        for id in causes.chain(self.also_fails.iter_mut().flatten()) {
            if let Some(check) = catalogue.get(id) {
                *id = check.id.to_string();
            }
        }
        self
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
            && *headline != report.headline.to_string()
        {
            changes.push(format!("headline: {}", report.headline));
        }
        let sentence = |check: &str| {
            let cause = report.causes.iter().find(|cause| cause.check == check);
            cause.map_or(String::new(), |cause| cause.sentence.to_string())
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
        if let Some(before) = &self.also_fails {
            let now = also_failing(report);
            let came = now.iter().filter(|check| !before.contains(check));
            changes.extend(came.map(|check| format!("+ also fails: {check}")));
            let went = before.iter().filter(|check| !now.contains(check));
            changes.extend(went.map(|check| format!("- also fails: {check}")));
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

/// Calls a node that is judged alone `node`, so that its verdict can be held against that of an equal.
pub(super) fn name_node(causes: &mut [ExpectedCause], name: &str) {
    let subjects = causes.iter_mut().flat_map(|cause| &mut cause.subjects);
    for subject in subjects.filter(|subject| *subject == name) {
        *subject = "node".to_owned();
    }
}

/// The checks that fail and are no cause.
fn also_failing(report: &Report) -> Vec<String> {
    let notes = report.notes.iter().map(|note| &note.check);
    let all = report.causes.iter().chain(&report.notes);
    let below = all.flat_map(|finding| finding.consequences.iter().map(|one| &one.check));
    let checks: BTreeSet<&String> = notes.chain(below).collect();
    checks.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_became_a_case_is_expected_as_the_one_that_has_it() {
        let text = "also_fails = [\"gpu/ecc-pending\", \"site/own\"]\n[[cause]]\ncheck = \"link/polling\"\nseverity = \"error\"\nsubjects = [\"mlx5_2/1\"]\n";
        let catalogue = Catalogue::embedded().unwrap();
        let expected = Expectation::read(text).unwrap().by_ids_of(&catalogue);
        assert_eq!(expected.causes[0].check, "link/not-trained");
        let also = expected.also_fails.unwrap();
        assert_eq!(also, ["gpu/mode-pending", "site/own"]);
    }
}
