//! Waivers: findings that a site accepts for a time.
//!
//! ```toml
//! [[waiver]]
//! check   = "link/port-down"      # an id, or a pattern of ids
//! subject = "mlx5_3/1"            # a name, or a pattern; any if it is left out
//! nodes   = "n[01-16]"            # all if it is left out
//! reason  = "spare port"
//! owner   = "ops@example.org"
//! until   = 2027-03-31            # the last day, in UTC
//! ```
//!
//! A waived finding is listed and decides no status. What it explains is waived with it, unless that is graver, or something else explains it too.

use std::collections::HashSet;
use std::sync::Arc;

use toml::value::Datetime;

use super::{Catalogue, Check, Outcome, Severity, Verdict, glob, inventory, joined, judge_where};
use crate::fact::{Fact, Facts, Gap, Id, Origin, Subject, node, waiver};
use crate::nodeset;

/// The folder of the checks that judge waivers.
const OWN: &str = "waiver/";

/// The waivers of a site.
#[derive(Debug, Default)]
pub struct Waivers {
    /// The file, as messages name it.
    file: String,
    /// Its entries with their names; of one that is malformed, why. A file that cannot be read is one of these.
    entries: Vec<(String, Result<Waiver, String>)>,
}

/// A finding that a site accepts for a time.
#[derive(Debug)]
pub struct Waiver {
    /// The id, or the pattern of ids, of the checks.
    pub check: Arc<str>,
    subject: Option<String>,
    nodes: Option<HashSet<String>>,
    /// Why it is accepted.
    pub reason: Arc<str>,
    /// The person or team that answers for it.
    pub owner: Arc<str>,
    /// The last day on which it is, as `2027-03-31`.
    pub until: Arc<str>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    check: String,
    subject: Option<String>,
    nodes: Option<String>,
    reason: String,
    owner: String,
    until: toml::Value,
}

impl Waivers {
    /// Reads a file's text. What is malformed waives nothing, and is a finding of the nodes.
    pub fn read(file: String, text: Result<&str, String>, catalogue: &Catalogue) -> Self {
        let entries = text.and_then(|text| {
            toml::from_str::<toml::Table>(text).map_err(|error| located(text, &error))
        });
        let entries = entries.and_then(|mut table| {
            let entries = table.remove("waiver");
            match (table.keys().next(), entries) {
                (Some(key), _) => Err(format!("`{key}`; write [[waiver]] before each entry")),
                (None, Some(toml::Value::Array(entries))) => Ok(entries),
                (None, Some(_)) => Err("`waiver` is no list; write [[waiver]]".to_owned()),
                (None, None) => Ok(Vec::new()),
            }
        });
        let read = |(at, entry): (usize, toml::Value)| {
            let entry = entry.try_into::<Entry>();
            let entry = entry.map_err(|error| error.message().to_owned());
            let waiver = entry.and_then(|entry| Waiver::of(entry, catalogue));
            (format!("waiver {}", at + 1), waiver)
        };
        let entries = match entries {
            Ok(entries) => entries.into_iter().enumerate().map(read).collect(),
            Err(why) => vec![("waivers".to_owned(), Err(why))],
        };
        Waivers { file, entries }
    }

    /// The waiver of this number.
    pub fn get(&self, number: u32) -> Option<&Waiver> {
        self.entries.get(number as usize)?.1.as_ref().ok()
    }

    /// Why the file or an entry of it is malformed.
    pub fn problem(&self) -> Option<&String> {
        let mut entries = self.entries.iter();
        entries.find_map(|(_, entry)| entry.as_ref().err())
    }

    /// The first waiver that is in force for a failing verdict.
    fn in_force(
        &self,
        catalogue: &Catalogue,
        facts: &Facts,
        verdict: &Verdict,
        day: Option<&str>,
    ) -> Option<u32> {
        let fits = |(_, entry): &(String, Result<Waiver, String>)| {
            entry.as_ref().is_ok_and(|waiver| {
                waiver.has_expired(day) == Some(false)
                    && waiver.names(catalogue, facts, verdict)
                    && waiver.is_for(facts, verdict.subject)
            })
        };
        // Bounded by the 16 MiB of the file.
        self.entries.iter().position(fits).map(|at| at as u32)
    }
}

/// Why a text is no TOML, or not of the wanted form, with the line.
pub fn located(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.lines().count().max(1));
    format!("line {line}: {}", error.message())
}

impl Waiver {
    fn of(entry: Entry, catalogue: &Catalogue) -> Result<Self, String> {
        let checks = catalogue.checks.iter();
        let fitting: Vec<&Check> = checks.filter(|c| c.is_named(&entry.check)).collect();
        if entry.check.chars().all(|c| matches!(c, '*' | '?' | '/')) {
            return Err(
                "it would waive every finding: name a check, or a folder as `link/*`".into(),
            );
        }
        if fitting.is_empty() {
            return Err(catalogue.no_check(&entry.check).to_string());
        }
        if fitting.iter().all(|check| check.id.starts_with(OWN)) {
            return Err("a finding about a waiver cannot be waived".into());
        }
        for (key, text) in [("reason", &entry.reason), ("owner", &entry.owner)] {
            if text.trim().is_empty() {
                return Err(format!("`{key}` is empty"));
            }
        }
        let until = match &entry.until {
            toml::Value::Datetime(day) => Some(*day),
            toml::Value::String(text) => text.parse::<Datetime>().ok(),
            _ => None,
        };
        let day = until
            .filter(|day| day.time.is_none())
            .and_then(|day| day.date);
        let Some(day) = day else {
            return Err("`until` is no day; write one as 2027-03-31".into());
        };
        let nodes = entry.nodes.map(|list| nodeset::expand(&list));
        let nodes = nodes
            .transpose()
            .map_err(|error| format!("`nodes`: {error}"))?;
        Ok(Waiver {
            check: entry.check.into(),
            subject: entry.subject,
            nodes: nodes.map(|names| names.into_iter().collect()),
            reason: entry.reason.trim().into(),
            owner: entry.owner.trim().into(),
            until: day.to_string().into(),
        })
    }

    /// Whether its last day is over; `None` if it is not known what day it is.
    fn has_expired(&self, day: Option<&str>) -> Option<bool> {
        day.map(|day| day > &*self.until)
    }

    fn names(&self, catalogue: &Catalogue, facts: &Facts, verdict: &Verdict) -> bool {
        let subject = self.subject.as_ref();
        self.names_check(&catalogue.checks[verdict.check])
            && subject.is_none_or(|pattern| glob::fits(pattern, facts.name(verdict.subject)))
    }

    fn names_check(&self, check: &Check) -> bool {
        check.is_named(&self.check) && !check.id.starts_with(OWN)
    }

    /// Whether it is for the node, or the host of a log, to which this belongs.
    fn is_for(&self, facts: &Facts, id: Id) -> bool {
        let Some(nodes) = &self.nodes else {
            return true;
        };
        let within = |subject| facts.ancestor(id, subject);
        let node = within(Subject::Node).or_else(|| within(Subject::Host));
        node.is_some_and(|node| inventory::is_among(nodes, facts.name(node)))
    }
}

/// When a node was recorded; for [`Facts::CLUSTER`], the last recording.
pub type Recorded<'r> = (Id, &'r str);

/// The day of a time in RFC 3339, in UTC.
fn day(utc: &str) -> Option<&str> {
    let day = utc.get(..10)?;
    day.parse::<Datetime>().is_ok().then_some(day)
}

/// As [`judge_where`], with the site's inventory stated before, and the site's waivers: findings that they accept are [`Outcome::Waived`], and then the waivers are judged. A waiver is in
/// force or expired by the time of the recording.
pub fn judge_waived(
    catalogue: &Catalogue,
    facts: &mut Facts,
    recorded: &[Recorded<'_>],
    wanted: impl Fn(Subject) -> bool,
) -> Vec<Verdict> {
    catalogue.inventory.state(facts);
    joined::join(catalogue, facts);
    if catalogue.waivers.entries.is_empty() {
        return judge_where(catalogue, facts, wanted);
    }
    let day_of = |id: Id| {
        recorded
            .iter()
            .find(|(of, _)| *of == id)
            .and_then(|(_, utc)| day(utc))
    };
    let mut verdicts = judge_where(catalogue, facts, |subject| {
        wanted(subject) && subject != Subject::Waiver
    });
    for node in facts.all(Subject::Node).collect::<Vec<_>>() {
        state(catalogue, facts, &verdicts, node, day_of(node));
    }
    waive(catalogue, facts, &mut verdicts, |facts, id| {
        day_of(facts.ancestor(id, Subject::Node).unwrap_or(Facts::CLUSTER))
    });
    let own = judge_where(catalogue, facts, |subject| {
        wanted(subject) && subject == Subject::Waiver
    });
    verdicts.extend(own);
    // Verdicts of one check stand together, in the order of the checks.
    verdicts.sort_by_key(|verdict| verdict.check);
    verdicts
}

fn fails(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Fails | Outcome::FailsIf)
}

/// States the waivers that are for a node, and those of which this is not known: they name nodes, and this one's name is a pseudonym.
fn state(
    catalogue: &Catalogue,
    facts: &mut Facts,
    verdicts: &[Verdict],
    node: Id,
    day: Option<&str>,
) {
    let origin = Origin::Stated;
    let has_name = facts.known(node, node::PSEUDONYMS).as_deref() == Some("none");
    for (name, entry) in &catalogue.waivers.entries {
        let is_for = entry.as_ref().is_ok_and(|one| one.is_for(facts, node));
        if entry.is_ok() && !is_for && has_name {
            continue;
        }
        let id = facts.instance(Subject::Waiver, node, name);
        facts.know(id, waiver::VALID, entry.is_ok(), &origin);
        let place = format!("{}, {name}", catalogue.waivers.file);
        facts.know(id, waiver::PLACE, place.into(), &origin);
        let one = match entry {
            Ok(one) => one,
            Err(why) => {
                facts.know(id, waiver::PROBLEM, why.as_str().into(), &origin);
                continue;
            }
        };
        for (key, text) in [
            (waiver::CHECK, &one.check),
            (waiver::REASON, &one.reason),
            (waiver::OWNER, &one.owner),
            (waiver::UNTIL, &one.until),
        ] {
            facts.know(id, key, Arc::clone(text), &origin);
        }
        facts.know(id, waiver::REDACTED, !is_for, &origin);
        if !is_for {
            continue;
        }
        let expired = match one.has_expired(day) {
            Some(expired) => Fact::derived(expired, "the day of the recording"),
            None => Fact::Unknown(Gap::missing("the recording does not say when it was made")),
        };
        facts.set(id, waiver::EXPIRED, expired);
        let mut checks = catalogue.checks.iter();
        let is_of_node = checks.any(|check| {
            let mut scope = check.subject.scope();
            one.names_check(check) && scope.any(|above| above == Subject::Node)
        });
        facts.know(id, waiver::OF_NODE, is_of_node, &origin);
        let matched = matched(catalogue, facts, verdicts, one, node);
        facts.set(id, waiver::MATCHED, matched);
    }
}

/// Whether the node has a finding that the waiver names: unknown if a check that it names is undecided.
fn matched(
    catalogue: &Catalogue,
    facts: &Facts,
    verdicts: &[Verdict],
    one: &Waiver,
    node: Id,
) -> Fact<bool> {
    let on_node = |verdict: &&Verdict| facts.lineage(verdict.subject).any(|id| id == node);
    let mut open = None;
    for verdict in verdicts.iter().filter(on_node) {
        let check = &catalogue.checks[verdict.check];
        if fails(verdict.outcome) && one.names(catalogue, facts, verdict) {
            return Fact::derived(true, format!("{} fails", check.id));
        }
        if matches!(verdict.outcome, Outcome::Unknown(_)) && one.names_check(check) {
            open = Some(&check.id);
        }
    }
    match open {
        Some(id) => Fact::Unknown(Gap::missing(format!("{id} is undecided"))),
        None => Fact::derived(false, "all verdicts"),
    }
}

/// Waives what waivers in force name, and what that explains.
fn waive<'d>(
    catalogue: &Catalogue,
    facts: &Facts,
    verdicts: &mut [Verdict],
    day: impl Fn(&Facts, Id) -> Option<&'d str>,
) {
    let failing = |verdict: &Verdict| {
        fails(verdict.outcome) && !catalogue.checks[verdict.check].id.starts_with(OWN)
    };
    let failed: Vec<usize> = (0..verdicts.len())
        .filter(|at| failing(&verdicts[*at]))
        .collect();
    let severity = |verdict: &Verdict| -> Severity { catalogue.checks[verdict.check].severity };
    let mut by: Vec<Option<u32>> = failed
        .iter()
        .map(|at| {
            let verdict = &verdicts[*at];
            let day = day(facts, verdict.subject);
            catalogue.waivers.in_force(catalogue, facts, verdict, day)
        })
        .collect();
    let explains = |a: usize, b: usize| {
        let (a, b) = (&verdicts[failed[a]], &verdicts[failed[b]]);
        catalogue.checks[a.check].explains(&catalogue.checks[b.check])
            && facts.touches(a.subject, b.subject)
    };
    let mut goes_on = by.iter().any(Option::is_some);
    while goes_on {
        goes_on = false;
        for b in (0..failed.len())
            .filter(|b| by[*b].is_none())
            .collect::<Vec<_>>()
        {
            let causes: Vec<usize> = (0..failed.len()).filter(|a| explains(*a, b)).collect();
            let all: Option<Vec<u32>> = causes.iter().map(|a| by[*a]).collect();
            let of = |at: usize| severity(&verdicts[failed[at]]);
            let is_graver = causes.iter().all(|a| of(b) < of(*a));
            if let Some(number) = all.as_ref().and_then(|all| all.first())
                && !is_graver
            {
                by[b] = Some(*number);
                goes_on = true;
            }
        }
    }
    for (at, number) in failed.iter().zip(by) {
        if let Some(number) = number {
            verdicts[*at].outcome = Outcome::Waived(number);
        }
    }
}
