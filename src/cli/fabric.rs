//! `rdma-doctor fabric`: from what tools show of an InfiniBand fabric to its outliers.

use std::path::PathBuf;

use clap::Args;

use super::input::BadInput;
use super::judging::JudgeArgs;
use super::log::{self, LogArgs};
use super::{SelectArgs, output_file};
use crate::examine::budget::Foreign;
use crate::exit::Exit;
use crate::live::evidence;
use crate::probe::outputs::recorded::is_cabling_plan;

/// Judge an InfiniBand fabric: which link, switch or host is not like its equals. Nothing is asked of it: only files are read.
#[derive(Debug, Args)]
pub struct FabricArgs {
    /// Outputs of ibnetdiscover (also with -p), iblinkinfo, ibqueryerrors and sminfo, opensm-subnet.lst, ibdiagnet2.db_csv, taken at one time; a directory for all in it
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// A cabling plan to compare with: CSV with the columns StartDevice, StartPort, EndDevice, EndPort, as UFM's NDT plugin takes it
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Write what was kept of the files as a recording; a name that ends in .zst is compressed, - is standard output
    #[arg(long, value_name = "FILE", value_parser = output_file())]
    pub record: Option<PathBuf>,
    /// In that recording, leave names and GUIDs as they are
    #[arg(long, requires = "record")]
    pub no_redact: bool,
    /// Which checks are judged.
    #[command(flatten)]
    pub select: SelectArgs,
    /// How the verdict is shown, and its exit status.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

impl FabricArgs {
    /// What it judges that others wrote.
    pub(super) fn foreign(&self) -> Foreign {
        Foreign::default()
    }

    /// The same question as that of a log: both read all outputs of tools. The plan is one of them.
    fn as_log(&self) -> LogArgs {
        LogArgs {
            files: self.files.iter().chain(&self.plan).cloned().collect(),
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
/// The plan is none; else as those of `log`.
pub fn run(args: &FabricArgs) -> anyhow::Result<Exit> {
    if let Some(plan) = &args.plan {
        let found = evidence::read(plan).map_err(|error| BadInput::of(plan, error))?;
        if !found.texts.iter().any(|text| is_cabling_plan(&text.text)) {
            let why = "no cabling plan: no line names StartDevice, StartPort, EndDevice, EndPort";
            return Err(BadInput::of(plan, why).into());
        }
    }
    log::run(&args.as_log())
}
