//! From verdicts to causes: what failed because something else failed is folded beneath it. Causes are ordered by the gravest
//! severity of their own and of what they explain, then by their own, then by impact (what stops a job, what slows it down, what puts it at risk), then
//! by the effect that was measured, then by the number of subjects and consequences, then by id.

pub mod areas;

use std::collections::{BTreeMap, HashMap};

use crate::check::Catalogue;
use crate::check::{Check, Severity};
use crate::check::{Outcome, Verdict};
use crate::fact::{Facts, Id, Subject, factor};
use crate::small_sort;

/// A failing check, for one or several subjects, and what it explains.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The check, as an index into the catalogue.
    pub check: usize,
    /// The instances for which it fails, in the order found.
    pub subjects: Vec<Id>,
    /// What fails because of it: check and subject.
    pub consequences: Vec<(usize, Id)>,
    /// Of all these, what fails only if the premise of its check is met, which is not known.
    pub presumed: Vec<(usize, Id)>,
}

impl Cause {
    /// Whether the check fails for this subject only if its premise is met.
    pub fn presumes(&self, check: usize, id: Id) -> bool {
        self.presumed.contains(&(check, id))
    }

    /// How much it matters.
    pub fn severity(&self, catalogue: &Catalogue) -> Severity {
        let check = &catalogue.checks[self.check];
        match self
            .subjects
            .iter()
            .all(|id| self.presumes(self.check, *id))
        {
            true => check.presumed_severity(),
            false => check.severity,
        }
    }
}

/// The causes, the one to fix first in front.
pub fn diagnose(catalogue: &Catalogue, facts: &Facts, verdicts: &[Verdict]) -> Vec<Cause> {
    let failed: Vec<(usize, Id)> = verdicts
        .iter()
        .filter(|v| matches!(v.outcome, Outcome::Fails | Outcome::FailsIf))
        .map(|v| (v.check, v.subject))
        .collect();
    let fails = verdicts.iter().map(|v| &v.outcome);
    let fails = fails.filter(|o| matches!(o, Outcome::Fails | Outcome::FailsIf));
    let mut presumed: Vec<bool> = fails.map(|o| matches!(o, Outcome::FailsIf)).collect();
    let check = |i: usize| -> &Check { &catalogue.checks[failed[i].0] };
    let mut of_check: BTreeMap<usize, FailureIndex> = BTreeMap::new();
    for (at, (check, subject)) in failed.iter().enumerate() {
        of_check.entry(*check).or_default().add(facts, *subject, at);
    }
    // A note explains no error: what is folded must not be graver than what it is folded under.
    let explains = |a: &usize, b: &usize| {
        let (a, b) = (&catalogue.checks[*a], &catalogue.checks[*b]);
        (a.severity != Severity::Note || b.severity == Severity::Note) && a.explains(&b.id)
    };
    let checks: Vec<usize> = of_check.keys().copied().collect();
    let explained_by = |a: &usize| checks.iter().copied().filter(|b| explains(a, b)).collect();
    let of: BTreeMap<usize, Vec<usize>> = checks.iter().map(|a| (*a, explained_by(a))).collect();
    let mut explained = vec![false; failed.len()];
    for (a, others) in &of {
        for b in others {
            for at in &of_check[b].failures {
                explained[*at] |= of_check[a].any(facts, failed[*at].1);
            }
        }
    }

    // What explains an error that is certain is certain too.
    let certain = |presumed: &[bool], a: usize| {
        let is_error = |b: &usize| !presumed[*b] && check(*b).severity == Severity::Error;
        let touched = |b: &usize| facts.touches(failed[a].1, failed[*b].1);
        let others = of.get(&failed[a].0).into_iter().flatten();
        let mut others = others.flat_map(|other| &of_check[other].failures);
        presumed[a] && others.any(|b| is_error(b) && touched(b))
    };
    while let Some(at) = (0..failed.len()).find(|a| certain(&presumed, *a)) {
        presumed[at] = false;
    }
    let severity = |i: usize| match presumed[i] {
        true => check(i).presumed_severity(),
        false => check(i).severity,
    };

    // Roots first: those that nothing explains. What is left over explains itself in a circle; its gravest member leads.
    let mut order: Vec<usize> = (0..failed.len()).collect();
    small_sort::by_key(&mut order, |&i| (explained[i], severity(i), i));
    let mut claimed = vec![false; failed.len()];
    let mut causes: Vec<Cause> = Vec::new();
    for root in order {
        if claimed[root] {
            continue;
        }
        claimed[root] = true;
        let mut consequences = Vec::new();
        let mut further = Vec::new();
        let mut under = Vec::new();
        let mut open = vec![root];
        while let Some(at) = open.pop() {
            if presumed[at] {
                under.push(failed[at]);
            }
            let (check, subject) = failed[at];
            let mut found = Vec::new();
            for other in of.get(&check).into_iter().flatten() {
                if let Some(touched) = of_check.get_mut(other) {
                    touched.take(facts, subject, &mut found);
                }
            }
            // What nothing explains is a root.
            found.retain(|next| explained[*next] && !std::mem::replace(&mut claimed[*next], true));
            found.sort_unstable();
            for &next in &found {
                // A cause is not its own consequence: it is the same cause once more.
                match failed[next].0 == failed[root].0 {
                    true => further.push(failed[next].1),
                    false => consequences.push(failed[next]),
                }
            }
            open.extend(found);
        }
        let (check, subject) = failed[root];
        match causes.iter_mut().find(|c| c.check == check) {
            Some(cause) => {
                cause.subjects.push(subject);
                cause.subjects.extend(further);
                cause.consequences.extend(consequences);
                cause.presumed.extend(under);
            }
            None => causes.push(Cause {
                check,
                subjects: [subject].into_iter().chain(further).collect(),
                consequences,
                presumed: under,
            }),
        }
    }
    small_sort::by_key(&mut causes, |c| {
        let check = &catalogue.checks[c.check];
        let beneath = c.consequences.iter();
        let gravest = beneath.map(|(of, id)| match c.presumes(*of, *id) {
            true => catalogue.checks[*of].presumed_severity(),
            false => catalogue.checks[*of].severity,
        });
        (
            // A cause that explains an error comes before one that explains none.
            gravest.chain([c.severity(catalogue)]).min(),
            c.severity(catalogue),
            // A site's check without it comes after those that have it.
            check.impact.is_none(),
            check.impact,
            std::cmp::Reverse(effect(facts, c)),
            std::cmp::Reverse(c.subjects.len() + c.consequences.len()),
            std::sync::Arc::clone(&check.id),
        )
    });
    causes
}

/// The failures of a check by what they touch ([`Facts::touches`]), so that thousands are not held against thousands.
#[derive(Default)]
struct FailureIndex {
    failures: Vec<usize>,
    /// By the instance for which the check fails.
    own: FailuresByInstance,
    /// By those that belong to that one.
    related: FailuresByInstance,
}

/// Failures by instances.
#[derive(Default)]
struct FailuresByInstance {
    at: HashMap<Id, Vec<usize>>,
    /// By the instance and by its ancestors.
    inside: HashMap<Id, Vec<usize>>,
}

impl FailuresByInstance {
    fn add(&mut self, facts: &Facts, id: Id, failure: usize) {
        self.at.entry(id).or_default().push(failure);
        for id in facts.lineage(id) {
            self.inside.entry(id).or_default().push(failure);
        }
    }

    /// Whether one is inside the instance, or the instance inside one.
    fn any(&self, facts: &Facts, id: Id) -> bool {
        self.inside.contains_key(&id) || facts.lineage(id).any(|id| self.at.contains_key(&id))
    }

    /// Takes these out.
    fn take(&mut self, facts: &Facts, id: Id, found: &mut Vec<usize>) {
        found.extend(self.inside.remove(&id).into_iter().flatten());
        for id in facts.lineage(id) {
            found.extend(self.at.remove(&id).into_iter().flatten());
        }
    }
}

impl FailureIndex {
    fn add(&mut self, facts: &Facts, subject: Id, failure: usize) {
        self.failures.push(failure);
        let subject = facts.stands_for(subject);
        self.own.add(facts, subject, failure);
        for id in facts.related(subject) {
            self.related.add(facts, *id, failure);
        }
    }

    fn any(&self, facts: &Facts, subject: Id) -> bool {
        let subject = facts.stands_for(subject);
        let mut related = facts.related(subject).iter();
        self.own.any(facts, subject)
            || self.related.any(facts, subject)
            || related.any(|id| self.own.any(facts, *id))
    }

    fn take(&mut self, facts: &Facts, subject: Id, found: &mut Vec<usize>) {
        let subject = facts.stands_for(subject);
        self.own.take(facts, subject, found);
        self.related.take(facts, subject, found);
        for id in facts.related(subject) {
            self.own.take(facts, *id, found);
        }
    }
}

/// The largest effect on throughput that was measured of a cause or of what it explains, in percent; zero if nothing was measured.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Catalogue;
    use crate::fact::Subject;

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
                    .position(|c| *c.id == **id)
                    .unwrap_or_else(|| panic!("{id}")),
                subject: facts.new_node(&format!("n{at}")),
                outcome: Outcome::Fails,
            })
            .collect();
        let causes = diagnose(catalogue, &facts, &verdicts);
        let id = |cause: &Cause| catalogue.checks[cause.check].id.to_string();
        causes.iter().map(id).collect()
    }

    #[test]
    fn what_touches_a_failure_is_found_without_looking_at_each() {
        let mut facts = Facts::new();
        let mut ids = vec![Facts::CLUSTER];
        for name in ["a", "b"] {
            let node = facts.new_node(name);
            let device = facts.instance(Subject::Device, node, "d");
            let port = facts.instance(Subject::Port, device, "d/1");
            let netdev = facts.instance(Subject::Netdev, node, "eth0");
            let gid = facts.instance(Subject::Gid, port, "0");
            facts.relate(port, netdev);
            let run = facts.instance(Subject::Run, Facts::CLUSTER, name);
            let host = facts.instance(Subject::Host, run, name);
            let event = facts.instance(Subject::Event, host, "cuda");
            facts.relate(event, run);
            facts.relate(host, node);
            ids.extend([node, device, port, netdev, gid, run, host, event]);
        }
        for one in &ids {
            let mut touched = FailureIndex::default();
            touched.add(&facts, *one, 7);
            for other in &ids {
                let touches = facts.touches(*one, *other);
                let names = || (facts.name(*one), facts.name(*other));
                assert_eq!(touched.any(&facts, *other), touches, "{:?}", names());
            }
            let mut found = Vec::new();
            touched.take(&facts, *one, &mut found);
            assert!(found.contains(&7));
        }
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
            if *check.id == *site {
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
        let at = |id: &str| catalogue.checks.iter().position(|c| *c.id == *id).unwrap();
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
        let causes = diagnose(&catalogue, &facts, &verdicts);
        assert_eq!(causes[0].check, at("ablation/ib-off-faster"));
    }
}
