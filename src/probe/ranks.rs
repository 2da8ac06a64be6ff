//! A running job, as its ranks' processes show it: looked at twice, from /proc, the counters of RDMA ports and
//! NVML, on one node or on several.
//!
//! ```text
//! node_look    what one node shows: two looks, and what is asked once
//! found        which processes are ranks, of which job, and which ranks are missing
//! look         what a process did at one moment; what changed between two
//! rails        what the node's RDMA ports counted meanwhile
//! gpu_load     what the GPUs of the ranks did meanwhile
//! queue_pairs  the queue pairs of processes, and those in error
//! wait         what a process waits for, in words and by kind
//! mounts       the mounts that it sees, and how their servers stand
//! stack        where its Python program stands
//! standing     which rank is at fault, or differs from the others
//! whole_job    a job's parts on all nodes that were looked at, and its facts
//! ```
//!
//! Nothing is asked of the processes themselves. That a rank uses CPU time or moves data shows that
//! it works; that its main thread did not run at all between two looks shows that it stands still. A
//! rank that spins in a wait looks like one that computes: it is not called still.

mod found;
mod gpu_load;
mod look;
mod mounts;
mod node_look;
mod queue_pairs;
mod rails;
mod stack;
mod standing;
#[cfg(test)]
mod tests;
mod wait;
mod whole_job;

use std::sync::Arc;
use std::time::Duration;

use self::node_look::NodeLook;
use self::whole_job::WholeJob;
use super::{Ask, Probe};
use crate::catch_panic::catch;
use crate::fact::{Facts, Gap, Id, Membership, Origin, Subject, Why, cluster, live_job};
use crate::source::Question;
use crate::source::recording::Recording;

/// The probe.
// Between two replies it reads thousands of files of threads.
pub const PROBE: Probe = Probe::new("ranks", of_job).within(Duration::from_secs(20));

/// GPUs of a node that are looked at.
const GPUS: u64 = 64;

/// Whether a recording holds a running job, or says why a node gave none.
pub fn is_in(recording: &Recording) -> bool {
    recording.times_asked(PROBE.name, &named()) > 0 || recording.ended(PROBE.name).is_some()
}

/// Whether a process of a recording is a rank by the variables of a launcher.
pub fn has_ranks(recording: &Recording) -> bool {
    let mut facts = Facts::new();
    establish([recording], &mut facts);
    let jobs: Vec<Id> = facts.all(Subject::LiveJob).collect();
    jobs.iter().any(|job| facts.name(*job) != found::NAMELESS)
}

/// States what the recordings say of running jobs, in `facts`: each is of a node, and the parts of a job on several nodes are
/// judged as one.
pub fn establish<'r>(recordings: impl IntoIterator<Item = &'r Recording>, facts: &mut Facts) {
    let all = recordings.into_iter();
    let all: Vec<&Recording> = all.filter(|recording| is_in(recording)).collect();
    if all.is_empty() {
        let none = Origin::derived("no running job was asked about");
        facts.set_members(Subject::LiveJob, Facts::CLUSTER, Membership::Known(none));
        return;
    }
    let (mut looks, mut silent) = (Vec::new(), Vec::new());
    for recording in &all {
        let name: Arc<str> = recording.header.node.as_str().into();
        let source = recording.of(PROBE.name);
        let look = std::panic::AssertUnwindSafe(|| {
            let host = Some(Arc::clone(&name)).filter(|_| all.len() > 1);
            NodeLook::ask(&Ask::new(&source), host, facts)
        });
        let panic = |panic: String| {
            Gap::new(
                Why::ProbeFailed(format!("it panicked: {panic}").into()),
                Origin::Probe(PROBE.name),
            )
        };
        let look = catch(look).map_err(panic).and_then(|look| look);
        let ended = recording.ended(PROBE.name);
        let ended = ended.map(|end| {
            Gap::new(
                Why::ProbeFailed(end.how.to_string().into()),
                Origin::Probe(PROBE.name),
            )
        });
        let failed = match look {
            Ok(look) => {
                looks.push(look);
                ended
            }
            Err(gap) => ended.or(Some(gap)),
        };
        silent.extend(failed.map(|gap| SilentNode { node: name, gap }));
    }
    state_jobs(facts, looks, &silent);
}

/// A node that gave no look at its ranks, or a part of one.
struct SilentNode {
    node: Arc<str>,
    gap: Gap,
}

impl SilentNode {
    /// How its probe ended, in its own words.
    fn reason(&self) -> String {
        match &self.gap.why {
            Why::ProbeFailed(how) => how.to_string(),
            _ => self.gap.to_string(),
        }
    }
}

fn named() -> Question {
    Question::call("rank_named", [])
}

/// A job belongs to no node: its ranks on others are looked at there.
fn of_job(ask: &Ask<'_>, facts: &mut Facts, _: Id) {
    match NodeLook::ask(ask, None, facts) {
        Ok(look) => state_jobs(facts, vec![look], &[]),
        Err(gap) => facts.set_members(Subject::LiveJob, Facts::CLUSTER, Membership::Unknown(gap)),
    }
}

/// States the jobs of these nodes, and which nodes said nothing.
fn state_jobs(facts: &mut Facts, looks: Vec<NodeLook>, silent: &[SilentNode]) {
    let parent = Facts::CLUSTER;
    for one in silent {
        let of = match looks.len() + silent.len() {
            1 => format!("probe {}", PROBE.name),
            _ => one.node.to_string(),
        };
        let said = Arc::from(format!("{of}: {}", one.reason()));
        facts.add_texts(parent, cluster::LEFT_OUT, [said], &one.gap.origin);
    }
    if let Some(one) = silent
        .first()
        .filter(|_| looks.len() + silent.len() == 1 || looks.is_empty())
    {
        facts.set_members(
            Subject::LiveJob,
            parent,
            Membership::Unknown(one.gap.clone()),
        );
    }
    let Some(origin) = looks.first().map(|look| look.origin.clone()) else {
        return;
    };
    facts.set_members(Subject::LiveJob, parent, Membership::Known(origin.clone()));
    let withheld = looks.iter().find_map(|look| look.withheld.clone());
    let jobs = WholeJob::join(looks);
    if jobs.is_empty() {
        let id = facts.instance(Subject::LiveJob, parent, "job");
        for subject in [Subject::LiveRank, Subject::LiveNode] {
            facts.set_members(subject, id, Membership::Known(origin.clone()));
        }
        facts.know(id, live_job::COMPLETE, false, &origin);
        facts.know(id, live_job::HAS_MISSING, false, &origin);
        facts.know(id, live_job::STANDS_STILL, false, &origin);
        let said = "no process has the variables of a launcher (RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID, …)";
        let said: Vec<String> = [Some(said.to_owned()), withheld]
            .into_iter()
            .flatten()
            .collect();
        facts.know(id, live_job::WITHHELD, said.join("; ").into(), &origin);
        whole_job::state_silent(facts, id, silent, &origin);
    }
    for job in jobs {
        let id = job.state_facts(facts);
        whole_job::state_silent(facts, id, silent, &origin);
    }
}
