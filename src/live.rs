//! The machine itself. The only code that asks it, and the only `unsafe`.
//!
//! Questions are answered inside of a child process ([`worker`]): whatever hangs or crashes there costs replies, never the doctor.

mod boot_settings;
mod c_text;
pub mod clock;
pub mod command;
mod confine;
pub mod cpu_latency;
pub mod cuda;
pub mod daemons;
pub mod dcb;
pub mod deadline;
pub mod descendants;
pub mod element;
pub mod environment;
pub mod ethtool;
pub mod evidence;
pub mod failure;
pub mod files;
pub mod flight_recorder;
pub mod interrupts;
pub mod job_process;
pub mod judging_child;
pub mod kernel_log;
pub mod library_process;
pub mod lifeline;
mod loader_words;
pub mod log;
pub mod memory;
pub mod nccl;
mod nccl_files;
pub mod netlink;
pub mod nvml;
mod open_below;
pub mod own_process;
mod packed;
pub mod pages;
mod path_walk;
mod peer_route;
mod places;
mod port_holder;
mod privileges;
pub mod processes;
pub mod random;
pub mod rank_process;
mod rank_sockets;
mod rank_stack;
pub mod ras;
mod recording_file;
mod rehearsal;
pub mod routes;
pub mod source_address;
pub mod start;
mod stuck;
mod system_call;
pub mod tcp_info;
pub mod timex;
mod traffic_control;
pub mod trusted;
pub mod user_files;
#[cfg(feature = "verbs")]
pub mod verbs;
pub mod worker;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::source::question::Call;
use crate::source::{Answer, Errno, Micros, Question, Refusal, Reply, Source};

/// What answers a call of the machine itself, which a tree of its files cannot answer.
type Answerer = fn(&Call) -> Result<Answer, Refusal>;

/// Why a build without libibverbs answers nothing about it.
#[cfg(not(feature = "verbs"))]
const WITHOUT_VERBS: &str = "this binary was built without the verbs feature";

/// The calls by name; one that ends in `*` is the beginning of several.
const CALLS: &[(&str, Answerer)] = &[
    ("adjtimex", |_| timex::ask()),
    ("cpu_dma_latency", |_| cpu_latency::wanted()),
    ("cuD*", cuda::ask),
    ("cuInit", cuda::ask),
    ("ethtool_*", ethtool::ask),
    ("hosts_lookup", user_files::hosts),
    #[cfg(feature = "verbs")]
    ("ibv_*", verbs::ask),
    #[cfg(not(feature = "verbs"))]
    ("ibv_*", |_| Err(Refusal::not_asked(WITHOUT_VERBS))),
    ("name_lookup", user_files::lookup),
    ("nvml_*", nvml::ask),
    ("port_holder", port_holder::ask),
    ("process_*", job_process::ask),
    ("peer_route", peer_route::ask),
    ("processes", |_| processes::ask()),
    ("rank_*", rank_process::ask),
    ("rehearse_*", rehearsal::ask),
    ("running_commands", daemons::running),
];

/// Calls that this program answers itself, from files and with system calls that read: a process is the same after them.
const OWN_READING: &[&str] = &[
    "adjtimex",
    "boot_settings",
    "cpu_dma_latency",
    "earlier_run",
    "ethtool_*",
    "home_file",
    "hosts_lookup",
    "interrupt_spread",
    "job_process",
    "kernel_log",
    "named_file",
    "nccl_*",
    "peer_route",
    "port_holder",
    "process_*",
    "processes",
    "rank_named",
    "rank_processes",
    "rank_server",
    "rank_sockets",
    "rank_threads",
    "running_commands",
];

/// Whether a process that got this reply may not be the same as before: a library's code ran in it, it confined itself, or a command
/// that it started may have left something.
pub fn changes_process(question: &Question, reply: &Reply) -> bool {
    if matches!(
        reply.said,
        Err(Refusal::NotAsked(_) | Refusal::CommandMissing)
    ) {
        return false;
    }
    match question {
        Question::Call(call) => !OWN_READING.iter().any(|name| is_named(call, name)),
        Question::Run(_) | Question::Bench(_) => true,
        _ => false,
    }
}

/// Whether a call has this name; one that ends in `*` is the beginning of several.
fn is_named(call: &Call, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(prefix) => call.name.starts_with(prefix),
        None => *name == *call.name,
    }
}

/// The machine that this process runs on, or a directory that holds copies of its files.
#[derive(Default)]
pub struct Live {
    started_ns: u64,
    sample: Option<Duration>,
    job: Option<u32>,
    root: Option<files::Root>,
    nccl: Option<String>,
    bench: bool,
    ranks: Vec<u32>,
    py_spy: Option<PathBuf>,
}

impl Live {
    /// The machine. Times count from `started_ns` of `CLOCK_BOOTTIME`; with `sample`, counters are read twice; `job` is the process
    /// that was named with `--as`.
    pub fn machine(started_ns: u64, sample: Option<Duration>, job: Option<u32>) -> Self {
        Live {
            started_ns,
            sample,
            job,
            ..Live::default()
        }
    }

    /// A directory that holds `sys/`, `proc/`, `etc/`: files are asked there, all else is *not recorded*.
    pub fn tree(started_ns: u64, root: &Path) -> std::io::Result<Self> {
        Ok(Live {
            started_ns,
            root: Some(files::Root::open(root)?),
            ..Live::default()
        })
    }

    /// The machine, with leave to measure: a person asked for a benchmark.
    pub fn benchmark(started_ns: u64) -> Self {
        Live {
            started_ns,
            bench: true,
            ..Live::default()
        }
    }

    /// The same, with the NCCL library, or its version, that a person named.
    pub fn with_nccl(self, nccl: Option<String>) -> Self {
        Live { nccl, ..self }
    }

    /// The same, with the processes of a running job's ranks that a person named, and the py-spy that reads their stacks.
    pub fn with_ranks(self, ranks: Vec<u32>, py_spy: Option<PathBuf>) -> Self {
        Live {
            ranks,
            py_spy,
            ..self
        }
    }

    fn now(&self) -> Micros {
        clock::boottime_ns().saturating_sub(self.started_ns) / 1000
    }

    fn answer(&self, question: &Question) -> Result<Answer, Refusal> {
        if matches!(question, Question::Bench(_)) && !self.bench {
            let only = "it is measured by rdma-doctor bench only";
            return Err(Refusal::not_asked(only));
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
                | "route/getroute-hosts"
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
                    Ok(Answer::from(Value::from(pause.as_secs_f64())))
                }
                None => Err(Refusal::not_asked(
                    "no sample was asked for (--sample SECONDS)",
                )),
            },
            // The rest are questions about files, answered above.
            _ => Err(Refusal::not_asked("no such question on a live machine")),
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

/// Answers a call: of the machine, or of the directory that is examined in place of it.
fn answer_call(live: &Live, call: &Call) -> Result<Answer, Refusal> {
    let root = live.root.as_ref();
    match (&*call.name, root) {
        // In a tree the command line can name no process.
        ("job_process", _) => return Ok(Answer::from(Value::from(live.job.unwrap_or(0)))),
        ("rank_named", None) => {
            return Ok(rank_process::named(&live.ranks, live.py_spy.is_some()));
        }
        ("rank_stack", None) => {
            let pid = call.number("pid").and_then(|pid| u32::try_from(pid).ok());
            let pid = pid.ok_or_else(|| Refusal::not_asked("no pid"))?;
            return rank_stack::ask(pid, live.py_spy.as_deref());
        }
        ("kernel_log", Some(root)) => return kernel_log::ask_copy(root),
        ("kernel_log", None) => return kernel_log::ask(),
        ("interrupt_spread", _) => {
            return interrupts::spread(root).map_err(|refusal| match refusal {
                Refusal::Errno(_) if root.is_some() => Refusal::NotRecorded,
                other => other,
            });
        }
        ("boot_settings", root) => return boot_settings::ask(root, call),
        ("earlier_run", None) => return stuck::ask(live.started_ns),
        ("named_file", root) => return user_files::named(call, root, live.job),
        ("home_file", None) => return user_files::file(call, live.job),
        ("nccl_libraries", Some(_)) => {
            let named = live.nccl.as_deref().map(nccl_files::named);
            return named.ok_or(Refusal::NotRecorded);
        }
        (_, Some(_)) => return Err(Refusal::NotRecorded),
        (name, None) if name.starts_with("nccl_") => {
            return nccl_files::ask(call, live.nccl.as_deref());
        }
        _ => {}
    }
    match CALLS.iter().find(|(name, _)| is_named(call, name)) {
        Some((_, answer)) => answer(call),
        None => Err(Refusal::unknown_call(&call.name)),
    }
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
