//! What parts of a job say of the whole: which nodes make it slow.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::told;
use crate::fact::{Fact, Facts, Gap, Id, Origin, Percent, Seconds, limit, node};
use crate::measure::plan::bisection::BISECTED;
use crate::measure::plan::scope::{COMPARED, Scopes};
use crate::probe::Ask;

/// States what was found by measuring parts, where the plan says that something was measured at all.
pub(super) fn state(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    plan: &Result<Option<Arc<Value>>, Gap>,
) {
    let question = Scopes::question();
    let scopes = match plan {
        // Only a plan that says so has parts of which something follows.
        Ok(Some(plan)) if [BISECTED, COMPARED].iter().any(|key| has(plan, key)) => {
            told(ask, &question)
        }
        Ok(_) => Ok(None),
        Err(gap) => Err(gap.clone()),
    };
    let scopes = scopes.and_then(|value| {
        let read = value.map(|value| Scopes::deserialize(&*value)).transpose();
        read.map_err(|error| Gap::not_understood(&question, error.to_string()))
    });
    let origin = Origin::Asked(question);
    let is_compared = matches!(plan, Ok(Some(plan)) if has(plan, COMPARED));
    let bisection = match scopes {
        Err(gap) => {
            facts.set(node, node::BISECTED, Fact::Unknown(gap.clone()));
            facts.set(node, node::COMPARED, Fact::Unknown(gap));
            return;
        }
        Ok(scopes) => {
            compare(
                facts,
                node,
                scopes.as_ref().filter(|_| is_compared),
                &origin,
            );
            scopes.and_then(|scopes| scopes.bisection)
        }
    };
    facts.know(node, node::BISECTED, bisection.is_some(), &origin);
    let Some(bisection) = bisection else {
        return;
    };
    let slow_below = facts.limit(limit::SLOW_BESIDE_PART);
    let blame = match (&bisection.ended, bisection.blame(slow_below)) {
        (None, Some(blame)) => Ok(blame),
        _ => Err(Gap::new(
            crate::fact::Why::Missing(bisection.sentence(slow_below).to_string().into()),
            origin.clone(),
        )),
    };
    let count = |of: fn(&crate::measure::plan::bisection::Blame) -> usize| match &blame {
        Ok(blame) => Fact::Known(of(blame) as u64, origin.clone()),
        Err(gap) => Fact::Unknown(gap.clone()),
    };
    facts.set(node, node::BISECTED_NODES, count(|blame| blame.nodes.len()));
    let between = count(|blame| blame.between.len() + blame.together.len());
    facts.set(node, node::BISECTED_BETWEEN, between);
    let summary = Fact::Known(bisection.sentence(slow_below), origin);
    facts.set(node, node::BISECTED_SUMMARY, summary);
}

/// Whether a plan has this member.
fn has(plan: &Value, key: &str) -> bool {
    plan.get(key) == Some(&Value::Bool(true))
}

/// States how all nodes do against one.
fn compare(facts: &mut Facts, node: Id, scopes: Option<&Scopes>, origin: &Origin) {
    let (below, alone) = (
        facts.limit(limit::SLOW_NODES),
        facts.limit(limit::SLOW_ALONE),
    );
    let scopes = scopes.and_then(|scopes| {
        let said = scopes.against_one(below, false)?;
        Some((scopes, said))
    });
    facts.know(node, node::COMPARED, scopes.is_some(), origin);
    let Some((scopes, said)) = scopes else {
        return;
    };
    let slow_alone = scopes.slow_alone_in_words(alone);
    let slow_alone = slow_alone.unwrap_or_else(|| "none".into());
    let of_expected = match scopes.of_expected() {
        Some(share) => Fact::Known(share, origin.clone()),
        None => Fact::Unknown(Gap::missing("what two nodes carry to each other")),
    };
    facts.set(node, node::OF_EXPECTED, of_expected);
    facts.know(node, node::AGAINST_ONE, said, origin);
    facts.know(node, node::SLOW_ALONE, slow_alone, origin);
    facts.know(node, node::STEPS_TIMED, scopes.step_ns.is_some(), origin);
    if let Some(ns) = scopes.step_ns {
        facts.know(node, node::STEP_LATENCY, Seconds(ns as f64 / 1e9), origin);
    }
    if let Some(wait) = scopes
        .whole
        .as_ref()
        .and_then(|whole| whole.waiting.as_ref())
    {
        facts.know(node, node::CPU_WAIT, Percent(wait.percent), origin);
        facts.know(node, node::CPU_WAIT_USUAL, Percent(wait.usual), origin);
        facts.know(node, node::CPU_WAIT_OF, wait.words(), origin);
    } else {
        let gap = || Fact::Unknown(Gap::missing("how long each rank waited for a CPU"));
        facts.set(node, node::CPU_WAIT, gap());
        facts.set(node, node::CPU_WAIT_USUAL, gap());
    }
}
