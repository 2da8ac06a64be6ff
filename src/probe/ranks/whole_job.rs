//! A job's parts on all nodes that were looked at, and its facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::SilentNode;
use super::node_look::{JobPart, NodeLook};
use super::standing::{self, Rank, Standing};
use crate::fact::live_rank::{self, RankFault};
use crate::fact::{
    Bytes, Fact, Facts, GapKind, Id, Membership, Origin, Subject, live_job, live_node,
};
use crate::source::Question;

/// Missing ranks that are named.
const NAMED: usize = 8;

/// A job, as the nodes that were looked at show it.
pub(super) struct WholeJob {
    parts: Vec<JobPart>,
    /// Nodes that were looked at and have no process of the job.
    without: Vec<Arc<str>>,
}

/// What the parts of one job have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct JobKey {
    launch: Vec<String>,
    /// The node, of a job that has no other.
    apart: Option<Arc<str>>,
}

impl WholeJob {
    /// The jobs of these nodes. Parts with the same launcher, number and meeting place are of one.
    pub(super) fn join(looks: Vec<NodeLook>) -> Vec<WholeJob> {
        let hosts: Vec<Arc<str>> = looks.iter().filter_map(|look| look.host.clone()).collect();
        let mut jobs: BTreeMap<JobKey, Vec<JobPart>> = BTreeMap::new();
        for part in looks.into_iter().flat_map(|look| look.parts) {
            let apart = part.host.clone().filter(|_| part.job.is_of_one_node());
            let launch = part.job.key.clone();
            jobs.entry(JobKey { launch, apart }).or_default().push(part);
        }
        let whole = |parts: Vec<JobPart>| {
            let has_part =
                |host: &&Arc<str>| parts.iter().any(|part| part.host.as_ref() == Some(host));
            let without = hosts.iter().filter(|host| !has_part(host)).cloned();
            WholeJob {
                without: without.collect(),
                parts,
            }
        };
        jobs.into_values().map(whole).collect()
    }

    /// States the job, its nodes and its ranks.
    pub(super) fn state_facts(mut self, facts: &mut Facts) -> Id {
        let mut name = self
            .parts
            .first()
            .map_or_else(String::new, |part| part.job.name());
        while facts
            .find(Subject::LiveJob, Facts::CLUSTER, &name)
            .is_some()
        {
            name.push_str(", another one");
        }
        let id = facts.instance(Subject::LiveJob, Facts::CLUSTER, &name);
        let mut ranks = Vec::new();
        for (at, part) in self.parts.iter_mut().enumerate() {
            for mut rank in std::mem::take(&mut part.ranks) {
                rank.part = at;
                rank.gpu = part.gpus.of_processes(&rank.pids, facts);
                ranks.push(rank);
            }
        }
        let may_move = |part: &JobPart| part.rails.have_moved(facts) || !part.rails.gaps.is_empty();
        let data_moves = self.parts.iter().any(may_move);
        let Some(first) = self.parts.first() else {
            return id;
        };
        let (origin, looked) = (first.origin.clone(), first.looked);
        let mut standing = Standing::compare(ranks, looked, data_moves, facts);
        for rank in standing
            .ranks
            .iter_mut()
            .filter(|rank| rank.fault == RankFault::None)
        {
            let untold = self.parts[rank.part].untold_of_gpus();
            rank.gap = rank.gap.take().or(untold.cloned());
        }
        facts.set(id, live_job::NCCL_VERSION, first.nccl.clone());
        facts.set(id, live_job::ARM, first.is_arm.clone());
        let (missing, unseen) = self.missing(&standing);
        self.state_job(facts, id, &standing, &missing);
        let mut said = standing.withheld();
        said.extend(unseen);
        said.extend(self.withheld(facts, id));
        let mut seen = BTreeSet::new();
        said.retain(|one| seen.insert(one.clone()));
        facts.know(id, live_job::COMPLETE, said.is_empty(), &origin);
        if !said.is_empty() {
            facts.know(id, live_job::WITHHELD, said.join("; ").into(), &origin);
        }
        for subject in [Subject::LiveRank, Subject::LiveNode] {
            facts.set_members(subject, id, Membership::Known(origin.clone()));
        }
        for rank in &standing.ranks {
            let part = &self.parts[rank.part];
            let one = state_rank(facts, id, rank, &standing, &part.origin);
            state_queue_pairs(facts, one, rank.pid, part);
            let still = self.still_queue_pairs(rank, &standing);
            if still > 0 && rank.fault != RankFault::None {
                let words = match still {
                    1 => "its RDMA connection carries nothing".to_owned(),
                    many => format!("its {many} RDMA connections carry nothing"),
                };
                facts.know(one, live_rank::STILL, words.into(), &part.origin);
            }
        }
        for part in self
            .parts
            .iter()
            .filter(|part| !part.is_of_processes_alone())
        {
            state_node(facts, id, part, &standing);
        }
        id
    }

    /// How many connections of other ranks with this one carried nothing between the looks.
    fn still_queue_pairs(&self, rank: &Rank, standing: &Standing) -> u64 {
        let of = |one: &Rank| {
            self.parts[one.part]
                .queue_pairs
                .as_ref()
                .as_ref()
                .ok()?
                .get(&one.pid)
        };
        let Some(own) = of(rank) else {
            return 0;
        };
        let others = standing
            .ranks
            .iter()
            .filter(|other| other.name != rank.name);
        others
            .filter_map(of)
            .map(|other| other.still_with(own))
            .sum()
    }

    /// What could not be looked at on its nodes.
    fn withheld(&self, facts: &Facts, id: Id) -> Vec<String> {
        let mut said = Vec::new();
        for part in &self.parts {
            let of = |text: String| match &part.host {
                Some(host) => format!("{host}: {text}"),
                None => text,
            };
            let queue_pairs = part.queue_pairs.as_ref().as_ref().err();
            said.extend(queue_pairs.map(|gap| of(gap.to_string())));
            let gaps = part.gaps.iter();
            let damaged = gaps.filter(|gap| facts.gap_kind(id, gap) == GapKind::Damage);
            said.extend(damaged.map(|gap| of(gap.to_string())));
            let beside = part.rails.gaps.iter().chain(&part.gpus.gaps);
            let beside = beside.filter(|_| !part.is_of_processes_alone());
            said.extend(beside.map(|gap| of(gap.to_string())));
            said.extend(part.withheld.clone().map(of));
        }
        said
    }

    /// The ranks that have no process, and those of which no node was looked at.
    fn missing(&self, standing: &Standing) -> (Vec<String>, Option<String>) {
        let mut missing = Vec::new();
        for part in &self.parts {
            let on = part
                .host
                .as_ref()
                .map_or(String::new(), |host| format!(" ({host})"));
            missing.extend(part.missing.iter().map(|rank| format!("{rank}{on}")));
        }
        let is_one_node = self.parts.iter().all(|part| part.host.is_none());
        let absent = self.absent(standing);
        if is_one_node || absent.is_empty() || !missing.is_empty() {
            return (missing, None);
        }
        let nodes = self.parts.iter().find_map(|part| part.job.nodes);
        let looked_at = self.parts.len() + self.without.len();
        // Without their number nobody knows that these are all.
        if nodes.is_some_and(|nodes| looked_at as u64 >= nodes) {
            return (self.with_empty_nodes(absent), None);
        }
        let unseen = format!(
            "the node of {} was not looked at",
            standing::listed(&absent)
        );
        (Vec::new(), Some(unseen))
    }

    /// These ranks, with the nodes that have none: `rank 4, rank 5 (n3 has none at all)`.
    fn with_empty_nodes(&self, mut absent: Vec<String>) -> Vec<String> {
        let on = match self.without.as_slice() {
            [] => return absent,
            [one] => format!(" ({one} has none at all)"),
            [first, more @ ..] => {
                format!(" ({first} and {} more nodes have none at all)", more.len())
            }
        };
        if let Some(last) = absent.last_mut() {
            last.push_str(&on);
        }
        absent
    }

    /// The ranks of the job of which no node shows a process.
    fn absent(&self, standing: &Standing) -> Vec<String> {
        let Some(all) = self.parts.iter().find_map(|part| part.job.all) else {
            return Vec::new();
        };
        let present: BTreeSet<u64> = standing
            .ranks
            .iter()
            .filter_map(|rank| rank.number)
            .collect();
        // Launchers count their ranks themselves: a number that no job has is no list of ranks.
        let count = all.saturating_sub(present.len() as u64);
        let absent = (0..all).filter(|number| !present.contains(number));
        let mut names: Vec<String> = absent
            .take(NAMED)
            .map(|number| format!("rank {number}"))
            .collect();
        let more = count.saturating_sub(names.len() as u64);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        names
    }

    fn state_job(&self, facts: &mut Facts, id: Id, standing: &Standing, missing: &[String]) {
        let Some(first) = self.parts.first() else {
            return;
        };
        let origin = &first.origin;
        facts.know(id, live_job::LOOKED, standing.looked, origin);
        facts.know(id, live_job::HAS_MISSING, !missing.is_empty(), origin);
        if !missing.is_empty() {
            facts.know(
                id,
                live_job::MISSING,
                standing::listed(missing).into(),
                origin,
            );
            facts.know(id, live_job::PRESENT, standing.present().into(), origin);
        }
        if let Some(gap) = standing.gap() {
            facts.set(id, live_job::STANDS_STILL, Fact::Unknown(gap));
            return;
        }
        let stands_still = standing.stands_still() && missing.is_empty();
        facts.know(id, live_job::STANDS_STILL, stands_still, origin);
        facts.know(id, live_job::WAITS, standing.waits().into(), origin);
        if let Some(stacks) = standing.stacks_in_words() {
            facts.know(id, live_job::STACKS, stacks.into(), origin);
        }
        let mut summary = standing.summary();
        if self.parts.len() > 1 {
            summary.push_str(&format!(" ({} nodes)", self.parts.len()));
        }
        facts.know(id, live_job::SUMMARY, summary.into(), origin);
    }
}

/// States what the ports of a node did meanwhile.
fn state_node(facts: &mut Facts, job: Id, part: &JobPart, standing: &Standing) {
    let name = part.host.as_deref().unwrap_or("this node");
    let id = facts.instance(Subject::LiveNode, job, name);
    let rails = &part.rails;
    let gap = rails.gaps.first().cloned();
    let raised = rails.raised();
    let unusable = unusable(part, standing);
    for (list, key, whether) in [
        (&raised, live_node::RAISED, live_node::HAS_RAISED),
        (&unusable, live_node::UNUSABLE, live_node::HAS_UNUSABLE),
    ] {
        if let Some(first) = list.first() {
            let more = list.len() - 1;
            let more = if more > 0 {
                format!("; {more} more ports")
            } else {
                String::new()
            };
            facts.know(id, key, format!("{first}{more}").into(), &part.origin);
        }
        match &gap {
            Some(gap) if list.is_empty() => facts.set(id, whether, Fact::Unknown(gap.clone())),
            _ => facts.know(id, whether, !list.is_empty(), &part.origin),
        }
    }
}

/// Ports that carry nothing although ranks have queue pairs there: `mlx5_3/1 is DOWN, where rank 2 has 8 queue pairs`.
fn unusable(part: &JobPart, standing: &Standing) -> Vec<String> {
    let Ok(queue_pairs) = part.queue_pairs.as_ref() else {
        return Vec::new();
    };
    let mut said = Vec::new();
    for port in &part.rails.ports {
        let Some(state) = port.unusable() else {
            continue;
        };
        for rank in standing.ranks.iter().filter(|rank| rank.host == part.host) {
            let there = queue_pairs.get(&rank.pid).map_or(0, |own| {
                own.count_on(
                    &port.device,
                    &port.number,
                    part.rails.ports_of(&port.device),
                )
            });
            if there > 0 {
                let pairs = if there == 1 {
                    "queue pair"
                } else {
                    "queue pairs"
                };
                said.push(format!(
                    "{} is {state}, where {} has {there} {pairs}",
                    port.name(),
                    rank.name
                ));
                break;
            }
        }
    }
    said
}

/// States the nodes that said nothing, where there are some.
pub(super) fn state_silent(facts: &mut Facts, job: Id, silent: &[SilentNode], origin: &Origin) {
    facts.know(job, live_job::HAS_SILENT, !silent.is_empty(), origin);
    if let Some(first) = silent.first() {
        let more = match silent.len() {
            1 => String::new(),
            many => format!("; {} more nodes", many - 1),
        };
        let said = format!("{}: {}{more}", first.node, first.reason());
        facts.know(job, live_job::SILENT, said.into(), origin);
    }
}
fn state_queue_pairs(facts: &mut Facts, id: Id, pid: u32, part: &JobPart) {
    let origin = Origin::Asked(Question::netlink("rdma/qp-get", []));
    let own = match part.queue_pairs.as_ref() {
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
        (live_rank::SERVER, rank.server.clone()),
        (live_rank::STACK, rank.stack_in_words()),
    ];
    for (key, text) in texts {
        if let Some(text) = text.filter(|_| rank.fault != RankFault::None) {
            facts.know(id, key, Arc::from(text), origin);
        }
    }
    if let Some([first, second]) = rank.looks() {
        facts.know(id, live_rank::FIRST, first.into(), origin);
        facts.know(id, live_rank::SECOND, second.into(), origin);
    }
    match (&rank.gap, rank.swapped) {
        (None, Some(swapped)) => facts.know(id, live_rank::SWAPPED, swapped, origin),
        (None, None) => {}
        (Some(gap), _) => facts.set(id, live_rank::SWAPPED, Fact::Unknown(gap.clone())),
    }
    match &rank.gap {
        None => {
            facts.know(id, live_rank::FAULTS, rank.faults, origin);
            facts.know(id, live_rank::DISK, rank.disk, origin);
        }
        Some(gap) => facts.set(id, live_rank::FAULTS, Fact::Unknown(gap.clone())),
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
