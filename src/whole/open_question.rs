//! What could not be decided, and what would supply it.

use std::borrow::Cow;

use serde::Serialize;

use super::evidence::{EvidenceLine, evidence_line};
use super::wording::Writer;
use crate::check::{Catalogue, Lacks, Missing, MissingFact, Outcome, Verdict};
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

/// What keeps a verdict open.
enum OpenReason<'l> {
    /// Which members there are; why that is unknown.
    Members(Subject, Option<Gap>),
    Facts(Cow<'l, [MissingFact<'l>]>),
}

impl OpenReason<'_> {
    fn is_like(&self, other: &OpenReason<'_>) -> bool {
        match (self, other) {
            (OpenReason::Members(a, gap_a), OpenReason::Members(b, gap_b)) => {
                let [why_a, why_b] = [gap_a, gap_b].map(|gap| gap.as_ref().map(|gap| &gap.why));
                a == b && why_a == why_b
            }
            (OpenReason::Facts(a), OpenReason::Facts(b)) => {
                a.len() == b.len() && a.iter().zip(&**b).all(|(a, b)| a.is_like(b))
            }
            _ => false,
        }
    }

    fn into_owned(self) -> OpenReason<'static> {
        match self {
            OpenReason::Members(subject, gap) => OpenReason::Members(subject, gap),
            OpenReason::Facts(lacks) => {
                OpenReason::Facts(lacks.iter().map(MissingFact::to_owned).collect())
            }
        }
    }

    fn remedy(&self) -> Option<&'static str> {
        match self {
            OpenReason::Members(_, gap) => gap.as_ref().and_then(Gap::remedy),
            OpenReason::Facts(lacks) => lacks.iter().find_map(MissingFact::remedy),
        }
    }

    fn lines(&self) -> Vec<EvidenceLine> {
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
                let evidence = lacks.iter().map(MissingFact::evidence);
                evidence.map(evidence_line).collect()
            }
        }
    }
}

/// A question that is not yet put into words: those of many nodes are mostly the same.
pub struct UnwordedQuestion {
    /// The check's place in the catalogue.
    pub place: usize,
    /// For what.
    pub subjects: Vec<String>,
    reason: OpenReason<'static>,
}

impl UnwordedQuestion {
    /// Whether the same check waits for the same.
    pub fn is_like(&self, other: &Self) -> bool {
        self.place == other.place && self.reason.is_like(&other.reason)
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let subjects = self
            .subjects
            .iter()
            .map(|name| size_of::<String>() + name.len());
        let reason = match &self.reason {
            OpenReason::Members(..) => 0,
            OpenReason::Facts(lacks) => size_of_val(&**lacks),
        };
        size_of::<Self>() + subjects.sum::<usize>() + reason
    }

    /// The facts that are missing, and why.
    pub fn missing(&self) -> Vec<EvidenceLine> {
        self.reason.lines()
    }

    /// The question in words.
    pub fn into_words(self, catalogue: &Catalogue) -> OpenQuestion {
        let check = &catalogue.checks[self.place];
        OpenQuestion {
            check: check.id.to_string(),
            title: check.title.clone(),
            area: check.area.to_string(),
            missing: self.missing(),
            remedy: self.reason.remedy().map(str::to_owned),
            subjects: self.subjects,
        }
    }
}

impl Writer<'_> {
    /// What is open: of each check one question for those instances that wait for the same.
    pub fn open(&self, verdicts: &[Verdict], lacks: &Lacks<'_>) -> Vec<UnwordedQuestion> {
        let mut open: Vec<UnwordedQuestion> = Vec::new();
        // The verdicts of a check stand together: its questions begin here.
        let mut of_check = 0;
        for verdict in verdicts {
            let Outcome::Unknown(missing) = &verdict.outcome else {
                continue;
            };
            if open.last().is_some_and(|last| last.place != verdict.check) {
                of_check = open.len();
            }
            let reason = match missing {
                Missing::Members(subject) => {
                    let gap = self.facts.members(*subject, verdict.subject).err();
                    OpenReason::Members(*subject, gap)
                }
                Missing::Facts => OpenReason::Facts(lacks.get(verdict).into()),
            };
            let name = self.name(verdict.subject);
            let mut asked = open[of_check..].iter_mut().rev();
            match asked.find(|other| reason.is_like(&other.reason)) {
                Some(same) => same.subjects.push(name),
                None => open.push(UnwordedQuestion {
                    place: verdict.check,
                    subjects: vec![name],
                    reason: reason.into_owned(),
                }),
            }
        }
        open
    }
}
