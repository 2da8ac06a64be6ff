//! The evidence of a verdict, and the missing facts of an open one.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::condition::{JudgeContext, Lineage, NamedOperand, Slot};
use super::{Catalogue, Check, Missing, Outcome, Verdict};
use crate::fact::{Facts, Gap, Id, Origin, Value};

/// One fact that a verdict rests on, or would.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The fact as conditions name it: `port.rate`, `limit.rate`.
    pub fact: String,
    /// Its value, or why there is none.
    pub value: Result<Value, Gap>,
    /// Its origin, if it is known.
    pub origin: Option<Origin>,
    /// Whether the condition that fails names it, and not only what the check applies to.
    pub decides: bool,
}

impl Check {
    pub(super) fn view<'a>(&'a self, facts: &'a Facts, lineage: Lineage) -> JudgeContext<'a> {
        JudgeContext {
            facts,
            lineage,
            limits: &self.limits,
        }
    }

    /// All facts and limits that the check's conditions name, in the order in which they appear, each once.
    pub fn evidence(&self, facts: &Facts, id: Id) -> Vec<Evidence> {
        let lineage = Lineage::of(facts, id);
        let mut seen: Vec<NamedOperand> = Vec::new();
        for named in self.conditions().flat_map(|condition| &condition.named) {
            if !seen.contains(named) {
                seen.push(*named);
            }
        }
        let one = |named| match named {
            NamedOperand::Fact(slot) => Some(Evidence {
                decides: self.fails.named.contains(&named),
                ..state(slot, facts, lineage)
            }),
            NamedOperand::Limit(at) => {
                let (name, value) = self.limits.get(usize::from(at))?;
                Some(Evidence {
                    fact: format!("limit.{name}"),
                    value: Ok(value.clone()),
                    origin: Some(Origin::Stated),
                    decides: false,
                })
            }
        };
        seen.into_iter().filter_map(one).collect()
    }

    /// The unknown facts that keep the check from being decided for this instance. Where it is open whether the check
    /// applies, those are the facts of its premises and of `applies`.
    pub fn lacks<'f>(&self, facts: &'f Facts, id: Id) -> Vec<MissingFact<'f>> {
        let lineage = Lineage::of(facts, id);
        let view = self.view(facts, lineage);
        let mut found = Vec::new();
        let before = self.premises.iter().map(|premise| &premise.condition);
        let mut applies = true;
        for condition in before.chain(&self.applies) {
            applies &= condition.undecided(&view, &mut found) == Some(true);
        }
        if applies {
            self.fails.undecided(&view, &mut found);
        }
        let lack = |slot: Slot| {
            let gap = slot.known(facts, lineage).err()?;
            Some(MissingFact { slot, gap })
        };
        found.into_iter().filter_map(lack).collect()
    }

    /// [`Check::lacks`] as evidence.
    pub fn missing(&self, facts: &Facts, id: Id) -> Vec<Evidence> {
        let lacks = self.lacks(facts, id);
        lacks.iter().map(MissingFact::evidence).collect()
    }
}

/// What keeps verdicts from being decided: worked out once, since most checks of a node are open and several readers ask.
pub struct Lacks<'f>(HashMap<(usize, Id), Vec<MissingFact<'f>>, FixedState>);

impl<'f> Lacks<'f> {
    /// Those of the verdicts that lack facts.
    pub fn of(catalogue: &Catalogue, facts: &'f Facts, verdicts: &[Verdict]) -> Self {
        let is_open = |verdict: &&Verdict| {
            matches!(
                verdict.outcome,
                Outcome::Unknown(Missing::Facts) | Outcome::FailsIf
            )
        };
        let lacks = |verdict: &Verdict| {
            let lacks = catalogue.checks[verdict.check].lacks(facts, verdict.subject);
            ((verdict.check, verdict.subject), lacks)
        };
        Lacks(verdicts.iter().filter(is_open).map(lacks).collect())
    }

    /// As [`Check::lacks`] has it; none of a verdict that is decided.
    pub fn get(&self, verdict: &Verdict) -> &[MissingFact<'f>] {
        let lacks = self.0.get(&(verdict.check, verdict.subject));
        lacks.map_or(&[], Vec::as_slice)
    }
}

/// An unknown fact that keeps a check open, and why it is unknown.
#[derive(Clone, Debug)]
pub struct MissingFact<'f> {
    slot: Slot,
    gap: Cow<'f, Gap>,
}

impl MissingFact<'_> {
    /// Why it is unknown.
    pub fn gap(&self) -> &Gap {
        &self.gap
    }

    /// What would supply the fact, if that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        self.gap.remedy()
    }

    /// Whether the same fact is unknown for the same reason, of whatever instance.
    pub fn is_like(&self, other: &MissingFact<'_>) -> bool {
        self.slot == other.slot && self.gap.why == other.gap.why
    }

    /// The same beyond the facts' lifetime.
    pub fn to_owned(&self) -> MissingFact<'static> {
        MissingFact {
            slot: self.slot,
            gap: Cow::Owned(self.gap().clone()),
        }
    }

    /// As evidence.
    pub fn evidence(&self) -> Evidence {
        Evidence {
            fact: self.slot.path(),
            value: Err(self.gap().clone()),
            origin: None,
            decides: true,
        }
    }
}

fn state(slot: Slot, facts: &Facts, lineage: Lineage) -> Evidence {
    let known = slot.known(facts, lineage);
    Evidence {
        fact: slot.path(),
        origin: known.as_ref().ok().map(|(_, origin)| (*origin).clone()),
        value: known
            .map(|(value, _)| value.clone())
            .map_err(Cow::into_owned),
        decides: true,
    }
}
