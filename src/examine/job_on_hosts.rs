//! A running job on several nodes: each looks at its own ranks, all at about the same time, and the looks are judged as one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::budget::ClusterMemory;
use super::hosts::packed_part;
use super::live_job::{AskRas, DUMPING};
use super::many::work_in_order;
use super::sink::Sink;
use super::unusable::BadInput;
use crate::cluster::ssh::RemoteCommand;
use crate::live::worker::Progress;
use crate::live::{clock, command};
use crate::nodeset;
use crate::probe::ranks;
use crate::sentence::shell;
use crate::source::recording::Recording;
use crate::source::wire::{self, Header, Line, ProbeEnd};
use crate::source::{Answer, Refusal};

/// Time for a login, and for the questions beside the pause.
const ASKING: Duration = Duration::from_secs(60);

/// How a job's nodes are asked.
#[derive(Clone, Debug)]
pub struct JobOnHosts {
    /// Their names.
    pub names: Vec<String>,
    /// The words of the command that reaches a host.
    pub ssh: Vec<String>,
    /// The doctor on the other side, as its shell reads it.
    pub doctor: String,
    /// The pause between the two looks.
    pub interval: Duration,
    /// Whether NCCL's RAS is asked: on the first of them, whose process answers for all.
    pub ras: Option<AskRas>,
    /// The py-spy of each node that reads where the ranks' Python programs stand.
    pub py_spy: Option<PathBuf>,
    /// Whether the flight recorders of the ranks are asked for their dumps.
    pub dumps: bool,
}

/// What each node gave: the recording of its looks, or one that says why there is none. All are asked at once, so that the
/// looks are of the same moment.
pub fn gather(request: &JobOnHosts, sink: &dyn Sink) -> Vec<Recording> {
    let of = request.names.len() as u64;
    let memory = ClusterMemory::default();
    let mut command = format!(
        "{} job --interval {} --no-redact --record=-",
        request.doctor,
        request.interval.as_secs_f64()
    );
    if let Some(py_spy) = &request.py_spy {
        command.push_str(&format!(
            " --stacks={}",
            shell::quoted(&py_spy.to_string_lossy())
        ));
    }
    let mut deadline = request.interval + ASKING;
    if request.dumps {
        command.push_str(" --dump");
        deadline += DUMPING;
    }
    let remote = RemoteCommand {
        ssh: request.ssh.clone(),
        command,
        deadline,
        max_output: memory.message(of),
    };
    let done = AtomicU64::new(0);
    let ask = |at: usize| {
        let name = &request.names[at];
        let mut of_this = remote.clone();
        if let Some(how) = request.ras.filter(|_| at == 0) {
            of_this.command.push_str(match how {
                AskRas::WhereSafe => " --ras",
                AskRas::Anyway => " --ras=anyway",
            });
            of_this.deadline += request.interval;
        }
        let given = of_this.run(name).map_err(|why| why.to_string());
        let (count, what) = (done.fetch_add(1, Ordering::Relaxed) + 1, "hosts done");
        sink.progress(Progress::Counted { count, of, what });
        given.and_then(|bytes| {
            let recording =
                Recording::read_within(packed_part(&bytes), Path::new(name), memory.of_each());
            recording.map_err(|error| format!("its output is not a recording: {error}"))
        })
    };
    let mut all = Vec::with_capacity(request.names.len());
    work_in_order(
        request.names.len(),
        request.names.len(),
        ask,
        |at, given| {
            all.push(given.unwrap_or_else(|why| without_answer(&request.names[at], why)));
        },
    );
    sink.progress(Progress::Done);
    all
}

/// The recording of a node that gave none.
fn without_answer(name: &str, why: String) -> Recording {
    let mut recording = Recording::new(Header {
        version: wire::VERSION.to_owned(),
        node: name.to_owned(),
        utc: clock::utc_now(),
        log: true,
        ..Header::default()
    });
    recording.add(Line::Ended(ProbeEnd {
        probe: ranks::PROBE.name.into(),
        how: why.into(),
        at: 0,
    }));
    recording.end();
    recording
}

/// The nodes of a running job of Slurm, as squeue(1) lists them.
///
/// # Errors
///
/// There is no squeue, or no such job that runs.
pub fn nodes_of_slurm_job(job: &str) -> Result<Vec<String>, BadInput> {
    let argv = [
        "squeue",
        "--noheader",
        "--states=RUNNING,SUSPENDED,COMPLETING",
        "--format=%N",
        "--jobs",
        job,
    ];
    let argv: Vec<_> = argv.into_iter().map(Into::into).collect();
    let failed =
        |why: String| BadInput(format!("--slurm {job}: {why}; name its nodes with --hosts"));
    let list = match command::run(&argv) {
        Ok(Answer::Text(text)) => text,
        Ok(_) => return Err(failed("squeue's answer is no text".to_owned())),
        Err(Refusal::CommandMissing) => return Err(failed("no squeue here".to_owned())),
        Err(refusal) => return Err(failed(format!("squeue: {refusal}"))),
    };
    let mut names = Vec::new();
    for line in list.split_whitespace() {
        let found = nodeset::expand(line).map_err(|why| failed(why.to_string()))?;
        names.extend(
            found
                .into_iter()
                .filter(|name| !names.contains(name))
                .collect::<Vec<_>>(),
        );
    }
    match names.is_empty() {
        true => Err(failed("it has no nodes now".to_owned())),
        false => Ok(names),
    }
}
