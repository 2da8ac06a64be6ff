//! What a gap means for a verdict: whether something is damaged, was withheld, or is not available here.

use super::{Facts, Gap, Id, Origin, Subject, Why};
use crate::source::refusal::Refusal;

/// A kind of gap, the gravest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GapKind {
    /// Not recorded, not logged, no such interface, no library.
    Unavailable,
    /// Permission is missing.
    Withheld,
    /// The question, or the probe that asks it, failed.
    Damage,
}

/// How many gaps may wait for each other in a row.
const DEPTH: u8 = 8;

impl Why {
    /// Whether the hardware, its driver or the machine does not support the question.
    pub fn is_not_offered(&self) -> bool {
        match self {
            Why::Refused(refusal) => {
                refusal.is_absence() || matches!(refusal, Refusal::SymbolMissing(_))
            }
            Why::NotSaid(_) => true,
            _ => false,
        }
    }
}

/// Whether the refusal of what this origin names is damage.
fn is_damage(refusal: &Refusal, origin: &Origin) -> bool {
    match origin {
        Origin::Asked(question) => refusal.is_damage(question),
        _ => refusal.is_failure(),
    }
}

impl Facts {
    /// The kind of a gap of this instance. A gap that another one left is of the other's kind.
    pub fn gap_kind(&self, id: Id, gap: &Gap) -> GapKind {
        self.kind(id, gap, DEPTH)
    }

    fn kind(&self, id: Id, gap: &Gap, depth: u8) -> GapKind {
        match &gap.why {
            Why::Refused(refusal) if refusal.is_permission() => GapKind::Withheld,
            Why::Refused(refusal) if is_damage(refusal, &gap.origin) => GapKind::Damage,
            Why::ProbeFailed(_) | Why::LeftOut(_) => GapKind::Damage,
            Why::Missing(what) => self.kind_of(id, what, depth),
            _ => GapKind::Unavailable,
        }
    }

    /// The gravest kind of the gaps that a fact of this name has on the instance's node.
    fn kind_of(&self, id: Id, what: &str, depth: u8) -> GapKind {
        let Some(depth) = depth.checked_sub(1) else {
            return GapKind::Unavailable;
        };
        let Some((subject, fact)) = what.split_once('.') else {
            return GapKind::Unavailable;
        };
        let Some(subject) = Subject::from_name(subject) else {
            return GapKind::Unavailable;
        };
        let facts = subject.schema().facts;
        let Some(index) = facts.iter().position(|f| f.name == fact) else {
            return GapKind::Unavailable;
        };
        let node = self.ancestor(id, Subject::Node);
        let own = |other: &Id| self.ancestor(*other, Subject::Node) == node;
        let own_lineage: Vec<Id> = self.lineage(id).collect();
        let nearest = own_lineage.iter().find(|up| self.subject(**up) == subject);
        let all: Vec<Id> = match nearest {
            Some(one) => vec![*one],
            None => self.all(subject).filter(own).collect(),
        };
        let gap = |of: Id| match self.look(of, index) {
            Some(super::Fact::Known(..)) => None,
            Some(super::Fact::Unknown(gap)) => Some(self.kind(of, gap, depth)),
            None => Some(self.kind(of, &self.unset(of, index), depth)),
        };
        all.into_iter()
            .filter_map(gap)
            .max()
            .unwrap_or(GapKind::Unavailable)
    }
}
