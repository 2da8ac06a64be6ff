//! What a triage of several nodes measures, step by step: who reaches whom, all that can together,
//! one node against all, and halves, latency and arms where nothing tells why they are slow.
//!
//! No step ends the triage. What fails, hangs or is lost becomes an outcome with the node's name,
//! and the steps after it go on without that node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::TriagePlan;
use super::preview::does_pairs;
use crate::cluster::session::Session;
use crate::examine::one::own_facts;
use crate::fact::{Limits, limit};
use crate::live::clock;
use crate::measure::plan::ablation_arms::ArmRequest;
use crate::measure::plan::bisection::Bisection;
use crate::measure::plan::memory_request::MemoryRequest;
use crate::measure::plan::pairs::backend_choice::BackendRequest;
use crate::measure::plan::pairs::participants::left_out;
use crate::measure::plan::pairs::{
    Extent, Plan as PairPlan, Results, Silent, rail_choice, verdict,
};
use crate::measure::plan::results::Results as CollectiveResults;
use crate::measure::plan::run::{Backend, NAME};
use crate::measure::plan::scope::Scopes;
use crate::measure::run::ablation::{AblationRequest, measure_arms};
use crate::measure::run::pairs::backend_decision::{BackendDecision, PairRequest, decide};
use crate::measure::run::pairs::other_networks::try_other_networks;
use crate::measure::run::pairs::rdma::Purpose;
use crate::measure::run::pairs::rounds::{PairTimes, measure_pairs};
use crate::measure::run::progress::ShowProgress;
use crate::measure::run::ranks::RankProcess;
use crate::measure::run::team::{Assembled, BisectionLimits, PartRequest, Team, record_parts};
use crate::source::recording::Recording;
use crate::source::wire::Line;

/// For how long data flows each way of a pair.
const FLOW: Duration = Duration::from_millis(300);
/// How often the baseline is measured: once more for each time that nodes were lost in it.
const BASELINES: usize = 3;

/// Several nodes that are measured.
pub struct SeveralNodes<'n> {
    /// What is measured, and for how long.
    pub plan: &'n TriagePlan,
    /// The limits of the checks.
    pub limits: &'n Limits,
    /// Expected nodes that did not connect, and why.
    pub silent: &'n [Silent],
    /// Shows a person what is measured.
    pub show: ShowProgress,
}

/// What the steps found until now.
struct Course {
    begun: Instant,
    /// What pairs of nodes carried, at rank 0.
    pairs: Option<Results>,
    /// The nodes without which the others go on.
    left_out: Vec<String>,
}

impl SeveralNodes<'_> {
    /// Carries out all steps. All nodes call it; rank 0 records, and says why nothing was measured.
    ///
    /// # Errors
    ///
    /// This node is cut off from rank 0.
    pub fn measure(
        &self,
        recording: &mut Recording,
        assembled: Assembled,
    ) -> anyhow::Result<Option<String>> {
        let mut course = Course {
            begun: clock::now(),
            pairs: None,
            left_out: Vec::new(),
        };
        let leads = assembled.team.leads();
        let measured = self.steps(recording, assembled, &mut course);
        if let (true, Some(results)) = (leads, &course.pairs) {
            put_pairs(recording, results);
        }
        match measured {
            // Rank 0 reports what it has.
            Err(error) if leads => Ok(Some(error.to_string())),
            other => other,
        }
    }

    fn steps(
        &self,
        recording: &mut Recording,
        assembled: Assembled,
        course: &mut Course,
    ) -> anyhow::Result<Option<String>> {
        let nodes = assembled.team.session().names().len() as u64;
        if does_pairs(self.plan, nodes) {
            self.pairs(recording, &assembled, course)?;
        }
        let own = unreached_ranks(assembled.team.session(), course.pairs.as_ref());
        let unreached: BTreeSet<u64> = assembled.team.agree_on("without", &own)?;
        let Some(mut remaining) = narrowed(assembled, &unreached, course) else {
            return Ok(Some(nobody_left(course)));
        };
        let mut why = None;
        for number in 0..BASELINES {
            why = self.baseline(recording, &remaining)?;
            let lost = remaining.team.agree_on_lost(&format!("lost {number}"))?;
            if lost.is_empty() {
                break;
            }
            note_lost(&remaining.team, &lost, course);
            let ranks: BTreeSet<u64> = lost.into_keys().collect();
            forget_runs(recording);
            match narrowed(remaining, &ranks, course) {
                Some(fewer) => remaining = fewer,
                None => return Ok(Some(nobody_left(course))),
            }
        }
        self.compare(recording, &remaining, course)?;
        Ok(why)
    }

    /// What all of them reach together.
    fn baseline(
        &self,
        recording: &mut Recording,
        assembled: &Assembled,
    ) -> anyhow::Result<Option<String>> {
        let Assembled { team, all, own } = assembled;
        let deadline = self.plan.deadline;
        match all.backend {
            Backend::Nccl if team.leads() => {
                if self.plan.full {
                    self.plan.copies(recording, &team.own_of(all), self.show);
                }
                let request = &self.plan.arms;
                let why = measure_arms(recording, all.clone(), request, Some(team), self.show)?;
                team.over()?;
                Ok(why)
            }
            Backend::Nccl => {
                team.follow_runs(&RankProcess::of(recording, deadline))?;
                Ok(None)
            }
            Backend::Verbs | Backend::Tcp => {
                let points = self.plan.in_host_memory(all);
                let parts = PartRequest::default();
                team.measure(recording, (all, own), points, parts, deadline)
            }
        }
    }

    /// Measures all pairs, and tries the networks that they do not use; rank 0 has the results.
    fn pairs(
        &self,
        recording: &Recording,
        assembled: &Assembled,
        course: &mut Course,
    ) -> anyhow::Result<()> {
        let session = assembled.team.session();
        let backend = match assembled.all.backend {
            Backend::Tcp => BackendRequest::Tcp,
            Backend::Verbs | Backend::Nccl => BackendRequest::Auto,
        };
        let (facts, node) = own_facts(recording);
        let request = PairRequest {
            backend,
            device: &[],
            gid_index: self
                .plan
                .gid_index
                .filter(|_| backend != BackendRequest::Tcp),
            memory: MemoryRequest::Host.of_pairs(),
            force: self.plan.force,
            purpose: Purpose::Measure,
        };
        let decided = decide(session, (&facts, node), &request)?;
        let by_sockets = decided.is_by_sockets();
        let unused = match &decided {
            BackendDecision {
                rails: Ok(rails), ..
            } if by_sockets => rail_choice::unused_rails(&facts, node, rails),
            _ => Vec::new(),
        };
        drop(facts);
        let times = PairTimes {
            limits: self.limits,
            flow: FLOW,
            extent: Extent::All,
            across: false,
            once: false,
            prefix: "",
        };
        course.pairs = measure_pairs(session, decided, self.silent, &times, self.show)?;
        if by_sockets {
            let others = try_other_networks(session, &unused, self.limits, self.show)?;
            if let Some(results) = &mut course.pairs {
                results.plan.others = others;
            }
        }
        Ok(())
    }

    /// Compares what all nodes reached with one node and with pairs, and goes on where that does
    /// not tell why they are slow.
    fn compare(
        &self,
        recording: &mut Recording,
        assembled: &Assembled,
        course: &Course,
    ) -> anyhow::Result<()> {
        let Assembled { team, all, own } = assembled;
        let left = || self.plan.budget.saturating_sub(course.begun.elapsed());
        let limits = self.limits;
        let Some(whole) = team.whole(recording)? else {
            if team.leads() {
                let mut scopes = Scopes::default();
                self.add_pairs(&mut scopes, course, all.backend);
                record_parts(recording, scopes, true);
            }
            return Ok(());
        };
        let how = RankProcess::of(recording, self.plan.deadline);
        let nodes = team.size();
        let mut scopes = team.scopes(&how, &whole, own)?;
        let accuses = self.add_pairs(&mut scopes, course, all.backend);
        scopes.whole = whole.scope.clone();
        let is_open = is_open(&scopes, limits) && !accuses;
        let is_asked = nodes > 2 && is_open && !left().is_zero();
        if team.agree("halves", is_asked)? {
            let until = BisectionLimits {
                within: left(),
                slow_below: limits.get(limit::SLOW_BESIDE_PART),
            };
            scopes.bisection = team.bisect(&how, &whole, all, until)?;
        }
        let is_found = (scopes.bisection.as_ref()).is_some_and(|all| blames(all, limits));
        let goes_on = is_open && scopes.pairs.is_some() && !is_found;
        if team.agree("latency", goes_on && !left().is_zero())? {
            scopes.step_ns = team.step_time(&how, &whole, own)?;
        }
        let step = limits.get(limit::STEP_LATENCY).0;
        let is_late = scopes.step_ns.is_some_and(|ns| ns as f64 > 1e9 * step);
        let has_arms = all.backend != Backend::Nccl;
        if team.agree("arms", has_arms && goes_on && !is_late && !left().is_zero())? {
            let request = AblationRequest {
                arms: ArmRequest::of_switches(),
                size: None,
                rounds: 2,
                budget: left(),
                deadline: self.plan.deadline,
                begun: Some(whole.for_arms()),
                uses_gdr: None,
            };
            if team.leads() {
                measure_arms(recording, all.clone(), &request, Some(team), self.show)?;
                team.over()?;
                scopes.arms = true;
            } else {
                team.follow_runs(&RankProcess::of(recording, self.plan.deadline))?;
            }
        }
        if team.leads() {
            record_parts(recording, scopes, true);
        }
        Ok(())
    }

    /// Adds what pairs carry; says whether they accuse anything that may slow the nodes.
    fn add_pairs(&self, scopes: &mut Scopes, course: &Course, backend: Backend) -> bool {
        scopes.backend = Some(backend);
        scopes.left_out.clone_from(&course.left_out);
        scopes.links = self.plan.link;
        let Some(results) = &course.pairs else {
            return false;
        };
        // NCCL spreads what it sends over all rails; a ring of writes or sockets uses one.
        let rails = match backend {
            Backend::Nccl => results.plan.rails().max(1),
            Backend::Verbs | Backend::Tcp => 1,
        };
        let of_all = |rate: f64| (rate * rails as f64) as u64;
        scopes.pairs = verdict::usual(results).map(of_all);
        let mut links = verdict::links(results).map(of_all);
        if backend == Backend::Tcp {
            let most = self.limits.get(limit::SOCKET_RATE).0;
            links = links.map(|links| links.min(most));
        }
        scopes.links = self.plan.link.or(links);
        !verdict::suspects(results, self.limits).is_empty()
    }
}

/// The ranks in the session of nodes that cannot measure with the others.
fn unreached_ranks(session: &Session, pairs: Option<&Results>) -> BTreeSet<u64> {
    let Some(results) = pairs else {
        return BTreeSet::new();
    };
    let hosts = left_out(results).into_iter();
    let hosts: BTreeSet<&str> = hosts
        .map(|node| results.plan.nodes[node].host.as_str())
        .collect();
    let named = session.names().iter();
    let unreached = named.filter(|(_, name)| hosts.contains(name.as_str()));
    unreached.map(|(rank, _)| *rank).collect()
}

/// The nodes without those; `None` if too few are left, or this one is not.
fn narrowed(
    assembled: Assembled,
    without: &BTreeSet<u64>,
    course: &mut Course,
) -> Option<Assembled> {
    if without.is_empty() {
        return Some(assembled);
    }
    let session = assembled.team.session();
    let hosts = without.iter().map(|rank| session.name(*rank));
    course.left_out.extend(hosts);
    assembled.without(without)
}

fn nobody_left(course: &Course) -> String {
    let names = course.left_out.join(", ");
    format!("without {names} too few nodes are left to measure")
}

/// Lists lost nodes among those that did not respond.
fn note_lost(team: &Team, lost: &BTreeMap<u64, String>, course: &mut Course) {
    let Some(results) = &mut course.pairs else {
        return;
    };
    for (rank, why) in lost {
        let host = team.session().name(*rank);
        if results.plan.silent.iter().all(|silent| silent.host != host) {
            let why = why.clone();
            results.plan.silent.push(Silent { host, why });
        }
    }
}

/// Takes back what was recorded of a baseline in which nodes were lost.
fn forget_runs(recording: &mut Recording) {
    let Ok(CollectiveResults { plan, .. }) = CollectiveResults::read(&recording.of(NAME)) else {
        return;
    };
    for run in &plan.runs {
        for rank in 0..plan.ranks.len() {
            recording.add(Line::Drop(plan.question_of(*run, rank)));
        }
        recording.add(Line::Drop(plan.log_of(*run)));
    }
    recording.end();
}

/// Puts what pairs carried into the recording.
pub fn put_pairs(recording: &mut Recording, results: &Results) {
    // The recording said that nothing was measured.
    recording.add(Line::Drop(PairPlan::question()));
    let at = recording.duration();
    for line in results.lines(at) {
        recording.add(line);
    }
    recording.end();
}

/// Whether nothing tells yet why the nodes are slow, or whether they are.
fn is_open(scopes: &Scopes, limits: &Limits) -> bool {
    let is_slow = |share| share < limits.get(limit::SLOW_NODES);
    let alone = limits.get(limit::SLOW_ALONE);
    scopes.pairs.is_none()
        || scopes.of_expected().is_some_and(is_slow) && scopes.slow_alone(alone).is_empty()
}

/// Whether parts of the nodes told what makes them slow.
fn blames(bisection: &Bisection, limits: &Limits) -> bool {
    let blame = bisection.blame(limits.get(limit::SLOW_BESIDE_PART));
    blame.is_some_and(|blame| {
        !blame.nodes.is_empty() || !blame.between.is_empty() || !blame.together.is_empty()
    })
}
