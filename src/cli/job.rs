//! `rdma-doctor job`: from a job's processes on this node, and what ranks recorded of their collectives, to the rank that a job waits for.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::judging::JudgeArgs;
use super::log::{self, LogArgs};
use super::output::StandardError;
use super::{SelectArgs, output_file};
use crate::examine::budget::Foreign;
use crate::examine::live_job::{self, LiveJobRequest};
use crate::exit::Exit;
use crate::live;

/// Say whether the job on this node moves, and which rank it waits for. Nothing is asked of the job: /proc is read twice, or files.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Processes of the job on this node, or one above them: these are looked at twice. Without any, and without a file, all processes that a launcher made ranks. Or files: dumps of PyTorch's flight recorder (pickle or JSON), outputs of ncclras (text or JSON), and logs of one job; a directory for all in it. Two dumps of a rank, or two outputs of ncclras, show whether the job moves
    #[arg(value_name = "PID|FILE")]
    pub given: Vec<PathBuf>,
    /// How long to wait between the two looks at processes
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = super::seconds)]
    pub interval: Duration,
    /// Write what was kept of the files as a recording; a name that ends in .zst is compressed, - is standard output
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    pub record: Option<PathBuf>,
    /// In that recording, leave host names and addresses as they are
    #[arg(long, requires = "record")]
    pub no_redact: bool,
    /// Which checks are judged.
    #[command(flatten)]
    pub select: SelectArgs,
    /// How the verdict is shown, and its exit status.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

impl JobArgs {
    /// What it judges that others wrote.
    pub(super) fn foreign(&self) -> Option<Foreign> {
        self.processes().is_none().then(Foreign::default)
    }

    /// The running job that is asked about; `None` where only files are given.
    fn processes(&self) -> Option<LiveJobRequest> {
        let (mut pids, mut files) = (Vec::new(), Vec::new());
        for given in &self.given {
            // A file may have a number for its name.
            let pid = given
                .to_str()
                .filter(|_| !live::files::is_file_or_directory(given));
            match pid
                .and_then(|text| text.parse::<u32>().ok())
                .filter(|pid| *pid > 0)
            {
                Some(pid) => pids.push(pid),
                None => files.push(given.clone()),
            }
        }
        (!pids.is_empty() || files.is_empty()).then_some(LiveJobRequest {
            pids,
            interval: self.interval,
            files,
        })
    }

    /// The same question as that of a log: both read all that a run left.
    fn as_log(&self) -> LogArgs {
        LogArgs {
            files: self.given.clone(),
            with: Vec::new(),
            record: self.record.clone(),
            no_redact: self.no_redact,
            redact_key: None,
            deadline: None,
            claims: Vec::new(),
            select: self.select.clone(),
            judge: self.judge.clone(),
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// As that of `log`.
pub fn run(args: &JobArgs) -> anyhow::Result<Exit> {
    match args.processes() {
        Some(request) => log::run_over(&args.as_log(), || {
            Ok(vec![live_job::record(&request, &StandardError)?])
        }),
        None => log::run(&args.as_log()),
    }
}
