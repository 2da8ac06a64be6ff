//! `checks/areas.toml`: the areas of a node, and the facts that must be known before each counts as examined.

use std::borrow::Cow;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::condition::{Condition, JudgeContext, Lineage, Slot};
use super::diagnostic::{CheckError, Complaint};
use super::file::{Document, as_table, as_text, items, known_keys, need, no_choice, placed, texts};
use super::names::Names;
use super::{Template, typing};
use crate::fact::{Facts, Gap, Id, Subject, Value};

/// The file, as the program has it.
const FILE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/checks/areas.toml"));
/// Its path, as errors name it.
const PATH: &str = "checks/areas.toml";

/// The keys of an area.
const KEYS: [&str; 12] = [
    "name",
    "on",
    "folders",
    "required",
    "must_exist",
    "exists",
    "exists_any",
    "members",
    "decided",
    "privileged",
    "each",
    "tells",
];
/// The keys of what each instance is held to.
const EACH: [&str; 6] = [
    "subject",
    "when",
    "facts",
    "if_offered",
    "examined",
    "otherwise",
];

/// A part of what is examined: when it exists, whether it is required, and its essentials.
#[derive(Debug)]
pub struct Area {
    /// The name, as `--require` takes it.
    pub name: Arc<str>,
    /// The subject of the area: a node, or the cluster.
    pub on: Subject,
    /// The folders of the checks that belong to it.
    pub folders: Vec<Arc<str>>,
    /// Whether a node needs it.
    pub required: Required,
    /// Whether a node without it is undecided if it is required.
    pub must_exist: bool,
    /// When it exists; always if both are absent.
    pub exists: Option<Condition>,
    /// Below what has the area, an instance of which must be there, and satisfy the condition.
    pub exists_any: Option<(Subject, Option<Condition>)>,
    /// The subjects whose members must be known.
    pub members: Vec<Subject>,
    /// The ids of checks that must not stay open.
    pub decided: Vec<Arc<str>>,
    /// The ids of error checks that may stay open for lack of permission.
    pub privileged: Vec<Arc<str>>,
    /// The essential facts of each instance.
    pub each: Vec<SubjectEssentials>,
    /// What its line tells beside the numbers of subjects, each where its condition holds.
    pub tells: Vec<(Condition, Template)>,
}

/// Whether a node needs an area.
#[derive(Debug)]
pub enum Required {
    /// On every node, or on none.
    Always(bool),
    /// Where this is true or unknown.
    If(Condition),
}

/// The essentials of each instance of a subject.
#[derive(Debug)]
pub struct SubjectEssentials {
    /// The subject.
    pub subject: Subject,
    /// Of which instances; of all if it is absent.
    pub when: Option<Condition>,
    /// Facts that must be known.
    pub facts: Vec<FactName>,
    /// Facts that must be known, or known not to be offered.
    pub if_offered: Vec<FactName>,
    /// What must be true, and the message if it is false.
    pub examined: Option<(Condition, Template)>,
}

/// A fact of a subject or of what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactName(Slot);

impl FactName {
    /// As conditions write it.
    pub fn path(self) -> String {
        self.0.path()
    }

    /// The fact of an instance.
    ///
    /// # Errors
    ///
    /// Why it is unknown.
    pub fn of(self, facts: &Facts, id: Id) -> Result<&Value, Gap> {
        let known = self.0.known(facts, Lineage::of(facts, id));
        known.map(|(value, _)| value).map_err(Cow::into_owned)
    }
}

impl Condition {
    /// Whether the condition, which names no limits, holds of an instance.
    ///
    /// # Errors
    ///
    /// The unknown facts that leave it open.
    pub fn of(&self, facts: &Facts, id: Id) -> Result<bool, Vec<FactName>> {
        let view = JudgeContext {
            facts,
            lineage: Lineage::of(facts, id),
            limits: &[],
        };
        let mut open = Vec::new();
        let holds = self.undecided(&view, &mut open);
        holds.ok_or_else(|| open.into_iter().map(FactName).collect())
    }
}

/// Reads the program's own areas, in the order of the file.
///
/// # Errors
///
/// The file is invalid.
pub(super) fn embedded() -> Result<Vec<Area>, CheckError> {
    parse(PATH, FILE)
}

/// Reads a file of areas.
pub(super) fn parse(path: &str, text: &str) -> Result<Vec<Area>, CheckError> {
    let document = Document::new(path, text);
    let table = document.table()?;
    let read = || {
        known_keys(&table, &["area"])?;
        tables(&table, "area")?
            .map(|table| area(&document, table?))
            .collect()
    };
    let areas: Result<Vec<Area>, Complaint> = read();
    areas.map_err(|complaint| document.error(&complaint))
}

/// The tables of an array; none if the key is absent.
fn tables<'t, 's>(
    table: &'t DeTable<'s>,
    key: &str,
) -> Result<impl Iterator<Item = Result<&'t DeTable<'s>, Complaint>> + use<'t, 's>, Complaint> {
    let items = items(table, key, "an array of tables")?;
    Ok(items.map(|item| as_table(item, "a table")))
}

fn area(document: &Document<'_>, table: &DeTable<'_>) -> Result<Area, Complaint> {
    known_keys(table, &KEYS)?;
    let on = match table.get("on") {
        Some(item) => subject(item)?,
        None => Subject::Node,
    };
    let exists_any = table.get("exists_any").map(|item| {
        let any = as_table(item, "a table")?;
        known_keys(any, &["subject", "when"])?;
        let of = subject(need(any, "subject")?)?;
        Ok((of, condition(document, any, "when", of)?))
    });
    let each = tables(table, "each")?.map(|each| one_each(document, each?));
    let tells = tables(table, "tells")?.map(|told| one_told(document, told?, on));
    Ok(Area {
        name: as_text(need(table, "name")?)?.into(),
        on,
        folders: texts(table, "folders")?,
        required: match table.get("required").map(Spanned::get_ref) {
            Some(DeValue::Boolean(always)) => Required::Always(*always),
            _ => match condition(document, table, "required", on)? {
                Some(condition) => Required::If(condition),
                None => Required::Always(false),
            },
        },
        must_exist: matches!(
            table.get("must_exist").map(Spanned::get_ref),
            Some(DeValue::Boolean(true))
        ),
        exists: condition(document, table, "exists", on)?,
        exists_any: exists_any.transpose()?,
        members: items(table, "members", "a list of texts")?
            .map(subject)
            .collect::<Result<_, _>>()?,
        decided: texts(table, "decided")?,
        privileged: texts(table, "privileged")?,
        each: each.collect::<Result<_, _>>()?,
        tells: tells.collect::<Result<_, _>>()?,
    })
}

fn one_told(
    document: &Document<'_>,
    table: &DeTable<'_>,
    on: Subject,
) -> Result<(Condition, Template), Complaint> {
    known_keys(table, &["when", "text"])?;
    let when = placed(document, need(table, "when")?, |text| {
        typing::condition(text, names(on))
    })?;
    let told = placed(document, need(table, "text")?, |text| {
        Template::parse(text, names(on))
    })?;
    Ok((when, told))
}

fn one_each(document: &Document<'_>, table: &DeTable<'_>) -> Result<SubjectEssentials, Complaint> {
    known_keys(table, &EACH)?;
    let of = subject(need(table, "subject")?)?;
    let names = names(of);
    let fact = |item: &Spanned<DeValue<'_>>| {
        placed(document, item, |text| {
            let (slot, _) = names.fact(text, &(0..text.len()))?;
            Ok(FactName(slot))
        })
    };
    let facts = |key: &str| -> Result<Vec<FactName>, Complaint> {
        items(table, key, "a list of texts")?.map(fact).collect()
    };
    let examined = match condition(document, table, "examined", of)? {
        None => None,
        Some(condition) => {
            let otherwise = need(table, "otherwise")?;
            let otherwise = placed(document, otherwise, |text| Template::parse(text, names))?;
            Some((condition, otherwise))
        }
    };
    Ok(SubjectEssentials {
        subject: of,
        when: condition(document, table, "when", of)?,
        facts: facts("facts")?,
        if_offered: facts("if_offered")?,
        examined,
    })
}

/// What a condition about a subject can name.
fn names(subject: Subject) -> Names<'static> {
    Names {
        subject,
        limits: &[],
    }
}

fn condition(
    document: &Document<'_>,
    table: &DeTable<'_>,
    key: &str,
    of: Subject,
) -> Result<Option<Condition>, Complaint> {
    let read = |item| placed(document, item, |text| typing::condition(text, names(of)));
    table.get(key).map(read).transpose()
}

fn subject(item: &Spanned<DeValue<'_>>) -> Result<Subject, Complaint> {
    let text = as_text(item)?;
    let all: Vec<&str> = Subject::ALL.into_iter().map(Subject::name).collect();
    Subject::from_name(text).ok_or_else(|| no_choice("subject", text, item.span(), &all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Catalogue;

    /// Each check has one area, and what an area names exists.
    #[test]
    fn areas_and_checks_fit() {
        let catalogue = Catalogue::embedded().unwrap();
        let areas = embedded().unwrap();
        for check in &catalogue.checks {
            let of = areas.iter().filter(|area| area.name == check.area);
            assert_eq!(of.count(), 1, "{} is of area `{}`", check.id, check.area);
        }
        for area in &areas {
            for id in area.decided.iter().chain(&area.privileged) {
                let check = catalogue.get(id);
                assert!(check.is_some(), "{}: there is no check {id}", area.name);
            }
            for folder in &area.folders {
                let prefix = format!("{folder}/");
                let mut checks = catalogue.checks.iter();
                assert!(
                    checks.any(|check| check.id.starts_with(&prefix)),
                    "{folder}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_place() {
        for (text, says) in [
            ("[[area]]\nname = \"a\"\nfacts = []", "unknown key `facts`"),
            (
                "[[area]]\nname = \"a\"\nexists = 'node.devces > 0'",
                "node.devices",
            ),
            ("[[area]]\nname = \"a\"\nmembers = [\"prot\"]", "port"),
            (
                "[[area]]\nname = \"a\"\n[[area.each]]\nsubject = \"port\"\nfacts = [\"port.stat\"]",
                "port.state",
            ),
            (
                "[[area]]\nname = \"a\"\n[[area.each]]\nsubject = \"gpu\"\nexamined = 'gpu.nvidia'",
                "otherwise",
            ),
        ] {
            let error = parse("areas.toml", text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
