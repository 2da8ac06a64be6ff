//! Examples: the unit tests that a check's file brings along.

use std::iter;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{CheckError, Complaint};
use super::file::{
    Document, IN_ITS_CASE, as_count, as_table, as_text, items, known_keys, own_table, wrong_type,
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

/// How the examples of a check are written.
const LIST: &str = "a list of tables: [[example]]";

/// Keys that an example once had.
const OLD_KEYS: [&str; 3] = ["case", "verdict", "facts"];

/// How a verdict and its facts are written.
const FACTS_BEHIND_VERDICT: &str = "the verdict is the key of the facts: fails = { … }";

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
        let source = self.advice.packed_examples().unwrap_or(&self.source);
        let document = Document::new(&self.path, source);
        let table = document.table()?;
        self.read_examples(&table, source)
            .map_err(|complaint| document.error(&complaint))
    }

    fn read_examples(&self, table: &DeTable<'_>, source: &str) -> Result<Vec<Example>, Complaint> {
        let mut examples = Vec::new();
        for item in items(own_table(table, &self.case)?, "example", LIST)? {
            let before = &source[..item.span().start.min(source.len())];
            examples.push(self.example(item, before.matches('\n').count() + 1)?);
        }
        Ok(examples)
    }

    fn example(&self, item: &Spanned<DeValue<'_>>, line: usize) -> Result<Example, Complaint> {
        let table = as_table(item, "a table")?;
        if let Some(key) = table
            .keys()
            .find(|key| OLD_KEYS.contains(&&**key.get_ref()))
        {
            let complaint = Complaint::new(key.span(), format!("unknown key `{}`", key.get_ref()));
            return Err(complaint.help(format!("{FACTS_BEHIND_VERDICT}; {IN_ITS_CASE}")));
        }
        let verdicts = Expected::ALL.iter().map(|one| one.word());
        let keys: Vec<&str> = iter::once("about").chain(verdicts).collect();
        known_keys(table, &keys)?;
        let mut stated = (Expected::ALL.iter())
            .filter_map(|verdict| Some((*verdict, table.get(verdict.word())?)));
        let (Some((verdict, of_verdict)), None) = (stated.next(), stated.next()) else {
            let complaint = Complaint::new(item.span(), "an example has one verdict");
            return Err(complaint.help(FACTS_BEHIND_VERDICT.to_owned()));
        };
        let mut facts = Vec::new();
        self.example_facts(of_verdict, None, &mut facts)?;
        let about = table.get("about").map(as_text).transpose()?;
        Ok(Example {
            about: about.map(str::to_owned),
            verdict,
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
