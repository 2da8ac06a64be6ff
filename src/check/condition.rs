//! Conditions as they are judged: typed, their facts found, three-valued.
//!
//! A condition holds, does not hold, or nobody knows (Kleene's logic): `false and unknown` is false, `true and unknown`
//! is unknown. Knowing more can turn an unknown into an answer and never an answer into its opposite, because every
//! constant is refused when the file is loaded and every comparison with an unknown side is unknown, unless what the number is at
//! least decides it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use super::lexer::Comparison;
use crate::fact::{Fact, Facts, Gap, Id, Origin, Subject, Value};

/// How many ancestors a subject has at most, itself included.
const LINEAGE: usize = 6;

/// An instance with its ancestors, nearest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lineage([Id; LINEAGE]);

impl Lineage {
    /// The instance and its ancestors.
    pub(super) fn of(facts: &Facts, id: Id) -> Self {
        let mut lineage = [Facts::CLUSTER; LINEAGE];
        for (slot, id) in lineage.iter_mut().zip(facts.lineage(id)) {
            *slot = id;
        }
        Lineage(lineage)
    }

    /// The instance or its ancestor this many steps up.
    pub(super) fn up(&self, steps: u8) -> Id {
        self.0[usize::from(steps).min(LINEAGE - 1)]
    }
}

/// A fact of an instance or of one of its ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Steps up from the check's subject.
    pub(super) up: u8,
    pub(super) subject: Subject,
    pub(super) index: u16,
}

impl Slot {
    /// The fact as conditions name it.
    pub(super) fn path(self) -> String {
        let schema = self.subject.schema();
        format!(
            "{}.{}",
            schema.name,
            schema.facts[usize::from(self.index)].name
        )
    }

    /// The fact's own name.
    pub(super) fn name(self) -> &'static str {
        self.subject.schema().facts[usize::from(self.index)].name
    }

    /// What the number is at least, if it is unknown.
    pub(super) fn least(self, facts: &Facts, lineage: Lineage) -> Option<&Value> {
        facts.at_least(lineage.up(self.up), usize::from(self.index))
    }

    /// The fact as it was stated for this instance.
    pub(super) fn fact(self, facts: &Facts, lineage: Lineage) -> Option<&Fact<Value>> {
        facts.look(lineage.up(self.up), usize::from(self.index))
    }

    /// The fact's value and origin, or why it is unknown.
    pub(super) fn known<'f>(
        self,
        facts: &'f Facts,
        lineage: Lineage,
    ) -> Result<(&'f Value, &'f Origin), Cow<'f, Gap>> {
        match self.fact(facts, lineage) {
            Some(Fact::Known(value, origin)) => Ok((value, origin)),
            Some(Fact::Unknown(gap)) => Err(Cow::Borrowed(gap)),
            None => {
                let unset = facts.unset(lineage.up(self.up), usize::from(self.index));
                Err(Cow::Owned(unset))
            }
        }
    }
}

/// A name in a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedOperand {
    Fact(Slot),
    /// A limit, by its place among the check's limits.
    Limit(u16),
}

/// A named threshold of a check.
pub(super) type Limit = (Arc<str>, Value);

/// The facts and limits against which a condition is judged.
#[derive(Clone, Copy)]
pub(super) struct JudgeContext<'a> {
    pub(super) facts: &'a Facts,
    pub(super) lineage: Lineage,
    pub(super) limits: &'a [Limit],
}

/// A condition, typed and with its facts found.
#[derive(Debug)]
pub struct Condition {
    pub(super) node: Node,
    /// The facts and limits in the order in which they appear, each once.
    pub(super) named: Box<[NamedOperand]>,
    pub(super) text: Box<str>,
}

#[derive(Debug)]
pub(super) enum Node {
    /// A fact that is true or false.
    Holds(Operand),
    Not(Box<Node>),
    All(Box<[Node]>),
    Any(Box<[Node]>),
    Compare(Operand, Comparison, Operand),
    OneOf(Operand, Box<[Value]>),
    /// A text among the texts of a fact, a number among those of a limit.
    Among(Operand, Operand),
}

#[derive(Debug)]
pub(super) enum Operand {
    Fact(Slot),
    Limit(u16),
    Literal(Value),
    Least(Box<[Operand; 2]>),
    Most(Box<[Operand; 2]>),
}

impl Condition {
    /// The condition as it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The facts that the condition names, in the order in which they appear: subject and place in its schema.
    pub fn facts(&self) -> impl Iterator<Item = (Subject, usize)> + '_ {
        self.slots()
            .map(|slot| (slot.subject, usize::from(slot.index)))
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.named.iter().filter_map(|named| match named {
            NamedOperand::Fact(slot) => Some(*slot),
            NamedOperand::Limit(_) => None,
        })
    }

    /// Whether the condition holds; `None` if unknown.
    pub(super) fn holds(&self, view: &JudgeContext<'_>) -> Option<bool> {
        self.node.holds(view)
    }

    /// Whether the condition holds; if that is unknown, adds the unknown facts that keep it from being decided.
    pub(super) fn undecided(&self, view: &JudgeContext<'_>, found: &mut Vec<Slot>) -> Option<bool> {
        self.node.undecided(view, found)
    }
}

impl Node {
    fn holds(&self, view: &JudgeContext<'_>) -> Option<bool> {
        match self {
            Node::Holds(operand) => match operand.value(view)? {
                Value::Bool(holds) => Some(*holds),
                _ => None,
            },
            Node::Not(inner) => inner.holds(view).map(|holds| !holds),
            Node::All(parts) => decided_by(parts, false, view),
            Node::Any(parts) => decided_by(parts, true, view),
            Node::Compare(left, comparison, right) => match (left.value(view), right.value(view)) {
                (Some(left), Some(right)) => compare(left, *comparison, right),
                (None, Some(right)) => compare_least(left.least(view)?, *comparison, right),
                (Some(left), None) => {
                    compare_least(right.least(view)?, comparison.mirrored(), left)
                }
                (None, None) => None,
            },
            Node::OneOf(operand, values) => {
                let value = operand.value(view)?;
                Some(values.iter().any(|v| same(value, v)))
            }
            Node::Among(text, texts) => match (text.value(view)?, texts.value(view)?) {
                (Value::Text(text), Value::Texts(texts)) => Some(texts.contains(text)),
                (Value::Word(word), Value::Texts(texts)) => {
                    Some(texts.iter().any(|text| **text == **word))
                }
                (Value::Count(number), Value::Counts(numbers)) => Some(numbers.contains(number)),
                _ => None,
            },
        }
    }

    /// Whether it holds; if that is unknown, adds the unknown facts that matter.
    fn undecided(&self, view: &JudgeContext<'_>, found: &mut Vec<Slot>) -> Option<bool> {
        let (parts, decider) = match self {
            Node::All(parts) => (parts, false),
            Node::Any(parts) => (parts, true),
            Node::Not(inner) => return inner.undecided(view, found).map(|holds| !holds),
            Node::Holds(operand) | Node::OneOf(operand, _) => {
                let holds = self.holds(view);
                if holds.is_none() {
                    operand.unknown(view, found);
                }
                return holds;
            }
            Node::Compare(left, _, right) | Node::Among(left, right) => {
                let holds = self.holds(view);
                if holds.is_none() {
                    left.unknown(view, found);
                    right.unknown(view, found);
                }
                return holds;
            }
        };
        let before = found.len();
        let mut whole = Some(!decider);
        for part in parts {
            match part.undecided(view, found) {
                // What other parts lack does not matter then.
                Some(holds) if holds == decider => {
                    found.truncate(before);
                    return Some(decider);
                }
                Some(_) => {}
                None => whole = None,
            }
        }
        whole
    }
}

/// `and` is decided by a part that is false, `or` by one that is true. Stopping there changes no answer, only time:
/// the evidence of a finding looks at all facts.
#[inline]
fn decided_by(parts: &[Node], decider: bool, view: &JudgeContext<'_>) -> Option<bool> {
    let mut whole = Some(!decider);
    for part in parts {
        match part.holds(view) {
            Some(holds) if holds == decider => return Some(decider),
            Some(_) => {}
            None => whole = None,
        }
    }
    whole
}

impl Operand {
    #[inline(always)]
    pub(super) fn value<'a>(&'a self, view: &JudgeContext<'a>) -> Option<&'a Value> {
        match self {
            Operand::Fact(slot) => slot.fact(view.facts, view.lineage)?.known(),
            Operand::Literal(value) => Some(value),
            Operand::Limit(index) => view.limits.get(usize::from(*index)).map(|(_, v)| v),
            Operand::Least(sides) => extreme(sides, view, Ordering::Less),
            Operand::Most(sides) => extreme(sides, view, Ordering::Greater),
        }
    }

    fn least<'a>(&self, view: &JudgeContext<'a>) -> Option<&'a Value> {
        match self {
            Operand::Fact(slot) => slot.least(view.facts, view.lineage),
            _ => None,
        }
    }

    fn unknown(&self, view: &JudgeContext<'_>, found: &mut Vec<Slot>) {
        match self {
            Operand::Fact(slot) => {
                if self.value(view).is_none() && !found.contains(slot) {
                    found.push(*slot);
                }
            }
            Operand::Literal(_) | Operand::Limit(_) => {}
            Operand::Least(sides) | Operand::Most(sides) => {
                sides.iter().for_each(|side| side.unknown(view, found));
            }
        }
    }
}

/// Rare, and kept apart so that the common operands are read without a call.
#[inline(never)]
fn extreme<'a>(
    sides: &'a [Operand; 2],
    view: &JudgeContext<'a>,
    wanted: Ordering,
) -> Option<&'a Value> {
    let (first, second) = (sides[0].value(view)?, sides[1].value(view)?);
    Some(if second.order(first)? == wanted {
        second
    } else {
        first
    })
}

#[inline]
fn compare(left: &Value, comparison: Comparison, right: &Value) -> Option<bool> {
    Some(match comparison {
        Comparison::Equal => same(left, right),
        Comparison::Unequal => !same(left, right),
        Comparison::Less => left.order(right)? == Ordering::Less,
        Comparison::AtMost => left.order(right)? != Ordering::Greater,
        Comparison::Greater => left.order(right)? == Ordering::Greater,
        Comparison::AtLeast => left.order(right)? != Ordering::Less,
    })
}

/// The same of a number that is `least` at least.
fn compare_least(least: &Value, comparison: Comparison, other: &Value) -> Option<bool> {
    match (comparison, least.order(other)?) {
        (Comparison::Greater | Comparison::Unequal, Ordering::Greater)
        | (Comparison::AtLeast, Ordering::Greater | Ordering::Equal) => Some(true),
        (Comparison::AtMost | Comparison::Equal, Ordering::Greater)
        | (Comparison::Less, Ordering::Greater | Ordering::Equal) => Some(false),
        _ => None,
    }
}

/// Words that are the same mostly are one text in memory, and words that differ mostly do so in length or first letter:
/// either is seen without reading on.
#[inline]
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Word(a), Value::Word(b)) => {
            std::ptr::eq(*a, *b)
                || (a.len() == b.len() && a.as_bytes().first() == b.as_bytes().first() && a == b)
        }
        (a, b) => a.same(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_fits_a_lineage() {
        for subject in Subject::ALL {
            assert!(subject.scope().count() <= LINEAGE, "{}", subject.name());
            assert!(subject.schema().facts.len() < usize::from(u16::MAX));
        }
    }
}
