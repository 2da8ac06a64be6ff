//! What became of RDMA writes from GPU to GPU, and what they are worth against the same ones in the host's memory.

use super::measured::{Recorded, rank_name};
use crate::fact::measurement::{self as fact, GpuDirect};
use crate::fact::{Fact, Facts, Gap, Id, Origin};
use crate::measure::plan::reply::{Ended, GpuMemory, RankReply};
use crate::measure::plan::run::{Plan, Point};

/// `enum ibv_wc_status`: what a device says that may not read or write the memory itself, or whose other end may not. That an acknowledgement does not come
/// is no proof of it: a network that loses packets says the same.
const MEMORY_STATUS: [i64; 7] = [
    1,  // IBV_WC_LOC_LEN_ERR
    2,  // IBV_WC_LOC_QP_OP_ERR
    4,  // IBV_WC_LOC_PROT_ERR
    8,  // IBV_WC_LOC_ACCESS_ERR
    9,  // IBV_WC_REM_INV_REQ_ERR
    10, // IBV_WC_REM_ACCESS_ERR
    11, // IBV_WC_REM_OP_ERR
];

/// States what became of the point at this place, whose data is on GPUs; `ids` are the measurements of the points until then, itself the last. Gives the
/// same measurement in the host's memory, where there is one.
pub(super) fn state(
    facts: &mut Facts,
    plan: &Plan,
    runs: &[Recorded],
    (at, points): (usize, &[&Point]),
    ids: &[Id],
    origin: &Origin,
) -> Option<Id> {
    let (&id, point) = (ids.last()?, points.get(at)?);
    // The same in the host's memory came before, in the same run.
    let in_host = Point {
        gpu_memory: false,
        ..(*point).clone()
    };
    let host = points.iter().take(at).position(|other| **other == in_host);
    let became = became(plan, runs, at, host).map(|(became, why)| (became, why.into()));
    let (became, why) = Fact::from_result(became, origin).unzip();
    facts.set(id, fact::GPUDIRECT, became);
    facts.set(id, fact::GPUDIRECT_WHY, why);
    if host.is_none() {
        let gap = Gap::missing("the same in the host's memory (--memory both)");
        facts.leave_open(id, &[fact::OF_HOST.index, fact::HOST_FIGURE.index], &gap);
    }
    host.and_then(|host| ids.get(host).copied())
}

/// What became of it, and by which way or why.
fn became(
    plan: &Plan,
    runs: &[Recorded],
    at: usize,
    host: Option<usize>,
) -> Result<(GpuDirect, String), Gap> {
    let mut ways: Vec<&'static str> = Vec::new();
    for recorded in runs.iter().filter(|recorded| recorded.run.arm == 0) {
        let replies: Result<Vec<&RankReply>, Gap> = (recorded.ranks.iter())
            .map(|rank| rank.as_ref().map_err(Clone::clone))
            .collect();
        let replies = replies?;
        // What went well before, over the same connections, leaves the GPU's memory.
        let host_well = host.is_some_and(|host| {
            (replies.iter()).all(|reply| reply.points.get(host).is_some_and(|p| p.wrong == 0))
        });
        for (rank, reply) in replies.iter().enumerate() {
            let name = rank_name(plan, rank);
            if let Some(trouble) = trouble(reply, at, host_well) {
                let (became, what) = trouble;
                return Ok((became, format!("{name}: {what}")));
            }
        }
        for reply in replies {
            let done = reply.points.get(at).is_some();
            match reply.gpu_memory.as_ref().and_then(|memory| memory.way) {
                Some(way) if done => {
                    if !ways.contains(&way.word()) {
                        ways.push(way.word());
                    }
                }
                _ => return Err(Gap::missing("ranks that came so far")),
            }
        }
    }
    match ways.is_empty() {
        true => Err(Gap::missing("a run")),
        false => Ok((GpuDirect::Works, ways.join(", "))),
    }
}

/// What a rank says against it.
fn trouble(reply: &RankReply, at: usize, host_well: bool) -> Option<(GpuDirect, String)> {
    if let Some(point) = reply.points.get(at).filter(|point| point.wrong > 0) {
        let (wrong, checked) = (point.wrong, point.checked);
        let first = match point.first_wrong {
            Some(element) => format!(", the first is element {element}"),
            None => String::new(),
        };
        let what = format!("{wrong} of {checked} values arrived wrong{first}");
        return Some((GpuDirect::Wrong, what));
    }
    let Ended::Failed {
        function,
        code,
        error,
    } = &reply.ended
    else {
        return None;
    };
    let what = format!("{function}: {error}");
    match &reply.gpu_memory {
        // It failed with this, whatever the point.
        Some(GpuMemory { way: None, .. }) => Some((GpuDirect::Refused, what)),
        Some(GpuMemory { way: Some(_), .. }) if reply.points.len() == at => {
            let by_status = code.is_some_and(|code| MEMORY_STATUS.contains(&code));
            let is_transfer = function == "ibv_poll_cq";
            (is_transfer && (host_well || by_status)).then_some((GpuDirect::Fails, what))
        }
        _ => None,
    }
}
