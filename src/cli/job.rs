//! `rdma-doctor job`: from what ranks recorded of their collectives to the rank that a job waits for.

use std::path::PathBuf;

use clap::Args;

use super::judging::JudgeArgs;
use super::log::{self, LogArgs};
use super::{SelectArgs, output_file};
use crate::examine::budget::Foreign;
use crate::exit::Exit;

/// Say which rank a job that hangs waits for. Nothing is asked of the job: only files are read.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Dumps of PyTorch's flight recorder (pickle or JSON), outputs of ncclras (text or JSON), and logs of one job; a directory for all in it. Two dumps of a rank, or two outputs of ncclras, show whether the job moves
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
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
    pub(super) fn foreign(&self) -> Foreign {
        Foreign::default()
    }

    /// The same question as that of a log: both read all that a run left.
    fn as_log(&self) -> LogArgs {
        LogArgs {
            files: self.files.clone(),
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
    log::run(&args.as_log())
}
