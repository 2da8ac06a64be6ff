//! A running job on this node: how it is recorded, with what its ranks left in files.

use std::path::PathBuf;
use std::time::Duration;

use super::recorded_input::read_logs;
use super::sink::Sink;
use super::unusable::BadInput;
use serde_json::{Value, json};

use crate::fact::{Facts, Subject, live_job};
use crate::left_out::LeftOut;
use crate::live::worker::{self, Plan};
use crate::live::{job_process, log, ras};
use crate::probe::{OF_JOBS, nccl_log, ranks};
use crate::source::recording::Recording;
use crate::source::wire::{Header, Line};
use crate::source::{Answer, Reply};

/// Time for the questions beside the pause between the two looks.
const ASKING: Duration = Duration::from_secs(60);

/// A running job on this node.
#[derive(Clone, Debug)]
pub struct LiveJobRequest {
    /// Its processes, or those above them; all ranks of the node where there is none.
    pub pids: Vec<u32>,
    /// The pause between the two looks.
    pub interval: Duration,
    /// Dumps, outputs and logs of the job.
    pub files: Vec<PathBuf>,
    /// Whether NCCL's RAS is asked.
    pub ras: Option<AskRas>,
}

/// When NCCL's RAS is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskRas {
    /// Where that is not known to crash a process of the job.
    WhereSafe,
    /// Whatever the version.
    Anyway,
}

/// The first version of NCCL whose RAS can be asked while ranks are missing (nccl#1762).
const SAFE: [u64; 3] = [2, 29, 2];

/// Looks at the job twice, and reads the files. It is a recording of a log: nothing else is asked of
/// the node.
///
/// # Errors
///
/// There is no such process, or a file cannot be read.
pub fn record(request: &LiveJobRequest, sink: &dyn Sink) -> anyhow::Result<Recording> {
    if let Some(pid) = request.pids.iter().find(|pid| !job_process::exists(**pid)) {
        return Err(BadInput(format!("{pid}: there is no such process")).into());
    }
    let plan = Plan {
        root: None,
        sample: Some(request.interval),
        nccl: None,
        job: None,
        ranks: request.pids.clone(),
        deadline: request.interval + ASKING,
        probes: OF_JOBS
            .iter()
            .map(|probe| (probe.name, probe.budget))
            .collect(),
        program: None,
    };
    let seen = worker::record(&plan, |event| sink.progress(event));
    let mut whole = if request.files.is_empty() {
        let mut none = Recording::new(seen.header.clone());
        let no_files = json!({ "files": [] });
        none.add(Line::of(nccl_log::NAME, nccl_log::files(), &no_files, 0));
        none
    } else {
        read_logs(&request.files, None)?
    };
    if let Some(how) = request.ras {
        let found = match may_be_asked(&seen, how) {
            Ok(()) => ask_ras(request.interval),
            Err(why) => FoundRas::without(why),
        };
        whole = found.beside(&whole);
    }
    whole.header = Header {
        log: true,
        ..seen.header.clone()
    };
    for line in seen.to_lines() {
        whole.add(line);
    }
    whole.end();
    Ok(whole)
}

/// Whether RAS may be asked, by the version that the ranks have mapped; else why not.
fn may_be_asked(seen: &Recording, how: AskRas) -> Result<(), String> {
    let mut facts = Facts::new();
    ranks::establish([seen], &mut facts);
    let job = facts.all(Subject::LiveJob).next();
    let version = job.and_then(|job| facts.known(job, live_job::NCCL_VERSION));
    let numbers = version.as_deref().map(numbers_of);
    match (numbers, how) {
        (_, AskRas::Anyway) => Ok(()),
        (Some(numbers), _) if numbers.len() == 3 && numbers.as_slice() >= SAFE.as_slice() => Ok(()),
        (Some(numbers), _) if numbers.len() == 3 => Err(format!(
            "in NCCL {} the question can crash a process of a job whose ranks are missing or still initialise (fixed in 2.29.2); --ras=anyway asks",
            version.unwrap_or_default()
        )),
        _ => Err("which NCCL the ranks have mapped is not known, and before 2.29.2 the question can crash a process of the job; --ras=anyway asks".to_owned()),
    }
}

fn numbers_of(version: &str) -> Vec<u64> {
    let parts = version.split(['.', '+', '-']).take(3);
    parts.map_while(|part| part.parse().ok()).collect()
}

/// What RAS said, as files of a recording.
#[derive(Default)]
struct FoundRas {
    names: Vec<Value>,
    lines: Vec<Line>,
    left_out: Vec<LeftOut>,
}

/// Two statuses, so far apart: one shows how the ranks stand, two whether they move.
fn ask_ras(pause: Duration) -> FoundRas {
    let address = ras::address();
    let mut found = FoundRas::default();
    for look in 1..=2 {
        if look == 2 {
            std::thread::sleep(pause);
        }
        match ras::status(&address) {
            Ok(bytes) => found.add(&format!("RAS at {address}, {look}"), bytes),
            Err(error) => return FoundRas::without(format!("at {address}: {error}")),
        }
    }
    found
}

impl FoundRas {
    fn without(why: String) -> Self {
        FoundRas {
            left_out: vec![LeftOut::counted(1, "status of NCCL's RAS", why)],
            ..FoundRas::default()
        }
    }

    fn add(&mut self, name: &str, status: Vec<u8>) {
        let (question, digest) = (nccl_log::file(name), log::digest(status));
        self.lines
            .push(Line::of(nccl_log::NAME, question, &digest, 0));
        self.names.push(name.into());
    }

    /// The recording of files with these among them.
    fn beside(self, files: &Recording) -> Recording {
        let mut whole = Recording::new(files.header.clone());
        for mut line in files.to_lines() {
            if let Line::Reply {
                question, reply, ..
            } = &mut line
                && *question == nccl_log::files()
            {
                self.list_in(reply);
            }
            whole.add(line);
        }
        for line in self.lines {
            whole.add(line);
        }
        whole
    }

    fn list_in(&self, reply: &mut Reply) {
        let Ok(Answer::Value(said)) = &reply.said else {
            return;
        };
        let mut said = (**said).clone();
        if let Some(files) = said.get_mut("files").and_then(Value::as_array_mut) {
            files.extend(self.names.iter().cloned());
        }
        let left_out = json!(self.left_out);
        match (
            said.get_mut("left_out").and_then(Value::as_array_mut),
            left_out,
        ) {
            (Some(all), Value::Array(more)) => all.extend(more),
            (_, left_out) => said["left_out"] = left_out,
        }
        reply.said = Ok(Answer::from(said));
    }
}
