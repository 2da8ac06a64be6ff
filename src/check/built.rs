//! The built-in checks, as the build has put them into the program: of each the fields by which it is judged, one after the other. A recording
//! is judged in some ten milliseconds, and to read the TOML of all checks would take half of that.

use std::sync::OnceLock;

use super::advice::AdviceSource;
use super::catalogue::id_of;
use super::condition::Limit;
use super::diagnostic::{CheckError, Complaint};
use super::finding_source::FindingSource;
use super::names::Names;
use super::premise::{CheckPremise, Premise};
use super::{Check, Impact, Join, Severity, lexer, typing};
use crate::fact::{Subject, Value};

/// Of each case, in the order of the files: the path, and the fields; a NUL after each.
const CHECKS: &str = include_str!(concat!(env!("OUT_DIR"), "/checks.txt"));

/// Id of the case, title, severity, impact, area, subject, premises, applies, fails, finding, explains, aliases, joins, limits.
type Fields = [&'static str; 14];

/// Reads all of them.
pub(super) fn all() -> impl Iterator<Item = Result<Check, CheckError>> {
    let mut rest = CHECKS;
    let mut texts = std::iter::from_fn(move || {
        let (text, after) = rest.split_at(memchr::memchr(0, rest.as_bytes())?);
        rest = &after[1..];
        Some(text)
    });
    let checks = std::iter::from_fn(move || {
        let path = texts.next()?;
        let fields: Fields = std::array::from_fn(|_| texts.next().unwrap_or_default());
        Some((path, fields))
    });
    checks.enumerate().map(|(number, (path, fields))| {
        check(number, path, fields).map_err(|wrong| CheckError::whole(path, wrong.message))
    })
}

fn check(number: usize, path: &'static str, fields: Fields) -> Result<Check, Complaint> {
    let [
        case,
        title,
        severity,
        impact,
        area,
        subject,
        premises,
        applies,
        fails,
        finding,
        explains,
        aliases,
        joins,
        limits,
    ] = fields;
    let subject = Subject::from_name(subject).ok_or_else(|| unreadable_field("subject"))?;
    let limits: Vec<Limit> = limits.lines().map(limit).collect::<Result<_, _>>()?;
    let names = Names {
        subject,
        limits: &limits,
    };
    Ok(Check {
        id: id_of(path.strip_prefix("checks/").unwrap_or(path)).into(),
        case: case.into(),
        title: title.to_owned(),
        severity: Severity::from_word(severity).ok_or_else(|| unreadable_field("severity"))?,
        impact: match impact {
            "" => None,
            word => Some(Impact::from_word(word).ok_or_else(|| unreadable_field("impact"))?),
        },
        area: area.into(),
        subject,
        premises: premises
            .lines()
            .map(|word| premise(word, names))
            .collect::<Result<_, _>>()?,
        applies: match applies {
            "" => None,
            applies => Some(typing::condition(applies, names)?),
        },
        fails: typing::condition(fails, names)?,
        finding: FindingSource::Text(finding, OnceLock::new()),
        explains: explains.lines().map(Into::into).collect(),
        aliases: aliases.lines().map(Into::into).collect(),
        joined: joins
            .lines()
            .map(|line| Join::packed(line, names))
            .collect::<Result<_, _>>()?,
        advice: AdviceSource::Packed(number, OnceLock::new()),
        limits,
        source: "".into(),
        path: path.into(),
    })
}

fn premise(word: &str, names: Names<'_>) -> Result<CheckPremise, Complaint> {
    let premise = Premise::from_word(word).ok_or_else(|| unreadable_field("premise"))?;
    let condition = typing::condition(premise.condition(), names)?;
    Ok(CheckPremise { premise, condition })
}

/// A limit on a line: its name, the kind of its value, the value or the values.
fn limit(line: &'static str) -> Result<Limit, Complaint> {
    let mut parts = line.split('\t');
    let (Some(name), Some(kind)) = (parts.next(), parts.next()) else {
        return Err(unreadable_field("limit"));
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| unreadable_field("limit"));
    let value = match kind {
        "texts" => Value::Texts(parts.map(Into::into).collect()),
        "counts" => Value::Counts(parts.map(number).collect::<Result<_, _>>()?),
        "count" => Value::Count(number(parts.next().unwrap_or_default())?),
        _ => lexer::literal_of(parts.next().unwrap_or_default())?,
    };
    Ok((name.into(), value))
}

fn unreadable_field(what: &str) -> Complaint {
    Complaint::new(0..0, format!("its {what} cannot be read"))
}
