//! What ranks of a job wait for, by their own records: dumps of PyTorch's flight recorder, and the
//! status of NCCL's RAS.
//!
//! ```text
//! job      the dumps of all ranks, put together: groups, and how far each rank is in each
//! waits    for each rank the oldest call that is not complete, and which ranks keep it from ending
//! causes   from waits to the ranks that wait for nothing themselves
//! ras      ranks that RAS does not reach, or that are behind
//! wording  ranks and collectives in words
//! ```
//!
//! A rank waits in the oldest call that it made and that is not complete: what it made later is
//! behind that. The chain of who waits for whom ends at the cause.

mod causes;
mod job;
mod ras;
mod waits;
mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::causes::Cause;
use self::job::Job;
use self::wording::Hosts;
use super::nccl_log::File;
use crate::fact::event::{self, LogClass};
use crate::fact::stall::{StallKind, StallProof};
use crate::fact::{Facts, Gap, Id, Membership, Origin, Subject, rank, stall, trace};
use crate::left_out::LeftOut;
use crate::trace::{RasStatus, Trace};

/// One cause, as it is stated.
struct Stall {
    kind: StallKind,
    proof: StallProof,
    /// The ranks at fault, by their numbers alone: a redacted recording has the same.
    name: String,
    who: String,
    collective: String,
    waiters: String,
    /// Where they are more than those.
    held: Option<u64>,
    caller: Option<String>,
    detail: Option<String>,
}

/// States what the ranks wait for, after what the log's lines say.
pub(super) fn state(files: &[File], missing: &Option<Gap>, origin: &Origin, facts: &mut Facts) {
    let members = Membership::known_unless(missing.clone(), origin.clone());
    facts.set_members(Subject::Trace, Facts::CLUSTER, members.clone());
    let mut dumps = Vec::new();
    let mut statuses: Vec<&RasStatus> = Vec::new();
    for (name, digest) in files {
        match digest.trace.as_deref() {
            Some(Trace::Dump(dump)) => dumps.push((&**name, dump)),
            Some(Trace::Ras(status)) => statuses.push(status),
            None => {}
        }
    }
    if dumps.is_empty() && statuses.is_empty() {
        return;
    }
    let id = facts.instance(Subject::Trace, Facts::CLUSTER, "trace");
    facts.set_members(Subject::Stall, id, members);
    let (timed_out, is_watched) = timed_out(facts);
    let job = Job::of(&dumps, timed_out);
    let mut hosts = hosts(facts);
    ras::add_hosts(&statuses, job.world.len(), &mut hosts);
    let found = causes::find(&job);
    let proof = job.proof(&found.heads, is_watched);
    let waits = found.heads.len();
    let mut stalls: Vec<Stall> = Vec::new();
    for cause in &found.causes {
        stalls.push(stall_of(&job, cause, proof, &hosts));
    }
    let by_dumps = stalls.len();
    let by_ras = ras::judge(&statuses, is_watched);
    stalls.extend(by_ras.stalls);
    let how = Origin::derived("the dumps of the ranks, and what RAS says");
    state_trace(facts, id, &job, waits, &statuses, &how);
    let moves = job.moves || by_ras.moves;
    facts.know(id, trace::MOVES, moves, &how);
    if job.unplaced > 0 {
        let why = "neither its file's name nor a group says its rank";
        let left_out = LeftOut::counted(job.unplaced, "dump", why);
        let said = [Arc::from(left_out.to_string())];
        facts.add_texts(Facts::CLUSTER, crate::fact::cluster::LEFT_OUT, said, &how);
    }
    let runs: Vec<Id> = facts.all(Subject::Run).collect();
    let mut of_dumps: Vec<Id> = Vec::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (at, stall) in stalls.into_iter().enumerate() {
        let mut name = stall.name.clone();
        if !names.insert(name.clone()) {
            name = format!("{} in {}", stall.name, stall.collective);
        }
        let one = facts.instance(Subject::Stall, id, &name);
        state_stall(facts, one, stall, &how);
        for run in &runs {
            facts.relate(one, *run);
        }
        // RAS sees the same job.
        if at < by_dumps {
            of_dumps.push(one);
        } else {
            for other in &of_dumps {
                facts.relate(one, *other);
            }
        }
    }
}

/// The ranks of which a watchdog says that a call timed out, and whether one says so at all.
fn timed_out(facts: &Facts) -> (BTreeSet<u32>, bool) {
    let mut ranks = BTreeSet::new();
    let mut is_watched = false;
    for id in facts.all(Subject::Event) {
        if facts.known(id, event::CLASS) == Some(LogClass::TorchTimeout) {
            is_watched = true;
            let number = facts.known(id, event::RANK);
            ranks.extend(number.and_then(|number| u32::try_from(number).ok()));
        }
    }
    (ranks, is_watched)
}

/// The host of each rank, as far as the log tells it.
fn hosts(facts: &Facts) -> Hosts {
    let mut hosts: BTreeMap<u32, String> = BTreeMap::new();
    for id in facts.all(Subject::Rank) {
        let number = facts
            .known(id, rank::NUMBER)
            .and_then(|number| u32::try_from(number).ok());
        let host = facts.ancestor(id, Subject::Host);
        if let (Some(number), Some(host)) = (number, host) {
            hosts.insert(number, facts.name(host).to_owned());
        }
    }
    Hosts(hosts)
}

fn state_trace(
    facts: &mut Facts,
    id: Id,
    job: &Job<'_>,
    waits: usize,
    statuses: &[&RasStatus],
    how: &Origin,
) {
    let mut said = Vec::new();
    if !job.ranks.is_empty() {
        let without = job.without_dump();
        facts.know(id, trace::RANKS, job.world.len() as u64, how);
        facts.know(id, trace::DUMPS, job.ranks.len() as u64, how);
        facts.know(id, trace::COMPLETE, without.is_empty(), how);
        if !without.is_empty() {
            facts.know(id, trace::WITHOUT, without.to_string().into(), how);
        }
        let waiting = match waits {
            0 => "no rank waits in a collective".to_owned(),
            1 => "1 rank waits in a collective".to_owned(),
            some => format!("{some} ranks wait in a collective"),
        };
        let (dumps, ranks) = (job.ranks.len(), job.world.len());
        said.push(format!(
            "flight recorder of {dumps} of {ranks} ranks: {waiting}"
        ));
    } else {
        facts.know(id, trace::COMPLETE, true, how);
    }
    if let Some(status) = statuses.last() {
        said.push(ras::summary(status));
    }
    facts.know(id, trace::SUMMARY, said.join("; ").into(), how);
}

fn stall_of(job: &Job<'_>, cause: &Cause, proof: StallProof, hosts: &Hosts) -> Stall {
    Stall {
        kind: cause.kind,
        proof,
        name: Hosts::default().list(&cause.ranks),
        who: hosts.list(&cause.ranks),
        collective: cause.collective(job),
        waiters: hosts.count_or_name(&cause.waiters),
        held: (cause.held > cause.waiters.len()).then_some(cause.held as u64),
        caller: cause.caller(job),
        detail: cause.detail(job),
    }
}

fn state_stall(facts: &mut Facts, id: Id, stall: Stall, how: &Origin) {
    facts.know(id, stall::KIND, stall.kind, how);
    facts.know(id, stall::PROOF, stall.proof, how);
    facts.know(id, stall::WHO, stall.who.into(), how);
    facts.know(id, stall::COLLECTIVE, stall.collective.into(), how);
    facts.know(id, stall::WAITERS, stall.waiters.into(), how);
    if let Some(held) = stall.held {
        facts.know(id, stall::HELD, held, how);
    }
    for (key, text) in [(stall::CALLER, stall.caller), (stall::DETAIL, stall.detail)] {
        if let Some(text) = text {
            facts.know(id, key, text.into(), how);
        }
    }
}
