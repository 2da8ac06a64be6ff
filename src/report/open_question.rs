//! What could not be decided, and what would supply it.

use serde::Serialize;

use super::finding::{EvidenceLine, evidence_line};
use super::writer::Writer;
use crate::check::{Lacks, Missing, MissingFact, Outcome, Verdict};
use crate::fact::{Gap, Subject};

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

/// The missing facts of an open verdict.
#[derive(Clone)]
enum OpenReason<'l> {
    /// Which members there are; why that is unknown.
    Members(Subject, Option<Gap>),
    Facts(&'l [MissingFact<'l>]),
}

impl OpenReason<'_> {
    fn are_like(&self, other: &Self) -> bool {
        match (self, other) {
            (OpenReason::Members(a, gap_a), OpenReason::Members(b, gap_b)) => {
                let why = |gap: &Option<Gap>| gap.as_ref().map(|gap| gap.why.clone());
                a == b && why(gap_a) == why(gap_b)
            }
            (OpenReason::Facts(a), OpenReason::Facts(b)) => {
                a.len() == b.len() && a.iter().zip(*b).all(|(a, b)| a.is_like(b))
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
            OpenReason::Facts(lacks) => {
                let lines = lacks.iter().cloned();
                lines
                    .map(|lack| evidence_line(lack.into_evidence()))
                    .collect()
            }
        }
    }
}

impl Writer<'_> {
    /// What is open: of each check one question for those instances that wait for the same.
    pub(super) fn open(&self, verdicts: &[Verdict], lacks: &Lacks<'_>) -> Vec<OpenQuestion> {
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
                Missing::Facts => OpenReason::Facts(lacks.get(verdict)),
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
}
