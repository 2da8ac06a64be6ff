//! A check's TOML file: its keys, their types, and nothing else.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::advice::{Advice, AdviceSource};
use super::condition::Limit;
use super::diagnostic::{CheckError, Complaint, SourceString, nearest};
use super::finding_source::FindingSource;
use super::names::Names;
use super::premise::{CheckPremise, Premise};
use super::{Check, Impact, Join, Severity, Template, lexer, typing};
use crate::fact::{Subject, Value};
use crate::sentence::Sentence;

/// Bytes that a file may have: a hundred times what a long one has.
const LARGEST: usize = 256 << 10;

/// The keys of a check, in the order in which a reader wants them.
const KEYS: [&str; 18] = [
    "title", "severity", "impact", "area", "subject", "premise", "applies", "fails", "finding",
    "explains", "alias", "see", "why", "fix", "joined", "limits", "case", "example",
];

/// The keys of a case: its id, and what differs from what the file says of all cases.
const CASE_KEYS: [&str; 18] = [
    "id", "title", "severity", "impact", "area", "subject", "premise", "applies", "fails",
    "finding", "explains", "alias", "see", "why", "fix", "joined", "limits", "example",
];

/// Where the example of a case is written.
pub(super) const IN_ITS_CASE: &str = "write the example of a case in it: [[case.example]]";

/// A TOML file.
pub(super) struct Document<'s> {
    pub(super) path: &'s str,
    source: &'s str,
}

impl<'s> Document<'s> {
    pub(super) fn new(path: &'s str, source: &'s str) -> Self {
        Document { path, source }
    }

    /// The document's table.
    pub(super) fn table(&self) -> Result<DeTable<'s>, CheckError> {
        match DeTable::parse(self.source) {
            Ok(table) => Ok(table.into_inner()),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                Err(self.error(&Complaint::new(span, error.message())))
            }
        }
    }

    /// The error that a complaint about a place of the document is.
    pub(super) fn error(&self, complaint: &Complaint) -> CheckError {
        CheckError::at(self.path, self.source, complaint)
    }

    /// Where a string of the document stands.
    pub(super) fn place(&self, value: &Spanned<DeValue<'_>>) -> SourceString {
        let text = value.get_ref().as_str().unwrap_or_default();
        SourceString::of(self.source, value.span(), text)
    }
}

/// Reads a file: its cases, of which a file without `[[case]]` is one. Its examples are read when they are asked for.
pub(super) fn parse(
    id: &str,
    path: Cow<'static, str>,
    source: Cow<'static, str>,
) -> Result<Vec<Check>, CheckError> {
    if source.len() > LARGEST {
        let size = LARGEST >> 10;
        return Err(CheckError::whole(&path, format!("larger than {size} KiB")));
    }
    let document = Document::new(&path, &source);
    let table = document.table()?;
    let mut checks =
        cases(&document, &table, id).map_err(|complaint| document.error(&complaint))?;
    drop(table);
    for check in &mut checks {
        check.source = source.clone();
        check.path = path.clone();
    }
    Ok(checks)
}

/// The cases of a file: one that its own keys state, and those of its `[[case]]`.
fn cases(document: &Document<'_>, table: &DeTable<'_>, id: &str) -> Result<Vec<Check>, Complaint> {
    known_keys(table, &KEYS)?;
    let mut checks = Vec::new();
    let stated = items(table, "case", "a list of tables: [[case]]")?;
    if table.contains_key("fails") || stated.len() == 0 {
        let head = Reader {
            document,
            table,
            case: None,
        };
        checks.push(head.content(id, id)?);
    } else if let Some(example) = table.get("example") {
        let message = "the file's own keys state no condition that this shows";
        return Err(Complaint::new(example.span(), message).help(IN_ITS_CASE.to_owned()));
    }
    for item in stated {
        let case = as_table(item, "a table: [[case]]")?;
        known_keys(case, &CASE_KEYS)?;
        let reader = Reader {
            document,
            table,
            case: Some(case),
        };
        let Some(name) = case.get("id") else {
            return Err(Complaint::new(item.span(), "the key `id` is missing"));
        };
        checks.push(reader.content(id, as_text(name)?)?);
    }
    Ok(checks)
}

/// The table that states a case's own keys: that of its `[[case]]`, or the whole file.
pub(super) fn own_table<'t, 's>(
    table: &'t DeTable<'s>,
    case: &str,
) -> Result<&'t DeTable<'s>, Complaint> {
    for item in items(table, "case", "a list of tables: [[case]]")? {
        let stated = as_table(item, "a table: [[case]]")?;
        if stated.get("id").map(as_text).transpose()? == Some(case) {
            return Ok(stated);
        }
    }
    Ok(table)
}

/// A limit: a whole number, a quantity, or a list of whole numbers or of texts.
pub(super) fn limit(
    document: &Document<'_>,
    item: &Spanned<DeValue<'_>>,
) -> Result<Value, Complaint> {
    match item.get_ref() {
        DeValue::Integer(_) => Ok(Value::Count(as_count(item)?)),
        DeValue::Array(items) if items.iter().all(|i| i.get_ref().as_str().is_some()) => {
            let texts = items.iter().map(|i| as_text(i).map(Into::into));
            Ok(Value::Texts(texts.collect::<Result<_, _>>()?))
        }
        DeValue::Array(items) => {
            let numbers = items.iter().map(as_count).collect::<Result<_, _>>();
            Ok(Value::Counts(numbers?))
        }
        _ => placed(document, item, lexer::literal_of),
    }
}

/// Reads a text of the document; a complaint about it names its place in the file.
pub(super) fn placed<T>(
    document: &Document<'_>,
    item: &Spanned<DeValue<'_>>,
    read: impl FnOnce(&str) -> Result<T, Complaint>,
) -> Result<T, Complaint> {
    read(as_text(item)?).map_err(|complaint| complaint.within(&document.place(item)))
}

struct Reader<'a, 's> {
    document: &'a Document<'s>,
    table: &'a DeTable<'s>,
    /// The case's own keys, which hold where both state one.
    case: Option<&'a DeTable<'s>>,
}

pub(super) type Item<'a, 's> = &'a Spanned<DeValue<'s>>;

impl<'a, 's> Reader<'a, 's> {
    /// The check, which lacks its text and path as long as the table borrows them.
    fn content(&self, id: &str, case: &str) -> Result<Check, Complaint> {
        let subjects = || Subject::ALL.into_iter().map(Subject::name);
        let subject = self.choice("subject", subjects(), Subject::from_name)?;
        let limits = self.limits()?;
        let names = Names {
            subject,
            limits: &limits,
        };
        Ok(Check {
            id: id.into(),
            case: case.into(),
            title: self.string("title")?.to_owned(),
            severity: self.word("severity", Severity::ALL, Severity::word)?,
            impact: match self.get("impact") {
                // A note of a file whose other cases do have one.
                Some(item) if as_text(item)?.is_empty() => None,
                Some(_) => Some(self.word("impact", Impact::ALL, Impact::word)?),
                None => None,
            },
            area: match self.get("area") {
                Some(item) => as_text(item)?.into(),
                None => "".into(),
            },
            premises: self.premises(names)?,
            applies: match self.get("applies") {
                // The case applies to all instances, although others of the file do not.
                Some(item) if as_text(item)?.is_empty() => None,
                Some(item) => Some(self.placed(item, |text| typing::condition(text, names))?),
                None => None,
            },
            fails: self.placed(self.item("fails")?, |text| typing::condition(text, names))?,
            finding: FindingSource::Read(
                self.placed(self.item("finding")?, |text| Template::parse(text, names))?,
            ),
            explains: self.texts("explains")?,
            aliases: self.texts("alias")?,
            joined: self.joined(names)?,
            advice: AdviceSource::Read(self.advice(names)?),
            source: Cow::Borrowed(""),
            path: Cow::Borrowed(""),
            subject,
            limits,
        })
    }

    fn advice(&self, names: Names<'_>) -> Result<Advice, Complaint> {
        let fix = |text: &str| Template::parse(text.trim_end(), names);
        Ok(Advice {
            fix: self.placed(self.item("fix")?, fix)?,
            see: self.texts("see")?,
            why: Sentence::of_prose(self.string("why")?.trim()),
        })
    }

    /// What the case states, else what the file states for all.
    fn get(&self, key: &str) -> Option<Item<'a, 's>> {
        let own = self.case.and_then(|case| case.get(key));
        own.or_else(|| self.table.get(key))
    }

    fn item(&self, key: &str) -> Result<Item<'a, 's>, Complaint> {
        match self.get(key) {
            Some(item) => Ok(item),
            None => need(self.table, key),
        }
    }

    fn texts<T: From<&'a str>>(&self, key: &str) -> Result<Vec<T>, Complaint> {
        let stated = self.case.filter(|case| case.contains_key(key));
        texts(stated.unwrap_or(self.table), key)
    }

    fn string(&self, key: &str) -> Result<&'a str, Complaint> {
        as_text(self.item(key)?)
    }

    /// What joins other evidence to a finding: the case's own rows, else the file's.
    fn joined(&self, names: Names<'_>) -> Result<Vec<Join>, Complaint> {
        let stated = self.case.filter(|case| case.contains_key("joined"));
        items(stated.unwrap_or(self.table), "joined", "tables: [[joined]]")?
            .map(|item| Join::read(self.document, item, names))
            .collect()
    }

    /// Reads a string whose errors have places of their own.
    fn placed<T>(
        &self,
        item: Item<'_, '_>,
        read: impl FnOnce(&str) -> Result<T, Complaint>,
    ) -> Result<T, Complaint> {
        placed(self.document, item, read)
    }

    /// What the check takes for granted: a word, or a list of words.
    fn premises(&self, names: Names<'_>) -> Result<Vec<CheckPremise>, Complaint> {
        let Some(item) = self.get("premise") else {
            return Ok(Vec::new());
        };
        let items = match item.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![item],
        };
        items.into_iter().map(|item| premise(item, names)).collect()
    }

    fn word<T: Copy>(
        &self,
        key: &str,
        all: &[T],
        word: fn(T) -> &'static str,
    ) -> Result<T, Complaint> {
        let find = |text: &str| all.iter().copied().find(|v| word(*v) == text);
        self.choice(key, all.iter().copied().map(word), find)
    }

    fn choice<T>(
        &self,
        key: &str,
        all: impl Iterator<Item = &'static str>,
        find: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Complaint> {
        let item = self.item(key)?;
        let text = as_text(item)?;
        find(text).ok_or_else(|| no_choice(key, text, item.span(), &all.collect::<Vec<_>>()))
    }

    fn limits(&self) -> Result<Vec<Limit>, Complaint> {
        let Some(item) = self.get("limits") else {
            return Ok(Vec::new());
        };
        let table = as_table(item, "a table: [limits]")?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let mut limits = Vec::with_capacity(table.len());
        for (name, item) in table {
            let key: &str = name.get_ref();
            if key.is_empty() || !key.chars().all(plain) {
                let message = "a limit's name has lower-case letters, digits and `_` only";
                return Err(Complaint::new(name.span(), message));
            }
            limits.push((key.into(), limit(self.document, item)?));
        }
        Ok(limits)
    }
}

/// Refuses a key that is none of these.
pub(super) fn known_keys(table: &DeTable<'_>, keys: &[&str]) -> Result<(), Complaint> {
    for key in table.keys() {
        let name: &str = key.get_ref();
        if !keys.contains(&name) {
            let help = match nearest(name, keys.iter().copied()) {
                Some(near) => format!("write `{near}`"),
                None => format!("the keys are {}", keys.join(", ")),
            };
            return Err(Complaint::new(key.span(), format!("unknown key `{name}`")).help(help));
        }
    }
    Ok(())
}

/// The item of a key that must be there.
pub(super) fn need<'t, 's>(table: &'t DeTable<'s>, key: &str) -> Result<Item<'t, 's>, Complaint> {
    table
        .get(key)
        .ok_or_else(|| Complaint::new(0..0, format!("the key `{key}` is missing")))
}

/// The items of an array; none if the key is absent.
pub(super) fn items<'t, 's>(
    table: &'t DeTable<'s>,
    key: &str,
    wanted: &str,
) -> Result<std::slice::Iter<'t, Spanned<DeValue<'s>>>, Complaint> {
    match table.get(key).map(|item| (item, item.get_ref())) {
        None => Ok([].iter()),
        Some((_, DeValue::Array(items))) => Ok(items.iter()),
        Some((item, _)) => Err(wrong_type(item, wanted)),
    }
}

/// The texts of an array; none if the key is absent.
pub(super) fn texts<'t, T: From<&'t str>>(
    table: &'t DeTable<'_>,
    key: &str,
) -> Result<Vec<T>, Complaint> {
    let text = |item| as_text(item).map(T::from);
    items(table, key, "a list of texts")?.map(text).collect()
}

/// The item's table.
pub(super) fn as_table<'t, 's>(
    item: Item<'t, 's>,
    wanted: &str,
) -> Result<&'t DeTable<'s>, Complaint> {
    match item.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => Err(wrong_type(item, wanted)),
    }
}

fn premise(item: Item<'_, '_>, names: Names<'_>) -> Result<CheckPremise, Complaint> {
    let text = as_text(item)?;
    let all: Vec<&str> = Premise::ALL.iter().map(|one| one.word()).collect();
    let premise = Premise::from_word(text);
    let premise = premise.ok_or_else(|| no_choice("premise", text, item.span(), &all))?;
    let condition = typing::condition(premise.condition(), names);
    let condition = condition.map_err(|wrong| Complaint {
        span: item.span(),
        ..wrong
    })?;
    Ok(CheckPremise { premise, condition })
}

/// The item's text.
pub(super) fn as_text<'a>(item: &'a Spanned<DeValue<'_>>) -> Result<&'a str, Complaint> {
    match item.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => Err(wrong_type(item, "a text")),
    }
}

/// The item's number.
pub(super) fn as_count(item: &Spanned<DeValue<'_>>) -> Result<u64, Complaint> {
    let number = item.get_ref().as_integer();
    number
        .and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok())
        .ok_or_else(|| wrong_type(item, "a whole number, not negative"))
}

/// The item is of another type than the one that is wanted.
pub(super) fn wrong_type(item: &Spanned<DeValue<'_>>, wanted: &str) -> Complaint {
    Complaint::new(item.span(), format!("{wanted} is expected"))
        .label(format!("this is of type {}", item.get_ref().type_str()))
}

/// A text that is none of the words that it can be.
pub(super) fn no_choice(key: &str, text: &str, span: Range<usize>, all: &[&str]) -> Complaint {
    let help = match nearest(text, all.iter().copied()) {
        Some(near) => format!("write \"{near}\""),
        None => format!("one of {}", all.join(", ")),
    };
    Complaint::new(span, format!("there is no {key} `{text}`")).help(help)
}
