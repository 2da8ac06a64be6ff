//! From verdicts to causes: what failed because something else failed is folded beneath it. Causes are ranked by their severity, then by their effect
//! where one was measured, then by how much they explain.

pub mod areas;

use crate::check::Catalogue;
use crate::check::{Check, Severity};
use crate::check::{Outcome, Verdict};
use crate::fact::{Facts, Id, Subject, factor};
use crate::order;

/// A failing check, for one or several subjects, and what it explains.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The check, as an index into the catalogue.
    pub check: usize,
    /// For what it fails, as it was found.
    pub subjects: Vec<Id>,
    /// What fails because of it: check and subject.
    pub consequences: Vec<(usize, Id)>,
}

/// The causes, the most severe and far-reaching first.
pub fn diagnose(catalogue: &Catalogue, facts: &Facts, verdicts: &[Verdict]) -> Vec<Cause> {
    let failed: Vec<(usize, Id)> = verdicts
        .iter()
        .filter(|v| matches!(v.outcome, Outcome::Fails))
        .map(|v| (v.check, v.subject))
        .collect();
    let check = |i: usize| -> &Check { &catalogue.checks[failed[i].0] };
    // A note explains no error: what is folded must not be graver than what it is folded under.
    let explains = |a: usize, b: usize| {
        a != b
            && (check(a).severity != Severity::Note || check(b).severity == Severity::Note)
            && check(a).explains(&check(b).id)
            && facts.touches(failed[a].1, failed[b].1)
    };
    let all: Vec<Vec<usize>> = (0..failed.len())
        .map(|a| (0..failed.len()).filter(|b| explains(a, *b)).collect())
        .collect();
    let explained: Vec<bool> = (0..failed.len())
        .map(|b| all.iter().any(|of| of.contains(&b)))
        .collect();

    // Roots first: those that nothing explains. What is left over explains itself in a circle; its gravest member leads.
    let mut order: Vec<usize> = (0..failed.len()).collect();
    order::by_key(&mut order, |&i| {
        (
            explained[i],
            std::cmp::Reverse(gravity(check(i).severity)),
            i,
        )
    });
    let mut claimed = vec![false; failed.len()];
    let mut causes: Vec<Cause> = Vec::new();
    for root in order {
        if claimed[root] {
            continue;
        }
        claimed[root] = true;
        let mut consequences = Vec::new();
        let mut open = vec![root];
        while let Some(at) = open.pop() {
            for &next in &all[at] {
                let is_root = !explained[next];
                if !claimed[next] && !is_root {
                    claimed[next] = true;
                    consequences.push(failed[next]);
                    open.push(next);
                }
            }
        }
        let (check, subject) = failed[root];
        match causes.iter_mut().find(|c| c.check == check) {
            Some(cause) => {
                cause.subjects.push(subject);
                cause.consequences.extend(consequences);
            }
            None => causes.push(Cause {
                check,
                subjects: vec![subject],
                consequences,
            }),
        }
    }
    order::by_key(&mut causes, |c| {
        let severity = gravity(catalogue.checks[c.check].severity);
        (
            std::cmp::Reverse(severity),
            std::cmp::Reverse(effect(facts, c)),
            std::cmp::Reverse(c.subjects.len() + c.consequences.len()),
            c.check,
        )
    });
    causes
}

/// The largest effect on throughput that was measured of a cause or of what it explains, in percent; zero where nothing was measured.
fn effect(facts: &Facts, cause: &Cause) -> u64 {
    let explained = cause.consequences.iter().map(|(_, id)| *id);
    let factors = cause.subjects.iter().copied().chain(explained);
    let factors = factors.filter(|id| facts.subject(*id) == Subject::Factor);
    let size = |key, id| {
        facts
            .known(id, key)
            .map_or(0.0, |percent: crate::fact::Percent| percent.0.abs())
    };
    let sizes = factors.map(|id| size(factor::LEAST, id).max(size(factor::MOST, id)));
    // Noise of a few percent ranks nothing.
    sizes.fold(0.0, f64::max).round() as u64 / 5 * 5
}

fn gravity(severity: Severity) -> u8 {
    match severity {
        Severity::Error => 2,
        Severity::Warning => 1,
        Severity::Note => 0,
    }
}
