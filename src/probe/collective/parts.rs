//! What parts of a job say of the whole: which nodes make it slow.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::told;
use crate::fact::{Fact, Facts, Gap, Id, Origin, limit, node};
use crate::measure::plan::bisection::BISECTED;
use crate::measure::plan::scope::Scopes;
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
        Ok(Some(plan)) if plan.get(BISECTED) == Some(&Value::Bool(true)) => told(ask, &question),
        Ok(_) => Ok(None),
        Err(gap) => Err(gap.clone()),
    };
    let scopes = scopes.and_then(|value| {
        let read = value.map(|value| Scopes::deserialize(&*value)).transpose();
        read.map_err(|error| Gap::not_understood(&question, error.to_string()))
    });
    let origin = Origin::Asked(question);
    let bisection = match scopes {
        Err(gap) => {
            facts.set(node, node::BISECTED, Fact::Unknown(gap));
            return;
        }
        Ok(scopes) => scopes.and_then(|scopes| scopes.bisection),
    };
    facts.know(node, node::BISECTED, bisection.is_some(), &origin);
    let Some(bisection) = bisection else {
        return;
    };
    let slow_below = facts.limit(limit::SLOW_BESIDE_PART);
    let blame = match (&bisection.ended, bisection.blame(slow_below)) {
        (None, Some(blame)) => Ok(blame),
        _ => Err(Gap::new(
            crate::fact::Why::Missing(bisection.sentence(slow_below).into()),
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
    let summary = Fact::Known(bisection.sentence(slow_below).into(), origin);
    facts.set(node, node::BISECTED_SUMMARY, summary);
}
