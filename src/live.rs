//! The machine itself. The only code that touches the system, and the only `unsafe`.
//!
//! Runs inside a probe's child process: whatever hangs or crashes here costs replies, never the doctor.

mod beegfs_log;
pub mod command;
mod confine;
pub mod cpu_latency;
pub mod cuda;
pub mod daemons;
pub mod dcb;
pub mod element;
pub mod ethtool;
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
pub mod pages;
pub mod processes;
pub mod routes;
pub mod source_address;
pub mod tcp_info;
pub mod timex;
pub mod user_files;
pub mod verbs;
pub mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::source::{Answer, Micros, Question, Refusal, Reply, Source};

/// Reads `CLOCK_BOOTTIME`, in nanoseconds: it counts suspended time, as uptime does.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

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
        boottime_ns().saturating_sub(self.started_ns) / 1000
    }

    fn said(&self, question: &Question) -> Result<Answer, Refusal> {
        if let (Some(_), Some(named), Question::Call(call)) = (&self.root, &self.nccl, question)
            && &*call.name == "nccl_libraries"
        {
            return Ok(nccl_files::named(named));
        }
        if let Question::Call(call) = question
            && &*call.name == "job_process"
        {
            // Which process was named on the command line, 0 for none: in a tree none can be.
            return Ok(Answer::Value(Arc::new(self.job.unwrap_or(0).into())));
        }
        if let (Some(root), Question::Call(call)) = (&self.root, question)
            && &*call.name == "kernel_log"
        {
            return kernel_log::ask_copy(root);
        }
        if let Question::Call(call) = question
            && &*call.name == "interrupt_spread"
        {
            return interrupts::spread(self.root.as_ref()).map_err(|refusal| match refusal {
                Refusal::Errno(_) if self.root.is_some() => Refusal::NotRecorded,
                other => other,
            });
        }
        if matches!(question, Question::Bench(_)) && !self.bench {
            let only = "it is measured by rdma-doctor bench only";
            return Err(Refusal::NotAsked(only.into()));
        }
        if let Some(root) = &self.root {
            // A copied tree need not hold everything: what is not there is not known to be absent.
            return match files::ask(Some(root), question) {
                Some(Err(Refusal::Errno(
                    crate::source::Errno::ENOENT | crate::source::Errno::ENOTDIR,
                )))
                | None => Err(Refusal::NotRecorded),
                Some(said) => said,
            };
        }
        if let Some(said) = files::ask(None, question) {
            return said;
        }
        match question {
            Question::Env(prefixes) => Ok(environment(prefixes)),
            Question::Run(argv) => command::run(argv),
            Question::Netlink(call) if &*call.name == "route/getdcb" => dcb::ask(call),
            Question::Netlink(call)
                if matches!(&*call.name, "route/getroute" | "route/getrule") =>
            {
                routes::ask(call)
            }
            Question::Netlink(call) => netlink::ask(call),
            Question::Call(call) if call.name.starts_with("ethtool_") => ethtool::ask(call),
            Question::Call(call) if call.name.starts_with("nccl_") => {
                nccl_files::ask(call, self.nccl.as_deref())
            }
            Question::Call(call) if call.name.starts_with("ibv_") => verbs::ask(call),
            Question::Call(call) if call.name.starts_with("cuD") || &*call.name == "cuInit" => {
                cuda::ask(call)
            }
            Question::Bench(call) if self.bench && &*call.name == "p2p" => cuda::copy(call),
            Question::Call(call) if call.name.starts_with("nvml_") => nvml::ask(call),
            Question::Call(call) if &*call.name == "running_commands" => daemons::running(call),
            Question::Call(call) if &*call.name == "cpu_dma_latency" => cpu_latency::wanted(),
            Question::Call(call) if &*call.name == "home_file" => user_files::file(call),
            Question::Call(call) if &*call.name == "hosts_lookup" => user_files::hosts(call),
            Question::Call(call) if call.name.starts_with("process_") => job_process::ask(call),
            Question::Call(call) if &*call.name == "processes" => processes::ask(),
            Question::Call(call) if &*call.name == "kernel_log" => kernel_log::ask(),
            Question::Call(call) if &*call.name == "adjtimex" => timex::ask(),
            Question::Call(call) => Err(Refusal::NotAsked(
                format!("unknown call {}", call.name).into(),
            )),
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
        let said = self.said(question);
        Reply {
            at: self.now(),
            said,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment is part of the machine"
)]
fn variables(is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        })
        .filter(move |(name, _)| is_wanted(name))
}

fn environment(prefixes: &[Arc<str>]) -> Answer {
    let vars: serde_json::Map<String, serde_json::Value> =
        variables(|name| prefixes.iter().any(|p| name.starts_with(&**p)))
            .map(|(name, value)| (name, value.into()))
            .collect();
    Answer::Value(Arc::new(vars.into()))
}

/// The variables of NCCL's in this process's environment, by their names.
pub fn variables_of_nccl() -> Vec<(String, String)> {
    let mut found: Vec<_> = variables(|name| name.starts_with("NCCL_")).collect();
    found.sort_unstable();
    found
}

/// The name of this node, for a recording's header.
pub fn node_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// A variable of the environment that tells this process what to do: who launched it, which key it has. What a machine's environment holds for jobs is
/// asked by a question instead.
#[expect(clippy::disallowed_methods, reason = "its own environment")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The time now, RFC 3339 in UTC, for a recording's header.
#[expect(
    clippy::disallowed_methods,
    reason = "a recording says when it was made"
)]
pub fn utc_now() -> String {
    humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string()
}

/// The time now, in nanoseconds since 1970; 0 where the clock is before that.
#[expect(
    clippy::disallowed_methods,
    reason = "two nodes compare what time it is"
)]
pub fn wall_clock() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}

/// A number that no other run has, below 2^53, which JSON's readers keep whole; 0 where the kernel gives no random numbers.
pub fn number_of_run() -> u64 {
    let bytes = random_bytes().unwrap_or_default();
    u64::from_be_bytes([0, 0, 0, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]])
}

/// Lets this process have as many files open as it may be allowed.
pub fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it fails, fewer nodes are heard, which are named.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// A bare copy of this process's own executable path, to start probes with.
pub fn own_executable() -> PathBuf {
    // The link names the file even after it was replaced by a newer one, and works in a chroot with /proc.
    PathBuf::from("/proc/self/exe")
}

/// Ends this process, and what it started: the process that started it is gone.
pub fn end_with_group() -> ! {
    // Started by hand, the process may not lead its group: then it ends alone.
    let group = rustix::process::getpgrp();
    if group == rustix::process::getpid() {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    std::process::exit(i32::from(crate::exit::Exit::Internal.code()));
}

/// Sixteen bytes that nobody can guess, for the key of a recording's pseudonyms.
///
/// # Errors
///
/// The kernel has no generator (before Linux 3.17), or it gave fewer bytes.
pub fn random_bytes() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if got < bytes.len() {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(bytes)
    }
}

/// The names of the user who runs the doctor, which a recording must not tell.
#[expect(
    clippy::disallowed_methods,
    reason = "what is looked for in order to be redacted"
)]
pub fn user_names() -> Vec<String> {
    let names = ["USER", "LOGNAME", "SUDO_USER"]
        .into_iter()
        .filter_map(|v| std::env::var(v).ok());
    let mut names: Vec<String> = names.filter(|n| n.len() > 1 && n != "root").collect();
    names.dedup();
    names
}
