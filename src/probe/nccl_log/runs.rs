//! The facts of a run as a whole; what channels and events add is stated with them.

use std::sync::Arc;

use super::line::Line;
use super::{Distinct, INFO, RunView, TIMES, fact_of, not_logged};
use crate::fact::run::{self as fact, Library};
use crate::fact::{Fact, Facts, Gap, Origin, Seconds};
use crate::nccl_log::message::MessageGroup;
use crate::nccl_log::prefix::LogLevel;
use crate::nccl_log::text::{decimal_after, word_after};

/// What shows which ranks are stuck.
const ALL_RANKS: &str = "give the logs of all ranks";

/// The parts of a run that later stages need.
pub(super) fn state(view: &mut RunView<'_, '_>, facts: &mut Facts) {
    versions(view, facts);
    logged_parts(view, facts);
    sizes(view, facts);
    progress(view, facts);
    times(view, facts);
    nvls(view, facts);
    machines(view, facts);
}

/// A version in a message: `2.18.1`, and CUDA's.
pub(super) fn version(message: &str) -> Option<(&str, Option<&str>, Library)> {
    let (rest, library) = match message.split_once("NCCL version ") {
        Some((_, rest)) => (rest, Library::Nccl),
        None => (
            message
                .split_once("RCCL version")?
                .1
                .trim_start_matches([' ', ':']),
            Library::Rccl,
        ),
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let number = rest.get(..end)?.trim_end_matches('.');
    let bytes = rest.as_bytes();
    let cuda = word_after(bytes, "+cuda", b" ,").and_then(|cuda| std::str::from_utf8(cuda).ok());
    (number.matches('.').count() >= 1).then_some((number, cuda, library))
}

fn versions(view: &RunView<'_, '_>, facts: &mut Facts) {
    let mut versions = Distinct::default();
    let mut cudas = Distinct::default();
    let mut library = None;
    for (line, _) in view.lines() {
        if let Some((version, cuda, of)) = version(line.message) {
            versions.add(version, line.kept.count, line.origin());
            library.get_or_insert((of, line.origin().clone()));
            if let Some(cuda) = cuda {
                cudas.add(cuda, line.kept.count, line.origin());
            }
        }
    }
    facts.set(view.id, fact::VERSION, versions.most(INFO));
    facts.set(view.id, fact::VERSIONS, view.whole(versions.all(INFO)));
    facts.set(view.id, fact::CUDA, cudas.most(INFO));
    facts.set(view.id, fact::LIBRARY, fact_of(library, INFO));
}

fn logged_parts(view: &RunView<'_, '_>, facts: &mut Facts) {
    let info = view
        .lines()
        .any(|(line, _)| line.level == Some(LogLevel::Info))
        || view
            .log
            .files
            .iter()
            .any(|(_, d)| d.processes.iter().any(|p| p.info > 0));
    let how = "the levels and subsystems of the log's lines";
    facts.set(view.id, fact::INFO, view.total(info, how));
    let of_nccl = |line: &Line<'_>| line.level.is_some() || line.kept.text.contains("CCL");
    let nccl = !view.processes.is_empty() || view.lines().any(|(line, _)| of_nccl(line));
    facts.set(view.id, fact::NCCL_LOGGED, view.total(nccl, how));
    let env = view.total(view.has_sort(MessageGroup::Env), how);
    facts.set(view.id, fact::ENV_LOGGED, env);
}

fn sizes(view: &mut RunView<'_, '_>, facts: &mut Facts) {
    let log = view.log;
    let of_run = |at: &&usize| {
        let member = log.comms.all[**at].members.values().next();
        member.is_some_and(|m| log.runs.of_process.get(&(m.host, m.pid)) == Some(&view.run))
    };
    let indices: Vec<usize> = (0..log.comms.all.len()).collect();
    let comms: Vec<usize> = indices.iter().filter(of_run).copied().collect();
    let stated = comms
        .iter()
        .filter_map(|at| log.comms.all[*at].nodes)
        .max_by_key(|(nodes, _)| *nodes);
    let ranks = view
        .largest()
        .map(|at| (log.comms.all[at].ranks, first_line(view, at)));
    facts.set(view.id, fact::RANKS, fact_of(ranks, INFO));
    super::nodes::state(view, facts, stated);
}

fn first_line(view: &RunView<'_, '_>, comm: usize) -> Origin {
    let first = view.log.comms.all[comm]
        .members
        .values()
        .map(|m| m.said)
        .min();
    first.map_or_else(
        || Origin::derived("the log"),
        |place| view.log.lines[place].origin().clone(),
    )
}

fn progress_unknown(view: &RunView<'_, '_>, facts: &mut Facts, gap: &Gap) {
    let [stuck, silent] = [fact::STUCK_RANKS.index, fact::SILENT_RANKS.index];
    let counts = [fact::STUCK.index, fact::SILENT.index];
    facts.leave_open(view.id, &[stuck, silent, fact::INITIALISED.index], gap);
    facts.leave_open(view.id, &counts, gap);
}

fn progress(view: &RunView<'_, '_>, facts: &mut Facts) {
    let Some(largest) = view.largest() else {
        progress_unknown(view, facts, &not_logged(INFO));
        return;
    };
    let comm = &view.log.comms.all[largest];
    let starts = comm.members.values().any(|m| m.started.is_some());
    let mut stuck: Vec<u64> = Vec::new();
    let mut done = 0u64;
    for (rank, member) in &comm.members {
        match member.complete {
            Some(_) => done += 1,
            None => stuck.push(*rank),
        }
    }
    stuck.sort_unstable();
    // No rank ends its initialisation before all have taken part in it: where nearly all ended, the others' lines are truncated or lost.
    let lost = done > 0 && (stuck.len() as u64) * 4 <= done;
    if lost {
        stuck.clear();
    }
    // Of a job of thousands of ranks not all lines are kept: then that one is not among them says nothing.
    let left_out = |digest: &crate::nccl_log::Digest| {
        digest
            .left_out
            .get(MessageGroup::Init.word())
            .copied()
            .unwrap_or(0)
            > 0
    };
    if !stuck.is_empty() && view.log.files.iter().any(|(_, digest)| left_out(digest)) {
        let gap = Gap::not_said(
            "the log has more lines of ranks than are kept",
            Origin::derived("the log"),
        );
        progress_unknown(view, facts, &gap);
        return;
    }
    let mut silent: Vec<u64> = (0..comm.ranks.min(1 << 20))
        .filter(|rank| !comm.members.contains_key(rank))
        .collect();
    silent.truncate(4096);
    let texts = |ranks: &[u64]| -> Arc<[Arc<str>]> {
        ranks
            .iter()
            .map(|rank| Arc::from(rank.to_string()))
            .collect()
    };
    let how = "Init START and Init COMPLETE of the largest communicator";
    let total = |value| view.total(value, how);
    let total_texts = |ranks: &[u64]| view.total(texts(ranks), how);
    facts.set(view.id, fact::STUCK_RANKS, total_texts(&stuck));
    facts.set(view.id, fact::STUCK, total(stuck.len() as u64));
    // A log of rank 0 alone is usual: then the others are not silent, their lines are elsewhere.
    let few = done > 0 || (comm.members.len() as u64) * 2 <= comm.ranks;
    let (missing, missing_ranks) = match few && !silent.is_empty() {
        true => (
            Fact::Unknown(not_logged(ALL_RANKS)),
            Fact::Unknown(not_logged(ALL_RANKS)),
        ),
        false => (
            total(comm.ranks - comm.members.len().min(comm.ranks as usize) as u64),
            total_texts(&silent),
        ),
    };
    facts.set(view.id, fact::SILENT, missing);
    facts.set(view.id, fact::SILENT_RANKS, missing_ranks);
    let initialised = if lost && done < comm.ranks {
        Fact::Unknown(not_logged(ALL_RANKS))
    } else if !stuck.is_empty() && (starts || done > 0) {
        view.total(false, how)
    } else if done >= comm.ranks {
        Fact::derived(true, how)
    } else {
        Fact::Unknown(not_logged(ALL_RANKS))
    };
    facts.set(view.id, fact::INITIALISED, initialised);
}

fn times(view: &RunView<'_, '_>, facts: &mut Facts) {
    let mut longest: [Option<(Seconds, Origin)>; 2] = [None, None];
    for (line, _) in view.lines() {
        for (slot, time) in longest.iter_mut().zip(init_times(line.message)) {
            if let Some(time) = time
                && slot.as_ref().is_none_or(|(most, _)| time > most.0)
            {
                *slot = Some((Seconds(time), line.origin().clone()));
            }
        }
    }
    let keys = [fact::INIT_TIME, fact::BOOTSTRAP_TIME];
    for (key, longest) in keys.into_iter().zip(longest) {
        facts.set(view.id, key, fact_of(longest, TIMES));
    }
}

/// The total and the bootstrap's share in a line of times.
pub(super) fn init_times(message: &str) -> [Option<f64>; 2] {
    if !message.starts_with("Init timings") {
        return [None, None];
    }
    let bytes = message.as_bytes();
    [
        decimal_after(bytes, "total "),
        decimal_after(bytes, "bootstrap "),
    ]
}

/// What lines show of the machines: NVLink between them, and their CPUs.
fn machines(view: &RunView<'_, '_>, facts: &mut Facts) {
    let (mut joined, mut alone, mut arm) = (None, None, None);
    for (line, _) in view.lines() {
        let origin = || line.origin().clone();
        if line.message.ends_with(" MNNVL 1") {
            joined.get_or_insert_with(origin);
        } else if line.message.ends_with(" MNNVL 0") {
            alone.get_or_insert_with(origin);
        }
        if line.message.contains("/aarch64-linux-gnu/") {
            arm.get_or_insert_with(origin);
        }
    }
    let arm = arm.or(joined.clone()).map(|origin| (true, origin));
    let mnnvl = (joined.map(|origin| (true, origin))).or(alone.map(|origin| (false, origin)));
    facts.set(view.id, fact::MNNVL, fact_of(mnnvl, INFO));
    facts.set(view.id, fact::ARM, fact_of(arm, INFO));
}

fn nvls(view: &RunView<'_, '_>, facts: &mut Facts) {
    let connected = |what: &str| {
        view.lines()
            .find(|(line, _)| line.message.starts_with("Connected") && line.message.contains(what))
            .map(|(line, _)| line.origin().clone())
    };
    let nvls = match (connected("NVLS"), connected("Connected all ")) {
        (Some(origin), _) => Fact::Known(true, origin),
        (None, Some(_)) => view.total(
            false,
            "lines of connected rings and trees, and none of NVLS",
        ),
        (None, None) => Fact::Unknown(not_logged(INFO)),
    };
    facts.set(view.id, fact::NVLS, nvls);
}
