//! Checks as objects, for programs: `rdma-doctor explain --format json`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::check::Check;

/// A case of a check.
#[derive(Debug, Serialize)]
struct ExplainedCheck<'c> {
    /// The check.
    id: &'c str,
    /// The case; the check's own id where it has one case.
    case: &'c str,
    title: &'c str,
    severity: &'static str,
    /// What it does to a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    impact: Option<&'static str>,
    area: &'c str,
    /// For what it is judged.
    subject: &'static str,
    /// What it takes for granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    premises: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applies: Option<&'c str>,
    fails: &'c str,
    /// The facts that its conditions read.
    reads: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<&'c str, String>,
    /// The finding, with the facts that it quotes between braces.
    finding: String,
    why: String,
    fix: String,
    /// The checks whose failing it explains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explains: Vec<&'c str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<&'c str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    see: Vec<String>,
}

/// These checks, as a list of objects.
pub(super) fn objects(checks: &[&Check]) -> impl Serialize {
    let explained = checks.iter().map(|check| explained(check));
    explained.collect::<Vec<_>>()
}

fn explained(check: &Check) -> ExplainedCheck<'_> {
    let advice = check.advice();
    let premises = check.premises.iter();
    let facts = check.conditions().flat_map(|condition| condition.facts());
    let names = facts.map(|(subject, fact)| {
        let schema = subject.schema();
        format!("{}.{}", schema.name, schema.facts[fact].name)
    });
    let mut reads: Vec<String> = names.collect();
    reads.sort_unstable();
    reads.dedup();
    let limits = check.limits.iter();
    ExplainedCheck {
        id: &check.id,
        case: &check.case,
        title: &check.title,
        severity: check.severity.word(),
        impact: check.impact.map(|impact| impact.word()),
        area: &check.area,
        subject: check.subject.name(),
        premises: premises.map(|one| one.premise.word()).collect(),
        applies: check.applies.as_ref().map(|applies| applies.text()),
        fails: check.fails.text(),
        reads,
        limits: limits
            .map(|(name, value)| (&**name, value.to_string()))
            .collect(),
        finding: check.finding().as_written().to_string(),
        why: advice.why.to_string(),
        fix: advice.fix.as_written().to_string(),
        explains: check.explains.iter().map(|id| &**id).collect(),
        aliases: check.aliases.iter().map(|name| &**name).collect(),
        see: advice.see.iter().map(ToString::to_string).collect(),
    }
}
