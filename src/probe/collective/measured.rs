//! Runs of collectives: a measurement for each operation and size, with the arms that were measured.

use std::collections::BTreeMap;

use super::gpudirect;
use crate::fact::arm::InterNodeTransport;
use crate::fact::arms::{ArmRuns, Arms, Figures, TransportProof, Unit};
use crate::fact::kleene::Several;
use crate::fact::measurement::{self as fact, MeasurementBackend, Memory, NodeSpan};
use crate::fact::{Bytes, Fact, Facts, Gap, Id, Origin, Subject, Why, limit};
use crate::measure::plan::reply::{Ended, PointReply, RankReply};
use crate::measure::plan::results::trial_seconds;
use crate::measure::plan::run::{Backend, Plan, Point, Run};
use crate::measure::plan::statistics::{median, spread};
use crate::nccl_log::Digest;
use crate::probe::Ask;
use crate::source::Refusal;

/// A run as it was recorded.
pub(super) struct Recorded {
    pub(super) run: Run,
    pub(super) ranks: Vec<Result<RankReply, Gap>>,
    log: Result<TransportProof, Gap>,
}

/// States the measurements that a plan is.
///
/// # Errors
///
/// What of it is not understood.
pub(super) fn state(
    ask: &Ask<'_>,
    facts: &mut Facts,
    node: Id,
    value: &serde_json::Value,
    origin: &Origin,
) -> Result<(), String> {
    let plan = Plan::from_value(value)?;
    let runs: Vec<Recorded> = plan
        .runs
        .iter()
        .map(|run| Recorded::of(ask, &plan, *run))
        .collect();
    let further = plan.baseline_points.iter();
    let points: Vec<&Point> = plan.points.iter().chain(further).collect();
    let mut ids = Vec::with_capacity(points.len());
    let compared = plan.points.len().saturating_sub(1);
    for (at, point) in points.iter().enumerate() {
        let id = facts.instance(Subject::Measurement, node, &name(&plan, point));
        whole(facts, id, &plan, point, &runs, origin);
        for pci in plan.ranks.iter().filter_map(|rank| rank.gpu.as_ref()) {
            if let Some(gpu) = facts.find(Subject::Gpu, node, pci) {
                facts.relate(id, gpu);
            }
        }
        facts.know(id, fact::COMPARED, at == compared, origin);
        // What the baseline alone measured is compared with nothing.
        let count = match at < plan.points.len() {
            true => plan.arms.len(),
            false => plan.arms.len().min(1),
        };
        let measured = (0..count).map(|arm| one(&plan, &runs, arm, at, point));
        let (figures, seen) = measured.unzip();
        ids.push(id);
        let in_host = match plan.backend == Backend::Verbs && point.gpu_memory {
            true => gpudirect::state(facts, &plan, &runs, (at, &points), &ids, origin),
            false => None,
        };
        let arms = Arms {
            figures,
            unit: Unit::Busbw,
            written: Vec::new(),
            reported_failures: Vec::new(),
            runs: Some(seen),
            origin: origin.clone(),
            in_host,
        };
        facts.set_arms(id, arms);
    }
    Ok(())
}

fn name(plan: &Plan, point: &Point) -> String {
    let size = match point.bytes {
        bytes if bytes >= 1_000_000_000 && bytes.is_multiple_of(1_000_000_000) => {
            format!("{} GB", bytes / 1_000_000_000)
        }
        bytes => Bytes(bytes).to_string(),
    };
    let place = if point.in_place { " in place" } else { "" };
    let means = match plan.backend {
        Backend::Nccl => String::new(),
        other if point.gpu_memory => format!(" ({}, GPU memory)", other.word()),
        other => format!(" ({})", other.word()),
    };
    format!("{} {size}{place}{means}", point.collective.word())
}

fn whole(
    facts: &mut Facts,
    id: Id,
    plan: &Plan,
    point: &Point,
    runs: &[Recorded],
    origin: &Origin,
) {
    let means = match plan.backend {
        Backend::Nccl => MeasurementBackend::Nccl,
        Backend::Verbs => MeasurementBackend::Verbs,
        Backend::Tcp => MeasurementBackend::Tcp,
    };
    facts.know(id, fact::MEANS, means, origin);
    let memory = match plan.backend == Backend::Nccl || point.gpu_memory {
        true => Memory::Gpu,
        false => Memory::Host,
    };
    facts.know(id, fact::MEMORY, memory, origin);
    facts.know(id, fact::USER_REPORTED, false, origin);
    let text = |text: &str| Fact::Known(text.into(), origin.clone());
    facts.set(id, fact::OPERATION, text(point.collective.word()));
    let size = Bytes(point.bytes);
    facts.know(id, fact::SIZE, size, origin);
    // NCCL counts nodes by their hosts: what one machine shows as several is several to it.
    let logged = runs.iter().filter_map(|run| run.log.as_ref().ok());
    let logged = logged.filter_map(|proof| proof.nodes).max();
    let nodes = plan.nodes().max(logged.unwrap_or(0));
    let mut of_node: BTreeMap<u64, u64> = BTreeMap::new();
    for rank in &plan.ranks {
        *of_node.entry(rank.node).or_default() += 1;
    }
    let least = match nodes >= facts.limit(limit::MANY_NODES) {
        true => facts.limit(limit::SMALL_OF_MANY),
        false => facts.limit(limit::SMALL),
    };
    facts.know(id, fact::SMALL, Bytes(point.bytes) < least, origin);
    let most = match plan.nodes() == nodes {
        true => of_node.values().copied().max().unwrap_or(0),
        false => (plan.ranks.len() as u64).div_ceil(nodes.max(1)),
    };
    for (key, number) in [
        (fact::NODES, nodes),
        (fact::RANKS, plan.ranks.len() as u64),
        (fact::RANKS_PER_NODE, most),
    ] {
        facts.know(id, key, number, origin);
    }
    let gap = runs.iter().find_map(|run| run.log.as_ref().err());
    let span = match (nodes, gap) {
        (2.., _) => Fact::Known(NodeSpan::Several, origin.clone()),
        (_, Some(gap)) => Fact::Unknown(gap.clone()),
        (_, None) => Fact::Known(NodeSpan::One, origin.clone()),
    };
    facts.set(id, fact::SPAN, span);
    let replies = || runs.iter().flat_map(|run| &run.ranks).flatten();
    let library = plan
        .library
        .clone()
        .or_else(|| replies().find_map(|reply| reply.library.clone()));
    let version = replies().find_map(|reply| reply.version.clone());
    for (key, found, what) in [
        (fact::LIBRARY, library, "the library that a rank loaded"),
        (fact::LIBRARY_VERSION, version, "the library's version"),
    ] {
        let found = match found {
            Some(found) => text(&found),
            None => Fact::Unknown(Gap::missing(what)),
        };
        facts.set(id, key, found);
    }
}

impl Recorded {
    fn of(ask: &Ask<'_>, plan: &Plan, run: Run) -> Self {
        let ranks: Vec<Result<RankReply, Gap>> = (0..plan.ranks.len())
            .map(|rank| ask.read(plan.question_of(run, rank)).into_result())
            .collect();
        let log = ask.read::<Digest>(plan.log_of(run)).into_result();
        let log = log.map(|digest| {
            let means = match plan.placed(run, 0).0 {
                Backend::Nccl => {
                    let name = plan.arms.get(run.arm).map_or("run", |arm| &arm.name);
                    return TransportProof::of_log(name, digest);
                }
                _ if plan.nodes() <= 1 => InterNodeTransport::None,
                Backend::Verbs => InterNodeTransport::Rdma,
                Backend::Tcp => InterNodeTransport::Socket,
            };
            let devices = ranks.iter().flatten();
            let devices = devices.filter_map(|reply| reply.device.as_deref());
            TransportProof::of_backend(means, devices)
        });
        Recorded { run, ranks, log }
    }
}

/// What an arm reached at a point, and what was seen of its runs.
fn one<'r>(
    plan: &Plan,
    runs: &'r [Recorded],
    arm: usize,
    at: usize,
    point: &Point,
) -> (Figures, ArmRuns) {
    let figures = plan.arms.get(arm).map(|arm| Figures {
        name: arm.name.clone(),
        set: arm.set.clone(),
        ..Figures::default()
    });
    let mut figures = figures.unwrap_or_default();
    let mut seen = ArmRuns::default();
    let (mut apart, mut times) = (Vec::new(), Vec::new());
    let mut excesses: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for recorded in runs.iter().filter(|recorded| recorded.run.arm == arm) {
        seen.started += 1;
        match &recorded.log {
            Ok(proof) => seen.proof.join(proof.clone()),
            Err(gap) => {
                seen.log_gap.get_or_insert_with(|| gap.clone());
            }
        }
        let of_rank = |(rank, reply): (usize, &'r Result<RankReply, Gap>)| {
            let reply = reply.as_ref().map_err(Gap::clone);
            reply.map(|reply| (rank, reply))
        };
        let ranks: Several<(usize, &RankReply)> =
            recorded.ranks.iter().enumerate().map(of_rank).collect();
        // What went wrong on one rank went wrong, whatever became of the others; of one that died nothing else is known.
        crashed(plan, &recorded.ranks, &mut seen);
        troubles(plan, ranks.answered(), &mut seen);
        let wrong = wrong(plan, ranks.answered(), at, &mut seen);
        let replies: Vec<&RankReply> = match ranks.known() {
            Ok(ranks) => ranks.iter().map(|(_, reply)| *reply).collect(),
            Err(gap) => {
                seen.gap.get_or_insert(gap);
                continue;
            }
        };
        let well = replies.iter().all(|reply| reply.ended == Ended::Well);
        let points: Option<Vec<&PointReply>> =
            replies.iter().map(|reply| reply.points.get(at)).collect();
        let seconds = points.map_or(Vec::new(), |points| {
            trial_seconds(&points, point.iterations)
        });
        let figure = median(&seconds)
            .and_then(|time| {
                let ranks = plan.ranks.len() as u64;
                point.collective.busbw(point.bytes, time, ranks)
            })
            .filter(|rate| rate.0 > 0);
        // A number becomes a figure only where it is valid: all ranks ended well, and every value that was looked at was right.
        if let (true, false, Some(figure)) = (well, wrong, figure) {
            figures.rounds.insert(recorded.run.round, figure.0 as f64);
            apart.extend(spread(&seconds));
            times.extend_from_slice(&seconds);
            for (rank, excess) in excess(&replies, at) {
                excesses.entry(rank).or_default().push(excess);
            }
        }
    }
    if seen.gap.is_some() {
        // Of runs that are not all known nobody says what they reached.
        figures.rounds.clear();
        times.clear();
    }
    seen.time = median(&times);
    seen.trials_apart = median(&apart);
    let slowest = excesses
        .iter()
        .filter_map(|(rank, all)| Some((*rank, median(all)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    seen.slowest = slowest.map(|(rank, excess)| (rank_name(plan, rank), excess));
    (figures, seen)
}

pub(super) fn rank_name(plan: &Plan, rank: usize) -> String {
    let place = plan.ranks.get(rank);
    match place.and_then(|place| place.gpu.as_ref().or(place.device.as_ref())) {
        Some(place) => format!("rank {rank} ({place})"),
        None => format!("rank {rank}"),
    }
}

/// The ranks whose processes died before they could reply.
fn crashed(plan: &Plan, replies: &[Result<RankReply, Gap>], seen: &mut ArmRuns) {
    for (rank, reply) in replies.iter().enumerate() {
        if let Err(Gap {
            why: Why::Refused(Refusal::Crash(how)),
            ..
        }) = reply
        {
            let failure = format!("{}: {how}", rank_name(plan, rank));
            if !seen.failures.contains(&failure) {
                seen.failures.push(failure);
            }
        }
    }
}

/// How the ranks of a run ended badly.
fn troubles(plan: &Plan, replies: &[(usize, &RankReply)], seen: &mut ArmRuns) {
    for (rank, reply) in replies {
        let name = match &reply.host {
            Some(host) if plan.nodes() > 1 => format!("{} on {host}", rank_name(plan, *rank)),
            _ => rank_name(plan, *rank),
        };
        let failure = match &reply.ended {
            Ended::Well | Ended::Stopped { .. } => continue,
            Ended::Slow { .. } => {
                // The one that came least far tells how far the run came.
                let slower = |other: &(u64, String)| reply.ended.steps() < Some(other.0);
                if seen.unfinished.as_ref().is_none_or(slower)
                    && let (Some(done), Some(how)) = (reply.ended.steps(), reply.ended.progress())
                {
                    seen.unfinished = Some((done, format!("{name}: {how}, at {}", reply.step)));
                }
                continue;
            }
            Ended::Hung => {
                let step = match reply.step.as_str() {
                    "" => "nothing was reached".to_owned(),
                    step => format!("its last step is {step}"),
                };
                if !seen.hung.iter().any(|(hung, _)| *hung == name) {
                    seen.hung.push((name, step));
                }
                continue;
            }
            Ended::Failed {
                function, error, ..
            } => format!("{name}: {function}: {error}"),
            Ended::Died { how } => format!("{name}: {how}"),
        };
        if !seen.failures.contains(&failure) {
            seen.failures.push(failure);
        }
    }
}

/// Whether values of the point came wrong.
fn wrong(plan: &Plan, replies: &[(usize, &RankReply)], at: usize, seen: &mut ArmRuns) -> bool {
    let mut any = false;
    for (rank, reply) in replies {
        let Some(point) = reply.points.get(at).filter(|point| point.wrong > 0) else {
            continue;
        };
        any = true;
        seen.wrong += point.wrong;
        if seen.wrong_where.is_none() {
            let place = match point.first_wrong {
                Some(element) => format!("first on {}, element {element}", rank_name(plan, *rank)),
                None => format!("first on {}", rank_name(plan, *rank)),
            };
            seen.wrong_where = Some(place);
        }
    }
    any
}

/// How much longer each rank took than the median of all, in percent.
fn excess(replies: &[&RankReply], at: usize) -> Vec<(usize, f64)> {
    let times: Vec<Option<f64>> = replies
        .iter()
        .map(|reply| median(&reply.points.get(at)?.ms))
        .collect();
    let known: Vec<f64> = times.iter().flatten().copied().collect();
    let Some(middle) = median(&known).filter(|middle| *middle > 0.0 && known.len() > 1) else {
        return Vec::new();
    };
    // Of two ranks the median lies between both: nobody says which one is odd, but the slower one is as much slower than the other.
    let middle = match known.len() {
        2 => known.iter().copied().fold(f64::INFINITY, f64::min),
        _ => middle,
    };
    times
        .iter()
        .enumerate()
        .filter_map(|(rank, time)| Some((rank, 100.0 * ((*time)? / middle - 1.0))))
        .collect()
}
