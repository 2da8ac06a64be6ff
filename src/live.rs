//! The machine itself. The only code that asks it, and the only `unsafe`.
//!
//! Questions are answered inside of a child process ([`worker`]): whatever hangs or crashes there costs replies, never the doctor.

mod beegfs_log;
mod c_text;
pub mod clock;
pub mod command;
mod confine;
pub mod cpu_latency;
pub mod cuda;
pub mod daemons;
pub mod dcb;
pub mod descendants;
pub mod element;
pub mod environment;
pub mod ethtool;
pub mod evidence;
pub mod failure;
pub mod files;
pub mod interrupts;
pub mod job_process;
pub mod kernel_log;
pub mod library_process;
pub mod lifeline;
pub mod log;
pub mod memory;
pub mod nccl;
mod nccl_files;
pub mod netlink;
pub mod nvml;
pub mod own_process;
pub mod pages;
mod privileges;
pub mod processes;
pub mod random;
mod recording_file;
mod rehearsal;
pub mod routes;
pub mod source_address;
pub mod tcp_info;
pub mod timex;
mod traffic_control;
pub mod trusted;
pub mod user_files;
pub mod verbs;
pub mod worker;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::source::question::Call;
use crate::source::{Answer, Errno, Micros, Question, Refusal, Reply, Source};

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
    ("name_lookup", |live, call| {
        live.ask_or_refuse(|| user_files::lookup(call))
    }),
    ("nccl_*", nccl),
    ("nvml_*", |live, call| {
        live.ask_or_refuse(|| nvml::ask(call))
    }),
    ("process_*", |live, call| {
        live.ask_or_refuse(|| job_process::ask(call))
    }),
    ("processes", |live, _| live.ask_or_refuse(processes::ask)),
    ("rehearse_*", |live, call| {
        live.ask_or_refuse(|| rehearsal::ask(call))
    }),
    ("running_commands", |live, call| {
        live.ask_or_refuse(|| daemons::running(call))
    }),
];

/// The machine that this process runs on, or a directory that holds copies of its files.
pub struct Live {
    started_ns: u64,
    sample: Option<Duration>,
    job: Option<u32>,
    root: Option<files::Root>,
    nccl: Option<String>,
    bench: bool,
}

impl Live {
    /// The machine. Times count from `started_ns` of `CLOCK_BOOTTIME`; with `sample`, counters are read twice; `job` is the process
    /// that was named with `--as`.
    pub fn machine(started_ns: u64, sample: Option<Duration>, job: Option<u32>) -> Self {
        Live {
            started_ns,
            sample,
            job,
            root: None,
            nccl: None,
            bench: false,
        }
    }

    /// A directory that holds `sys/`, `proc/`, `etc/`: files are asked there, all else is *not recorded*.
    pub fn tree(started_ns: u64, root: &Path) -> std::io::Result<Self> {
        Ok(Live {
            started_ns,
            sample: None,
            job: None,
            root: Some(files::Root::open(root)?),
            nccl: None,
            bench: false,
        })
    }

    /// The machine, with leave to measure: a person asked for a benchmark.
    pub fn benchmark(started_ns: u64) -> Self {
        Live {
            bench: true,
            ..Live::machine(started_ns, None, None)
        }
    }

    /// The same, with the NCCL library, or its version, that a person named.
    pub fn with_nccl(self, nccl: Option<String>) -> Self {
        Live { nccl, ..self }
    }

    fn now(&self) -> Micros {
        clock::boottime_ns().saturating_sub(self.started_ns) / 1000
    }

    fn answer(&self, question: &Question) -> Result<Answer, Refusal> {
        if matches!(question, Question::Bench(_)) && !self.bench {
            let only = "it is measured by rdma-doctor bench only";
            return Err(Refusal::NotAsked(only.into()));
        }
        if let Question::Call(call) = question {
            return answer_call(self, call);
        }
        if let Some(root) = &self.root {
            // A copied tree need not hold everything: what is not there is not known to be absent.
            return match files::ask(Some(root), question) {
                Some(Err(Refusal::Errno(Errno::ENOENT | Errno::ENOTDIR))) | None => {
                    Err(Refusal::NotRecorded)
                }
                Some(said) => said,
            };
        }
        if let Some(said) = files::ask(None, question) {
            return said;
        }
        match question {
            Question::Env(prefixes) => Ok(environment::with_prefixes(prefixes)),
            Question::Run(argv) => command::run(argv),
            Question::Netlink(call) => match &*call.name {
                "route/getdcb" => dcb::ask(call),
                "route/getroute"
                | "route/getroute-exceptions"
                | "route/getrule"
                | "route/getneigh" => routes::ask(call),
                "route/getqdisc" | "route/gettclass" | "route/gettfilter" => {
                    traffic_control::ask(call)
                }
                _ => netlink::ask(call),
            },
            Question::Bench(call) if &*call.name == "p2p" => cuda::copy(call),
            Question::Wait(_) => match self.sample {
                Some(pause) => {
                    std::thread::sleep(pause);
                    Ok(Answer::Value(Arc::new(pause.as_secs_f64().into())))
                }
                None => Err(Refusal::NotAsked(
                    "no sample was asked for (--sample SECONDS)".into(),
                )),
            },
            // The rest are questions about files, answered above.
            _ => Err(Refusal::NotAsked(
                "no such question on a live machine".into(),
            )),
        }
    }
}

impl Source for Live {
    fn ask(&self, question: &Question) -> Reply {
        let said = self.answer(question);
        Reply {
            at: self.now(),
            said,
        }
    }
}

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
fn answer_call(live: &Live, call: &Call) -> Result<Answer, Refusal> {
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
