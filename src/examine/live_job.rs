//! A running job on this node: how it is recorded, with what its ranks left in files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::found_files::FoundFiles;
use super::recorded_input::read_logs;
use super::sink::Sink;
use super::unusable::BadInput;
use crate::fact::{Facts, Subject, live_job, live_rank};
use crate::left_out::LeftOut;
use crate::live::flight_recorder::FlightRecorder;
use crate::live::worker::{self, Plan};
use crate::live::{clock, job_process, ras};
use crate::probe::{OF_JOBS, nccl_log, ranks};
use crate::source::recording::Recording;
use crate::source::wire::{Header, Line};

/// Time for the questions beside the pause between the two looks.
const ASKING: Duration = Duration::from_secs(60);
/// Between the two looks at a job that is about to be ended.
const PAUSE: Duration = Duration::from_secs(2);
/// Time for the ranks to write their dumps.
pub(super) const DUMPING: Duration = Duration::from_secs(15);
/// Ranks without a dump that are named.
const NAMED: usize = 8;

/// A running job on this node.
#[derive(Clone, Debug)]
pub struct LiveJobRequest {
    /// Its processes, or those above them; all ranks of the node where there is none.
    pub pids: Vec<u32>,
    /// The pause between the two looks.
    pub interval: Duration,
    /// Dumps, outputs and logs of the job.
    pub files: Vec<PathBuf>,
    /// Whether NCCL's RAS is asked.
    pub ras: Option<AskRas>,
    /// The py-spy that reads where the ranks' Python programs stand, by its path or its name.
    pub py_spy: Option<PathBuf>,
    /// Whether the flight recorders of the ranks are asked for their dumps.
    pub dumps: bool,
}

/// When NCCL's RAS is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskRas {
    /// Where that is not known to crash a process of the job.
    WhereSafe,
    /// Whatever the version.
    Anyway,
}

/// The first version of NCCL whose RAS can be asked while ranks are missing (nccl#1762).
const SAFE: [u64; 3] = [2, 29, 2];

/// Looks at the job twice, and reads the files. It is a recording of a log: nothing else is asked of
/// the node.
///
/// # Errors
///
/// There is no such process, or a file cannot be read.
pub fn record(request: &LiveJobRequest, sink: &dyn Sink) -> anyhow::Result<Recording> {
    if let Some(pid) = request.pids.iter().find(|pid| !job_process::exists(**pid)) {
        return Err(BadInput(format!("{pid}: there is no such process")).into());
    }
    let plan = Plan {
        root: None,
        sample: Some(request.interval),
        nccl: None,
        job: None,
        ranks: request.pids.clone(),
        py_spy: request.py_spy.clone(),
        deadline: request.interval + ASKING,
        probes: OF_JOBS
            .iter()
            .map(|probe| (probe.name, probe.budget))
            .collect(),
        program: None,
    };
    let seen = worker::record(&plan, |event| sink.progress(event));
    let mut whole = if request.files.is_empty() {
        let mut none = Recording::new(seen.header.clone());
        let no_files = json!({ "files": [] });
        none.add(Line::of(nccl_log::NAME, nccl_log::files(), &no_files, 0));
        none
    } else {
        read_logs(&request.files, None)?
    };
    if request.ras.is_some() || request.dumps {
        whole = ask_job(request, &seen).beside(&whole);
    }
    whole.header = Header {
        log: true,
        ..seen.header.clone()
    };
    for line in seen.to_lines() {
        whole.add(line);
    }
    whole.end();
    Ok(whole)
}

/// Looks twice at the processes of a job that is about to be ended, and those below them: the lines of the look, if one of them is a rank.
pub fn look(pids: Vec<u32>, sink: &dyn Sink) -> Vec<Line> {
    let request = LiveJobRequest {
        pids,
        interval: PAUSE,
        files: Vec::new(),
        ras: None,
        py_spy: None,
        dumps: false,
    };
    let Ok(recording) = record(&request, sink) else {
        return Vec::new();
    };
    let lines = if ranks::has_ranks(&recording) {
        recording.to_lines()
    } else {
        Vec::new()
    };
    let of_look =
        |line: &Line| matches!(line, Line::Reply { probe, .. } if **probe == *ranks::PROBE.name);
    lines.into_iter().filter(of_look).collect()
}

/// What the job gives that is asked itself.
fn ask_job(request: &LiveJobRequest, seen: &Recording) -> FoundFiles {
    let mut facts = Facts::new();
    ranks::establish([seen], &mut facts);
    let pids = facts.all(Subject::LiveRank);
    let pids = pids.filter_map(|rank| facts.known(rank, live_rank::PID));
    let pids: Vec<u32> = pids.filter_map(|pid| u32::try_from(pid).ok()).collect();
    let mut found = FoundFiles::default();
    if request.dumps {
        ask_recorders(&pids, &mut found);
    }
    if let Some(how) = request.ras {
        match may_be_asked(&facts, how) {
            Ok(()) => ask_ras(request.interval, &pids, &mut found),
            Err(why) => found.lacks(no_status(why)),
        }
    }
    found
}

/// Whether RAS may be asked, by the version that the ranks have mapped; else why not.
fn may_be_asked(facts: &Facts, how: AskRas) -> Result<(), String> {
    let job = facts.all(Subject::LiveJob).next();
    let version = job.and_then(|job| facts.known(job, live_job::NCCL_VERSION));
    let numbers = version.as_deref().map(numbers_of);
    match (numbers, how) {
        (_, AskRas::Anyway) => Ok(()),
        (Some(numbers), _) if numbers.len() == 3 && numbers.as_slice() >= SAFE.as_slice() => Ok(()),
        (Some(numbers), _) if numbers.len() == 3 => Err(format!(
            "in NCCL {} the question can crash a process of a job whose ranks are missing or still initialise (fixed in 2.29.2); --ras=anyway asks",
            version.unwrap_or_default()
        )),
        _ => Err("which NCCL the ranks have mapped is not known, and before 2.29.2 the question can crash a process of the job; --ras=anyway asks".to_owned()),
    }
}

fn numbers_of(version: &str) -> Vec<u64> {
    let parts = version.split(['.', '+', '-']).take(3);
    parts.map_while(|part| part.parse().ok()).collect()
}

/// Two statuses, so far apart: one shows how the ranks stand, two whether they move.
fn ask_ras(pause: Duration, pids: &[u32], found: &mut FoundFiles) {
    let address = ras::address(pids);
    for look in 1..=2 {
        if look == 2 {
            std::thread::sleep(pause);
        }
        match ras::status(&address) {
            Ok(bytes) => found.add(&format!("RAS at {address}, {look}"), bytes),
            Err(error) => {
                return found.lacks(no_status(format!("at {address}: {error}")));
            }
        }
    }
}

fn no_status(why: String) -> LeftOut {
    LeftOut::counted(1, "status of NCCL's RAS", why)
}

/// The dumps of all ranks, which write them at the same time.
fn ask_recorders(pids: &[u32], found: &mut FoundFiles) {
    let until = clock::now() + DUMPING;
    let ask = |pid: u32| {
        let recorder = FlightRecorder::of_rank(pid).map_err(|why| (None, why))?;
        let dump = recorder.dump(until);
        dump.map_err(|why| (Some(recorder.rank), why))
    };
    let asked = std::thread::scope(|scope| {
        let each: Vec<_> = pids
            .iter()
            .map(|pid| scope.spawn(move || ask(*pid)))
            .collect();
        let ended = each.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended.filter_map(Result::ok).collect::<Vec<_>>()
    });
    let mut lacking: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in asked {
        match one {
            Ok((name, bytes)) => found.add(&name, bytes),
            Err((rank, why)) => {
                let rank = rank.map_or("a process".to_owned(), |rank| format!("rank {rank}"));
                lacking.entry(why).or_default().push(rank);
            }
        }
    }
    for (why, ranks) in lacking {
        let count = ranks.len() as u64;
        let who = ranks.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
        let more = count.saturating_sub(NAMED as u64);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        found.lacks(LeftOut::counted(
            count,
            "flight recorder's dump",
            format!("{who}{more}: {why}"),
        ));
    }
}
