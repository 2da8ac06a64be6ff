//! From verdicts to causes: what failed because something else failed is folded beneath it. Causes are ordered by the gravest
//! severity of their own and of what they explain, then by their own, then by impact (what stops a job, what slows it down, what puts it at risk), then
//! by the effect that was measured, then by the number of subjects and consequences, then by id.

pub mod areas;
mod touching;

use std::collections::BTreeMap;

use crate::check::{Catalogue, Check, Severity};
use crate::small_sort;

pub use touching::{FactRelations, failures_of};

/// A check that fails: for one instance of a node's, or for one set of nodes.
#[derive(Clone, Debug)]
pub struct FailedCheck {
    /// The check, as an index into the catalogue.
    pub check: usize,
    /// Whether it fails only if the premise of its check is met, which is not known.
    pub presumed: bool,
    /// The effect on throughput that was measured of it, in percent; zero if none was.
    pub effect: f64,
}

impl FailedCheck {
    /// How much it matters.
    pub fn severity(&self, catalogue: &Catalogue) -> Severity {
        let check = &catalogue.checks[self.check];
        if self.presumed {
            check.presumed_severity()
        } else {
            check.severity
        }
    }
}

/// What failures have to do with each other, by their places among the failures.
pub trait Relations {
    /// Whether one, if its check explains the other's, is a cause of it.
    fn touches(&self, cause: usize, effect: usize) -> bool;

    /// Whether a failure of this check touches the failure.
    fn is_touched(&self, effect: usize, check: usize) -> bool;

    /// The failures of this check that the cause touches; each is given once.
    fn take_touched(&mut self, cause: usize, check: usize) -> Vec<usize>;
}

/// A failing check, for one or several subjects, and what it explains.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The check, as an index into the catalogue.
    pub check: usize,
    /// Its failures, in the order found.
    pub failures: Vec<usize>,
    /// What fails because of it.
    pub consequences: Vec<usize>,
}

impl Cause {
    /// How much it matters.
    pub fn severity(&self, catalogue: &Catalogue, failures: &[FailedCheck]) -> Severity {
        let own = self.failures.iter().map(|at| &failures[*at]);
        let own = own.map(|failure| failure.severity(catalogue));
        own.min().unwrap_or(catalogue.checks[self.check].severity)
    }
}

/// The causes, the one to fix first in front. What turns out to be certain is not presumed any more.
pub fn diagnose(
    catalogue: &Catalogue,
    failures: &mut [FailedCheck],
    relations: &mut dyn Relations,
) -> Vec<Cause> {
    let mut of_check: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, failure) in failures.iter().enumerate() {
        of_check.entry(failure.check).or_default().push(at);
    }
    // A note explains no error: what is folded must not be graver than what it is folded under.
    let explains = |a: &usize, b: &usize| {
        let (a, b): (&Check, &Check) = (&catalogue.checks[*a], &catalogue.checks[*b]);
        (a.severity != Severity::Note || b.severity == Severity::Note) && a.explains(b)
    };
    let checks: Vec<usize> = of_check.keys().copied().collect();
    let explained_by = |a: &usize| checks.iter().copied().filter(|b| explains(a, b)).collect();
    let of: BTreeMap<usize, Vec<usize>> = checks.iter().map(|a| (*a, explained_by(a))).collect();
    let mut explained = vec![false; failures.len()];
    for (a, others) in &of {
        for at in others.iter().flat_map(|b| &of_check[b]) {
            explained[*at] |= relations.is_touched(*at, *a);
        }
    }

    // What explains an error that is certain is certain too.
    let is_certain = |failures: &[FailedCheck], a: usize| {
        let is_error = |b: &usize| {
            !failures[*b].presumed
                && catalogue.checks[failures[*b].check].severity == Severity::Error
        };
        let others = of.get(&failures[a].check).into_iter().flatten();
        let mut others = others.flat_map(|other| &of_check[other]);
        failures[a].presumed && others.any(|b| is_error(b) && relations.touches(a, *b))
    };
    while let Some(at) = (0..failures.len()).find(|a| is_certain(failures, *a)) {
        failures[at].presumed = false;
    }

    // Roots first: those that nothing explains. What is left over explains itself in a circle; its gravest member leads.
    let mut order: Vec<usize> = (0..failures.len()).collect();
    small_sort::by_key(&mut order, |&i| {
        (explained[i], failures[i].severity(catalogue), i)
    });
    let mut claimed = vec![false; failures.len()];
    let mut causes: Vec<Cause> = Vec::new();
    for root in order {
        if std::mem::replace(&mut claimed[root], true) {
            continue;
        }
        let check = failures[root].check;
        let id = &catalogue.checks[check].id;
        let (mut own, mut consequences) = (vec![root], Vec::new());
        let mut open = vec![root];
        while let Some(at) = open.pop() {
            let mut found = Vec::new();
            for other in of.get(&failures[at].check).into_iter().flatten() {
                found.extend(relations.take_touched(at, *other));
            }
            // What nothing explains is a root.
            found.retain(|next| explained[*next] && !std::mem::replace(&mut claimed[*next], true));
            found.sort_unstable();
            for &next in &found {
                // A cause is not its own consequence: it is the same cause once more.
                if failures[next].check == check {
                    own.push(next);
                } else {
                    consequences.push(next);
                }
            }
            open.extend(found);
        }
        let is_same = |cause: &&mut Cause| catalogue.checks[cause.check].id == *id;
        match causes.iter_mut().find(is_same) {
            Some(cause) => {
                cause.failures.extend(own);
                cause.consequences.extend(consequences);
            }
            None => causes.push(Cause {
                check,
                failures: own,
                consequences,
            }),
        }
    }
    for cause in &mut causes {
        lead(catalogue, failures, &explained, cause);
    }
    rank(catalogue, failures, &mut causes);
    causes
}

/// Puts the failure that tells most of a cause in front: what nothing explains, the gravest, what stops a job, the largest measured effect.
fn lead(catalogue: &Catalogue, failures: &[FailedCheck], explained: &[bool], cause: &mut Cause) {
    small_sort::by_key(&mut cause.failures, |at| {
        let failure = &failures[*at];
        let impact = catalogue.checks[failure.check].impact;
        (
            explained[*at],
            failure.severity(catalogue),
            impact.is_none(),
            impact,
            std::cmp::Reverse(rounded(failure.effect)),
        )
    });
    if let Some(first) = cause.failures.first() {
        cause.check = failures[*first].check;
    }
}

/// Puts the cause to fix first in front.
fn rank(catalogue: &Catalogue, failures: &[FailedCheck], causes: &mut [Cause]) {
    small_sort::by_key(causes, |cause| {
        let check = &catalogue.checks[cause.check];
        let own = cause.severity(catalogue, failures);
        let beneath = cause.consequences.iter();
        let gravest = beneath.map(|at| failures[*at].severity(catalogue));
        (
            // A cause that explains an error comes before one that explains none.
            gravest.chain([own]).min(),
            own,
            // A site's check without it comes after those that have it.
            check.impact.is_none(),
            check.impact,
            std::cmp::Reverse(effect(cause, failures)),
            std::cmp::Reverse(like_the_first(cause, failures) + cause.consequences.len()),
            std::sync::Arc::clone(&check.case),
        )
    });
}

/// The failures of the case that leads: a check does not matter more because it has many cases.
fn like_the_first(cause: &Cause, failures: &[FailedCheck]) -> usize {
    let of_lead = |at: &&usize| failures[**at].check == cause.check;
    cause.failures.iter().filter(of_lead).count()
}

/// The largest effect that was measured of a cause or of what it explains, in percent.
fn effect(cause: &Cause, failures: &[FailedCheck]) -> u64 {
    let all = cause.failures.iter().chain(&cause.consequences);
    let largest = all.map(|at| failures[*at].effect).fold(0.0, f64::max);
    rounded(largest)
}

/// An effect in percent, so that noise of a few percent ranks nothing.
fn rounded(effect: f64) -> u64 {
    effect.round() as u64 / 5 * 5
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Outcome, Verdict};
    use crate::fact::{Facts, Subject, factor};

    fn diagnose_in(catalogue: &Catalogue, facts: &Facts, verdicts: &[Verdict]) -> Vec<Cause> {
        let (mut failures, subjects) = failures_of(facts, verdicts);
        let mut relations = FactRelations::new(facts, &failures, &subjects);
        diagnose(catalogue, &mut failures, &mut relations)
    }

    /// The ids of the causes of these failing checks, each for a subject of its own.
    fn order(failing: &[&str]) -> Vec<String> {
        let catalogue = Catalogue::embedded().unwrap();
        order_in(&catalogue, failing)
    }

    fn order_in(catalogue: &Catalogue, failing: &[&str]) -> Vec<String> {
        let mut facts = Facts::new();
        let verdicts: Vec<Verdict> = failing
            .iter()
            .enumerate()
            .map(|(at, id)| Verdict {
                check: catalogue
                    .checks
                    .iter()
                    .position(|c| *c.case == **id)
                    .unwrap_or_else(|| panic!("{id}")),
                subject: facts.new_node(&format!("n{at}")),
                outcome: Outcome::Fails,
            })
            .collect();
        let causes = diagnose_in(catalogue, &facts, &verdicts);
        let id = |cause: &Cause| catalogue.checks[cause.check].case.to_string();
        causes.iter().map(id).collect()
    }

    #[test]
    fn what_stops_a_job_leads() {
        for (first, second) in [
            // NVSHMEM_HCA_LIST and MASTER_ADDR.
            ("setting/rendezvous-on-loopback", "setting/names-nothing"),
            // Xid 79 and an adapter's firmware.
            ("kernel/xid-gpu-fault", "kernel/adapter-stalled"),
            ("gpu/lost", "device/fell-off-bus"),
            ("pcie/gpu-off-bus", "pcie/gpu-width-degraded"),
            ("firewall/bootstrap-blocked", "device/provider-missing"),
            ("roce/v2-gid-missing", "link/rate-degraded"),
            ("host/shm-full", "host/libibverbs-missing"),
            ("p2p/copy-corrupts-data", "p2p/access-missing"),
            ("job/memlock-low", "gpu/power-brake"),
            ("nccl/interface-missing", "nccl/ib-disabled"),
            // What slows every job before what may befall one.
            ("nvlink/slower", "gpu/sram-worn-out"),
            ("pcie/hop-degraded", "host/memory-uncorrected"),
            // Of warnings too.
            ("firewall/rendezvous-blocked", "bench/network-over-tcp"),
            ("tuning/frequency-capped", "device/firmware-differs"),
            // An error before a warning, whatever they do.
            ("gpu/remap-failed", "pairs/packet-short"),
        ] {
            assert_eq!(order(&[first, second]), [first, second]);
            assert_eq!(order(&[second, first]), [first, second]);
            // Their number does not matter if the impact decides.
            assert_eq!(order(&[second, second, first]), [first, second]);
        }
    }

    #[test]
    fn of_one_impact_the_one_with_more_subjects_leads_and_then_the_id() {
        let (a, b) = ("link/polling", "link/rate-degraded");
        assert_eq!(order(&[b, a]), [a, b]);
        assert_eq!(order(&[a, b, b]), [b, a]);
    }

    #[test]
    fn a_check_without_impact_comes_after_those_of_its_severity_that_have_one() {
        let mut catalogue = Catalogue::embedded().unwrap();
        let (site, own) = ("bench/rank-hung", "gpu/remap-failed");
        for check in &mut catalogue.checks {
            if *check.case == *site {
                check.impact = None;
            }
        }
        assert_eq!(order_in(&catalogue, &[site, own]), [own, site]);
        let warning = "firewall/rendezvous-blocked";
        assert_eq!(order_in(&catalogue, &[warning, site]), [site, warning]);
    }

    #[test]
    fn a_measured_effect_leads_before_the_number_of_subjects() {
        let catalogue = Catalogue::embedded().unwrap();
        let mut facts = Facts::new();
        let node = facts.new_node("n");
        let at = |id: &str| {
            catalogue
                .checks
                .iter()
                .position(|c| *c.case == *id)
                .unwrap()
        };
        let measurement = facts.instance(Subject::Measurement, node, "all-reduce");
        let factor = facts.instance(Subject::Factor, measurement, "NCCL_IB_DISABLE=1");
        let fact = crate::fact::Fact::derived(crate::fact::Percent(40.0), "a test");
        facts.set(factor, factor::MOST, fact);
        let mut verdicts = vec![Verdict {
            check: at("ablation/ib-off-faster"),
            subject: factor,
            outcome: Outcome::Fails,
        }];
        for name in ["a", "b", "c"] {
            verdicts.push(Verdict {
                check: at("ablation/gdr-off-faster"),
                subject: facts.new_node(name),
                outcome: Outcome::Fails,
            });
        }
        let causes = diagnose_in(&catalogue, &facts, &verdicts);
        assert_eq!(causes[0].check, at("ablation/ib-off-faster"));
    }
}
