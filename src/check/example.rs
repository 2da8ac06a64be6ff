//! Examples: the unit tests that a check's file brings along.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{CheckError, Complaint};
use super::file::{
    Document, as_count, as_table, as_text, items, known_keys, no_choice, wrong_type,
};
use super::{Check, Outcome, lexer, typing};
use crate::fact::value::written;
use crate::fact::{Fact, Facts, Gap, Origin, Subject, Type, Value, Why};

written! {
    /// The verdict that an example expects.
    pub enum Expected {
        /// The check fails.
        Fails = "fails",
        /// It fails if its premise is met, which is not known.
        FailsIf = "fails-if",
        /// It passes.
        Passes = "passes",
        /// It stays unknown.
        Unknown = "unknown",
        /// It does not apply.
        DoesNotApply = "does-not-apply",
    }
}

impl Expected {
    /// Whether there is a finding.
    pub fn is_failure(self) -> bool {
        matches!(self, Expected::Fails | Expected::FailsIf)
    }
}

impl From<Outcome> for Expected {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Passes(_) => Expected::Passes,
            Outcome::Fails | Outcome::Waived(_) => Expected::Fails,
            Outcome::FailsIf => Expected::FailsIf,
            Outcome::Unknown(_) => Expected::Unknown,
            Outcome::DoesNotApply => Expected::DoesNotApply,
        }
    }
}

/// An example: what is known, and what the check reports about it. What it does not mention is unknown.
#[derive(Clone, Debug)]
pub struct Example {
    /// What it shows, if its file says so.
    pub about: Option<String>,
    /// The expected verdict.
    pub verdict: Expected,
    /// The facts: subject, place in its schema, and the fact.
    pub facts: Vec<(Subject, usize, Fact<Value>)>,
    /// The line of the file in which it begins, from 1.
    pub line: usize,
}

impl Check {
    /// The examples, read from the file's text and checked against the schema.
    pub fn examples(&self) -> Result<Vec<Example>, CheckError> {
        let (source, from) = match self.advice.packed_examples() {
            Some(packed) => (packed, Some(0)),
            None => (&*self.source, self.examples_at),
        };
        let document = Document::new(&self.path, source, from.unwrap_or(0)..source.len());
        let table = document.table()?;
        self.read_examples(&table, source, from)
            .map_err(|complaint| document.error(&complaint))
    }

    /// The examples of a table that is the source from there, or all of it.
    fn read_examples(
        &self,
        table: &DeTable<'_>,
        source: &str,
        from: Option<usize>,
    ) -> Result<Vec<Example>, Complaint> {
        if from.is_some() {
            known_keys(table, &["example"])
                .map_err(|c| c.help("examples stand at the end of the file".to_owned()))?;
        }
        let mut examples = Vec::new();
        for item in items(table, "example", "a list of tables: [[example]]")? {
            let start = from.unwrap_or(0) + item.span().start;
            let before = &source[..start.min(source.len())];
            if self.is_shown_by(item)? {
                examples.push(self.example(item, before.matches('\n').count() + 1)?);
            }
        }
        Ok(examples)
    }

    /// Whether the example is one of this case: it names it, or names none and the case is the check's own.
    fn is_shown_by(&self, item: &Spanned<DeValue<'_>>) -> Result<bool, Complaint> {
        let table = as_table(item, "a table")?;
        known_keys(table, &["about", "case", "verdict", "facts"])?;
        let case = table.get("case").map(as_text).transpose()?;
        Ok(case.unwrap_or(&self.id) == &*self.case)
    }

    fn example(&self, item: &Spanned<DeValue<'_>>, line: usize) -> Result<Example, Complaint> {
        let table = as_table(item, "a table")?;
        let Some(verdict) = table.get("verdict") else {
            return Err(Complaint::new(item.span(), "the key `verdict` is missing"));
        };
        let word = as_text(verdict)?;
        let Some(expected) = Expected::from_word(word) else {
            let all: Vec<&str> = Expected::ALL.iter().map(|one| one.word()).collect();
            return Err(no_choice("verdict", word, verdict.span(), &all));
        };
        let mut facts = Vec::new();
        if let Some(stated) = table.get("facts") {
            self.example_facts(stated, None, &mut facts)?;
        }
        let about = table.get("about").map(as_text).transpose()?;
        Ok(Example {
            about: about.map(str::to_owned),
            verdict: expected,
            facts,
            line,
        })
    }

    /// Facts as `"port.state" = "active"`, or as `port.state = "active"`, which TOML reads as a table in a table.
    fn example_facts(
        &self,
        item: &Spanned<DeValue<'_>>,
        subject: Option<&str>,
        facts: &mut Vec<(Subject, usize, Fact<Value>)>,
    ) -> Result<(), Complaint> {
        let table = as_table(item, "a table of facts")?;
        for (key, value) in table {
            let name: &str = key.get_ref();
            if subject.is_none() && !name.contains('.') && value.get_ref().is_table() {
                self.example_facts(value, Some(name), facts)?;
                continue;
            }
            let path = match subject {
                Some(subject) => format!("{subject}.{name}"),
                None => name.to_owned(),
            };
            let (slot, schema) = self.names().fact(&path, &key.span())?;
            let (subject, index) = (slot.subject, usize::from(slot.index));
            if facts.iter().any(|(s, i, _)| (*s, *i) == (subject, index)) {
                return Err(Complaint::new(
                    key.span(),
                    format!("`{path}` is stated twice"),
                ));
            }
            facts.push((subject, index, stated(value, schema.ty)?));
        }
        Ok(())
    }
}

/// A stated fact: a value of its type, or `{ unknown = "why" }`.
fn stated(item: &Spanned<DeValue<'_>>, ty: Type) -> Result<Fact<Value>, Complaint> {
    if let DeValue::Table(table) = item.get_ref() {
        known_keys(table, &["unknown"])?;
        let Some(why) = table.get("unknown") else {
            return Err(Complaint::new(item.span(), "a value is missing"));
        };
        return Ok(Fact::Unknown(Gap::new(
            Why::ProbeFailed(as_text(why)?.into()),
            Origin::Stated,
        )));
    }
    value_of(item, ty).map(|value| Fact::Known(value, Origin::Stated))
}

fn value_of(item: &Spanned<DeValue<'_>>, ty: Type) -> Result<Value, Complaint> {
    let wanted = || wrong_type(item, &ty.to_string()).help(format!("as {}", typing::sample(ty)));
    Ok(match (ty, item.get_ref()) {
        (Type::Bool, DeValue::Boolean(value)) => Value::Bool(*value),
        (Type::Count, DeValue::Integer(_)) => Value::Count(as_count(item)?),
        (Type::Text, DeValue::String(text)) => Value::Text((**text).into()),
        (Type::Word(words), DeValue::String(text)) => typing::word(text, words, &item.span())?,
        (Type::Texts, DeValue::Array(items)) => {
            let texts = items.iter().map(|i| as_text(i).map(Into::into));
            Value::Texts(texts.collect::<Result<_, _>>()?)
        }
        (Type::Bool | Type::Count | Type::Text | Type::Texts | Type::Counts | Type::Word(_), _) => {
            return Err(wanted());
        }
        (_, DeValue::String(text)) => {
            let whole: Range<usize> = item.span();
            let value = lexer::literal_of(text).map_err(|complaint| Complaint {
                span: whole,
                ..complaint
            })?;
            if typing::type_of(&value) != ty {
                return Err(wanted());
            }
            value
        }
        _ => return Err(wanted()),
    })
}

/// Judges an example; `Err` says what came out instead.
pub fn try_example(check: &Check, example: &Example) -> Result<(), String> {
    let (facts, id) = facts_of(check, &example.facts);
    let outcome = check.judge(&facts, id).word();
    if outcome == example.verdict.word() {
        return Ok(());
    }
    let evidence = check.evidence(&facts, id);
    let known = evidence.iter().map(|e| match &e.value {
        Ok(value) => format!("{} = {value}", e.fact),
        Err(gap) => format!("{} unknown ({gap})", e.fact),
    });
    Err(format!(
        "{}:{}: the example expects `{}`, the check says `{outcome}`: {}",
        check.path,
        example.line,
        example.verdict.word(),
        known.collect::<Vec<_>>().join(", ")
    ))
}

/// Facts about one instance of the check's subject and its ancestors.
pub(super) fn facts_of(
    check: &Check,
    stated: &[(Subject, usize, Fact<Value>)],
) -> (Facts, crate::fact::Id) {
    let mut facts = Facts::new();
    let mut path: Vec<Subject> = check.subject.scope().collect();
    path.reverse();
    let mut id = Facts::CLUSTER;
    for subject in path {
        id = match subject {
            Subject::Cluster => Facts::CLUSTER,
            Subject::Node => facts.new_node(subject.name()),
            _ => facts.instance(subject, id, subject.name()),
        };
        for (of, index, fact) in stated {
            if *of == subject {
                facts.set_at(id, *index, fact.clone());
            }
        }
    }
    (facts, id)
}
