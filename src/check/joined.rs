//! What else stands in the same text as an event: conditions of a check over other subjects that confirm the cause that it names, or rule it out.
//!
//! ```toml
//! [[joined]]
//! with    = "node"
//! when    = 'node.memlock == unlimited'
//! refutes = "locked memory is not the limit: it is {node.memlock}"
//! ```
//!
//! Where the check applies to an event, each instance that touches the event is tried. What holds is stated as facts of the event, so that
//! conditions and findings of all checks can name it: `event.cause_refuted`, `event.refuted_by`, `event.cause_confirmed`, `event.confirmed_by`.

use std::collections::BTreeMap;

use super::condition::Lineage;
use super::diagnostic::Complaint;
use super::file::{Document, Item, as_table, as_text, known_keys, need, placed};
use super::names::Names;
use super::{Catalogue, Check, Condition, Template, typing};
use crate::fact::{Fact, Facts, Id, Origin, Subject, Value, event};

/// The keys of one.
const KEYS: [&str; 4] = ["with", "when", "confirms", "refutes"];

/// Sentences of one kind that an event has at most: further ones add nothing that a reader needs.
const SENTENCES: usize = 3;

/// What another subject of the same text says of the cause that a check names.
#[derive(Debug)]
pub struct Join {
    /// Of what the condition is.
    pub with: Subject,
    /// When it says so.
    pub when: Condition,
    /// Whether it rules the cause out, and does not confirm it.
    pub refutes: bool,
    /// What it says.
    pub sentence: Template,
}

impl Join {
    /// Reads one of a check's file.
    pub(super) fn read(
        document: &Document<'_>,
        item: Item<'_, '_>,
        names: Names<'_>,
    ) -> Result<Self, Complaint> {
        if names.subject != Subject::Event {
            let message = "only checks of subject event have `joined`";
            return Err(Complaint::new(item.span(), message));
        }
        let table = as_table(item, "a table: [[joined]]")?;
        known_keys(table, &KEYS)?;
        let with = need(table, "with")?;
        let Some(subject) = Subject::from_name(as_text(with)?) else {
            return Err(Complaint::new(with.span(), "there is no such subject"));
        };
        let of_subject = Names { subject, ..names };
        let (sentence, refutes) = match (table.get("confirms"), table.get("refutes")) {
            (Some(sentence), None) => (sentence, false),
            (None, Some(sentence)) => (sentence, true),
            _ => {
                let message = "it has either `confirms` or `refutes`";
                return Err(Complaint::new(item.span(), message));
            }
        };
        Ok(Join {
            with: subject,
            when: placed(document, need(table, "when")?, |text| {
                typing::condition(text, of_subject)
            })?,
            refutes,
            sentence: placed(document, sentence, |text| Template::parse(text, of_subject))?,
        })
    }

    /// One that the build has put into a line: subject, condition, kind and sentence, a tab between.
    pub(super) fn packed(line: &str, names: Names<'_>) -> Result<Self, Complaint> {
        let malformed = || Complaint::new(0..0, "its joins cannot be read");
        let mut parts = line.split('\t');
        let mut next = || parts.next().ok_or_else(malformed);
        let [with, when, kind, sentence] = [next()?, next()?, next()?, next()?];
        let subject = Subject::from_name(with).ok_or_else(malformed)?;
        let of_subject = Names { subject, ..names };
        Ok(Join {
            with: subject,
            when: typing::condition(when, of_subject)?,
            refutes: kind == "refutes",
            sentence: Template::parse(sentence, of_subject)?,
        })
    }

    /// What it says of an instance, with the line on which that rests.
    fn sentence_if_it_holds(&self, check: &Check, facts: &Facts, id: Id) -> Option<String> {
        let lineage = Lineage::of(facts, id);
        let context = check.view(facts, lineage);
        if self.when.holds(&context) != Some(true) {
            return None;
        }
        let sentence = self.sentence.render(facts, id, &check.limits);
        let deciding = (self.when.slots()).filter_map(|slot| slot.fact(facts, lineage));
        Some(match deciding.filter_map(place_of).last() {
            Some(line) => format!("{sentence} ({line})"),
            None => sentence.to_string(),
        })
    }

    /// What it says, each sentence with the instances of which it does.
    fn sentences(&self, check: &Check, facts: &Facts) -> BTreeMap<String, Vec<Id>> {
        let mut all: BTreeMap<String, Vec<Id>> = BTreeMap::new();
        for id in facts.all(self.with) {
            if let Some(sentence) = self.sentence_if_it_holds(check, facts, id) {
                all.entry(sentence).or_default().push(id);
            }
        }
        all
    }
}

/// Where the line stands that a fact was read from.
fn place_of(fact: &Fact<Value>) -> Option<String> {
    match fact {
        Fact::Known(_, Origin::Logged(line)) if line.file.is_empty() => {
            Some(format!("line {}", line.line))
        }
        Fact::Known(_, Origin::Logged(line)) => Some(format!("{}:{}", line.file, line.line)),
        _ => None,
    }
}

/// What is said of an event.
struct SaidOfEvent {
    event: Id,
    confirming: Vec<String>,
    refuting: Vec<String>,
}

impl SaidOfEvent {
    fn nothing(event: Id) -> Self {
        SaidOfEvent {
            event,
            confirming: Vec::new(),
            refuting: Vec::new(),
        }
    }

    fn add(&mut self, refutes: bool, sentence: &String) {
        let kind = if refutes {
            &mut self.refuting
        } else {
            &mut self.confirming
        };
        if kind.len() < SENTENCES && !kind.contains(sentence) {
            kind.push(sentence.clone());
        }
    }

    fn state(&self, facts: &mut Facts) {
        let how = "what else the text shows";
        let (confirmed, refuted) = (!self.confirming.is_empty(), !self.refuting.is_empty());
        facts.derive(self.event, event::CAUSE_CONFIRMED, confirmed, how);
        facts.derive(self.event, event::CAUSE_REFUTED, refuted, how);
        if confirmed {
            let sentences = self.confirming.join("; ");
            facts.derive(self.event, event::CONFIRMED_BY, sentences.into(), how);
        }
        if refuted {
            let sentences = self.refuting.join("; ");
            facts.derive(self.event, event::REFUTED_BY, sentences.into(), how);
        }
    }
}

/// States of each event what else in its text confirms its usual cause, or rules it out.
pub fn join(catalogue: &Catalogue, facts: &mut Facts) {
    let events = facts.all(Subject::Event).map(SaidOfEvent::nothing);
    let mut events: Vec<SaidOfEvent> = events.collect();
    if events.is_empty() {
        return;
    }
    for check in (catalogue.checks.iter()).filter(|check| !check.joined.is_empty()) {
        add_of_check(check, facts, &mut events);
    }
    for said in events {
        said.state(facts);
    }
}

/// Adds what a check's joins say of the events to which the check applies.
fn add_of_check(check: &Check, facts: &Facts, events: &mut [SaidOfEvent]) {
    let mut applying: Vec<&mut SaidOfEvent> = (events.iter_mut())
        .filter(|said| check.applies_to(facts, said.event))
        .collect();
    if applying.is_empty() {
        return;
    }
    for join in &check.joined {
        let sentences = join.sentences(check, facts);
        for said in &mut applying {
            // What an event shows of itself says more than what others show.
            let own = sentences.iter().find(|(_, all)| all.contains(&said.event));
            if let Some((sentence, _)) = own {
                said.add(join.refutes, sentence);
                continue;
            }
            for (sentence, instances) in &sentences {
                if (instances.iter()).any(|id| is_beside(facts, said.event, *id)) {
                    said.add(join.refutes, sentence);
                }
            }
        }
    }
}

impl Check {
    /// Whether it is known that the check applies.
    fn applies_to(&self, facts: &Facts, id: Id) -> bool {
        let view = self.view(facts, Lineage::of(facts, id));
        let applies = self.applies.as_ref();
        applies.is_none_or(|applies| applies.holds(&view) == Some(true))
    }
}

/// Whether an instance is of the same text and place as the event: of its run, or of its machine. What the kernel says of one machine
/// is felt on others.
fn is_beside(facts: &Facts, event: Id, id: Id) -> bool {
    match facts.ancestor(id, Subject::Node) {
        Some(node) if facts.subject(id) != Subject::KernelEvent => {
            facts.related(event).contains(&node)
        }
        _ => facts.touches(event, id),
    }
}
