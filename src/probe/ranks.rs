//! A running job, as its ranks' processes on this node show it: looked at twice, from /proc alone.
//!
//! ```text
//! found        which processes are ranks, of which job, and which ranks are missing
//! look         what a process did at one moment; what changed between two
//! queue_pairs  the queue pairs of processes, and those in error
//! wait         what a process waits for, in words and by kind
//! standing     which rank is at fault, or differs from the others
//! ```
//!
//! Nothing is asked of the processes themselves. That a rank uses CPU time or moves data shows that
//! it works; that its main thread did not run at all between two looks shows that it stands still. A
//! rank that spins in a wait looks like one that computes: it is not called still.

mod found;
mod look;
mod queue_pairs;
mod standing;
mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::found::{FoundJob, FoundRank, Processes};
use self::look::{Connections, Look};
use self::standing::{Rank, Standing};
use self::wait::Mounts;
use super::{Ask, Probe, member};
use crate::catch_panic::catch;
use crate::fact::live_rank::{self, RankFault};
use crate::fact::{
    Bytes, Fact, Facts, Gap, GapKind, Id, Membership, Origin, Seconds, Subject, Why, cluster,
    live_job,
};
use crate::source::recording::Recording;
use crate::source::{Micros, Question};

/// The probe.
// Between two replies it reads thousands of files of threads.
pub const PROBE: Probe = Probe::new("ranks", of_job).within(Duration::from_secs(20));

/// Whether a recording holds a running job.
pub fn is_in(recording: &Recording) -> bool {
    recording.times_asked(PROBE.name, &named()) > 0
}

/// States what a recording says of a running job, in `facts`.
pub fn establish(recording: &Recording, facts: &mut Facts) {
    if !is_in(recording) {
        let none = Origin::derived("no running job was asked about");
        facts.set_members(Subject::LiveJob, Facts::CLUSTER, Membership::Known(none));
        return;
    }
    let source = recording.of(PROBE.name);
    let ask = Ask::new(&source);
    let read = std::panic::AssertUnwindSafe(|| run(&ask, facts));
    let panic = catch(read)
        .err()
        .map(|panic| format!("it panicked: {panic}"));
    let ended = recording.ended(PROBE.name).map(|end| end.how.to_string());
    if let Some(how) = panic.or(ended) {
        let how = format!("probe {}: {how}", PROBE.name);
        let origin = Origin::Probe(PROBE.name);
        let said = [Arc::from(how.as_str())];
        facts.add_texts(Facts::CLUSTER, cluster::LEFT_OUT, said, &origin);
        let gap = Gap::new(Why::ProbeFailed(how.into()), origin);
        facts.set_members(Subject::LiveJob, Facts::CLUSTER, Membership::Unknown(gap));
    }
}

fn named() -> Question {
    Question::call("rank_named", [])
}

/// A job belongs to no node: its ranks on others are looked at there.
fn of_job(ask: &Ask<'_>, facts: &mut Facts, _: Id) {
    run(ask, facts);
}

fn run(ask: &Ask<'_>, facts: &mut Facts) {
    let parent = Facts::CLUSTER;
    let pids = ask.value(named());
    let pids = pids.and_then(|said| member::<Vec<u32>>(&said, "pids"));
    let first = match pids.into_result() {
        Ok(pids) => Listing::ask(ask, &pids),
        Err(gap) => Err(gap),
    };
    let first = match first {
        Ok(first) => first,
        Err(gap) => {
            facts.set_members(Subject::LiveJob, parent, Membership::Unknown(gap));
            return;
        }
    };
    let before = Looks::ask(ask, &first);
    let pause = ask.read::<f64>(Question::Wait("sample".into()));
    let looked = match pause.into_result() {
        Ok(looked) => looked,
        Err(gap) => {
            facts.set_members(Subject::LiveJob, parent, Membership::Unknown(gap));
            return;
        }
    };
    let again = ask.read::<Processes>(first.question.clone());
    let after = Looks::ask(ask, &first);
    let origin = Origin::Asked(first.question.clone());
    facts.set_members(Subject::LiveJob, parent, Membership::Known(origin.clone()));
    let queue_pairs = queue_pairs::read(ask);
    let still_missing = again.known().map(|again| found::jobs(again, &first.pids));
    for job in &first.jobs {
        let later = still_missing
            .as_ref()
            .and_then(|jobs| jobs.iter().find(|one| one.key == job.key));
        let mut ranks = Vec::new();
        for rank in &job.ranks {
            ranks.push(Rank::from_looks(rank, [&before, &after], facts));
        }
        let mounts = Mounts::read(ask, &ranks);
        let missing = later.map_or(&[][..], |later| later.missing_in(job));
        let standing = Standing::compare(ranks, &mounts, Seconds(looked));
        let mut name = job.name();
        while facts.find(Subject::LiveJob, parent, &name).is_some() {
            name.push_str(", another one");
        }
        let id = facts.instance(Subject::LiveJob, parent, &name);
        state_job(facts, id, job, &standing, missing, &origin);
        let library = match job.ranks.first() {
            Some(rank) => state_library(ask, facts, id, rank.pid),
            None => Vec::new(),
        };
        let mut said = standing.withheld();
        let gaps = [queue_pairs.as_ref().err(), again.as_result().err()];
        said.extend(gaps.into_iter().flatten().map(|gap| gap.to_string()));
        let gaps = before.gaps.iter().chain(&after.gaps).chain(&library);
        let damaged = gaps.filter(|gap| facts.gap_kind(id, gap) == GapKind::Damage);
        for gap in damaged.map(|gap| gap.to_string()) {
            if !said.contains(&gap) {
                said.push(gap);
            }
        }
        let withheld = first.processes.withheld_in_words();
        said.extend(withheld.filter(|_| !first.pids.is_empty()));
        state_withheld(facts, id, &said, &origin);
        facts.set_members(Subject::LiveRank, id, Membership::Known(origin.clone()));
        for rank in &standing.ranks {
            let one = state_rank(facts, id, rank, &standing, &origin);
            state_queue_pairs(facts, one, rank.pid, &queue_pairs);
        }
    }
    if first.jobs.is_empty() {
        let id = facts.instance(Subject::LiveJob, parent, "job");
        facts.set_members(Subject::LiveRank, id, Membership::Known(origin.clone()));
        facts.know(id, live_job::COMPLETE, false, &origin);
        facts.know(id, live_job::HAS_MISSING, false, &origin);
        facts.know(id, live_job::STANDS_STILL, false, &origin);
        let said = "no process on this node has the variables of a launcher (RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID, …)";
        let why = first.processes.withheld_in_words();
        let said = [Some(said.to_owned()), why]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
        facts.know(id, live_job::WITHHELD, said.join("; ").into(), &origin);
    }
}

/// The processes that ranks are found among.
struct Listing {
    question: Question,
    pids: Vec<u32>,
    processes: Processes,
    jobs: Vec<FoundJob>,
}

impl Listing {
    fn ask(ask: &Ask<'_>, pids: &[u32]) -> Result<Self, Gap> {
        let text: Vec<String> = pids.iter().map(u32::to_string).collect();
        let text = text.join(",");
        let question = Question::call("rank_processes", [("pids", text.as_str().into())]);
        let processes = ask.read::<Processes>(question.clone()).into_result()?;
        Ok(Listing {
            question,
            pids: pids.to_vec(),
            jobs: found::jobs(&processes, pids),
            processes,
        })
    }
}

/// What each process of ranks did at one moment.
struct Looks {
    /// When each was looked at.
    at: BTreeMap<u32, Micros>,
    threads: BTreeMap<u32, Result<Look, Gap>>,
    sockets: BTreeMap<u32, Result<Connections, Gap>>,
    frozen: BTreeMap<u32, bool>,
    /// What did not answer beside these.
    gaps: Vec<Gap>,
}

impl Looks {
    fn ask(ask: &Ask<'_>, listing: &Listing) -> Self {
        let mut looks = Looks {
            at: BTreeMap::new(),
            threads: BTreeMap::new(),
            sockets: BTreeMap::new(),
            frozen: BTreeMap::new(),
            gaps: Vec::new(),
        };
        for rank in listing.jobs.iter().flat_map(|job| &job.ranks) {
            looks.add(ask, rank);
        }
        looks
    }

    fn add(&mut self, ask: &Ask<'_>, rank: &FoundRank) {
        for pid in rank.all_pids() {
            let of_pid = [("pid", u64::from(pid).into())];
            let question = Question::call("rank_threads", of_pid.clone());
            let (at, said) = ask.value_at(&question);
            self.at.insert(pid, at);
            self.threads.insert(pid, look::read(&question, said));
            if pid == rank.pid {
                let question = Question::call("rank_sockets", of_pid);
                let (_, said) = ask.value_at(&question);
                self.sockets.insert(pid, look::read(&question, said));
                let is_frozen = found::is_frozen(ask, pid, &mut self.gaps);
                self.frozen.insert(pid, is_frozen);
            }
        }
    }
}

fn state_job(
    facts: &mut Facts,
    id: Id,
    job: &FoundJob,
    standing: &Standing,
    missing: &[String],
    origin: &Origin,
) {
    facts.know(id, live_job::LOOKED, standing.looked, origin);
    facts.know(id, live_job::HAS_MISSING, !missing.is_empty(), origin);
    if !missing.is_empty() {
        let missing = standing::listed(missing);
        facts.know(id, live_job::MISSING, missing.into(), origin);
        facts.know(id, live_job::PRESENT, job.present().into(), origin);
    }
    if let Some(gap) = standing.gap() {
        let open = Fact::Unknown(gap);
        facts.set(id, live_job::STANDS_STILL, open);
        return;
    }
    let stands_still = standing.stands_still() && missing.is_empty();
    facts.know(id, live_job::STANDS_STILL, stands_still, origin);
    facts.know(id, live_job::WAITS, standing.waits().into(), origin);
    facts.know(id, live_job::SUMMARY, standing.summary().into(), origin);
}

/// States which NCCL a process has mapped, and on which CPUs it runs; gives what did not answer.
fn state_library(ask: &Ask<'_>, facts: &mut Facts, id: Id, pid: u32) -> Vec<Gap> {
    let question = Question::call("process_libraries", [("pid", u64::from(pid).into())]);
    let version = ask.value(question).and_then(|value| {
        let mapped: Vec<Arc<str>> = member(&value, "libraries")?;
        if !mapped.iter().any(|path| path.contains("/libnccl.so")) {
            return Ok(Arc::from("none"));
        }
        let version: Option<Arc<str>> = member(&value, "nccl")?;
        version.ok_or_else(|| "neither its name nor its package says the version".to_owned())
    });
    let mut gaps: Vec<Gap> = version.as_result().err().into_iter().cloned().collect();
    facts.set(id, live_job::NCCL_VERSION, version);
    let modalias = ask.text("/sys/devices/system/cpu/modalias");
    let is_arm = modalias.map(|text| text.starts_with("cpu:type:aarch64"));
    gaps.extend(is_arm.as_result().err().cloned());
    facts.set(id, live_job::ARM, is_arm);
    gaps
}

fn state_withheld(facts: &mut Facts, id: Id, said: &[String], origin: &Origin) {
    facts.know(id, live_job::COMPLETE, said.is_empty(), origin);
    if !said.is_empty() {
        facts.know(id, live_job::WITHHELD, said.join("; ").into(), origin);
    }
}

fn state_queue_pairs(facts: &mut Facts, id: Id, pid: u32, found: &Result<queue_pairs::Found, Gap>) {
    let origin = Origin::Asked(Question::netlink("rdma/qp-get", []));
    let own = match found {
        Ok(found) => found.get(&pid).cloned().unwrap_or_default(),
        Err(gap) => {
            facts.set(id, live_rank::QUEUE_PAIRS, Fact::Unknown(gap.clone()));
            facts.set(
                id,
                live_rank::FAILED_QUEUE_PAIRS,
                Fact::Unknown(gap.clone()),
            );
            return;
        }
    };
    facts.know(id, live_rank::QUEUE_PAIRS, own.all, &origin);
    facts.know(
        id,
        live_rank::FAILED_QUEUE_PAIRS,
        own.failed.len() as u64,
        &origin,
    );
    if let Some(first) = own.failed.first() {
        facts.know(
            id,
            live_rank::FAILED_QUEUE_PAIR,
            first.as_str().into(),
            &origin,
        );
    }
}

fn state_rank(facts: &mut Facts, job: Id, rank: &Rank, standing: &Standing, origin: &Origin) -> Id {
    let id = facts.instance(Subject::LiveRank, job, &rank.name);
    facts.know(id, live_rank::PID, u64::from(rank.pid), origin);
    match &rank.gap {
        Some(gap) => {
            let open = Fact::Unknown(gap.clone());
            facts.set(id, live_rank::FAULT, open);
        }
        None => facts.know(id, live_rank::FAULT, rank.fault, origin),
    }
    if let Some(cpu) = rank.cpu {
        facts.know(id, live_rank::CPU, cpu, origin);
    }
    let texts = [
        (
            live_rank::WAITS,
            Some(rank.waits.clone()).filter(|text| !text.is_empty()),
        ),
        (live_rank::OTHERS, standing.describe_others(rank)),
        (live_rank::DETAIL, rank.detail.clone()),
    ];
    for (key, text) in texts {
        if let Some(text) = text.filter(|_| rank.fault != RankFault::None) {
            facts.know(id, key, Arc::from(text), origin);
        }
    }
    match &rank.connections {
        Ok(None) => facts.know(id, live_rank::RETRANSMITS, 0, origin),
        Ok(Some(stuck)) => {
            facts.know(id, live_rank::RETRANSMITS, stuck.retransmits, origin);
            facts.know(id, live_rank::PEER, standing.peer(stuck).into(), origin);
            let bytes = Bytes(stuck.unacknowledged);
            facts.know(id, live_rank::UNACKNOWLEDGED, bytes, origin);
        }
        Err(gap) => {
            let open = Fact::Unknown(gap.clone());
            facts.set(id, live_rank::RETRANSMITS, open);
        }
    }
    id
}
