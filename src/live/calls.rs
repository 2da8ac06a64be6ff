//! Which function answers a call: one line each.

use std::sync::Arc;

use super::{
    Live, cpu_latency, cuda, daemons, ethtool, interrupts, job_process, kernel_log, nccl_files,
    nvml, processes, timex, user_files, verbs,
};
use crate::source::question::Call;
use crate::source::{Answer, Refusal};

/// Answers a call, of the machine or of the directory that is examined in place of it.
type Answerer = fn(&Live, &Call) -> Result<Answer, Refusal>;

/// The calls by their names, or by how their names begin if they end in `*`.
const CALLS: &[(&str, Answerer)] = &[
    ("adjtimex", |live, _| live.ask_or_refuse(timex::ask)),
    ("cpu_dma_latency", |live, _| {
        live.ask_or_refuse(cpu_latency::wanted)
    }),
    ("cuD*", |live, call| live.ask_or_refuse(|| cuda::ask(call))),
    ("cuInit", |live, call| {
        live.ask_or_refuse(|| cuda::ask(call))
    }),
    ("ethtool_*", |live, call| {
        live.ask_or_refuse(|| ethtool::ask(call))
    }),
    ("home_file", |live, call| {
        live.ask_or_refuse(|| user_files::file(call))
    }),
    ("hosts_lookup", |live, call| {
        live.ask_or_refuse(|| user_files::hosts(call))
    }),
    ("ibv_*", |live, call| {
        live.ask_or_refuse(|| verbs::ask(call))
    }),
    ("interrupt_spread", |live, _| interrupt_spread(live)),
    ("job_process", |live, _| Ok(job_process_named(live))),
    ("kernel_log", |live, _| match &live.root {
        Some(root) => kernel_log::ask_copy(root),
        None => kernel_log::ask(),
    }),
    ("nccl_*", nccl),
    ("nvml_*", |live, call| {
        live.ask_or_refuse(|| nvml::ask(call))
    }),
    ("process_*", |live, call| {
        live.ask_or_refuse(|| job_process::ask(call))
    }),
    ("processes", |live, _| live.ask_or_refuse(processes::ask)),
    ("running_commands", |live, call| {
        live.ask_or_refuse(|| daemons::running(call))
    }),
];

impl Live {
    /// Asks the machine; of a copied tree there is nothing to ask.
    fn ask_or_refuse(
        &self,
        ask: impl FnOnce() -> Result<Answer, Refusal>,
    ) -> Result<Answer, Refusal> {
        match self.root {
            Some(_) => Err(Refusal::NotRecorded),
            None => ask(),
        }
    }
}

/// Answers a call.
pub(super) fn answer(live: &Live, call: &Call) -> Result<Answer, Refusal> {
    let matches = |name: &str| match name.strip_suffix('*') {
        Some(prefix) => call.name.starts_with(prefix),
        None => *name == *call.name,
    };
    match CALLS.iter().find(|(name, _)| matches(name)) {
        Some((_, answer)) => answer(live, call),
        None => live.ask_or_refuse(|| {
            Err(Refusal::NotAsked(
                format!("unknown call {}", call.name).into(),
            ))
        }),
    }
}

/// Which process the command line names, 0 for none: in a tree none can be.
fn job_process_named(live: &Live) -> Answer {
    Answer::Value(Arc::new(live.job.unwrap_or(0).into()))
}

fn nccl(live: &Live, call: &Call) -> Result<Answer, Refusal> {
    match (&live.root, &live.nccl) {
        (Some(_), Some(named)) if &*call.name == "nccl_libraries" => Ok(nccl_files::named(named)),
        _ => live.ask_or_refuse(|| nccl_files::ask(call, live.nccl.as_deref())),
    }
}

fn interrupt_spread(live: &Live) -> Result<Answer, Refusal> {
    let root = live.root.as_ref();
    interrupts::spread(root).map_err(|refusal| match refusal {
        Refusal::Errno(_) if root.is_some() => Refusal::NotRecorded,
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::CALLS;

    #[test]
    fn no_call_hides_another() {
        for (at, (name, _)) in CALLS.iter().enumerate() {
            let prefix = name.strip_suffix('*');
            let hidden = CALLS[at + 1..]
                .iter()
                .find(|(later, _)| prefix.map_or(later == name, |p| later.starts_with(p)));
            assert!(
                hidden.is_none(),
                "{name} hides {hidden:?}",
                hidden = hidden.map(|h| h.0)
            );
        }
    }
}
