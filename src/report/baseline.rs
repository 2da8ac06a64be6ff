//! What changed since a baseline: findings that are new, gone or worse, and facts that drifted and matter.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::difference::{Difference, FactSide, differences};
use super::expectation::{Expectation, ExpectedCause, name_node};
use super::text;
use super::{Report, plural};
use crate::fact::{Facts, Subject};

/// Facts whose drift matters: they change by an update, an exchange of parts or a setting, and not from one minute to the next.
const DRIFTS: [(Subject, &str); 9] = [
    (
        Subject::Node,
        "kernel os memory cpus_online nvidia_driver ofed nccl_version gpudirect iommu governors memory_modules",
    ),
    (Subject::Device, "firmware model board"),
    (
        Subject::Port,
        "state link_layer rate width max_rate max_width cable_rate mtu max_mtu netdev_mtu gid_index nccl_gid_index",
    ),
    (Subject::Function, "link_generation link_width"),
    (Subject::Netdev, "mtu speed trust pfc dscp_priorities"),
    (
        Subject::Gpu,
        "vbios gsp_firmware ecc mig power_limit memory max_link_generation max_link_width nvlinks_active",
    ),
    (Subject::Hop, "generation width"),
    (Subject::Selection, "hcas interface gid_indexes"),
    (Subject::Bond, "mode members_down"),
];
/// What matters if it is gone, or new.
const PARTS: [Subject; 5] = [
    Subject::Device,
    Subject::Port,
    Subject::Function,
    Subject::Netdev,
    Subject::Gpu,
];

/// What changed since a baseline.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BaselineChanges {
    /// The baseline: a file with its date, or how many equals.
    pub of: String,
    /// What is new (`+`), gone (`-`), worse or better (`~`), a line each.
    pub changes: Vec<String>,
    /// Facts that drifted.
    pub drifted: Vec<Difference>,
    /// When the baseline was recorded, and the first of what drifted since; absent if nothing did or nobody knows when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// So much of what drifted stands below the headline.
const STEPS: usize = 3;

/// What more than half of all nodes have: the verdict from which one of them is told apart.
pub fn majority(all: &[Expectation]) -> Expectation {
    let mut causes: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let mut areas: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in all {
        for ((check, subject), severity) in one.by_subject() {
            *causes.entry((check, severity, subject)).or_default() += 1;
        }
        for (area, state) in &one.areas {
            *areas.entry((area, state)).or_default() += 1;
        }
    }
    let is_most = |count: &usize| count * 2 > all.len();
    let causes = causes.iter().filter(|(_, count)| is_most(count));
    let areas = areas.iter().filter(|(_, count)| is_most(count));
    Expectation {
        causes: causes
            .map(|((check, severity, subject), _)| ExpectedCause {
                check: (*check).to_owned(),
                severity: (*severity).to_owned(),
                subjects: vec![(*subject).to_owned()],
            })
            .collect(),
        areas: areas
            .map(|((area, state), _)| ((*area).to_owned(), (*state).to_owned()))
            .collect(),
        ..Expectation::default()
    }
}

/// What a report in JSON says of findings and areas.
#[derive(Deserialize)]
struct JsonReport {
    schema: String,
    status: String,
    causes: Vec<ExpectedCause>,
    areas: Vec<JsonArea>,
    nodes: Vec<JsonNode>,
}

#[derive(Deserialize)]
struct JsonNode {
    name: String,
}

#[derive(Deserialize)]
struct JsonArea {
    area: String,
    state: String,
}

/// The verdict that a report in JSON holds; `None` if it is none.
pub fn of_json(text: &str) -> Option<Expectation> {
    let mut report: JsonReport = serde_json::from_str(text).ok()?;
    if let [only] = report.nodes.as_slice() {
        name_node(&mut report.causes, &only.name);
    }
    let areas = report.areas.into_iter();
    report
        .schema
        .starts_with("rdma-doctor-report/")
        .then(|| Expectation {
            status: Some(report.status),
            causes: report.causes,
            areas: areas.map(|one| (one.area, one.state)).collect(),
            ..Expectation::default()
        })
}

/// The facts that matter and that are other here than on more than half of the nodes.
pub fn drifted(nodes: &[Facts], here: &Facts, pseudonyms: bool) -> Vec<Difference> {
    let mut found: Vec<(Difference, usize)> = Vec::new();
    for there in nodes {
        for one in differences(there, here, pseudonyms) {
            if !matters(&one) {
                continue;
            }
            let key = |one: &Difference| (one.subject, one.name.clone(), one.fact);
            match found.iter_mut().find(|(known, _)| key(known) == key(&one)) {
                Some((_, count)) => *count += 1,
                None => found.push((one, 1)),
            }
        }
    }
    found.retain(|(_, count)| count * 2 > nodes.len());
    found.into_iter().map(|(one, _)| one).collect()
}

fn matters(one: &Difference) -> bool {
    let Some(subject) = Subject::from_name(one.subject) else {
        return false;
    };
    match one.fact {
        None => PARTS.contains(&subject),
        // What one side does not know may be the same.
        Some(fact) => {
            let is_known = |side: &FactSide| matches!(side, FactSide::Known(_));
            let mut of = DRIFTS.iter().filter(|(of, _)| *of == subject);
            is_known(&one.there)
                && is_known(&one.here)
                && of.any(|(_, facts)| facts.split(' ').any(|known| known == fact))
        }
    }
}

impl BaselineChanges {
    /// What a report and its facts have other than a baseline.
    pub fn new(
        of: String,
        before: &Expectation,
        report: &Report,
        drifted: Vec<Difference>,
    ) -> Self {
        BaselineChanges {
            of,
            changes: before.changes(report),
            drifted,
            since: None,
        }
    }

    /// The same of a baseline of this time, RFC 3339 in UTC.
    pub fn recorded_at(mut self, utc: &str) -> Self {
        let steps = self.drifted.iter().take(STEPS).map(Difference::step);
        let mut steps = steps.collect::<Vec<String>>().join("; ");
        if self.drifted.len() > STEPS {
            steps.push_str(&format!("; {} more", self.drifted.len() - STEPS));
        }
        let minute = utc.get(..16).map(|minute| minute.replace('T', " "));
        self.since = minute
            .filter(|_| !self.drifted.is_empty())
            .map(|minute| format!("since {minute}: {steps}"));
        self
    }

    /// Writes them for people.
    pub(super) fn write(&self, out: &mut dyn Write, width: usize) -> io::Result<()> {
        writeln!(out)?;
        let count = match self.changes.len() + self.drifted.len() {
            0 => "no change".to_owned(),
            some => plural(some as u64, "change"),
        };
        let head = format!("{count} since {}", self.of);
        text::paragraph(out, "baseline ", 9, &head, width)?;
        for change in &self.changes {
            text::paragraph(out, "         ", 11, change, width)?;
        }
        for one in &self.drifted {
            let drift = format!("~ {}", one.sentence("was"));
            text::paragraph(out, "         ", 11, &drift, width)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drifts_is_in_the_schema() {
        for (subject, names) in DRIFTS {
            for name in names.split(' ') {
                let mut facts = subject.schema().facts.iter();
                let is_there = facts.any(|fact| fact.name == name);
                assert!(is_there, "{}.{name} is not a fact", subject.name());
            }
        }
    }
}
