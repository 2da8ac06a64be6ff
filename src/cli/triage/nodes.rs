//! What slows several nodes: one node against all, pairs of them, and halves of them, until one cause stands.

use std::time::{Duration, Instant};

use super::{TriageArgs, budget, plan};
use crate::cli::bench::pairs as pairs_bench;
use crate::cli::{input, output};
use crate::examine::one::own_facts;
use crate::fact::{Limits, limit};
use crate::measure::plan::ablation_arms::ArmRequest;
use crate::measure::plan::bisection::Bisection;
use crate::measure::plan::memory_request::MemoryRequest;
use crate::measure::plan::pairs::backend_choice::BackendRequest;
use crate::measure::plan::pairs::{Results, Silent, verdict};
use crate::measure::plan::run::Backend;
use crate::measure::plan::scope::Scopes;
use crate::measure::run::ablation::{AblationRequest, measure_arms};
use crate::measure::run::pairs::backend_decision::{PairRequest, decide};
use crate::measure::run::pairs::rounds::{PairTimes, measure_pairs};
use crate::measure::run::ranks::RankProcess;
use crate::measure::run::team::{Assembled, BisectionLimits, record_parts};
use crate::source::recording::Recording;

/// For how long data flows each way of a pair.
const FLOW: Duration = Duration::from_millis(300);

/// Compares what all nodes reached with one node and with pairs, and goes on by halves where that does not tell. All nodes call it; rank 0 records.
///
/// # Errors
///
/// A node is gone.
pub(super) fn compare(
    recording: &mut Recording,
    assembled: &Assembled,
    (args, begun): (&TriageArgs, Instant),
    silent: &[Silent],
) -> anyhow::Result<()> {
    let Assembled { team, all, own } = assembled;
    let Some(whole) = team.whole(recording)? else {
        return Ok(());
    };
    let left = || budget(args).saturating_sub(begun.elapsed());
    let limits = input::site_catalogue()?.limits;
    let how = RankProcess::of(recording, args.deadline);
    let mut scopes = team.scopes(&how, &whole, own)?;
    let nodes = team.session().names().len() as u64;
    let has_time = plan::does_pairs(args, nodes) && !left().is_zero();
    let mut accuses = false;
    if team.agree("pairs", has_time)? {
        let backend = match all.backend {
            Backend::Tcp => BackendRequest::Tcp,
            Backend::Verbs | Backend::Nccl => BackendRequest::Auto,
        };
        let results = measure(recording, assembled, args, (backend, &limits), silent)?;
        if let Some(results) = results {
            // NCCL spreads what it sends over all rails; a ring of RDMA writes or sockets uses one at a time.
            let rails = match all.backend {
                Backend::Nccl => results.plan.rails().max(1),
                Backend::Verbs | Backend::Tcp => 1,
            };
            let of_all = |rate: f64| (rate * rails as f64) as u64;
            scopes.pairs = verdict::usual(&results).map(of_all);
            scopes.links = verdict::links(&results).map(of_all);
            if all.backend == Backend::Tcp {
                let most = limits.get(limit::SOCKET_RATE).0;
                scopes.links = scopes.links.map(|links| links.min(most));
            }
            accuses = !verdict::suspects(&results, &limits).is_empty();
            pairs_bench::put(recording, &results);
        }
    }
    scopes.whole = whole.scope.clone();
    let is_open = is_open(&scopes, &limits) && !accuses;
    let is_asked = nodes > 2 && is_open && !left().is_zero();
    if team.agree("halves", is_asked)? {
        let until = BisectionLimits {
            within: left(),
            slow_below: limits.get(limit::SLOW_BESIDE_PART),
        };
        scopes.bisection = team.bisect(&how, &whole, all, until)?;
    }
    let blamed = |bisection: &Bisection| {
        let blame = bisection.blame(limits.get(limit::SLOW_BESIDE_PART));
        blame.is_some_and(|blame| {
            !blame.nodes.is_empty() || !blame.between.is_empty() || !blame.together.is_empty()
        })
    };
    let is_open =
        is_open && scopes.pairs.is_some() && !scopes.bisection.as_ref().is_some_and(blamed);
    if team.agree("latency", is_open && !left().is_zero())? {
        scopes.step_ns = team.step_time(&how, &whole, own)?;
    }
    let is_late =
        (scopes.step_ns).is_some_and(|ns| ns as f64 > 1e9 * limits.get(limit::STEP_LATENCY).0);
    let has_arms = all.backend != Backend::Nccl;
    if team.agree("arms", has_arms && is_open && !is_late && !left().is_zero())? {
        let request = AblationRequest {
            arms: ArmRequest::of_switches(),
            size: None,
            rounds: 2,
            budget: left(),
            deadline: args.deadline,
            begun: Some(whole.for_arms()),
            uses_gdr: None,
        };
        match team.leads() {
            true => {
                measure_arms(
                    recording,
                    all.clone(),
                    &request,
                    Some(team),
                    output::progress,
                )?;
                team.over()?;
                scopes.arms = true;
            }
            false => team.follow_runs(&RankProcess::of(recording, args.deadline))?,
        }
    }
    if team.leads() {
        record_parts(recording, scopes, true);
    }
    Ok(())
}

/// Whether nothing tells yet why the nodes are slow, or whether they are.
fn is_open(scopes: &Scopes, limits: &Limits) -> bool {
    let is_slow = |share| share < limits.get(limit::SLOW_NODES);
    let alone = limits.get(limit::SLOW_ALONE);
    scopes.pairs.is_none()
        || scopes.of_expected().is_some_and(is_slow) && scopes.slow_alone(alone).is_empty()
}

/// Measures all pairs; rank 0 has the results.
fn measure(
    recording: &Recording,
    assembled: &Assembled,
    args: &TriageArgs,
    (backend, limits): (BackendRequest, &Limits),
    silent: &[Silent],
) -> anyhow::Result<Option<Results>> {
    let session = assembled.team.session();
    let (facts, node) = own_facts(recording);
    let request = PairRequest {
        backend,
        device: &[],
        gid_index: args
            .who
            .gid_index
            .filter(|_| backend != BackendRequest::Tcp),
        memory: MemoryRequest::Host.of_pairs(),
        force: args.who.force,
    };
    let decided = decide(session, (&facts, node), &request)?;
    drop(facts);
    let times = PairTimes {
        limits,
        flow: FLOW,
        across: false,
    };
    measure_pairs(session, decided, silent, &times, output::progress)
}
