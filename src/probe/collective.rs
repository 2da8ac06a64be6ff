//! What `rdma-doctor bench` and `rdma-doctor ablate` measured: each arm, what it reached and what it really used. What arms say against each other is
//! derived (`derive::arms`).
//!
//! Where nothing was measured it asks for nothing further: the plan is refused then.

mod gpudirect;
mod job;
mod measured;
mod parts;
mod proof;
mod reported;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{Ask, Probe};
use crate::fact::{Facts, Gap, Id, Membership, Origin, Subject, Why};
use crate::measure::plan::ablation_table;
use crate::measure::plan::pairs;
use crate::measure::plan::run::Plan;
use crate::source::{Question, Refusal};

/// The probe. It runs over recordings only; the runs are made by `rdma-doctor bench` and `rdma-doctor ablate`.
pub const PROBE: Probe = Probe::new("collective", run);

fn run(ask: &Ask<'_>, facts: &mut Facts, node: Id) {
    // Either may say that nothing was measured; what neither says is not known.
    let mut gap = None;
    let collective = Plan::question();
    let plan = told(ask, &collective);
    parts::state(ask, facts, node, &plan);
    match plan {
        Ok(Some(value)) => {
            let origin = Origin::Asked(collective.clone());
            if let Err(what) = measured::state(ask, facts, node, &value, &origin) {
                gap = Some(Gap::not_understood(&collective, what));
            }
        }
        Ok(None) => {}
        Err(found) => gap = Some(found),
    }
    let otherwise = ablation_table::question();
    match told(ask, &otherwise) {
        Ok(Some(value)) => {
            let origin = Origin::Asked(otherwise.clone());
            let stated = match (value.get("job"), value.get(pairs::NAME)) {
                (Some(job), _) => job::state(ask, facts, node, job, &origin),
                // Pairs of nodes have a probe of their own.
                (None, Some(_)) => Ok(()),
                (None, None) => reported::state(facts, node, &value, &origin),
            };
            if let Err(what) = stated {
                gap = gap.or(Some(Gap::not_understood(&otherwise, what)));
            }
        }
        Ok(None) => {}
        Err(found) => gap = gap.or(Some(found)),
    }
    let members = Membership::known_unless(gap, Origin::Asked(Plan::question()));
    facts.set_members(Subject::Measurement, node, members);
}

/// The answer, or that nobody asked for a measurement.
fn told(ask: &Ask<'_>, question: &Question) -> Result<Option<Arc<serde_json::Value>>, Gap> {
    match ask.value(question.clone()).as_result() {
        Ok(value) => Ok(Some(Arc::clone(value))),
        Err(Gap {
            why: Why::Refused(Refusal::NotAsked(_)),
            ..
        }) => Ok(None),
        Err(gap) => Err(gap.clone()),
    }
}
