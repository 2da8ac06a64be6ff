//! A running job on this node: how it is recorded, with what its ranks left in files.

use std::path::PathBuf;
use std::time::Duration;

use super::recorded_input::read_logs;
use super::sink::Sink;
use super::unusable::BadInput;
use crate::live::job_process;
use crate::live::worker::{self, Plan};
use crate::probe::{OF_JOBS, nccl_log};
use crate::source::recording::Recording;
use crate::source::wire::{Header, Line};

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
}

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
        let no_files = serde_json::json!({ "files": [] });
        none.add(Line::of(nccl_log::NAME, nccl_log::files(), &no_files, 0));
        none
    } else {
        read_logs(&request.files, None)?
    };
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
