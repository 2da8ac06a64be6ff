//! What one node shows of running jobs: two looks at each process of a rank, and what is asked once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::found::{self, FoundJob, FoundRank, Processes};
use super::gpu_load::{self, GpuLoads};
use super::look::{self, Connections, Look};
use super::mounts::Mounts;
use super::queue_pairs;
use super::rails::{Rails, RailsLook};
use super::stack::Stack;
use super::standing::Rank;
use crate::fact::{Fact, Facts, Gap, Origin, Seconds};
use crate::probe::{Ask, member};
use crate::source::{Micros, Question};

/// A node's part of a job.
pub(super) struct JobPart {
    /// The node, where several were looked at.
    pub(super) host: Option<Arc<str>>,
    pub(super) job: FoundJob,
    pub(super) ranks: Vec<Rank>,
    /// Ranks that the launcher started on the node and that have no process in either look.
    pub(super) missing: Vec<String>,
    pub(super) looked: Seconds,
    pub(super) queue_pairs: Arc<Result<queue_pairs::Found, Gap>>,
    /// The version of NCCL that the first rank has mapped.
    pub(super) nccl: Fact<Arc<str>>,
    pub(super) is_arm: Fact<bool>,
    /// What the node's RDMA ports did between the looks.
    pub(super) rails: Arc<Rails>,
    pub(super) gpus: Arc<GpuLoads>,
    /// What did not answer.
    pub(super) gaps: Vec<Gap>,
    /// Why processes may be ranks that nobody sees.
    pub(super) withheld: Option<String>,
    pub(super) origin: Origin,
}

impl JobPart {
    /// Whether an earlier version recorded it, which asked neither ports nor GPUs.
    pub(super) fn is_of_processes_alone(&self) -> bool {
        !self.rails.was_asked && !self.gpus.was_asked
    }

    /// Why it is not known how the GPUs of its ranks stand: one that spins tells something only where no port moves data.
    pub(super) fn untold_of_gpus(&self) -> Option<&Gap> {
        let of_ports = self.rails.gaps.first().filter(|_| self.gpus.are_there());
        let gap = self.gpus.gaps.first().or(of_ports);
        gap.filter(|_| !self.is_of_processes_alone())
    }
}

/// What one node shows.
pub(super) struct NodeLook {
    pub(super) host: Option<Arc<str>>,
    pub(super) parts: Vec<JobPart>,
    /// Why processes may be ranks that nobody sees.
    pub(super) withheld: Option<String>,
    pub(super) origin: Origin,
}

impl NodeLook {
    /// Looks twice.
    pub(super) fn ask(
        ask: &Ask<'_>,
        host: Option<Arc<str>>,
        facts: &Facts,
    ) -> Result<NodeLook, Gap> {
        let named = ask.read::<Named>(super::named()).into_result()?;
        let listing = Listing::ask(ask, &named.pids)?;
        let rails = RailsLook::first(ask, &listing.jobs);
        let before = Looks::ask(ask, &listing);
        let gpus = gpu_load::Look::ask(ask, &listing.jobs);
        let pairs_before = queue_pairs::read(ask);
        let pause = ask.read::<f64>(Question::Wait("sample".into()));
        let looked = Seconds(pause.into_result()?);
        let again = ask.read::<Processes>(listing.question.clone());
        let after = Looks::ask(ask, &listing);
        let rails = Arc::new(rails.look_again(ask));
        let gpus = Arc::new(gpus.look_again(ask));
        let origin = Origin::Asked(listing.question.clone());
        let queue_pairs = Arc::new(queue_pairs::join(pairs_before, queue_pairs::read(ask)));
        let later = again
            .known()
            .map(|again| found::jobs(again, &listing.pids))
            .unwrap_or_default();
        let withheld = listing.processes.withheld_in_words();
        let mut parts = Vec::new();
        for job in listing.jobs {
            let mut ranks: Vec<Rank> = Vec::new();
            for found in &job.ranks {
                let mut rank = Rank::from_looks(found, [&before, &after], facts);
                rank.name = found.name(host.as_deref());
                rank.host = host.clone();
                if named.stacks && rank.gap.is_none() {
                    rank.stack = Stack::ask(ask, rank.pid);
                }
                ranks.push(rank);
            }
            let mounts = Mounts::read(ask, &ranks);
            for rank in &mut ranks {
                rank.describe(ask, &mounts);
            }
            let missing = later.iter().find(|one| one.key == job.key);
            let missing = missing.map_or(Vec::new(), |later| later.missing_in(&job).to_vec());
            let (nccl, is_arm) = library(ask, job.ranks.first());
            let mut gaps: Vec<Gap> = before.gaps.iter().chain(&after.gaps).cloned().collect();
            gaps.extend(
                [nccl.as_result().err(), is_arm.as_result().err()]
                    .into_iter()
                    .flatten()
                    .cloned(),
            );
            gaps.extend(again.as_result().err().cloned());
            parts.push(JobPart {
                host: host.clone(),
                ranks,
                missing,
                looked,
                queue_pairs: Arc::clone(&queue_pairs),
                nccl,
                is_arm,
                rails: Arc::clone(&rails),
                gpus: Arc::clone(&gpus),
                gaps,
                withheld: withheld.clone().filter(|_| !listing.pids.is_empty()),
                origin: origin.clone(),
                job,
            });
        }
        Ok(NodeLook {
            host,
            parts,
            withheld,
            origin,
        })
    }
}

/// What a person named.
#[derive(Deserialize)]
struct Named {
    pids: Vec<u32>,
    /// Whether it is asked where Python programs stand.
    #[serde(default)]
    stacks: bool,
}

/// The processes that ranks are found among.
pub(super) struct Listing {
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
pub(super) struct Looks {
    /// When each was looked at.
    pub(super) at: BTreeMap<u32, Micros>,
    pub(super) threads: BTreeMap<u32, Result<Look, Gap>>,
    pub(super) sockets: BTreeMap<u32, Result<Connections, Gap>>,
    pub(super) frozen: BTreeMap<u32, bool>,
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

/// Which NCCL a rank has mapped, and whether its CPUs are of ARM's architecture.
fn library(ask: &Ask<'_>, rank: Option<&FoundRank>) -> (Fact<Arc<str>>, Fact<bool>) {
    let pid = rank.map_or(0, |rank| rank.pid);
    let question = Question::call("process_libraries", [("pid", u64::from(pid).into())]);
    let version = ask.value(question).and_then(|value| {
        let mapped: Vec<Arc<str>> = member(&value, "libraries")?;
        if !mapped.iter().any(|path| path.contains("/libnccl.so")) {
            return Ok(Arc::from("none"));
        }
        let version: Option<Arc<str>> = member(&value, "nccl")?;
        version.ok_or_else(|| "neither its name nor its package says the version".to_owned())
    });
    let modalias = ask.text("/sys/devices/system/cpu/modalias");
    (
        version,
        modalias.map(|text| text.starts_with("cpu:type:aarch64")),
    )
}
