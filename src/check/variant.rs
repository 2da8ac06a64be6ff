//! What follows from an example that fails: one fact that a condition names is withheld, or is at, below or above what it is compared with.

use std::sync::Arc;

use super::condition::{Condition, JudgeContext, Lineage, Node, Operand, Slot};
use super::example::{Example, facts_of};
use super::{Check, Expected};
use crate::fact::unit::{BitRate, Bytes, PerSecond, Percent, Seconds};
use crate::fact::{Fact, Origin, Subject, Type, Value};

/// An example with one fact changed.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The fact, as conditions name it.
    pub fact: String,
    /// Its value; `None` if it is withheld.
    pub value: Option<Value>,
    /// What the check says then.
    pub verdict: Expected,
}

impl Check {
    /// The variants of an example, in the order in which the conditions name the facts.
    pub fn variants(&self, example: &Example) -> Vec<Variant> {
        let (facts, id) = facts_of(self, &example.facts);
        let view = self.view(&facts, Lineage::of(&facts, id));
        let mut changes: Vec<Change> = Vec::new();
        for condition in self.conditions() {
            condition.changes(&view, &mut changes);
        }
        let known = |change: &Change| change.slot.known(&facts, view.lineage).ok();
        changes.retain(|change| {
            known(change).is_some_and(|(now, _)| change.value.as_ref() != Some(now))
        });
        changes
            .into_iter()
            .map(|change| self.variant(example, change))
            .collect()
    }

    fn variant(&self, example: &Example, change: Change) -> Variant {
        let place = (change.slot.subject, usize::from(change.slot.index));
        let mut stated: Vec<(Subject, usize, Fact<Value>)> = example.facts.clone();
        stated.retain(|(subject, index, _)| (*subject, *index) != place);
        if let Some(value) = &change.value {
            let fact = Fact::Known(value.clone(), Origin::Stated);
            stated.push((place.0, place.1, fact));
        }
        let (facts, id) = facts_of(self, &stated);
        Variant {
            fact: change.slot.path(),
            value: change.value,
            verdict: self.judge(&facts, id).into(),
        }
    }
}

/// What becomes of a fact: another value, or none.
#[derive(PartialEq)]
struct Change {
    slot: Slot,
    value: Option<Value>,
}

impl Condition {
    /// Adds what can be changed about each fact that the condition names.
    fn changes(&self, view: &JudgeContext<'_>, changes: &mut Vec<Change>) {
        for slot in self.slots() {
            add(changes, slot, None);
        }
        self.node.changes(view, changes);
    }
}

impl Node {
    fn changes(&self, view: &JudgeContext<'_>, changes: &mut Vec<Change>) {
        match self {
            Node::All(parts) | Node::Any(parts) => {
                parts.iter().for_each(|part| part.changes(view, changes));
            }
            Node::Not(inner) => inner.changes(view, changes),
            Node::Holds(operand) => {
                for slot in operand.slots() {
                    add(changes, slot, Some(Value::Bool(true)));
                    add(changes, slot, Some(Value::Bool(false)));
                }
            }
            Node::Compare(left, _, right) => {
                against(left, right.value(view), changes);
                against(right, left.value(view), changes);
            }
            Node::OneOf(operand, values) => {
                against(operand, values.first(), changes);
                against(operand, values.last(), changes);
            }
            Node::Among(text, texts) => {
                for slot in text.slots() {
                    match texts.value(view) {
                        Some(Value::Texts(all)) => texts_around(slot, all, changes),
                        Some(Value::Counts(all)) => {
                            let least = all.first().map(|number| Value::Count(*number));
                            around(slot, least.as_ref(), changes);
                        }
                        _ => {}
                    }
                }
                if let Some(Value::Text(one)) = text.value(view) {
                    for slot in texts.slots() {
                        add(changes, slot, Some(Value::Texts([one.clone()].into())));
                        add(changes, slot, Some(Value::Texts([].into())));
                    }
                }
            }
        }
    }
}

impl Operand {
    /// The facts in it.
    fn slots(&self) -> Vec<Slot> {
        match self {
            Operand::Fact(slot) => vec![*slot],
            Operand::Literal(_) | Operand::Limit(_) => Vec::new(),
            Operand::Least(sides) | Operand::Most(sides) => {
                sides.iter().flat_map(Operand::slots).collect()
            }
        }
    }
}

fn add(changes: &mut Vec<Change>, slot: Slot, value: Option<Value>) {
    let change = Change { slot, value };
    if !changes.contains(&change) {
        changes.push(change);
    }
}

fn against(operand: &Operand, other: Option<&Value>, changes: &mut Vec<Change>) {
    for slot in operand.slots() {
        around(slot, other, changes);
    }
}

/// A fact at, below and above a value; of texts and words that value and each other one.
fn around(slot: Slot, other: Option<&Value>, changes: &mut Vec<Change>) {
    let Some(other) = other else { return };
    let schema = &slot.subject.schema().facts[usize::from(slot.index)];
    let values: Vec<Value> = match (schema.ty, other) {
        (Type::Word(words), _) => words.iter().map(|word| Value::Word(word)).collect(),
        (_, Value::Text(text)) => vec![Value::Text(text.clone()), Value::Text("another".into())],
        (_, Value::Word(word)) => vec![Value::Text((*word).into()), Value::Text("another".into())],
        (_, Value::Bool(_)) => vec![Value::Bool(true), Value::Bool(false)],
        (_, other) => vec![below(other), other.clone(), above(other)],
    };
    for value in values {
        add(changes, slot, Some(value));
    }
}

/// A text of the list, and one that is not in it.
fn texts_around(slot: Slot, all: &[Arc<str>], changes: &mut Vec<Change>) {
    let first = all.first().cloned().unwrap_or_default();
    around(slot, Some(&Value::Text(first)), changes);
}

/// A share of a quantity that shows in a report.
const STEP: f64 = 0.1;

fn below(value: &Value) -> Value {
    moved(value, -STEP)
}

fn above(value: &Value) -> Value {
    moved(value, STEP)
}

/// The value and a share of it, at least one for what is counted, and never below nothing.
fn moved(value: &Value, share: f64) -> Value {
    match value {
        Value::Count(number) => Value::Count(stepped(*number, 1, share)),
        Value::BitRate(rate) => Value::BitRate(BitRate(part_of(rate.0, share))),
        Value::Bytes(bytes) => Value::Bytes(Bytes(part_of(bytes.0, share))),
        Value::Seconds(time) => Value::Seconds(Seconds(scaled(time.0, share))),
        Value::PerSecond(rate) => Value::PerSecond(PerSecond(scaled(rate.0, share))),
        Value::Percent(part) => Value::Percent(Percent(scaled(part.0, share))),
        other => other.clone(),
    }
}

fn part_of(number: u64, share: f64) -> u64 {
    let step = (number as f64 * share.abs()) as u64;
    stepped(number, step.max(1), share)
}

/// The number one step towards where the share points.
fn stepped(number: u64, step: u64, share: f64) -> u64 {
    if share < 0.0 {
        number.saturating_sub(step)
    } else {
        number.saturating_add(step)
    }
}

fn scaled(number: f64, share: f64) -> f64 {
    if number == 0.0 {
        share.max(0.0)
    } else {
        number + number.abs() * share
    }
}
